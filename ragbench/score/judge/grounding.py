"""Scores computed from verdicts on claims: faithfulness, hallucination, context recall and others.

The claims of an answer and of a reference are checked once, against each passage and against the
other text. Every score is a share of these verdicts, so a further score costs no further request.
The scores are those of RAGChecker (Ru et al., 2024), and citations as in ALCE (Gao et al., 2023).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Literal

from ragbench.score.judge.base import Rubric, not_applicable
from ragbench.types.lookups import select_keys
from ragbench.types.scores import Cause, JudgedClaim, Ruling, Verdict

# Verdict of a passage on one claim; `supported_together`: only with the other passages so marked.
Cell = Literal["supported", "supported_together", "contradicted", "not_mentioned"]

# Text whose claims are checked, and the text that they are checked against.
Side = Literal["answer_passages", "reference_passages", "answer_reference", "reference_answer"]


@dataclass(frozen=True, slots=True)
class Grounding:
    """Verdicts on the claims of one answer and one reference; unchecked sides are empty.

    A verdict of a passage is `supported`, `supported_together` (only with the other passages so
    marked), `contradicted` or `not_mentioned`; a ruling is one of these without
    `supported_together`. Judges of claims make it; lengths are not checked.

    Attributes:
        answer_passages: Verdicts of passages (columns) on the claims of the answer (rows).
        reference_passages: Verdicts of passages (columns) on the claims of the reference (rows).
        answer_reference: Ruling of the reference on each claim of the answer.
        reference_answer: Ruling of the answer on each claim of the reference.
        sentences: Number of the sentence that each claim of the answer comes from, from 0.
        cited: Passages that the sentence of each claim of the answer cites, counted from 1.
        claims: Texts of the claims of the answer.
        reference_claims: Texts of the claims of the reference.
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
        """True for each claim of the answer that one or several passages support.

        The result is empty if that side is unchecked.
        """
        return [_backed(row) for row in self.answer_passages]

    @property
    def right(self) -> list[bool]:
        """True for each claim of the answer that the reference supports.

        The result is empty if that side is unchecked.
        """
        return [ruling == "supported" for ruling in self.answer_reference]

    @property
    def recalled(self) -> list[bool]:
        """True for each claim of the reference that the answer supports.

        The result is empty if that side is unchecked.
        """
        return [ruling == "supported" for ruling in self.reference_answer]

    @property
    def findable(self) -> list[bool]:
        """True for each claim of the reference that one or several passages support.

        The result is empty if that side is unchecked.
        """
        return [_backed(row) for row in self.reference_passages]


@dataclass(frozen=True, slots=True)
class Formula:
    """Formula of one score over the verdicts on claims; `FORMULAS` maps a name to it.

    Attributes:
        sides: Verdicts that the formula reads: names of the first four fields of `Grounding`.
        score: Function that returns the score, 0 to 1, or None if nothing can be counted.
        undefined: Cause for a None, if there was a claim to check.
    """

    sides: tuple[Side, ...]
    score: Callable[[Grounding], float | None]
    undefined: Cause = Cause.NO_CLAIMS

    @property
    def needs(self) -> tuple[str, ...]:
        """Parts of an item that the formula needs: answer, contexts, reference."""
        words = set()
        for side in self.sides:
            words.update(side.split("_"))
        needs = {"answer": "answer", "passages": "contexts", "reference": "reference"}
        return tuple(select_keys(needs, words).values())


def _share(marks: Iterable[bool]) -> float | None:
    """Return the share of marks that are True; it is None without marks."""
    marks = [*marks]
    return sum(marks) / len(marks) if marks else None


def _pair_share(grounding: Grounding, counts: Callable[[bool, bool], bool]) -> float | None:
    """Return the share of the answer's claims for which `counts(grounded, right)` is true."""
    return _share(counts(*pair) for pair in zip(grounding.grounded, grounding.right, strict=True))


def _claim_f1(grounding: Grounding) -> float | None:
    precision, recall = _share(grounding.right), _share(grounding.recalled)
    if recall is None:
        return None
    # an answer without claims, such as a refusal, has none of the claims of the reference
    if precision is None:
        return 0.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _backed(cells: Iterable[Cell]) -> bool:
    """Return True if a cell supports the claim, alone or together with others."""
    return any(cell in ("supported", "supported_together") for cell in cells)


def _ruling(cells: Sequence[Cell]) -> Ruling:
    """Return the ruling of all passages on a claim: support outweighs contradiction."""
    if _backed(cells):
        return "supported"
    return "contradicted" if "contradicted" in cells else "not_mentioned"


def _citation_precision(grounding: Grounding) -> float | None:
    """Return the share of citations whose passage supports a claim of the citing sentence."""
    # A passage that supports the claim only together with others counts as well.
    # one citation per sentence and passage: a sentence may have several claims
    citations: dict[tuple[int, int], bool] = {}
    claims = zip(grounding.answer_passages, grounding.sentences, grounding.cited, strict=True)
    for row, sentence, passages in claims:
        for number in passages:
            key = (sentence, number)
            # a slice: it is empty for a number that no passage has
            supported = _backed(row[number - 1 : number]) if number > 0 else False
            citations[key] = citations.get(key, False) or supported
    return _share(citations.values())


def _citation_recall(grounding: Grounding) -> float | None:
    """Return the share of claims that the passages cited by their sentence support."""
    claims = zip(grounding.answer_passages, grounding.cited, strict=True)
    return _share(_backed_by(row, cited) for row, cited in claims)


def _backed_by(row: Sequence[Cell], cited: frozenset[int]) -> bool:
    """Return True if one cited passage supports the claim, or all that do so together are cited."""
    alone, joint = set[int](), set[int]()
    for number, cell in enumerate(row, start=1):
        if cell == "supported":
            alone.add(number)
        elif cell == "supported_together":
            joint.add(number)
    return bool(alone & cited or (joint and joint <= cited))


_AP: tuple[Side, ...] = ("answer_passages",)
_RP: tuple[Side, ...] = ("reference_passages",)
_AR: tuple[Side, ...] = ("answer_reference",)
_RA: tuple[Side, ...] = ("reference_answer",)

# Name in a rubric's `formula` -> formula of the score.
FORMULAS: Mapping[str, Formula] = {
    "faithfulness": Formula(_AP, lambda claims: _share(claims.grounded)),
    # a claim is inconsistent if a passage contradicts it and no passage supports it
    "factual_consistency": Formula(
        _AP,
        lambda claims: _share(
            _backed(row) or "contradicted" not in row for row in claims.answer_passages
        ),
    ),
    "hallucination": Formula(
        _AP + _AR,
        lambda claims: _pair_share(claims, lambda grounded, right: not (grounded or right)),
    ),
    "self_knowledge": Formula(
        _AP + _AR,
        lambda claims: _pair_share(claims, lambda grounded, right: right and not grounded),
    ),
    "noise_sensitivity": Formula(
        _AP + _AR,
        lambda claims: _pair_share(claims, lambda grounded, right: grounded and not right),
    ),
    # a passage counts if it supports a claim of the reference, alone or together with others
    "context_precision": Formula(
        _RP,
        lambda claims: _share(
            _backed(column) for column in zip(*claims.reference_passages, strict=True)
        ),
    ),
    "context_recall": Formula(_RP, lambda claims: _share(claims.findable)),
    "context_utilization": Formula(
        _RP + _RA,
        lambda claims: _share(compress(claims.recalled, claims.findable)),
        Cause.NOTHING_TO_USE,
    ),
    "claim_precision": Formula(_AR, lambda claims: _share(claims.right)),
    "claim_recall": Formula(_RA, lambda claims: _share(claims.recalled)),
    "claim_f1": Formula(_AR + _RA, _claim_f1),
    "citation_precision": Formula(_AP, _citation_precision, Cause.NO_CITATIONS),
    "citation_recall": Formula(_AP, _citation_recall),
}

# Cause -> reasoning of a verdict whose formula does not apply.
_WHY_NOT = {
    Cause.NO_CLAIMS: "there is no claim to check",
    Cause.NO_CITATIONS: "the answer cites no passage",
    Cause.NOTHING_TO_USE: "no passage has anything of the reference",
}


def grounded_verdict(
    rubric: Rubric,
    grounding: Grounding,
    lines: Iterable[str] | None = None,
) -> Verdict:
    """Return the verdict of a rubric over claims; `not_applicable` if the formula has no value.

    `lines` become the reasoning, one line each; None describes the rulings on each claim. A scored
    verdict has the judged claims, without a value it has the cause.
    """
    score = apply_formula(rubric.formula or "", grounding)
    claims = tuple(_judged_claims(rubric, grounding))
    lines = _describe_claims(claims, grounding.cited) if lines is None else lines
    if isinstance(score, Cause):
        return not_applicable(score, "\n".join([_WHY_NOT[score], *lines]))
    return Verdict(score, reasoning="\n".join(lines), claims=claims)


def _judged_claims(rubric: Rubric, grounding: Grounding) -> Iterator[JudgedClaim]:
    """Yield the claims whose verdicts the rubric reads, with ruling and passages of each."""
    # Claims of the answer come first. A ruling is None on a side that the formula does not read.
    sides = FORMULAS[rubric.formula or ""].sides
    parts: Sequence[tuple[Literal["answer", "reference"], Side, Side, Sequence[str]]] = (
        ("answer", "answer_passages", "answer_reference", grounding.claims),
        ("reference", "reference_passages", "reference_answer", grounding.reference_claims),
    )
    for owner, passages, other, claims in parts:
        for n, text in enumerate(claims if {passages, other} & {*sides} else ()):
            row = getattr(grounding, passages)[n] if passages in sides else None
            supporting, contradicting = [], []
            for number, cell in enumerate(row or (), start=1):
                if _backed([cell]):
                    supporting.append(number)
                elif cell == "contradicted":
                    contradicting.append(number)
            yield JudgedClaim(
                text=text,
                whose=owner,
                ruling=None if row is None else _ruling(row),
                passages=tuple(supporting),
                against=tuple(contradicting),
                other=getattr(grounding, other)[n] if other in sides else None,
            )


def _describe_claims(
    claims: Sequence[JudgedClaim], cited: Sequence[frozenset[int]]
) -> Iterator[str]:
    """Yield a line per claim: its passages, the ruling of the other text, and what it cites."""
    numbers = {"answer": 0, "reference": 0}
    for claim in claims:
        of_answer = claim.whose == "answer"
        n = numbers[claim.whose] = numbers[claim.whose] + 1
        passages = {"supported": claim.passages, "contradicted": claim.against}
        parts = []
        for word, places in passages.items():
            if places:
                parts.append(f"{word} by {_listed(places)}")
        if claim.ruling is not None and not parts:
            parts = ["supported by no passage"]
        if claim.other is not None:
            place = "in" if claim.other == "supported" else "not in"
            parts.append(f"{place} the {'reference' if of_answer else 'answer'}")
        # markers in a reference cite nothing of this system
        if of_answer and cited[n - 1]:
            parts.append(f"cites {_listed(cited[n - 1])}")
        yield f"{'' if of_answer else 'reference '}claim {n}: {', '.join(parts)}: {claim.text}"


def _listed(passages: Iterable[int]) -> str:
    """Return numbers of passages as text: `passage 1, 3`."""
    return f"passage {', '.join(map(str, sorted(passages)))}"


def best_verdict(rubric: Rubric, verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict with the best score; the first verdict if none has a score.

    Best is the lowest score for a rubric whose direction is `lower`. There is one verdict for each
    reference; an empty list raises IndexError. Of equal scores the first counts.
    """
    # a share such as hallucination is best at 0
    sign = -1 if rubric.direction == "lower" else 1
    scored = []
    for verdict in verdicts:
        if verdict.score is not None:
            scored.append(verdict)
    return max(scored, key=lambda verdict: sign * (verdict.score or 0.0), default=verdicts[0])


def apply_formula(name: str, grounding: Grounding) -> float | Cause:
    """Return the score of a formula, or the cause why it has no value.

    The score is from 0 to 1. Without any claim to check, the cause is `Cause.NO_CLAIMS`.

    Raises:
        KeyError: `name` is not in `FORMULAS`.

    Example:
        Two claims, two passages; the second passage supports the first claim.

        >>> rows = [["not_mentioned", "supported"], ["not_mentioned", "not_mentioned"]]
        >>> grounding = Grounding(rows, answer_reference=["supported", "contradicted"])
        >>> apply_formula("faithfulness", grounding), apply_formula("hallucination", grounding)
        (0.5, 0.5)
        >>> apply_formula("context_recall", grounding).word
        'no_claims'

    References:
        Ru et al. (2024), RAGChecker: A Fine-grained Framework for Diagnosing RAG.
        Gao et al. (2023), Enabling Large Language Models to Generate Text with Citations.
    """
    formula = FORMULAS[name]
    score = formula.score(grounding)
    if score is not None:
        return score
    # without a claim that is the cause, whatever the formula
    checked = grounding.reference_passages if "reference_passages" in formula.sides else ()
    rows = grounding.answer_passages if "answer_passages" in formula.sides else checked
    return formula.undefined if rows else Cause.NO_CLAIMS
