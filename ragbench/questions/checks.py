"""Rules by which a candidate is kept: its quote, its words, and the answers of the model."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from ragbench.comparison.cause_rules import RightAnswer
from ragbench.questions.base import QuestionCandidate, QuestionPassage
from ragbench.score.text.gold_words import GoldWords, content_of
from ragbench.text.languages import unicode_words
from ragbench.text.similar_questions import QuestionIndex, copied_words
from ragbench.types import Document
from ragbench.types.spans import locate_quote

_SHORTEST_QUOTE = 4  # words: fewer may stand in other documents by chance


def find_quote(quote: str, text: str) -> str:
    r"""Return the slice of a text that equals a quote by `locate_quote`; empty if there is none.

    Example:
        >>> find_quote("hot and dry", "Io is hot and\n  dry.")
        'hot and\n  dry'
    """
    place = locate_quote(quote, text)
    return text[slice(*place)] if place else ""


def quote_problem(quote: str, passage: QuestionPassage, documents: Sequence[Document]) -> str:
    """Return why a result of `find_quote` is no evidence; empty if it is evidence.

    An empty quote stands nowhere. One of fewer than four words may not stand in a second document:
    a table of records takes every document that holds a quote for relevant.
    """
    if not quote:
        return "the quote does not stand in the document word by word"
    if len(unicode_words(quote)) >= _SHORTEST_QUOTE:
        return ""
    for document in documents:
        if document.id != passage.document.id and quote in document.text:
            return f"'{quote}' is short, and stands in other documents"
    return ""


def pointing_words(question: str) -> str:
    """Return why a question cannot be understood by itself; empty if it can.

    It has no content word, or a phrase of `pointers.txt` in one of eight languages.

    Example:
        >>> pointing_words("What does the passage say about leave?")
        "points at a text: 'the passage'"
        >>> pointing_words("When was it opened?"), pointing_words("When was Tower Bridge opened?")
        ("points at a text: 'when was it opened?'", '')
    """
    folded = question.lower().replace("\u2019", "'")
    for pattern in _pointers():
        if match := pattern.search(folded):
            return f"points at a text: '{match.group()}'"
    return "" if content_of(question).size else "has no content word"


@functools.cache
def _pointers() -> tuple[re.Pattern[str], ...]:
    lines = Path(__file__).with_name("pointers.txt").read_text(encoding="utf-8").splitlines()
    return tuple(re.compile(line) for line in lines if line and not line.startswith("#"))


def copy_problem(question: str, passage: QuestionPassage) -> str:
    """Return the number of words that a question copies, as a sentence; empty up to 90 % of them.

    They count if they stand in one sentence of the passage. The rule is that of `ragbench audit`:
    question words do not count, nor do short questions.
    """
    copied = copied_words(question, passage.document.title, passage.text)
    return f"one sentence has {copied[0]} of its {copied[1]} words" if copied else ""


def is_match(answer: str, reference: str, question: str) -> bool:
    """Return True if an answer is right by the rule of `ragbench explain` for words.

    It has the reference word by word, or `causes.right.words` (0.4) of its content words beyond
    those of the question; two thirds and all numbers of a reference of at most four.

    Example:
        >>> is_match("25 days a year", "25 days", "How much leave is there?")
        True
        >>> is_match("30 days a year", "25 days", "How much leave is there?")
        False
    """
    return GoldWords([reference], question).share(answer).reaches(RightAnswer().words)


class KeptQuestions:
    """Questions that were kept, among which a candidate may have a repetition.

    It is created with kept questions, and `add` adds further ones; `len` counts them. `check`
    returns a candidate after the check `unique`, which it fails if it repeats one of them.
    """

    def __init__(self, questions: Iterable[QuestionCandidate] = ()) -> None:
        self._questions: list[QuestionCandidate] = []
        self._index = QuestionIndex()
        self._by_gold: dict[tuple[str, ...], QuestionCandidate] = {}
        for question in questions:
            self.add(question)

    def __len__(self) -> int:
        return len(self._questions)

    def add(self, question: QuestionCandidate) -> None:
        """Add a kept question."""
        self._questions.append(question)
        self._index.add(question.question)
        if question.quote:
            self._by_gold.setdefault(_gold_of(question), question)

    def check(self, candidate: QuestionCandidate) -> QuestionCandidate:
        """Return the candidate after the check `unique`, that it repeats none of the questions.

        A candidate that failed an earlier check is returned as it is. Another one repeats a
        question that asks for the same by the rule of `ragbench audit`, and one with the same
        document, quote and answer, whatever its words.
        """
        if candidate.failure:
            return candidate
        rows = self._index.find(candidate.question)
        repeated = self._questions[min(rows)] if rows else self._by_gold.get(_gold_of(candidate))
        return candidate.check("unique", f"nearly '{repeated.question}'" if repeated else "")


def _gold_of(candidate: QuestionCandidate) -> tuple[str, ...]:
    """Return document, quote and answer of a candidate."""
    return candidate.passage.document.id, candidate.quote, candidate.reference
