"""Whether a passage holds a gold answer, for collections without judgements: `answer_hit@k`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ragbench.score.retrieval.base import Cutoff, measure
from ragbench.score.retrieval.passages import RetrievedPassages
from ragbench.text.normalize import normalize_answer
from ragbench.types import Cause, FloatArray


@measure(
    "answer_hit",
    range=(0.0, 1.0),
    reads="passages",
    cutoff="required",
    nan_means=Cause.NO_REFERENCE,
)
def answer_hit(retrieved: RetrievedPassages, *, k: Cutoff | None = None) -> FloatArray:
    """Score each query 1 if one of its first k passages contains a gold answer, else 0.

    Both are normalised as SQuAD does: lower case, no punctuation, no articles. The words of the
    answer must stand in the passage, in a row: `no` is not in `know`. An answer without a word is
    in nothing. A hit is not a proof: the answer may stand there for another reason.

    Args:
        retrieved: Passages and gold answers of n queries.
        k: Look at the first k passages only; None looks at all.

    Returns:
        Array of shape (n,), each value 0 or 1; NaN where a query has no gold answer.

    Raises:
        OptionError: k is below 1.

    Example:
        >>> passages = [["I know the river.", "It rises in the Alps."]]
        >>> answer_hit(RetrievedPassages(passages, [["no"]]), k=2)
        array([0.])
        >>> retrieved = RetrievedPassages(passages, [["the Alps!", "Alpes"]])
        >>> answer_hit(retrieved, k=1), answer_hit(retrieved, k=2)
        (array([0.]), array([1.]))

    References:
        Rajpurkar et al. (2016), SQuAD, section 6.1, for the normalisation.
    """
    scores = np.full(len(retrieved.answers), np.nan)
    for query, answers in enumerate(retrieved.answers):
        if answers:
            scores[query] = _holds(retrieved.passages[query][:k], answers)
    return scores


def _holds(passages: Sequence[str], answers: Sequence[str]) -> bool:
    """Whether a passage holds an answer, spaces around both keeping words whole."""
    needles = [f" {needle} " for answer in answers if (needle := normalize_answer(answer))]
    texts = (f" {normalize_answer(passage)} " for passage in passages)
    return any(needle in text for text in texts for needle in needles)
