"""Documents, queries, hits, answers and data sets."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar, get_args

import msgspec
from msgspec import structs

from ragbench.signature import fingerprint_json
from ragbench.types.conversation import ToolCall, Turn
from ragbench.types.display import short_repr
from ragbench.types.forbidden import Forbidden
from ragbench.types.json_fields import MayHoldSecrets, Prose, Record, optional
from ragbench.types.reasoning import split_reasoning
from ragbench.types.spans import Span

if TYPE_CHECKING:
    from ragbench.types.columnar import Qrels

_LARGEST_COUNT = 2**53  # above it a float no longer tells neighbouring integers apart
# Part of a data set that is read as a whole.
Part = Literal["corpus", "queries", "qrels", "answers", "spans", "forbidden", "pools"]
# Documents whose statistics BM25 uses for a question with a pool.
PoolStatistics = Literal["corpus", "pool"]


# Further fields of a document, which may hold texts of services.
Metadata = Annotated[Mapping[str, Any], MayHoldSecrets]

# Note on hits in `Collection.excluded`, with their number.
EXCLUDED_NOTE = "hits that are excluded documents, dropped before scoring: {}"


class Document(Record, kw_only=False):
    """Document of a corpus, or a passage as a generator reads it.

    Loaders make it for a corpus, retrievers for passages.

    Attributes:
        id: Id, unique within the corpus.
        text: Body; empty if the corpus has none.
        title: Title; empty if the corpus has none.
        metadata: Further fields of the document in the corpus.
    """

    id: str
    text: Prose = ""
    title: Prose = ""
    metadata: Metadata = optional({})

    __repr__ = short_repr

    @property
    def full_text(self) -> str:
        """Title, a space and text, as retrievers index and generators read them.

        The text alone if the title is empty; an empty text leaves the title and the space.
        """
        return f"{self.title} {self.text}" if self.title else self.text


@dataclass(frozen=True, slots=True, repr=False)
class Query:
    """Question of a data set.

    Attributes:
        id: Id, unique within the data set.
        text: Question as the user asked it.
        metadata: Further fields of the question in the data set, such as topic or language.
        turns: Earlier turns of the conversation; empty for a single question.
        row: Number of its first row in a table without ids, from 1; None elsewhere.
        pool: Ids of the documents that may be retrieved for it; None allows the whole corpus.
    """

    id: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    turns: tuple[Turn, ...] = ()
    row: int | None = None
    pool: tuple[str, ...] | None = None

    __repr__ = short_repr


class ScoredDocument(Record, kw_only=False):
    """Hit of a retriever.

    The constructor checks nothing. `to_document` returns the hit as a passage, with empty texts for
    None.

    Attributes:
        id: Id of the document or chunk.
        score: Score of the retriever, higher is better; None ranks the hit by its position.
        text: Text of the hit; None means the text of the document in the corpus.
        title: Title of the hit; None means the title of the document in the corpus.
        metadata: Further fields that the retriever returns.
        document: Id of the document that contains this chunk; None if the hit is a document.
    """

    id: str
    score: float | None = optional()
    text: Prose | None = optional()
    title: Prose | None = optional()
    metadata: Metadata = optional({})
    document: str | None = optional()

    __repr__ = short_repr

    def to_document(self) -> Document:
        """Return the hit as a passage; a missing text or title becomes empty."""
        return Document(self.id, self.text or "", self.title or "", self.metadata)


class Retrieved(Record, kw_only=False):
    """Hits of a retriever for one query, with the queries that it formulated itself.

    Attributes:
        documents: Hits, best first; empty if nothing was retrieved.
        queries: Formulated queries (decomposition, expansion), which rubrics can judge.
        n_outside: Number of further hits, dropped as they are outside the pool of the query.
    """

    documents: Sequence[ScoredDocument]
    queries: list[Prose] = msgspec.field(default_factory=list)
    n_outside: int = optional(0)

    __repr__ = short_repr


class Usage(Record, kw_only=False):
    """Tokens and cost of one or several model calls; None where unknown, which is not 0.

    Attributes:
        input_tokens: Tokens sent.
        output_tokens: Tokens received, reasoning included.
        usd: Cost in US dollars at the time of payment.
        reasoning_tokens: Part of the output tokens that is reasoning; 0 where no server says.
        cached_tokens: Part of the input tokens that a server had cached; 0 where no server says.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    usd: float | None = None
    reasoning_tokens: int = optional(0)
    cached_tokens: int = optional(0)


# Usage of an answer whose tokens and cost are not known
UNKNOWN_USAGE = Usage()


def read_count(value: object) -> int | None:
    """Return a number of tokens; None for anything but an integer from 0 to 2**53."""
    # The exact type, as True is an int in Python.
    return value if type(value) is int and 0 <= value <= _LARGEST_COUNT else None


def usage_of_counts(
    sent: object,
    received: object,
    total: object = None,
    reasoning: object = None,
    cached: object = None,
) -> Usage:
    """Return the usage of the counts that a server reports, without a cost.

    Some servers (xAI, Gemini) count reasoning in the total alone, so output tokens are the larger
    of `received` and `total - sent`. Without a total, more reasoning than `received` shows that it
    stands beside `received`. Reasoning is at most the output, cached tokens at most the input.

    Args:
        sent: Tokens of the prompt.
        received: Tokens of the completion, with or without reasoning.
        total: Tokens of the call.
        reasoning: Tokens of reasoning.
        cached: Part of `sent` that the server had cached.

    Example:
        >>> usage_of_counts(1000, 100, total=1900, reasoning=800)
        Usage(input_tokens=1000, output_tokens=900, usd=None, reasoning_tokens=800, cached_tokens=0)
    """
    n_sent, n_received, n_total = read_count(sent), read_count(received), read_count(total)
    n_reasoning, n_cached = read_count(reasoning) or 0, read_count(cached) or 0
    output = n_received
    if n_sent is not None and n_total is not None:
        output = max(n_received or 0, n_total - n_sent)
    elif n_received is not None and n_total is None and n_reasoning > n_received:
        output = n_received + n_reasoning
    return Usage(
        n_sent,
        output,
        None,
        n_reasoning if output is None else min(n_reasoning, output),
        n_cached if n_sent is None else min(n_cached, n_sent),
    )


def add_usage(parts: Iterable[Usage]) -> Usage:
    """Return the sum of usages; a number is None if a part of it is unknown, 0 without parts.

    A sum above 2**53 is unknown as well: no file could hold it. For reasoning and cached tokens an
    unknown sum is 0.

    Example:
        >>> add_usage([Usage(10, 2, 0.5), Usage(5, 1, None, cached_tokens=4)])
        Usage(input_tokens=15, output_tokens=3, usd=None, reasoning_tokens=0, cached_tokens=4)
    """
    usages = list(parts)  # read several times below, and `parts` may be an iterator
    return Usage(
        _total(usages, "input_tokens", sum),
        _total(usages, "output_tokens", sum),
        _total(usages, "usd", math.fsum),
        _total(usages, "reasoning_tokens", sum) or 0,
        _total(usages, "cached_tokens", sum) or 0,
    )


def _total(usages: Sequence[Usage], name: str, add: Callable[[Sequence[Any]], Any]) -> Any:
    """Return the sum of a field by `add`; None if a value is None, or the sum is above 2**53."""
    values = list(map(operator.attrgetter(name), usages))
    # `math.fsum` raises an error for a sum that no float holds.
    if None in values or max(values, default=0) > _LARGEST_COUNT:
        return None
    total = add(values)
    return total if total <= _LARGEST_COUNT else None


class AnswerFields(Record, kw_only=False):
    """Fields of an answer in memory, in the store and in a run folder: see `Prediction`.

    Attributes:
        answer: Text of the answer; None for a system that gives passages and queries alone.
    """

    answer: Prose | None
    contexts: list[Document] | None = None
    usage: Usage = UNKNOWN_USAGE
    queries: list[Prose] = msgspec.field(default_factory=list)
    latency_ms: float | None = None
    left_out: tuple[str, ...] = optional(())
    tool_calls: tuple[ToolCall, ...] | None = optional()
    reasoning: Prose = optional("")


class Prediction(AnswerFields, kw_only=False):
    """Answer of a generator or app to one query.

    Attributes:
        answer: Text of the answer; an empty text is an answer too.
        contexts: Passages that the generator used; None means the passages that it was given.
        usage: Tokens and cost of the answer.
        queries: Queries that an app formulated.
        latency_ms: Time of the answer, in milliseconds; None means the time of the call. A stored
            reply reports the time of its original call.
        left_out: Parameters not sent, since the model refuses them, such as `temperature`.
        tool_calls: Tool calls made for the answer, in order; None if unknown.
        reasoning: Reasoning that `without_reasoning` cut from the answer; empty if it cut none.
    """

    answer: Prose

    __repr__ = short_repr


# Importance of a nugget; a good answer contains every vital one.
Importance = Literal["vital", "okay"]
IMPORTANCES: tuple[Importance, ...] = get_args(Importance)
# Degree to which an answer contains a nugget.
Assignment = Literal["support", "partial_support", "not_support"]
ASSIGNMENTS: tuple[Assignment, ...] = get_args(Assignment)


class Nugget(Record, kw_only=False):
    """Fact that a good answer to a question contains.

    Attributes:
        text: Fact in a few words.
        importance: `vital` or `okay`.
        assignment: Degree to which one answer contains it: `support`, `partial_support` or
            `not_support`; None if no answer was judged.
    """

    text: str
    importance: Importance
    assignment: Assignment | None = None


def nuggets_fingerprint(nuggets: Iterable[Nugget]) -> str:
    """Return a hash of nuggets and their assignments, in their order."""
    return fingerprint_json([structs.astuple(nugget) for nugget in nuggets])


class AnswerLength(NamedTuple):
    """Words of an answer, and the largest number of words that its task allows."""

    words: int
    limit: int


@dataclass(frozen=True, slots=True)
class AnswerJudgements:
    """Judgements of one recorded answer, which metrics count without any call.

    Attributes:
        support: Level of support of each judged sentence by its first citation (`full_support`,
            `partial_support` or `no_support`), None for a sentence without a citation; None for an
            answer without judgements of support.
        nuggets: Nuggets of the question with their assignments to the answer; None without any.
        length: Length of the answer and its limit; None without a limit.
    """

    support: tuple[str | None, ...] | None = None
    nuggets: tuple[Nugget, ...] | None = None
    length: AnswerLength | None = None

    def to_list(self) -> list[Any]:
        """Return the judgements as JSON values, for fingerprints."""
        nuggets = self.nuggets and [structs.astuple(nugget) for nugget in self.nuggets]
        return [self.support, nuggets, self.length]


@dataclass(frozen=True, slots=True, repr=False)
class Answered:
    """Answer and passages of a recorded system for one query of a data set.

    Attributes:
        query_id: Id of the query.
        answer: Recorded answer; None if the record has none.
        contexts: Retrieved passages, best first; None if the record has none.
        queries: Formulated queries, the standalone question among them.
        tool_calls: Tool calls in order; None if the record does not list any.
        error: Reason why the call failed; None if it did not fail, or if unknown.
        usage: Tokens and cost of the answer.
        latency_ms: Time of the answer, in milliseconds; None if unknown.
        reasoning: Reasoning that `without_reasoning` cut from the answer; empty if it cut none.
        further: Hits that were ranked below the passages and not read; often ids without a text.
        metadata: Further columns of the answer's row in a table; not part of its fingerprint.
        judgements: Judgements of the answer that the data set holds; None without any.
    """

    query_id: str
    answer: str | None = None
    contexts: list[Document] | None = None
    queries: list[str] = field(default_factory=list)
    tool_calls: tuple[ToolCall, ...] | None = None
    error: str | None = None
    usage: Usage = UNKNOWN_USAGE
    latency_ms: float | None = None
    reasoning: str = ""
    further: list[Document] = field(default_factory=list)
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False)
    judgements: AnswerJudgements | None = None

    __repr__ = short_repr

    @property
    def ranking(self) -> list[Document] | None:
        """All hits, best first: the passages and the hits below them."""
        return None if self.contexts is None else [*self.contexts, *self.further]


Answer = TypeVar("Answer", Prediction, Answered)


def without_reasoning(record: Answer) -> Answer:
    r"""Return an answer without the reasoning of the model, which becomes the field `reasoning`.

    A record without an answer, and an answer without reasoning, are returned as they are.

    Example:
        >>> without_reasoning(Prediction("<think>\nTwo.\n</think>\n\n4"))
        Prediction(answer='4', reasoning='Two.')
    """
    if record.answer is None:
        return record
    reasoning, answer = split_reasoning(record.answer)
    if answer == record.answer:
        return record
    if isinstance(record, Prediction):
        return structs.replace(record, answer=answer, reasoning=reasoning)
    return replace(record, answer=answer, reasoning=reasoning)


def reasoning_notes(
    systems: Mapping[str, Iterable[Prediction | Answered | None]],
) -> list[str]:
    """Return notes with the number of answers from which reasoning was cut; [] if none was.

    Systems with equal numbers share a note. The name '' is left out, and None counts as no answer.
    """
    names_by_counts: dict[tuple[int, int], list[str]] = {}
    for name, records in systems.items():
        answers = []
        for record in records:
            if record is not None and record.answer is not None:
                answers.append(record)
        counts = (sum(bool(answer.reasoning) for answer in answers), len(answers))
        names_by_counts.setdefault(counts, []).append(name)
    notes = []
    for (n_cut, n_answers), names in names_by_counts.items():
        if n_cut:
            note = f"reasoning was cut from {n_cut} of {n_answers} answers"
            owner = ", ".join(filter(None, names))
            notes.append(f"{owner and owner + ': '}{note}; the option reasoning: keep leaves it in")
    return notes


@dataclass(frozen=True, slots=True, repr=False)
class Collection:
    """Data set as a loader returns it.

    A loader makes it; programs may pass one to `run_experiment`. The constructor checks nothing.

    Attributes:
        queries: Queries in the order of the file; large files are read from disk query by query.
        documents: Corpus; None if the data set has none.
        qrels: Graded judgements; None if the data set has none.
        gold_passages: Judged passages by id, for judgements of texts instead of documents.
        gold_places: File and line of a judged id that the corpus lacks; unknown places are absent.
        answers: Gold answers by query id; a query without one is absent.
        expected_tool_calls: Gold tool calls by query id, in order; empty if no call is right.
        recorded_answers: Answers of each system that the data set holds, by its name.
        fingerprints: Short content hash of each part that the data set has: `corpus`, `queries`,
            `qrels`, `answers`, `spans`, `expected_tool_calls`, `given`, `excluded`,
            `forbidden`, `nuggets`, `pools`.
        notes: Sentences on how the data were read, such as counts and duplicates.
        warnings: Sentences on problems that make scores doubtful, such as unplaced gold passages.
        gold_spans: Gold spans by query id, of documents of the corpus; empty for a query with gold
            that cannot be placed. A query without such gold is absent.
        ambiguous_gold: Documents that hold a quoted gold passage, by query id, if it stands in
            several and no gold document is named: the query then has no gold document.
        excluded: Documents by query id that are dropped from its rankings before they are scored.
        forbidden: Documents, metadata and spans that must never come up, by query id.
        nuggets: Facts of a good answer by query id, without assignments; a query without a list of
            nuggets is absent.
        pool_statistics: Documents whose statistics BM25 uses for a query with a pool: those of the
            `corpus` or of the `pool` alone.
        alternatives: Query id -> id of a gold document -> judged document that it stands for, of
            gold of which any is enough; of several such hits the first one counts.
        unread: Column of a table that holds no known part -> (part that it may hold, its first
            value as a text).
        table_columns: Part -> column of a table that holds it; empty for data that are no table.
        table_rows: Query id -> number of its first row in a table, from 1.
    """

    queries: Sequence[Query]
    documents: Sequence[Document] | None = None
    qrels: Qrels | None = None
    gold_passages: Mapping[str, Document] = field(default_factory=dict)
    gold_places: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, list[str]] = field(default_factory=dict)
    expected_tool_calls: Mapping[str, tuple[ToolCall, ...]] = field(default_factory=dict)
    recorded_answers: Mapping[str, Sequence[Answered]] = field(default_factory=dict)
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    gold_spans: Mapping[str, Sequence[Span]] = field(default_factory=dict)
    ambiguous_gold: Mapping[str, Sequence[str]] = field(default_factory=dict)
    excluded: Mapping[str, frozenset[str]] = field(default_factory=dict)
    alternatives: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    unread: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    table_columns: Mapping[str, str] = field(default_factory=dict)
    table_rows: Mapping[str, int] = field(default_factory=dict)
    forbidden: Mapping[str, Forbidden] = field(default_factory=dict)
    nuggets: Mapping[str, tuple[Nugget, ...]] = field(default_factory=dict)
    pool_statistics: PoolStatistics = "corpus"

    def __repr__(self) -> str:
        parts = {
            "queries": self.queries,
            "documents": self.documents,
            "judged queries": self.qrels and self.qrels.query_ids,
            "queries with gold answers": self.answers,
            "systems": self.recorded_answers,
        }
        texts = []
        for name, part in parts.items():
            if part:
                texts.append(f"{len(part)} {name}")
        return f"<Collection: {', '.join(texts)}>"

    def fingerprint(self, part: Part) -> str | None:
        """Return the content hash of a part; None if the data set lacks it."""
        return self.fingerprints.get(part)
