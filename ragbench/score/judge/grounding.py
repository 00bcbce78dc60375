"""Numbers made of verdicts on claims: faithfulness, hallucination, context recall and the rest.

The claims of an answer and of a reference are checked once, against each passage and against each
other. Every number here is a count over these verdicts, so that asking for one more costs no
further call. The set of numbers is that of RAGChecker (Ru et al., 2024), with citations after
ALCE (Gao et al., 2023) on top.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Literal

from ragbench.score.judge.base import Rubric, not_applicable
from ragbench.types.scores import Cause, JudgedClaim, Ruling, Verdict

# What a passage says of one claim; `supported_together`: it takes the others so marked as well.
Cell = Literal["supported", "supported_together", "contradicted", "not_mentioned"]

# Whose claims are checked against what.
Side = Literal["answer_passages", "reference_passages", "answer_reference", "reference_answer"]


@dataclass(frozen=True, slots=True)
class Grounding:
    """Verdicts on the claims of one answer and one reference; empty where none was asked for.

    Attributes:
        answer_passages: A row per claim of the answer, a column per passage.
        reference_passages: A row per claim of the reference, a column per passage.
        answer_reference: Per claim of the answer, what the reference says of it.
        reference_answer: Per claim of the reference, what the answer says of it.
        sentences: Per claim of the answer, the sentence that it comes from.
        cited: Per claim of the answer, the passages that its sentence cites, counted from 1.
        claims: The claims of the answer themselves.
        reference_claims: Those of the reference.
    """

    answer_passages: Sequence[Sequence[Cell]] = ()
    reference_passages: Sequence[Sequence[Cell]] = ()
    answer_reference: Sequence[Ruling] = ()
    reference_answer: Sequence[Ruling] = ()
    sentences: Sequence[int] = ()
    cited: Sequence[frozenset[int]] = ()
    claims: Sequence[str] = ()
    reference_claims: Sequence[str] = ()

    @property
    def grounded(self) -> list[bool]:
        """Per claim of the answer, whether passages support it, one or several together."""
        return [_backed(row) for row in self.answer_passages]

    @property
    def right(self) -> list[bool]:
        """Per claim of the answer, whether the reference supports it."""
        return [ruling == "supported" for ruling in self.answer_reference]

    @property
    def recalled(self) -> list[bool]:
        """Per claim of the reference, whether the answer supports it."""
        return [ruling == "supported" for ruling in self.reference_answer]

    @property
    def findable(self) -> list[bool]:
        """Per claim of the reference, whether passages support it, one or several together."""
        return [_backed(row) for row in self.reference_passages]


@dataclass(frozen=True, slots=True)
class Formula:
    """One number, and the verdicts that it is made of.

    Attributes:
        sides: Whose claims must have been checked against what.
        score: The number, 0..1; None where it does not apply.
        undefined: Why it does not apply where it does not.
    """

    sides: tuple[Side, ...]
    score: Callable[[Grounding], float | None]
    undefined: Cause = Cause.NO_CLAIMS

    @property
    def needs(self) -> tuple[str, ...]:
        """What an item must have."""
        words = {word for side in self.sides for word in side.split("_")}
        named = {"answer": "answer", "passages": "contexts", "reference": "reference"}
        return tuple(need for word, need in named.items() if word in words)


def _share(marks: Iterable[bool]) -> float | None:
    marks = [*marks]
    return sum(marks) / len(marks) if marks else None


def _of_pairs(found: Grounding, counts: Callable[[bool, bool], bool]) -> float | None:
    """Share of the answer's claims that count, by whether they are grounded and whether right."""
    return _share(counts(*pair) for pair in zip(found.grounded, found.right, strict=True))


def _claim_f1(found: Grounding) -> float | None:
    precision, recall = _share(found.right), _share(found.recalled)
    if precision is None or recall is None:
        return None
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _backed(cells: Iterable[Cell]) -> bool:
    """Whether a passage supports a claim, or has a part in it."""
    return any(cell in ("supported", "supported_together") for cell in cells)


def _ruling(cells: Sequence[Cell]) -> Ruling:
    """What passages say of a claim, taken together."""
    if _backed(cells):
        return "supported"
    return "contradicted" if "contradicted" in cells else "not_mentioned"


def _citation_precision(found: Grounding) -> float | None:
    """A citation counts where its passage supports a claim of its sentence, or has a part in it."""
    citations: dict[tuple[int, int], bool] = {}
    claims = zip(found.answer_passages, found.sentences, found.cited, strict=True)
    for row, sentence, passages in claims:
        for cited in passages:
            key = (sentence, cited)
            named = _backed(row[cited - 1 : cited]) if cited > 0 else False
            citations[key] = citations.get(key, False) or named
    return _share(citations.values())


def _citation_recall(found: Grounding) -> float | None:
    """A claim counts where the passages that its sentence cites support it."""
    claims = zip(found.answer_passages, found.cited, strict=True)
    return _share(_backed_by(row, cited) for row, cited in claims)


def _backed_by(row: Sequence[Cell], cited: frozenset[int]) -> bool:
    """Whether a cited passage supports the claim, or all are cited that do so together."""
    alone = {number for number, cell in enumerate(row, start=1) if cell == "supported"}
    needed = {number for number, cell in enumerate(row, start=1) if cell == "supported_together"}
    return bool(alone & cited or (needed and needed <= cited))


_AP: tuple[Side, ...] = ("answer_passages",)
_RP: tuple[Side, ...] = ("reference_passages",)
_AR: tuple[Side, ...] = ("answer_reference",)
_RA: tuple[Side, ...] = ("reference_answer",)

# Name in a rubric's `formula` -> how the number is made.
FORMULAS: Mapping[str, Formula] = {
    "faithfulness": Formula(_AP, lambda found: _share(found.grounded)),
    # inconsistent is a claim that a passage contradicts and none supports
    "factual_consistency": Formula(
        _AP,
        lambda found: _share(
            _backed(row) or "contradicted" not in row for row in found.answer_passages
        ),
    ),
    "hallucination": Formula(
        _AP + _AR, lambda found: _of_pairs(found, lambda grounded, right: not (grounded or right))
    ),
    "self_knowledge": Formula(
        _AP + _AR, lambda found: _of_pairs(found, lambda grounded, right: right and not grounded)
    ),
    "noise_sensitivity": Formula(
        _AP + _AR, lambda found: _of_pairs(found, lambda grounded, right: grounded and not right)
    ),
    # a passage counts where it supports at least one claim of the reference, or has a part in it
    "context_precision": Formula(
        _RP,
        lambda found: _share(
            _backed(column) for column in zip(*found.reference_passages, strict=True)
        ),
    ),
    "context_recall": Formula(_RP, lambda found: _share(found.findable)),
    "context_utilization": Formula(
        _RP + _RA,
        lambda found: _share(compress(found.recalled, found.findable)),
        Cause.NOTHING_TO_USE,
    ),
    "claim_precision": Formula(_AR, lambda found: _share(found.right)),
    "claim_recall": Formula(_RA, lambda found: _share(found.recalled)),
    "claim_f1": Formula(_AR + _RA, _claim_f1),
    "citation_precision": Formula(_AP, _citation_precision, Cause.NO_CITATIONS),
    "citation_recall": Formula(_AP, _citation_recall),
}

# What a verdict says where a number does not apply.
WHY_NOT = {
    Cause.NO_CLAIMS: "there is no claim to check",
    Cause.NO_CITATIONS: "the answer cites no passage",
    Cause.NOTHING_TO_USE: "no passage has anything of the reference",
}


def grounded_verdict(
    rubric: Rubric, found: Grounding, lines: Iterable[str], why_not: Mapping[Cause, str] = WHY_NOT
) -> Verdict:
    """Return the verdict of a rubric over claims, with its reasons line by line."""
    score = apply_formula(rubric.formula or "", found)
    if isinstance(score, Cause):
        return not_applicable(score, "\n".join([why_not[score], *lines]))
    return Verdict(score, reasoning="\n".join(lines), claims=tuple(_judged(rubric, found)))


def _judged(rubric: Rubric, found: Grounding) -> Iterator[JudgedClaim]:
    """The claims that a rubric asks about, with the rulings on each."""
    sides = FORMULAS[rubric.formula or ""].sides
    parts: Sequence[tuple[Literal["answer", "reference"], Side, Side, Sequence[str]]] = (
        ("answer", "answer_passages", "answer_reference", found.claims),
        ("reference", "reference_passages", "reference_answer", found.reference_claims),
    )
    for owner, passages, other, claims in parts:
        for n, text in enumerate(claims if {passages, other} & {*sides} else ()):
            row = getattr(found, passages)[n] if passages in sides else None
            numbered = list(enumerate(row or (), start=1))
            yield JudgedClaim(
                text=text,
                whose=owner,
                ruling=None if row is None else _ruling(row),
                passages=tuple(number for number, cell in numbered if _backed([cell])),
                against=tuple(number for number, cell in numbered if cell == "contradicted"),
                other=getattr(found, other)[n] if other in sides else None,
            )


def best_verdict(rubric: Rubric, verdicts: Sequence[Verdict]) -> Verdict:
    """Return that of the reference that gives the best number; the first where none has one."""
    sign = -1 if rubric.direction == "lower" else 1
    scored = [verdict for verdict in verdicts if verdict.score is not None]
    return max(scored, key=lambda verdict: sign * (verdict.score or 0.0), default=verdicts[0])


def apply_formula(name: str, found: Grounding) -> float | Cause:
    """Return a number made of verdicts, or why it does not apply.

    Example:
        Two claims, two passages; the first claim stands in the second passage.

        >>> rows = [["not_mentioned", "supported"], ["not_mentioned", "not_mentioned"]]
        >>> found = Grounding(answer_passages=rows, answer_reference=["supported", "contradicted"])
        >>> apply_formula("faithfulness", found), apply_formula("hallucination", found)
        (0.5, 0.5)
        >>> apply_formula("context_recall", found).word
        'no_claims'

    References:
        Ru et al. (2024), RAGChecker: A Fine-grained Framework for Diagnosing RAG.
        Gao et al. (2023), Enabling Large Language Models to Generate Text with Citations.
    """
    formula = FORMULAS[name]
    score = formula.score(found)
    if score is not None:
        return score
    checked = found.reference_passages if "reference_passages" in formula.sides else ()
    rows = found.answer_passages if "answer_passages" in formula.sides else checked
    return formula.undefined if rows else Cause.NO_CLAIMS
