"""Position probe: judge answers again with the passages in reverse order."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain

import numpy as np

from ragbench.calibration.judged_run import JudgedScore, Key
from ragbench.calibration.label_scale import LabelScale
from ragbench.records.certificate import ProbeResult
from ragbench.score.base import Advance
from ragbench.score.judge.base import JudgedItem, Rubric, RubricJudge
from ragbench.score.judge.sentences import cited_sentences
from ragbench.score.judge.verdicts import count_alike, judge_all
from ragbench.stats.agreement import mean_agreement, raw_agreement
from ragbench.stats.mean import mean_interval
from ragbench.types.display import list_counts
from ragbench.types.scores import Verdict

# Name of the probe in certificates.
POSITION = "position"


def sample_answers(scores: Sequence[JudgedScore], n: int, seed: int) -> list[Key]:
    """Draw n distinct answers at random among those with a verdict by any of the scores.

    An answer is (system, query id). Returns all of them, sorted, if there are no more than n. Equal
    seeds give equal draws. The draw keeps the order of the sorted answers.
    """
    # sorted: the order of a set differs from process to process
    keys = sorted(set(chain.from_iterable(score.scores for score in scores)))
    if n >= len(keys):
        return keys
    positions = np.random.default_rng(seed).choice(len(keys), n, replace=False)
    return [keys[position] for position in sorted(positions)]


def probe_position(
    judge: RubricJudge,
    rubrics: Sequence[Rubric],
    items: Mapping[Key, JudgedItem],
    *,
    scale: LabelScale | None = None,
    confidence: float = 0.95,
    progress: Callable[[int], AbstractContextManager[Advance | None]] = lambda _: nullcontext(),
) -> dict[str, ProbeResult]:
    """Judge items with their passages in order and reversed; return rubric -> shift of the scores.

    Keys are the names of the rubrics, in their order. A positive shift means higher scores with the
    passages reversed. Both orders are judged now, so that nothing else differs; stored replies cost
    nothing. A rubric that does not depend on the order of passages gets the result `not available`
    with the reason. Answers whose passages have no other order, or that cite passages by number,
    are not judged; a rubric without any verdict both ways is `not available` too.

    Args:
        judge: Judge to probe.
        rubrics: Rubrics to apply.
        items: Answers by system and query.
        scale: Scale whose levels tell whether a verdict flips; None: the scale of each rubric.
        confidence: Confidence of the intervals.
        progress: Function that opens a progress display over a number of judged items, two for each
            answer.

    Raises:
        OptionError: Confidence is outside (0, 1).
        RagbenchError: The user has to act, as for a missing key.
    """
    reasons = {rubric.name: why_not(rubric) for rubric in rubrics}
    probed = []
    for rubric in rubrics:
        if reasons[rubric.name] is None:
            probed.append(rubric)
    turned = {}
    for key, item in items.items():
        if new := reverse_passages(item):
            turned[key] = new
    both = [items[key] for key in turned] + list(turned.values()) if probed else []
    with progress(len(both)) as advance:
        verdicts = count_alike(judge_all(judge, both, probed, advance), probed)
    # the first half of the verdicts is in order, the second reversed; both may be empty
    pairs = dict(zip(turned, zip(verdicts, verdicts[len(turned) :], strict=False), strict=False))
    results = {}
    for rubric in rubrics:
        if rubric in probed:
            results[rubric.name] = _compare(rubric, pairs, scale, confidence)
        else:
            reason = reasons[rubric.name]
            results[rubric.name] = ProbeResult(status="not available", reason=reason)
    return results


def reverse_passages(item: JudgedItem) -> JudgedItem | None:
    """Return the item with its passages reversed; None if there is no other order.

    The result is None also for an answer that cites passages by number, since its numbers would be
    wrong. The item itself is not changed.

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
    """Return the reason why a rubric cannot be probed by the order of passages; None if it can.

    A pairwise rubric and one that does not read passages cannot be probed.
    """
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
) -> ProbeResult:
    """Return the shift and the flips of one rubric's verdicts between the two orders."""
    pairs = {key: (a[rubric.name], b[rubric.name]) for key, (a, b) in verdicts.items()}
    failed = []
    for pair in pairs.values():
        failed.append([v.cause for v in pair if v.score is None])
    unscored = dict(sorted(Counter(causes[0] for causes in failed if causes).items()))
    both = {}
    for k, (a, b) in pairs.items():
        if None not in (a.score, b.score):
            both[k] = (a.score, b.score)
    if not both:
        causes = list_counts(unscored)
        reason = f"no answer has a verdict both ways ({causes or 'nothing to change'})"
        return ProbeResult(status="not available", reason=reason)
    first, second = np.array(list(both.values()), dtype=np.float64).T
    queries = [query for _, query in both]
    # one value per query: answers to one question are not independent
    _, codes, counts = np.unique(queries, return_inverse=True, return_counts=True)
    by_query = np.bincount(codes.reshape(len(both)), weights=second - first) / counts
    # clipped: a mean of differences may exceed 1 by a rounding error
    shift = mean_interval(by_query.clip(-1.0, 1.0), range=(-1.0, 1.0), confidence=confidence)
    scale = scale or LabelScale.of_rubric(rubric)
    # an answer flips if its level changes, or its score if the scale has no levels
    sides = []
    for side in (first, second):
        sides.append(scale.nearest_levels(side) if scale.levels else side)
    # the share that flips is one minus the share that agrees
    table = np.column_stack(sides)
    same = mean_agreement(raw_agreement, [table], "nominal", queries, confidence, span=(0.0, 1.0))
    fall = "scores fall" if shift.upper < 0 else "no shift shown"
    return ProbeResult(
        status="measured",
        statistic="mean shift of the score with the passages in reverse order",
        value=shift.mean,
        interval=(shift.lower, shift.upper),
        n=len(both),
        queries=shift.n,
        unscored=unscored,
        finding="scores rise" if shift.lower > 0 else fall,
        flip_rate=float(np.mean(sides[0] != sides[1])),
        flip_interval=None if same.rule == "undefined" else (1 - same.upper, 1 - same.lower),
        mean_difference=float(np.abs(second - first).mean()),
        unit="level" if scale.levels else "score",
    )
