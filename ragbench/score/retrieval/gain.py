"""What a grade gains and what a rank discounts: shared by `dcg`, `ndcg` and their one-list forms.

Written for arrays and for single numbers alike, without NumPy.
"""

from __future__ import annotations

from typing import Annotated, Literal

from ragbench.errors import DataError, OptionError
from ragbench.registry import Option

LARGEST_EXPONENT = 1000
"""2 to the power of larger grades, summed, would leave the range of a double."""

Gain = Annotated[
    Literal["linear", "exp"], Option("What a grade gains: the grade itself, or 2^grade - 1.")
]
Discount = Annotated[
    Literal["log2", "jk"],
    Option("What a rank divides by: log2(rank + 1), or the log of the rank from rank `base` on."),
]
Base = Annotated[float, Option("Base of the logarithm with discount=jk.", gt=1)]


def check_base(owner: str, discount: str, base: float) -> None:
    """Refuse a base that would have no effect.

    Raises:
        OptionError: The base is not 2, and the discount is not `jk`.
    """
    if discount != "jk" and base != 2:
        raise OptionError(owner, "base", base, "2, or any base above 1 with discount=jk")


def check_exponent(owner: str, grade: int) -> None:
    """Refuse a grade whose exponential gain is no finite number.

    Raises:
        DataError: The grade is above 1000.
    """
    if grade > LARGEST_EXPONENT:
        raise DataError(
            f"grade {grade} is too large for gain=exp",
            record=owner,
            allowed=f"grades up to {LARGEST_EXPONENT}, or gain=linear",
        )
