"""How many queries of a system are lost where, and which moved between two systems."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ragbench.comparison.causes.rules import Lost
from ragbench.comparison.differences import Slicing
from ragbench.comparison.systems import SystemScores, baseline_of
from ragbench.records.causes import CAUSES, AnswerCause, CauseFlow, CauseMove, CauseShare
from ragbench.stats import mean_interval


@dataclass(frozen=True, slots=True)
class SystemCauses:
    """The cause of every query of one system."""

    system: str
    lost: Sequence[Lost]
    """In the order of the queries."""

    def counts(self) -> dict[AnswerCause, int]:
        """Return how many queries have each cause; they add up to the queries."""
        found = Counter(each.cause for each in self.lost)
        return {cause: found[cause] for cause in CAUSES}

    def shares(
        self, confidence: float, clusters: Sequence[str] | None = None
    ) -> dict[AnswerCause, CauseShare]:
        """Return the share of each cause that occurs, with its interval."""
        causes = np.array([each.cause for each in self.lost], dtype=object)
        found: dict[AnswerCause, CauseShare] = {}
        for cause, count in self.counts().items():
            if count:
                hits = (causes == cause).astype(np.float64)
                limits = mean_interval(hits, confidence=confidence, clusters=clusters)
                found[cause] = CauseShare(
                    count=count,
                    share=count / len(self.lost),
                    interval=(limits.lower, limits.upper),
                )
        return found

    def by_slice(self, slicings: Sequence[Slicing]) -> dict[str, dict[str, dict[AnswerCause, int]]]:
        """Return field -> slice -> how many of its queries have each cause that occurs there."""
        found: dict[str, dict[str, dict[AnswerCause, int]]] = {}
        for slicing in slicings:
            counts: dict[str, Counter[AnswerCause]] = {name: Counter() for name in slicing.names}
            for labels, lost in zip(slicing.labels, self.lost, strict=True):
                for label in labels:
                    counts[label][lost.cause] += 1
            found[slicing.field] = {
                name: {cause: count[cause] for cause in CAUSES if count[cause]}
                for name, count in counts.items()
            }
        return found


def cause_flows(
    found: Mapping[str, SystemCauses],
    systems: Sequence[SystemScores],
    baseline: str | None,
    query_ids: Sequence[str],
) -> tuple[CauseFlow, ...]:
    """Say which queries moved from which cause to which, from each baseline to its systems."""
    by_name = {system.name: system for system in systems}
    flows = []
    for system in systems:
        other = baseline_of(system, by_name, baseline)
        if other is None or not {system.name, other.name} <= found.keys():
            continue
        before = [each.cause for each in found[other.name].lost]
        after = [each.cause for each in found[system.name].lost]
        flows.append(flow_of(system.name, other.name, before, after, query_ids))
    return tuple(flows)


def flow_of(
    system: str,
    baseline: str,
    before: Sequence[AnswerCause],
    after: Sequence[AnswerCause],
    query_ids: Sequence[str],
) -> CauseFlow:
    """Group the queries whose cause differs.

    Example:
        >>> flow = flow_of("new", "old", ["right", "refused"], ["right", "right"], ["q1", "q2"])
        >>> flow.same, [(move.before, move.after, move.queries) for move in flow.moves]
        (1, [('refused', 'right', ('q2',))])
    """
    groups: dict[tuple[AnswerCause, AnswerCause], list[str]] = defaultdict(list)
    for query, old, new in zip(query_ids, before, after, strict=True):
        if old != new:
            groups[old, new].append(query)
    order = {cause: place for place, cause in enumerate(CAUSES)}
    ordered = sorted(groups.items(), key=lambda g: (-len(g[1]), order[g[0][0]], order[g[0][1]]))
    moves = tuple(CauseMove(before=b, after=a, queries=tuple(q)) for (b, a), q in ordered)
    same = len(query_ids) - sum(len(move.queries) for move in moves)
    return CauseFlow(system=system, baseline=baseline, same=same, moves=moves)
