"""Gold that a reader gets from a stored run, and the price of one change of its retriever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ragbench.fixes.cross_fitting import Gain, gain_of, parts_of
from ragbench.fixes.rankings import StoredRankings
from ragbench.records.fixes import ChangeKind, FusedRetriever, PricedChange
from ragbench.records.summary import UNLIKE_READING
from ragbench.types import FloatArray, IntArray
from ragbench.types.lookups import take_items
from ragbench.types.rows import BoolArray


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
        times = [*map(self.latency_ms.get, (*names, self.base))]
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
        counted = differences[self.counts]
        # many changes of a small run move the same questions, or none
        key = counted.tobytes()
        if key not in self._gains:
            self._gains[key] = gain_of(counted, self.confidence, self._counted_clusters)
        return self._gains[key]

    @cached_property
    def _gains(self) -> dict[bytes, Gain]:
        """Gains that `gain` has returned, by the differences of the queries that count."""
        return {}

    @cached_property
    def _counted_clusters(self) -> Sequence[str] | None:
        """Cluster of each query that counts; None if queries are units."""
        rows = np.flatnonzero(self.counts).tolist()
        return None if self.clusters is None else take_items(self.clusters, rows)

    def _ids(self, rows: BoolArray) -> tuple[str, ...]:
        """Return the ids of the queries whose row is True, in their order."""
        return tuple(take_items(self.query_ids, np.flatnonzero(rows).tolist()))
