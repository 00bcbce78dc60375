"""`evaluate_run` and `evaluate_texts`: scores with intervals, counts and signatures, no config."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, cast

from ragbench.comparison.summary import ScoreSummary, finite, summarize
from ragbench.errors import DataError
from ragbench.score.base import ScoreColumn
from ragbench.score.retrieval.score_run import score_run
from ragbench.types import Qrels, Run
from ragbench.types.frames import Frame, is_frame

SCHEMA = "ragbench.scores/1"

Nested = Mapping[str, Mapping[str, Any]]
"""Query -> document -> number."""


@dataclass(frozen=True)
class Evaluation:
    """The scores of one system, with everything that a number must carry.

    All mappings have the names of the scores as the caller wrote them.
    """

    query_ids: Sequence[str]
    """The items that were scored, in the order of the columns."""
    columns: Mapping[str, ScoreColumn] = field(repr=False)
    """Score -> its values, causes and signature."""
    counts: Mapping[str, Any]
    """How the input was read: queries, missing ones, repeated documents and the like."""
    confidence: float = 0.95
    """Level of the intervals."""

    @cached_property
    def summary(self) -> dict[str, ScoreSummary]:
        """Score -> mean, interval, counts, bounds, signature."""
        return {
            name: summarize(column, confidence=self.confidence)
            for name, column in self.columns.items()
        }

    @property
    def mean(self) -> dict[str, float]:
        """Score -> mean over the scored items; NaN where none is."""
        return {name: summary.mean for name, summary in self.summary.items()}

    @property
    def interval(self) -> dict[str, tuple[float, float]]:
        """Score -> confidence limits of the mean."""
        return {name: summary.interval for name, summary in self.summary.items()}

    @property
    def signature(self) -> dict[str, str]:
        """Score -> what it depends on."""
        return {name: summary.signature for name, summary in self.summary.items()}

    @cached_property
    def per_query(self) -> dict[str, dict[str, float]]:
        """Score -> item -> value; NaN where it has none."""
        return {
            name: dict(zip(self.query_ids, column.values.tolist(), strict=True))
            for name, column in self.columns.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Return everything, JSON-ready; null where there is no value."""
        return {
            "schema": SCHEMA,
            "confidence": self.confidence,
            "counts": dict(self.counts),
            "scores": {name: summary.to_dict() for name, summary in self.summary.items()},
            "per_query": {
                name: {item: finite(value) for item, value in values.items()}
                for name, values in self.per_query.items()
            },
        }

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame, a row per item and a column per score.

        Raises:
            ImportError: pandas is not installed; it is no dependency of ragbench.
        """
        import pandas as pd

        values = {name: column.values for name, column in self.columns.items()}
        return pd.DataFrame(values, index=pd.Index(self.query_ids, name="query_id"))


def evaluate_run(
    run: Run | Mapping[str, Mapping[str, float]] | Frame,
    qrels: Qrels | Mapping[str, Mapping[str, int]] | Frame,
    measures: Sequence[str],
    *,
    missing: Literal["zero", "skip"] = "zero",
    no_relevant: Literal["skip", "zero"] = "skip",
    ties: Literal["docid", "average", "stable"] = "docid",
    trec_eval: Literal[9, 10] = 10,
    judged_only: bool = False,
    confidence: float = 0.95,
) -> Evaluation:
    """Score a run against qrels.

    Args:
        run: Query -> document -> score, a `Run`, or a pandas, polars or Arrow table with the
            columns `query_id`, `doc_id`, `score`.
        qrels: Query -> document -> grade, a `Qrels`, or a table with `query_id`, `doc_id`,
            `relevance`. For `alpha_ndcg`, `subtopic_recall` and `redundancy` query -> document ->
            subtopic -> grade; other measures then see the best grade of each document.
        measures: Names of measures: `ndcg@10`, `map`, `precision(rel=2)@5`.
        missing: What a judged query that the run lacks scores: 0, or nothing.
        no_relevant: What a query without a relevant document scores: nothing, or 0.
        ties: How documents with equal scores are ordered.
        trec_eval: The version of trec_eval whose rounding is followed.
        judged_only: Take the documents that are not judged out of the rankings first.
        confidence: Level of the intervals.

    Raises:
        DataError: The run or the qrels are not what they should be.
        OptionError: An unknown measure, or an option that is not allowed.

    Example:
        >>> result = evaluate_run({"q1": {"d1": 2.0, "d2": 1.0}}, {"q1": {"d2": 1}}, ["mrr"])
        >>> result.mean["mrr"], result.per_query["mrr"]["q1"], result.summary["mrr"].n
        (0.5, 0.5, 1)
    """
    scored = score_run(
        Run.from_frame(run) if is_frame(run) else cast("Nested", run),
        Qrels.from_frame(qrels) if is_frame(qrels) else cast("Nested", qrels),
        measures,
        missing=missing,
        no_relevant=no_relevant,
        ties=ties,
        trec_eval=trec_eval,
        judged_only=judged_only,
    )
    columns = {column.name: column for column in scored.columns}
    return Evaluation(scored.query_ids, columns, scored.counts.to_dict(), confidence)


def evaluate_texts(
    predictions: Sequence[str | None],
    references: Sequence[str | Sequence[str] | None],
    metrics: Sequence[str],
    *,
    confidence: float = 0.95,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Score predictions against references, paired by position.

    Args:
        predictions: n generated texts; None where a system has no answer.
        references: n texts, or lists of texts where there are several; None where there is none.
        metrics: Names of metrics: `rouge1`, `rougeL.recall`, `bleu(tokenize=zh)`.
        confidence: Level of the intervals.
        progress: Called with how many scores are done, and with how many there are.

    Raises:
        DataError: The two differ in length.
        OptionError: An unknown metric, or an option that is not allowed.
        MissingExtra: A metric needs a package that is not installed.

    Example:
        >>> result = evaluate_texts(["a red fox"], ["the red fox"], ["rouge1"])
        >>> round(result.mean["rouge1"], 4), result.summary["rouge1"].n
        (0.6667, 1)
    """
    if isinstance(predictions, str) or isinstance(references, str):
        raise DataError("found a text", allowed="lists of texts, one per item")
    if len(predictions) != len(references):
        raise DataError(
            f"{len(predictions)} predictions and {len(references)} references",
            allowed="one reference, or list of references, for each prediction",
        )
    # only here: whoever scores a run needs no text metrics
    from ragbench.score.text.columns import TextScorer

    gold = [_as_list(reference) for reference in references]
    scorer = TextScorer(metrics)
    advance = progress and _Counted(progress, scorer.steps(len(gold)))
    columns = {column.name: column for column in scorer.score(predictions, gold, advance)}
    counts = {
        "predictions": len(predictions),
        "without_prediction": sum(prediction is None for prediction in predictions),
        "without_reference": sum(not each for each in gold),
    }
    return Evaluation([str(i) for i in range(len(gold))], columns, counts, confidence)


class _Counted:
    """Adds up steps for someone who wants to know how far it is."""

    def __init__(self, progress: Callable[[int, int], None], total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def __call__(self, n: int) -> None:
        self._done += n
        self._progress(self._done, self._total)


def _as_list(reference: str | Sequence[str] | None) -> list[str]:
    if reference is None:
        return []
    return [reference] if isinstance(reference, str) else list(reference)
