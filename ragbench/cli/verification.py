"""What `ragbench score --verify` says: how far our values are from those of another package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click

from ragbench.errors import EXIT_GATE_FAILED, EXIT_OK
from ragbench.report.digits import counted

ROUNDING = 1e-9
"""Largest difference that two orders of the same sums explain."""


@dataclass(frozen=True, slots=True)
class Check:
    """One score beside another package's."""

    score: str
    """Its name."""
    package: str
    """Who computed it again."""
    differences: Mapping[str, float]
    """Item -> absolute difference; empty where there was nothing to compare with."""
    tolerance: float = ROUNDING
    """Differences up to this one are rounding."""


def report_checks(checks: Sequence[Check]) -> int:
    """Print the largest difference by package to stderr, and what could not be checked.

    Returns:
        The exit code: 1 where a difference is more than rounding.
    """
    code = EXIT_OK
    for package in dict.fromkeys(check.package for check in checks if check.differences):
        of_package = [check for check in checks if check.package == package and check.differences]
        values = [
            (difference, check.score, item)
            for check in of_package
            for item, difference in check.differences.items()
        ]
        largest, score, item = max(values)
        where = f" ({score} of {item})" if largest else ""
        what = f"{counted(len(values), 'values')} of {counted(len(of_package), 'scores')}"
        found = f"{what} computed again, largest difference {largest:.2g}{where}"
        click.echo(f"verify: {package}: {found}", err=True)
        if any(max(check.differences.values()) > check.tolerance for check in of_package):
            code = EXIT_GATE_FAILED
    unchecked = [check.score for check in checks if not check.differences]
    if unchecked:
        click.echo(f"verify: not checked: {', '.join(unchecked)}", err=True)
    return code
