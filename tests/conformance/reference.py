"""Pairs of a name of ragbench and a foreign implementation, with the largest difference allowed.

A new measure, metric or statistic needs a `Reference` in the list `CONFORMS_TO` of its test, or a
line in its `WITHOUT_REFERENCE` that says why it has none. Those that share their oracles stand
together in `measures.py`, `metrics.py`, `statistics.py`, `significance.py` and `agreement.py`.
"""

from __future__ import annotations

import importlib
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# What another order of the same sums, or another logarithm, may change.
ROUNDING = 1e-12

# Our values and theirs: two numbers, or two arrays of one shape.
Pairs = Iterable[tuple[Any, Any]]


@dataclass(frozen=True)
class Reference:
    """A name of ragbench beside a foreign implementation or a plain definition."""

    name: str
    """Name in `ragbench list` or `ragbench.stats`."""
    by: str
    """Package or definition that computes the other value."""
    bar: float
    """The largest difference that is allowed; 0 where all bits must be equal."""
    pairs: Callable[[Any], Pairs]
    """Function of a factor, usually 1, that yields (our value, other value) of that many cases."""
    relative: bool = False
    """True divides differences by the other value."""


@dataclass(frozen=True)
class Part:
    """A part of the usual cases, in the place of a number of times: at least one of each kind."""

    parts: int

    def __rmul__(self, cases: Any) -> Any:
        """Return a part of a number of cases, or the first part of a list of them."""
        if isinstance(cases, int):
            return max(cases // self.parts, 1)
        return cases[: max(len(cases) // self.parts, 1)]

    def __radd__(self, start: int) -> int:
        """Return the end of a range of one case."""
        return start + 1


@dataclass(frozen=True)
class Agreement:
    """Result of a comparison: a line of the page."""

    reference: Reference
    values: int
    """Number of compared values."""
    largest: float
    """The largest difference; inf where one side alone has no value."""

    @property
    def holds(self) -> bool:
        """Return True if values were compared and none differs by more than the bar."""
        return self.values > 0 and self.largest <= self.reference.bar


_TESTS = Path(__file__).parents[1]
_DECLARES = re.compile(r"^(CONFORMS_TO|WITHOUT_REFERENCE)\b", re.MULTILINE)


def declared_by_tests(folder: str) -> tuple[list[Reference], dict[str, str]]:
    """Return the references of a folder of tests, and reasons for their absence, by name."""
    references: list[Reference] = []
    reasons: dict[str, str] = {}
    for path in sorted((_TESTS / folder).glob("test_*.py")):
        if _DECLARES.search(path.read_text(encoding="utf-8")):  # the others are not imported
            place = path.relative_to(_TESTS.parent)
            module = importlib.import_module(".".join(place.with_suffix("").parts))
            references += getattr(module, "CONFORMS_TO", ())
            for name, why in getattr(module, "WITHOUT_REFERENCE", {}).items():
                reasons[name] = f"{why}; {place.as_posix()}"
    return references, reasons


def compare(reference: Reference, times: int | Part = 1) -> Agreement:
    """Compare all cases, several times as many, or a part of them."""
    values, largest = 0, 0.0
    for ours, theirs in reference.pairs(times):
        apart = _distances(ours, theirs, reference.relative)
        values += apart.size
        largest = max(largest, float(apart.max(initial=0.0)))
    return Agreement(reference, values, largest)


def _distances(ours: Any, theirs: Any, relative: bool) -> np.ndarray[Any, Any]:
    mine, other = (np.atleast_1d(np.asarray(side, np.float64)) for side in (ours, theirs))
    if mine.shape != other.shape:
        return np.array([math.inf])
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = np.abs(mine - other)
        if relative:
            apart = apart / np.abs(other)
    equal = (mine == other) | (np.isnan(mine) & np.isnan(other))
    return np.where(equal, 0.0, np.where(np.isnan(apart), math.inf, apart))


def of_cases(ours: Callable, theirs: Callable, cases: Callable, *sizes: object) -> Callable:
    """Compare two functions, case by case."""

    def pairs(times: int) -> Pairs:
        for case in cases(times, *sizes):
            case = case if isinstance(case, tuple) else (case,)
            yield ours(*case), theirs(*case)

    return pairs


def grid(*axes: tuple[float, ...]) -> Callable[[int], Iterator[tuple[float, ...]]]:
    """Return the cases of `of_cases` that are all combinations of these values."""
    return lambda _: itertools.product(*axes)
