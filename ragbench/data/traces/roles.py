"""Roles of the spans of a trace: the question, the answer, each retrieval, the model.

Roles follow from the kinds of spans and from which span is inside which, never from positions. A
trace whose roles are not clear is left out: `UnclearTrace` has the cause.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from ragbench.data.files.rows import encode_spaces
from ragbench.data.traces import values
from ragbench.data.traces.spans import Kind, TraceSpan, Tree
from ragbench.types import Answered, Document, ToolCall, Turn, Usage
from ragbench.types.lookups import index_by_id
from ragbench.types.records import add_usage

_NO_QUESTION = "its input does not say what the question is"
_NO_ANSWER = "its output does not say what the answer is"

# Kinds of an outermost span that may be a whole application.
_ANSWERING: tuple[Kind, ...] = ("chain", "agent", "llm", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleRules:
    """Rules of the user for finding the roles in traces.

    Attributes:
        question: Path of the question in the input of the outermost span; None finds it by its
            keys.
        answer: Path of the answer in the output of the outermost span; None finds it by its keys.
        id_field: Metadata key with the id of a passage; None takes the usual keys.
        corpus: Id -> document, for passages without a text; empty without a corpus.
    """

    question: str | None = None
    answer: str | None = None
    id_field: str | None = None
    corpus: Mapping[str, Document] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Outermost retriever of a trace, with its query and its passages; one of `TraceRoles`.

    Attributes:
        span: Span of the retriever.
        query: Query in its input; None if it cannot be told.
        documents: Passages that it returned, best first; empty if it failed and they cannot be
            read.
    """

    span: TraceSpan
    query: str | None
    documents: list[Document]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRoles:
    """Roles of the spans of one trace, as `read_trace` returns them.

    Attributes:
        answered: The answer with its passages, tool calls, tokens and time. The passages are those
            after reranking if there is a reranker, None without retrievals and rerankers; queries
            are those of the retrievals that differ from the question.
        turns: Earlier turns in the input of the trace.
        session: Id of the conversation; None without one.
        start: Start of the root span, else of the first span with a time, in seconds since 1970;
            None if unknown.
        retrievals: Outermost retrievers, in order of time; in that of the file if a span of the
            trace has no time.
        union: Passages of all retrievals, each once, in the order of the retrievals.
        renamed: Number of passages with the id of another passage but another text.
        models: Names of the models that were called, sorted.
        id: Id of the trace.
        question: Text of the question.
        is_reranked: True if a reranker that did not fail orders the passages.
        metadata: Metadata of the root span.
    """

    id: str
    question: str
    answered: Answered
    turns: tuple[Turn, ...]
    session: str | None
    start: float | None
    retrievals: list[Retrieval]
    union: list[Document]
    is_reranked: bool
    renamed: int
    models: list[str]
    metadata: Tree


class UnclearTrace(Exception):
    """Trace whose roles are not clear; the text of the exception is the cause.

    `read_trace` raises it, and `TraceSet.read` counts it.
    """


def read_trace(spans: Sequence[TraceSpan], rules: RoleRules) -> TraceRoles:
    """Return the roles of the spans of one trace.

    A trace with an error may lack an answer.

    Raises:
        UnclearTrace: The root, the question, the answer or the passages of a retrieval are not
            clear.
    """
    tree = _Tree(spans)
    root = _root(tree, rules)
    retrievals, documents = [], []
    for span in tree.outermost("retriever"):
        query, _ = values.read_question(span.input)
        retrievals.append(Retrieval(span, query, _documents(span, rules)))
        documents += retrievals[-1].documents
    union, renamed = values.unique_passages(documents)
    reranked = _reranked(tree, retrievals, rules)
    passages = union if reranked is None else values.unique_passages(reranked)[0]
    question, turns = _question(root, retrievals, rules)
    answer, error = _answer_or_error(tree, root, rules)
    # each query once, in the order of the retrievals
    queries = list[str]()
    for retrieval in retrievals:
        if retrieval.query is not None and retrieval.query not in (question, *queries):
            queries.append(retrieval.query)
    models = set()
    for span in tree.spans:
        if span.kind == "llm" and span.model:
            models.add(span.model)
    return TraceRoles(
        id=root.trace,
        question=question,
        answered=Answered(
            encode_spaces(root.trace),
            answer,
            # None if no retrieval was recorded, which differs from one without passages
            passages if retrievals or reranked is not None else None,
            queries,
            tuple(map(_tool_call, tree.outermost("tool"))),
            error=error,
            usage=_usage(tree),
            latency_ms=root.latency_ms,
        ),
        turns=turns,
        session=next((span.session for span in (root, *tree.spans) if span.session), None),
        start=next((span.start for span in (root, *tree.spans) if span.start is not None), None),
        retrievals=retrievals,
        union=union,
        is_reranked=reranked is not None,
        renamed=renamed,
        models=sorted(models),
        metadata=root.metadata,
    )


def _answer_or_error(
    tree: _Tree, root: TraceSpan, rules: RoleRules
) -> tuple[str | None, str | None]:
    """Return (answer of a trace, None), or (None, its error)."""
    if root.error is not None:
        # the output of a failed application is not its answer
        return None, root.error
    answer = values.read_answer(root.output, rules.answer)
    if answer is not None:
        return answer, None
    # an application may catch the error of a step, and return nothing
    error = next((span.error for span in tree.spans if span.error), None)
    if error is None:
        raise UnclearTrace(_NO_ANSWER)
    return None, error


def _usage(tree: _Tree) -> Usage:
    """Return the tokens and cost of all model calls of a trace."""
    calls = chain.from_iterable(map(tree.calls_with_usage, tree.outermost("llm")))
    usages = [call.usage for call in calls]
    return add_usage(usages) if usages else Usage()


def _tool_call(span: TraceSpan) -> ToolCall:
    """Return the call of a tool; an input that is no object becomes its argument `input`."""
    arguments: Tree = {} if span.input is None else {"input": span.input}
    arguments = span.input if isinstance(span.input, Mapping) else arguments
    output = span.output
    if output is not None and not isinstance(output, str):
        output = json.dumps(output, ensure_ascii=False, default=str)
    return ToolCall(span.name, arguments, output)


class _Tree:
    """Spans of a trace with their nesting, in order of time if all have times."""

    def __init__(self, spans: Sequence[TraceSpan]) -> None:
        """Link the spans; raise `UnclearTrace` for repeated ids and for circles."""
        self.by_id = index_by_id(spans)
        if len(self.by_id) < len(spans):
            raise UnclearTrace("two spans have the same id")
        are_timed = all(span.start is not None for span in spans)
        # with times for some spans only, the order of the file is the better guess
        self.spans = sorted(spans, key=lambda span: span.start or 0) if are_timed else list(spans)
        self.inside: dict[str | None, list[TraceSpan]] = {}
        for span in self.spans:
            # a parent that is not in the export: the span is outermost here
            parent = span.parent if span.parent in self.by_id else None
            self.inside.setdefault(parent, []).append(span)
            # for its error: a circle has no outermost span
            self.above(span)

    def above(self, span: TraceSpan) -> list[TraceSpan]:
        """Return the spans around a span, the nearest first; [] for an outermost span."""
        ancestors: list[TraceSpan] = []
        while span.parent in self.by_id:
            span = self.by_id[span.parent or ""]
            if span in ancestors:
                raise UnclearTrace("its spans are inside each other in a circle")
            ancestors.append(span)
        return ancestors

    def outermost(self, kind: Kind) -> list[TraceSpan]:
        """Return the spans of a kind that are inside no other span of that kind."""
        spans = []
        for span in self.spans:
            if span.kind == kind:
                spans.append(span)
        return self._roots(spans)

    def calls_with_usage(self, call: TraceSpan) -> list[TraceSpan]:
        """Return the model calls with the tokens of a call: the call itself, or calls inside it."""
        # An application and its client may both record one call, so that tokens of both would count
        # twice.
        if call.usage != Usage():
            return [call]
        spans = []
        for span in self.spans:
            has_usage = span.kind == "llm" and span.usage != Usage()
            if has_usage and call in self.above(span):
                spans.append(span)
        return self._roots(spans) or [call]

    def _roots(self, spans: Sequence[TraceSpan]) -> list[TraceSpan]:
        """Return the spans that are inside none of the others, in their order."""
        ids = {span.id for span in spans}
        roots = []
        for span in spans:
            if not any(outer.id in ids for outer in self.above(span)):
                roots.append(span)
        return roots


def _root(tree: _Tree, rules: RoleRules) -> TraceSpan:
    """Return the outermost span with a question, and an answer or an error."""
    roots: list[TraceSpan] = []
    causes: list[str] = []
    steps = [*tree.inside.get(None, ())]
    for span in steps:
        if span.kind not in _ANSWERING:
            continue
        question = values.read_question(span.input, rules.question)[0]
        answer = values.read_answer(span.output, rules.answer)
        if question is not None and (answer is not None or span.error is not None):
            roots.append(span)
        elif span.input is None or span.output is None:
            # a wrapper that records no input or output; the loop goes on with the steps inside it
            steps += tree.inside.get(span.id, ())
        else:  # inner spans do not speak for a span whose own input or output cannot be read
            causes.append(_NO_QUESTION if question is None else _NO_ANSWER)
    if len(roots) == 1:
        return roots[0]
    if roots:
        raise UnclearTrace("several outermost steps have an answer")
    raise UnclearTrace([*causes, "no outermost step has a question and an answer"][0])


def _question(
    root: TraceSpan, retrievals: Sequence[Retrieval], rules: RoleRules
) -> tuple[str, tuple[Turn, ...]]:
    """Return (question of a trace, turns before it); () for a prompt, or without turns."""
    # The input of a model is often a prompt with passages in it. The question is then the query of
    # the retrievers, if it stands in the prompt word for word.
    question, turns = values.read_question(root.input, rules.question)
    if question is None:
        raise UnclearTrace(_NO_QUESTION)
    has_passages = any(d.text and d.text in question for d in _documents_of(retrievals))
    # a question without passages in it is no prompt
    if root.kind != "llm" or not has_passages:
        return question, turns
    query, *other_queries = {retrieval.query for retrieval in retrievals}
    if other_queries or query is None or query not in question:
        raise UnclearTrace(
            "its outermost step is a call of a model, whose prompt does not tell the question"
        )
    return query, turns


def _documents(span: TraceSpan, rules: RoleRules) -> list[Document]:
    """Return the passages of a span, in its order."""
    output = span.output if span.documents is None else span.documents
    passages = values.read_documents(output, rules.id_field, rules.corpus)
    if passages is None and span.error is None:
        raise UnclearTrace("a retrieval whose passages cannot be read")
    return passages or []


def _reranked(
    tree: _Tree, retrievals: Sequence[Retrieval], rules: RoleRules
) -> list[Document] | None:
    """Return the passages after all rerankers; None without a reranker."""
    # Passages that no reranker got follow in their order. A reranker inside of a retriever is a
    # part of it.
    rerankers = []
    for span in tree.outermost("reranker"):
        is_part = any(outer.kind == "retriever" for outer in tree.above(span))
        if span.error is None and not is_part:
            rerankers.append(span)
    if not rerankers:
        return None
    passages: list[Document] = []
    pending = list(retrievals)
    # by their ends: each reranker gets what was retrieved or reranked before it
    for reranker in sorted(rerankers, key=_end):
        ready, later = list[Retrieval](), list[Retrieval]()
        for retrieval in pending:
            is_ready = _end(retrieval.span) <= _end(reranker)
            (ready if is_ready else later).append(retrieval)
        pending = later
        passages += _documents_of(ready)
        record = reranker.input if reranker.reranked is None else reranker.reranked
        inputs = values.read_documents(record, rules.id_field, rules.corpus)
        ids = {document.id for document in (passages if inputs is None else inputs)}
        untouched = []
        for document in passages:
            if document.id not in ids:
                untouched.append(document)
        passages = [*_documents(reranker, rules), *untouched]
    return [*passages, *_documents_of(pending)]


def _documents_of(retrievals: Iterable[Retrieval]) -> Iterator[Document]:
    """Return an iterator over the passages of several retrievals."""
    return chain.from_iterable(retrieval.documents for retrieval in retrievals)


def _end(span: TraceSpan) -> float:
    """Return the time when a span ended, or else started; 0 without times, as if it came first."""
    for time in (span.end, span.start):
        if time is not None:
            return time
    return 0.0
