"""Changes of a retriever that stored rankings can price, and the best of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from ragbench.fixes.cross_fitting import choose
from ragbench.fixes.fusion_table import FusionSetting
from ragbench.fixes.priced_run import PricedRun, ReadGold
from ragbench.records.fixes import ChangeKind, FusedRetriever, PricedChange, Promise
from ragbench.types.rows import BoolArray

FUSED = 8  # rankings that are fused with each other: 8 have 84 pairs and triples
# Close to each other at the first ranks, where a passage more moves the most questions.
_PASSAGES = (1, 2, 3, 5, 10, 20, 30, 50, 100)
_DEPTHS = (10, 20, 50, 100)
# Equal weights come first: the first of equal rows is chosen, so that a tie tunes nothing.
_PAIR_WEIGHTS = ((0.5, 0.5), (0.3, 0.7), (0.7, 0.3), (0.1, 0.9), (0.9, 0.1))
_TRIPLE_WEIGHTS = ((1 / 3,) * 3, (0.5, 0.25, 0.25), (0.25, 0.5, 0.25), (0.25, 0.25, 0.5))


def _price_fusions(run: PricedRun) -> Iterator[tuple[PricedChange, BoolArray]]:
    """Yield fusions of two and three rankings, pairs first, with the hits by each weight."""
    groups = _fusion_groups(run)
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
        weight_texts = " : ".join(f"{weight:.2g}" for weight in weights)
        how = "rrf" if is_rrf else f"weighted {weight_texts}"
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


def _fusion_groups(run: PricedRun) -> list[list[FusionSetting]]:
    """Return groups of fusions of the same rankings, which differ in their weights alone."""

    def count_found(name: str) -> int:
        # Questions found after the change decide, not before it: --passages moves the order.
        return int(run.read_gold(name, run.reads).hits.sum())

    candidates = [name for name in run.fusible if name != run.base]
    best = sorted(candidates, key=count_found, reverse=True)[: FUSED - 1]
    # In the order of the config: it names the fusion, and weights belong to positions.
    chosen = [name for name in run.fusible if name == run.base or name in best]
    groups: list[list[FusionSetting]] = []
    for size, all_weights in ((2, _PAIR_WEIGHTS), (3, _TRIPLE_WEIGHTS)):
        for sources in itertools.combinations(chosen, size):
            # rrf is a group of its own: without weights there is no choice to confirm. It precedes
            # the weighted fusions, because it is the simpler of two that find as many questions.
            groups.append([FusionSetting(sources, "rrf", (1.0,) * size)])
            if set(sources).issubset(run.weighable):
                groups.append([FusionSetting(sources, "weighted", w) for w in all_weights])
    return groups


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
    changes, hits = zip(*candidates, strict=True)
    _, confirmed = choose(np.concatenate(hits), run.is_found, run.parts)
    best: PricedChange = max(changes, key=lambda change: change.net)
    gain, ties = run.gain(confirmed), []
    for change in changes:
        if change.net == best.net and change is not best:
            ties.append(change.text)
    return Promise(
        change=best,
        gain=gain.mean,
        interval=gain.interval,
        untouched=gain.untouched,
        ties=tuple(ties),
    )
