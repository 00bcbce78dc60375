"""Sentences of an answer: what they cite, and what they claim for judges without a model.

Markers that cite are `[1]`, `[2, 3]`, `[1-3]`; the first passage is 1.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ragbench.score.judge.base import Item, Rubric
from ragbench.score.judge.grounding import (
    FORMULAS,
    WHY_NOT,
    Cell,
    Grounding,
    Side,
    best_verdict,
    grounded_verdict,
)
from ragbench.text.analyzer import Analyzer
from ragbench.text.tokenize import sentences
from ragbench.types.scores import Cause, Ruling, Verdict

_NUMBERS = r"\^?\d{1,3}(?:\s*[,;\u2013-]\s*\^?\d{1,3})*"
# from the first of some blanks on: from each of them it would look through all that follow
_MARKER = re.compile(rf"(?<!\s)\s*(?:\[\s*({_NUMBERS})\s*\]|\u3010\s*({_NUMBERS})\s*\u3011)")
_PART = re.compile(r"\^?(\d{1,3})(?:\s*[\u2013-]\s*\^?(\d{1,3}))?")
_LEADING = re.compile(rf"^(?:{_MARKER.pattern})+")
# a marker behind the full stop: a space after it lets the sentence end before the marker
_GLUED = re.compile(rf"(?<=[.!?])(?=(?:{_MARKER.pattern})+(?:\s|$))")


class CitedSentence(NamedTuple):
    """A sentence with the passages that it cites."""

    text: str
    """Without its markers."""
    cited: frozenset[int]
    """Passages, counted from 1; also numbers that no passage has."""


def cited_sentences(text: str) -> list[CitedSentence]:
    """Split a text into sentences, each with the passages that it cites.

    Markers may stand before the full stop or behind it: those at the start of a sentence belong
    to the sentence before. A text without markers cites nothing.
    """
    return [CitedSentence(plain, frozenset(cited)) for plain, cited in _sentences(text)]


def first_cited(text: str) -> list[tuple[str, int | None]]:
    """Split a text as `cited_sentences` does, each sentence with the passage that it cites first.

    Example:
        >>> first_cited("It is red [3, 1]. It is old.")
        [('It is red.', 3), ('It is old.', None)]
    """
    return [(plain, cited[0] if cited else None) for plain, cited in _sentences(text)]


def _sentences(text: str) -> list[tuple[str, list[int]]]:
    """The sentences without their markers, and what they cite, in the order of the text."""
    found: list[tuple[str, list[int]]] = []
    for sentence in sentences(_GLUED.sub(" ", text)):
        leading = _LEADING.match(sentence)
        if leading and found:
            found[-1][1].extend(markers(leading.group()))
            sentence = sentence[leading.end() :].strip()
        plain = without_markers(sentence)
        if plain:
            found.append((plain, markers(sentence)))
    return found


def markers(text: str) -> list[int]:
    """Return the numbers that a text cites, in order."""
    found: list[int] = []
    for marker in _MARKER.finditer(text):
        for part in _PART.finditer(marker.group(1) or marker.group(2)):
            first = int(part.group(1))
            found.extend(range(first, int(part.group(2) or first) + 1))
    return found


def without_markers(text: str) -> str:
    """Return a text without its markers, stripped."""
    return _MARKER.sub("", text).strip()


_REFUSAL_LENGTH = 400  # characters; the patterns take quadratic time
_ITEM = re.compile(r"^(?:[-*•]|\(?\d{1,3}[.)])\s+")  # the mark of an item in a list claims nothing

_WHY_NOT = {
    **WHY_NOT,
    Cause.NO_CLAIMS: "there is no claim to check: the text is empty or declines to answer",
}


class Claim(NamedTuple):
    """A sentence and what it is about."""

    text: str
    terms: frozenset[str]
    """Its content words, as stems."""
    cited: frozenset[int] = frozenset()
    """The passages that it cites, counted from 1."""


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


Pair = tuple[str, str]
"""A source and a claim."""


class Reader:
    """Looks up what is known of a pair, and notes which pairs were looked up."""

    def __init__(self, known: Mapping[Pair, Ruling]) -> None:
        self._known = known
        self.read: dict[Pair, None] = {}

    def of_passage(self, claim: Claim, text: str) -> Ruling:
        """Return what a passage says of a claim; nothing where it is not known yet."""
        if not text.strip():
            return "not_mentioned"
        pair = (text, without_item_mark(claim.text))
        self.read[pair] = None
        return self._known.get(pair, "not_mentioned")

    def of_other(self, claim: Claim, text: str, question: str) -> Ruling:
        """Return what an answer or a reference says of it, read after its question."""
        return self.of_passage(claim, f"{question} {text}".strip() if text.strip() else "")


def judge_sentences(item: Item, rubric: Rubric, analyze: Analyzer, reader: Reader) -> Verdict:
    """Return a number of `FORMULAS`, with the reference that gives the best one."""
    asked = FORMULAS[rubric.formula or ""].sides
    verdicts = []
    for reference in item.references or [""]:
        found, lines = _ground(item, reference, analyze, reader, asked)
        verdicts.append(grounded_verdict(rubric, found, lines, _WHY_NOT))
    return best_verdict(rubric, verdicts)


def _ground(
    item: Item, reference: str, analyze: Analyzer, reader: Reader, sides: Collection[Side]
) -> tuple[Grounding, list[str]]:
    """Check the sentences of an answer and of a reference against the passages and each other.

    The verdicts come in words as well, a line for each claim.
    """
    question, answer = item.question or "", item.answer or ""
    claims, gold = claims_of(answer, analyze), claims_of(reference, analyze)

    def rows(side: Side, checked: Sequence[Claim]) -> list[list[Ruling]]:
        if side not in sides:
            return []
        return [[reader.of_passage(c, text) for text in item.contexts or []] for c in checked]

    def against(side: Side, checked: Sequence[Claim], text: str) -> list[Ruling]:
        return [reader.of_other(c, text, question) for c in checked] if side in sides else []

    found = Grounding(
        answer_passages=rows("answer_passages", claims),
        reference_passages=rows("reference_passages", gold),
        answer_reference=against("answer_reference", claims, reference),
        reference_answer=against("reference_answer", gold, answer),
        sentences=range(len(claims)),
        cited=[claim.cited for claim in claims],
        claims=[claim.text for claim in claims],
        reference_claims=[claim.text for claim in gold],
    )
    whose = {side.partition("_")[0] for side in sides}
    lines = _answer_lines(claims, found, bool(reference)) if "answer" in whose else []
    return found, [*lines, *_reference_lines(gold, found)]


def _answer_lines(claims: Sequence[Claim], found: Grounding, has_reference: bool) -> list[str]:
    lines = []
    for n, claim in enumerate(claims):
        said = [_where(found.answer_passages[n])] if found.answer_passages else []
        if has_reference and found.answer_reference:
            said.append("in the reference" if found.right[n] else "not in the reference")
        if claim.cited:
            said.append(f"cites {_named(claim.cited)}")
        lines.append(f"claim {n + 1}: {', '.join(said)}: {claim.text}")
    return lines


def _reference_lines(gold: Sequence[Claim], found: Grounding) -> list[str]:
    if not (found.reference_passages or found.reference_answer):
        return []
    lines = []
    for n, claim in enumerate(gold):
        said = [_where(found.reference_passages[n])] if found.reference_passages else []
        if found.reference_answer:
            said.append("in the answer" if found.recalled[n] else "not in the answer")
        lines.append(f"reference claim {n + 1}: {', '.join(said)}: {claim.text}")
    return lines


def _where(row: Sequence[Cell]) -> str:
    said = []
    for ruling in ("supported", "contradicted"):
        passages = [number for number, found in enumerate(row, start=1) if found == ruling]
        if passages:
            said.append(f"{ruling} by {_named(passages)}")
    return ", ".join(said) or "supported by no passage"


def _named(numbers: Sequence[int] | frozenset[int]) -> str:
    return f"passage {', '.join(map(str, sorted(numbers)))}"
