"""Method `claims`: texts are split once, and their claims are checked once against each source.

Passages are read together, as many as a prompt may hold, or one by one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragbench.llm import StructuredReply
from ragbench.score.judge import grounding
from ragbench.score.judge.base import Item, Rubric
from ragbench.score.judge.methods.prompt import (
    Prompt,
    claims_prompt,
    passages_prompt,
    verdicts_prompt,
)
from ragbench.score.judge.methods.session import ReplyLog
from ragbench.score.judge.sentences import cited_sentences
from ragbench.types.scores import Ruling, Verdict

_ANSWER = "answer"
_PASSAGES = "passages"
_BYTES_A_TOKEN = 3  # of UTF-8: English has more, Chinese about as many
_PER_PASSAGE = 16  # tokens of its tags


@dataclass(frozen=True, slots=True)
class _Claims:
    texts: tuple[str, ...] = ()
    sentences: tuple[int, ...] = ()
    """The sentence that each comes from."""
    cited: tuple[frozenset[int], ...] = ()
    """The passages that this sentence cites, counted from 1."""


@dataclass(frozen=True, slots=True)
class _Call:
    """One request: claims of a text, against one source or some passages."""

    whose: str
    against: str
    """The source, or `passages`."""
    sources: tuple[str, ...]
    """The source, or the passages in the order in which the prompt numbers them."""
    prompt: Prompt


@dataclass(frozen=True, slots=True)
class _Said:
    """What one reply says of one claim."""

    ruling: grounding.Cell
    sources: tuple[str, ...]
    """Which sources say it; none where the claim is not mentioned."""
    reason: str

    def __str__(self) -> str:
        numbers = [source.removeprefix("passage ") for source in self.sources]
        if len(numbers) == 1:
            return f"{self.ruling} by {self.sources[0]} ({self.reason})"
        listed = f"{', '.join(numbers[:-1])} and {numbers[-1]}"
        if self.ruling == "supported_together":
            return f"supported by passages {listed} together ({self.reason})"
        return f"{self.ruling} by passages {listed} ({self.reason})"


_Texts = Mapping[str, str]
"""`answer`, `reference 2`, `passage 3` -> text."""
_Checked = Mapping[tuple[str, str], Sequence[Sequence[_Said]]]
"""Whose claims and against what -> per claim, what the replies say of it."""


async def check_claims(log: ReplyLog, item: Item, rubric: Rubric) -> Verdict:
    """Compute a number of `FORMULAS` from a model's verdicts on claims.

    Two rounds of requests: all splits, then all verdicts. Rubrics with shared verdicts send equal
    requests, which the session sends once. Of several references, the one that gives the best
    number counts.
    """
    sides = grounding.FORMULAS[rubric.formula or ""].sides
    texts = _texts(item)
    kinds = {side.partition("_")[0] for side in sides}
    claimants = {name: text for name, text in texts.items() if name.split()[0] in kinds}
    claims = await _split(log, item, claimants)
    calls = [
        call
        for side in sides
        for name, own in claims.items()
        if own.texts and name.split()[0] == side.partition("_")[0]
        for call in _calls(log, item, rubric, (name, side.partition("_")[2]), own.texts, texts)
    ]
    replies = await log.ask_all([call.prompt for call in calls])
    checked = _read(claims, calls, replies)
    references = [name for name in texts if name.startswith("reference")]
    compares = any("reference" in side for side in sides)
    verdicts = [
        _verdict(rubric, item, claims, checked, reference)
        for reference in (references if compares else [""])
    ]
    return grounding.best_verdict(rubric, verdicts)


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


async def _split(log: ReplyLog, item: Item, texts: _Texts) -> dict[str, _Claims]:
    """The claims of each text; a text without sentences has none, and no request is sent."""
    sentences = {name: cited_sentences(text) for name, text in texts.items()}
    asked = {name: found for name, found in sentences.items() if found}
    prompts = [
        claims_prompt([s.text for s in found], item.asked, few_shot=log.few_shot)
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


def _calls(
    log: ReplyLog,
    item: Item,
    rubric: Rubric,
    side: tuple[str, str],
    claims: Sequence[str],
    texts: _Texts,
) -> Iterator[_Call]:
    """The requests about the claims of one text; sources without a word are not asked about."""
    whose, against = side
    shown = log.shown(rubric)
    kind = "passage" if against == _PASSAGES else against
    sources = {name: text for name, text in texts.items() if name.split()[0] == kind}
    if against == _PASSAGES and log.asking.passages == "together":
        empty = passages_prompt(claims, [], item.asked, **shown)
        taken = _tokens(empty.system + empty.user + json.dumps(dict(empty.schema)))
        for names in _windows(sources, log.asking.window - taken):
            together = [sources[name] for name in names]
            prompt = passages_prompt(claims, together, item.asked, **shown)
            yield _Call(whose, against, names, prompt)
        return
    for name, text in sources.items():
        if text.strip():
            prompt = verdicts_prompt(claims, text, item.asked, **shown)
            yield _Call(whose, _PASSAGES if kind == "passage" else name, (name,), prompt)


def _tokens(text: str) -> int:
    return len(text.encode("utf-8", "replace")) // _BYTES_A_TOKEN + 1


def _windows(passages: _Texts, room: int) -> Iterator[tuple[str, ...]]:
    """Passages in order, as many at once as there is room for in tokens, and one at the least.

    Windows in which all passages are empty are left out.
    """
    window: list[str] = []
    taken = 0
    for name, text in passages.items():
        tokens = _tokens(text) + _PER_PASSAGE
        if window and taken + tokens > room:
            if any(passages[each].strip() for each in window):
                yield tuple(window)
            window, taken = [], 0
        window.append(name)
        taken += tokens
    if any(passages[each].strip() for each in window):
        yield tuple(window)


def _read(
    claims: Mapping[str, _Claims], calls: Sequence[_Call], replies: Sequence[StructuredReply]
) -> _Checked:
    checked: dict[tuple[str, str], list[list[_Said]]] = {}
    for call, reply in zip(calls, replies, strict=True):
        count = len(claims[call.whose].texts)
        rows = checked.setdefault((call.whose, call.against), [[] for _ in range(count)])
        for n, row in enumerate(rows, start=1):
            row.append(_said(call, reply.value[f"claim_{n}"]))
    return checked


def _said(call: _Call, value: Mapping[str, Any]) -> _Said:
    numbers = value.get("passages", [1])
    sources = tuple(call.sources[number - 1] for number in sorted(numbers))
    mentioned = value["verdict"] != "not_mentioned"
    reason = str(value["reason"])
    if "passages" in value and call.sources[0] != "passage 1":  # the reply counts them from 1
        reason = f"which counts from {call.sources[0]} on: {reason}"
    return _Said(value["verdict"], sources if mentioned else (), reason)


def _verdict(
    rubric: Rubric, item: Item, claims: Mapping[str, _Claims], checked: _Checked, reference: str
) -> Verdict:
    """The number with one of the references."""
    answer = claims.get(_ANSWER, _Claims())
    passages = len(item.contexts or [])
    found = grounding.Grounding(
        answer_passages=_rows(_ANSWER, claims, checked, passages),
        reference_passages=_rows(reference, claims, checked, passages),
        answer_reference=_rulings((_ANSWER, reference), claims, checked),
        reference_answer=_rulings((reference, _ANSWER), claims, checked),
        sentences=answer.sentences,
        cited=answer.cited,
        claims=answer.texts,
        reference_claims=claims.get(reference, _Claims()).texts,
    )
    lines = [
        line
        for name in (_ANSWER, reference)
        if name in claims
        for line in _lines(name, claims[name], checked, reference)
    ]
    return grounding.grounded_verdict(rubric, found, lines)


def _rows(
    name: str, claims: Mapping[str, _Claims], checked: _Checked, passages: int
) -> list[list[grounding.Cell]]:
    """A row per claim of a text, a cell per passage: what the replies that name it say."""
    rows: list[list[grounding.Cell]] = []
    for n in range(len(claims.get(name, _Claims()).texts)):
        row: list[grounding.Cell] = ["not_mentioned"] * passages
        for said in checked[name, _PASSAGES][n] if (name, _PASSAGES) in checked else ():
            for source in said.sources:
                row[int(source.removeprefix("passage ")) - 1] = said.ruling
        rows.append(row)
    return rows


def _rulings(
    pair: tuple[str, str], claims: Mapping[str, _Claims], checked: _Checked
) -> list[Ruling]:
    """What one text says of each claim of another; one without a word says nothing."""
    count = len(claims.get(pair[0], _Claims()).texts)
    rulings: list[Ruling] = ["not_mentioned"] * count
    for n, row in enumerate(checked.get(pair, ())):
        for said in row:
            if said.ruling != "supported_together":  # said of passages alone
                rulings[n] = said.ruling
    return rulings


def _lines(name: str, claims: _Claims, checked: _Checked, reference: str) -> list[str]:
    """One line per claim: which sources support or contradict it, and why."""
    rows = [
        found
        for (whose, against), found in checked.items()
        if whose == name and (against == reference or not against.startswith("reference"))
    ]
    lines = []
    for n, text in enumerate(claims.texts):
        replies = [said for found in rows for said in found[n]]
        said = [str(each) for each in replies if each.sources]
        if not said:
            why = f" ({replies[0].reason})" if len(replies) == 1 else ""
            said = [f"mentioned nowhere{why}"]
        cites = ", ".join(map(str, sorted(claims.cited[n])))
        cited = f", cites passage {cites}" if cites else ""
        whose = "claim" if name == _ANSWER else f"{name}, claim"
        lines.append(f"{whose} {n + 1}{cited}: {'; '.join(said)}: {text}")
    return lines
