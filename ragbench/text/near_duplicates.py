"""Near duplicates among texts: they share most of their words.

The join is exact, not sampled. A similar text cannot lack all of the rarest words of a text (the
prefix filter), so that an index over these few words gives every candidate, and only candidates are
compared.

References:
    Bayardo, Ma and Srikant (2007), Scaling up all pairs similarity search, WWW.
    Xiao, Wang, Lin and Yu (2008), Efficient similarity joins for near duplicate detection, WWW.
"""

from __future__ import annotations

import math
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from itertools import chain

from ragbench.errors import OptionError
from ragbench.text.tokenize import words

_ROUNDING = 1e-9  # 0.55 * 20 is 11.000000000000002
_HITS = 3  # rare words that a candidate shares with an indexed text


def near_duplicates(
    texts: Sequence[str], threshold: float = 0.8, *, rows: Collection[int] | None = None
) -> list[tuple[int, int, float]]:
    """Return the pairs of texts whose sets of words are alike, as (row, later row, similarity).

    The similarity is the Jaccard index: words in both texts / words in either, by
    `ragbench.text.tokenize.words`, whatever their order and case. A text without a word is in no
    pair. Rows count from 0; pairs are sorted by row, then by later row; [] if there are none.

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
    indexed = range(len(texts)) if rows is None else set(rows)
    index, pairs = WordIndex(threshold), []
    for row in dict.fromkeys([*indexed, *range(len(texts))]):
        # one object per distinct word: the sets of all indexed texts stay in memory
        members = frozenset(map(sys.intern, words(texts[row])))
        for other, similarity in index.find(members).items():
            pairs.append((min(row, other), max(row, other), similarity))
        if row in indexed:
            index.add(row, members)
    return sorted(pairs)


class WordIndex:
    """Index of sets of words, to find those that share most of their words with a new set.

    `add` adds the set of a row; `find` returns row -> similarity of the similar sets, a Jaccard
    index of `threshold` or more. `word_sets` has the set of each row.
    """

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self.word_sets = dict[int, frozenset[str]]()
        self._hits_needed = dict[int, int]()
        self._frequency = Counter[str]()
        self._rows_of_word = defaultdict[str, list[int]](list)

    def add(self, row: int, members: frozenset[str]) -> None:
        """Add the set of a row, under its rarest words so far."""
        # a similar set has at least `shared` of the n words, so at least h of any n - shared + h;
        # one word in common is not rare among many texts
        shared = math.ceil(self._threshold * len(members) - _ROUNDING)
        self.word_sets[row], self._hits_needed[row] = members, min(_HITS, shared)
        self._frequency.update(members)
        n_rarest = len(members) - shared + self._hits_needed[row]
        for word in sorted(members, key=self._frequency.__getitem__)[:n_rarest]:
            self._rows_of_word[word].append(row)

    def find(self, members: frozenset[str]) -> dict[int, float]:
        """Return row -> similarity of the similar sets, rows ascending; {} for none or no words."""
        common = self._rows_of_word.keys() & members
        hits = Counter(chain.from_iterable(map(self._rows_of_word.__getitem__, common)))
        similar = {}
        for row in sorted(hits):
            if hits[row] < self._hits_needed[row]:
                continue
            other = self.word_sets[row]
            n_both = len(members & other)
            similarity = n_both / (len(members) + len(other) - n_both)
            if similarity >= self._threshold:
                similar[row] = similarity
        return similar
