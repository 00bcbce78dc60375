"""Claims of a text as sets of terms, and how much of a claim a passage covers."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from ragbench.score.judge.citations import cited_sentences
from ragbench.text.analyze import Analyzer

_REFUSAL_LENGTH = 400  # characters; the patterns take quadratic time
_ITEM = re.compile(r"^(?:[-*•]|\(?\d{1,3}[.)])\s+")  # the mark of an item in a list claims nothing


class Claim(NamedTuple):
    """A sentence and what it is about."""

    text: str
    """The sentence."""
    terms: frozenset[str]
    """Its content words, as stems."""
    cited: frozenset[int] = frozenset()
    """The passages that it cites, counted from 1."""


class Support(NamedTuple):
    """How much of a claim the best passage covers."""

    coverage: float
    """Share of the claim's terms, 0..1."""
    passage: int
    """The passage, counted from 1; 0 where none covers any."""
    covered: tuple[str, ...]
    """The terms that it has, sorted."""
    missing: tuple[str, ...]
    """The terms that it lacks, sorted."""


def claims_of(text: str, analyze: Analyzer) -> list[Claim]:
    """Return the sentences of a text that claim something: not a refusal, with content words.

    Markers such as [1] are read as citations, not as numbers that are claimed.
    """
    found = []
    for sentence, cited in cited_sentences(text):
        terms = terms_of(without_item_mark(sentence), analyze)
        if terms and not is_refusal(sentence):
            found.append(Claim(sentence, terms, cited))
    return found


def without_item_mark(sentence: str) -> str:
    """Drop the mark of an item in a list.

    Example:
        >>> without_item_mark("2. It is red."), without_item_mark("1932 it opened.")
        ('It is red.', '1932 it opened.')
    """
    return _ITEM.sub("", sentence)


def terms_of(text: str, analyze: Analyzer) -> frozenset[str]:
    """Return the content words of a text as stems; 1,000 and 1000 are the same."""
    return frozenset(plain_number(term) for term in analyze(text))


def plain_number(term: str) -> str:
    """Drop the commas of a number, leave other terms as they are."""
    return term.replace(",", "") if term[0].isdigit() else term


def numbers_in(terms: Iterable[str]) -> frozenset[str]:
    """Return the terms that are numbers."""
    return frozenset(term for term in terms if term[0].isdigit())


def support(terms: frozenset[str], passages: Sequence[frozenset[str]]) -> Support:
    """Find the passage that covers most of some terms; of equal ones, the first."""
    best, number = frozenset[str](), 0
    for position, passage in enumerate(passages, start=1):
        covered = terms & passage
        if len(covered) > len(best):
            best, number = covered, position
    return Support(len(best) / len(terms), number, tuple(sorted(best)), tuple(sorted(terms - best)))


def is_refusal(sentence: str) -> bool:
    """Whether a sentence says that there is no answer.

    Example:
        >>> is_refusal("The passages do not mention a date."), is_refusal("It opened in 1932.")
        (True, False)
    """
    folded = sentence[:_REFUSAL_LENGTH].lower().replace("\u2019", "'")
    return any(pattern.search(folded) for pattern in _refusals())


@functools.cache
def _refusals() -> tuple[re.Pattern[str], ...]:
    lines = Path(__file__).with_name("refusals.txt").read_text(encoding="utf-8").splitlines()
    return tuple(re.compile(line) for line in lines if line and not line.startswith("#"))
