"""`max_zeros`: at most a share of the queries scores 0."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from ragbench.gates.base import Candidate, MeasureGate, within
from ragbench.records.gate import Decision, Facts
from ragbench.registry import Option


class Zeros(MeasureGate):
    """At most a share of the queries scores 0."""

    conditions = ("max_zeros",)

    max_zeros: Annotated[float, Option("Largest share of queries that score 0.", ge=0, le=1)]

    @property
    def text(self) -> str:
        """The condition."""
        return f"{self.measure} zeros <= {self.max_zeros:g}"

    def decide_system(self, candidate: Candidate) -> Decision:
        """Decide by the number of queries that score 0."""
        values = candidate.column.values
        n, zeros = int((~np.isnan(values)).sum()), int((values == 0).sum())
        if not n:
            return Decision(verdict="undecided", why="nothing was scored", facts=Facts(n=0))
        verdict = within(zeros / n, None, self.max_zeros)
        return Decision(verdict=verdict, why=f"{zeros} of {n}", facts=Facts(n=n))
