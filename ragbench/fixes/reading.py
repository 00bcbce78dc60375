"""Changes of what a generator reads or answers that a config cannot state: they are your code's."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import islice

import numpy as np

from ragbench.fixes.cross_fitting import choose, gain_of, parts_of
from ragbench.fixes.priced_run import PricedRun, ReadGold
from ragbench.records.fixes import PricedChange
from ragbench.records.manifest import ANSWER, SHOWN_HITS
from ragbench.text.tokenize import words
from ragbench.types import FloatArray, Run

_SIMILAR = 0.8  # words in both texts / words in either, from which a passage repeats another
_CHUNK = re.compile(r"(.*(?:#|::))(\d+)")  # id of a chunk: `guide.md#3`
_SEPARATORS = (b"#", b"::")  # of which each such id has one
_THRESHOLDS = 20


def drop_near_duplicates(
    run: PricedRun, text_of: Callable[[str, str], str | None]
) -> PricedChange | str | None:
    """Return the change that a passage is left out if it repeats a better one.

    The next hits take its place. `text_of` returns the text of a hit by query and id. The result is
    None if no passage repeats another, or the text of a hit that would be read is missing; a
    sentence if the stored hits do not tell which gold would be read.
    """
    hits, is_known = np.zeros((2, len(run.query_ids)), np.bool_)
    words_of = cache(lambda text: frozenset(words(text)))
    has_repeats = False
    for row, query in enumerate(run.query_ids):
        distinct, n_hits, gold = list[frozenset[str]](), 0, set[str]()
        for name, names in run.rankings.passages(run.base, query):
            if len(distinct) == run.read:
                break
            n_hits += 1
            # A missing text could be a repeat or not: a count over the other texts would not be
            # exact.
            if (text := text_of(query, name)) is None:
                return None
            is_repeat = any(_repeats(words_of(text), better) for better in distinct)
            has_repeats |= is_repeat
            if is_repeat and ANSWER in names:
                return "repeated passages stay: of gold answers, only the first place is stored"
            if not is_repeat:
                distinct.append(words_of(text))
                gold |= names
        if len(distinct) < run.read and run.base in run.rankings.hits and n_hits >= SHOWN_HITS:
            return f"repeated passages stay: the gold of hits after rank {n_hits} is not stored"
        hits[row] = run.rankings.is_met(run.base, query, gold)
        is_known[row] = hits[row] or n_hits < run.rankings.doubts[run.base][row]
    if not has_repeats:
        return None
    text = "drop passages that repeat a better one"
    return run.price("near_duplicates", text, ReadGold(hits, is_known), passages=run.read)


def _repeats(text: frozenset[str], better: frozenset[str]) -> bool:
    """Return True if two texts have 80 % of their words in common; False without words."""
    shared = len(text & better)
    return shared > 0 and shared >= _SIMILAR * (len(text) + len(better) - shared)


def join_neighbours(run: PricedRun) -> PricedChange | str | None:
    """Return the change that each chunk is read with the one before and the one after it.

    Chunks have ids such as `guide.md#3`. The result is None if no hit has such an id; a sentence if
    it is not stored which chunks have gold.
    """
    if run.base not in run.rankings.hits:
        # whole columns are searched in no time, which most runs without chunks end with
        ids = run.rankings.runs[run.base].document_ids.data.tobytes()
        if not any(separator in ids for separator in _SEPARATORS):
            return None
    hits, has_chunks = [], False
    for query in run.query_ids:
        passages = islice(run.rankings.passages(run.base, query), run.read)
        read = {name for name, _ in passages}
        for name in [*read]:
            if (chunk := _CHUNK.fullmatch(name)) is not None:
                has_chunks = True
                if run.base in run.rankings.hits:
                    return "chunks stay apart: the gold of chunks that are no hits is not stored"
                # Ids that are not in the corpus do no harm: only gold ids are looked up in the
                # result.
                number, width = int(chunk[2]), len(chunk[2])
                # numbers may have leading zeros
                for n in (number - 1, number + 1):
                    if n >= 0:
                        read.add(f"{chunk[1]}{n:0{width}}")
        hits.append(run.rankings.is_met(run.base, query, read))
    if not has_chunks:
        return None
    text = "join each chunk with its neighbours"
    after = ReadGold(np.array(hits, np.bool_), run.counts)
    return run.price("neighbours", text, after, passages=3 * run.read)


def refuse_low_scores(
    run: PricedRun,
    ranking: Run,
    unanswerable: Sequence[str],
    clusters: Sequence[str] | None = None,
) -> PricedChange | None:
    """Return the change that questions are declined if their best score is below a threshold.

    Unanswerable questions count here as well, as found if they are declined. The result is None
    without such questions, or without a score.

    Args:
        run: Stored rankings.
        ranking: Hits of the retriever that the changes start from, with their own scores.
        unanswerable: Ids of the questions without an answer.
        clusters: Cluster of each question that counts, then of each unanswerable one; None if
            questions are units.
    """
    query_ids, is_found = run.counted_ids, run.is_found[run.counts]
    answered, declined = _best_scores(ranking, query_ids), _best_scores(ranking, unanswerable)
    scores = np.concatenate((answered, declined))
    if not len(declined) or not np.isfinite(scores).any():
        return None
    # Without the ends: the lowest score declines only questions without hits, and the highest
    # nearly all. Quantiles need no scale, which differs between bm25 and a cosine.
    thresholds = np.quantile(scores[np.isfinite(scores)], np.linspace(0, 1, _THRESHOLDS + 1)[1:-1])
    hits = np.column_stack(
        (is_found & (answered >= thresholds[:, None]), declined < thresholds[:, None])
    )
    # Today nothing is declined, so unanswerable questions start as not found.
    correct = np.concatenate((is_found, np.zeros(len(declined), bool)))
    best, confirmed = choose(hits, correct, parts_of(len(correct), run.seed, clusters))
    gain = gain_of(confirmed, run.confidence, clusters)
    ids = np.array([*query_ids, *unanswerable], object)
    return PricedChange(
        kind="refusal",
        text=f"decline if the best score is below {thresholds[best]:.3g}",
        passages=run.read,
        found=int(hits[best].sum()),
        of=len(correct),
        rescued=tuple(ids[hits[best] & ~correct].tolist()),
        lost=tuple(ids[correct & ~hits[best]].tolist()),
        gain=gain.mean,
        interval=gain.interval,
    )


def _best_scores(ranking: Run, queries: Sequence[str]) -> FloatArray:
    """Return the score of the first hit of each query in a ranking; -inf without hits."""
    hits = map(ranking.ranking, queries)
    return np.array([scored[0][1] if scored else -np.inf for scored in hits])
