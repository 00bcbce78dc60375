"""Precision at levels of recall: `iprec_at_recall@0.1` and its mean over eleven, `11pt_avg`."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from ragbench.errors import OptionError
from ragbench.registry import Option
from ragbench.score.retrieval.base import Grade, RankedGrades, measure
from ragbench.types import FloatArray, IntArray

RecallLevel = Annotated[float, Option("Share of the relevant documents to be found.", ge=0, le=1)]
LEVELS = tuple(tenths / 10 for tenths in range(11))
Levels = Annotated[str, Option("Levels of recall instead of the eleven, as {0.2,0.5,0.8}.")]


@measure("iprec_at_recall", range=(0.0, 1.0), cutoff="required", at="recall")
def iprec_at_recall(
    ranked: RankedGrades, *, recall: RecallLevel = 0.0, rel: Grade = 1
) -> FloatArray:
    """Score each query by its best precision at any rank by which that share of recall is reached.

    A share of R relevant documents is a whole number of them: `recall * R` rounded, halves up, as
    in trec_eval 10; cut off after adding 0.9 in trec_eval 9 and before. A level of no document
    gives the best precision of all ranks.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        recall: The level, from 0 to 1.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), values in [0, 1]; 0 where the level is not reached, NaN where a query
        has no relevant document.

    Raises:
        OptionError: recall is not between 0 and 1, or rel is below 1.

    Example:
        Hits at ranks 1 and 4, all there are: 1/1 at a recall of 0.5, 2/4 at a recall of 1.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ranked = rank({"q": {"a": 1, "b": 1}}, {"q": {"a": 9, "x": 8, "y": 7, "b": 6}})
        >>> iprec_at_recall(ranked, recall=0.5), iprec_at_recall(ranked, recall=1.0)
        (array([1.]), array([0.5]))

    References:
        Manning, Raghavan and Schuetze (2008), Introduction to Information Retrieval, 8.4.
    """
    hit = ranked.grades >= rel
    so_far = ranked.hits_so_far(hit)
    wanted = _documents(recall, ranked.count_relevant(rel), ranked.trec_eval)
    seen = hit & (so_far >= wanted[ranked.query])
    best = np.zeros(ranked.n_queries)
    np.maximum.at(best, ranked.query[seen], so_far[seen] / ranked.rank[seen])
    return ranked.where_relevant(best, rel)


@measure("11pt_avg", range=(0.0, 1.0), cutoff="none")
def eleven_point_average(
    ranked: RankedGrades, *, levels: Levels | None = None, rel: Grade = 1
) -> FloatArray:
    """Score each query by the mean of its interpolated precisions at recall 0, 0.1, ... 1.

    Kept for comparison with old results; `map` uses every relevant document.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        levels: Other levels of recall, whose mean it is then: `{0.2,0.5,0.8}`.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN where a query has no relevant document.

    Raises:
        OptionError: The levels are not between 0 and 1, or rel is below 1.

    Example:
        Precision 1 at the five levels that one of two documents reaches, 1/2 at the other six.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> ranked = rank({"q": {"a": 1, "b": 1}}, {"q": {"a": 9, "x": 8, "y": 7, "b": 6}})
        >>> eleven_point_average(ranked) * 11
        array([9.5])

    References:
        Manning, Raghavan and Schuetze (2008), Introduction to Information Retrieval, 8.4.
    """
    points = LEVELS if levels is None else _levels(levels)
    precisions = [iprec_at_recall(ranked, recall=level, rel=rel) for level in points]
    average: FloatArray = np.mean(precisions, axis=0)
    return average


def _levels(text: str) -> tuple[float, ...]:
    """Read `{0.2,0.5,0.8}`."""
    try:
        found = tuple(map(float, text.strip().removeprefix("{").removesuffix("}").split(",")))
    except ValueError:
        found = (-1.0,)
    if not all(0.0 <= level <= 1.0 for level in found):
        allowed = "numbers from 0 to 1 in braces, such as {0.2,0.5,0.8}"
        raise OptionError("11pt_avg", "levels", text, allowed)
    return found


def _documents(recall: float, relevant: IntArray, trec_eval: int) -> IntArray:
    """Turn a level of recall into a number of relevant documents for each query."""
    share = recall * relevant
    whole: IntArray = np.floor(share + 0.9).astype(np.int64)
    if trec_eval == 10:
        whole = np.floor(share).astype(np.int64) + (share % 1.0 >= 0.5)
    return whole
