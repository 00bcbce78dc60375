"""Options that measures share, each declared once; without NumPy, for measures of one list.

They mean the same in every measure, so that docstrings of measures mention only differences.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from ragbench.errors import DataError, OptionError
from ragbench.registry import Option

# Sums of 2 to the power of larger grades would exceed the range of a double.
LARGEST_EXPONENT = 1000

# Number of ranks; None: the whole ranking.
Cutoff = Annotated[int, Option("Use only the first k ranks; null: all.", ge=1)]
# Smallest grade of a relevant document.
Grade = Annotated[int, Option("Smallest grade that counts as relevant.", ge=1)]
# Divisor of average precision at a cut-off.
Divide = Annotated[
    Literal["min"],
    Option("`min` divides by min(k, R), not by R, the number of relevant documents; needs a k."),
]
Persistence = Annotated[
    float, Option("Chance that a reader goes on from one rank to the next.", gt=0, lt=1)
]
LargestGrade = Annotated[
    int,
    Option(
        "Top of the scale of grades, such as 4 for gdeval; default: the largest in the qrels.",
        ge=1,
        le=LARGEST_EXPONENT,
    ),
]
Gain = Annotated[
    Literal["linear", "exp"], Option("Gain of a grade: the grade itself, or 2^grade - 1.")
]
Gains = Annotated[
    str, Option("Gains of single grades, such as {1:3,2:9}; other grades gain their value.")
]
Discount = Annotated[
    Literal["log2", "jk"],
    Option("Divisor of a rank: log2(rank + 1), or the log of the rank from rank `base` on."),
]
Base = Annotated[float, Option("Base of the logarithm with discount=jk.", gt=1)]


def check_base(owner: str, discount: str, base: float) -> None:
    """Raise OptionError for a base that has no effect with this discount.

    Only `jk` uses a base other than 2. `owner` is the measure, for the message.
    """
    if discount != "jk" and base != 2:
        raise OptionError(owner, "base", base, "2, or any base above 1 with discount=jk")


def check_divide(divide: str | None, k: int | None) -> None:
    """Raise OptionError for a divisor of `map` that has no effect without a cut-off."""
    if divide is not None and k is None:
        raise OptionError("map", "divide", divide, f"map(divide={divide})@10")


def check_exponent(owner: str, grade: int) -> None:
    """Raise DataError for a grade whose exponential gain is not finite.

    The largest grade allowed is 1000.
    """
    if grade > LARGEST_EXPONENT:
        raise DataError(
            f"grade {grade} is too large for gain=exp",
            record=owner,
            allowed=f"grades up to {LARGEST_EXPONENT}, or gain=linear",
        )


def read_gains(owner: str, text: str | None, gain: str = "linear") -> dict[int, float]:
    """Return grade -> gain from a text `{grade:gain,...}`; empty for None.

    Spaces do not count; `owner` is the measure, for messages.

    Raises:
        OptionError: The text is no list of grades and gains from 0 on, or `gain` is not linear
            beside it.

    Example:
        >>> read_gains("ndcg", "{1:3.5,2:9}")
        {1: 3.5, 2: 9.0}
    """
    if text is None:
        return {}
    if gain != "linear":
        raise OptionError(owner, "gains", text, "no gains with gain=exp")
    allowed = "pairs such as {1:3,2:9}: each grade once, an integer >= 0, with a gain >= 0"
    refused = OptionError(owner, "gains", text, allowed)
    gain_of: dict[int, float] = {}
    inside = text.strip()
    if not (inside.startswith("{") and inside.endswith("}")):
        raise refused
    for pair in inside[1:-1].split(","):
        grade, _, value = (part.strip() for part in pair.partition(":"))
        try:
            level, value_of_level = int(grade), float(value)
        except ValueError:
            raise refused from None
        # below 0 a score would leave its range, which the intervals rest on
        if level < 0 or level in gain_of or not 0 <= value_of_level < math.inf:
            raise refused
        gain_of[level] = value_of_level
    return gain_of
