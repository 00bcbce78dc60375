"""Documents, queries, what a retriever returns, what a generator returns, and a collection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from ragbench.types.conversation import ToolCall, Turn
from ragbench.types.json_fields import optional

if TYPE_CHECKING:
    from ragbench.types.columnar import Qrels

N = TypeVar("N", int, float)
# A part of a data set that is read as a whole.
Part = Literal["corpus", "queries", "qrels", "answers"]


@dataclass(frozen=True, slots=True)
class Document:
    """One retrievable unit of the corpus.

    Attributes:
        id: Unique within the corpus.
        text: The body.
        title: The title, empty where there is none.
        metadata: Anything else that the corpus says about it.
    """

    id: str
    text: str = ""
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def full_text(self) -> str:
        """Title and text, as retrievers index them and generators read them."""
        return f"{self.title} {self.text}" if self.title else self.text


@dataclass(frozen=True, slots=True)
class Query:
    """One question.

    Attributes:
        id: Unique within the data set.
        text: The question as the user asked it.
        metadata: Anything else that is known about it: topic, kind, language.
        turns: What was said before it, in a conversation.
    """

    id: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    turns: tuple[Turn, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoredDocument:
    """One hit of a retriever.

    Attributes:
        id: The document's id.
        score: The retriever's number, higher is better; None where it gives none: the order counts.
        text: The text of the hit; None takes the corpus document's.
        title: The title of the hit; None takes the corpus document's.
        metadata: What the retriever says about it.
        document: The id of the document that it is a chunk of; None where it is a document itself.
    """

    id: str
    score: float | None = None
    text: str | None = None
    title: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    document: str | None = None


@dataclass(frozen=True, slots=True)
class Retrieved:
    """A retriever's answer to one query, with the queries that it formulated itself.

    Attributes:
        documents: Best first.
        queries: Formulated queries (decomposition, expansion), so that they can be judged.
    """

    documents: Sequence[ScoredDocument]
    queries: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Usage:
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


def add_usage(parts: Iterable[Usage]) -> Usage:
    """Return the sum; a number is None where a part of it is unknown, 0 where there is no part.

    Example:
        >>> add_usage([Usage(10, 2, 0.5), Usage(5, 1, None, cached_tokens=4)])
        Usage(input_tokens=15, output_tokens=3, usd=None, reasoning_tokens=0, cached_tokens=4)
    """
    usages = list(parts)
    return Usage(
        _sum([usage.input_tokens for usage in usages], 0),
        _sum([usage.output_tokens for usage in usages], 0),
        _sum([usage.usd for usage in usages], 0.0),
        sum(usage.reasoning_tokens for usage in usages),
        sum(usage.cached_tokens for usage in usages),
    )


def _sum(values: Sequence[N | None], zero: N) -> N | None:
    """Return the sum of numbers; None where one is unknown."""
    numbers = [value for value in values if value is not None]
    return sum(numbers, zero) if len(numbers) == len(values) else None


@dataclass(frozen=True, slots=True)
class Prediction:
    """A generated answer.

    Attributes:
        answer: The text; empty is an answer too.
        contexts: The passages that the answer was made from, where the generator knows better than
            we.
        usage: What it took.
        queries: Formulated queries of a whole app.
        latency_ms: How long the answer took, where the generator knows better than a clock around
            the call: a reply that was stored took its time when it was paid for.
        left_out: What was asked for and not sent, since the model refuses it: `temperature`,
            `seed`.
        tool_calls: The tools that were called on the way, in order; None where that is not known.
    """

    answer: str
    contexts: list[Document] | None = None
    usage: Usage = Usage()
    queries: list[str] = field(default_factory=list)
    latency_ms: float | None = None
    left_out: tuple[str, ...] = ()
    tool_calls: tuple[ToolCall, ...] | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """What one system says to one query in the records: the `given` system of a data set.

    Attributes:
        query_id: The query.
        answer: The system's answer; None where the record has none.
        contexts: The passages that it retrieved, best first; None where the record has none.
        queries: The queries that it formulated, the standalone question among them.
        tool_calls: The tools that it called, in order; None where the records do not say.
        error: Why the call failed; None where it did not, or where the records do not say.
        usage: What the answer took.
        latency_ms: How long it took.
    """

    query_id: str
    answer: str | None = None
    contexts: list[Document] | None = None
    queries: list[str] = field(default_factory=list)
    tool_calls: tuple[ToolCall, ...] | None = None
    error: str | None = None
    usage: Usage = Usage()
    latency_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Collection:
    """A data set as a loader returns it.

    Attributes:
        queries: In the order of the file; those of many records are read from disk one by one.
        documents: The corpus; None where the data set has none.
        qrels: Graded judgements; None where there are none.
        gold_passages: Judged passages by id, where the judgements are of texts and not of the
            corpus.
        gold_places: Judged id -> where it stands in a file; of those that the corpus lacks, as far
            as known.
        answers: Gold answers by query id; a query without one is absent.
        expected_tool_calls: Gold tool calls by query id, in order; empty where none is right.
        given: Systems whose contexts or answers the records carry, by name.
        fingerprints: Short content hashes: `corpus`, `queries`, `qrels`, `answers`.
        notes: How the data were read, one sentence each: counts, duplicates, what was left out.
        warnings: What makes numbers doubtful, one sentence each: gold that could not be placed.
    """

    queries: Sequence[Query]
    documents: Sequence[Document] | None = None
    qrels: Qrels | None = None
    gold_passages: Mapping[str, Document] = field(default_factory=dict)
    gold_places: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, list[str]] = field(default_factory=dict)
    expected_tool_calls: Mapping[str, tuple[ToolCall, ...]] = field(default_factory=dict)
    given: Mapping[str, Sequence[Answered]] = field(default_factory=dict)
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def fingerprint(self, part: Part) -> str | None:
        """Return the content hash of a part; None for one that it does not have."""
        return self.fingerprints.get(part)


# How much a nugget matters.
IMPORTANCES = ("vital", "okay")
# How far an answer has a nugget.
ASSIGNMENTS = ("support", "partial_support", "not_support")


class Nugget(NamedTuple):
    """A fact that a good answer to a question has.

    Attributes:
        text: What it says, in a few words.
        importance: A word of `IMPORTANCES`: without a vital one an answer is not good.
        assignment: A word of `ASSIGNMENTS`, about one answer; None where this was not looked at.
    """

    text: str
    importance: str
    assignment: str | None = None
