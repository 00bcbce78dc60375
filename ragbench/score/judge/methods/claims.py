"""Method `claims`: texts are split once, and their claims are checked once against each source.

Passages are read together, as many as a prompt may hold, or one by one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from ragbench.score.judge import grounding
from ragbench.score.judge.base import JudgedItem
from ragbench.score.judge.methods.prompt import JudgePrompt
from ragbench.score.judge.methods.vote import Vote
from ragbench.score.judge.sentences import cited_sentences
from ragbench.types.scores import Ruling, Verdict

_ANSWER = "answer"
_PASSAGES = "passages"
_BYTES_A_TOKEN = 3  # of UTF-8: English has more, Chinese about as many
_PER_PASSAGE = 16  # tokens of its tags


class _CitedClaim(NamedTuple):
    text: str
    sentence: int
    cited: frozenset[int]


class _Check(NamedTuple):
    """One request: claims of a text, against one source or some passages.

    `against` is the name of the source, or `passages`; `sources` are their names, in the order in
    which the prompt numbers them.
    """

    claimant: str
    against: str
    sources: tuple[str, ...]
    prompt: JudgePrompt


class _Finding(NamedTuple):
    """The ruling of one reply on one claim, with the sources that give it.

    There are none where the claim is not mentioned.
    """

    ruling: grounding.Cell
    sources: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        numbers = [source.removeprefix("passage ") for source in self.sources]
        if len(numbers) == 1:
            return f"{self.ruling} by {self.sources[0]} ({self.reason})"
        listed = f"{', '.join(numbers[:-1])} and {numbers[-1]}"
        if self.ruling == "supported_together":
            return f"supported by passages {listed} together ({self.reason})"
        return f"{self.ruling} by passages {listed} ({self.reason})"


# `answer`, `reference 2`, `passage 3` -> text.
_Texts = Mapping[str, str]
# Name of a text -> its claims.
_Claims = Mapping[str, Sequence[_CitedClaim]]
# Claimant and source -> per claim, the findings of the replies.
_Findings = Mapping[tuple[str, str], Sequence[Sequence[_Finding]]]


async def check_claims(vote: Vote) -> Verdict:
    """Compute a number of `FORMULAS` from a model's verdicts on claims.

    Two rounds of requests: all splits, then all verdicts. Rubrics with shared verdicts send equal
    requests, which are sent once. Of several references, the one that gives the best number counts.
    """
    sides = [side.split("_") for side in grounding.FORMULAS[vote.rubric.formula or ""].sides]
    texts = _texts(vote.item)
    kinds = {kind for kind, _ in sides}
    claims = await _split(vote, {k: text for k, text in texts.items() if k.split()[0] in kinds})
    checks = [
        check
        for kind, against in sides
        for name in claims
        if claims[name] and name.split()[0] == kind
        for check in _checks(vote, name, [claim.text for claim in claims[name]], against, texts)
    ]
    replies = await vote.ask_all([check.prompt for check in checks])
    findings: dict[tuple[str, str], list[list[_Finding]]] = {}
    for check, reply in zip(checks, replies, strict=True):
        key = (check.claimant, check.against)
        rows = findings.setdefault(key, [[] for _ in claims[check.claimant]])
        for n, row in enumerate(rows, start=1):
            row.append(_finding(check, reply.value[f"claim_{n}"]))
    references = [name for name in texts if name.startswith("reference")]
    compares = any("reference" in side for side in sides)
    verdicts = [
        _verdict(vote, claims, findings, reference)
        for reference in (references if compares else [""])
    ]
    return grounding.best_verdict(vote.rubric, verdicts)


def _texts(item: JudgedItem) -> _Texts:
    """All texts of an item that claims are made of or checked against."""
    return {
        _ANSWER: item.answer or "",
        **{f"reference {n}": text for n, text in enumerate(item.references, start=1)},
        **{f"passage {n}": text for n, text in enumerate(item.contexts or [], start=1)},
    }


async def _split(vote: Vote, texts: _Texts) -> dict[str, list[_CitedClaim]]:
    """The claims of each text; a text without sentences has none, and no request is sent."""
    sentences = {name: cited_sentences(text) for name, text in texts.items()}
    prompts = [vote.prompts.claims([s.text for s in own]) for own in sentences.values() if own]
    replies = iter(await vote.ask_all(prompts))
    values = {name: next(replies).value if own else {} for name, own in sentences.items()}
    return {
        name: [
            _CitedClaim(str(claim), n, frozenset(sentence.cited))
            for n, sentence in enumerate(own)
            for claim in values[name][f"sentence_{n + 1}"]
            if claim.strip()
        ]
        for name, own in sentences.items()
    }


def _checks(
    vote: Vote, claimant: str, claims: Sequence[str], against: str, texts: _Texts
) -> Iterator[_Check]:
    """The requests about the claims of one text; sources without a word are not asked about."""
    prompts, kind = vote.prompts, "passage" if against == _PASSAGES else against
    sources = {name: text for name, text in texts.items() if name.split()[0] == kind}
    if against == _PASSAGES and vote.asking.passages == "together":
        empty = prompts.passages(claims, [])
        used = _tokens(empty.system + empty.user + json.dumps(dict(empty.schema)))
        for names in _windows(sources, vote.asking.window - used):
            prompt = prompts.passages(claims, [sources[name] for name in names])
            yield _Check(claimant, against, names, prompt)
        return
    for name, text in sources.items():
        if text.strip():
            source = _PASSAGES if against == _PASSAGES else name
            yield _Check(claimant, source, (name,), prompts.verdicts(claims, text))


def _tokens(text: str) -> int:
    return len(text.encode("utf-8", "replace")) // _BYTES_A_TOKEN + 1


def _windows(passages: _Texts, room: int) -> list[tuple[str, ...]]:
    """Passages in order, as many at once as there is room for in tokens, and one at the least.

    Windows in which all passages are empty are left out.
    """
    windows: list[list[str]] = [[]]
    used = 0
    for name, text in passages.items():
        tokens = _tokens(text) + _PER_PASSAGE
        if windows[-1] and used + tokens > room:
            windows.append([])
            used = 0
        windows[-1].append(name)
        used += tokens
    return [tuple(names) for names in windows if any(passages[name].strip() for name in names)]


def _finding(check: _Check, value: Mapping[str, Any]) -> _Finding:
    reason, numbers = str(value["reason"]), sorted(value.get("passages", [1]))
    if "passages" in value and check.sources[0] != "passage 1":  # the reply counts them from 1
        reason = f"which counts from {check.sources[0]} on: {reason}"
    mentioned = value["verdict"] != "not_mentioned"
    sources = [check.sources[number - 1] for number in numbers if mentioned]
    return _Finding(value["verdict"], tuple(sources), reason)


def _verdict(vote: Vote, claims: _Claims, findings: _Findings, reference: str) -> Verdict:
    """The number with one of the references."""
    answer, gold = claims.get(_ANSWER, ()), claims.get(reference, ())
    passages = len(vote.item.contexts or [])
    found = grounding.Grounding(
        answer_passages=_rows(answer, findings.get((_ANSWER, _PASSAGES), ()), passages),
        reference_passages=_rows(gold, findings.get((reference, _PASSAGES), ()), passages),
        answer_reference=_rulings(answer, findings.get((_ANSWER, reference), ())),
        reference_answer=_rulings(gold, findings.get((reference, _ANSWER), ())),
        sentences=[claim.sentence for claim in answer],
        cited=[claim.cited for claim in answer],
        claims=[claim.text for claim in answer],
        reference_claims=[claim.text for claim in gold],
    )
    lines = [
        line for name in (_ANSWER, reference) for line in _lines(name, claims, findings, reference)
    ]
    return grounding.grounded_verdict(vote.rubric, found, lines)


def _rows(
    claims: Sequence[_CitedClaim], findings: Sequence[Sequence[_Finding]], passages: int
) -> list[list[grounding.Cell]]:
    """A row per claim of a text, a cell per passage: the rulings of the replies that name it."""
    rows: list[list[grounding.Cell]] = [["not_mentioned"] * passages for _ in claims]
    for row, of_claim in zip(rows, findings, strict=False):
        for finding in of_claim:
            for source in finding.sources:
                row[int(source.removeprefix("passage ")) - 1] = finding.ruling
    return rows


def _rulings(claims: Sequence[_CitedClaim], findings: Sequence[Sequence[_Finding]]) -> list[Ruling]:
    """The ruling of one text on each claim of another; a text without a word says nothing."""
    # `supported_together`, the other value of a cell, is said of passages alone
    rulings = cast("list[Ruling]", [finding.ruling for [finding] in findings])
    return rulings or ["not_mentioned"] * len(claims)


def _lines(name: str, claims: _Claims, findings: _Findings, reference: str) -> Iterator[str]:
    """One line per claim: which sources support or contradict it, and why."""
    rows = [
        row
        for (claimant, against), row in findings.items()
        if claimant == name and (against == reference or not against.startswith("reference"))
    ]
    for n, claim in enumerate(claims.get(name, ())):
        of_claim = [finding for row in rows for finding in row[n]]
        words = [str(finding) for finding in of_claim if finding.sources]
        if not words:
            why = f" ({of_claim[0].reason})" if len(of_claim) == 1 else ""
            words = [f"mentioned nowhere{why}"]
        cites = ", ".join(map(str, sorted(claim.cited)))
        cited = f", cites passage {cites}" if cites else ""
        owner = "claim" if name == _ANSWER else f"{name}, claim"
        yield f"{owner} {n + 1}{cited}: {'; '.join(words)}: {claim.text}"
