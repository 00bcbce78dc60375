"""Chat models and chains of LangChain as generators and apps: `type: langchain`."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any

from ragbench import llm
from ragbench.adapters import templates
from ragbench.adapters.libraries import Factory, HitReader, IdField, SyncOrAsync, resolve_client
from ragbench.errors import AdapterError, OptionError
from ragbench.generate.chat import AnswerOptions, ChatGenerator, PromptOptions, load_prompt
from ragbench.llm import ChatRequest, LangchainChat
from ragbench.llm.completions import read_text
from ragbench.llm.langchain import read_usage
from ragbench.llm.server import CallOptions
from ragbench.registry import FactoryArgs, Option, shown
from ragbench.signature import fingerprint_json
from ragbench.types import Document, Prediction, Query, ToolCall, Usage
from ragbench.types.records import add_usage


class ChainRecorder:
    """The passages, queries, tools and tokens of one answer, as callbacks of langchain tell them.

    Passages are those of the outermost retrievers: one that asks others (an ensemble, several
    queries) tells its own list, and what it asks them are formulated queries.
    """

    def __init__(self, question: str, hits: HitReader) -> None:
        self._question, self._hits = question, hits
        self._parents: dict[Any, Any] = {}
        self.retrievers: set[Any] = set()
        self.passages: dict[str, Document] = {}
        self._queries: dict[str, None] = {}
        self._calls: dict[object, ToolCall] = {}
        self._usages: list[Usage] = []

    def on_chain_start(self, *details: Any, run_id: Any, **more: Any) -> None:
        """Note which run is inside which."""
        self._parents[run_id] = more.get("parent_run_id")

    def on_retriever_start(self, serialized: Any, query: str, *, run_id: Any, **more: Any) -> None:
        """Note a retriever and its query."""
        self._parents[run_id] = more.get("parent_run_id")
        self.retrievers.add(run_id)
        if query.strip() != self._question.strip():
            self._queries[query] = None

    def on_retriever_end(self, documents: Any, *, run_id: Any, **more: Any) -> None:
        """Note the documents of a retriever, unless another one asked it."""
        parent = self._parents.get(run_id)
        while parent is not None:
            if parent in self.retrievers:
                return
            parent = self._parents.get(parent)
        self.add(documents)

    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: Any, **more: Any) -> None:
        """Note a tool and its arguments, or the text that it got."""
        self._parents[run_id] = more.get("parent_run_id")
        name = str((serialized or {}).get("name") or more.get("name") or "unknown")
        inputs = input_str if more.get("inputs") is None else more["inputs"]
        arguments = dict(inputs) if isinstance(inputs, Mapping) else {"input": inputs}
        self._calls[run_id] = ToolCall(name, arguments)

    def on_tool_end(self, output: object, *, run_id: object, **more: object) -> None:
        """Note what a tool returned."""
        content = getattr(output, "content", output)
        if run_id in self._calls and content is not None:
            text = content if isinstance(content, str) else json.dumps(content, default=str)
            self._calls[run_id] = replace(self._calls[run_id], output=text)

    def on_llm_end(self, response: Any, **more: Any) -> None:
        """Count the tokens of the replies of a model."""
        for generation in itertools.chain.from_iterable(response.generations):
            self.count(getattr(generation, "message", None))

    def add(self, documents: Sequence[Any]) -> None:
        """Take over passages, each once."""
        for document in documents:
            hit = self._hits.read_langchain(document)
            passage = Document(hit.id, hit.text or "", hit.title or "", hit.metadata)
            self.passages.setdefault(hit.id, passage)

    def count(self, message: Any) -> None:
        """Count the tokens of a model's reply; unknown where it does not say."""
        tokens = read_usage(getattr(message, "usage_metadata", None) or {})
        details = getattr(message, "response_metadata", None) or {}
        model = str(details.get("model_name") or details.get("model") or "")
        usd = llm.Prices.load().cost_usd(model, tokens)
        self._usages.append(replace(tokens, usd=usd))

    def prediction(self, answer: str) -> Prediction:
        """Return the answer with the records; None where no retriever or no tool ran."""
        passages = list(self.passages.values()) if self.passages or self.retrievers else None
        calls = tuple(self._calls.values()) or None
        return Prediction(answer, passages, self.usage, list(self._queries), tool_calls=calls)

    @property
    def usage(self) -> Usage:
        """The sum over all replies; unknown where no model ran."""
        return add_usage(self._usages) if self._usages else Usage()


def _listener(question: str, hits: HitReader) -> tuple[ChainRecorder, list[ChainRecorder]]:
    """Return what hears a chain, and the callbacks to give it; none without langchain."""
    try:
        from langchain_core.callbacks import BaseCallbackHandler
    except ImportError:  # an object that only looks like a chain
        return ChainRecorder(question, hits), []
    recorder = type("Listener", (ChainRecorder, BaseCallbackHandler), {})(question, hits)
    return recorder, [recorder]


_ANSWERS = ("answer", "output", "result", "output_text", "text")
_CONTEXTS = ("context", "source_documents", "documents", "contexts")


_DEFAULT_INPUT = {"question": "{question}", "context": "{context}"}


@dataclass(frozen=True, kw_only=True)
class ChainOptions:
    """What a chain gets, and where it has its answer."""

    input: Annotated[
        str | dict[str, Any] | None,
        Option(
            "What a chain gets, with {question}, {context}, {texts} or {contexts}; default: "
            '`{question: "{question}", context: "{context}"}`.'
        ),
    ] = None
    answer: Annotated[
        str | None, Option("Path to the answer in what a chain returns; default: the usual.")
    ] = None
    id_field: Annotated[
        str | None, Option("Metadata key with the ids of the passages of a chain.")
    ] = None


class Chain:
    """Calls a chain and reads its answer, the passages that it retrieved, and its tokens.

    Its input may name `places`. Without a path to the answer it looks for one in the output.
    """

    def __init__(
        self, target: Any, options: ChainOptions, places: Sequence[str], owner: str
    ) -> None:
        path = options.answer
        self._template = _DEFAULT_INPUT if options.input is None else options.input
        templates.check_template(self._template, places, "langchain", "input")
        self._invoke, self._id_field = SyncOrAsync(target, "invoke"), options.id_field
        self._answer = None if path is None else templates.JsonPath(path, "langchain", "answer")
        if not self._invoke:
            allowed = "an object with invoke or ainvoke"
            raise AdapterError(f"{owner}: found {shown(target)}, allowed: {allowed}")

    def ask(self, question: str, values: Mapping[str, Any]) -> Prediction:
        """Return the answer to a question.

        The contexts are what its retrievers returned, heard through callbacks; else the documents
        in its answer; None where there is neither.
        """
        recorder, callbacks = _listener(question, HitReader(self._id_field))
        given = templates.fill(self._template, {"question": question, **values})
        if self._invoke.takes("config"):
            result = self._invoke(given, config={"callbacks": callbacks})
        else:
            result = self._invoke(given)
        if not recorder.retrievers and (documents := _documents_in(result)):
            recorder.add(documents)
        return recorder.prediction(self._text(result, recorder))

    def _text(self, result: Any, recorder: ChainRecorder) -> str:
        found = result if self._answer is None else self._answer.one(result)
        if self._answer is None and isinstance(result, Mapping):
            found = next((result[key] for key in _ANSWERS if key in result), result)
        content = getattr(found, "content", found)
        if content is not found and recorder.usage == Usage():
            recorder.count(found)  # a message, of a model that tells no callbacks
        if isinstance(content, str):
            return content.strip()
        if isinstance(content, list) and content is not found:
            return read_text(content).strip()
        hint = "text, a message, or a mapping with answer; else answer: a path to it"
        raise AdapterError(f"found {shown(result)} instead of an answer, allowed: {hint}")


def _documents_in(result: Any) -> Sequence[Any]:
    """The documents that a chain returns beside its answer, under one of the usual names."""
    if not isinstance(result, Mapping):
        return ()
    for key in _CONTEXTS:
        found = result.get(key)
        if isinstance(found, list) and found and all(hasattr(d, "page_content") for d in found):
            return found
    return ()


@dataclass(frozen=True, kw_only=True)
class LangchainGeneratorOptions(PromptOptions, AnswerOptions, ChainOptions, CallOptions):
    """What a generator of langchain is made with."""

    factory: Factory = None
    args: FactoryArgs = None
    version: Annotated[str | None, Option("A word that you change when its answers change.")] = None
    retries: Annotated[
        int, Option("Retries of a chat model, for errors that may be temporary.", ge=0)
    ] = 6


class LangchainGenerator(ChatGenerator):
    """Answer by a chat model, a Runnable or a chain of langchain.

    A chat model is told the prompt, and its replies are kept; a chain gets `input` and does the
    rest itself. Where a chain retrieves, its own passages, heard through callbacks, are what its
    answers are judged by. Temperature and the like are those that the model was made with.
    """

    declares = LangchainGeneratorOptions
    is_opaque = True

    def __init__(self, *, client: Any = None, **options: Any) -> None:
        chosen = LangchainGeneratorOptions(**options)
        owner = "generator 'langchain'"
        made = resolve_client(client, chosen.factory, chosen.args, owner)
        identity = fingerprint_json([chosen.factory, chosen.args, chosen.version])
        super().__init__(
            lambda replies: LangchainChat(made, version=identity),
            load_prompt(chosen.prompt, chosen.system, "langchain"),
            ChatRequest(_name_of(made, chosen.factory), (), stop=tuple(chosen.stop or ())),
            context_tokens=chosen.context_tokens,
            limits=chosen.limits,
        )
        self._identity = identity
        self._chain: Chain | None = None
        if is_chat_model(made):
            _refuse("a chat model", chosen, ChainOptions)
            return
        _refuse("a chain", chosen, PromptOptions, AnswerOptions)
        self.prompt_hash = None  # a chain has a prompt of its own
        self._chain = Chain(made, chosen, ("question", *templates.PASSAGE_PLACES), owner)

    def signature_parts(self) -> Mapping[str, Any]:
        """Return what answers depend on besides question and passages."""
        return {**super().signature_parts(), "arguments": self._identity}

    def check(self) -> None:
        """Connect to a chat model; a chain is ready."""
        if self._chain is None:
            super().check()

    def generate_sample(
        self, query: Query, contexts: Sequence[Document], sample: int
    ) -> Prediction:
        """Answer once more; a chain does the same again."""
        if self._chain is None:
            return super().generate_sample(query, contexts, sample)
        return self._chain.ask(query.text, templates.passage_values(contexts))


def is_chat_model(target: Any) -> bool:
    """Tell a chat model, also with options bound to it or fallbacks, from a chain."""
    while (
        inner := getattr(target, "bound", None) or getattr(target, "runnable", None)
    ) is not None:
        target = inner
    return callable(getattr(target, "get_num_tokens_from_messages", None))


def _name_of(made: Any, factory: str | None) -> str:
    name = getattr(made, "model_name", None) or getattr(made, "model", None)
    return name if isinstance(name, str) else factory or type(made).__name__


def _refuse(kind: str, chosen: LangchainGeneratorOptions, *groups: type) -> None:
    for field in itertools.chain.from_iterable(map(fields, groups)):
        value = getattr(chosen, field.name)
        if value != field.default:
            raise OptionError("langchain", field.name, value, f"nothing: the object is {kind}")


class LangchainApp:
    """Answer by a chain of langchain that retrieves for itself.

    The passages that its retrievers return are heard through callbacks, so that its retrieval and
    its faithfulness are scored without a change to its code.
    """

    is_opaque = True

    def __init__(
        self,
        *,
        factory: Factory = None,
        args: FactoryArgs = None,
        input: Annotated[
            str | dict[str, Any], Option('The input: a text, or `{input: "{question}"}`.')
        ] = "{question}",
        answer: Annotated[
            str | None, Option("Path to the answer in what it returns; default: the usual.")
        ] = None,
        id_field: IdField = None,
        client: Any = None,
    ) -> None:
        owner = "app 'langchain'"
        made = resolve_client(client, factory, args, owner)
        chain = ChainOptions(input=input, answer=answer, id_field=id_field)
        self._chain = Chain(made, chain, ("question",), owner)

    def answer(self, question: str) -> Prediction:
        """Ask the chain."""
        return self._chain.ask(question, {})
