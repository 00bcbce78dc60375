"""Abstention: `abstention.precision`, `.recall` and `.over_refusal` of the replies of a system.

They are means over different questions: the refused ones, those without an answer, and those with
an answer. `ragbench.text.refusals` decides whether a reply refuses.
"""

from __future__ import annotations

import math

from ragbench.score.text.base import metric


@metric(
    "abstention.precision",
    version=2,  # 2: the rule of refusals recognises more forms
    reads="answerable",
    equals="scikit-learn's precision_score of refusals",
    not_for="comparing systems that refuse different questions: only common refusals are paired",
)
def abstention_precision(refusal: bool, answerable: bool) -> float:
    """Return 1 for a refusal of a question without an answer, 0 for one of a question with one.

    The mean is the share of the refusals that are justified. A reply that does not refuse has no
    value (NaN).

    Example:
        >>> abstention_precision(True, answerable=False), abstention_precision(True, True)
        (1.0, 0.0)
    """
    return float(not answerable) if refusal else math.nan


@metric(
    "abstention.recall",
    version=2,  # 2: the rule of refusals recognises more forms
    reads="answerable",
    equals="scikit-learn's recall_score of refusals",
    not_for="data in which every question has an answer",
)
def abstention_recall(refusal: bool, answerable: bool) -> float:
    """Return 1 for a refusal of a question without an answer, 0 for another reply to it.

    The mean is the share of the questions without an answer that are refused. A question with an
    answer has no value (NaN).

    Example:
        >>> abstention_recall(True, answerable=False), abstention_recall(False, answerable=False)
        (1.0, 0.0)
    """
    return math.nan if answerable else float(refusal)


@metric(
    "abstention.over_refusal",
    version=2,  # 2: the rule of refusals recognises more forms
    reads="answerable",
    direction="lower",
    equals="scikit-learn's recall_score of refusals",
    not_for="data in which no question has an answer",
)
def abstention_over_refusal(refusal: bool, answerable: bool) -> float:
    """Return 1 for a refusal of a question with an answer, 0 for another reply to it.

    The mean is the share of the questions with an answer that are refused. A question without an
    answer has no value (NaN).

    Example:
        >>> abstention_over_refusal(True, answerable=True), abstention_over_refusal(False, True)
        (1.0, 0.0)
    """
    return float(refusal) if answerable else math.nan
