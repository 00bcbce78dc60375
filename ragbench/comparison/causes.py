"""Counts of the causes of a system, and the moves of queries between causes.

Each repetition of a query has a cause of its own, and counts as its share of the query.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, product
from math import lcm

import numpy as np

from ragbench.comparison.slices import Slicing
from ragbench.records.causes import (
    CAUSES,
    AnswerCause,
    CauseFlow,
    CauseMove,
    CauseShare,
    Loss,
    Quantity,
    quantity,
)
from ragbench.stats import mean_interval
from ragbench.types.lookups import index_positions


@dataclass(frozen=True, slots=True)
class SystemCauses:
    """Cause of each query of one system, in each of its repetitions.

    Of r repetitions of a query, each counts as 1 / r of it.

    Attributes:
        losses: Cause and reason of each query in its first repetition, in the order of the queries.
        further: Causes and reasons in each further repetition.
    """

    losses: Sequence[Loss]
    further: Sequence[Sequence[Loss]] = ()

    @property
    def repeats(self) -> list[Sequence[Loss]]:
        """Return the causes of each repetition."""
        return [self.losses, *self.further]

    def causes(self) -> list[list[AnswerCause]]:
        """Return the cause of each query, a row for each repetition."""
        rows = []
        for losses in self.repeats:
            rows.append([loss.cause for loss in losses])
        return rows

    def counts(self) -> dict[AnswerCause, Quantity]:
        """Return the number of queries of every cause, 0 for those that do not occur.

        The order is that of `CAUSES`.
        """
        counter = Counter(chain.from_iterable(self.causes()))
        return {cause: self._queries(counter[cause]) for cause in CAUSES}

    def unsupported(self) -> Quantity:
        """Return the number of right answers in which a judge found claims without support."""
        return self._queries(sum(loss.unsupported for loss in chain.from_iterable(self.repeats)))

    def count_open(self, is_open: Sequence[Sequence[bool]]) -> dict[AnswerCause, Quantity]:
        """Return cause -> number of the queries that are open and did not fail.

        `is_open` has a row for each repetition.
        """
        counter = Counter[AnswerCause]()
        for losses, rows in zip(self.repeats, is_open, strict=True):
            for loss, row_is_open in zip(losses, rows, strict=True):
                if row_is_open and loss.cause != "failed":
                    counter[loss.cause] += 1
        return {cause: self._queries(n) for cause, n in counter.items()}

    def _queries(self, n_repetitions: int) -> Quantity:
        return quantity(Fraction(n_repetitions, len(self.repeats)))

    def shares(
        self, confidence: float, clusters: Sequence[str] | None = None
    ) -> dict[AnswerCause, CauseShare]:
        """Return count, share and interval of each cause that occurs.

        `clusters` has the cluster label of each query; None if queries are units. Shares and limits
        are from 0 to 1, in the order of `CAUSES`; empty without queries. Raises OptionError if
        confidence is outside (0, 1), or clusters have another length.
        """
        causes = np.array(self.causes(), dtype=object)
        shares: dict[AnswerCause, CauseShare] = {}
        for cause, count in self.counts().items():
            if count:
                hits = (causes == cause).mean(axis=0)
                limits = mean_interval(hits, confidence=confidence, clusters=clusters)
                share, ends = count / len(self.losses), (limits.lower, limits.upper)
                shares[cause] = CauseShare(count=count, share=share, interval=ends)
        return shares

    def by_slice(
        self, slicings: Sequence[Slicing]
    ) -> dict[str, dict[str, dict[AnswerCause, Quantity]]]:
        """Return field -> slice -> cause -> number of its queries, without causes of 0 queries.

        A query counts in each of its slices; a slice without queries has {}.
        """
        fields: dict[str, dict[str, dict[AnswerCause, Quantity]]] = {}
        for slicing in slicings:
            counts = Counter[tuple[str, AnswerCause]]()
            for causes in self.causes():
                for labels, cause in zip(slicing.labels, causes, strict=True):
                    counts.update(product(labels, [cause]))
            slices: dict[str, dict[AnswerCause, Quantity]] = {name: {} for name in slicing.names}
            for name, cause in product(slicing.names, CAUSES):
                if count := counts[name, cause]:
                    slices[name][cause] = self._queries(count)
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
    for name, system in causes.items():
        of_queries[name] = list(zip(*system.causes(), strict=True))
    flows = []
    for name, baseline in baselines:
        if baseline is not None:
            old, new = of_queries[baseline], of_queries[name]
            flows.append(flow_of(name, baseline, old, new, query_ids))
    return tuple(flows)


def flow_of(
    system: str,
    baseline: str,
    old_causes: Sequence[Sequence[AnswerCause]],
    new_causes: Sequence[Sequence[AnswerCause]],
    query_ids: Sequence[str],
) -> CauseFlow:
    """Return the moves of queries between causes, the largest group first.

    `old_causes` are those of the baseline, `new_causes` those of the system: for each query, the
    cause of each repetition. As many repetitions as possible keep their cause; a part of a query
    moves if some of them do. Groups of one size are in the order of their causes in `CAUSES`; the
    queries of a group keep their order; `same` counts the queries whose cause stayed.

    Example:
        >>> causes = [["right"], ["refused"]], [["right"], ["right"]]
        >>> flow = flow_of("new", "old", *causes, ["q1", "q2"])
        >>> flow.same, [(move.before, move.after, move.queries) for move in flow.moves]
        (1, [('refused', 'right', ('q2',))])
    """
    groups: dict[tuple[AnswerCause, AnswerCause], dict[str, None]] = defaultdict(dict)
    sizes: dict[tuple[AnswerCause, AnswerCause], Fraction] = defaultdict(Fraction)
    for query, old, new in zip(query_ids, old_causes, new_causes, strict=True):
        units = lcm(len(old), len(new))
        for pair in _moves(old, new, units):
            groups[pair][query] = None
            sizes[pair] += Fraction(1, units)
    order = index_positions(CAUSES)
    moves = []
    for pair in sorted(groups, key=lambda g: (-sizes[g], order[g[0]], order[g[1]])):
        queries, size = tuple(groups[pair]), sizes[pair]
        n = None if size == len(queries) else quantity(size)
        moves.append(CauseMove(before=pair[0], after=pair[1], queries=queries, n=n))
    same = quantity(len(query_ids) - sum(sizes.values(), Fraction(0)))
    return CauseFlow(system=system, baseline=baseline, same=same, moves=tuple(moves))


def _moves(
    old: Sequence[AnswerCause], new: Sequence[AnswerCause], units: int
) -> Iterator[tuple[AnswerCause, AnswerCause]]:
    """Yield the cause before and after of each unit of a query that moves."""
    # the units are a multiple of both numbers of repetitions
    if len(old) == len(new) == 1:  # most runs ask each question once
        yield from zip(old, new, strict=True) if old[0] != new[0] else ()
        return
    old_units = Counter([*old] * (units // len(old)))
    new_units = Counter([*new] * (units // len(new)))
    # the differences have no cause in common: any pairing moves as much
    yield from zip(_in_order(old_units - new_units), _in_order(new_units - old_units), strict=True)


def _in_order(counts: Counter[AnswerCause]) -> Iterator[AnswerCause]:
    """Return the causes in the order of `CAUSES`, each repeated by its count."""
    return chain.from_iterable([cause] * counts[cause] for cause in CAUSES)
