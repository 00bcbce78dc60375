"""Scores the texts that a run retrieved: a column per measure that reads passages."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from ragbench.score.base import ScoreColumn
from ragbench.score.retrieval.base import no_average
from ragbench.score.retrieval.notation import Measure
from ragbench.score.retrieval.passages import RetrievedPassages
from ragbench.score.retrieval.score_run import Rules, column_of
from ragbench.signature import fingerprint
from ragbench.types import Cause


def score_passages(
    retrieved: RetrievedPassages,
    measures: Sequence[Measure],
    rules: Rules,
    *,
    missing: Collection[int] = (),
) -> list[ScoreColumn]:
    """Score every query by every measure.

    Args:
        retrieved: The texts in rank order, and the gold answers.
        measures: Those whose `spec.reads` is `passages`.
        rules: The rules that the passages were ranked by, and what a missing query gets.
        missing: Positions of the queries that the run lacks.

    Returns:
        A column per measure; a query without a gold answer has no value.

    Raises:
        OptionError: A measure cannot average over the orders of ties.

    Example:
        >>> from ragbench.score.retrieval.notation import parse_measures
        >>> retrieved = RetrievedPassages([["On Io.", "On Europa."]], [["Europa"]])
        >>> for column in score_passages(retrieved, parse_measures("answer_hit@2"), Rules()):
        ...     print(column.values, column.signature)
        [1.] answer_hit@2|ties:docid|trec_eval:10|missing:zero|gold:94a3cd901b0a|v:1
    """
    gold = fingerprint(piece for texts in retrieved.answers for piece in (str(len(texts)), *texts))
    columns = []
    for measure in measures:
        if rules.ties == "average" and not measure.spec.averages_ties:
            raise no_average(measure.spec.name)
        values = np.array(measure.score(retrieved), np.float64)
        causes = np.where(np.isnan(values), measure.spec.nan_means, Cause.SCORED).astype(np.uint8)
        if rules.missing == "skip":
            absent = [row for row in missing if causes[row] == Cause.SCORED]
            values[absent], causes[absent] = np.nan, Cause.MISSING_QUERY
        columns.append(
            column_of(
                measure,
                values,
                causes,
                **measure.signature_parts(),
                ties=rules.ties,
                trec_eval=rules.trec_eval,
                missing=rules.missing,
                depth=rules.depth,
                gold=gold,
            )
        )
    return columns
