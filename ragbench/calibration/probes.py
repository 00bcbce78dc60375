"""The position probe: ask a judge again with the passages in reverse order."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from ragbench.calibration.judged_run import JudgedScore, Key
from ragbench.calibration.sheet import LabelScale
from ragbench.records.certificate import ProbeFound
from ragbench.records.score import Ends
from ragbench.score.base import Advance
from ragbench.score.judge.base import JudgedItem, Rubric, RubricJudge
from ragbench.score.judge.sentences import cited_sentences
from ragbench.score.judge.verdicts import judge_all
from ragbench.stats.agreement import FEWEST, raw_agreement
from ragbench.stats.mean import mean_interval
from ragbench.types import FloatArray
from ragbench.types.scores import Verdict

# The name of the probe in certificates.
POSITION = "position"


def sample_answers(scores: Sequence[JudgedScore], n: int, seed: int) -> list[Key]:
    """Draw answers with a verdict of any of some scores; all of them where there are fewer.

    Equal seeds draw the same.
    """
    # a set has another order in every process, and equal seeds must draw the same
    keys = sorted({key for score in scores for key in score.scores})
    if n >= len(keys):
        return keys
    taken = np.random.default_rng(seed).choice(len(keys), n, replace=False)
    return [keys[place] for place in sorted(taken)]


def probe_position(
    judge: RubricJudge,
    rubrics: Sequence[Rubric],
    items: Mapping[Key, JudgedItem],
    *,
    scale: LabelScale | None = None,
    confidence: float = 0.95,
    shown: Callable[[int], AbstractContextManager[Advance | None]] = lambda _: nullcontext(),
) -> dict[str, ProbeFound]:
    """Judge items with their passages as they are and reversed: rubric -> shift of the scores.

    Both are judged now, so that nothing but the order differs; replies that are kept are not paid
    for again. The levels of `scale` tell whether a verdict flips; None: those of each rubric.
    `shown` opens a display of the progress over a number of items.
    """
    reasons = {rubric.name: why_not(rubric) for rubric in rubrics}
    asked = [rubric for rubric in rubrics if reasons[rubric.name] is None]
    turned = {key: new for key, item in items.items() if (new := reverse_passages(item))}
    both = [items[key] for key in turned] + list(turned.values()) if asked else []
    with shown(len(both)) as advance:
        verdicts = judge_all(judge, both, asked, advance)
    # half of the verdicts each; both are empty where no rubric is asked
    pairs = dict(zip(turned, zip(verdicts, verdicts[len(turned) :], strict=False), strict=False))
    return {
        rubric.name: _compare(rubric, pairs, scale, confidence)
        if rubric in asked
        else ProbeFound(status="not available", reason=reasons[rubric.name])
        for rubric in rubrics
    }


def reverse_passages(item: JudgedItem) -> JudgedItem | None:
    """Return the item with its passages reversed; None where there is no other order.

    An answer that cites passages by number is not asked about in another order.

    Example:
        >>> item = JudgedItem("When?", "In 1932.", ["It opened in 1932.", "It is red."])
        >>> reverse_passages(item).contexts
        ['It is red.', 'It opened in 1932.']
    """
    passages = item.contexts or []
    cites = any(sentence.cited for sentence in cited_sentences(item.answer or ""))
    turned = passages[::-1]
    return None if cites or turned == passages else dataclasses.replace(item, contexts=turned)


def why_not(rubric: Rubric) -> str | None:
    """Say why the order of passages tells nothing about a rubric; None where it does."""
    if rubric.method == "pairwise":
        return "both orders of a pair are asked anyway, and disagreement is a tie"
    if "contexts" not in rubric.needs:
        return f"{rubric.name} does not look at passages: there is no order"
    return None


# Rubric -> verdict on one answer.
_Verdicts = Mapping[str, Verdict]


def _compare(
    rubric: Rubric,
    verdicts: Mapping[Key, tuple[_Verdicts, _Verdicts]],
    scale: LabelScale | None,
    confidence: float,
) -> ProbeFound:
    """Compare the verdicts on answers with passages as they are and reversed."""
    pairs = {key: (a[rubric.name], b[rubric.name]) for key, (a, b) in verdicts.items()}
    failed = [[v.cause for v in pair if v.score is None] for pair in pairs.values()]
    unscored = dict(sorted(Counter(causes[0] for causes in failed if causes).items()))
    both = {k: (a.score, b.score) for k, (a, b) in pairs.items() if None not in (a.score, b.score)}
    if not both:
        causes = ", ".join(f"{count} {cause}" for cause, count in unscored.items())
        reason = f"no answer has a verdict both ways ({causes or 'nothing to change'})"
        return ProbeFound(status="not available", reason=reason)
    first, second = np.array(list(both.values()), dtype=np.float64).T
    queries = [query for _, query in both]
    # the mean of each query: answers to one question vary together
    _, codes, counts = np.unique(queries, return_inverse=True, return_counts=True)
    by_query = np.bincount(codes.reshape(len(both)), weights=second - first) / counts
    shift = mean_interval(by_query.clip(-1.0, 1.0), range=(-1.0, 1.0), confidence=confidence)
    scale = scale or LabelScale.of_rubric(rubric)
    # where the scale has levels, an answer flips when its level changes, else when its score does
    sides = [scale.nearest_levels(side) if scale.levels else side for side in (first, second)]
    fall = "scores fall" if shift.upper < 0 else "no shift shown"
    return ProbeFound(
        status="measured",
        statistic="mean shift of the score with the passages in reverse order",
        value=shift.mean,
        interval=(shift.lower, shift.upper),
        n=len(both),
        queries=shift.n,
        unscored=unscored,
        finding="scores rise" if shift.lower > 0 else fall,
        flip_rate=float(np.mean(sides[0] != sides[1])),
        flip_interval=_flip_interval(sides, queries, confidence),
        mean_difference=float(np.abs(second - first).mean()),
        unit="level" if scale.levels else "score",
    )


def _flip_interval(
    sides: Sequence[FloatArray], queries: Sequence[str], confidence: float
) -> Ends | None:
    """Return the limits of the flip rate over the queries; None where there are too few."""
    same = raw_agreement(*sides, groups=list(queries), confidence=confidence)
    if same.rule != "undefined":
        return 1 - same.upper, 1 - same.lower
    if same.value > 0 or same.n < FEWEST:
        return None
    # all differ: nothing varies that could be left out, but a share of hits still has its limits
    hits = mean_interval(np.ones(len(set(queries))), confidence=confidence)
    return hits.lower, hits.upper
