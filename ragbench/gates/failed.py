"""`failed`: at most a share of the items of a score failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

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
from ragbench.types import Cause


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
        """Decide by the column of the score."""
        return self.decide_column(held.column)

    def decide_column(self, column: ScoreColumn) -> Decision:
        """Decide by the items of a score; those that it does not apply to are not among them.

        Where a query has several answers, each of them is an item.
        """
        codes = column.causes if column.answer_causes is None else column.answer_causes
        counts = {Cause(code): n for code, n in enumerate(np.bincount(codes.ravel())) if n}
        failed = {cause.word: int(n) for cause, n in counts.items() if cause.failed}
        n_scored, n_failed = int(counts.get(Cause.SCORED, 0)), sum(failed.values())
        n = n_scored + n_failed
        facts = {"n": n_scored, "n_failed": n_failed}
        if not n:
            return Decision("undecided", "the score applies to no query", facts)
        causes = ", ".join(f"{count} {cause}" for cause, count in failed.items())
        why = f"{n_failed} of {n} failed" + (f" ({causes})" if causes else "")
        return Decision(within(n_failed / n, None, self.max), why, facts)
