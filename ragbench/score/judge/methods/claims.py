"""Method `claims`: texts are split once, and each claim is checked once against each source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragbench.score.judge.base import Item, Rubric
from ragbench.score.judge.citations import cited_sentences
from ragbench.score.judge.grounding import (
    FORMULAS,
    Grounding,
    Ruling,
    Side,
    best_verdict,
    grounded_verdict,
)
from ragbench.score.judge.methods.prompt import claims_prompt, verdicts_prompt
from ragbench.score.judge.methods.session import ReplyLog
from ragbench.types.scores import Verdict

_ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class _Claims:
    """The claims of one text, in order."""

    texts: tuple[str, ...] = ()
    sentences: tuple[int, ...] = ()
    """The sentence that each comes from."""
    cited: tuple[frozenset[int], ...] = ()
    """The passages that this sentence cites, counted from 1."""


@dataclass(frozen=True, slots=True)
class _Checked:
    """What one source says of the claims of one text."""

    rulings: tuple[Ruling, ...] = ()
    """One per claim."""
    reasons: tuple[str, ...] = ()
    """Why, one per claim."""


_Texts = Mapping[str, str]
"""`answer`, `reference 2`, `passage 3` -> text."""
_Pair = tuple[str, str]
"""Whose claims, and the source that they are checked against."""


async def check_claims(log: ReplyLog, item: Item, rubric: Rubric) -> Verdict:
    """Compute a number of `FORMULAS` from a model's verdicts on claims.

    Two rounds of requests: all splits, then all verdicts. Rubrics with shared verdicts send equal
    requests, which the session sends once. Of several references, the one that gives the best
    number counts.
    """
    sides = FORMULAS[rubric.formula or ""].sides
    texts = _texts(item)
    kinds = {side.partition("_")[0] for side in sides}
    claimants = {name: text for name, text in texts.items() if name.split()[0] in kinds}
    claims = await _split(log, item, claimants)
    checked = await _check(log, item, rubric, claims, _pairs(sides, claims, texts))
    references = [name for name in texts if name.startswith("reference")]
    compares = any("reference" in side for side in sides)
    verdicts = [
        _verdict(rubric, claims, checked, reference)
        for reference in (references if compares else [""])
    ]
    return best_verdict(rubric, verdicts)


def _texts(item: Item) -> _Texts:
    """All texts of an item that claims are made of or checked against."""
    numbered = {"reference": item.references, "passage": item.contexts or []}
    return {
        _ANSWER: item.answer or "",
        **{
            f"{name} {n}": text
            for name, several in numbered.items()
            for n, text in enumerate(several, start=1)
        },
    }


def _pairs(sides: Sequence[Side], claims: Mapping[str, _Claims], texts: _Texts) -> dict[_Pair, str]:
    """Every pair that the sides need, with the text of the source."""
    return {
        (name, source): text
        for side in sides
        for name in claims
        for source, text in texts.items()
        if (name.split()[0], source.split()[0]) == _kinds(side)
    }


def _kinds(side: Side) -> _Pair:
    whose, _, against = side.partition("_")
    return whose, "passage" if against == "passages" else against


async def _split(log: ReplyLog, item: Item, texts: _Texts) -> dict[str, _Claims]:
    """The claims of each text; a text without sentences has none, and no request is sent."""
    sentences = {name: cited_sentences(text) for name, text in texts.items()}
    asked = {name: found for name, found in sentences.items() if found}
    prompts = [
        claims_prompt([s.text for s in found], item.question, few_shot=log.few_shot)
        for found in asked.values()
    ]
    claims = {name: _Claims() for name in texts}
    replies = await log.ask_all(prompts)
    for (name, found), reply in zip(asked.items(), replies, strict=True):
        said = [
            (n, str(claim))
            for n in range(len(found))
            for claim in reply.value[f"sentence_{n + 1}"]
            if claim.strip()
        ]
        claims[name] = _Claims(
            texts=tuple(claim for _, claim in said),
            sentences=tuple(n for n, _ in said),
            cited=tuple(found[n].cited for n, _ in said),
        )
    return claims


async def _check(
    log: ReplyLog,
    item: Item,
    rubric: Rubric,
    claims: Mapping[str, _Claims],
    pairs: Mapping[_Pair, str],
) -> dict[_Pair, _Checked]:
    """What each source says of the claims; an empty source says nothing, and no request is sent."""
    checked = {pair: _silent(claims[pair[0]]) for pair in pairs}
    asked = [pair for pair, text in pairs.items() if claims[pair[0]].texts and text.strip()]
    prompts = [
        verdicts_prompt(
            claims[pair[0]].texts,
            pairs[pair],
            item.question,
            steps=rubric.own_steps,
            few_shot=log.few_shot,
        )
        for pair in asked
    ]
    for pair, reply in zip(asked, await log.ask_all(prompts), strict=True):
        found = [reply.value[f"claim_{n}"] for n in range(1, len(claims[pair[0]].texts) + 1)]
        checked[pair] = _Checked(
            tuple(each["verdict"] for each in found), tuple(str(each["reason"]) for each in found)
        )
    return checked


def _silent(claims: _Claims) -> _Checked:
    """What an empty source says."""
    rulings: list[Ruling] = ["not_mentioned"] * len(claims.texts)
    return _Checked(tuple(rulings), ("",) * len(claims.texts))


def _verdict(
    rubric: Rubric, claims: Mapping[str, _Claims], checked: Mapping[_Pair, _Checked], reference: str
) -> Verdict:
    """The number with one of the references."""
    answer = claims.get(_ANSWER, _Claims())
    found = Grounding(
        answer_passages=_rows(_ANSWER, checked),
        reference_passages=_rows(reference, checked),
        answer_reference=checked.get((_ANSWER, reference), _Checked()).rulings,
        reference_answer=checked.get((reference, _ANSWER), _Checked()).rulings,
        sentences=answer.sentences,
        cited=answer.cited,
    )
    lines = [
        line
        for name in (_ANSWER, reference)
        if name in claims
        for line in _lines(name, claims[name], checked, reference)
    ]
    return grounded_verdict(rubric, found, lines)


def _rows(name: str, checked: Mapping[_Pair, _Checked]) -> list[list[Ruling]]:
    """A row per claim of a text, a column per passage."""
    columns = [
        check.rulings
        for (whose, source), check in checked.items()
        if whose == name and source.startswith("passage")
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def _lines(
    name: str, claims: _Claims, checked: Mapping[_Pair, _Checked], reference: str
) -> list[str]:
    """One line per claim: which sources support or contradict it, and why."""
    sources = {
        source: check
        for (whose, source), check in checked.items()
        if whose == name and (source == reference or not source.startswith("reference"))
    }
    lines = []
    for n, text in enumerate(claims.texts):
        said = [
            f"{check.rulings[n]} by {source} ({check.reasons[n]})"
            for source, check in sources.items()
            if check.rulings[n] != "not_mentioned"
        ]
        cites = ", ".join(map(str, sorted(claims.cited[n])))
        cited = f", cites passage {cites}" if cites else ""
        whose = "claim" if name == _ANSWER else f"{name}, claim"
        lines.append(f"{whose} {n + 1}{cited}: {'; '.join(said) or 'mentioned nowhere'}: {text}")
    return lines
