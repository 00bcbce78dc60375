"""Greedy matching of token vectors: each token with the most similar one of the other text."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ragbench.embed.base import Vectors
    from ragbench.types import FloatArray


class BertScore(NamedTuple):
    """BERTScore of one prediction."""

    precision: float
    """How similar the tokens of the prediction are to their best match in the reference."""
    recall: float
    """How similar the tokens of the reference are to their best match in the prediction."""
    fmeasure: float
    """Harmonic mean of the two."""


NOTHING = BertScore(0.0, 0.0, 0.0)
"""What a text without tokens scores."""


class WeightedTokens(NamedTuple):
    """The tokens of a text, as matching needs them."""

    vectors: Vectors
    """A row of length 1 for each token."""
    weights: FloatArray
    """How much each token counts; all zero where none does."""


def match(prediction: WeightedTokens, reference: WeightedTokens) -> BertScore:
    """Match the tokens of two texts greedily.

    Each token takes the largest cosine with any token of the other text; precision is the
    weighted mean of these over the prediction, recall that over the reference. Tokens of weight 0
    are matched by others. Nothing is padded and no cosine is clamped, so that a pair has one score
    whatever it is computed with. A text whose tokens all weigh nothing scores 0.

    Example:
        One of two tokens has its like in the reference, the other is at right angles to it.

        >>> import numpy as np
        >>> two, one = np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32)[:1]
        >>> match(WeightedTokens(two, np.ones(2)), WeightedTokens(one, np.ones(1)))[:2]
        (0.5, 1.0)

    References:
        Zhang et al. (2020), BERTScore: Evaluating Text Generation with BERT, section 3.
    """
    cosines = prediction.vectors @ reference.vectors.T
    precision = _mean(cosines.max(axis=1), prediction.weights)
    recall = _mean(cosines.max(axis=0), reference.weights)
    total = precision + recall
    return BertScore(precision, recall, 2 * precision * recall / total if total > 0 else 0.0)


def _mean(cosines: Vectors, weights: FloatArray) -> float:
    """The weighted mean, within -1..1 in spite of rounding."""
    total = float(weights.sum())
    return min(max(float(cosines @ weights) / total, -1.0), 1.0) if total else 0.0
