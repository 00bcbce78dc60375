"""Chat models and chains of LangChain as generators and apps: `type: langchain`."""

from __future__ import annotations

import contextlib
import itertools
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Any

from msgspec import structs

from ragbench import llm
from ragbench.adapters import templates
from ragbench.adapters.json_path import JsonPath
from ragbench.adapters.libraries import Factory, HitReader, IdField, SyncOrAsync, resolve_client
from ragbench.errors import AdapterError, OptionError
from ragbench.generate.chat import AnswerOptions, ChatGenerator, PromptOptions, load_prompt
from ragbench.llm import ChatRequest, LangchainChat
from ragbench.llm.completions import read_text
from ragbench.llm.failures import failure_of_exception
from ragbench.llm.langchain import read_usage
from ragbench.llm.limits import Limits
from ragbench.registry import FactoryArgs, Option, OptionSet, quote
from ragbench.signature import fingerprint_json
from ragbench.types import Cause, Document, Prediction, Query, ToolCall, Usage
from ragbench.types.records import add_usage


class ChainRecorder:
    """Recorder of passages, queries, tool calls and tokens of one answer, by LangChain callbacks.

    Only passages of the outermost retrievers count. A retriever that calls others (an ensemble,
    several queries) returns its own list, and its inner queries count as formulated queries.
    Without retrievers, the documents that tools return as `artifact` are the passages. LangChain
    calls the methods `on_...`; `prediction` joins the records.

    Args:
        question: Question, which is no formulated query.
        hits: Reader of the retrieved documents.

    Attributes:
        retrievers: Run ids of the retrievers that ran.
        passages: Passages by id and text, in order of retrieval: chunks may share the id of their
            document.
        artifacts: Documents that tools returned beside their text, in order.
        has_called: True once a model or a retriever was called.
    """

    def __init__(self, question: str, hits: HitReader) -> None:
        self._question, self._hits = question, hits
        self._parents: dict[Any, Any] = {}
        self.retrievers: set[Any] = set()
        self.passages: dict[tuple[str, str], Document] = {}
        self.artifacts: list[Any] = []
        self.has_called = False
        self._queries: dict[str, None] = {}
        self._calls: dict[object, ToolCall] = {}
        self._usages: list[Usage] = []

    def on_chain_start(self, *details: Any, run_id: Any, **more: Any) -> None:
        """Record the parent run of a chain."""
        self._parents[run_id] = more.get("parent_run_id")

    def on_retriever_start(self, serialized: Any, query: str, *, run_id: Any, **more: Any) -> None:
        """Record a retriever, and its query as formulated if it differs from the question.

        White space around both is ignored in this comparison; equal queries count once.
        """
        self._parents[run_id] = more.get("parent_run_id")
        self.retrievers.add(run_id)
        self.has_called = True
        if query.strip() != self._question.strip():
            self._queries[query] = None

    def on_retriever_end(self, documents: Any, *, run_id: Any, **more: Any) -> None:
        """Record the documents of a retriever, unless another retriever called it.

        A document with neither an id nor a text is an AdapterError, which LangChain logs.
        """
        # Any ancestor counts: an ensemble may call its retrievers through other chains.
        parent = self._parents.get(run_id)
        while parent is not None:
            if parent in self.retrievers:
                return
            parent = self._parents.get(parent)
        self.add(documents)

    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: Any, **more: Any) -> None:
        """Record a tool call with its arguments, or with its input text as `input`.

        A tool without a name is `unknown`.
        """
        self._parents[run_id] = more.get("parent_run_id")
        name = str((serialized or {}).get("name") or more.get("name") or "unknown")
        inputs = input_str if more.get("inputs") is None else more["inputs"]
        arguments = dict(inputs) if isinstance(inputs, Mapping) else {"input": inputs}
        self._calls[run_id] = ToolCall(name, arguments)

    def on_tool_end(self, output: object, *, run_id: object, **more: object) -> None:
        """Record the output of a tool and its documents; an output that is None stays unknown.

        Anything but text is written as JSON. If the start of the tool was not recorded, only its
        documents count.
        """
        content = getattr(output, "content", output)
        self.artifacts += _as_documents(getattr(output, "artifact", None))
        if run_id in self._calls and content is not None:
            text = content if isinstance(content, str) else json.dumps(content, default=str)
            self._calls[run_id] = structs.replace(self._calls[run_id], output=text)

    def on_chat_model_start(self, *details: Any, **more: Any) -> None:
        """Record that a model was called."""
        self.has_called = True

    on_llm_start = on_chat_model_start

    def on_llm_end(self, response: Any, **more: Any) -> None:
        """Record the tokens of the replies of a model."""
        for generation in itertools.chain.from_iterable(response.generations):
            self.count(getattr(generation, "message", None))

    def add(self, documents: Sequence[Any]) -> None:
        """Add documents to the passages, except those whose id and text are there already."""
        for document in documents:
            passage = self._hits.read_langchain(document).to_document()
            self.passages.setdefault((passage.id, passage.text), passage)

    def count(self, message: Any) -> None:
        """Record tokens and cost of a message; unknown if it is None or has no usage metadata.

        The cost is unknown for a model without a price.
        """
        tokens = read_usage(getattr(message, "usage_metadata", None) or {})
        details = getattr(message, "response_metadata", None) or {}
        model = str(details.get("model_name") or details.get("model") or "")
        # Cached: the table is parsed once, not for each reply.
        usd = llm.Prices.load().cost_usd(model, tokens)
        self._usages.append(structs.replace(tokens, usd=usd))

    def prediction(self, answer: str) -> Prediction:
        """Return the answer with all records.

        Its contexts are None if no retriever ran and no document was added, its tool calls None if
        no tool ran. All are in the order in which they came. Equal passages and equal queries are
        joined, equal tool calls are not. The cost is in US dollars.
        """
        passages = list(self.passages.values()) if self.passages or self.retrievers else None
        calls = tuple(self._calls.values()) or None
        return Prediction(answer, passages, self.usage, list(self._queries), tool_calls=calls)

    @property
    def usage(self) -> Usage:
        """Tokens and cost of all replies together; unknown if no model ran."""
        return add_usage(self._usages) if self._usages else Usage()


def _new_recorder(question: str, hits: HitReader) -> tuple[ChainRecorder, list[ChainRecorder]]:
    """Return a recorder and the callbacks to pass to a chain; no callbacks without langchain."""
    try:
        from langchain_core.callbacks import BaseCallbackHandler
    except ImportError:  # an object with `invoke` that is no chain of langchain
        return ChainRecorder(question, hits), []
    # Derived here, since langchain is an optional package.
    recorder = type("Listener", (ChainRecorder, BaseCallbackHandler), {})(question, hits)
    return recorder, [recorder]


# Keys of answers and documents in the outputs of usual chains, the most common first.
_ANSWERS = ("answer", "output", "result", "output_text", "text", "response", "generation")
_CONTEXTS = ("context", "source_documents", "documents", "contexts")
_CONTEXTS_LISTED = ", ".join(_CONTEXTS)

# Inputs of usual chains that retrieve for themselves, the most common first.
_QUESTION = "{question}"
_INPUTS: tuple[str | dict[str, Any], ...] = (
    _QUESTION,
    *({key: _QUESTION} for key in ("question", "input", "query")),
    {"messages": [{"role": "user", "content": _QUESTION}]},
)
_INPUT_WITH_PASSAGES = {"question": _QUESTION, "context": "{context}"}


class ChainOptions(OptionSet):
    """Input of a chain, and path of the answer in its output."""

    input: Annotated[
        str | dict[str, Any] | None,
        Option(
            "Input of a chain, with {question}, {context}, {texts} or {contexts}; "
            'default: `{question: "{question}", context: "{context}"}`.'
        ),
    ] = None
    answer: Annotated[
        str | None,
        Option(
            "Path to the answer in the result of a chain; default: its text, or that of "
            "the first usual key, such as `answer` or `output`."
        ),
    ] = None
    id_field: Annotated[
        str | None, Option("Metadata key with the ids of the passages of a chain.")
    ] = None


class Chain:
    """Caller of a chain that reads the answer, the retrieved passages and the tokens.

    Of several possible inputs, the first that the chain accepts is kept. A call that fails before a
    model or a retriever was called has the wrong input. A later failure, a timeout, and an error of
    a connection or an HTTP status are failures of the chain. `ask` returns a prediction, and passes
    these failures on, and any error if only one input is possible.

    Args:
        target: Chain or object with `invoke` or `ainvoke`.
        options: Input, path of the answer, and key of ids.
        places: Places that the input may have.
        owner: Component, for messages.
        inputs: Possible inputs if the options name none; at least one.

    Raises:
        OptionError: The input or the path is invalid.
        AdapterError: `target` has neither method.
    """

    def __init__(
        self,
        target: Any,
        options: ChainOptions,
        places: Sequence[str],
        owner: str,
        inputs: Sequence[str | dict[str, Any]],
    ) -> None:
        path = options.answer
        self._inputs = inputs if options.input is None else [options.input]
        templates.check_template(self._inputs[0], places, "langchain", "input")
        self._invoke, self._id_field = SyncOrAsync(target, "invoke"), options.id_field
        self._answer = None if path is None else JsonPath(path, "langchain", "answer")
        if not self._invoke:
            allowed = "an object with invoke or ainvoke"
            raise AdapterError(f"{owner}: found {quote(target)}, allowed: {allowed}")

    def ask(self, question: str, values: Mapping[str, Any]) -> Prediction:
        """Return the answer to a question.

        Its contexts are the passages of the retrievers that the callbacks recorded, else the
        documents that tools returned, else those in the output of the chain; None without any.
        Errors of the chain are passed on.

        Args:
            question: Question.
            values: Values of the places in the input besides the question.

        Raises:
            AdapterError: The output holds no answer, the chain accepts none of several inputs, or a
                document has neither an id nor a text.
            CallFailure: The answer is a message with a part that is no text.
        """
        problems = []
        for template in self._inputs:
            inputs = templates.fill(template, {"question": question, **values})
            recorder, callbacks = _new_recorder(question, HitReader(self._id_field))
            try:
                result = self._call(inputs, callbacks)
            except Exception as error:
                # A server that is down must not make another input count as the right one.
                is_about_input = failure_of_exception(error).cause is Cause.ERROR
                if recorder.has_called or len(self._inputs) == 1 or not is_about_input:
                    raise
                form = "text" if template == _QUESTION else f"{{{', '.join(template)}: ...}}"
                problems.append(f"{form}: {type(error).__name__}: {error}")
            else:
                self._inputs = [template]
                break
        else:
            problem = f"the chain accepts no usual input (as {'; as '.join(problems[:2])})"
            raise AdapterError(f"{problem}, allowed: 'input: {{its_key: \"{{question}}\"}}'")
        # Recorded documents take precedence over those in the output.
        if not recorder.retrievers:
            documents: Sequence[Any] = recorder.artifacts
            for key in _CONTEXTS if isinstance(result, Mapping) else ():
                documents = documents or _as_documents(result.get(key))
            recorder.add(documents)
        return recorder.prediction(self._text(result, recorder))

    def _call(self, inputs: Any, callbacks: Sequence[ChainRecorder]) -> Any:
        """Return the output of the chain; its errors are passed on."""
        if not self._invoke.takes("config"):
            return self._invoke(inputs)
        # Of an agent or chain with a memory, each question is a conversation of its own.
        conversation = dict.fromkeys(("thread_id", "session_id"), uuid.uuid4().hex)
        config = {"callbacks": callbacks, "configurable": conversation}
        return self._invoke(inputs, config=config)

    def _text(self, result: Any, recorder: ChainRecorder) -> str:
        """Return the text of the answer; count the tokens of a message without callbacks."""
        answer = result if self._answer is None else self._answer.one(result)
        if self._answer is None and isinstance(result, Mapping):
            messages = result.get("messages") or [result]
            key = next(filter(result.__contains__, _ANSWERS), None)
            answer = messages[-1] if key is None else result[key]
        content = getattr(answer, "content", answer)
        if content is not answer and recorder.usage == Usage():
            recorder.count(answer)  # the message of a model without callbacks
        if isinstance(content, str):
            return content.strip()
        if isinstance(content, list) and content is not answer:
            return read_text(content).strip()
        key = next(iter(result), "key") if isinstance(result, Mapping) else "key"
        hint = f"text, a message, or a mapping with answer; else a path: 'answer: $.{key}'"
        raise AdapterError(f"found {quote(result)} instead of an answer, allowed: {hint}")


def _as_documents(value: Any) -> Sequence[Any]:
    """Return a list of LangChain documents; an empty one for anything else."""
    is_list = isinstance(value, list) and all(hasattr(part, "page_content") for part in value)
    return value if is_list else []


def _inputs_of(target: Any) -> Sequence[str | dict[str, Any]]:
    """Return the usual inputs whose keys the schema of a Runnable requires."""
    read_schema = getattr(target, "get_input_jsonschema", None)
    if not callable(read_schema):
        return _INPUTS[:1]
    schema: Mapping[str, Any] = {}
    # Pydantic cannot describe every type, and raises errors of many kinds.
    with contextlib.suppress(Exception):
        schema = read_schema()
    if schema.get("type") == "string":
        return _INPUTS[:1]
    for keys in (schema.get("required", ()), schema.get("properties", ())):
        usual = []
        for form in _INPUTS:
            if isinstance(form, dict) and form.keys() <= {*keys}:
                usual.append(form)
        if usual:
            return usual
    return _INPUTS


class LangchainGeneratorOptions(PromptOptions, AnswerOptions, ChainOptions, Limits):
    """Options of a generator of LangChain.

    Limits that are out of range raise an OptionError; the generator checks the other values.

    Attributes:
        factory: `module:name` of the object or of a function that creates it; None with a client.
        args: Its keyword arguments; None without.
    """

    factory: Factory = None
    args: FactoryArgs = None
    version: Annotated[str | None, Option("A word that you change when its answers change.")] = None
    retries: Annotated[
        int, Option("Retries of a chat model, for errors that may be temporary.", ge=0)
    ] = 6


class LangchainGenerator(ChatGenerator):
    """Answer by a chat model, a Runnable or a chain of langchain.

    A chat model receives the prompt, and its replies are stored; a chain receives `input` and does
    the rest itself. If a chain retrieves, its answers are judged by its own passages, which
    callbacks record. Parameters such as the temperature are those of the model. Options are those
    of `LangchainGeneratorOptions`; the constructor raises OptionError for one that the kind of
    object does not use. `generate_for` returns a prediction; it raises CallFailure if a chat model
    fails, and passes the errors of a chain on.
    """

    declares = LangchainGeneratorOptions
    is_opaque = True

    def __init__(self, *, client: Any = None, **options: Any) -> None:
        chosen = LangchainGeneratorOptions(**options)
        owner = "generator 'langchain'"
        target = resolve_client(client, chosen.factory, chosen.args, owner)
        identity = fingerprint_json([chosen.factory, chosen.args, chosen.version])
        name = getattr(target, "model_name", None) or getattr(target, "model", None)
        if not isinstance(name, str):
            name = chosen.factory or type(target).__name__
        super().__init__(
            lambda replies: LangchainChat(target, version=identity),
            load_prompt(chosen.prompt, chosen.system, "langchain"),
            ChatRequest(name, (), stop=tuple(chosen.stop or ())),
            context_tokens=chosen.context_tokens,
            limits=chosen,
        )
        self._identity = identity
        self._chain: Chain | None = None
        if is_chat_model(target):
            _refuse("a chat model", chosen, ChainOptions)
            return
        _refuse("a chain", chosen, PromptOptions, AnswerOptions)
        self.prompt_hash = None  # the prompt of a chain is in the user's code
        self._chain = Chain(
            target, chosen, ("question", *templates.PASSAGE_PLACES), owner, [_INPUT_WITH_PASSAGES]
        )

    def signature_parts(self) -> Mapping[str, Any]:
        """Return the inputs of answers besides question and passages, and the object's identity.

        Keys are those of `ChatGenerator`, and `arguments`: a hash of `factory`, `args` and
        `version`. For a chain, prompt and parameters are None.
        """
        return {**super().signature_parts(), "arguments": self._identity}

    def check(self) -> None:
        """Connect to a chat model; do nothing for a chain."""
        if self._chain is None:
            super().check()

    def generate_sample(
        self, query: Query, contexts: Sequence[Document], sample: int
    ) -> Prediction:
        """Return the answer of a sample; a chain is called again for each sample.

        Other errors of a chain are passed on.

        Raises:
            CallFailure: The call failed, the model refused or ran out of tokens, or a part of the
                message is no text.
            AdapterError: The output of a chain holds no answer, or a document without id and text.
        """
        if self._chain is None:
            return super().generate_sample(query, contexts, sample)
        return self._chain.ask(query.text, templates.passage_values(contexts))


def is_chat_model(target: Any) -> bool:
    """Return True for a chat model, also one with bound options or fallbacks; False for a chain.

    A chat model has the method `get_num_tokens_from_messages`.
    """
    # `bind` and `with_fallbacks` of langchain wrap the model in `bound` and `runnable`.
    while (
        inner := getattr(target, "bound", None) or getattr(target, "runnable", None)
    ) is not None:
        target = inner
    return callable(getattr(target, "get_num_tokens_from_messages", None))


def _refuse(kind: str, chosen: LangchainGeneratorOptions, *groups: type) -> None:
    """Raise an OptionError if an option of these groups differs from its default."""
    for field in itertools.chain.from_iterable(map(fields, groups)):
        value = getattr(chosen, field.name)
        if value != field.default:
            allowed = f"no {field.name}: the object is {kind}"
            raise OptionError("langchain", field.name, value, allowed)


class LangchainApp:
    """Answer by a chain of langchain that retrieves for itself.

    Callbacks record the passages of its retrievers, so that retrieval and faithfulness are scored
    without a change to its code. `args` are keyword arguments of the factory; `id_field` is a
    metadata key with the ids of documents, None takes their own. `answer` returns a prediction,
    passes the errors of the chain on, and raises AdapterError if its output holds no answer.
    """

    is_opaque = True
    passages_advice = f"call a retriever of LangChain, or return documents as {_CONTEXTS_LISTED}"

    def __init__(
        self,
        *,
        factory: Factory = None,
        args: FactoryArgs = None,
        input: Annotated[
            str | dict[str, Any] | None,
            Option(
                "Input of the chain, with {question}; default: the question as text, as "
                "`question`, `input` or `query`, or as a message in `messages`, whichever "
                "the chain accepts."
            ),
        ] = None,
        answer: Annotated[
            str | None,
            Option(
                "Path to the answer in the result of the chain; default: its text, or that "
                "of the first usual key, such as `answer` or `output`."
            ),
        ] = None,
        id_field: IdField = None,
        client: Any = None,
    ) -> None:
        owner = "app 'langchain'"
        target = resolve_client(client, factory, args, owner)
        chain = ChainOptions(input=input, answer=answer, id_field=id_field)
        self._chain = Chain(target, chain, ("question",), owner, _inputs_of(target))

    def answer(self, question: str) -> Prediction:
        """Return the answer of the chain, with the passages that it retrieved.

        `contexts` is None if no retriever ran, and neither tools nor the output returned documents.
        Errors of the chain are passed on.

        Raises:
            AdapterError: The output holds no answer, the chain accepts no usual input, or a
                document has neither an id nor a text.
            CallFailure: The answer is a message with a part that is no text.
        """
        return self._chain.ask(question, {})
