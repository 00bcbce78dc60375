"""Changes of a retriever that stored rankings can price, and the best of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ragbench.fixes.cross_fitting import choose, gain_of, parts_of
from ragbench.fixes.fusion_table import FusionSetting
from ragbench.fixes.rankings import StoredRankings
from ragbench.records.fixes import ChangeKind, FusedRetriever, PricedChange, Promise
from ragbench.types import FloatArray, IntArray
from ragbench.types.rows import BoolArray

FUSED = 8  # rankings that are fused with each other: 8 have 84 pairs and triples
# Close to each other at the first ranks, where a passage more moves the most questions.
_PASSAGES = (1, 2, 3, 5, 10, 20, 30, 50, 100)
_DEPTHS = (10, 20, 50, 100)
# Equal weights come first: the first of equal rows is chosen, so that a tie tunes nothing.
# Rounding keeps 1 - 0.9 from being written to a config as 0.09999999999999998.
_PAIR_WEIGHTS = tuple((w, round(1 - w, 1)) for w in (0.5, 0.3, 0.7, 0.1, 0.9))
_TRIPLE_WEIGHTS = ((1 / 3,) * 3, (0.5, 0.25, 0.25), (0.25, 0.5, 0.25), (0.25, 0.25, 0.5))


@dataclass(frozen=True)
class PricedRun:
    """Stored rankings of a run, and data of their retrievers that changes are priced with.

    `price_changes` returns its changes; `hits` raises KeyError for an unknown retriever.

    Attributes:
        rankings: Ranks of the gold of the queries that count.
        base: Retriever that the changes start from.
        read: Passages that a generator reads now.
        reads: Passages that a generator reads after a change of the ranking.
        deepest: Stored hits of a query at most.
        seed: Seed of the parts of the questions.
        confidence: Level of the intervals.
        clusters: Cluster of each query; None if queries are units.
        sources: Retriever -> retriever that it reranks; absent for others.
        fusible: Retrievers whose stored hits a fusion would get.
        weighable: Retrievers of these whose stored scores a fusion would get.
        latency_ms: Retriever -> median time of a query; absent if it is not known.
        passage_tokens: Tokens of a passage, about; None if no text is stored.
    """

    rankings: StoredRankings
    base: str
    read: int
    reads: int
    deepest: int
    seed: int = 0
    confidence: float = 0.95
    clusters: Sequence[str] | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    fusible: Sequence[str] = ()
    weighable: Sequence[str] = ()
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    passage_tokens: float | None = None

    @property
    def query_ids(self) -> Sequence[str]:
        """Queries that count."""
        return self.rankings.gold.query_ids

    @cached_property
    def right(self) -> BoolArray:
        """True for each query whose gold is read now."""
        return self.hits(self.base, self.read)

    def hits(self, retriever: str, k: int) -> BoolArray:
        """Return True for each query whose gold is among the first k hits of a retriever.

        That is one gold document, or with `rankings.needs_all` all of them. KeyError for an unknown
        retriever.
        """
        hits: BoolArray = self.rankings.depths(retriever) <= k
        return hits

    @cached_property
    def parts(self) -> IntArray:
        """Part of each query, from 0 to 9, for choices; see `parts_of`."""
        return parts_of(len(self.query_ids), self.seed, self.clusters)

    def price(
        self,
        kind: ChangeKind,
        text: str,
        hits: BoolArray,
        *,
        passages: int,
        confirmed: FloatArray | None = None,
        retriever: str | None = None,
        fusion: FusedRetriever | None = None,
        reach: int = 0,
    ) -> PricedChange:
        """Return a change with its counts and gain.

        Args:
            kind: Kind of the change.
            text: The change in words.
            hits: Whether each query is right after it.
            passages: Passages that a generator reads after it.
            confirmed: Gain of each query without the choice of the weights; None without a choice.
            retriever: Retriever after it.
            fusion: Fusion after it.
            reach: Hits that a perfect reranker reads; 0 for a change that is known.
        """
        # `rescued` and `lost` count all questions, also those that chose the weights. Only the gain
        # and its interval leave them out, so the gain may differ from the difference of the two
        # counts.
        differences = hits.astype(np.float64) - self.right if confirmed is None else confirmed
        gain = gain_of(differences, self.confidence, self.clusters)
        names = fusion.retrievers if fusion else (retriever or self.base,)
        # The base comes last: its time is subtracted. A fusion counts as if it asked its
        # sources one after the other.
        times = [self.latency_ms.get(name) for name in (*names, self.base)]
        is_known = None not in times and not reach
        further = passages - self.read
        return PricedChange(
            kind=kind,
            text=text,
            retriever=retriever,
            fusion=fusion,
            passages=passages,
            right=int(hits.sum()),
            of=len(hits),
            rescued=self._ids(hits & ~self.right),
            lost=self._ids(self.right & ~hits),
            gain=gain.mean,
            interval=gain.interval,
            is_bound=reach > 0,
            reach=reach,
            tokens=self.passage_tokens and further * self.passage_tokens,
            latency_ms=sum(t or 0.0 for t in times[:-1]) - (times[-1] or 0.0) if is_known else None,
        )

    def _ids(self, rows: BoolArray) -> tuple[str, ...]:
        """Return the ids of the queries whose row is True, in their order."""
        return tuple(self.query_ids[row] for row in np.flatnonzero(rows).tolist())


def _price_fusions(run: PricedRun) -> Iterator[tuple[PricedChange, BoolArray]]:
    """Yield fusions of two and three rankings with the hits by each of their weights, pairs first.

    A fusion has the best of its weights. Each group of rankings is fused by rrf, and weighted.
    """
    # Right questions after the change decide, not before it: --passages moves the order.
    names = sorted(run.fusible, key=lambda name: -int(run.hits(name, run.reads).sum()))
    chosen = [name for name in names if name != run.base][: FUSED - 1]
    # Back to the order of the config: it names the fusion, and weights belong to positions.
    chosen = [name for name in run.fusible if name == run.base or name in chosen]
    groups: list[list[FusionSetting]] = []
    for size, all_weights in ((2, _PAIR_WEIGHTS), (3, _TRIPLE_WEIGHTS)):
        for sources in itertools.combinations(chosen, size):
            # rrf is a group of its own: without weights there is no choice to confirm. It precedes
            # the weighted fusions, because it is the simpler of two with as many right questions.
            groups.append([FusionSetting(sources, "rrf", (1.0,) * size)])
            if all(source in run.weighable for source in sources):
                groups.append([FusionSetting(sources, "weighted", w) for w in all_weights])
    # One call for all settings: they share the table of documents.
    all_hits = iter(run.rankings.fused_hits([*itertools.chain(*groups)], run.reads))
    for group in groups:
        hits = np.array([*itertools.islice(all_hits, len(group))])
        best, confirmed = choose(hits, run.right, run.parts)
        sources, method, weights = group[best]
        is_rrf = method == "rrf"
        # A fusion without the base is a replacement, and its text must not read as an addition.
        names = [source for source in sources if source != run.base]
        how = "rrf" if is_rrf else f"weighted {' : '.join(f'{w:.2g}' for w in weights)}"
        first = "fuse with" if len(names) < len(sources) else "instead fuse"
        fusion = FusedRetriever(
            retrievers=sources, method=method, weights=() if is_rrf else weights
        )
        change = run.price(
            "rrf" if is_rrf else "weighted",
            f"{first} {' and '.join(names)} ({how})",
            hits[best],
            passages=run.reads,
            confirmed=confirmed,
            fusion=fusion,
        )
        yield change, hits


def price_changes(run: PricedRun) -> tuple[list[PricedChange], Promise | None]:
    """Return all changes, and the best of those that a config can state.

    Changes are sorted by questions rescued less lost, most first; the best is None without such
    changes or without questions.
    """
    candidates = config_changes(run)
    changes = [change for change, _ in candidates]
    # Before passages and bounds are added: no config states a perfect reranker, and more passages
    # almost always win, so that neither may compete for the promise.
    promise = _promise(run, candidates)
    for k in sorted({*_PASSAGES, run.deepest}):
        if k not in (run.read, run.reads) and k <= run.deepest:
            changes.append(_reading(run, k))
    for depth in _DEPTHS:
        if run.read < depth <= run.deepest:
            text, hits = f"rerank {depth}, perfect", run.rankings.perfect(run.base, depth, run.read)
            changes.append(
                run.price("perfect_reranker", text, hits, passages=run.read, reach=depth)
            )
    return sorted(changes, key=lambda change: -change.net), promise


def config_changes(run: PricedRun) -> list[tuple[PricedChange, BoolArray]]:
    """Return the changes that a config can state, the simplest first, with their hits.

    The hits have a row for each of the weights that were compared.
    """
    candidates: list[tuple[PricedChange, BoolArray]] = []
    if run.reads != run.read:
        change = _reading(run, run.reads)
        candidates.append((change, run.hits(run.base, run.reads)[None]))
    for name in run.rankings.runs:
        if name != run.base:
            is_reranker = run.sources.get(name) == run.base
            text = f"rerank: {name} is stored" if is_reranker else f"use {name} instead"
            hits = run.hits(name, run.reads)
            kind: ChangeKind = "reranker" if is_reranker else "retriever"
            change = run.price(kind, text, hits, passages=run.reads, retriever=name)
            candidates.append((change, hits[None]))
    candidates += _price_fusions(run)
    return candidates


def _reading(run: PricedRun, k: int) -> PricedChange:
    """Return the change that a generator reads k passages of the retriever."""
    text = f"read {k} passage{'s' if k > 1 else ''}"
    hits = run.hits(run.base, k)
    return run.price("passages", text, hits, passages=k, retriever=run.base)


def _promise(
    run: PricedRun, candidates: Sequence[tuple[PricedChange, BoolArray]]
) -> Promise | None:
    """Return the candidate with the most right questions, and the gain of this choice.

    Of equal ones the first, which is the simplest. None without candidates or questions.
    """
    if not candidates or not len(run.query_ids):
        return None
    # Single weights compete, not the best weights of each fusion: those were chosen on all
    # questions, and their luck would pass into the confirmed gain.
    _, confirmed = choose(np.concatenate([hits for _, hits in candidates]), run.right, run.parts)
    best = max((change for change, _ in candidates), key=lambda change: change.net)
    gain = gain_of(confirmed, run.confidence, run.clusters)
    ties = tuple(c.text for c, _ in candidates if c.net == best.net and c is not best)
    return Promise(
        change=best, gain=gain.mean, interval=gain.interval, untouched=gain.untouched, ties=ties
    )
