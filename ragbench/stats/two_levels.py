"""Agreement of a judge with people on two levels: on passes, on fails, and of the rare level."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragbench.errors import OptionError, Phrase
from ragbench.stats.agreement import Agreement
from ragbench.stats.mean import mean_interval

# The better and the worse of two levels.
PassFail = Literal["pass", "fail"]


@dataclass(frozen=True, slots=True)
class TwoLevelAgreement:
    """Confusion table of a judge and people on two levels, with its statistics.

    `two_level_agreement` returns it.

    Attributes:
        confusion: Level of people -> level of the judge -> number of labels; levels are `pass` and
            `fail`.
        rare: Level of `precision`, `recall` and `f1`.
        statistics: Name -> value with its interval. `tpr` and `tnr` are the agreement on passes and
            on fails, `balanced_accuracy` is their mean; `precision`, `recall` and `f1` are those of
            the rare level, whose recall is `tpr` or `tnr`.
    """

    confusion: Mapping[str, Mapping[str, int]]
    rare: PassFail
    statistics: Mapping[str, Agreement]


def two_level_agreement(
    judge: ArrayLike,
    people: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    confidence: float = 0.95,
    rare: PassFail | None = None,
) -> TwoLevelAgreement:
    """Return the agreement of a judge with labels of two levels.

    - A share (`tpr`, `tnr`, `precision`, `recall`) has the interval of `mean_interval`: Wilson's,
      or that of clusters.
    - `f1` is 2 s / (1 + s) for the share s of labels on which both give the rare level, among those
      on which one does. Its limits are those of s, on the same curve.
    - `balanced_accuracy` is the mean of two shares of different labels. Its limits are as far from
      it as the root of the summed squares of both distances, halved (MOVER).

    In 300 simulations of each of 54 settings (40, 100 and 200 labels, clusters of 1 and of 4, 50 to
    93 % passes), balanced accuracy covers in 91 to 100 %, in 43 of them in 94 or more. The
    jackknife covers in as few as 71 %, and is up to twice as wide.

    Args:
        judge: n levels of the judge; True is a pass.
        people: n labels; True is a pass.
        clusters: n names; labels with equal ones vary together. None: each label is a unit.
        confidence: Coverage that is aimed at.
        rare: Level of `precision`, `recall` and `f1`; None: the one that people give less often,
            `fail` of two equally frequent ones.

    Returns:
        A statistic whose denominator is 0 has no value (NaN), and a reason.

    Raises:
        OptionError: `people` or `clusters` are not n, or confidence is outside (0, 1).

    Example:
        Four passes of five and one fail of two are found: (4/5 + 1/2) / 2.

        >>> judge = [True, True, True, True, False, True, False]
        >>> agreement = two_level_agreement(judge, [True] * 5 + [False] * 2)
        >>> round(agreement.statistics["balanced_accuracy"].value, 3), agreement.rare
        (0.65, 'fail')

    References:
        Wilson (1927), Probable inference, the law of succession, and statistical inference.
        Zou and Donner (2008), Construction of confidence limits about effect measures (MOVER).
        Lam, Gopal and Qian (2023), Confidence intervals for the F1 score (Wilson, indirect).
    """
    is_pass, label = np.asarray(judge, dtype=bool), np.asarray(people, dtype=bool)
    names = _cluster_names(is_pass, label, clusters)
    counts = _counts(is_pass, label)
    if rare is None:
        rare = "pass" if label.sum() * 2 < len(label) else "fail"
    judge_rare, people_rare = is_pass == (rare == "pass"), label == (rare == "pass")
    is_equal = is_pass == label

    def share(hits: NDArray[np.bool_], among: NDArray[np.bool_], reason: str) -> Agreement:
        """Return the share of hits among some labels, with its interval."""
        groups = None if names is None else names[among]
        interval = mean_interval(hits[among], clusters=groups, confidence=confidence)
        why = "" if interval.n else reason
        limits = interval.lower, interval.upper
        return Agreement(interval.mean, *limits, interval.n, "nominal", interval.rule, why)

    both_rare = judge_rare & people_rare
    either = share(both_rare, judge_rare | people_rare, f"there is no {rare}")
    recall = share(judge_rare, people_rare, f"people give no {rare}")
    tpr = share(is_equal, label, "people give no pass")
    tnr = share(is_equal, ~label, "people give no fail")
    return TwoLevelAgreement(
        confusion=counts,
        rare=rare,
        statistics={
            "tpr": tpr,
            "tnr": tnr,
            "balanced_accuracy": mean_of_shares([tpr, tnr]),
            "precision": share(people_rare, judge_rare, f"the judge gives no {rare}"),
            "recall": recall,
            "f1": _f1(either),
        },
    )


def _cluster_names(
    judge: NDArray[np.bool_], people: NDArray[np.bool_], clusters: ArrayLike | None
) -> NDArray[np.str_] | None:
    """Return the cluster of each label; None if each has its own."""
    owner = "two_level_agreement"
    if people.shape != judge.shape or judge.ndim != 1:
        shape = Phrase(f"shape {people.shape}")
        raise OptionError(owner, "people", shape, f"{judge.size} labels, one per level")
    if clusters is None:
        return None
    names = np.asarray(clusters)
    if names.shape != judge.shape:
        shape = Phrase(f"shape {names.shape}")
        raise OptionError(owner, "clusters", shape, f"{judge.size} names, one per level")
    # Wilson's interval needs labels that vary alone
    return None if len(np.unique(names)) == len(names) else names


def _counts(judge: NDArray[np.bool_], people: NDArray[np.bool_]) -> dict[str, dict[str, int]]:
    """Return the confusion table."""
    table = {}
    for level, of_people in (("pass", people), ("fail", ~people)):
        table[level] = {
            "pass": int(np.count_nonzero(of_people & judge)),
            "fail": int(np.count_nonzero(of_people & ~judge)),
        }
    return table


def mean_of_shares(shares: Sequence[Agreement]) -> Agreement:
    """Return the mean of independent shares with its limits (MOVER); NaN if one has no value.

    Example:
        >>> shares = [Agreement(s, s - 0.1, s + 0.1, 5, "nominal", "wilson") for s in (0.8, 0.5)]
        >>> mean_of_shares(shares).value
        0.65
    """
    n = sum(share.n for share in shares)
    reasons = dict.fromkeys(share.reason for share in shares if share.reason)
    if reasons:
        nan = math.nan
        return Agreement(nan, nan, nan, n, "nominal", "undefined", "; ".join(reasons))
    value = math.fsum(share.value for share in shares) / len(shares)
    below = math.hypot(*(share.value - share.lower for share in shares)) / len(shares)
    above = math.hypot(*(share.upper - share.value for share in shares)) / len(shares)
    return Agreement(value, max(value - below, 0.0), min(value + above, 1.0), n, "nominal", "mover")


def _f1(either: Agreement) -> Agreement:
    """Return F1 from the share of labels on which both give a level, among those with one."""
    value, lower, upper = (2 * s / (1 + s) for s in (either.value, either.lower, either.upper))
    return Agreement(value, lower, upper, either.n, "nominal", either.rule, either.reason)
