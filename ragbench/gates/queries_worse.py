"""`max_queries_worse`: how many queries became worse, whatever the mean says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from ragbench.comparison.method import Method
from ragbench.comparison.pairs import PairedScores, at_least, worst_queries
from ragbench.gates.base import Decision
from ragbench.gates.change import Change
from ragbench.registry import Option


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
        query that failed may have become worse: a verdict that such queries could turn is
        undecided.
        """
        d = pairs.differences()
        is_worse = at_least(-d, self.margin) & (d < 0)
        count, n = int(is_worse.sum()), int((~np.isnan(d)).sum())
        could = pairs.with_failed("worst")
        n_open = int((pairs.failed & at_least(-could, self.margin) & (could < 0)).sum())
        least = f"by {self.by:g} or more" if self.by else "at all"
        why = f"{count} of {n} queries became worse {least}; allowed: {self.max_queries_worse}"
        facts = {
            "n": n,
            "n_worse": count,
            "n_failed": int(pairs.failed.sum()),
            "worst_queries": worst_queries(pairs),
        }
        if count > self.max_queries_worse:
            return Decision("fail", why, facts)
        if not n and not n_open:
            return Decision("undecided", "no query has a score in both", facts)
        if count + n_open > self.max_queries_worse:
            return Decision("undecided", f"{why}; {n_open} that failed could turn it", facts)
        return Decision("pass", why, facts)

    def is_settled(self, found: Decision) -> bool:
        """Whether too many are worse already; more queries cannot change just that."""
        return found.verdict == "fail"
