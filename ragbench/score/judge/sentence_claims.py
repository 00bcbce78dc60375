"""The rubrics over claims for judges that ask nobody: sentences are the claims."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from ragbench.score.judge.base import Item, Rubric, not_applicable
from ragbench.score.judge.claims import Claim, claims_of
from ragbench.score.judge.grounding import FORMULAS, Grounding, Ruling, Side, apply_formula
from ragbench.text.analyze import Analyzer
from ragbench.types.scores import Cause, Verdict

WHY_NOT = {
    Cause.NO_CLAIMS: "there is no claim to check: the text is empty or declines to answer",
    Cause.NO_CITATIONS: "the answer cites no passage",
    Cause.NOTHING_TO_USE: "no passage has anything of the reference",
}
ALL_SIDES: tuple[Side, ...] = (
    "answer_passages",
    "reference_passages",
    "answer_reference",
    "reference_answer",
)


class Reader(Protocol):
    """Says what a text says of a claim."""

    def of_passage(self, claim: Claim, text: str) -> Ruling:
        """Return what a passage says of it."""
        ...

    def of_other(self, claim: Claim, text: str, question: str) -> Ruling:
        """Return what an answer or a reference, given to a question, says of it."""
        ...


class _Grounded(NamedTuple):
    """Verdicts on an answer and one reference, with what they are about."""

    found: Grounding
    """The verdicts."""
    lines: tuple[str, ...]
    """The verdicts in words, a line for each claim."""


def judge_sentences(
    item: Item,
    rubric: Rubric,
    analyze: Analyzer,
    reader: Reader,
    *,
    sides: Collection[Side] | None = None,
) -> Verdict:
    """Return a number of `FORMULAS`, with the reference that gives the best one.

    Args:
        item: What is judged.
        rubric: A rubric over claims.
        analyze: Tells a sentence that claims something from one that does not.
        reader: Checks the claims.
        sides: What the reader is asked; default: what the number is made of.
    """
    formula = rubric.formula or ""
    asked = FORMULAS[formula].sides if sides is None else sides
    verdicts = []
    for reference in item.references or [""]:
        found, lines = _ground(item, reference, analyze, reader, asked)
        score = apply_formula(formula, found)
        if isinstance(score, Cause):
            verdicts.append(not_applicable(score, "\n".join([WHY_NOT[score], *lines])))
        else:
            verdicts.append(Verdict(score, reasoning="\n".join(lines)))
    sign = -1 if rubric.direction == "lower" else 1
    scored = [verdict for verdict in verdicts if verdict.score is not None]
    return max(scored, key=lambda verdict: sign * (verdict.score or 0.0), default=verdicts[0])


def _ground(
    item: Item, reference: str, analyze: Analyzer, reader: Reader, sides: Collection[Side]
) -> _Grounded:
    """Check the sentences of an answer and of a reference against the passages and each other."""
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
    )
    whose = {side.partition("_")[0] for side in sides}
    lines = _answer_lines(claims, found, bool(reference)) if "answer" in whose else []
    return _Grounded(found, (*lines, *_reference_lines(gold, found)))


def _answer_lines(claims: Sequence[Claim], found: Grounding, has_reference: bool) -> list[str]:
    """A line for each claim of the answer."""
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
    """A line for each claim of the reference that was checked."""
    if not (found.reference_passages or found.reference_answer):
        return []
    lines = []
    for n, claim in enumerate(gold):
        said = [_where(found.reference_passages[n])] if found.reference_passages else []
        if found.reference_answer:
            said.append("in the answer" if found.recalled[n] else "not in the answer")
        lines.append(f"reference claim {n + 1}: {', '.join(said)}: {claim.text}")
    return lines


def _where(row: Sequence[Ruling]) -> str:
    said = []
    for ruling in ("supported", "contradicted"):
        passages = [number for number, found in enumerate(row, start=1) if found == ruling]
        if passages:
            said.append(f"{ruling} by {_named(passages)}")
    return ", ".join(said) or "supported by no passage"


def _named(numbers: Sequence[int] | frozenset[int]) -> str:
    return f"passage {', '.join(map(str, sorted(numbers)))}"
