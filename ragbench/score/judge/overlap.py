"""Verdicts on claims by word overlap: the grounded rubrics of `type: lexical`."""

from __future__ import annotations

from ragbench.score.judge.claims import Claim, numbers_in, terms_of
from ragbench.score.judge.grounding import Ruling
from ragbench.text.analyze import Analyzer


class Overlap:
    """Finds the words of a claim in a text.

    A text supports a claim where it has `threshold` of its content words and all of its numbers;
    none contradicts one: words do not tell. Reference and answer are read together with the
    question, which they need not repeat, but at least one word must be their own. Keeps the terms
    of what it has read: one for each item.
    """

    def __init__(self, analyze: Analyzer, threshold: float) -> None:
        self._analyze, self._threshold = analyze, threshold
        self._read: dict[str, frozenset[str]] = {}

    def of_passage(self, claim: Claim, text: str) -> Ruling:
        """Return what a passage says of a claim."""
        return self._ruling(claim.terms, self._terms(text))

    def of_other(self, claim: Claim, text: str, question: str) -> Ruling:
        """Return what an answer or a reference says of a claim."""
        own = self._terms(text)
        return self._ruling(claim.terms, own | self._terms(question) if claim.terms & own else own)

    def _terms(self, text: str) -> frozenset[str]:
        if text not in self._read:
            self._read[text] = terms_of(text, self._analyze)
        return self._read[text]

    def _ruling(self, terms: frozenset[str], source: frozenset[str]) -> Ruling:
        has_numbers = numbers_in(terms) <= source
        enough = len(terms & source) / len(terms) >= self._threshold
        return "supported" if has_numbers and enough else "not_mentioned"
