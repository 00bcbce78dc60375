"""`max_queries_worse`: how many queries became worse, whatever the mean says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from ragbench.comparison.method import Method
from ragbench.comparison.pairs import PairedScores, at_least, both_means, worst_queries
from ragbench.gates.base import Decision, not_compared
from ragbench.gates.change import Change
from ragbench.records.gate import Verdict
from ragbench.registry import Option
from ragbench.types import FloatArray


@dataclass(frozen=True, kw_only=True)
class QueriesWorse(Change):
    """At most so many queries became worse, each of these queries by `by` or more."""

    conditions = ("max_queries_worse",)
    margin_key = "by"

    max_queries_worse: Annotated[
        int, Option("Largest number of queries that may become worse.", ge=0)
    ]
    by: Annotated[
        float | None, Option("max_queries_worse: smallest drop that counts; default: any.", gt=0)
    ] = None

    @property
    def text(self) -> str:
        """The condition."""
        least = f" by {self.by:g}" if self.by is not None else ""
        limit = f"<= {self.max_queries_worse} queries"
        return f"{self.measure} worse{least} on {limit}{self.shown_against}"

    @property
    def margin(self) -> float:
        """The drop that counts."""
        return self.by or 0.0

    def decide_pairs(self, pairs: PairedScores, method: Method) -> Decision:
        """Decide whether more than `max_queries_worse` queries became worse, each by at least `by`.

        A mean can hide that some questions broke; this looks at each. It is a count over these
        queries, not a guess at others. Without `by` every query counts that became worse at all. A
        query that failed, or one of whose answers did, may have become worse, or be so only for
        that: a verdict that such queries could turn is undecided.
        """
        d = pairs.differences()
        n = int((~np.isnan(d)).sum())
        count = self._n_worse(d)
        least, most = (self._n_worse(pairs.with_failed(end)) for end in ("best", "worst"))
        by = f"by {self.by:g} or more" if self.by else "at all"
        why = f"{count} of {n} queries became worse {by}; allowed: {self.max_queries_worse}"
        n_failed = int(pairs.failed.sum())
        facts = {"n": n, "n_worse": count, "n_failed": n_failed}
        if not n:
            return Decision("undecided", not_compared(n_failed), facts)
        verdict: Verdict = "fail" if least > self.max_queries_worse else "pass"
        if verdict == "pass" and most > self.max_queries_worse:
            verdict, why = "undecided", f"{why}; failures on {most - least} could turn it"
        return Decision(verdict, why, facts, both_means(pairs), worst_queries(pairs))

    def _n_worse(self, differences: FloatArray) -> int:
        is_worse = at_least(-differences, self.margin) & (differences < 0)
        return int(is_worse.sum())

    def is_settled(self, found: Decision) -> bool:
        """Whether too many are worse already; more queries cannot change just that."""
        return found.verdict == "fail"
