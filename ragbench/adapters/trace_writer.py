"""Traces of applications in LangChain and LlamaIndex, for `dataset: {type: traces}`."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

from ragbench import secrets
from ragbench.errors import MissingExtra
from ragbench.redaction import redactor

Json = Any
"""What an application hands from step to step, of whatever type."""
_THREADS = ("session_id", "thread_id", "conversation_id")
_ASKED = ("str_or_query_bundle", "query_bundle", "query", "message", "prompt", "messages", "input")


@dataclass(slots=True)
class _Open:
    """A step that has begun."""

    trace: str
    parent: str | None
    name: str
    kind: str
    attributes: dict[str, Json]
    started: float = field(default_factory=time.time)


class TraceWriter:
    """Writes what an application does into a file, a line per step, as OpenInference spans.

    Steps are appended as soon as they end, from any thread. Values of environment variables that
    are secrets by their names are not written; questions, passages and answers are.

    Example:
        >>> import tempfile
        >>> writer = TraceWriter(Path(tempfile.mkdtemp()) / "traces.jsonl")
        >>> writer.begin(1, None, "app", "CHAIN", {"input.value": "Which moon is hot?"})
        >>> writer.end(1, {"output.value": "Io."})
        >>> json.loads(writer.path.read_text())["attributes"]["output.value"]
        'Io.'
    """

    def __init__(self, path: str | os.PathLike[str], *, session: str | None = None) -> None:
        """`session` names the conversation that all traces are turns of, where it is one."""
        self.path, self.session = Path(path), session
        self._lock, self._open = threading.Lock(), dict[str, _Open]()
        self._clean = redactor(secrets.of_process(os.environ))

    def langchain(self) -> Any:
        """Return a callback handler: `chain.invoke(..., config={"callbacks": [handler]})`.

        `metadata` of the config may have `session_id` or `thread_id`, the conversation.

        Raises:
            MissingExtra: langchain-core is not installed.
        """
        try:
            from langchain_core.callbacks import BaseCallbackHandler
        except ImportError as error:
            raise MissingExtra("TraceWriter.langchain", "langchain-core", "langchain") from error
        heard = _langchain_methods(self)
        return type("TraceHandler", (BaseCallbackHandler,), heard)()

    @contextmanager
    def llama_index(self) -> Iterator[None]:
        """Write what LlamaIndex does meanwhile: `with writer.llama_index(): engine.query(...)`.

        Raises:
            MissingExtra: llama-index-core is not installed.
        """
        try:
            instrumentation = import_module("llama_index.core.instrumentation")
        except ImportError as error:
            advice = "pip install llama-index-core"
            raise MissingExtra("TraceWriter.llama_index", "llama-index", advice=advice) from error
        dispatcher, handler = instrumentation.get_dispatcher(), _LlamaSpans(self)
        dispatcher.span_handlers = [*dispatcher.span_handlers, handler]
        try:
            yield
        finally:
            dispatcher.span_handlers = [h for h in dispatcher.span_handlers if h is not handler]

    def begin(
        self, own: object, parent: object, name: str, kind: str, attributes: Mapping[str, Json]
    ) -> None:
        """Note that a step begins; one whose parent is not known is a trace of its own."""
        above = self._open.get(str(parent)) if parent is not None else None
        given = {key: value for key, value in attributes.items() if value is not None}
        with self._lock:
            self._open[str(own)] = _Open(
                trace=uuid4().hex if above is None else above.trace,
                parent=None if above is None else str(parent),
                name=name,
                kind=kind,
                attributes=given,
            )

    def end(self, own: object, attributes: Mapping[str, Json], error: object = None) -> None:
        """Write a step that has ended."""
        with self._lock:
            step = self._open.pop(str(own), None)
        if step is None:
            return
        known = {key: value for key, value in attributes.items() if value is not None}
        session = {"session.id": self.session} if self.session and step.parent is None else {}
        row = {
            "name": step.name,
            "context": {"trace_id": step.trace, "span_id": str(own)},
            "parent_id": step.parent,
            "start_time": step.started,
            "end_time": time.time(),
            "status_code": "OK" if error is None else "ERROR",
            "status_message": "" if error is None else f"{type(error).__name__}: {error}",
            "attributes": {
                "openinference.span.kind": step.kind,
                **session,
                **step.attributes,
                **known,
            },
        }
        line = self._clean(json.dumps(row, ensure_ascii=False, default=str))
        with self._lock, self.path.open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")


def _said(value: Json) -> Json:
    """An input or output as text or JSON, with messages and passages as objects."""
    return value if value is None or isinstance(value, str) else json.dumps(value, default=_plain)


def _plain(value: Json) -> Json:
    if (text := getattr(value, "page_content", None)) is not None:
        return {"page_content": text, "id": value.id, "metadata": value.metadata}
    if (content := getattr(value, "content", None)) is not None and hasattr(value, "type"):
        return {"role": value.type, "content": content}
    return str(value)


def _passages(prefix: str, found: Mapping[int, Mapping[str, Json]]) -> dict[str, Json]:
    """Attributes of passages; of none, an empty output says that nothing was found."""
    if not found:
        return {"output.value": '{"documents": []}'}
    return {
        f"{prefix}.{rank}.document.{key}": value
        for rank, each in found.items()
        for key, value in each.items()
        if value is not None
    }


def _langchain_methods(writer: TraceWriter) -> dict[str, Callable[..., None]]:
    """The methods of a callback handler by what they hear."""

    def starting(kind: str) -> Callable[..., None]:
        def start(handler: object, *given: Json, run_id: object, **told: Json) -> None:
            serialized, value = given[0], given[1] if len(given) > 1 else None
            about = told.get("metadata") or {}
            attributes = {
                "input.value": _said(told.get("inputs") or value),
                "session.id": next((about[key] for key in _THREADS if about.get(key)), None),
                "llm.model_name": about.get("ls_model_name") if kind == "LLM" else None,
            }
            name = told.get("name") or (serialized or {}).get("name") or kind.lower()
            writer.begin(run_id, told.get("parent_run_id"), name, kind, attributes)

        return start

    def end(handler: object, *given: Json, run_id: object, **told: Json) -> None:
        output = getattr(given[0], "content", given[0])  # the message of a tool
        writer.end(run_id, {"output.value": _said(output)})

    def found(handler: object, *given: Json, run_id: object, **told: Json) -> None:
        listed = {
            rank: {
                "id": getattr(each, "id", None),
                "content": each.page_content,
                "metadata": json.dumps(each.metadata, default=str) if each.metadata else None,
            }
            for rank, each in enumerate(given[0])
        }
        writer.end(run_id, _passages("retrieval.documents", listed))

    def replied(handler: object, *given: Json, run_id: object, **told: Json) -> None:
        parts = [part for row in given[0].generations for part in row]
        messages = [getattr(part, "message", None) for part in parts]
        usages = [getattr(message, "usage_metadata", None) for message in messages]
        about = [getattr(message, "response_metadata", None) or {} for message in messages]
        usage: Mapping[str, Json] = next((each for each in usages if each), {})
        named = next(
            (m for each in about if (m := each.get("model_name") or each.get("model"))), None
        )
        details = usage.get("output_token_details") or {}
        writer.end(
            run_id,
            {
                "output.value": parts[0].text if parts else None,
                "llm.model_name": named,
                "llm.token_count.prompt": usage.get("input_tokens"),
                "llm.token_count.completion": usage.get("output_tokens"),
                "llm.token_count.completion_details.reasoning": details.get("reasoning"),
            },
        )

    def failed(handler: object, *given: Json, run_id: object, **told: Json) -> None:
        writer.end(run_id, {}, error=given[0])

    kinds = {"chain": "CHAIN", "retriever": "RETRIEVER", "tool": "TOOL", "llm": "LLM"}
    heard = {f"on_{word}_start": starting(kind) for word, kind in kinds.items()}
    heard |= {f"on_{word}_error": failed for word in kinds}
    heard |= {"on_chain_end": end, "on_tool_end": end, "on_retriever_end": found}
    return {**heard, "on_chat_model_start": starting("LLM"), "on_llm_end": replied}


class _LlamaSpans:
    """A span handler of LlamaIndex: the dispatcher calls it for each method that it watches."""

    def __init__(self, writer: TraceWriter) -> None:
        self._writer = writer
        self._kinds: dict[str, str] = {}

    def span_enter(
        self,
        id_: str,
        bound_args: Json,
        instance: object = None,
        parent_id: str | None = None,
        tags: object = None,
        **more: object,
    ) -> None:
        """Note a step by what it is a method of."""
        names = {each.__name__ for each in type(instance).__mro__}
        kinds = {
            "BaseRetriever": "RETRIEVER",
            "BaseNodePostprocessor": "RERANKER",
            "BaseLLM": "LLM",
            "BaseEmbedding": "EMBEDDING",
            "BaseTool": "TOOL",
        }
        kind = next((kind for name, kind in kinds.items() if name in names), "CHAIN")
        given = bound_args.arguments
        asked = next((given[key] for key in _ASKED if given.get(key) is not None), None)
        attributes = {"input.value": _said(getattr(asked, "query_str", asked))}
        if kind == "RERANKER":
            listed = _nodes(given.get("nodes") or ())
            attributes |= _passages("reranker.input_documents", listed) if listed else {}
        if kind == "LLM":
            about = getattr(instance, "metadata", None)
            attributes["llm.model_name"] = getattr(about, "model_name", None)
        self._kinds[id_] = kind
        name = "-".join(id_.split("-")[:-5]) or id_  # ids end in a UUID, which has four hyphens
        self._writer.begin(id_, parent_id, name, kind, attributes)

    def span_exit(
        self,
        id_: str,
        bound_args: Json,
        instance: object = None,
        result: Json = None,
        **more: object,
    ) -> None:
        """Write a step with what it returned."""
        kind = self._kinds.pop(id_, "CHAIN")
        if kind in ("RETRIEVER", "RERANKER") and isinstance(result, list):
            prefix = "retrieval.documents" if kind == "RETRIEVER" else "reranker.output_documents"
            self._writer.end(id_, _passages(prefix, _nodes(result)))
            return
        text = getattr(result, "response", None) or getattr(result, "text", None) or result
        message = getattr(result, "message", None)
        usage = _usage_in_llama_index(result)
        output = message.content if message is not None else _said(text)
        self._writer.end(id_, {"output.value": output, **usage})

    def span_drop(
        self,
        id_: str,
        bound_args: Json,
        instance: object = None,
        err: BaseException | None = None,
        **more: object,
    ) -> None:
        """Write a step that failed."""
        self._kinds.pop(id_, None)
        self._writer.end(id_, {}, error=err or RuntimeError("the step was dropped"))

    def capture_propagation_context(self) -> dict[str, Json]:
        """Nothing is carried to other processes."""
        return {}

    def restore_propagation_context(self, context: Mapping[str, Json]) -> None:
        """Nothing comes from other processes."""


def _nodes(found: Json) -> dict[int, dict[str, Json]]:
    """Nodes with scores as passages: of chunks, the id is that of the chunk."""
    nodes = [(getattr(each, "node", each), getattr(each, "score", None)) for each in found]
    return {
        rank: {
            "id": node.node_id,
            "content": node.get_content(),
            "score": score,
            "metadata": json.dumps({**node.metadata, "ref_doc_id": node.ref_doc_id}, default=str),
        }
        for rank, (node, score) in enumerate(nodes)
    }


def _usage_in_llama_index(result: Json) -> dict[str, Json]:
    raw = getattr(result, "raw", None)
    usage = raw.get("usage") if isinstance(raw, Mapping) else getattr(raw, "usage", None)
    told = usage if isinstance(usage, Mapping) else getattr(usage, "__dict__", {})
    told = {**(getattr(result, "additional_kwargs", None) or {}), **told}
    return {
        "llm.token_count.prompt": told.get("prompt_tokens"),
        "llm.token_count.completion": told.get("completion_tokens"),
    }
