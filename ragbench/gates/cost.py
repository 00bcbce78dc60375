"""`max` of a latency, a price or a number of tokens."""

from __future__ import annotations

from dataclasses import dataclass

from ragbench.comparison.systems import SystemScores
from ragbench.gates.base import Decision, GatedRun, MeasureGate, Most, Systems, within


@dataclass(frozen=True, kw_only=True)
class Cost(MeasureGate):
    """A latency, a price or a number of tokens is at most `max`."""

    conditions = ("max",)
    of_costs = True

    max: Most

    @property
    def text(self) -> str:
        """The condition."""
        return f"{self.measure} <= {self.max:g}"

    def decide_system(
        self, system: SystemScores, score: str, having: Systems, run: GatedRun
    ) -> Decision:
        """Compare the cost as `summary.json` has it."""
        return decide_cost(run.costs.get(system.name, {}).get(score), self.max)


def decide_cost(value: float | None, most: float) -> Decision:
    """Decide whether a latency, a price or a number of tokens is at most a limit."""
    if value is None:
        return Decision("undecided", "not known", {"value": None})
    return Decision(within(value, None, most), f"it is {value:.4g}", {"value": value})
