"""What the words of gold answers tell without a judge: right, refused, found in a passage.

Words decide less surely than a judge does: an answer in other words than the gold one counts as
wrong. What counts are the content words of the gold answer that the question does not have, as
stems: a wrong answer repeats those of the question as well.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ragbench.score.judge.sentences import is_refusal, numbers_in, terms_of
from ragbench.score.text.squad import answer_tokens, holds_run
from ragbench.text.analyze import Analyzer
from ragbench.text.tokenize import sentences

SHORT = 4
"""Up to so many content words, all numbers of a gold answer must be there."""
_MOST = 2 / 3
_YES_OR_NO = frozenset([("yes",), ("no",), ("true",), ("false",)])
_REMEMBERED = 8192
_TOKENS = answer_tokens("contains")


class Share(NamedTuple):
    """How much of the best gold answer a text has."""

    found: int
    of: int
    """Content words of the gold answer beyond those of the question."""
    whole: bool
    """Whether a gold answer stands in the text, word by word."""
    own: int = 0
    """Content words of the text beyond those of the question."""
    is_short: bool = False
    """Whether the gold answer is a name, a number, a few words."""
    lacks_number: bool = False
    """Whether a short gold answer has a number that the text lacks."""

    def reaches(self, least: float) -> bool:
        """Whether it is enough: a whole gold answer, or a share of its words.

        Of a short one most words: half a name is another name, unless the text says nothing else.
        """
        if self.whole or not self.found:
            return self.whole
        if not self.is_short:
            return self.found >= least * self.of
        f1 = 2 * self.found / (self.own + self.of)
        enough = self.found >= max(least, _MOST) * self.of or f1 >= _MOST
        return enough and not self.lacks_number

    @property
    def says(self) -> str:
        """The share in words."""
        if self.whole:
            return "has a gold answer word by word"
        lacks = ", lacks a number" if self.lacks_number else ""
        return f"has {self.found} of {self.of} words of the gold answer{lacks}"


class GoldWords:
    """The gold answers of one question, by their words.

    Example:
        The words that an answer takes from the question count for nothing.

        >>> gold = GoldWords(["The capital of France is Paris."], "What is the capital of France?")
        >>> wrong, right = "The capital of France is Lyon.", "It is Paris."
        >>> gold.share(wrong).reaches(0.4), gold.share(right).says
        (False, 'has 1 of 1 words of the gold answer')
    """

    def __init__(self, answers: Sequence[str], question: str) -> None:
        self._asked = terms(question)
        self._gold = []
        for answer in answers:
            content = terms(answer)
            self._gold.append((content - self._asked or content, tuple(_TOKENS(answer))))
        # where one says it in few words, most words of a sentence that says it are others
        short = [each for each in self._gold if 0 < len(each[0]) <= SHORT]
        self._by_words = short or self._gold

    @property
    def can_be_found(self) -> bool:
        """Whether a passage can have it: `yes` and `no` stand in no passage as an answer."""
        return any(own and tokens not in _YES_OR_NO for own, tokens in self._gold)

    def share(self, text: str) -> Share:
        """Return how much of the gold answer, of several the best, a text has."""
        own, tokens = terms(text), _TOKENS(text)
        found = [self._one(each, own, tokens) for each in self._by_words]
        best = max(found, key=lambda s: (s.whole, not s.lacks_number, s.found / max(s.of, 1)))
        is_whole = any(_is_whole(wanted, tokens) for _, wanted in self._gold)
        return best._replace(whole=is_whole)

    def _one(
        self, gold: tuple[frozenset[str], Sequence[str]], own: frozenset[str], tokens: Sequence[str]
    ) -> Share:
        content, wanted = gold
        if tuple(wanted) in _YES_OR_NO:
            whole = _is_whole(wanted, tokens)
            return Share(int(whole), 1, whole)
        short = len(content) <= SHORT
        lacks = short and not numbers_in(content) <= own
        found, whole = len(content & own), _is_whole(wanted, tokens)
        return Share(
            found, len(content), whole, len(own - self._asked | content & own), short, lacks
        )

    def rank_in(self, texts: Iterable[str | None], least: float) -> int:
        """Return the rank of the first text that has enough of a gold answer; 0 if none has."""
        for rank, text in enumerate(texts, start=1):
            if text is not None and self.share(text).reaches(least):
                return rank
        return 0


def _is_whole(wanted: Sequence[str], tokens: Sequence[str]) -> bool:
    """Whether a gold answer stands in a text; `no`, which stands in many, comes first in it."""
    if tuple(wanted) in _YES_OR_NO:
        return tuple(tokens[:1]) == tuple(wanted)
    return holds_run(tokens, wanted)


@functools.cache
def _analyzer() -> Analyzer:
    return Analyzer()


@functools.lru_cache(maxsize=_REMEMBERED)  # passages come up again from query to query
def terms(text: str) -> frozenset[str]:
    """Return the content words of a text as stems."""
    return terms_of(text, _analyzer())


def refuses(answer: str) -> str | None:
    """Return how an answer refuses, for a sentence about it; None if it does not.

    It does where it is empty, or its first sentence says that there is no answer.

    Example:
        >>> refuses("I don't know."), refuses(" "), refuses("Paris. The texts do not say more.")
        ('declines', 'is empty', None)
    """
    if not answer.strip():
        return "is empty"
    first = next(iter(sentences(answer)), answer)
    return "declines" if is_refusal(first) or first.strip(" .").lower() == "none" else None


def has_no_answer(gold: Sequence[str]) -> bool:
    """Whether the gold answers of a question say that there is none."""
    return bool(gold) and all(not text.strip() or is_refusal(text) for text in gold)
