"""Method `claims`: split texts into claims once, and check each claim once against each source.

Passages are read together, as many as fit into a prompt, or one by one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from ragbench.score.judge import grounding
from ragbench.score.judge.base import JudgedItem
from ragbench.score.judge.markers import marker_note
from ragbench.score.judge.methods.vote import MOST_TEXTS, PromptOf, Vote, numbered_texts
from ragbench.score.judge.sentences import cited_sentences, claim_texts
from ragbench.types.lookups import take_items
from ragbench.types.scores import Ruling, Verdict

_ANSWER = "answer"
_PASSAGES = "passages"
_Value = TypeVar("_Value")

_BYTES_A_TOKEN = 3  # bytes of UTF-8: English has more a token, Chinese about as many
_PER_PASSAGE = 16  # tokens of the tags around a passage


class CitedClaim(NamedTuple):
    """Claim of a text, as `split_claims` returns it.

    Attributes:
        text: The claim.
        sentence: Number of its sentence, from 0.
        cited: Numbers of the passages that the sentence cites, from 1.
    """

    text: str
    sentence: int
    cited: frozenset[int]


class _Check(NamedTuple):
    """Check of at most 50 claims of one text against a source or several passages."""

    claimant: str  # name of the text whose claims are checked
    start: int  # number of the first of these claims in the text, from 0
    claims: Sequence[str]  # the claims
    against: str  # name of the source, or `passages`
    sources: tuple[str, ...]  # names of the sources, in the order in which the prompt numbers them
    prompt_of: PromptOf  # builder of the prompt for the claims or some of them


class _Finding(NamedTuple):
    """Ruling of one reply on one claim, with the sources that give it."""

    ruling: grounding.Cell  # the verdict
    sources: tuple[str, ...]  # names of the sources; empty for `not_mentioned`
    reason: str  # reason in the words of the model

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
_Claims = Mapping[str, Sequence[CitedClaim]]
# Claimant and source -> per claim, the findings of the replies.
_Findings = Mapping[tuple[str, str], Sequence[Sequence[_Finding]]]


async def check_claims(vote: Vote) -> Verdict:
    """Return the verdict of a formula of `FORMULAS` over a model's verdicts on claims.

    Two rounds of requests: first one split per text with sentences, then the verdicts on its
    claims, one request per source with text, or per window of passages; more than 50 sentences or
    claims need several. Rubrics with shared verdicts have equal requests, which are sent once. Of
    several references the one with the best score counts. A formula without a value, as for an
    answer without claims, gives `not_applicable`.

    Raises:
        CallFailure: A request failed.
        RagbenchError: The user has to act, as for a missing key.
        IndexError: The item lacks a reference that the rubric needs.
    """
    sides = []
    for side in grounding.FORMULAS[vote.rubric.formula or ""].sides:
        sides.append(side.split("_"))
    texts = _texts(vote.item)
    claims = await split_claims(vote, _of_kinds(texts, {kind for kind, _ in sides}))
    checks = list[_Check]()
    for kind, against in sides:
        for name, of_text in _of_kinds(claims, {kind}).items():
            checks += _checks(vote, name, claim_texts(of_text), against, texts)
    entries = await vote.ask_each([(check.prompt_of, check.claims) for check in checks])
    findings: dict[tuple[str, str], list[list[_Finding]]] = {}
    for check, values in zip(checks, entries, strict=True):
        key = (check.claimant, check.against)
        rows = findings.setdefault(key, [[] for _ in claims[check.claimant]])
        for n, value in enumerate(values, start=check.start):
            rows[n].append(_finding(check, value))
    # without a reference in the formula, several references would repeat one score
    compares = any("reference" in side for side in sides)
    verdicts = []
    for reference in _of_kinds(texts, {"reference"}) if compares else [""]:
        verdicts.append(_verdict(vote, claims, findings, reference))
    return grounding.best_verdict(vote.rubric, verdicts)


def _of_kinds(values: Mapping[str, _Value], kinds: Set[str]) -> dict[str, _Value]:
    """Return the entries whose name has one of the kinds: `answer`, `reference` or `passage`."""
    entries = {}
    for name, value in values.items():
        if name.split()[0] in kinds:
            entries[name] = value
    return entries


def _texts(item: JudgedItem) -> _Texts:
    """Return name -> text for the answer, the references and the passages of an item."""
    return {
        _ANSWER: item.answer or "",
        **numbered_texts("reference", item.references),
        **numbered_texts("passage", item.contexts or []),
    }


async def split_claims(vote: Vote, texts: _Texts) -> dict[str, list[CitedClaim]]:
    """Return name -> claims of each text; a text without sentences has none.

    Empty claims are dropped. Raises CallFailure if a request failed, RagbenchError if the user has
    to act.
    """
    sentences = {}
    for name, text in texts.items():
        sentences[name] = cited_sentences(text, vote.asking.citations)
    jobs = []
    for part in sentences.values():
        jobs.append((vote.prompts.claims, [s.text for s in part]))
    claims: dict[str, list[CitedClaim]] = {}
    for name, entries in zip(sentences, await vote.ask_each(jobs), strict=True):
        claims[name] = []
        for n, (sentence, texts_of) in enumerate(zip(sentences[name], entries, strict=True)):
            cited = frozenset(sentence.cited)
            for text in texts_of:
                if text.strip():
                    claims[name].append(CitedClaim(str(text), n, cited))
    return claims


def _checks(
    vote: Vote, claimant: str, claims: Sequence[str], against: str, texts: _Texts
) -> Iterator[_Check]:
    """Yield the checks of the claims of the text named `claimant`; nothing is sent."""
    prompts = vote.prompts
    sources = _of_kinds(texts, {"passage" if against == _PASSAGES else against})
    for start in range(0, len(claims), MOST_TEXTS):
        part = claims[start : start + MOST_TEXTS]
        if against == _PASSAGES and vote.asking.passages == "together":
            # the window is for the whole prompt: subtract what it has without passages
            empty = prompts.passages(part, [])
            used = _estimate_tokens(empty.system + empty.user + json.dumps(dict(empty.schema)))
            for names in _windows(sources, vote.asking.window - used):
                prompt_of = partial(prompts.passages, passages=take_items(sources, names))
                yield _Check(claimant, start, part, against, names, prompt_of)
            continue
        for name, text in sources.items():
            if text.strip():
                source = _PASSAGES if against == _PASSAGES else name
                prompt_of = partial(prompts.verdicts, source=text)
                yield _Check(claimant, start, part, source, (name,), prompt_of)


def _estimate_tokens(text: str) -> int:
    return len(text.encode("utf-8", "replace")) // _BYTES_A_TOKEN + 1


def _windows(passages: _Texts, room: int) -> list[tuple[str, ...]]:
    """Return the names of passages in windows of at most `room` tokens, one passage at least."""
    windows: list[list[str]] = [[]]
    used = 0
    for name, text in passages.items():
        tokens = _estimate_tokens(text) + _PER_PASSAGE
        if windows[-1] and used + tokens > room:
            windows.append([])
            used = 0
        windows[-1].append(name)
        used += tokens
    with_text = []
    for names in windows:
        if any(passages[name].strip() for name in names):
            with_text.append(tuple(names))
    return with_text


def _finding(check: _Check, value: Mapping[str, Any]) -> _Finding:
    reason, numbers = str(value["reason"]), sorted(value.get("passages", [1]))
    if "passages" in value and check.sources[0] != "passage 1":  # the reply counts them from 1
        reason = f"which counts from {check.sources[0]} on: {reason}"
    mentioned = value["verdict"] != "not_mentioned"
    sources = []
    for number in numbers:
        if mentioned:
            sources.append(check.sources[number - 1])
    return _Finding(value["verdict"], tuple(sources), reason)


def _verdict(vote: Vote, claims: _Claims, findings: _Findings, reference: str) -> Verdict:
    """Return the verdict of the rubric with one of the references, or without one."""
    # `claims` and `findings` may hold those of other references, which do not count.
    answer, gold = claims.get(_ANSWER, ()), claims.get(reference, ())
    passages = len(vote.item.contexts or [])
    checked = grounding.Grounding(
        answer_passages=_rows(answer, findings.get((_ANSWER, _PASSAGES), ()), passages),
        reference_passages=_rows(gold, findings.get((reference, _PASSAGES), ()), passages),
        answer_reference=_rulings(answer, findings.get((_ANSWER, reference), ())),
        reference_answer=_rulings(gold, findings.get((reference, _ANSWER), ())),
        sentences=[claim.sentence for claim in answer],
        cited=[claim.cited for claim in answer],
        claims=claim_texts(answer),
        reference_claims=claim_texts(gold),
    )
    lines: list[str] = []
    for name in (_ANSWER, reference):
        lines.extend(_lines(name, claims, findings, reference))
    if vote.rubric.reads_citations and not any(claim.cited for claim in answer):
        note = marker_note([vote.item.answer or ""], vote.asking.citations)
        lines = [note, *lines] if note else lines
    return grounding.grounded_verdict(vote.rubric, checked, lines)


def _rows(
    claims: Sequence[CitedClaim], findings: Sequence[Sequence[_Finding]], passages: int
) -> list[list[grounding.Cell]]:
    """Return the rulings of the passages (columns) on the claims (rows) of a text."""
    rows: list[list[grounding.Cell]] = [["not_mentioned"] * passages for _ in claims]
    # not strict: without requests about a text there are no findings
    for row, of_claim in zip(rows, findings, strict=False):
        for finding in of_claim:
            for source in finding.sources:
                row[int(source.removeprefix("passage ")) - 1] = finding.ruling
    return rows


def _rulings(claims: Sequence[CitedClaim], findings: Sequence[Sequence[_Finding]]) -> list[Ruling]:
    """Return the ruling of one text on each claim of another; `not_mentioned` if it is empty."""
    # only passages can have `supported_together`, which is no ruling
    rulings = cast("list[Ruling]", [finding.ruling for [finding] in findings])
    return rulings or ["not_mentioned"] * len(claims)


def _lines(name: str, claims: _Claims, findings: _Findings, reference: str) -> Iterator[str]:
    """Yield a line per claim of the text `name`: its sources with their rulings and reasons."""
    rows = []
    for (claimant, against), row in findings.items():
        if claimant == name and (against == reference or not against.startswith("reference")):
            rows.append(row)
    for n, claim in enumerate(claims.get(name, ())):
        of_claim: list[_Finding] = []
        for row in rows:
            of_claim += row[n]
        words = []
        for finding in of_claim:
            if finding.sources:
                words.append(str(finding))
        if not words:
            why = f" ({of_claim[0].reason})" if len(of_claim) == 1 else ""
            words = [f"mentioned nowhere{why}"]
        cites = ", ".join(map(str, sorted(claim.cited)))
        cited = f", cites passage {cites}" if cites else ""
        owner = "claim" if name == _ANSWER else f"{name}, claim"
        yield f"{owner} {n + 1}{cited}: {'; '.join(words)}: {claim.text}"
