"""Trials of a simulation: their number (`--trials`), two at a time, and the error of a figure."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np

Job = TypeVar("Job")
Result = TypeVar("Result")


class Cell(NamedTuple):
    """Figure of one setting with its standard error."""

    name: str
    value: float
    error: float

    def __str__(self) -> str:
        return f"{percent(self.value, self.error)} ({self.name})"


def share_cell(name: str, share: float, trials: int) -> Cell:
    """Return a share of so many trials as a cell."""
    return Cell(name, share, share_error(share, trials))


def share_error(share: float, trials: int) -> float:
    """Return the standard error of a share of so many trials."""
    return math.sqrt(share * (1 - share) / trials)


def mean_error(values: Iterable[float]) -> float:
    """Return the standard error of a mean."""
    column = np.fromiter(values, dtype=np.float64)
    return float(column.std(ddof=1) / math.sqrt(len(column)))


def percent(share: float, error: float) -> str:
    """Return a share with its standard error: `2.5 ± 0.2 %`."""
    return f"{100 * share:.1f} ± {100 * error:.1f} %"


def largest(cells: Iterable[Cell]) -> Cell:
    """Return the cell with the largest value."""
    return max(cells, key=lambda cell: cell.value)


def run_jobs(run: Callable[[Job], Result], jobs: Sequence[Job]) -> list[Result]:
    """Return the result of each job; there are as many processes as cores."""
    with ProcessPoolExecutor() as executor:
        return list(executor.map(run, jobs))


def add_trials(parser: argparse.ArgumentParser, usual: int, longer: int, unit: str) -> None:
    """Add the option `--trials`; its help says how many trials a longer run takes."""
    parser.add_argument(
        "--trials",
        type=_whole_number,
        default=usual,
        metavar="N",
        help=f"{unit}: {usual:,} by default, {longer:,} in a longer run",
    )


def _whole_number(text: str) -> int:
    number = int(text)
    if number < 2:  # one trial has no standard error
        raise argparse.ArgumentTypeError(f"{text} is too small; write a whole number from 2")
    return number
