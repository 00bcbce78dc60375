"""Changes of a retriever that stored rankings can price, and the best of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ragbench.fixes.cross_fitting import Gain, choose, gain_of, parts_of
from ragbench.fixes.fusion_table import FusionSetting
from ragbench.fixes.rankings import StoredRankings
from ragbench.records.fixes import ChangeKind, FusedRetriever, PricedChange, Promise
from ragbench.records.summary import UNLIKE_READING
from ragbench.types import FloatArray, IntArray
from ragbench.types.lookups import take_items
from ragbench.types.rows import BoolArray

FUSED = 8  # rankings that are fused with each other: 8 have 84 pairs and triples
# Close to each other at the first ranks, where a passage more moves the most questions.
_PASSAGES = (1, 2, 3, 5, 10, 20, 30, 50, 100)
_DEPTHS = (10, 20, 50, 100)
# Equal weights come first: the first of equal rows is chosen, so that a tie tunes nothing.
# Rounding keeps 1 - 0.9 from being written to a config as 0.09999999999999998.
_PAIR_WEIGHTS = tuple((w, round(1 - w, 1)) for w in (0.5, 0.3, 0.7, 0.1, 0.9))
_TRIPLE_WEIGHTS = ((1 / 3,) * 3, (0.5, 0.25, 0.25), (0.25, 0.5, 0.25), (0.25, 0.25, 0.5))


class ReadGold(NamedTuple):
    """Gold that is read after a change; arrays have a value per query.

    Attributes:
        hits: True where the gold is read; several changes have a row each.
        is_known: True where it is known whether the gold is read.
    """

    hits: BoolArray
    is_known: BoolArray


@dataclass(frozen=True)
class PricedRun:
    """Stored rankings of a run, and data of their retrievers that changes are priced with.

    `price_changes` returns its changes.

    Attributes:
        rankings: Ranks of the gold of queries, of which any ranking tells whether it is met.
        base: Retriever that the changes start from.
        read: Passages that a generator reads now.
        reads: Passages that a generator reads after a change of the ranking.
        deepest: First hits of a query, at most, of which it is known whether they have gold.
        seed: Seed of the parts of the questions.
        confidence: Level of the intervals.
        clusters: Cluster of each query; None if queries are units.
        verdicts: Retriever -> True if the run shows that it finds more or fewer questions than
            `base`, after its correction; absent if the run has not compared them.
        sources: Retriever -> retriever that it reranks; absent for others.
        fusible: Retrievers whose stored hits a fusion would get.
        weighable: Retrievers of these whose stored scores a fusion would get.
        latency_ms: Retriever -> median time of a query; absent if it is not known.
        passage_tokens: Tokens of a passage, about; None if no text is stored.
        characters: Retriever -> characters that are read of its hits for a question; empty if all
            retrievers read about as many.
    """

    rankings: StoredRankings
    base: str
    read: int
    reads: int
    deepest: int
    seed: int = 0
    confidence: float = 0.95
    clusters: Sequence[str] | None = None
    verdicts: Mapping[str, bool] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    fusible: Sequence[str] = ()
    weighable: Sequence[str] = ()
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    passage_tokens: float | None = None
    characters: Mapping[str, float] = field(default_factory=dict)

    @property
    def query_ids(self) -> Sequence[str]:
        """Queries of the rankings."""
        return self.rankings.gold.query_ids

    @cached_property
    def is_found(self) -> BoolArray:
        """True for each query whose gold is read now."""
        return self.read_gold(self.base, self.read).hits

    @cached_property
    def counts(self) -> BoolArray:
        """True for each query that counts: it is known whether its gold is read now."""
        return self.read_gold(self.base, self.read).is_known

    @property
    def counted_ids(self) -> list[str]:
        """Queries that count, in their order."""
        return [*self._ids(self.counts)]

    def read_gold(self, retriever: str, k: int) -> ReadGold:
        """Return the gold that is read among the first k hits of a retriever.

        That is any gold of a query, or with `rankings.needs_all` all of it.
        """
        return ReadGold(self.rankings.depths(retriever) <= k, self.rankings.is_clear(retriever, k))

    def compared(self, after: ReadGold) -> BoolArray:
        """Return the hits after a change, with those of now where either is not known."""
        return np.where(after.is_known & self.counts, after.hits, self.is_found)

    @cached_property
    def parts(self) -> IntArray:
        """Part of each query, from 0 to 9, for choices; see `parts_of`."""
        return parts_of(len(self.query_ids), self.seed, self.clusters)

    def price(
        self,
        kind: ChangeKind,
        text: str,
        after: ReadGold,
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
            after: Gold that is read after it.
            passages: Passages that a generator reads after it.
            confirmed: Gain of each query without the choice of the weights; None without a choice.
            retriever: Retriever after it.
            fusion: Fusion after it.
            reach: Hits that a perfect reranker reads; 0 for a change that is known.
        """
        # `rescued` and `lost` count all questions, also those that chose the weights. Only the gain
        # and its interval leave them out, so the gain may differ from the difference of the two
        # counts.
        hits = self.compared(after)
        differences = hits.astype(np.float64) - self.is_found if confirmed is None else confirmed
        gain = self.gain(differences)
        names = fusion.retrievers if fusion else (retriever or self.base,)
        # The base comes last: its time is subtracted. A fusion counts as if it asked its
        # sources one after the other.
        times = [self.latency_ms.get(name) for name in (*names, self.base)]
        is_known = None not in times and not reach
        further = self._mean_read(passages) - self._mean_read(self.read)
        is_pair_of_run = kind in ("retriever", "reranker") and passages == self.read
        return PricedChange(
            kind=kind,
            text=text,
            retriever=retriever,
            fusion=fusion,
            passages=passages,
            found=int(after.hits.sum()),
            of=int(after.is_known.sum()),
            rescued=self._ids(hits & ~self.is_found),
            lost=self._ids(self.is_found & ~hits),
            gain=gain.mean,
            interval=gain.interval,
            differs=self.verdicts.get(retriever or "") if is_pair_of_run else None,
            is_bound=reach > 0,
            further=further,
            reach=reach,
            tokens=self.passage_tokens and further * self.passage_tokens,
            latency_ms=sum(t or 0.0 for t in times[:-1]) - (times[-1] or 0.0) if is_known else None,
            text_ratio=self._text_ratio(retriever, passages),
        )

    def _text_ratio(self, retriever: str | None, passages: int) -> float | None:
        """Return the text of hits of another retriever, divided by that of the base now."""
        if retriever == self.base:
            return None
        characters, of_base = map(self.characters.get, (retriever or "", self.base))
        if not characters or not of_base:
            return None
        ratio = characters / of_base * passages / self.read
        return ratio if max(ratio, 1 / ratio) >= UNLIKE_READING else None

    def _mean_read(self, k: int) -> float:
        """Return the mean number of passages that a generator reads of the first k hits."""
        n_hits = self.rankings.n_hits(self.base)[self.counts]
        return float(np.minimum(k, n_hits).mean()) if n_hits.size else float(k)

    def gain(self, differences: FloatArray) -> Gain:
        """Return the gain of the queries that count; see `gain_of`."""
        clusters = self.clusters
        if clusters is not None:
            clusters = take_items(clusters, np.flatnonzero(self.counts).tolist())
        return gain_of(differences[self.counts], self.confidence, clusters)

    def _ids(self, rows: BoolArray) -> tuple[str, ...]:
        """Return the ids of the queries whose row is True, in their order."""
        return tuple(self.query_ids[row] for row in np.flatnonzero(rows).tolist())


def _price_fusions(run: PricedRun) -> Iterator[tuple[PricedChange, BoolArray]]:
    """Yield fusions of two and three rankings, pairs first, with the hits by each weight."""
    # Questions found after the change decide, not before it: --passages moves the order.
    names = sorted(run.fusible, key=lambda name: -int(run.read_gold(name, run.reads).hits.sum()))
    chosen = [name for name in names if name != run.base][: FUSED - 1]
    # Back to the order of the config: it names the fusion, and weights belong to positions.
    chosen = [name for name in run.fusible if name == run.base or name in chosen]
    groups: list[list[FusionSetting]] = []
    for size, all_weights in ((2, _PAIR_WEIGHTS), (3, _TRIPLE_WEIGHTS)):
        for sources in itertools.combinations(chosen, size):
            # rrf is a group of its own: without weights there is no choice to confirm. It precedes
            # the weighted fusions, because it is the simpler of two that find as many questions.
            groups.append([FusionSetting(sources, "rrf", (1.0,) * size)])
            if all(source in run.weighable for source in sources):
                groups.append([FusionSetting(sources, "weighted", w) for w in all_weights])
    # One call for all settings: they share the table of documents.
    all_hits = iter(run.rankings.fused_hits([*itertools.chain(*groups)], run.reads))
    for group in groups:
        hits = np.array([*itertools.islice(all_hits, len(group))])
        # a query that failed in one of them counts, also without judgements
        is_known = np.any([run.rankings.is_clear(name, run.reads) for name in group[0][0]], axis=0)
        rows = run.compared(ReadGold(hits, is_known))
        best, confirmed = choose(rows, run.is_found, run.parts)
        sources, method, weights = group[best]
        is_rrf = method == "rrf"
        # A fusion without the base is a replacement, and its text must not read as an addition.
        names = []
        for source in sources:
            if source != run.base:
                names.append(source)
        how = "rrf" if is_rrf else f"weighted {' : '.join(f'{w:.2g}' for w in weights)}"
        first = "fuse with" if len(names) < len(sources) else "instead fuse"
        fusion = FusedRetriever(
            retrievers=sources, method=method, weights=() if is_rrf else weights
        )
        change = run.price(
            "rrf" if is_rrf else "weighted",
            f"{first} {' and '.join(names)} ({how})",
            ReadGold(hits[best], is_known),
            passages=run.reads,
            confirmed=confirmed,
            fusion=fusion,
        )
        yield change, rows


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
    longest = int(np.diff(run.rankings.runs[run.base].starts).max(initial=0))
    for k in sorted({*_PASSAGES, run.deepest}):
        # where no ranking has more than k hits, a generator reads no fewer passages than now
        saves_nothing = longest <= k < run.read
        if k not in (run.read, run.reads) and k <= run.deepest and not saves_nothing:
            changes.append(_reading(run, k))
    for depth in _DEPTHS:
        hits = run.rankings.perfect(run.base, depth, run.read)
        if run.read < depth <= run.deepest and hits is not None:
            after = ReadGold(hits, run.rankings.is_clear(run.base, depth))
            text = f"rerank {depth}, perfect"
            changes.append(
                run.price("perfect_reranker", text, after, passages=run.read, reach=depth)
            )
    return sorted(changes, key=lambda change: -change.net), promise


def config_changes(run: PricedRun) -> list[tuple[PricedChange, BoolArray]]:
    """Return the changes that a config can state, the simplest first, with their hits.

    The hits have a row for each of the weights that were compared; see `PricedRun.compared`.
    """
    candidates: list[tuple[PricedChange, BoolArray]] = []
    if run.reads != run.read:
        change = _reading(run, run.reads)
        candidates.append((change, run.compared(run.read_gold(run.base, run.reads))[None]))
    for name in run.rankings.runs:
        if name != run.base:
            is_reranker = run.sources.get(name) == run.base
            text = f"rerank: {name} is stored" if is_reranker else f"use {name} instead"
            kind: ChangeKind = "reranker" if is_reranker else "retriever"
            after = run.read_gold(name, run.reads)
            change = run.price(kind, text, after, passages=run.reads, retriever=name)
            candidates.append((change, run.compared(after)[None]))
    candidates += _price_fusions(run)
    return candidates


def _reading(run: PricedRun, k: int) -> PricedChange:
    """Return the change that a generator reads k passages of the retriever."""
    text = f"read {k} passage{'s' if k > 1 else ''}"
    after = run.read_gold(run.base, k)
    return run.price("passages", text, after, passages=k, retriever=run.base)


def _promise(
    run: PricedRun, candidates: Sequence[tuple[PricedChange, BoolArray]]
) -> Promise | None:
    """Return the first candidate with the largest net gain, and the gain of this choice."""
    if not candidates or not run.counts.any():
        return None
    # Single weights compete, not the best weights of each fusion: those were chosen on all
    # questions, and their luck would pass into the confirmed gain.
    _, confirmed = choose(np.concatenate([hits for _, hits in candidates]), run.is_found, run.parts)
    best = max((change for change, _ in candidates), key=lambda change: change.net)
    gain = run.gain(confirmed)
    ties = tuple(c.text for c, _ in candidates if c.net == best.net and c is not best)
    return Promise(
        change=best, gain=gain.mean, interval=gain.interval, untouched=gain.untouched, ties=ties
    )
