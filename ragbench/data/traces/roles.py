"""What part each span of a trace played: the question, the answer, each retrieval, the model.

Parts are found by the kinds of spans and by what is inside what, never by position. A trace whose
parts are not clear is not read: it is `Unclear`, with the cause.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from ragbench.data.traces.spans import Kind, Span, Tree
from ragbench.data.traces.values import (
    keep_apart,
    read_answer,
    read_documents,
    read_question,
)
from ragbench.types import Document, ToolCall, Turn, Usage
from ragbench.types.records import add_usage

NO_QUESTION = "its input does not say what the question is"
NO_ANSWER = "its output does not say what the answer is"
NO_ROOT = "no outermost step has a question and an answer"
SEVERAL = "several outermost steps have an answer"
PROMPT = "its outermost step is a call of a model, whose prompt does not tell the question"
UNREADABLE = "a retrieval whose passages cannot be read"
CIRCLE = "its spans are inside each other in a circle"
REPEATED = "two spans have the same id"

# What can be a whole application, seen from outside.
_ANSWERING: tuple[Kind, ...] = ("chain", "agent", "llm", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How traces are read, as far as the user says it.

    Attributes:
        question: Path of the question in the input of the outermost step.
        answer: Path of the answer in its output.
        id_field: Key of the metadata of passages with their ids.
        kinds: Name of a span -> what it is, whatever its own kind.
        corpus: Documents that passages without a text are looked up in.
    """

    question: str | None = None
    answer: str | None = None
    id_field: str | None = None
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    corpus: Mapping[str, Document] = field(default_factory=dict)

    def kind(self, span: Span) -> Kind:
        """Return the kind of a span, or what its name is said to be."""
        return self.kinds.get(span.name, span.kind)


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The query and the passages of an outermost retriever of a trace."""

    span: Span
    query: str | None
    documents: list[Document]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """A trace whose parts are clear.

    Attributes:
        answer: None where the call failed.
        error: Why the call failed.
        turns: Earlier turns in its own input.
        union: The passages of all retrievals, each once, in the order of the hops.
        passages: The passages of the answer: reranked where there is a reranker.
        renamed: Passages with the id of another one but another text.
        queries: What retrievers were asked, apart from the question itself.
    """

    id: str
    question: str
    answer: str | None
    error: str | None
    turns: tuple[Turn, ...]
    session: str | None
    start: float | None
    retrievals: list[Retrieval]
    union: list[Document]
    passages: list[Document] | None
    is_reranked: bool
    renamed: int
    queries: list[str]
    tool_calls: tuple[ToolCall, ...]
    usage: Usage
    latency_ms: float | None
    models: list[str]
    metadata: Tree


class Unclear(Exception):
    """A trace whose parts are not clear; its text is the cause."""


def read_trace(spans: Sequence[Span], reading: Reading) -> Traced:
    """Find the parts of a trace.

    Raises:
        Unclear: They are not clear.
    """
    tree = _Tree([replace(span, kind=reading.kind(span)) for span in spans])
    root = _root(tree, reading)
    retrievals = [
        Retrieval(span, read_question(span.input)[0], _documents(span, reading))
        for span in tree.outermost("retriever")
    ]
    union, renamed = keep_apart([d for retrieval in retrievals for d in retrieval.documents])
    reranked = _reranked(tree, retrievals, reading)
    passages = union if reranked is None else keep_apart(reranked)[0]
    question, turns = _question(root, retrievals, reading)
    answer = read_answer(root.output, reading.answer)
    error = root.error
    if answer is None and error is None:
        error = next((span.error for span in tree.spans if span.error), None)
        if error is None:
            raise Unclear(NO_ANSWER)
    queries = dict.fromkeys(retrieval.query for retrieval in retrievals)
    calls = [call for outer in tree.outermost("llm") for call in tree.calls_with_usage(outer)]
    return Traced(
        id=root.trace,
        question=question,
        answer=None if root.error is not None else answer,
        error=error if answer is None or root.error is not None else None,
        turns=turns,
        session=next((span.session for span in (root, *tree.spans) if span.session), None),
        start=root.start,
        retrievals=retrievals,
        union=union,
        passages=passages if retrievals or reranked is not None else None,
        is_reranked=reranked is not None,
        renamed=renamed,
        queries=[query for query in queries if query is not None and query != question],
        tool_calls=tuple(map(_call, tree.outermost("tool"))),
        usage=add_usage(call.usage for call in calls) if calls else Usage(),
        latency_ms=root.latency_ms,
        models=sorted({span.model for span in tree.spans if span.kind == "llm" and span.model}),
        metadata=root.metadata,
    )


def _call(span: Span) -> ToolCall:
    """Return the call of a tool; an input that is no object is its argument `input`."""
    arguments: Tree = {} if span.input is None else {"input": span.input}
    arguments = span.input if isinstance(span.input, Mapping) else arguments
    output = span.output
    if output is not None and not isinstance(output, str):
        output = json.dumps(output, ensure_ascii=False, default=str)
    return ToolCall(span.name, arguments, output)


class _Tree:
    """The spans of a trace by what is inside what, each list in the order of time."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.by_id = {span.id: span for span in spans}
        if len(self.by_id) < len(spans):
            raise Unclear(REPEATED)
        are_timed = all(span.start is not None for span in spans)
        self.spans = sorted(spans, key=lambda span: span.start or 0) if are_timed else list(spans)
        self.inside: dict[str | None, list[Span]] = {}
        for span in self.spans:
            parent = span.parent if span.parent in self.by_id else None
            self.inside.setdefault(parent, []).append(span)
            # raises where steps lie in a circle
            self.above(span)

    def above(self, span: Span) -> list[Span]:
        """Return the spans that a span is inside of, the nearest first."""
        ancestors: list[Span] = []
        while span.parent in self.by_id:
            span = self.by_id[span.parent or ""]
            if span in ancestors:
                raise Unclear(CIRCLE)
            ancestors.append(span)
        return ancestors

    def outermost(self, kind: Kind) -> list[Span]:
        """Return the spans of a kind that are inside no other span of that kind."""
        return self._roots([span for span in self.spans if span.kind == kind])

    def calls_with_usage(self, call: Span) -> list[Span]:
        """Return the model calls that have the tokens of a call: itself, or calls inside it.

        A call may be written twice, by an application and by its client.
        """
        if call.usage != Usage():
            return [call]
        calls = (span for span in self.spans if span.kind == "llm" and call in self.above(span))
        return self._roots([span for span in calls if span.usage != Usage()]) or [call]

    def _roots(self, spans: Sequence[Span]) -> list[Span]:
        """Return the spans that are inside no other of them."""
        ids = {span.id for span in spans}
        return [span for span in spans if not any(a.id in ids for a in self.above(span))]


def _root(tree: _Tree, reading: Reading) -> Span:
    """Return the outermost step that has a question, and an answer or an error."""
    roots: list[Span] = []
    causes: list[str] = []
    steps = [*tree.inside.get(None, ())]
    for span in steps:
        if span.kind not in _ANSWERING:
            continue
        question = read_question(span.input, reading.question)[0]
        answer = read_answer(span.output, reading.answer)
        if question is not None and (answer is not None or span.error is not None):
            roots.append(span)
        elif span.input is None or span.output is None:
            steps += tree.inside.get(span.id, ())
        else:  # an input and output that cannot be read are not those of the steps inside
            causes.append(NO_QUESTION if question is None else NO_ANSWER)
    if len(roots) == 1:
        return roots[0]
    raise Unclear(SEVERAL if roots else [*causes, NO_ROOT][0])


def _question(
    root: Span, retrievals: Sequence[Retrieval], reading: Reading
) -> tuple[str, tuple[Turn, ...]]:
    """Return the question, and the turns before it.

    The input of a model is often a prompt with passages in it. The question is then the query of
    the retrievers, if it stands in the prompt word by word.
    """
    question, turns = read_question(root.input, reading.question)
    if question is None:
        raise Unclear(NO_QUESTION)
    texts = [d.text for retrieval in retrievals for d in retrieval.documents if d.text]
    if root.kind != "llm" or not any(text in question for text in texts):
        return question, turns
    query, *others = {retrieval.query for retrieval in retrievals}
    if others or query is None or query not in question:
        raise Unclear(PROMPT)
    return query, turns


def _documents(span: Span, reading: Reading) -> list[Document]:
    """Return the passages that a span returned; a span that failed returned none."""
    output = span.output if span.documents is None else span.documents
    passages = read_documents(output, reading.id_field, reading.corpus)
    if passages is None and span.error is None:
        raise Unclear(UNREADABLE)
    return passages or []


def _reranked(
    tree: _Tree, retrievals: Sequence[Retrieval], reading: Reading
) -> list[Document] | None:
    """Return the passages after the rerankers, then the passages that these did not get.

    A reranker gets the passages in its record, or else all that was retrieved until then. A
    reranker inside of a retriever is a part of it.
    """
    rerankers = [
        span
        for span in tree.outermost("reranker")
        if span.error is None and not any(a.kind == "retriever" for a in tree.above(span))
    ]
    if not rerankers:
        return None
    passages: list[Document] = []
    waiting = list(retrievals)
    for reranker in sorted(rerankers, key=_end):
        ready = [retrieval for retrieval in waiting if _end(retrieval.span) <= _end(reranker)]
        waiting = [retrieval for retrieval in waiting if retrieval not in ready]
        passages += chain.from_iterable(retrieval.documents for retrieval in ready)
        record = reranker.input if reranker.reranked is None else reranker.reranked
        inputs = read_documents(record, reading.id_field, reading.corpus)
        ids = {document.id for document in (passages if inputs is None else inputs)}
        others = [document for document in passages if document.id not in ids]
        passages = [*_documents(reranker, reading), *others]
    return [*passages, *chain.from_iterable(retrieval.documents for retrieval in waiting)]


def _end(span: Span) -> float:
    """Return the time when a step ended; 0, before everything else, without times."""
    return next((time for time in (span.end, span.start) if time is not None), 0.0)
