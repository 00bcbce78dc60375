"""Numbers as TREC RAG and ragas publish them, made of what a judge has said.

Nuggets and support are those of the TREC 2024 RAG track; the numbers of ragas are those of its
version 0.4, each under the name that it shares with a rubric of ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from ragbench.types.records import Nugget

# Which nuggets count, and whether partial support does.
NuggetScore = Literal["strict_vital", "strict_all", "strict_weighted", "vital", "all", "weighted"]

_CREDIT = {"support": 1.0, "partial_support": 0.5, "not_support": 0.0}
_OKAY = 0.5  # what an okay nugget weighs beside a vital one in the weighted scores


def nugget_score(nuggets: Iterable[Nugget], score: NuggetScore = "strict_vital") -> float | None:
    """Return how much of its nuggets an answer has.

    Full support counts 1, partial support 0.5, or 0 in the strict scores; the number is the mean
    over the vital nuggets, or over all of them. In the weighted scores an okay nugget weighs half
    of a vital one. TREC ranks systems by `strict_vital`. None where there is no nugget that counts.

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
        gained.append(weight * (math.floor(credit) if strict else credit))
    return math.fsum(gained) / math.fsum(weights) if any(weights) else None


# Over which sentences support is averaged.
SupportScore = Literal["precision", "recall"]

_SUPPORT = {"full_support": 1.0, "partial_support": 0.5, "no_support": 0.0}
# How far a passage supports a sentence, as TREC RAG words it.
SUPPORT_LEVELS = tuple(_SUPPORT)


def support_score(levels: Sequence[str | None], score: SupportScore) -> float | None:
    """Return how well the sentences of an answer are supported by what they cite first.

    Each sentence has a word of `SUPPORT_LEVELS`, None where it cites nothing: full support counts
    1, partial support 0.5. `precision` is the mean over the sentences that cite, `recall` over all;
    None where there is no sentence to count.

    Example:
        >>> levels = ["full_support", None, "partial_support", "no_support"]
        >>> support_score(levels, "precision"), support_score(levels, "recall")
        (0.5, 0.375)

    References:
        Thakur et al. (2025), Support Evaluation for the TREC 2024 RAG Track.
    """
    weights = [_SUPPORT[level] for level in levels if level is not None]
    over = len(weights) if score == "precision" else len(levels)
    return math.fsum(weights) / over if over else None


class RagasMetric(NamedTuple):
    """A metric of ragas whose name is a rubric's here too.

    Attributes:
        needs: What an item must have.
        steps: What is asked, in order.
        embeds: Whether texts are compared by their embeddings.
    """

    needs: tuple[str, ...]
    steps: tuple[str, ...]
    embeds: bool = False


# Rubric -> the metric that ragas has under this name; docs/moving.md has the formulas.
RAGAS: Mapping[str, RagasMetric] = {
    "answer_relevancy": RagasMetric(("question", "answer"), ("question",), embeds=True),
    "faithfulness": RagasMetric(("question", "answer", "contexts"), ("statements", "inference")),
    "context_precision": RagasMetric(("question", "contexts", "reference"), ("usefulness",)),
    "context_recall": RagasMetric(("question", "contexts", "reference"), ("attribution",)),
    # its context_precision with the answer in the place of the reference
    "context_utilization": RagasMetric(("question", "answer", "contexts"), ("usefulness",)),
    # its answer_correctness
    "correctness": RagasMetric(
        ("question", "answer", "reference"), ("statements", "classification"), embeds=True
    ),
    # in its mode `relevant`
    "noise_sensitivity": RagasMetric(
        ("question", "answer", "contexts", "reference"), ("statements", "inference")
    ),
}


def ragas_relevancy(cosines: Sequence[float], noncommittal: Sequence[bool]) -> float:
    """Return the mean cosine of question and generated questions; 0 where all are noncommittal.

    A mean below 0, which ragas returns as it is, is 0: scores go from 0 to 1.

    Example:
        >>> ragas_relevancy([0.9, 0.6], [True, False]), ragas_relevancy([0.9], [True])
        (0.75, 0.0)
    """
    if not cosines or all(noncommittal):
        return 0.0
    return min(max(math.fsum(cosines) / len(cosines), 0.0), 1.0)


def ragas_precision(useful: Sequence[bool]) -> float:
    """Return average precision over the useful passages that were found.

    Passages that were not found do not count: one useful passage of ten, found first, scores 1.

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
    """Return 0.75 times F1 of the statements and 0.25 times the cosine of the texts.

    Example:
        >>> ragas_correctness(tp=1, fp=1, fn=1, cosine=0.8)
        0.575
    """
    # ragas takes nothing to compare for agreement
    f1 = 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else 1.0
    return min(max(0.75 * f1 + 0.25 * cosine, 0.0), 1.0)


def ragas_noise(
    answer: Sequence[Sequence[bool]], reference: Sequence[Sequence[bool]], right: Sequence[bool]
) -> float:
    """Return the share of the answer's statements that are wrong and in a relevant passage.

    `answer` and `reference` have a row per statement: whether each passage supports it. `right` is
    whether the reference supports each statement of the answer.

    Example:
        >>> ragas_noise([[True, False], [False, True]], [[True, False]], [False, False])
        0.5
    """
    relevant = [any(column) for column in zip(*reference, strict=True)]
    misled = [
        any(told and matters for told, matters in zip(row, relevant, strict=True)) and not is_right
        for row, is_right in zip(answer, right, strict=True)
    ]
    return sum(misled) / len(misled)
