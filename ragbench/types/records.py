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
Part = Literal["corpus", "queries", "qrels", "answers"]
"""A part of a data set that is read as a whole."""


@dataclass(frozen=True, slots=True)
class Document:
    """One retrievable unit of the corpus."""

    id: str
    """Unique within the corpus."""
    text: str = ""
    """The body."""
    title: str = ""
    """The title, empty where there is none."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Anything else that the corpus says about it."""

    @property
    def full_text(self) -> str:
        """Title and text, as retrievers index them and generators read them."""
        return f"{self.title} {self.text}" if self.title else self.text


@dataclass(frozen=True, slots=True)
class Query:
    """One question."""

    id: str
    """Unique within the data set."""
    text: str
    """The question as the user asked it."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Anything else that is known about it: topic, kind, language."""
    turns: tuple[Turn, ...] = ()
    """What was said before it, in a conversation."""


@dataclass(frozen=True, slots=True)
class ScoredDocument:
    """One hit of a retriever."""

    id: str
    """The document's id."""
    score: float | None = None
    """The retriever's number, higher is better; None where it gives none: the order counts."""
    text: str | None = None
    """The text of the hit; None takes the corpus document's."""
    title: str | None = None
    """The title of the hit; None takes the corpus document's."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """What the retriever says about it."""
    document: str | None = None
    """The id of the document that it is a chunk of; None where it is a document itself."""


@dataclass(frozen=True, slots=True)
class Retrieved:
    """A retriever's answer to one query, with the queries that it formulated itself."""

    documents: Sequence[ScoredDocument]
    """Best first."""
    queries: list[str] = field(default_factory=list)
    """Formulated queries (decomposition, expansion), so that they can be judged."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a model call took; None where it is unknown, which is not 0."""

    input_tokens: int | None = None
    """Tokens sent."""
    output_tokens: int | None = None
    """Tokens received."""
    usd: float | None = None
    """Cost in US dollars."""
    reasoning_tokens: int = optional(0)
    """Those of the tokens received that are reasoning, as far as servers say."""


def add_usage(parts: Iterable[Usage]) -> Usage:
    """Return the sum; a number is None where a part of it is unknown, 0 where there is no part.

    Example:
        >>> add_usage([Usage(10, 2, 0.5), Usage(5, 1, None, reasoning_tokens=1)])
        Usage(input_tokens=15, output_tokens=3, usd=None, reasoning_tokens=1)
    """
    sent: list[int | None] = []
    received: list[int | None] = []
    usd: list[float | None] = []
    reasoning = 0
    for usage in parts:
        sent.append(usage.input_tokens)
        received.append(usage.output_tokens)
        usd.append(usage.usd)
        reasoning += usage.reasoning_tokens
    return Usage(_sum(sent, 0), _sum(received, 0), _sum(usd, 0.0), reasoning)


def _sum(values: Sequence[N | None], zero: N) -> N | None:
    """Return the sum of numbers; None where one is unknown."""
    numbers = [value for value in values if value is not None]
    return sum(numbers, zero) if len(numbers) == len(values) else None


@dataclass(frozen=True, slots=True)
class Prediction:
    """A generated answer."""

    answer: str
    """The text; empty is an answer too."""
    contexts: list[Document] | None = None
    """The passages that the answer was made from, where the generator knows better than we."""
    usage: Usage = Usage()
    """What it took."""
    queries: list[str] = field(default_factory=list)
    """Formulated queries of a whole app."""
    latency_ms: float | None = None
    """How long the answer took, where the generator knows better than a clock around the call: a
    reply that was stored took its time when it was paid for."""
    left_out: tuple[str, ...] = ()
    """What was asked for and not sent, since the model refuses it: `temperature`, `seed`."""
    tool_calls: tuple[ToolCall, ...] | None = None
    """The tools that were called on the way, in order; None where that is not known."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What one system says to one query in the records: the `given` system of a data set."""

    query_id: str
    """The query."""
    answer: str | None = None
    """The system's answer; None where the record has none."""
    contexts: list[Document] | None = None
    """The passages that it retrieved, best first; None where the record has none."""
    queries: list[str] = field(default_factory=list)
    """The queries that it formulated, the standalone question among them."""
    tool_calls: tuple[ToolCall, ...] | None = None
    """The tools that it called, in order; None where the records do not say."""
    error: str | None = None
    """Why the call failed; None where it did not, or where the records do not say."""
    usage: Usage = Usage()
    """What the answer took."""
    latency_ms: float | None = None
    """How long it took."""


@dataclass(frozen=True, slots=True)
class Collection:
    """A data set as a loader returns it."""

    queries: Sequence[Query]
    """In the order of the file; those of many records are read from disk one by one."""
    documents: Sequence[Document] | None = None
    """The corpus; None where the data set has none."""
    qrels: Qrels | None = None
    """Graded judgements; None where there are none."""
    gold_passages: Mapping[str, Document] = field(default_factory=dict)
    """Judged passages by id, where the judgements are of texts and not of the corpus."""
    gold_places: Mapping[str, str] = field(default_factory=dict)
    """Judged id -> where it stands in a file; of those that the corpus lacks, as far as known."""
    answers: Mapping[str, list[str]] = field(default_factory=dict)
    """Gold answers by query id; a query without one is absent."""
    expected_tool_calls: Mapping[str, tuple[ToolCall, ...]] = field(default_factory=dict)
    """Gold tool calls by query id, in order; empty where none is right."""
    given: Mapping[str, Sequence[Answered]] = field(default_factory=dict)
    """Systems whose contexts or answers the records carry, by name."""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """Short content hashes: `corpus`, `queries`, `qrels`, `answers`."""
    notes: list[str] = field(default_factory=list)
    """How the data were read, one sentence each: counts, duplicates, what was left out."""
    warnings: list[str] = field(default_factory=list)
    """What makes numbers doubtful, one sentence each: gold that could not be placed."""

    def fingerprint(self, part: Part) -> str | None:
        """Return the content hash of a part; None for one that it does not have."""
        return self.fingerprints.get(part)


IMPORTANCES = ("vital", "okay")
"""How much a nugget matters."""
ASSIGNMENTS = ("support", "partial_support", "not_support")
"""How far an answer has a nugget."""


class Nugget(NamedTuple):
    """A fact that a good answer to a question has."""

    text: str
    """What it says, in a few words."""
    importance: str
    """A word of `IMPORTANCES`: without a vital one an answer is not good."""
    assignment: str | None = None
    """A word of `ASSIGNMENTS`, about one answer; None where this was not looked at."""
