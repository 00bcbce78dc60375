"""What is kept of a score: in `summary.json`, baseline files, and by `ragbench score`.

Not with the other records of a summary, since `ragbench score` starts without these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from ragbench.records.codec import Record, optional
from ragbench.types import Direction

BASELINE_SCHEMA = "ragbench.baseline/1"

Ends = Annotated[tuple[float | None, float | None], "[low, high], or null"]
Range = Annotated[tuple[float | None, float | None], "[low, high], null where unbounded"]
"""The smallest and the largest possible value of one query."""
Kind = Literal["retrieval", "generation", "judge"]
"""What a score looks at: a ranking, an answer by a formula, or an answer by a judge."""
Aggregate = Literal["mean", "sum", "geometric_mean", "corpus"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedBy(Record):
    """Pairs of query and passage behind a score of rankings, where a model judged some; by whom."""

    people: int
    model: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemScore(Record):
    """One score of one system over all queries."""

    mean: float | None
    """The aggregate over the scored queries; None where none is scored."""
    interval: Ends | None = None
    """Confidence limits of the mean; null where they are not defined."""
    n: int
    """How many queries are in the mean."""
    failed: Mapping[str, int]
    """Cause -> how many queries failed."""
    not_applicable: int
    """How many queries the score does not apply to."""
    bounds: Ends | None = None
    """The aggregate if all that failed, queries and single answers, had the worst, or the best,
    value."""
    kind: Kind | None = optional()
    """None in what `ragbench score` and `ragbench compare` print."""
    direction: Direction
    aggregate: Aggregate
    range: Range
    signature: str
    baseline: str | None = optional()
    """What the system is compared with by this score, where that is another than by its others; its
    own name where it is the baseline itself."""
    judge: str | None = optional()
    model: str | None = optional()
    """The model that judged, as its server names it."""
    spread: float | None = optional()
    """How far samples or models of the judge lie apart, on average."""
    judged_by: JudgedBy | None = optional()
    """Whose judgements it rests on, where a model made some."""

    @property
    def n_failed(self) -> int:
        """How many queries failed, whatever their cause."""
        return sum(self.failed.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCounts(Record):
    """What the values of a run rest on; printed beside them."""

    queries: int
    """Queries of the qrels."""
    scored: int
    """Queries that a measure of binary relevance has a value for."""
    missing: int
    """Judged queries that the run lacks."""
    without_judgements: int
    """Queries of the run that are not judged, and those of the qrels without any judgement."""
    without_relevant: int
    """Judged queries for which no document is relevant."""
    duplicates: int
    """Retrieved documents that were dropped because their query had them already."""
    judged_share: float | None
    """Share of the retrieved documents of judged queries that are judged; None without any."""
    tag: str | None = optional()
    """What the run file calls its run; None for a run that comes from no file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineScore(Record):
    """What is known of a score besides its values."""

    mean: float | None
    """The aggregate; None where no query is scored."""
    n: int
    """How many queries have a value."""
    kind: Kind
    direction: Direction
    aggregate: Aggregate
    range: Range
    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineSystem(Record):
    """One system, query by query."""

    retriever: str | None
    """The retriever's name; None for a system that the records came with, and for an app."""
    generator: str | None
    """The generator's name; None for a retriever alone."""
    scores: Mapping[str, BaselineScore]
    """Score name -> what is known of it."""
    per_query: Mapping[str, tuple[Any, ...]]
    """Query -> a value or the word of a cause for each score."""
    answers: int | None = optional()
    """How many answers each query has; None where it is one."""
    unscored_answers: Mapping[str, Mapping[str, Mapping[str, int]]] = optional({})
    """Query -> score -> cause -> how many of its several answers have no value; what failed leaves
    the value of the query open."""
    cost_columns: tuple[str, ...] = optional(())
    """What `costs` has of each query."""
    costs: Mapping[str, tuple[Any, ...]] = optional({})
    """Query -> what it cost; empty where it was not asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineFile(Record):
    """A whole baseline file, to be committed."""

    schema: str = BASELINE_SCHEMA
    name: str
    baseline: str | None
    """The system that the experiment compared the others with."""
    data: Mapping[str, str]
    """Part of the data set -> fingerprint."""
    queries: int
    query_parts: tuple[str, ...] = optional(())
    """What `query_fingerprints` has of each query: `question`, `judgements`, `answers`."""
    query_fingerprints: Mapping[str, tuple[str | None, ...]] = optional({})
    """Query -> fingerprints of what it was, null where it has no such part."""
    systems: Mapping[str, BaselineSystem] = field(repr=False)
