"""Records of a score: in `summary.json`, baseline files, and the output of `ragbench score`.

They are apart from the other records of a summary, which `ragbench score` does not load.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from ragbench.types import Aggregate, Direction
from ragbench.types.display import short_repr
from ragbench.types.json_fields import Meaning, Record, optional

BASELINE_SCHEMA = "ragbench.baseline/1"

Ends = Annotated[tuple[float | None, float | None], "[low, high], or null"]
# The smallest and the largest possible value of one query.
Range = Annotated[tuple[float | None, float | None], "[low, high], null where unbounded"]
# What a score looks at: a ranking, an answer by a formula, or an answer by a judge.
Kind = Literal["retrieval", "generation", "judge"]


class JudgedBy(Record):
    """Pairs of query and passage behind a score of rankings, if a model graded some of them."""

    people: Annotated[int, Meaning("Pairs that people judged.")]
    model: Annotated[int, Meaning("Pairs that the model graded.")]
    failed: Annotated[int, Meaning("Pairs that the model could not grade.")]


class SystemScore(Record):
    """A score of a system over all queries."""

    mean: Annotated[
        float | None, Meaning("The aggregate over the scored queries; null if none is scored.")
    ]
    interval: Annotated[
        Ends | None, Meaning("Confidence limits of the mean; null if they are not defined.")
    ] = None
    n: Annotated[int, Meaning("Number of queries in the mean.")]
    failed: Annotated[Mapping[str, int], Meaning("Cause -> number of failed queries.")]
    not_applicable: Annotated[int, Meaning("Number of queries that the score does not apply to.")]
    not_applicable_causes: Annotated[
        Mapping[str, int], Meaning("Cause -> number of these queries.")
    ] = optional({})
    bounds: Annotated[
        Ends | None,
        Meaning(
            "The aggregate if all failed queries and answers had the worst, or the best, value."
        ),
    ] = None
    kind: Annotated[
        Kind | None,
        Meaning(
            "What the score looks at; null in the output of `ragbench score` and `ragbench "
            "compare`."
        ),
    ] = optional()
    direction: Annotated[Direction, Meaning("Whether higher or lower is better.")]
    aggregate: Annotated[Aggregate, Meaning("How the values of queries become one number.")]
    range: Annotated[Range, Meaning("Smallest and largest value of a query.")]
    signature: Annotated[str, Meaning("Everything that the score depends on, as text.")]
    baseline: Annotated[
        str | None,
        Meaning(
            "Baseline by this score, if it is another than by the other scores; the system's "
            "own name for the baseline itself."
        ),
    ] = optional()
    judge: Annotated[str | None, Meaning("Name of the judge; null without one.")] = optional()
    model: Annotated[str | None, Meaning("Model of the judge, as its server names it.")] = (
        optional()
    )
    spread: Annotated[
        float | None, Meaning("Mean distance between samples or models of the judge.")
    ] = optional()
    judged_by: Annotated[
        JudgedBy | None, Meaning("Sources of the judgements, if a model made some.")
    ] = optional()

    @property
    def n_failed(self) -> int:
        """Number of failed queries, whatever their cause."""
        return sum(self.failed.values())

    @property
    def has_failures(self) -> bool:
        """True if a query, or one of several answers to a query, has failed."""
        is_open = self.bounds is not None and self.bounds != (self.mean, self.mean)
        return is_open or self.n_failed > 0


class RunCounts(Record):
    """Counts behind the scores of a run, which are printed beside them."""

    queries: Annotated[int, Meaning("Queries of the qrels.")]
    scored: Annotated[int, Meaning("Queries that a measure of binary relevance has a value for.")]
    missing: Annotated[int, Meaning("Judged queries that the run lacks.")]
    without_judgements: Annotated[
        int, Meaning("Queries of the run, or of the qrels, without any judgement.")
    ]
    without_relevant: Annotated[int, Meaning("Judged queries without a relevant document.")]
    duplicates: Annotated[
        int, Meaning("Retrieved documents that were dropped because their query had them already.")
    ]
    judged_share: Annotated[
        float | None,
        Meaning(
            "Share of the retrieved documents of judged queries that are judged; null without any."
        ),
    ]
    tag: Annotated[
        str | None,
        Meaning("Name of the run in its run file; null for a run that comes from no file."),
    ] = optional()
    without_grade: Annotated[
        Mapping[str, int],
        Meaning(
            "Smallest relevant grade of a measure -> queries without such a document that count 0."
        ),
    ] = optional({})


class BaselineScore(Record):
    """A score of a system in a baseline file, without the values of queries.

    Attributes:
        mean: The aggregate; None if no query is scored.
        n: Number of queries with a value.
        kind: Retrieval, generation or judge.
        direction: `higher` or `lower`, whichever is better.
        aggregate: Rule by which values of queries become one number.
        range: Smallest and largest value of a query.
        signature: Everything that the score depends on, as text.
        answers: Number of verdicts on each query, where repetitions of a judge failed; None for
            `answers` of the system.
    """

    mean: float | None
    n: int
    kind: Kind
    direction: Direction
    aggregate: Aggregate
    range: Range
    signature: str
    answers: int | None = optional()


class PairCounts(Record):
    """Numbers of predictions and references.

    Attributes:
        predictions: Number of all pairs.
        without_prediction: Number of pairs whose prediction is None.
        without_reference: Number of pairs without a reference. A pair without both counts in
            either number.
    """

    predictions: int
    without_prediction: int
    without_reference: int


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
