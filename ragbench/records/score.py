"""Records of a score: in `summary.json`, baseline files, and the output of `ragbench score`.

They are apart from the other records of a summary, which `ragbench score` does not load.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from ragbench.types import Aggregate, Direction
from ragbench.types.display import short_repr
from ragbench.types.json_fields import Record, optional

BASELINE_SCHEMA = "ragbench.baseline/1"

Ends = Annotated[tuple[float | None, float | None], "[low, high], or null"]
# The smallest and the largest possible value of one query.
Range = Annotated[tuple[float | None, float | None], "[low, high], null where unbounded"]
# What a score looks at: a ranking, an answer by a formula, or an answer by a judge.
Kind = Literal["retrieval", "generation", "judge"]


class JudgedBy(Record):
    """Pairs of query and passage behind a score of rankings, if a model graded some of them.

    Attributes:
        people: Pairs that people judged.
        model: Pairs that the model graded.
        failed: Pairs that the model could not grade.
    """

    people: int
    model: int
    failed: int


class SystemScore(Record):
    """A score of a system over all queries.

    Attributes:
        mean: The aggregate over the scored queries; None if none is scored.
        interval: Confidence limits of the mean; null if they are not defined.
        n: Number of queries in the mean.
        failed: Cause -> number of failed queries.
        not_applicable: Number of queries that the score does not apply to.
        not_applicable_causes: Cause -> number of these queries.
        bounds: The aggregate if all failed queries and answers had the worst, or the best, value.
        kind: What the score looks at; None in the output of `ragbench score` and `ragbench
            compare`.
        direction: Whether higher or lower is better.
        aggregate: How the values of queries become one number.
        range: Smallest and largest value of a query.
        signature: Everything that the score depends on, as text.
        baseline: Baseline by this score, if it is another than by the other scores; the system's
            own name for the baseline itself.
        judge: Name of the judge; None without one.
        model: Model of the judge, as its server names it.
        spread: Mean distance between samples or models of the judge.
        judged_by: Sources of the judgements, if a model made some.
    """

    mean: float | None
    interval: Ends | None = None
    n: int
    failed: Mapping[str, int]
    not_applicable: int
    not_applicable_causes: Mapping[str, int] = optional({})
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
        """Number of failed queries, whatever their cause."""
        return sum(self.failed.values())


class RunCounts(Record):
    """Counts behind the scores of a run, which are printed beside them.

    Attributes:
        queries: Queries of the qrels.
        scored: Queries that a measure of binary relevance has a value for.
        missing: Judged queries that the run lacks.
        without_judgements: Queries of the run, or of the qrels, without any judgement.
        without_relevant: Judged queries without a relevant document.
        duplicates: Retrieved documents that were dropped because their query had them already.
        judged_share: Share of the retrieved documents of judged queries that are judged; None
            without any.
        tag: Name of the run in its run file; None for a run that comes from no file.
        without_grade: Smallest relevant grade of a measure -> queries without such a document that
            count 0.
    """

    queries: int
    scored: int
    missing: int
    without_judgements: int
    without_relevant: int
    duplicates: int
    judged_share: float | None
    tag: str | None = optional()
    without_grade: Mapping[str, int] = optional({})


class BaselineScore(Record):
    """A score of a system in a baseline file, without the values of queries.

    Attributes:
        mean: The aggregate; None if no query is scored.
        n: Number of queries with a value.
        kind: Retrieval, generation or judge.
        direction: Whether higher or lower is better.
        aggregate: Rule by which values of queries become one number.
        range: Smallest and largest value of a query.
        signature: Everything that the score depends on, as text.
    """

    mean: float | None
    n: int
    kind: Kind
    direction: Direction
    aggregate: Aggregate
    range: Range
    signature: str


class BaselineSystem(Record):
    """A system in a baseline file, with its values query by query.

    Attributes:
        retriever: Name of the retriever; None for a system of the records, and for an app.
        generator: Name of the generator; None for a retriever alone.
        scores: Score name -> the score without its values.
        per_query: Query -> for each score its value, or the word of a cause.
        answers: Number of answers to each query; None for one.
        unscored_answers: Query -> score -> cause -> number of its several answers without a value.
            Failed answers leave the value of the query open.
    """

    retriever: str | None
    generator: str | None
    scores: Mapping[str, BaselineScore]
    per_query: Mapping[str, tuple[Any, ...]]
    answers: int | None = optional()
    unscored_answers: Mapping[str, Mapping[str, Mapping[str, int]]] = optional({})


class BaselineFile(Record):
    """A whole baseline file, to be committed.

    Attributes:
        name: Name of the experiment.
        baseline: System that the experiment compared the others with; None without one.
        data: Part of the data set -> fingerprint.
        queries: Number of queries.
        query_parts: Names of the fingerprints of each query: those of `question`, `judgements`,
            `subtopics`, `answers` and `spans` that the data set has.
        query_fingerprints: Query -> its fingerprints, null for a part that it lacks.
        systems: System -> its scores.
    """

    schema: str = BASELINE_SCHEMA
    name: str
    baseline: str | None
    data: Mapping[str, str]
    queries: int
    query_parts: tuple[str, ...] = optional(())
    query_fingerprints: Mapping[str, tuple[str | None, ...]] = optional({})
    systems: Mapping[str, BaselineSystem]

    __repr__ = short_repr
