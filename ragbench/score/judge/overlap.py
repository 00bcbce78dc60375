"""Verdicts on claims by word overlap: the grounded rubrics of `type: lexical`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ragbench.score.judge.base import Item
from ragbench.score.judge.claims import Claim, claims_of, numbers_in, terms_of
from ragbench.score.judge.grounding import Grounding, Ruling
from ragbench.text.analyze import Analyzer


class Grounded(NamedTuple):
    """Verdicts on an answer and one reference, with what they are about."""

    found: Grounding
    """The verdicts."""
    lines: tuple[str, ...]
    """The verdicts in words, a line for each claim."""


def ground(item: Item, reference: str, analyze: Analyzer, threshold: float) -> Grounded:
    """Check the sentences of an answer and of a reference against the passages and each other.

    A source supports a sentence where it has `threshold` of its content words and all of its
    numbers; no source contradicts one: words do not tell. Reference and answer are read together
    with the question, which they need not repeat, but at least one word must be their own.
    """
    asked = terms_of(item.question or "", analyze)
    passages = [terms_of(text, analyze) for text in item.contexts or []]
    claims, gold = claims_of(item.answer or "", analyze), claims_of(reference, analyze)

    def rows(checked: Sequence[Claim]) -> list[list[Ruling]]:
        return [[_ruling(c.terms, text, threshold) for text in passages] for c in checked]

    def against(checked: Sequence[Claim], text: str) -> list[Ruling]:
        own = terms_of(text, analyze)
        return [_ruling(c.terms, own | asked if c.terms & own else own, threshold) for c in checked]

    found = Grounding(
        answer_passages=rows(claims),
        reference_passages=rows(gold),
        answer_reference=against(claims, reference),
        reference_answer=against(gold, item.answer or ""),
        sentences=range(len(claims)),
        cited=[claim.cited for claim in claims],
    )
    return Grounded(
        found, (*_answer_lines(claims, found, bool(reference)), *_reference_lines(gold, found))
    )


def _ruling(terms: frozenset[str], source: frozenset[str], threshold: float) -> Ruling:
    has_numbers = numbers_in(terms) <= source
    enough = len(terms & source) / len(terms) >= threshold
    return "supported" if has_numbers and enough else "not_mentioned"


def _answer_lines(claims: Sequence[Claim], found: Grounding, has_reference: bool) -> list[str]:
    lines = []
    for number, (claim, row, right) in enumerate(
        zip(claims, found.answer_passages, found.right, strict=True), start=1
    ):
        cited = f", cites {_named(claim.cited)}" if claim.cited else ""
        reference = ", in the reference" if right else ", not in the reference"
        gold = reference if has_reference else ""
        lines.append(f"claim {number}: {_where(row)}{gold}{cited}: {claim.text}")
    return lines


def _reference_lines(gold: Sequence[Claim], found: Grounding) -> list[str]:
    lines = []
    for number, (claim, row, recalled) in enumerate(
        zip(gold, found.reference_passages, found.recalled, strict=True), start=1
    ):
        answer = "in the answer" if recalled else "not in the answer"
        lines.append(f"reference claim {number}: {_where(row)}, {answer}: {claim.text}")
    return lines


def _where(row: Sequence[Ruling]) -> str:
    supporting = [number for number, ruling in enumerate(row, start=1) if ruling == "supported"]
    return f"supported by {_named(supporting)}" if supporting else "supported by no passage"


def _named(numbers: Sequence[int] | frozenset[int]) -> str:
    return f"passage {', '.join(map(str, sorted(numbers)))}"
