"""Generators and apps of the user's own: `type: "python:package.module:Name"`, or a live object.

`Name` is a class (made with the options of the YAML), an object with the method of a generator or
an app, or a plain function of the same arguments, to which the options are passed as keywords.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragbench.adapters.libraries import HitReader, checked_id
from ragbench.errors import AdapterError
from ragbench.generate.base import App, Generator
from ragbench.generate.langchain import LangchainApp
from ragbench.registry import OwnComponent, adapt, has_method, shown
from ragbench.types import Document, Prediction, Query, ScoredDocument, Usage
from ragbench.types.conversation import read_tool_calls

# What a generator of the user's own has one of.
GENERATOR_METHODS = ("generate", "generate_for")
# What an app of the user's own has one of; the last are those of LangChain.
APP_METHODS = ("answer", "invoke", "ainvoke")


class CallableGenerator(Generator):
    """A plain function `(question, contexts) -> answer` as a generator."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def generate(self, question: str, contexts: Sequence[Document]) -> Any:
        """Ask the function."""
        return self._function(question, contexts)


# Methods that a generator of the user's own has which asks models for replies.
_ASKING = ("signature_parts", "keep_replies", "spend_from", "check", "totals", "close")


class OwnGenerator(OwnComponent, Generator):
    """An object of the user's own as a generator."""

    takes = frozenset((*_ASKING, "query_ids", "temperature", "missing_key", "check_samples"))

    def __init__(self, made: Any) -> None:
        super().__init__(made)
        self.is_stored = not hasattr(made, "generate")
        self.asks = all(has_method(made, [name]) for name in _ASKING)

    def generate_for(self, query: Query, contexts: Sequence[Document]) -> Any:
        """Ask the object."""
        if hasattr(self.made, "generate_for"):
            return self.made.generate_for(query, contexts)
        return self.made.generate(query.text, contexts)

    def generate_sample(self, query: Query, contexts: Sequence[Document], sample: int) -> Any:
        """Ask the object; of its first answer, as if there were no others."""
        if sample and hasattr(self.made, "generate_sample"):
            return self.made.generate_sample(query, contexts, sample)
        return self.generate_for(query, contexts)


def declared(made: Any) -> Generator:
    """Return a generator of which all is known that a run asks."""
    return made if isinstance(made, Generator) else OwnGenerator(made)


def as_generator(target: Any, options: Mapping[str, Any], owner: str) -> Any:
    """Make a generator of a class, an object or a function; see `ragbench.registry.adapt`."""
    return adapt(
        target,
        options,
        owner,
        methods=GENERATOR_METHODS,
        wrap=CallableGenerator,
        arguments="(question, contexts)",
    )


class CallableApp:
    """A plain function `(question) -> answer` as an app."""

    is_opaque = True

    def __init__(self, function: Any) -> None:
        self._function = function

    def answer(self, question: str) -> Prediction:
        """Ask the function."""
        return read_answer(self._function(question))


def as_app(target: Any, options: Mapping[str, Any], owner: str) -> App:
    """Make an app of a class, an object, a chain or a function; see `ragbench.registry.adapt`."""
    made: Any = adapt(
        target,
        options,
        owner,
        methods=APP_METHODS,
        wrap=CallableApp,
        arguments="(question)",
    )
    if callable(own := getattr(made, "answer", None)):
        return made if isinstance(made, (LangchainApp, CallableApp)) else CallableApp(own)
    return LangchainApp(client=made)


_SHAPES = "text, ragbench.Prediction, or a mapping with 'answer' and, where known, 'contexts'"
_PASSAGES = "texts, documents, or mappings with 'text' and, where known, 'id'"
_TEXTS = ("text", "page_content", "content")


def read_answer(answer: Any) -> Prediction:
    """Turn what a generator or an app returned into a `Prediction` whose parts are what they say.

    Accepts a text, a `Prediction`, or a mapping with `answer` and, where known, `contexts`,
    `queries` and `tool_calls` (`{name, arguments, output}`, or as OpenAI has them). Passages may be
    texts, documents of ragbench or LangChain, or mappings with `text` and, where known, `id`,
    `title`, `metadata`; one without an id gets a hash of its text. Anything else is an
    `AdapterError`.
    """
    if isinstance(answer, str):
        return Prediction(answer)
    prediction = _of_mapping(answer) if isinstance(answer, Mapping) else answer
    if not isinstance(prediction, Prediction) or not isinstance(prediction.answer, str):
        raise AdapterError(f"found {shown(answer)} instead of an answer, allowed: {_SHAPES}")
    queries, usage, ms = prediction.queries, prediction.usage, prediction.latency_ms
    is_list = isinstance(queries, (list, tuple)) and all(isinstance(q, str) for q in queries)
    is_number = isinstance(ms, (int, float)) and not isinstance(ms, bool) and 0 <= ms < math.inf
    for part, value, is_right, allowed in (
        ("queries", queries, is_list, "a list of texts"),
        ("usage", usage, isinstance(usage, Usage), "ragbench.types.Usage"),
        ("latency_ms", ms, ms is None or is_number, "a number >= 0"),
    ):
        if not is_right:
            raise AdapterError(f"found {shown(value)} as {part}, allowed: {allowed}")
    if prediction.tool_calls is not None:
        calls = read_tool_calls(
            prediction.tool_calls,
            lambda found, allowed: AdapterError(f"tool_calls: {found}, allowed: {allowed}"),
        )
        prediction = replace(prediction, tool_calls=calls)
    contexts, reader = prediction.contexts, HitReader(None)
    if contexts is None:
        return prediction
    if isinstance(contexts, (str, bytes, Mapping)) or not isinstance(contexts, Iterable):
        allowed = f"a list of {_PASSAGES}"
        raise AdapterError(f"found {shown(contexts)} as contexts, allowed: {allowed}")
    passages = [_passage(passage, n, reader) for n, passage in enumerate(contexts, start=1)]
    return replace(prediction, contexts=passages)


def _of_mapping(answer: Mapping[str, Any]) -> Prediction | None:
    if "answer" not in answer:
        return None
    contexts, queries, calls = map(answer.get, ("contexts", "queries", "tool_calls"))
    queries = [] if queries is None else queries
    return Prediction(answer["answer"], contexts, queries=queries, tool_calls=calls)


def _passage(passage: Any, number: int, reader: HitReader) -> Document:
    if isinstance(passage, str):
        passage = Document("", passage)
    if isinstance(passage, Mapping):
        text = next((passage[key] for key in _TEXTS if key in passage), None)
        own_id, title, metadata = passage.get("id"), passage.get("title"), passage.get("metadata")
    elif isinstance(passage, (Document, ScoredDocument)):
        own_id, text, title, metadata = passage.id, passage.text, passage.title, passage.metadata
    elif hasattr(passage, "page_content"):  # a document of LangChain
        own_id, text, title = getattr(passage, "id", None), passage.page_content, None
        metadata = getattr(passage, "metadata", None)
    else:
        raise AdapterError(f"passage {number} is {shown(passage)}, allowed: {_PASSAGES}")
    if not isinstance(text, str) and (text is not None or own_id is None):
        raise AdapterError(f"passage {number} is {shown(passage)}, allowed: {_PASSAGES}")
    hit = reader.read(own_id=own_id, text=text, metadata=metadata)
    identifier = checked_id(hit.id, f"passage {number}")
    return Document(identifier, text or "", title or hit.title or "", hit.metadata)
