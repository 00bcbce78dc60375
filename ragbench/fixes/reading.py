"""Changes of what a generator reads or answers that a config cannot state: they are your code's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from ragbench.fixes.changes import PricedRun
from ragbench.fixes.cross_fitting import choose, gain_of, parts_of
from ragbench.records.fixes import PricedChange
from ragbench.text.tokenize import words
from ragbench.types import FloatArray

_SIMILAR = 0.8  # words in both texts / words in either, from which a passage repeats another
_CHUNK = re.compile(r"(.*(?:#|::))(\d+)")  # id of a chunk: `guide.md#3`
_THRESHOLDS = 20


def drop_near_duplicates(run: PricedRun, texts: Mapping[str, str]) -> PricedChange | None:
    """Return the change that a passage is left out if it repeats a better one.

    The next hits take its place. `texts` is document id -> text. None if no passage repeats
    another, or the text of a hit that would be read is missing.
    """
    hits, has_repeats = [], False
    vocabulary: dict[str, frozenset[str]] = {}
    for query in run.query_ids:
        distinct: list[str] = []
        for name in run.rankings.documents(run.base, query):
            if len(distinct) == run.read:
                break
            # A missing text could be a repeat or not: a count over the other texts would not be
            # exact.
            if name not in texts:
                return None
            if name not in vocabulary:
                vocabulary[name] = frozenset(words(texts[name]))
            if any(_repeats(vocabulary[name], vocabulary[better]) for better in distinct):
                has_repeats = True
            else:
                distinct.append(name)
        hits.append(run.rankings.holds_gold(query, distinct))
    if not has_repeats:
        return None
    text = "drop passages that repeat a better one"
    return run.price("near_duplicates", text, np.array(hits), passages=run.read)


def _repeats(text: frozenset[str], better: frozenset[str]) -> bool:
    """Return True if two texts have 80 % of their words in common; False without words.

    The share is words in both / words in either.
    """
    shared = len(text & better)
    return shared > 0 and shared >= _SIMILAR * (len(text) + len(better) - shared)


def join_neighbours(run: PricedRun) -> PricedChange | None:
    """Return the change that each chunk is read with the one before and the one after it.

    Chunks have ids such as `guide.md#3`. None if no hit has such an id.
    """
    hits, has_chunks = [], False
    for query in run.query_ids:
        read = set(run.rankings.documents(run.base, query)[: run.read])
        for name in [*read]:
            if (chunk := _CHUNK.fullmatch(name)) is not None:
                has_chunks = True
                # Ids that are not in the corpus do no harm: only gold ids are looked up in the
                # result.
                number, width = int(chunk[2]), len(chunk[2])
                # numbers may have leading zeros
                read |= {f"{chunk[1]}{n:0{width}}" for n in (number - 1, number + 1) if n >= 0}
        hits.append(run.rankings.holds_gold(query, read))
    if not has_chunks:
        return None
    text = "join each chunk with its neighbours"
    return run.price("neighbours", text, np.array(hits), passages=3 * run.read)


def refuse_low_scores(
    run: PricedRun, unanswerable: Sequence[str], clusters: Sequence[str] | None = None
) -> PricedChange | None:
    """Return the change that questions are declined if their best score is below a threshold.

    Unanswerable questions count here as well, and are right if they are declined. None without
    such questions, or without a score.

    Args:
        run: Stored rankings.
        unanswerable: Ids of the questions without an answer.
        clusters: Cluster of each question of the run, then of each unanswerable one; None if
            questions are units.
    """
    answered, declined = _best_scores(run, run.query_ids), _best_scores(run, unanswerable)
    scores = np.concatenate((answered, declined))
    if not len(declined) or not np.isfinite(scores).any():
        return None
    # Without the ends: the lowest score declines only questions without hits, and the highest
    # nearly all. Quantiles need no scale, which differs between bm25 and a cosine.
    thresholds = np.quantile(scores[np.isfinite(scores)], np.linspace(0, 1, _THRESHOLDS + 1)[1:-1])
    hits = np.column_stack(
        (run.right & (answered >= thresholds[:, None]), declined < thresholds[:, None])
    )
    # Today nothing is declined, so unanswerable questions start as wrong.
    right = np.concatenate((run.right, np.zeros(len(declined), bool)))
    best, confirmed = choose(hits, right, parts_of(len(right), run.seed, clusters))
    gain = gain_of(confirmed, run.confidence, clusters)
    ids = np.array([*run.query_ids, *unanswerable], object)
    return PricedChange(
        kind="refusal",
        text=f"decline if the best score is below {thresholds[best]:.3g}",
        passages=run.read,
        right=int(hits[best].sum()),
        of=len(right),
        rescued=tuple(ids[hits[best] & ~right].tolist()),
        lost=tuple(ids[right & ~hits[best]].tolist()),
        gain=gain.mean,
        interval=gain.interval,
    )


def _best_scores(run: PricedRun, queries: Sequence[str]) -> FloatArray:
    """Return the score of the first hit of each query in the base ranking; -inf without hits."""
    hits = (run.rankings.runs[run.base].ranking(query) for query in queries)
    return np.array([ranking[0][1] if ranking else -np.inf for ranking in hits])
