"""Counts of the causes of a system, and the moves of queries between causes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from ragbench.comparison.slices import Slicing
from ragbench.records.causes import CAUSES, AnswerCause, CauseFlow, CauseMove, CauseShare, Loss
from ragbench.stats import mean_interval


@dataclass(frozen=True, slots=True)
class SystemCauses:
    """Cause of each query of one system.

    `counts` returns the number of queries by cause, `shares` their shares with intervals,
    `by_slice` the numbers by field and slice.

    Attributes:
        losses: Cause and reason of each query, in the order of the queries.
    """

    losses: Sequence[Loss]

    def counts(self) -> dict[AnswerCause, int]:
        """Return the number of queries of every cause, 0 for those that do not occur.

        The order is that of `CAUSES`.
        """
        counter = Counter(loss.cause for loss in self.losses)
        return {cause: counter[cause] for cause in CAUSES}

    def shares(
        self, confidence: float, clusters: Sequence[str] | None = None
    ) -> dict[AnswerCause, CauseShare]:
        """Return count, share and interval of each cause that occurs.

        `clusters` has the cluster label of each query; None if queries are units. Shares and limits
        are from 0 to 1, in the order of `CAUSES`; empty without queries. OptionError if confidence
        is outside (0, 1), or clusters have another length.
        """
        causes = np.array([loss.cause for loss in self.losses], dtype=object)
        shares: dict[AnswerCause, CauseShare] = {}
        for cause, count in self.counts().items():
            if count:
                hits = (causes == cause).astype(np.float64)
                limits = mean_interval(hits, confidence=confidence, clusters=clusters)
                shares[cause] = CauseShare(
                    count=count,
                    share=count / len(self.losses),
                    interval=(limits.lower, limits.upper),
                )
        return shares

    def by_slice(self, slicings: Sequence[Slicing]) -> dict[str, dict[str, dict[AnswerCause, int]]]:
        """Return field -> slice -> cause -> number of its queries, without causes of 0 queries.

        A query counts in each of its slices; a slice without queries has {}.
        """
        fields: dict[str, dict[str, dict[AnswerCause, int]]] = {}
        for slicing in slicings:
            counts = Counter[tuple[str, AnswerCause]]()
            for labels, loss in zip(slicing.labels, self.losses, strict=True):
                counts.update((label, loss.cause) for label in labels)
            slices: dict[str, dict[AnswerCause, int]] = {name: {} for name in slicing.names}
            for name, cause in product(slicing.names, CAUSES):
                if count := counts[name, cause]:
                    slices[name][cause] = count
            fields[slicing.field] = slices
        return fields


def cause_flows(
    causes: Mapping[str, SystemCauses],
    baselines: Iterable[tuple[str, str | None]],
    query_ids: Sequence[str],
) -> tuple[CauseFlow, ...]:
    """Return the moves of queries between causes from each baseline to its system.

    `baselines` has pairs of a system and its baseline; those without a baseline are left out.
    """
    of_queries = {}
    for name, of_system in causes.items():
        of_queries[name] = [loss.cause for loss in of_system.losses]
    flows = []
    for system, baseline in baselines:
        if baseline is not None:
            old, new = of_queries[baseline], of_queries[system]
            flows.append(flow_of(system, baseline, old, new, query_ids))
    return tuple(flows)


def flow_of(
    system: str,
    baseline: str,
    old_causes: Sequence[AnswerCause],
    new_causes: Sequence[AnswerCause],
    query_ids: Sequence[str],
) -> CauseFlow:
    """Return the moves of queries between causes, the largest group first.

    `old_causes` are those of the baseline, `new_causes` those of the system, one for each query.
    Groups of one size are in the order of their causes in `CAUSES`; the queries of a group keep
    their order; `same` counts the queries whose cause stayed.

    Example:
        >>> flow = flow_of("new", "old", ["right", "refused"], ["right", "right"], ["q1", "q2"])
        >>> flow.same, [(move.before, move.after, move.queries) for move in flow.moves]
        (1, [('refused', 'right', ('q2',))])
    """
    groups: dict[tuple[AnswerCause, AnswerCause], list[str]] = defaultdict(list)
    for query, old, new in zip(query_ids, old_causes, new_causes, strict=True):
        if old != new:
            groups[old, new].append(query)
    order = {cause: place for place, cause in enumerate(CAUSES)}
    ordered = sorted(groups.items(), key=lambda g: (-len(g[1]), order[g[0][0]], order[g[0][1]]))
    moves = tuple(CauseMove(before=b, after=a, queries=tuple(q)) for (b, a), q in ordered)
    same = len(query_ids) - sum(len(move.queries) for move in moves)
    return CauseFlow(system=system, baseline=baseline, same=same, moves=moves)
