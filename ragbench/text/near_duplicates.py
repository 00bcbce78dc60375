"""Near duplicates among texts, and questions that copy a sentence: they share most words.

The join is exact, not sampled. A similar text cannot lack all of the rarest words of a text (the
prefix filter), so that an index over these few words gives every candidate, and only candidates are
compared.

References:
    Bayardo, Ma and Srikant (2007), Scaling up all pairs similarity search, WWW.
    Xiao, Wang, Lin and Yu (2008), Efficient similarity joins for near duplicate detection, WWW.
"""

from __future__ import annotations

import functools
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from itertools import chain
from pathlib import Path

from ragbench.errors import OptionError
from ragbench.text.analyzer import load_stemmer
from ragbench.text.languages import built_in, language_name, load
from ragbench.text.tokenize import sentences, words

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
    index, pairs = _WordIndex(threshold), []
    for row in dict.fromkeys([*indexed, *range(len(texts))]):
        # one object per distinct word: the sets of all indexed texts stay in memory
        members = frozenset(map(sys.intern, words(texts[row])))
        for other, similarity in index.find(members).items():
            pairs.append((min(row, other), max(row, other), similarity))
        if row in indexed:
            index.add(row, members)
    return sorted(pairs)


class _WordIndex:
    """Index of sets of words, to find those that share most of their words with a new set."""

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


_FILLERS = frozenset(["name", "called", "please", "tell"])
_SAME = 0.8  # share of the content words


def same_questions(questions: Sequence[str], language: str = "en") -> list[tuple[int, int, float]]:
    """Return the pairs of questions that ask the same thing, in the form of `near_duplicates`.

    Their content words are compared, English ones as stems; the similarity is 0.8 or more. One
    question may have further words, but not a number or a word such as `not`, `when` or `second`;
    two questions that each have a word of their own are no pair: "the capital of France" and "the
    capital of Spain". A question of stop words alone is in no pair.

    Args:
        questions: The questions.
        language: Code of the language, whose stop words do not count; a language without a list of
            stop words compares all words.

    Example:
        >>> first, second = "Who found Titan?", "Who was it that found Titan?"
        >>> same_questions([first, second, "When was Titan found?"])
        [(0, 1, 1.0)]
    """
    index, pairs = QuestionIndex(language), list[tuple[int, int, float]]()
    for row, question in enumerate(questions):
        for earlier, share in index.find(question).items():
            pairs.append((earlier, row, share))
        index.add(question)
    return sorted(pairs)


class QuestionIndex:
    """Index of questions of one language, to find the questions that ask the same as a new one.

    `add` adds a question, whose row counts from 0; `find` returns row -> similarity, and adds
    nothing. `language` is a code or an English name; one without stop words compares all words.
    """

    def __init__(self, language: str = "en") -> None:
        name = language_name(language)
        self._language, self._decisive = language, _decisive_words()
        stopwords = load(name) if name in built_in() else None
        self._ignored = set() if stopwords is None else stopwords - self._decisive | _FILLERS
        self._stem = load_stemmer("porter" if name == "english" else "none")
        self._index = _WordIndex(_SAME)

    def add(self, question: str) -> None:
        """Add a question, whose row is the number of questions before it."""
        self._index.add(len(self._index.word_sets), self._content(question))

    def find(self, question: str) -> dict[int, float]:
        """Return row -> similarity of the added questions that ask the same thing, rows ascending.

        The rule is that of `same_questions`; the similarity is the Jaccard index of the content
        words. The first question added has row 0.
        """
        content, same = self._content(question), {}
        for row, share in self._index.find(content).items():
            other = self._index.word_sets[row]
            has_one_more = content <= other or other <= content
            if has_one_more and not any(map(self._is_decisive, content ^ other)):
                same[row] = share
        return same

    def _is_decisive(self, word: str) -> bool:
        return word in self._decisive or not word.isalpha()

    def _content(self, question: str) -> frozenset[str]:
        """Return the content words of a question, as stems but for decisive ones."""
        content = set()
        for word in words(question, self._language):
            if word not in self._ignored:
                content.add(word if word in self._decisive else self._stem(word))
        return frozenset(content)


@functools.cache
def _decisive_words() -> frozenset[str]:
    """Return the words that change what a question asks for where only one question has them."""
    return load(str(Path(__file__).with_name("decisive_words.txt")))


_MOST_COPIED = 0.9  # share of the words of a question that it may have from one sentence
_SHORTEST_QUESTION = 5  # words that a copied question has
_QUESTION_WORDS = frozenset(
    ["what", "which", "who", "whom", "whose", "when", "where", "why", "how"]
)


def copied_words(question: str, title: str, text: str) -> tuple[int, int] | None:
    """Return (words of a question that one sentence has, at most; words of the question).

    The result is None for a question that is no copy: a sentence has at most 90 % of its words, or
    it has fewer than 5, which a sentence may have by chance. Question words such as `which` do not
    count.

    Args:
        question: Text of the question.
        title: Title of the document, which counts as a sentence; may be empty.
        text: Text of the document, or a passage of it.

    Example:
        >>> copied_words("Was the old bridge opened late?", "", "The old bridge was opened late.")
        (6, 6)
        >>> copied_words("When was the new bridge opened?", "", "The old bridge was opened late.")
    """
    content = [word for word in words(question) if word not in _QUESTION_WORDS]
    if len(content) < _SHORTEST_QUESTION:
        return None
    n_copied = max(sum(map(sentence.__contains__, content)) for sentence in _sentences(title, text))
    return (n_copied, len(content)) if n_copied > _MOST_COPIED * len(content) else None


# documents are gold of several questions
@functools.lru_cache(maxsize=1000)
def _sentences(title: str, text: str) -> list[frozenset[str]]:
    """Return the words of the title and of each sentence."""
    return [frozenset(words(sentence)) for sentence in (title, *sentences(text))]
