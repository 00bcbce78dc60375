"""Names `pass^k` and `pass@k`: right in all of k repetitions, and right in one of them.

Both count the repetitions of each question that are `right`, which the stages of a run know; a
metric of this module therefore has no value for a single answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ragbench.errors import OptionError
from ragbench.score.text.base import Declaration, Metric

_FORM = re.compile(r"(?P<rule>pass[\^@])(?P<k>.*)", re.DOTALL)


# Name for a reader -> its meaning.
PASS_METRICS = {
    "pass^k": "Return the probability that all of k repetitions of a question are right",
    "pass@k": "Return the probability that one of k repetitions of a question is right",
}


def _has_no_answer_value(prediction: str, references: Sequence[str]) -> float:
    """Raise OptionError: a value needs all repetitions of a question."""
    raise OptionError("metric", "name", "pass^k", "a metric of one answer; pass^k needs `repeat`")


def _declare(rule: str) -> Declaration:
    return Declaration(
        (f"{rule}k",),
        _has_no_answer_value,
        equals="counting by hand",
        not_for="the quality of a single answer: `right`",
        reads="repetitions",
    )


# `pass^` is right in all k repetitions, `pass@` in at least one.
_DECLARATIONS = {rule: _declare(rule) for rule in ("pass^", "pass@")}


def parse_pass(name: str) -> Metric | None:
    """Return the metric of a name such as `pass^3`; None for another name.

    Raises:
        OptionError: k is no integer of at least 1.

    Example:
        >>> parse_pass("pass^3").options, parse_pass("rouge1")
        ({'k': 3}, None)
    """
    match = _FORM.fullmatch(name.strip())
    if match is None:
        return None
    rule, k = match["rule"], match["k"]
    if not re.fullmatch(r"[1-9][0-9]{0,8}", k):
        raise OptionError("metric", "name", name, f"{rule}k with an integer k >= 1, as {rule}3")
    options: dict[str, Any] = {"k": int(k)}
    return Metric(name, f"{rule}{k}", "", options, {}, _DECLARATIONS[rule])
