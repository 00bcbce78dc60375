"""Token vectors of texts, each computed once, and the greedy matching of BERTScore."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from ragbench.embed.encoders import TextTokens, TokenEncoder
from ragbench.score.text.base import BertScore, Row
from ragbench.types.lookups import take_items

if TYPE_CHECKING:
    from ragbench.embed.base import Vectors
    from ragbench.types import FloatArray

# Bytes of reference vectors that are kept between calls; others are computed again.
KEPT_BYTES = 2 << 30


class EncodedTexts:
    """Cache of the tokens and vectors of texts, alive as long as its model.

    `encoder` computes them. `tokens` returns text -> tokens; `blocks` yields blocks of rows with
    the vectors of their texts. `kept_bytes` bounds the vectors of references that stay between
    calls. Only one thread may use it.
    """

    def __init__(self, encoder: TokenEncoder, kept_bytes: int = KEPT_BYTES) -> None:
        self._encoder = encoder
        self._room = kept_bytes
        self._tokens: dict[str, TextTokens] = {}
        self._vectors: dict[str, Vectors] = {}
        self._kept: set[str] = set()

    def tokens(self, texts: Sequence[str]) -> dict[str, TextTokens]:
        """Return text -> tokens for the distinct texts; cached tokens are reused.

        Tokens of references stay cached with their vectors.
        """
        new = [text for text in dict.fromkeys(texts) if text not in self._tokens]
        new_tokens = dict(zip(new, self._encoder.tokenize(new), strict=True))
        # by membership: the tokens of an empty text may be empty, and so count as False
        return {t: new_tokens[t] if t in new_tokens else self._tokens[t] for t in texts}

    def blocks(
        self, rows: Sequence[Row], tokens: Mapping[str, TextTokens]
    ) -> Iterator[tuple[list[int], Mapping[str, Vectors]]]:
        """Yield blocks of row positions, with text -> vectors for all texts of the block.

        The vectors of a text are computed for its first row and dropped after its last row, unless
        it is a reference and there is room to keep them. Rows come by the length of their
        references, longest first, those with equal references together; a block ends once it has
        enough tokens, even between these. Texts without tokens have no vectors. Positions count
        from 0, each in one block; the mapping is the cache itself, and changes with the next block.
        """
        # number of rows to come that need each text
        waiting = Counter(chain.from_iterable(map(_texts, rows)))
        references = {text for _, gold in rows for text in gold}
        for block in self._plan(rows, tokens):
            texts = Counter(chain.from_iterable(_texts(rows[n]) for n in block))
            new = [t for t in texts if t not in self._vectors and not tokens[t].empty]
            vectors = self._encoder.encode(take_items(tokens, new))
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
        """Yield blocks of row positions, longest references first, of some batches of tokens."""

        def count(texts: Sequence[str]) -> int:
            return sum(len(tokens[text]) for text in texts)

        def key(position: int) -> tuple[int, tuple[str, ...]]:
            gold = tuple(rows[position][1])
            # rows with equal references become neighbours, so that these are encoded once
            return -count(gold), gold

        block: list[int] = []
        n_tokens = 0
        for position in sorted(range(len(rows)), key=key):
            block.append(position)
            n_tokens += count(_texts(rows[position]))
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

    A call `weights(tokens)` returns the weight of each token of a text, shape (n tokens,).
    `by_rarity` makes weights from references.

    Attributes:
        weight_of: Token id -> weight.
        default: Weight of all other tokens.
    """

    weight_of: Mapping[int, float]
    default: float = 1.0

    @classmethod
    def by_rarity(cls, references: Sequence[TextTokens]) -> TokenWeights:
        """Return weights by inverse document frequency: log((n + 1) / (c + 1)) for c of n texts.

        Tokens of every reference, such as start and end, have weight 0. A repeated reference counts
        each time, as in bert-score. Tokens of no reference have weight log(n + 1); without
        references all weights are 0.
        """
        counts = Counter(number for tokens in references for number in set(tokens.ids))
        n = len(references) + 1
        weight_of = {number: math.log(n / (count + 1)) for number, count in counts.items()}
        return cls(weight_of, math.log(n))

    def __call__(self, tokens: TextTokens) -> FloatArray:
        """Return the weights of the tokens of a text, shape (n tokens,).

        A text without tokens gives an empty array.
        """
        import numpy as np

        return np.array([self.weight_of.get(number, self.default) for number in tokens.ids])


# Score of a text without tokens.
NOTHING = BertScore(0.0, 0.0, 0.0)


class WeightedTokens(NamedTuple):
    """Vectors and weights of the tokens of a text, as `match` compares them.

    Attributes:
        vectors: Unit vector of each token, one per row, shape (n tokens, d).
        weights: Weight of each token, shape (n tokens,); may be all zero.
    """

    vectors: Vectors
    weights: FloatArray


def match(prediction: WeightedTokens, reference: WeightedTokens) -> BertScore:
    """Return precision, recall and F of the greedy matching of two texts.

    Each token takes the largest cosine with any token of the other text; precision is the
    weighted mean of these cosines over the prediction, recall over the reference. Tokens of weight
    0 can still be the match of others. Nothing is padded and no cosine is clamped: the score of a
    pair does not depend on its batch. A text whose weights are all 0 scores 0. Each value is from
    -1 to 1; F is 0 unless precision + recall is above 0. Both texts have a token.

    Example:
        One of two tokens equals the token of the reference, the other is orthogonal to it.

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
    """Return the weighted mean of cosines, cut to -1..1; 0 if all weights are 0."""
    total = float(weights.sum())
    return min(max(float(cosines @ weights) / total, -1.0), 1.0) if total else 0.0
