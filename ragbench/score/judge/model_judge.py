"""Language models as judges: from an item and rubrics to verdicts, whatever the server does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ragbench.errors import RagbenchError
from ragbench.llm import CallFailure, ChatModel, ChatReply, Connected, Limits, Prices, Replies
from ragbench.score.base import Advance
from ragbench.score.judge.base import (
    WHY_MISSING,
    Item,
    Rubric,
    missing_input,
    not_applicable,
)
from ragbench.score.judge.grounded import check_claims
from ragbench.score.judge.hearing import Asking, Hearing, Trail
from ragbench.score.judge.jury import Combine, verdict_of_jury, verdict_of_samples
from ragbench.score.judge.nugget_judge import count_nuggets
from ragbench.score.judge.pairwise import compare_pair
from ragbench.score.judge.prompt import prompt_fingerprint
from ragbench.score.judge.rating import rate
from ragbench.signature import fingerprint_json
from ragbench.types.records import Usage, add_usage
from ragbench.types.scores import Cause, Verdict

_METHODS: Mapping[str, Callable[[Trail, Item, Rubric], Awaitable[Verdict]]] = {
    "rating": rate,
    "claims": check_claims,
    "pairwise": compare_pair,
    "nuggets": count_nuggets,
}


@dataclass(frozen=True, slots=True)
class Bench:
    """Who judges, and how they become one verdict."""

    models: tuple[str, ...]
    """The models, as requests name them."""
    combine: Combine = "mean"
    """How several models become one."""
    samples: int = 1
    """How often each is asked."""


class _Vote(NamedTuple):
    """What one model says of one rubric in one sample."""

    verdict: Verdict
    replies: list[ChatReply]


class ModelJudge(Connected):
    """Judges by language models behind one chat model.

    What goes wrong with an item becomes a verdict with status `failed`, its cause and the replies
    that came. Errors that are the user's to mend (no key, a full disk, a reply that a replay lacks)
    are raised.

    Args:
        connect: Makes the chat model, on first use.
        bench: Who judges.
        asking: How prompts become requests.
        limits: How many calls, how long, how often again.
        prices: What calls cost; default: the built-in table.
    """

    label = "a language model: its verdicts are opinions until they are checked against people's"
    served: Sequence[str] | None = None

    def __init__(
        self,
        connect: Callable[[Replies | None], ChatModel],
        bench: Bench,
        asking: Asking,
        *,
        limits: Limits | None = None,
        prices: Callable[[], Prices] = Prices.load,
    ) -> None:
        super().__init__(connect, limits=limits, prices=prices)
        self.bench, self.asking = bench, asking

    @property
    def model(self) -> str:
        """The models that are asked, as requests name them."""
        return "+".join(self.bench.models)

    @property
    def options(self) -> Mapping[str, Any]:
        """What verdicts depend on besides model and prompt."""
        asking, bench = self.asking, self.bench
        return {
            "temperature": asking.temperature,
            "samples": bench.samples,
            "combine": bench.combine if len(bench.models) > 1 else None,
            "seed": asking.seed,
            "max_tokens": asking.max_tokens,
            "extra": fingerprint_json(asking.extra) if asking.extra else None,
        }

    def signature_parts(self, rubric: Rubric) -> Mapping[str, Any]:
        """Return what the verdicts by a rubric depend on besides the model."""
        prompt = prompt_fingerprint(rubric, few_shot=self.asking.few_shot)
        return {"prompt": prompt, **self.options}

    def judge(self, item: Item, rubric: Rubric) -> Verdict:
        """Apply one rubric to one item."""
        return self.judge_all([item], [rubric])[0][rubric.name]

    def judge_each(
        self, items: Iterable[Item], rubrics: Sequence[Rubric]
    ) -> Iterator[tuple[int, dict[str, Verdict]]]:
        """Yield position and verdicts of each item as they come, as many at once as limits allow.

        Items are taken as they are needed, and nothing is kept: memory does not grow with them.
        """
        yield from self.engine.each(self._hear(rubrics), items)

    def judge_all(
        self, items: Iterable[Item], rubrics: Sequence[Rubric], advance: Advance | None = None
    ) -> list[dict[str, Verdict]]:
        """Apply rubrics to items, as `judge_each` does, and return all verdicts in order."""
        found: dict[int, dict[str, Verdict]] = {}
        for position, verdicts in self.judge_each(items, rubrics):
            found[position] = verdicts
            if advance is not None:
                advance(1)
        return [found[position] for position in range(len(found))]

    async def ajudge_all(
        self, items: Iterable[Item], rubrics: Sequence[Rubric], advance: Advance | None = None
    ) -> list[dict[str, Verdict]]:
        """Apply rubrics to items without blocking the running loop; may be cancelled."""
        found: dict[int, dict[str, Verdict]] = {}
        async for position, verdicts in self.engine.aeach(self._hear(rubrics), items):
            found[position] = verdicts
            if advance is not None:
                advance(1)
        return [found[position] for position in range(len(found))]

    def _hear(self, rubrics: Sequence[Rubric]) -> Callable[[Item], Awaitable[dict[str, Verdict]]]:
        async def hear(item: Item) -> dict[str, Verdict]:
            return await self._verdicts(item, rubrics)

        return hear

    async def _verdicts(self, item: Item, rubrics: Sequence[Rubric]) -> dict[str, Verdict]:
        """All verdicts on one item; what several rubrics ask is asked once."""
        missing = {rubric.name: missing_input(item, rubric) for rubric in rubrics}
        asked = [rubric for rubric in rubrics if missing[rubric.name] is None]
        # equal answers of a generator are judged by further samples, not by the same replies
        first = item.sample * self.bench.samples if self.bench.samples > 1 else 0
        hearings = [
            Hearing(self.engine.aask, self.asking, model, first + sample)
            for model in self.bench.models
            for sample in range(self.bench.samples)
        ]
        votes = await _all_ended(
            [_vote(hearing, item, rubric) for rubric in asked for hearing in hearings]
        )
        verdicts, counted = {}, set[int]()
        for rubric in rubrics:
            if (cause := missing[rubric.name]) is not None:
                verdicts[rubric.name] = not_applicable(cause, WHY_MISSING[cause])
                continue
            own, votes = votes[: len(hearings)], votes[len(hearings) :]
            replies = [reply for vote in own for reply in vote.replies]
            new = [reply for reply in replies if id(reply) not in counted]
            counted.update(map(id, new))
            verdicts[rubric.name] = replace(
                self._combined([vote.verdict for vote in own], rubric),
                raw="\n\n".join(reply.refusal or reply.text for reply in replies),
                model="+".join(sorted({reply.model for reply in replies} - {""})),
                usage=add_usage(map(_usage_of, new)),
            )
        return verdicts

    def _combined(self, verdicts: Sequence[Verdict], rubric: Rubric) -> Verdict:
        n, bench = self.bench.samples, self.bench
        by_model = [
            verdict_of_samples(verdicts[start : start + n], rubric)
            for start in range(0, len(verdicts), n)
        ]
        return verdict_of_jury(by_model, rubric, bench.models, bench.combine)


async def _vote(hearing: Hearing, item: Item, rubric: Rubric) -> _Vote:
    """One model's verdict; what went wrong is a verdict too."""
    trail = Trail(hearing)
    try:
        verdict = await _METHODS[rubric.method](trail, item, rubric)
    except CallFailure as failure:
        verdict = _failed(failure.cause, failure.detail)
    except RagbenchError:
        raise
    except Exception as error:  # noqa: BLE001 - one odd item must not end the others
        verdict = _failed(Cause.ERROR, f"{type(error).__name__}: {error}")
    return _Vote(verdict, trail.replies)


async def _all_ended(votes: Sequence[Awaitable[_Vote]]) -> list[_Vote]:
    """The votes, once all are done: an error of one must not leave the others behind."""
    outcomes = await asyncio.gather(*votes, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in outcomes if isinstance(outcome, _Vote)]


def _failed(cause: Cause, detail: str) -> Verdict:
    return Verdict(None, reasoning=detail, status="failed", cause=cause.word)


def _usage_of(reply: ChatReply) -> Usage:
    return Usage(reply.usage.input_tokens, reply.usage.output_tokens, reply.cost_usd)
