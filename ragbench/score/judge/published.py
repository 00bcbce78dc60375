"""Scores as published by TREC RAG and ragas, computed from verdicts of a judge.

Nugget and support scores follow the TREC 2024 RAG track. The metrics of ragas follow version 0.4,
each under the name that it shares with a rubric of ragbench.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from ragbench.types.records import Nugget

# Nuggets that count (vital, or all), and whether partial support counts (not if strict).
NuggetScore = Literal["strict_vital", "strict_all", "strict_weighted", "vital", "all", "weighted"]

_CREDIT = {"support": 1.0, "partial_support": 0.5, "not_support": 0.0}
_OKAY = 0.5  # weight of an okay nugget in the weighted scores; a vital one weighs 1


def nugget_score(nuggets: Iterable[Nugget], score: NuggetScore = "strict_vital") -> float | None:
    """Return the share of its nuggets that an answer contains; None if no nugget counts.

    Full support counts 1, partial support 0.5, or 0 in the strict scores; a nugget without
    assignment counts 0. The score is the mean over the vital nuggets, or over all. In the weighted
    scores an okay nugget weighs half as much as a vital one. TREC ranks by `strict_vital`. The
    score is from 0 to 1.

    Example:
        >>> from ragbench.types.records import Nugget
        >>> nuggets = [
        ...     Nugget("a", "vital", "support"),
        ...     Nugget("b", "vital", "partial_support"),
        ...     Nugget("c", "okay", "support"),
        ... ]
        >>> [nugget_score(nuggets, score) for score in ("strict_vital", "vital", "weighted")]
        [0.5, 0.75, 0.8]

    References:
        Pradeep et al. (2024), Initial Nugget Evaluation Results for the TREC 2024 RAG Track.
    """
    strict, which = score.startswith("strict_"), score.removeprefix("strict_")
    okay = {"vital": 0.0, "all": 1.0, "weighted": _OKAY}[which]
    weights, gained = [], []
    for nugget in nuggets:
        weight = 1.0 if nugget.importance == "vital" else okay
        credit = _CREDIT[nugget.assignment or "not_support"]
        weights.append(weight)
        # strict scores: partial support counts 0
        gained.append(weight * (math.floor(credit) if strict else credit))
    return math.fsum(gained) / math.fsum(weights) if any(weights) else None


# Sentences over which support is averaged: those with a citation, or all.
SupportScore = Literal["precision", "recall"]

_SUPPORT = {"full_support": 1.0, "partial_support": 0.5, "no_support": 0.0}
# Levels of support of a sentence by a passage, in the words of TREC RAG.
SUPPORT_LEVELS = tuple(_SUPPORT)


def support_score(levels: Sequence[str | None], score: SupportScore) -> float | None:
    """Return the mean support of sentences by their first citation; None without a sentence.

    `levels` has a word of `SUPPORT_LEVELS` per sentence, None for a sentence without citation. Full
    support counts 1, partial support 0.5. `precision` averages over the sentences with a citation,
    `recall` over all sentences. The score is from 0 to 1; `precision` is None without a citation.

    Example:
        >>> levels = ["full_support", None, "partial_support", "no_support"]
        >>> support_score(levels, "precision"), support_score(levels, "recall")
        (0.5, 0.375)

    References:
        Thakur et al. (2025), Support Evaluation for the TREC 2024 RAG Track.
    """
    weights = []
    for level in levels:
        if level is not None:
            weights.append(_SUPPORT[level])
    over = len(weights) if score == "precision" else len(levels)
    return math.fsum(weights) / over if over else None


class RagasMetric(NamedTuple):
    """Metric of ragas that shares its name with a rubric; `RAGAS` maps the name to it.

    Attributes:
        needs: Parts of an item that the metric needs: question, answer, contexts, reference.
        embeds: True if the metric compares texts by their embeddings.
    """

    needs: tuple[str, ...]
    embeds: bool = False


# Rubric -> metric of ragas with this name; docs/ragas-formulas.md has the formulas.
RAGAS: Mapping[str, RagasMetric] = {
    "answer_relevancy": RagasMetric(("question", "answer"), embeds=True),
    "faithfulness": RagasMetric(("question", "answer", "contexts")),
    "context_precision": RagasMetric(("question", "contexts", "reference")),
    "context_recall": RagasMetric(("question", "contexts", "reference")),
    # its context_precision with the answer in the place of the reference
    "context_utilization": RagasMetric(("question", "answer", "contexts")),
    # its answer_correctness
    "correctness": RagasMetric(("question", "answer", "reference"), embeds=True),
    # in its mode `relevant`
    "noise_sensitivity": RagasMetric(("question", "answer", "contexts", "reference")),
}


def ragas_relevancy(cosines: Sequence[float], noncommittal: Sequence[bool]) -> float:
    """Return the mean cosine between the question and the questions generated from the answer.

    0 if there is no generated question, or if all answers are noncommittal. A negative mean, which
    ragas returns unchanged, becomes 0, since scores lie in 0..1. The value is from 0 to 1.

    Example:
        >>> ragas_relevancy([0.9, 0.6], [True, False]), ragas_relevancy([0.9], [True])
        (0.75, 0.0)
    """
    if not cosines or all(noncommittal):
        return 0.0
    return min(max(math.fsum(cosines) / len(cosines), 0.0), 1.0)


def ragas_precision(useful: Sequence[bool]) -> float:
    """Return the mean of the precisions at the ranks of the useful passages; 0 without one.

    Useful passages that were not retrieved do not count: if the first passage is the only useful
    one in the list, the score is 1. The value is from 0 to 1.

    Example:
        >>> round(ragas_precision([True, False, True]), 4), ragas_precision([False])
        (0.8333, 0.0)
    """
    hits, precisions = 0, []
    for rank, is_useful in enumerate(useful, start=1):
        if is_useful:
            hits += 1
            precisions.append(hits / rank)
    return math.fsum(precisions) / hits if hits else 0.0


def ragas_correctness(tp: int, fp: int, fn: int, cosine: float) -> float:
    """Return 0.75 F1 of the statements + 0.25 cosine of the texts, cut to 0..1.

    `tp` counts statements of the answer that the reference supports, `fp` its other statements,
    `fn` statements of the reference that the answer lacks. Without any statement F1 is 1.

    Example:
        >>> ragas_correctness(tp=1, fp=1, fn=1, cosine=0.8)
        0.575
    """
    # ragas counts two texts without statements as agreement
    f1 = 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else 1.0
    return min(max(0.75 * f1 + 0.25 * cosine, 0.0), 1.0)


def ragas_noise(
    answer: Sequence[Sequence[bool]], reference: Sequence[Sequence[bool]], right: Sequence[bool]
) -> float:
    """Return the share of the answer's statements that are wrong and stand in a relevant passage.

    `answer` and `reference` have a row per statement and a column per passage: True if the passage
    supports the statement. `right` marks the statements of the answer that the reference supports.
    A passage is relevant if it supports a statement of the reference. An answer without statements
    raises ZeroDivisionError. The value is from 0 to 1. `reference` has a row, and all rows are
    equally long; a row of another length raises ValueError, one of `answer` not always.

    Example:
        >>> ragas_noise([[True, False], [False, True]], [[True, False]], [False, False])
        0.5
    """
    relevant = []
    for column in zip(*reference, strict=True):
        relevant.append(any(column))
    misled = 0
    for row, is_right in zip(answer, right, strict=True):
        is_in_relevant = any(is_in and counts for is_in, counts in zip(row, relevant, strict=True))
        misled += is_in_relevant and not is_right
    return misled / len(answer)
