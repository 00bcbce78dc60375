"""Texts as vectors of their tokens, each computed once, and how two texts match greedily."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ragbench.embed.encoders import TextTokens, TokenEncoder
from ragbench.score.text.base import BertScore, Row

if TYPE_CHECKING:
    from ragbench.embed.base import Vectors
    from ragbench.types import FloatArray

# How much of the references is kept from call to call; what is beyond is computed again.
KEPT_BYTES = 2 << 30


class EncodedTexts:
    """Gives the tokens and vectors of texts; lives as long as its model is used."""

    def __init__(self, encoder: TokenEncoder, kept_bytes: int = KEPT_BYTES) -> None:
        self._encoder = encoder
        self._room = kept_bytes
        self._tokens: dict[str, TextTokens] = {}
        self._vectors: dict[str, Vectors] = {}
        self._kept: set[str] = set()

    def tokens(self, texts: Sequence[str]) -> dict[str, TextTokens]:
        """Return text -> tokens."""
        new = [text for text in dict.fromkeys(texts) if text not in self._tokens]
        new_tokens = dict(zip(new, self._encoder.tokenize(new), strict=True))
        return {text: new_tokens.get(text) or self._tokens[text] for text in texts}

    def blocks(
        self, rows: Sequence[Row], tokens: Mapping[str, TextTokens]
    ) -> Iterator[tuple[list[int], Mapping[str, Vectors]]]:
        """Yield positions of rows, with the vectors of all texts that these rows have.

        A text is computed when the first row needs it and dropped after the last one, unless it
        is a reference and there is room to keep it. Rows with the same references come together,
        and short texts with short ones. Texts without a token have no vectors.
        """
        waiting = Counter(text for row in rows for text in _texts(row))
        references = {text for _, gold in rows for text in gold}
        for block in self._plan(rows, tokens):
            texts = Counter(text for position in block for text in _texts(rows[position]))
            new = [t for t in texts if t not in self._vectors and not tokens[t].empty]
            vectors = self._encoder.encode([tokens[text] for text in new])
            self._vectors.update(zip(new, vectors, strict=True))
            yield block, self._vectors
            waiting.subtract(texts)
            for text in [t for t in texts if not waiting[t] and t not in self._kept]:
                size = self._vectors[text].nbytes if text in self._vectors else 0
                if text in references and size <= self._room:
                    self._room -= size
                    self._kept.add(text)
                    self._tokens[text] = tokens[text]
                else:
                    self._vectors.pop(text, None)

    def _plan(self, rows: Sequence[Row], tokens: Mapping[str, TextTokens]) -> Iterator[list[int]]:
        """Cut the rows into blocks of some batches' worth of tokens."""

        def key(position: int) -> tuple[int, tuple[str, ...]]:
            gold = tuple(rows[position][1])
            return -sum(len(tokens[text]) for text in gold), gold

        block: list[int] = []
        n_tokens = 0
        for position in sorted(range(len(rows)), key=key):
            block.append(position)
            n_tokens += sum(len(tokens[text]) for text in _texts(rows[position]))
            if n_tokens >= self._encoder.block_tokens:
                yield block
                block, n_tokens = [], 0
        if block:
            yield block


def _texts(row: Row) -> tuple[str, ...]:
    return (row[0], *row[1])


@dataclass(frozen=True)
class TokenWeights:
    """Weights of tokens by their ids.

    Attributes:
        weight_of: Id of a token -> its weight.
        default: The weight of other tokens.
    """

    weight_of: Mapping[int, float]
    default: float = 1.0

    @classmethod
    def by_rarity(cls, references: Sequence[TextTokens]) -> TokenWeights:
        """Weigh by inverse document frequency: log((n + 1) / (c + 1)) for c of n references.

        A token of every reference, such as the start and the end, weighs nothing. A reference
        that occurs twice counts twice, as in bert-score.
        """
        counts = Counter(number for tokens in references for number in set(tokens.ids))
        n = len(references) + 1
        weight_of = {number: math.log(n / (count + 1)) for number, count in counts.items()}
        return cls(weight_of, math.log(n))

    def __call__(self, tokens: TextTokens) -> FloatArray:
        """Return a weight for each token."""
        import numpy as np

        return np.array([self.weight_of.get(number, self.default) for number in tokens.ids])


# What a text without tokens scores.
NOTHING = BertScore(0.0, 0.0, 0.0)


class WeightedTokens(NamedTuple):
    """The tokens of a text, as matching needs them.

    Attributes:
        vectors: A row of length 1 for each token.
        weights: How much each token counts; all zero where none does.
    """

    vectors: Vectors
    weights: FloatArray


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
