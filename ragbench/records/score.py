"""What is kept of a score: in `summary.json`, baseline files, and by `ragbench score`.

Not with the other records of a summary, since `ragbench score` starts without these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from ragbench.records.codec import Record
from ragbench.types import Direction
from ragbench.types.json_fields import optional

BASELINE_SCHEMA = "ragbench.baseline/1"

Ends = Annotated[tuple[float | None, float | None], "[low, high], or null"]
# The smallest and the largest possible value of one query.
Range = Annotated[tuple[float | None, float | None], "[low, high], null where unbounded"]
# What a score looks at: a ranking, an answer by a formula, or an answer by a judge.
Kind = Literal["retrieval", "generation", "judge"]
Aggregate = Literal["mean", "sum", "geometric_mean", "corpus"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedBy(Record):
    """Pairs of query and passage behind a score of rankings, where a model judged some; by whom."""

    people: int
    model: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemScore(Record):
    """One score of one system over all queries.

    Attributes:
        mean: The aggregate over the scored queries; None where none is scored.
        interval: Confidence limits of the mean; null where they are not defined.
        n: How many queries are in the mean.
        failed: Cause -> how many queries failed.
        not_applicable: How many queries the score does not apply to.
        bounds: The aggregate if all that failed, queries and single answers, had the worst, or the
            best, value.
        kind: None in what `ragbench score` and `ragbench compare` print.
        baseline: What the system is compared with by this score, where that is another than by its
            others; its own name where it is the baseline itself.
        model: The model that judged, as its server names it.
        spread: How far samples or models of the judge lie apart, on average.
        judged_by: Whose judgements it rests on, where a model made some.
    """

    mean: float | None
    interval: Ends | None = None
    n: int
    failed: Mapping[str, int]
    not_applicable: int
    bounds: Ends | None = None
    kind: Kind | None = optional()
    direction: Direction
    aggregate: Aggregate
    range: Range
    signature: str
    baseline: str | None = optional()
    judge: str | None = optional()
    model: str | None = optional()
    spread: float | None = optional()
    judged_by: JudgedBy | None = optional()

    @property
    def n_failed(self) -> int:
        """How many queries failed, whatever their cause."""
        return sum(self.failed.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCounts(Record):
    """What the values of a run rest on; printed beside them.

    Attributes:
        queries: Queries of the qrels.
        scored: Queries that a measure of binary relevance has a value for.
        missing: Judged queries that the run lacks.
        without_judgements: Queries of the run that are not judged, and those of the qrels without
            any judgement.
        without_relevant: Judged queries for which no document is relevant.
        duplicates: Retrieved documents that were dropped because their query had them already.
        judged_share: Share of the retrieved documents of judged queries that are judged; None
            without any.
        tag: What the run file calls its run; None for a run that comes from no file.
    """

    queries: int
    scored: int
    missing: int
    without_judgements: int
    without_relevant: int
    duplicates: int
    judged_share: float | None
    tag: str | None = optional()


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineScore(Record):
    """What is known of a score besides its values.

    Attributes:
        mean: The aggregate; None where no query is scored.
        n: How many queries have a value.
    """

    mean: float | None
    n: int
    kind: Kind
    direction: Direction
    aggregate: Aggregate
    range: Range
    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineSystem(Record):
    """One system, query by query.

    Attributes:
        retriever: The retriever's name; None for a system that the records came with, and for an
            app.
        generator: The generator's name; None for a retriever alone.
        scores: Score name -> what is known of it.
        per_query: Query -> a value or the word of a cause for each score.
        answers: How many answers each query has; None where it is one.
        unscored_answers: Query -> score -> cause -> how many of its several answers have no value;
            what failed leaves the value of the query open.
        cost_columns: What `costs` has of each query.
        costs: Query -> what it cost; empty where it was not asked for.
    """

    retriever: str | None
    generator: str | None
    scores: Mapping[str, BaselineScore]
    per_query: Mapping[str, tuple[Any, ...]]
    answers: int | None = optional()
    unscored_answers: Mapping[str, Mapping[str, Mapping[str, int]]] = optional({})
    cost_columns: tuple[str, ...] = optional(())
    costs: Mapping[str, tuple[Any, ...]] = optional({})


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineFile(Record):
    """A whole baseline file, to be committed.

    Attributes:
        baseline: The system that the experiment compared the others with.
        data: Part of the data set -> fingerprint.
        query_parts: What `query_fingerprints` has of each query: `question`, `judgements`,
            `answers`.
        query_fingerprints: Query -> fingerprints of what it was, null where it has no such part.
    """

    schema: str = BASELINE_SCHEMA
    name: str
    baseline: str | None
    data: Mapping[str, str]
    queries: int
    query_parts: tuple[str, ...] = optional(())
    query_fingerprints: Mapping[str, tuple[str | None, ...]] = optional({})
    systems: Mapping[str, BaselineSystem] = field(repr=False)
