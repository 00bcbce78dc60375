"""`failed`: at most a share of the items of a score failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ragbench.comparison.summary import summarize
from ragbench.gates.base import (
    Candidate,
    Decision,
    Entry,
    Most,
    SystemGate,
    out_of_range,
    within,
)
from ragbench.gates.scores import KnownScore
from ragbench.registry import Option
from ragbench.score.base import ScoreColumn


@dataclass(frozen=True, kw_only=True)
class Failed(SystemGate):
    """At most a share of the items of a score failed."""

    subject = "failed"
    conditions = ("max",)

    failed: Annotated[
        str, Option("A score; `max` is the largest share of its items that may fail.")
    ]
    max: Most

    @property
    def about(self) -> str:
        """The score."""
        return self.failed

    @property
    def text(self) -> str:
        """The condition."""
        return f"failed {self.failed} <= {self.max:g}"

    def check_condition(self, entry: Entry, score: KnownScore | None) -> None:
        """The limit is a share."""
        if not 0 <= self.max <= 1:
            out_of_range(entry, "max", 0, 1)

    def decide_system(self, held: Candidate) -> Decision:
        """Count the items; where a query has several answers, each of them is one."""
        answers = held.run.answers.get(held.system.name, {})
        return self.decide_column(answers.get(held.score, held.column))

    def decide_column(self, column: ScoreColumn) -> Decision:
        """Decide by the items of a score; those that it does not apply to are not among them."""
        found = summarize(column)
        n_failed = sum(found.failed.values())
        n = found.n + n_failed
        facts = {"n": found.n, "n_failed": n_failed}
        if not n:
            return Decision("undecided", "the score applies to no query", facts)
        causes = ", ".join(f"{count} {cause}" for cause, count in found.failed.items())
        why = f"{n_failed} of {n} failed" + (f" ({causes})" if causes else "")
        return Decision(within(n_failed / n, None, self.max), why, facts)
