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
    Message,
    keep_apart,
    read_answer,
    read_documents,
    read_question,
)
from ragbench.types import Document, ToolCall, Usage
from ragbench.types.records import add_usage

NO_QUESTION = "its input does not say what the question is"
NO_ANSWER = "its output does not say what the answer is"
NO_ROOT = "no outermost step has a question and an answer"
SEVERAL = "several outermost steps have an answer"
PROMPT = "its outermost step is a call of a model, whose prompt does not tell the question"
UNREADABLE = "a retrieval whose passages cannot be read"
CIRCLE = "its spans are inside each other in a circle"
REPEATED = "two spans have the same id"

_ANSWERING: tuple[Kind, ...] = ("chain", "agent", "llm", "unknown")
"""What can be a whole application, seen from outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How traces are read, as far as the user says it."""

    question: str | None = None
    """Path of the question in the input of the outermost step."""
    answer: str | None = None
    """Path of the answer in its output."""
    id_field: str | None = None
    """Key of the metadata of passages with their ids."""
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    """Name of a span -> what it is, whatever its own kind."""
    corpus: Mapping[str, Document] = field(default_factory=dict)
    """Documents that passages without a text are looked up in."""

    def kind(self, span: Span) -> Kind:
        """Return the kind of a span, or what its name is said to be."""
        return self.kinds.get(span.name, span.kind)


@dataclass(frozen=True, slots=True)
class Retrieval:
    """What one outermost retriever of a trace returned."""

    span: Span
    hop: int
    """Its place among them in time, from 1."""
    query: str | None
    documents: list[Document]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """A trace whose parts are clear."""

    id: str
    question: str
    answer: str | None
    """None where the call failed."""
    error: str | None
    """Why the call failed."""
    turns: list[Message]
    """What its own input says of earlier turns."""
    session: str | None
    start: float | None
    retrievals: list[Retrieval]
    union: list[Document]
    """The passages of all retrievals, each once, in the order of the hops."""
    passages: list[Document] | None
    """Those that the answer was made from: reranked where there is a reranker."""
    is_reranked: bool
    renamed: int
    """Passages with the id of another one but another text."""
    queries: list[str]
    """What retrievers were asked, apart from the question itself."""
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
    spans = [replace(each, kind=reading.kind(each)) for each in spans]
    tree = _Tree(spans)
    root = _root(tree, reading)
    retrievals = [
        Retrieval(span, hop, read_question(span.input)[0], _documents(span, reading))
        for hop, span in enumerate(tree.outermost("retriever"), start=1)
    ]
    union, renamed = keep_apart([d for each in retrievals for d in each.documents])
    reranked = _reranked(tree, retrievals, reading)
    passages = union if reranked is None else keep_apart(reranked)[0]
    question, turns = _question(root, retrievals, reading)
    answer = read_answer(root.output, reading.answer)
    error = root.error
    if answer is None and error is None:
        error = next((each.error for each in tree.spans if each.error), None)
        if error is None:
            raise Unclear(NO_ANSWER)
    asked = [each.query for each in retrievals]
    models = [each for each in tree.spans if each.kind == "llm"]
    told = [each for call in tree.outermost("llm") for each in tree.telling(call)]
    return Traced(
        id=root.trace,
        question=question,
        answer=None if root.error is not None else answer,
        error=error if answer is None or root.error is not None else None,
        turns=turns,
        session=next((each.session for each in (root, *tree.spans) if each.session), None),
        start=root.start,
        retrievals=retrievals,
        union=union,
        passages=passages if retrievals or reranked is not None else None,
        is_reranked=reranked is not None,
        renamed=renamed,
        queries=[q for q in dict.fromkeys(asked) if q is not None and q != question],
        tool_calls=tuple(_call(each) for each in tree.outermost("tool")),
        usage=add_usage(each.usage for each in told) if told else Usage(),
        latency_ms=root.latency_ms,
        models=sorted({each.model for each in models if each.model}),
        metadata=root.metadata,
    )


def _call(span: Span) -> ToolCall:
    """The call of a tool; an input that is no object is its argument `input`."""
    given = {} if span.input is None else {"input": span.input}
    arguments = span.input if isinstance(span.input, Mapping) else given
    output = span.output
    if output is not None and not isinstance(output, str):
        output = json.dumps(output, ensure_ascii=False, default=str)
    return ToolCall(span.name, arguments, output)


class _Tree:
    """The spans of a trace by what is inside what, each list in the order of time."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.by_id = {each.id: each for each in spans}
        if len(self.by_id) < len(spans):
            raise Unclear(REPEATED)
        timed = all(each.start is not None for each in spans)
        self.spans = sorted(spans, key=lambda each: each.start or 0) if timed else list(spans)
        self.inside: dict[str | None, list[Span]] = {}
        for each in self.spans:
            known = each.parent in self.by_id
            self.inside.setdefault(each.parent if known else None, []).append(each)
        for each in spans:
            # raises where steps lie in a circle
            self.above(each)

    def above(self, span: Span) -> list[Span]:
        """The spans that one is inside of, the nearest first."""
        found: list[Span] = []
        while span.parent in self.by_id:
            span = self.by_id[span.parent or ""]
            if span in found:
                raise Unclear(CIRCLE)
            found.append(span)
        return found

    def outermost(self, kind: Kind) -> list[Span]:
        """The spans of a kind that are inside no other one of that kind."""
        named = [each for each in self.spans if each.kind == kind]
        return [each for each in named if not any(a.kind == kind for a in self.above(each))]

    def telling(self, call: Span) -> list[Span]:
        """The calls of models that tell the tokens of one: itself, or those inside it.

        A call may be written twice, by an application and by its client.
        """
        if call.usage != Usage():
            return [call]
        inside = [
            each
            for each in self.spans
            if each.kind == "llm" and call in self.above(each) and each.usage != Usage()
        ]
        return [e for e in inside if not any(a in inside for a in self.above(e))] or [call]


def _root(tree: _Tree, reading: Reading) -> Span:
    """The one outermost step that has a question and what became of it."""
    found: list[Span] = []
    causes: list[str] = []

    def look(spans: Sequence[Span]) -> None:
        for span in spans:
            if span.kind not in _ANSWERING:
                continue
            asked = read_question(span.input, reading.question)[0]
            said = read_answer(span.output, reading.answer)
            if asked is not None and (said is not None or span.error is not None):
                found.append(span)
                continue
            if span.input is not None and span.output is not None and not causes:
                causes.append(NO_QUESTION if asked is None else NO_ANSWER)
            # an input and output that cannot be read are not those of the steps inside
            if span.input is None or span.output is None:
                look(tree.inside.get(span.id, ()))

    look(tree.inside.get(None, ()))
    if len(found) == 1:
        return found[0]
    raise Unclear(SEVERAL if found else (causes or [NO_ROOT])[0])


def _question(
    root: Span, retrievals: Sequence[Retrieval], reading: Reading
) -> tuple[str, list[Message]]:
    """The question, and the messages before it.

    What a model is told is often a prompt with passages in it. Its question is then what the
    retrievers were asked, if it stands in the prompt word by word.
    """
    asked, turns = read_question(root.input, reading.question)
    if asked is None:
        raise Unclear(NO_QUESTION)
    texts = [d.text for each in retrievals for d in each.documents if d.text]
    if root.kind != "llm" or not any(text in asked for text in texts):
        return asked, turns
    queries = {each.query for each in retrievals}
    # one there is: the prompt holds a text that a retriever found
    query = queries.pop()
    if queries or query is None or query not in asked:
        raise Unclear(PROMPT)
    return query, turns


def _documents(span: Span, reading: Reading) -> list[Document]:
    """The passages that a span returned; a span that failed returned none."""
    written = span.output if span.documents is None else span.documents
    found = read_documents(written, reading.id_field, reading.corpus)
    if found is None and span.error is None:
        raise Unclear(UNREADABLE)
    return found or []


def _reranked(
    tree: _Tree, retrievals: Sequence[Retrieval], reading: Reading
) -> list[Document] | None:
    """The passages after the rerankers, with those that these did not get.

    What a reranker got is what it says, or else all that was retrieved until then. One inside of a
    retriever is a part of it.
    """
    rerankers = [
        each
        for each in tree.outermost("reranker")
        if each.error is None and not any(a.kind == "retriever" for a in tree.above(each))
    ]
    if not rerankers:
        return None
    passages: list[Document] = []
    waiting = list(retrievals)
    for reranker in sorted(rerankers, key=_done):
        before = [each for each in waiting if _done(each.span) <= _done(reranker)]
        waiting = [each for each in waiting if each not in before]
        there = [*passages, *chain.from_iterable(each.documents for each in before)]
        written = reranker.input if reranker.reranked is None else reranker.reranked
        taken = read_documents(written, reading.id_field, reading.corpus)
        known = {each.id for each in there if taken is None} | {each.id for each in taken or ()}
        passages = [*_documents(reranker, reading), *(d for d in there if d.id not in known)]
    return [*passages, *chain.from_iterable(each.documents for each in waiting)]


def _done(span: Span) -> float:
    """When a step was done; without times, before everything else."""
    return next((time for time in (span.end, span.start) if time is not None), 0.0)
