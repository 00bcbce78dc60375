"""Scores of answers that people or a judge have judged before, as TREC RAG computes them.

`citation_support.*` and `nuggets.*` count judgements of a file, and call no model. The rubrics
`support_precision`, `support_recall` and `nugget_recall` have the same formulas; an answer with an
empty divisor has no score there, and 0 here, as in the tables of the track.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ragbench.score.judge.published import nugget_score, support_score
from ragbench.score.text.base import metric
from ragbench.types.records import AnswerLength, Nugget

_OF_SUPPORT = "the support metrics of the track, and values of Thakur et al. (2025)"
_OF_NUGGETS = "the scores of AutoNuggetizer, and values by hand"


@metric(
    "citation_support.precision",
    reads="support",
    needs_reference=False,
    equals=_OF_SUPPORT,
    not_for="answers that cite little: one supported sentence among many without citation gives 1",
)
def support_precision(answer: str, levels: Sequence[str | None]) -> float:
    """Return the mean support of the sentences with a citation, each by its first one.

    Full support counts 1, partial support 0.5; 0 without a citation. `levels` has a word of
    `SUPPORT_LEVELS` per sentence, None for a sentence without citation.

    Example:
        >>> support_precision("", ["partial_support", "full_support", None])
        0.75

    References:
        Thakur et al. (2025), Support Evaluation for the TREC 2024 RAG Track, section 3.4.
    """
    return support_score(levels, "precision") or 0.0


@metric(
    "citation_support.recall",
    reads="support",
    needs_reference=False,
    equals=_OF_SUPPORT,
    not_for="answers with headings or sentences that need no citation: each counts 0",
)
def support_recall(answer: str, levels: Sequence[str | None]) -> float:
    """Return the mean support of all sentences by their first citation; 0 without a sentence.

    Full support counts 1, partial support 0.5, a sentence without citation 0.

    Example:
        >>> support_recall("", ["partial_support", "full_support", None])
        0.5

    References:
        Thakur et al. (2025), Support Evaluation for the TREC 2024 RAG Track, section 3.4.
    """
    return support_score(levels, "recall") or 0.0


@metric(
    "nuggets.strict_vital",
    reads="nuggets",
    equals=_OF_NUGGETS,
    not_for="topics without a vital nugget: every answer gets 0",
)
def nuggets_strict_vital(answer: str, nuggets: Sequence[Nugget]) -> float:
    """Return the share of the vital nuggets that the answer supports in full.

    It ranks the runs of TREC RAG 2024. 0 without a vital nugget.

    Example:
        >>> facts = [Nugget("a", "vital", "support"), Nugget("b", "vital", "partial_support")]
        >>> nuggets_strict_vital("", facts)
        0.5

    References:
        Pradeep et al. (2024), Initial Nugget Evaluation Results for the TREC 2024 RAG Track.
    """
    return nugget_score(nuggets, "strict_vital") or 0.0


@metric(
    "nuggets.strict_all",
    reads="nuggets",
    equals=_OF_NUGGETS,
    not_for="ranking: an okay nugget counts as much as a vital one",
)
def nuggets_strict_all(answer: str, nuggets: Sequence[Nugget]) -> float:
    """Return the share of all nuggets that the answer supports in full; 0 without a nugget.

    Example:
        >>> facts = [Nugget("a", "vital", "support"), Nugget("b", "okay", "partial_support")]
        >>> nuggets_strict_all("", facts)
        0.5

    References:
        Pradeep et al. (2024), Initial Nugget Evaluation Results for the TREC 2024 RAG Track.
    """
    return nugget_score(nuggets, "strict_all") or 0.0


@metric(
    "nuggets.vital",
    reads="nuggets",
    equals=_OF_NUGGETS,
    not_for="topics without a vital nugget: every answer gets 0",
)
def nuggets_vital(answer: str, nuggets: Sequence[Nugget]) -> float:
    """Return the mean credit of the vital nuggets: 1 for full, 0.5 for partial support.

    0 without a vital nugget.

    Example:
        >>> facts = [Nugget("a", "vital", "support"), Nugget("b", "vital", "partial_support")]
        >>> nuggets_vital("", facts)
        0.75

    References:
        Pradeep et al. (2024), Initial Nugget Evaluation Results for the TREC 2024 RAG Track.
    """
    return nugget_score(nuggets, "vital") or 0.0


@metric(
    "nuggets.all",
    reads="nuggets",
    equals=_OF_NUGGETS,
    not_for="ranking: an okay nugget counts as much as a vital one",
)
def nuggets_all(answer: str, nuggets: Sequence[Nugget]) -> float:
    """Return the mean credit of all nuggets: 1 for full, 0.5 for partial support; 0 without any.

    Example:
        >>> facts = [Nugget("a", "vital", "support"), Nugget("b", "okay", "partial_support")]
        >>> nuggets_all("", facts)
        0.75

    References:
        Pradeep et al. (2024), Initial Nugget Evaluation Results for the TREC 2024 RAG Track.
    """
    return nugget_score(nuggets, "all") or 0.0


@metric(
    "words_over_limit",
    reads="length",
    needs_reference=False,
    direction="lower",
    range=(0.0, math.inf),
    equals="a difference of counts, and values by hand",
    not_for="answers without a limit of words: they have no value",
)
def words_over_limit(answer: str, length: AnswerLength) -> float:
    """Return the number of words beyond the limit of the task; 0 for a shorter answer.

    Words stand between white space. The limit is 400 words in TREC RAG 2024 and 2025, and 1,024 in
    2026.

    Example:
        >>> words_over_limit("", AnswerLength(words=430, limit=400))
        30.0
    """
    return float(max(0, length.words - length.limit))
