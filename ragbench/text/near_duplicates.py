"""Near duplicates among texts: pairs that share most of their words.

The join is exact, not sampled. A pair at or above the threshold shares at least one word among the
rarest words of both texts (the prefix filter), so that an index over these few words holds every
candidate, and only candidates are compared.

References:
    Bayardo, Ma and Srikant (2007), Scaling up all pairs similarity search, WWW.
    Xiao, Wang, Lin and Yu (2008), Efficient similarity joins for near duplicate detection, WWW.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

from ragbench.errors import OptionError
from ragbench.text.tokenize import words


def near_duplicates(
    texts: Sequence[str], threshold: float = 0.8, *, rows: Collection[int] | None = None
) -> list[tuple[int, int, float]]:
    """Return the pairs of texts whose sets of words are alike, as (row, later row, similarity).

    The similarity is the Jaccard index: words in both texts / words in either, by
    `ragbench.text.tokenize.words`, whatever their order and case. A text without a word is in no
    pair. Pairs are sorted by row, then by later row; [] if there are none.

    Args:
        texts: The texts.
        threshold: Smallest similarity, above 0 and at most 1.
        rows: Return only pairs with at least one text of these rows; None returns all pairs. For a
            few texts among many this is much faster.

    Raises:
        OptionError: `threshold` is out of range.
        IndexError: `rows` has a row that `texts` lacks.

    Example:
        Four of five words: 4 / 5 = 0.8.

        >>> near_duplicates(["Who saw Neptune first?", "Venus?", "Who first saw Neptune clearly?"])
        [(0, 2, 0.8)]
    """
    if not 0 < threshold <= 1:
        raise OptionError("near_duplicates", "threshold", threshold, "a number above 0, at most 1")
    word_sets = _sorted_word_sets(texts)
    indexed = set(range(len(texts)) if rows is None else rows)
    rows_of_word = defaultdict(list)
    for row in indexed:
        for word in _prefix(word_sets[row], threshold):
            rows_of_word[word].append(row)
    pairs = []
    for row, word_set in enumerate(word_sets):
        candidates = {
            other for word in _prefix(word_set, threshold) for other in rows_of_word.get(word, ())
        }
        members = set(word_set)
        for other in candidates:
            # a pair of two indexed rows is seen from both sides
            if other == row or (other > row and row in indexed):
                continue
            shared = len(members.intersection(word_sets[other]))
            similarity = shared / (len(members) + len(word_sets[other]) - shared)
            if similarity >= threshold:
                pairs.append((min(row, other), max(row, other), similarity))
    return sorted(pairs)


def _sorted_word_sets(texts: Sequence[str]) -> list[tuple[int, ...]]:
    """Return the distinct words of each text as numbers, the rarest word of all texts first."""
    number_of_word: dict[str, int] = {}
    frequency: Counter[int] = Counter()
    word_sets = []
    for text in texts:
        numbers = {number_of_word.setdefault(w, len(number_of_word)) for w in words(text)}
        frequency.update(numbers)
        word_sets.append(numbers)
    # ties by number: the prefix filter needs one order for all texts
    return [tuple(sorted(numbers, key=lambda n: (frequency[n], n))) for numbers in word_sets]


def _prefix(word_set: tuple[int, ...], threshold: float) -> tuple[int, ...]:
    """Return the rarest words of a text, one of which every similar text has among its own.

    A similar text shares at least threshold * n of the n words, so it cannot lack all of the
    first n - ceil(threshold * n) + 1.
    """
    # less a little: 0.55 * 20 is 11.000000000000002
    shared = math.ceil(threshold * len(word_set) - 1e-9)
    return word_set[: len(word_set) - shared + 1]
