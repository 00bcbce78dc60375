"""Generators and apps of the user: `type: "python:package.module:Name"`, or a live object.

`Name` is a class (created with the options of the YAML), an object with the method of a generator
or app, or a function of the same arguments, to which the options are passed as keywords.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import structs

from ragbench.adapters.libraries import HitReader, Parts, PlainCall, checked_id, text_of
from ragbench.errors import AdapterError
from ragbench.generate.base import App, Generator
from ragbench.generate.haystack import HaystackApp
from ragbench.generate.langchain import LangchainApp
from ragbench.generate.llama_index import LlamaIndexApp
from ragbench.registry import OwnComponent, adapt, has_method, quote
from ragbench.types import Document, Prediction, Query, ScoredDocument, Usage
from ragbench.types.conversation import read_tool_calls
from ragbench.types.lookups import all_are, is_list_of
from ragbench.types.records import read_count
from ragbench.types.tables import is_frame

# A user's generator has one of these methods.
GENERATOR_METHODS = ("generate", "generate_for")
# A user's app has one of these methods; the last are those of LangChain, LlamaIndex and Haystack.
APP_METHODS = ("answer", "invoke", "ainvoke", "query", "aquery", "run", "run_async")

# Name of the last argument of a user's function, and types of its default.
_CONTEXTS = ("contexts", (list, tuple))


class CallableGenerator(Generator):
    """Generator over a function `(question, contexts) -> answer` or `(question) -> answer`.

    `as_generator` makes it. The function may be asynchronous, or yield the answer in pieces.
    `generate` returns the unchecked answer of the function.
    """

    def __init__(self, function: Any) -> None:
        self._call = PlainCall(function, *_CONTEXTS)

    def generate(self, question: str, contexts: Sequence[Document]) -> Any:
        """Return the answer of the function.

        It is not checked; errors of the function are passed on.
        """
        return _whole(self._call(question, contexts))


# A user's generator with all of these methods calls chat models, as built-in ones do.
_ASKING = ("signature_parts", "keep_replies", "spend_from", "check", "totals", "close")


class OwnGenerator(OwnComponent, Generator):
    """Generator over a user's object with `generate` or `generate_for`.

    `declared` makes it. Parts named in `takes` are those of the object, where it has them. Without
    a method `generate` it counts as `is_stored`; with all methods of a chat generator it `asks`.
    `generate_for` returns the unchecked answer of the object and passes its errors on.
    """

    takes = frozenset((*_ASKING, "query_ids", "temperature", "missing_key", "same_results"))

    def __init__(self, component: Any) -> None:
        super().__init__(component)
        # Without `generate`, an answer depends on the query alone, as a stored answer does.
        self.is_stored = not hasattr(component, "generate")
        self.asks = all(has_method(component, [name]) for name in _ASKING)
        self._calls = {}
        for name in (*GENERATOR_METHODS, "generate_sample"):
            method = getattr(component, name, None)
            if callable(method):
                last = () if name == "generate_sample" else _CONTEXTS
                self._calls[name] = PlainCall(method, *last)

    def generate_for(self, query: Query, contexts: Sequence[Document]) -> Any:
        """Return the answer of the object to a query.

        It is not checked (see `read_answer`); errors of the object are passed on.
        """
        if "generate_for" in self._calls:
            return _whole(self._calls["generate_for"](query, contexts))
        return _whole(self._calls["generate"](query.text, contexts))

    def generate_sample(self, query: Query, contexts: Sequence[Document], sample: int) -> Any:
        """Return the answer of a sample; sample 0 equals the answer of a run without samples.

        Without the method `generate_sample`, every sample calls the object anew. Errors of the
        object are passed on.
        """
        if sample and "generate_sample" in self._calls:
            return _whole(self._calls["generate_sample"](query, contexts, sample))
        return self.generate_for(query, contexts)


def declared(generator: Any) -> Generator:
    """Return an object as a `Generator`; wrap it if it does not inherit that class.

    The object is not checked.
    """
    return generator if isinstance(generator, Generator) else OwnGenerator(generator)


def as_generator(target: Any, options: Mapping[str, Any], owner: str) -> Any:
    """Return a generator from a class, an object or a function of the user.

    A class is called with the options; an object with `generate` or `generate_for` is returned as
    it is; a function becomes a `CallableGenerator`, with the options bound as keywords.

    Raises:
        OptionError: An option is unknown, or an object that exists gets options.
        AdapterError: The target is no generator, or its constructor fails.
    """
    return adapt(
        target,
        options,
        owner,
        methods=GENERATOR_METHODS,
        wrap=CallableGenerator,
        arguments="(question, contexts)",
    )


class CallableApp:
    """App over a function `(question) -> answer`, which may be asynchronous, or yield pieces.

    `as_app` makes it. `answer` returns a checked prediction, and raises
    AdapterError for another form.
    """

    is_opaque = True
    passages_advice = "return {answer: ..., contexts: [...]}"

    def __init__(self, function: Any) -> None:
        self._call = PlainCall(function)

    def answer(self, question: str) -> Prediction:
        """Return the answer of the function; raise an AdapterError for one of another form.

        Errors of the function are passed on.
        """
        return read_answer(_whole(self._call(question)))


def as_app(target: Any, options: Mapping[str, Any], owner: str) -> App:
    """Return an app from a class, object or function of the user.

    A class is called with the options, a function gets them as keywords. An object with `answer`
    and a function are wrapped, so that their answers are checked. A chain of LangChain (`invoke`),
    a query engine of LlamaIndex (`query`) and a pipeline of Haystack (`run`) are wrapped by the
    adapter of their library.

    Raises:
        OptionError: An option is unknown, an object that exists gets options, or a pipeline has no
            open socket for the question.
        AdapterError: The target is no app, or its constructor fails.
    """
    app: Any = adapt(
        target,
        options,
        owner,
        methods=APP_METHODS,
        wrap=CallableApp,
        arguments="(question)",
    )
    if callable(method := getattr(app, "answer", None)):
        return app if isinstance(app, (LangchainApp, CallableApp)) else CallableApp(method)
    if has_method(app, ("invoke", "ainvoke")):
        return LangchainApp(client=app)
    # before the others: any callable object may have a method `query` or `run`
    if callable(app):
        return CallableApp(app)
    if has_method(app, ("query", "aquery")):
        return LlamaIndexApp(client=app)
    return HaystackApp(client=app)


def _whole(answer: Any) -> Any:
    """Return the text of an answer that was yielded in pieces of text; any other as it is."""
    # a list of several texts that is returned may hold several answers
    is_one = isinstance(answer, Parts) or (isinstance(answer, list) and len(answer) == 1)
    if is_one and is_list_of(answer, str):
        return "".join(answer)
    return answer


_SHAPES = "text, ragbench.Prediction, or a mapping with 'answer' and, where known, 'contexts'"
_PASSAGES = "texts, documents, or mappings with 'text' and, where known, 'id'"


def read_answer(answer: Any) -> Prediction:
    """Return the answer of a generator or app as a `Prediction` with checked parts.

    Passages keep their order and become a list; None stays None, and stands for unknown passages.
    Texts are not stripped, and an empty answer is valid. White space in ids is encoded as in a URL.
    A token count that is no whole number from 0 becomes None, one of reasoning or cached tokens 0.

    Args:
        answer: Text, `Prediction`, or mapping with `answer` and optionally `contexts`, `queries`
            and `tool_calls` (`{name, arguments, output}`, or as OpenAI writes them). Passages are
            texts, documents of ragbench or LangChain, or mappings with `text` and optionally `id`,
            `title` and `metadata`; `page_content` or `content` may stand for `text`. A passage
            without an id gets a hash of its text; one with an id may lack the text, which is then
            empty.

    Raises:
        AdapterError: The answer or a part of it has another form.
    """
    if isinstance(answer, str):
        return Prediction(answer)
    prediction = _of_mapping(answer) if isinstance(answer, Mapping) else answer
    if not isinstance(prediction, Prediction) or not isinstance(prediction.answer, str):
        raise AdapterError(f"found {quote(answer)} instead of an answer, allowed: {_SHAPES}")
    queries, usage, ms = prediction.queries, prediction.usage, prediction.latency_ms
    is_list = isinstance(queries, (list, tuple)) and all_are(queries, str)
    # bool is a subclass of int, and NaN fails the comparison.
    is_number = isinstance(ms, (int, float)) and not isinstance(ms, bool) and 0 <= ms < math.inf
    for part, value, is_right, allowed in (
        ("queries", queries, is_list, "a list of texts"),
        ("usage", usage, isinstance(usage, Usage), "ragbench.types.Usage"),
        ("latency_ms", ms, ms is None or is_number, "a number >= 0"),
    ):
        if not is_right:
            raise AdapterError(f"found {quote(value)} as {part}, allowed: {allowed}")
    usage = structs.replace(
        usage,
        input_tokens=read_count(usage.input_tokens),
        output_tokens=read_count(usage.output_tokens),
        reasoning_tokens=read_count(usage.reasoning_tokens) or 0,
        cached_tokens=read_count(usage.cached_tokens) or 0,
    )
    prediction = structs.replace(prediction, usage=usage)
    if prediction.tool_calls is not None:
        calls = read_tool_calls(
            prediction.tool_calls,
            lambda problem, allowed: AdapterError(f"tool_calls: {problem}, allowed: {allowed}"),
        )
        prediction = structs.replace(prediction, tool_calls=calls)
    contexts, reader = prediction.contexts, HitReader(None)
    # None means unknown passages, an empty list none.
    if contexts is None:
        return prediction
    # A text, mapping or frame can be iterated, but its parts are no passages; a set has no order.
    if is_frame(contexts):
        raise AdapterError(f"found a data frame as contexts, allowed: a list of {_PASSAGES}")
    if isinstance(contexts, (str, bytes, Mapping, set, frozenset)) or not isinstance(
        contexts, Iterable
    ):
        allowed = f"a list of {_PASSAGES}"
        raise AdapterError(f"found {quote(contexts)} as contexts, allowed: {allowed}")
    passages = []
    for number, passage in enumerate(contexts, start=1):
        passages.append(_passage(passage, number, reader))
    return structs.replace(prediction, contexts=passages)


def _of_mapping(answer: Mapping[str, Any]) -> Prediction | None:
    """Return the prediction of a mapping, unchecked; None without the key `answer`."""
    if "answer" not in answer:
        return None
    contexts, queries, calls = map(answer.get, ("contexts", "queries", "tool_calls"))
    queries = [] if queries is None else queries
    return Prediction(answer["answer"], contexts, queries=queries, tool_calls=calls)


def _passage(passage: Any, number: int, reader: HitReader) -> Document:
    """Return a passage of any accepted form as a document; raise an AdapterError for another."""
    if isinstance(passage, str):
        passage = Document("", passage)
    if isinstance(passage, Mapping):
        text = text_of(passage)
        own_id, title, metadata = passage.get("id"), passage.get("title"), passage.get("metadata")
    elif isinstance(passage, (Document, ScoredDocument)):
        own_id, text, title, metadata = passage.id, passage.text, passage.title, passage.metadata
    elif hasattr(passage, "page_content"):  # a document of LangChain
        own_id, text, title = getattr(passage, "id", None), passage.page_content, None
        metadata = getattr(passage, "metadata", None)
    else:
        raise AdapterError(f"passage {number} is {quote(passage)}, allowed: {_PASSAGES}")
    if not isinstance(text, str) and (text is not None or own_id is None):
        raise AdapterError(f"passage {number} is {quote(passage)}, allowed: {_PASSAGES}")
    hit = reader.read(own_id=own_id, text=text, metadata=metadata)
    identifier = checked_id(hit.id, f"passage {number}")
    return Document(identifier, text or "", title or hit.title or "", hit.metadata)
