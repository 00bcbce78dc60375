"""`numeric_match`: whether the last number of an answer, or any, is a number of a gold answer."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Annotated, Literal

from ragbench.registry import Option
from ragbench.score.text import base
from ragbench.text.numbers import read_token, split_numbers
from ragbench.types import Cause
from ragbench.types.scores import Value

Percent = Literal["number", "share"]

# Values of a number by its readings, of which there are one or two.
Readings = frozenset[Fraction]


@functools.lru_cache(maxsize=512)  # references repeat for every system
def _numbers(text: str, percent: Percent) -> list[Readings]:
    """Return the numbers of a text in order."""
    numbers = list[Readings]()
    for name in split_numbers(text).tokens:
        token = read_token(name)
        divisor = token.divisor if percent == "share" else 1
        for number in token.values():
            numbers.append(frozenset(value / divisor for value in number))
    return numbers


def _cause_of(references: Sequence[str]) -> Cause:
    """Return NO_NUMBER for references without a number, else SCORED."""
    has_number = any(_numbers(text, "number") for text in references)
    return Cause.SCORED if has_number else Cause.NO_NUMBER


@base.metric(
    "numeric_match",
    gold_cause=_cause_of,
    facts={"references": "any"},
    equals="its definition, by fractions",
    not_for="references with several numbers: one of them is enough",
)
def numeric_match(
    prediction: str,
    references: str | Sequence[str],
    *,
    which: Annotated[
        Literal["last", "any"],
        Option("Number of the prediction that is compared: the last one, or any of them."),
    ] = "last",
    rel: Annotated[
        float,
        Option("Largest difference from the reference, as a share of the reference.", ge=0, lt=1),
    ] = 0.0,
    abs: Annotated[
        float,
        Option(
            "Largest difference from the reference; the larger one of `rel` and `abs` counts.", ge=0
        ),
    ] = 0.0,
    percent: Annotated[
        Percent,
        Option(
            "`number`: 33.5 % is 33.5; `share`: 33.5 % is 0.335, in predictions and references."
        ),
    ] = "number",
) -> Value:
    """Return 1 where the last number of a prediction equals a number of a reference, else 0.

    Numbers are read as for `contains`: 1.234 is 1234 or 1.234, $1,500 is 1500, and COVID-19, 10:30,
    2.1.0 and 2024-05-03 are no numbers. 1e3 is 1000, 1/2 is 0.5, 5km is 5, and the range 5-10 has
    two numbers. Words such as `million` are not read. A prediction without a number gives 0. A row
    whose references have no number has no value (NaN; cause `no_number`).

    Args:
        prediction: The text that is scored.
        references: Its reference, or a list of several.

    Raises:
        OptionError: No reference, or an option that is not allowed.

    Example:
        >>> numeric_match("It rose from 3 to 1,500.", "1500"), numeric_match("About 33.4.", "33.5")
        (1.0, 0.0)
        >>> numeric_match("About 33.4.", "33.5", abs=0.1)
        1.0
        >>> numeric_match("A share of 0.335.", "33.5 %", percent="share")
        1.0
    """
    gold = set[Fraction]()
    for text in base.reference_list("numeric_match", references):
        gold.update(*_numbers(text, percent))
    if not gold:
        return Value(math.nan)
    numbers = _numbers(prediction, percent)
    values = set[Fraction]().union(*(numbers[-1:] if which == "last" else numbers))
    # by their digits: the float 0.1 is a little more than a tenth
    share, least = Fraction(str(rel)), Fraction(str(abs))
    return Value(any(_is_near(one, other, share, least) for one, other in product(values, gold)))


def _is_near(value: Fraction, gold: Fraction, share: Fraction, least: Fraction) -> bool:
    """Return True if a value is within the larger tolerance; `share` is one of the gold value."""
    return abs(value - gold) <= max(share * abs(gold), least)
