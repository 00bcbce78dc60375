"""Average precision from a sample of judgements: `infap`."""

from __future__ import annotations

from ragbench.score.retrieval.base import Grade, RankedGrades, measure
from ragbench.types import FloatArray

SMOOTHING = 1e-5
"""trec_eval's weight of the guess that a document is as likely relevant as not."""


@measure("infap", range=(0.0, 1.0), cutoff="none")
def inferred_average_precision(ranked: RankedGrades, *, rel: Grade = 1) -> FloatArray:
    """Score each query by an estimate of average precision where only a sample was judged.

    A negative grade marks a document that was in the pool but not in the sample: it is taken to
    be relevant as often as the judged ones above it. What has no grade was not in the pool and
    counts as not relevant. With complete judgements it is `map` but for a smoothing of 1e-5.

    Args:
        ranked: Grades of the retrieved documents in rank order, for n queries.
        rel: Smallest grade that counts as relevant.

    Returns:
        Array of shape (n,), values in [0, 1]; NaN where a query has no relevant document.

    Raises:
        OptionError: rel is below 1.

    Example:
        `b` is taken to be relevant like `a`, the only one judged above `c`: (1 + 3/3) / 2.

        >>> from ragbench.score.retrieval.ranking import rank
        >>> qrels = {"q": {"a": 1, "b": -1, "c": 1}}
        >>> inferred_average_precision(rank(qrels, {"q": {"a": 9, "b": 8, "c": 7}})).round(4)
        array([1.])

    References:
        Yilmaz and Aslam (2006), Estimating Average Precision with Incomplete and Imperfect
        Judgments. CIKM.
    """
    hit = ranked.grades >= rel
    wrong = (ranked.grades >= 0) & ~hit
    hits_above = ranked.hits_so_far(hit) - 1
    judged_above = hits_above + ranked.hits_so_far(wrong)
    pooled_above = judged_above + ranked.hits_so_far(ranked.grades < 0)
    relevant_share = (hits_above + SMOOTHING) / (judged_above + 2 * SMOOTHING)
    precision: FloatArray = (1.0 + pooled_above * relevant_share) / ranked.rank
    return ranked.divide(ranked.sum(hit * precision), ranked.count_relevant(rel))
