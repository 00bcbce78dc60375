"""Agreement of a judge of pairs with the answers that people prefer, and its position bias."""

from __future__ import annotations

from collections import Counter

import numpy as np

from ragbench.calibration.certificate import rubric_facts
from ragbench.calibration.judged_run import JudgedRun, JudgedScore
from ragbench.records.certificate import CertifiedPairs, PairCertificate, PreferredShare
from ragbench.stats.mean import finite, mean_interval
from ragbench.types import FloatArray


def certify_pairs(run: JudgedRun, confidence: float = 0.95) -> PairCertificate:
    """Return the agreement of the judges of a run with the preferred answers of its pairs.

    Pairs of one unit are not independent: the units are the sample of all intervals.

    Raises:
        OptionError: Confidence is outside (0, 1).
    """
    rubrics = {}
    for name, score in run.scores.items():
        rubrics[name] = _certified(score, confidence)
    return PairCertificate(
        run=run.name, data=run.data, systems=run.systems, confidence=confidence, rubrics=rubrics
    )


def _certified(score: JudgedScore, confidence: float) -> CertifiedPairs:
    """Return the shares of one score; equal answers, which no order tells apart, count as ties."""
    keys = sorted(score.scores)
    tie = (0.5, 0.5)
    orders = np.array([score.orders.get(key, tie) for key in keys]).reshape(-1, 2)
    # the side of each verdict: 1 for the preferred answer, 0.5 for a tie
    sides = 0.5 + 0.5 * np.sign(orders.round(12) - 0.5)
    units = np.array([score.units.get(query, query) for _, query in keys], dtype=object)
    names, codes = np.unique(units.astype(str), return_inverse=True)
    together = (sides.sum(axis=1) > 1).astype(float)
    columns = {
        "both_orders": (sides == 1).all(axis=1),
        "together": together,
        "first": sides[:, 0] == 1,
        "second": sides[:, 1] == 1,
        "same_side": sides[:, 0] == sides[:, 1],
    }
    shares = {}
    for name, column in columns.items():
        shares[name] = _mean(column.astype(float), codes, confidence)
    if len(names) < len(keys):
        whole = np.bincount(codes, weights=1 - together) == 0
        shares["whole_rows"] = _mean(whole.astype(float), np.arange(len(names)), confidence)
    position = (sides[:, 0] - sides[:, 1]) / 2
    shares["position"] = _mean(position, codes, confidence, low=-0.5, high=0.5)
    return CertifiedPairs(
        **rubric_facts(score),
        pairs=len(keys),
        unscored=dict(sorted(Counter(score.unscored.values()).items())),
        shares=shares,
    )


def _mean(
    values: FloatArray,
    codes: np.ndarray[tuple[int], np.dtype[np.intp]],
    confidence: float,
    low: float = 0.0,
    high: float = 1.0,
) -> PreferredShare:
    """Return the mean of a column with its interval over the units."""
    clusters = codes if len(np.unique(codes)) < len(codes) else None
    mean = mean_interval(values, range=(low, high), confidence=confidence, clusters=clusters)
    limits = finite(mean.lower), finite(mean.upper)
    return PreferredShare(value=mean.mean, interval=limits, n=len(values))
