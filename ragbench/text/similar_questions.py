"""Questions that ask the same thing, and questions that copy a sentence of their document."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from ragbench.text.analyzer import load_stemmer
from ragbench.text.languages import built_in, language_name, load
from ragbench.text.near_duplicates import WordIndex
from ragbench.text.tokenize import sentences, words

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
        self._index = WordIndex(_SAME)

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
