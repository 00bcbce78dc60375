"""Tokens of a text with their n-gram counts, each counted once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

Counts = Mapping[Hashable, int]

_ROOM = 5_000_000  # tokens of references: at 8 bytes and their texts, a few hundred MB
_REMEMBERED = 2_000  # repeated texts; at 1,000 tokens each, a few hundred MB
_UNKNOWN: list[str] = []  # a reference that was not met yet


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
    """Tokenises texts, and remembers those that come again.

    References come again with the next system: their tokens are kept. Texts that are repeated
    among the rows at hand keep their n-gram counts as well. (Keeping all counts would make every
    score slower: they are so many objects that Python's garbage collection has to look at.)
    """

    def __init__(self, tokenize: Callable[[str], list[str]]) -> None:
        """Remember nothing until `expect` says what comes again."""
        self._tokenize = tokenize
        self._references: dict[str, list[str]] = {}
        self._repeated: set[str] = set()
        self._counted: dict[str, TokenizedText] = {}
        self._room = _ROOM

    def expect(self, rows: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Look at the rows to come."""
        times = Counter(
            text for prediction, references in rows for text in (prediction, *references)
        )
        self._repeated = {text for text, count in times.items() if count > 1}
        self._counted = {}
        references = {text for _, references in rows for text in references}
        if self._room <= 0:  # those of rows before have taken it
            kept = self._references
            self._references = {text: kept[text] for text in references & kept.keys()}
            self._room = _ROOM - sum(map(len, self._references.values()))
        for text in references:
            self._references.setdefault(text, _UNKNOWN)

    def __call__(self, text: str) -> TokenizedText:
        """Return the tokens of a text."""
        known = self._counted.get(text)
        if known is None:
            known = TokenizedText(self._tokens(text))
            if text in self._repeated:
                if len(self._counted) >= _REMEMBERED:
                    del self._counted[next(iter(self._counted))]
                self._counted[text] = known
        return known

    def _tokens(self, text: str) -> list[str]:
        tokens = self._references.get(text)
        if tokens is None:
            return self._tokenize(text)
        if tokens is _UNKNOWN:
            tokens = self._tokenize(text)
            if self._room > 0:
                self._room -= len(tokens)
                self._references[text] = tokens
        return tokens


def ngrams(tokens: Sequence[str], n: int) -> Iterable[Hashable]:
    """Return the n-grams in order: tokens themselves for n = 1, above that tuples, or strings."""
    if n == 1:
        return tokens
    if isinstance(tokens, str):
        return [tokens[start : start + n] for start in range(len(tokens) - n + 1)]
    return zip(*(tokens[start:] for start in range(n)), strict=False)


def overlap(tokens: Sequence[str], counts: Counts, n: int, *, distinct: bool = False) -> int:
    """Count the n-grams of a text that others have, each at most as often as they have it.

    `distinct` says that the others have no n-gram twice, which saves looking.
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
