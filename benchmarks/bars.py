"""Bars of a benchmark: a line each with `pass` or `FAIL`, and the exit code."""

from __future__ import annotations

import sys
from typing import NoReturn, TextIO


class Bars:
    """Limits that a benchmark checks, one after the other.

    Args:
        stream: Stream of the lines; standard output by default.

    Attributes:
        missed: Sentences of the limits that were missed.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self.missed: list[str] = []
        self._stream = stream or sys.stdout

    def check(self, sentence: str, is_met: bool) -> None:
        """Print a figure with its limit, and whether it is within."""
        print(f"{'pass' if is_met else 'FAIL'}: {sentence}", file=self._stream, flush=True)
        if not is_met:
            self.missed.append(sentence)

    def exit(self) -> NoReturn:
        """End the process with code 1 if a limit was missed, else with 0."""
        verdict = f"bars missed: {len(self.missed)}" if self.missed else "all bars met"
        print(verdict, file=self._stream, flush=True)
        sys.exit(1 if self.missed else 0)
