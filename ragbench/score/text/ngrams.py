"""Tokens of a text with their n-gram counts, each counted once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

Counts = Mapping[Hashable, int]

_ROOM = 1_000_000  # tokens that are remembered with their n-grams: a few hundred MB


class TokenizedText:
    """The tokens of a text; n-grams are counted when first asked for."""

    __slots__ = ("_counts", "tokens")

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tokens
        self._counts: dict[int, Counts] = {}

    def counts(self, n: int) -> Counts:
        """Count the n-grams: tokens themselves for n = 1, tuples above."""
        counts = self._counts.get(n)
        if counts is None:
            counts = self._counts[n] = Counter(ngrams(self.tokens, n))
        return counts


class TokenizedTexts:
    """Tokenises texts, and remembers those that come again: references above all."""

    def __init__(self, tokenize: Callable[[str], list[str]]) -> None:
        """Remember nothing until `expect` says what comes again."""
        self._tokenize = tokenize
        self._worth: set[str] = set()
        self._kept: dict[str, TokenizedText] = {}
        self._room = _ROOM

    def expect(self, rows: Iterable[tuple[str, Sequence[str]]]) -> None:
        """Look at the rows to come: worth their memory are references and repeated predictions."""
        predictions: Counter[str] = Counter()
        self._worth = set()
        for prediction, references in rows:
            predictions[prediction] += 1
            self._worth.update(references)
        self._worth.update(text for text, count in predictions.items() if count > 1)
        self._kept = {text: kept for text, kept in self._kept.items() if text in self._worth}
        self._room = _ROOM - sum(len(kept.tokens) for kept in self._kept.values())

    def __call__(self, text: str) -> TokenizedText:
        """Return the tokens of a text."""
        known = self._kept.get(text)
        if known is None:
            known = TokenizedText(self._tokenize(text))
            if text in self._worth and self._room >= len(known.tokens):
                self._room -= len(known.tokens)
                self._kept[text] = known
        return known


def ngrams(tokens: Sequence[str], n: int) -> Iterable[Hashable]:
    """Return the n-grams in order: tokens themselves for n = 1, above that tuples, or strings."""
    if n == 1:
        return tokens
    if isinstance(tokens, str):
        return [tokens[start : start + n] for start in range(len(tokens) - n + 1)]
    return zip(*(tokens[start:] for start in range(n)), strict=False)


def overlap(tokens: Sequence[str], counts: Counts, n: int, *, distinct: bool = False) -> int:
    """Count the n-grams of a text that others have, each at most as often as they have it.

    Args:
        tokens: The text.
        counts: How often the others have each n-gram.
        n: Length of the n-grams.
        distinct: Whether the others have no n-gram twice; saves looking.
    """
    # Only n-grams that match are counted: most do not, and a look-up is cheaper than an entry.
    matching = list(filter(counts.__contains__, ngrams(tokens, n)))
    if distinct:
        return len(set(matching))
    total = 0
    for gram, here in Counter(matching).items():
        there = counts[gram]
        total += here if here < there else there
    return total
