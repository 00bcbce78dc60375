"""Rules by which a candidate is kept: its quote, its words, and the answers of the model."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path

from ragbench.comparison.cause_rules import RightAnswer
from ragbench.comparison.causes import GoldWords, terms
from ragbench.questions.base import QuestionCandidate, QuestionPassage
from ragbench.text.languages import unicode_words
from ragbench.text.near_duplicates import near_duplicates
from ragbench.text.tokenize import sentences, words
from ragbench.types import Document

# Largest share of the words of a question that one sentence of its passage may have.
MOST_COPIED = 0.9
# Jaccard similarity of the words of two questions that count as one.
_SAME = 0.8
_SHORTEST_QUOTE = 4  # words: fewer may stand in other documents by chance


def find_quote(quote: str, text: str) -> str:
    r"""Return the slice of a text that equals a quote but for white space; empty if there is none.

    Case and punctuation count. The first place is returned. A blank quote stands nowhere.

    Example:
        >>> find_quote("hot and dry", "Io is hot and\n  dry.")
        'hot and\n  dry'
    """
    pieces = [re.escape(piece) for piece in quote.split()]
    match = re.search(r"\s+".join(pieces), text) if pieces else None
    return match.group() if match else ""


def quote_problem(quote: str, passage: QuestionPassage, documents: Sequence[Document]) -> str:
    """Return why a result of `find_quote` is no evidence; empty if it is evidence.

    An empty quote stands nowhere. One of fewer than four words may not stand in a second document:
    a table of records takes every document that holds a quote for relevant.
    """
    if not quote:
        return "the quote does not stand in the document word by word"
    if len(unicode_words(quote)) >= _SHORTEST_QUOTE:
        return ""
    texts = (d.text for d in documents if d.id != passage.document.id)
    is_common = any(quote in text for text in texts)
    return f"'{quote}' is short, and stands in other documents" if is_common else ""


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
    return "" if terms(question) else "has no content word"


@functools.cache
def _pointers() -> tuple[re.Pattern[str], ...]:
    lines = Path(__file__).with_name("pointers.txt").read_text(encoding="utf-8").splitlines()
    return tuple(re.compile(line) for line in lines if line and not line.startswith("#"))


def copied_share(question: str, passage: str) -> float:
    """Return the largest share of the words of a question that one sentence of its passage has.

    From 0 to 1; 0 for a question or passage without a word.

    Example:
        Four of five words: was, the, bridge and opened.

        >>> copied_share("When was the bridge opened?", "It is old. The bridge was opened in 1932.")
        0.8
    """
    question_words = words(question)
    shares = (
        sum(word in sentence for word in question_words) / max(len(question_words), 1)
        for sentence in (set(words(text)) for text in sentences(passage))
    )
    return max(shares, default=0.0)


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


def check_repetition(
    candidate: QuestionCandidate, questions: Sequence[QuestionCandidate]
) -> QuestionCandidate:
    """Return the candidate after the check that it repeats none of some kept questions.

    Two questions are alike if they share 0.8 of their words (Jaccard similarity). They are not the
    same question if each has a word of its own passage that the other passage lacks, as in "What
    does plan A cost?" and "What does plan B cost?".
    """
    texts = [candidate.question, *(question.question for question in questions)]
    pairs = [] if candidate.failure else near_duplicates(texts, _SAME, rows=[0])
    for _, row, _ in pairs:
        other = questions[row - 1]
        if not (_names_more(candidate, other) and _names_more(other, candidate)):
            candidate = candidate.check("unique", f"nearly '{other.question}'")
    return candidate.check("unique", "")


def _names_more(candidate: QuestionCandidate, other: QuestionCandidate) -> bool:
    """Return True if a question has a word of its own passage that the other one lacks."""
    (words_of, passage), (other_words, other_passage) = (
        (set(words(c.question)), set(words(f"{c.passage.document.title} {c.passage.text}")))
        for c in (candidate, other)
    )
    return bool((words_of & passage) - other_words - other_passage)
