"""Sentences of an answer with their citations, and rulings on them by local models.

The first passage has number 1; `markers` has the forms of citations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple, Protocol

from ragbench.score.judge import grounding
from ragbench.score.judge.base import JudgedItem, Rubric
from ragbench.score.judge.markers import MARKER, CitationForms, in_brackets, with_code
from ragbench.text.analyzer import Analyzer
from ragbench.text.refusals import is_refusal
from ragbench.text.tokenize import sentences
from ragbench.types.scores import Ruling, Verdict

_PART = re.compile(r"(\d{1,3})(?:-(\d{1,3}))?")
_LEADING = re.compile(rf"^(?:{MARKER.pattern})+")
# a marker right after the full stop: with a space before it the sentence ends before the marker
_GLUED = re.compile(rf"(?<=[.!?])(?=(?:{MARKER.pattern})+(?:\s|$))")


class CitedSentence(NamedTuple):
    """Sentence without its citation markers, and the numbers that it cites.

    `cited_sentences` and `claims_of` return it.

    Attributes:
        text: The sentence.
        cited: Cited numbers in order, 1 for the first passage; a number may have no passage, as 0.
    """

    text: str
    cited: tuple[int, ...] = ()


class _HasText(Protocol):
    @property
    def text(self) -> str: ...


def claim_texts(claims: Iterable[_HasText]) -> list[str]:
    """Return the texts of claims, or of sentences that count as claims."""
    return [claim.text for claim in claims]


def cited_sentences(text: str, forms: CitationForms = "brackets") -> list[CitedSentence]:
    """Split a text into sentences with the passage numbers that each cites.

    A marker may stand before or after the full stop: markers at the start of a sentence belong to
    the sentence before, or to the first one if there is none before. Sentences of markers alone are
    dropped; an empty text has no sentence. Numbers are those of the text, not checked.

    Example:
        >>> [tuple(sentence) for sentence in cited_sentences("It is red [3, 1]. It is old.")]
        [('It is red.', (3, 1)), ('It is old.', ())]
    """
    cited: list[CitedSentence] = []
    for sentence in sentences(_GLUED.sub(" ", in_brackets(text, forms))):
        leading = _LEADING.match(sentence)
        if leading and cited:
            cited[-1] = cited[-1]._replace(cited=(*cited[-1].cited, *_numbers(leading.group())))
            sentence = sentence[leading.end() :].strip()
        if plain := _plain(sentence):
            cited.append(CitedSentence(plain, tuple(_numbers(sentence))))
    return cited


def markers(text: str, forms: CitationForms = "brackets") -> list[int]:
    """Return the numbers that a text cites, in order, with repetitions; `[1-3]` cites three.

    A falling range such as `[3-1]` cites nothing, nor does a number of four digits, as a year;
    `[0]` cites 0.
    """
    return _numbers(in_brackets(text, forms))


def _numbers(text: str) -> list[int]:
    numbers: list[int] = []
    for marker in MARKER.finditer(text):
        for part in _PART.finditer(marker.group(1)):
            first = int(part.group(1))
            numbers.extend(range(first, int(part.group(2) or first) + 1))
    return numbers


def without_markers(text: str, forms: CitationForms = "brackets") -> str:
    """Return a text without its citation markers and without white space at its ends."""
    return _plain(in_brackets(text, forms))


def _plain(text: str) -> str:
    return with_code(MARKER.sub("", text).strip())


_ITEM = re.compile(r"^(?:[-*•]|\(?\d{1,3}[.)])\s+")  # a list mark: its number is no claim


def claims_of(
    text: str, analyze: Analyzer, forms: CitationForms = "brackets"
) -> list[CitedSentence]:
    """Return the sentences of a text that have content words and are not refusals.

    `analyze` returns the content words of a text. Markers such as [1] are citations, and are no
    part of the sentences; list marks stay. An empty text gives an empty list.
    """
    sentences: list[CitedSentence] = []
    for sentence in cited_sentences(text, forms):
        if any(analyze(without_item_mark(sentence.text))) and not is_refusal(sentence.text):
            sentences.append(sentence)
    return sentences


def without_item_mark(sentence: str) -> str:
    """Return a sentence without a list mark at its start, such as `2.` or `-`.

    Example:
        >>> without_item_mark("2. It is red."), without_item_mark("1932 it opened.")
        ('It is red.', '1932 it opened.')
    """
    return _ITEM.sub("", sentence)


# Text of a source, and a claim that is checked against it.
Pair = tuple[str, str]


# Function that returns the ruling of a source on a claim.
Rule = Callable[[Pair], Ruling]


def judge_sentences(
    item: JudgedItem,
    rubric: Rubric,
    analyze: Analyzer,
    rule: Rule,
    forms: CitationForms = "brackets",
) -> Verdict:
    """Return the verdict of a rubric over claims, whose claims are the sentences of the texts.

    `rule((source, sentence))` returns the ruling of a source on a sentence: supported, contradicted
    or not_mentioned. `analyze` returns the content words of a text; sentences without any claim
    nothing; citations are read in `forms`. Of several references the one with the best score
    counts; without a reference no claim of the answer is in it (`not_mentioned`), so that the
    caller refuses rubrics that need one. `not_applicable` if the formula has no value. Errors of
    `rule` are passed on. Raises KeyError for a formula that is not in `FORMULAS`.
    """
    sides = grounding.FORMULAS[rubric.formula or ""].sides
    verdicts = []
    for reference in item.references or [""]:
        checked = _ground(item, reference, analyze, rule, sides, forms)
        verdicts.append(grounding.grounded_verdict(rubric, checked))
    return grounding.best_verdict(rubric, verdicts)


def _ground(
    item: JudgedItem,
    reference: str,
    analyze: Analyzer,
    rule: Rule,
    sides: Collection[grounding.Side],
    forms: CitationForms,
) -> grounding.Grounding:
    """Return the rulings on the sentences of answer and reference."""
    question, answer = item.question or "", item.answer or ""
    claims, gold = claims_of(answer, analyze, forms), claims_of(reference, analyze, forms)

    def ruling(claim: CitedSentence, source: str) -> Ruling:
        # an empty source needs no model
        if not source.strip():
            return "not_mentioned"
        return rule((source, without_item_mark(claim.text)))

    def rows(side: grounding.Side, checked: Sequence[CitedSentence]) -> list[list[Ruling]]:
        if side not in sides:
            return []
        rows = []
        for claim in checked:
            rows.append([ruling(claim, text) for text in item.contexts or []])
        return rows

    def against(side: grounding.Side, checked: Sequence[CitedSentence], text: str) -> list[Ruling]:
        # after its question, which an answer need not repeat
        source = f"{question} {text}".strip() if text.strip() else ""
        return [ruling(claim, source) for claim in checked] if side in sides else []

    return grounding.Grounding(
        answer_passages=rows("answer_passages", claims),
        reference_passages=rows("reference_passages", gold),
        answer_reference=against("answer_reference", claims, reference),
        reference_answer=against("reference_answer", gold, answer),
        sentences=range(len(claims)),
        cited=[frozenset(claim.cited) for claim in claims],
        claims=claim_texts(claims),
        reference_claims=claim_texts(gold),
    )
