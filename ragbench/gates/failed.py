"""Gate `failed`: a share of failed items keeps a limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np

from ragbench.gates import base
from ragbench.records.gate import Decision, Facts
from ragbench.registry import Option
from ragbench.types import Cause, ScoreColumn
from ragbench.types.display import list_counts


class Failed(base.SystemGate):
    """At most a share of the items of a score failed.

    `max` is a share from 0 to 1; an item is a query, or an answer if queries have several. Further
    options are those of `Gate`: `system` and `undecided`.
    """

    quantity_key = "failed"
    conditions = ("max",)

    failed: Annotated[str, Option("Name of a score, whose failed items are counted.")]
    max: base.Most

    @property
    def text(self) -> str:
        """Condition as summaries show it."""
        return f"failed {self.failed} <= {self.max:g}"

    def check_condition(self, score: base.ScoreFacts | None) -> Iterator[base.GateProblem]:
        """Yield a problem for a limit that is no share."""
        if not 0 <= self.max <= 1:
            yield base.out_of_range("max", 0, 1)

    def decide_system(self, candidate: base.Candidate) -> Decision:
        """Return the decision on the items of a score of one system."""
        return self.decide_column(candidate.column)

    def decide_column(self, column: ScoreColumn) -> Decision:
        """Return the decision on the share of failed items of a score.

        Items that the score does not apply to are left out; without any item it is undecided. If
        queries have several answers, an item is an answer. It passes up to and including `max`.
        """
        # with several answers to a query, each answer is an item; so is each failed repetition
        codes = column.verdict_causes.ravel()
        counts, failed = np.bincount(codes, minlength=Cause.SCORED + 1), dict[str, int]()
        for code in np.flatnonzero(counts).tolist():
            if Cause(code).failed:
                failed[Cause(code).word] = int(counts[code])
        n_scored, n_failed = int(counts[Cause.SCORED]), sum(failed.values())
        n = n_scored + n_failed
        facts = Facts(n=n_scored, n_failed=n_failed)
        if not n:
            why = "the score applies to no query; gate another score"
            return Decision(verdict="undecided", why=why, facts=facts)
        causes = list_counts(failed)
        why = f"{n_failed} of {n} failed" + (f" ({causes})" if causes else "")
        return Decision(verdict=base.within(n_failed / n, None, self.max), why=why, facts=facts)
