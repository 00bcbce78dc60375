"""Language models as judges: from an item and rubrics to verdicts, whatever the server does."""

from __future__ import annotations

import asyncio
import statistics
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from ragbench.errors import RagbenchError
from ragbench.llm import (
    CallFailure,
    ChatModel,
    ChatReply,
    ChatRequest,
    Connected,
    Estimate,
    Limits,
    Prices,
    Replies,
    estimate,
)
from ragbench.llm.server import CallOptions
from ragbench.llm.usage import Counting
from ragbench.registry import Option
from ragbench.score.base import Advance
from ragbench.score.judge.base import Item, Judge, Rubric, missing_verdict
from ragbench.score.judge.items import explained, with_evidence
from ragbench.score.judge.methods.claims import check_claims
from ragbench.score.judge.methods.conversation import count_retained, count_satisfied
from ragbench.score.judge.methods.prompt import Prompt, example_item
from ragbench.score.judge.methods.ragas import apply_ragas
from ragbench.score.judge.methods.rating import compare_pair, rate
from ragbench.score.judge.methods.session import Asking, ReplyLog, Session, sent_prompts
from ragbench.score.judge.methods.templates import prompt_fingerprint, reads_passages
from ragbench.score.judge.methods.trec_rag import check_support, count_nuggets
from ragbench.score.judge.rubric import embedding_identity
from ragbench.score.judge.verdicts import failed_verdict
from ragbench.signature import fingerprint_json
from ragbench.types.conversation import Turn
from ragbench.types.records import Usage, add_usage
from ragbench.types.scores import SentPrompt, Verdict

Combine = Literal["mean", "median", "majority"]
"""How the models of a jury become one."""


@dataclass(frozen=True, slots=True)
class Jury:
    """Who judges, and how they become one verdict."""

    models: tuple[str, ...]
    """The models, as requests name them."""
    combine: Combine = "mean"
    """How several models become one."""
    samples: int = 1
    """How often each is asked."""


@dataclass(frozen=True, kw_only=True)
class RepeatOptions(CallOptions):
    """How often a model is asked the same."""

    samples: Annotated[int, Option("How often each item is judged.", ge=1)] = 1


_METHODS: Mapping[str, Callable[[ReplyLog, Item, Rubric], Awaitable[Verdict]]] = {
    "rating": rate,
    "claims": check_claims,
    "pairwise": compare_pair,
    "nuggets": count_nuggets,
    "intentions": count_satisfied,
    "retention": count_retained,
    "support": check_support,
    "ragas": apply_ragas,
}

T = TypeVar("T")

_MOST = 20  # items that are rehearsed; the others are taken to be like them


def majority(values: Sequence[float]) -> float:
    """Return the most frequent value; the mean of those that are equally frequent."""
    counts = Counter(values)
    most = max(counts.values())
    return statistics.fmean(value for value, count in counts.items() if count == most)


_COMBINED: Mapping[str, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "majority": majority,
}


class _Vote(NamedTuple):
    """What one model says of one rubric in one sample."""

    verdict: Verdict
    replies: list[ChatReply]
    sent: list[Prompt]


class ModelJudge(Connected, Judge):
    """Judges by language models behind one chat model.

    What goes wrong with an item becomes a verdict with status `failed`, its cause and the replies
    that came. Errors that are the user's to mend (no key, a full disk, a reply that a replay lacks)
    are raised.
    """

    takes_many = asks = True
    label = "a language model: its verdicts are opinions until they are checked against people's"
    price_share = 1.0
    """What its calls cost, as a part of the usual price."""

    def __init__(
        self,
        connect: Callable[[Replies | None], ChatModel],
        jury: Jury,
        asking: Asking,
        *,
        limits: Limits | None = None,
        prices: Callable[[], Prices] = Prices.load,
    ) -> None:
        super().__init__(connect, limits=limits, prices=prices)
        self.jury, self.asking = jury, asking

    @property
    def model(self) -> str:
        """The models that are asked, as requests name them."""
        return "+".join(self.jury.models)

    @property
    def options(self) -> Mapping[str, Any]:
        """What verdicts depend on besides model and prompt."""
        asking, jury = self.asking, self.jury
        return {
            "temperature": asking.temperature,
            "samples": jury.samples,
            "combine": jury.combine if len(jury.models) > 1 else None,
            "seed": asking.seed,
            "max_tokens": asking.max_tokens,
            "reasoning_effort": asking.reasoning_effort,
            "extra": fingerprint_json(asking.extra) if asking.extra else None,
            "language": asking.language,
        }

    def signature_parts(self, rubric: Rubric) -> Mapping[str, Any]:
        """Return what the verdicts by a rubric depend on besides the model."""
        asking = self.asking
        prompt = prompt_fingerprint(rubric, few_shot=asking.few_shot, passages=asking.passages)
        parts = {"prompt": prompt, **self.options, "embeddings": embedding_identity(rubric)}
        if not reads_passages(rubric):
            return parts
        together = asking.passages == "together"
        return {**parts, "passages": asking.passages, "window": asking.window if together else None}

    def judge(self, item: Item, rubric: Rubric) -> Verdict:
        """Apply one rubric to one item."""
        return self.judge_all([item], [rubric])[0][rubric.name]

    def judge_each(
        self, items: Iterable[Item], rubrics: Sequence[Rubric]
    ) -> Iterator[tuple[int, dict[str, Verdict]]]:
        """Yield position and verdicts of each item as they come, as many at once as limits allow.

        Items are taken as they are needed, and nothing is kept: memory does not grow with them.
        """
        yield from self.engine.each(lambda item: self._verdicts(item, rubrics), items)

    def judge_all(
        self, items: Iterable[Item], rubrics: Sequence[Rubric], advance: Advance | None = None
    ) -> list[dict[str, Verdict]]:
        """Apply rubrics to items, as `judge_each` does, and return all verdicts in order."""
        return _in_order(self.judge_each(items, rubrics), advance)

    async def ajudge_all(
        self, items: Iterable[Item], rubrics: Sequence[Rubric]
    ) -> list[dict[str, Verdict]]:
        """Apply rubrics to items without blocking the running loop; may be cancelled."""
        hear = self.engine.aeach(lambda item: self._verdicts(item, rubrics), items)
        return _in_order([each async for each in hear])

    async def _verdicts(self, item: Item, rubrics: Sequence[Rubric]) -> dict[str, Verdict]:
        """All verdicts on one item; what several rubrics ask is asked once."""
        shown = {rubric.name: with_evidence(item, rubric) for rubric in rubrics}
        missing = {rubric.name: missing_verdict(shown[rubric.name], rubric) for rubric in rubrics}
        asked = [rubric for rubric in rubrics if missing[rubric.name] is None]
        # equal answers of a generator are judged by further samples, not by the same replies
        first = item.sample * self.jury.samples if self.jury.samples > 1 else 0
        sessions = [
            Session(self.engine.aask, self.asking, model, first + sample)
            for model in self.jury.models
            for sample in range(self.jury.samples)
        ]
        votes = await _all_ended(
            [_vote(session, shown[r.name], r) for r in asked for session in sessions]
        )
        verdicts, counted = {}, set[int]()
        for rubric in rubrics:
            if (lacking := missing[rubric.name]) is not None:
                verdicts[rubric.name] = lacking
                continue
            own, votes = votes[: len(sessions)], votes[len(sessions) :]
            replies = [reply for vote in own for reply in vote.replies]
            new = [reply for reply in replies if id(reply) not in counted]
            counted.update(map(id, new))
            verdicts[rubric.name] = replace(
                explained(
                    self._combined([vote.verdict for vote in own], rubric), item, shown[rubric.name]
                ),
                raw="\n\n".join(reply.refusal or reply.text for reply in replies),
                model="+".join(sorted({reply.model for reply in replies} - {""})),
                left_out=tuple(sorted({name for reply in replies for name in reply.left_out})),
                usage=add_usage(map(_usage_of, new)),
                prompts=self._sent(sessions, own, item),
            )
        return verdicts

    def _sent(
        self, sessions: Sequence[Session], votes: Sequence[_Vote], item: Item
    ) -> tuple[SentPrompt, ...]:
        n, asked = self.jury.samples, []
        for number, (session, vote) in enumerate(zip(sessions, votes, strict=True)):
            sample = "" if n == 1 else f", sample {number % n + 1}"
            asked.append((f"{session.model}{sample}", vote.sent))
        return () if self.asking.rehearsal else sent_prompts(asked, self.asking, item)

    def _combined(self, verdicts: Sequence[Verdict], rubric: Rubric) -> Verdict:
        n, jury = self.jury.samples, self.jury
        by_model = [
            verdict_of_samples(verdicts[start : start + n], rubric)
            for start in range(0, len(verdicts), n)
        ]
        return verdict_of_jury(by_model, rubric, jury.models, jury.combine)


def _in_order(pairs: Iterable[tuple[int, T]], advance: Advance | None = None) -> list[T]:
    """What comes with its position, once all is there."""
    found = {}
    for position, value in pairs:
        found[position] = value
        if advance is not None:
            advance(1)
    return [found[position] for position in range(len(found))]


async def _vote(session: Session, item: Item, rubric: Rubric) -> _Vote:
    """One model's verdict; what went wrong is a verdict too."""
    log = ReplyLog(session)
    try:
        verdict = await _METHODS[rubric.method](log, item, rubric)
    except CallFailure as failure:
        cause = failure.cause.word
        verdict = Verdict(None, reasoning=failure.detail, status="failed", cause=cause)
    except RagbenchError:
        raise
    except Exception as error:  # noqa: BLE001 - one odd item must not end the others
        verdict = failed_verdict(error)
    return _Vote(verdict, log.replies, log.sent)


async def _all_ended(votes: Sequence[Awaitable[_Vote]]) -> list[_Vote]:
    """The votes, once all are done: an error of one must not leave the others behind."""
    outcomes = await asyncio.gather(*votes, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in outcomes if isinstance(outcome, _Vote)]


def _usage_of(reply: ChatReply) -> Usage:
    used = reply.usage
    return Usage(used.input_tokens, used.output_tokens, reply.cost_usd, used.reasoning_tokens)


def verdict_of_samples(verdicts: Sequence[Verdict], rubric: Rubric) -> Verdict:
    """Return the mean verdict of one model's samples.

    Samples are exchangeable: those that failed are left out of the mean, and the reasoning says
    so. Without a score, the first failure, or else the first verdict, speaks for all.
    """
    if len(verdicts) == 1:
        return verdicts[0]
    scored = [verdict for verdict in verdicts if verdict.score is not None]
    labels = [f"sample {number}" for number in range(1, len(verdicts) + 1)]
    if not scored:
        return _joined(_speaker(verdicts), verdicts, labels)
    return _joined(_combined(scored, rubric, "mean"), verdicts, labels)


def verdict_of_jury(
    verdicts: Sequence[Verdict], rubric: Rubric, models: Sequence[str], combine: Combine
) -> Verdict:
    """Return the verdict of several models.

    Models are not exchangeable: where one fails, the item fails, since otherwise items would be
    judged by different juries. Where it applies for some models only, those count.
    """
    if len(verdicts) == 1:
        return verdicts[0]
    scored = [verdict for verdict in verdicts if verdict.score is not None]
    if not scored or any(verdict.status == "failed" for verdict in verdicts):
        return _joined(_speaker(verdicts), verdicts, models)
    return _joined(_combined(scored, rubric, combine), verdicts, models)


def _combined(verdicts: Sequence[Verdict], rubric: Rubric, combine: Combine) -> Verdict:
    """One verdict of those with a score; by levels where all have one."""
    levels = [verdict.level for verdict in verdicts if verdict.level is not None]
    weighted = any(verdict.weighted for verdict in verdicts)
    orders = tuple(score for verdict in verdicts for score in verdict.orders)
    if len(levels) == len(verdicts):
        # a model that was weighted votes for the level that it came nearest to
        votes = [float(round(level)) for level in levels] if combine == "majority" else levels
        level = _COMBINED[combine](votes)
        score = rubric.score_of(level)
        return Verdict(score, level=level, weighted=weighted, orders=orders)
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    return Verdict(_COMBINED[combine](scores), weighted=weighted)


def _speaker(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict whose status stands for all: the first failure, else the first."""
    return next((v for v in verdicts if v.status == "failed"), verdicts[0])


def _joined(whole: Verdict, verdicts: Sequence[Verdict], labels: Sequence[str]) -> Verdict:
    """The whole verdict with what all of them said, and how far they lie apart."""
    samples = [sample for v in verdicts for sample in (v.samples or (v.score,))]
    known = [sample for sample in samples if sample is not None]
    said = [
        f"{label}: {_shown(verdict)}: {verdict.reasoning}"
        for label, verdict in zip(labels, verdicts, strict=True)
    ]
    failed = sum(verdict.status == "failed" for verdict in verdicts)
    if failed and whole.status == "scored":
        said.insert(0, f"the mean of {len(known)} samples; {failed} of {len(verdicts)} failed")
    return replace(
        whole,
        score=None if whole.status != "scored" else whole.score,
        level=None if whole.status != "scored" else whole.level,
        reasoning="\n".join(said),
        samples=tuple(samples),
        spread=statistics.stdev(known) if len(known) > 1 else None,
    )


def _shown(verdict: Verdict) -> str:
    if verdict.level is not None:
        return f"level {verdict.level:.3g}"
    return verdict.cause if verdict.score is None else f"{verdict.score:.3g}"


_STAND_IN: Mapping[str, Any] = {
    "question": "When was the harbour bridge opened?",
    "answer": "It was opened on 3 May 1932 [1].",
    "contexts": ["The harbour bridge was opened to traffic on 3 May 1932."],
    "reference": "The harbour bridge was opened in 1932.",
    "queries": ["harbour bridge opening date"],
    "guidelines": ["Answer in one sentence."],
    "other": "In the year 1923.",
    "turns": (
        Turn("user", "I want to cross the harbour bridge. How long is it?"),
        Turn("assistant", "It is 503 metres long."),
    ),
}
"""An example for rubrics that have none, or lack a part of it."""


class _Recording(Counting):
    """A chat model that sends nothing and records its requests."""

    def __init__(self) -> None:
        super().__init__(Prices({}), items=1, reply=0, bytes_a_token=1)
        self.requests: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Record the request, and answer in its shape."""
        self.requests.append(request)
        return await super().complete(request)


def example_requests(rubric: Rubric) -> list[ChatRequest]:
    """Return the requests that a rubric makes for its first example, each once; none is sent.

    Where a prompt depends on an earlier reply, the word "something" stands for what it would say.

    Example:
        >>> from ragbench.score.judge.rubric import load_rubric
        >>> [request.messages[0].role for request in example_requests(load_rubric("fluency"))]
        ['system']
    """
    example = rubric.examples[0] if rubric.examples else {}
    item = example_item({**{need: _STAND_IN[need] for need in rubric.needs}, **example})
    model = _Recording()
    judge = ModelJudge(lambda replies: model, Jury(("model",)), Asking(rehearsal=True))
    judge.judge(item, rubric)
    judge.close()
    return model.requests


def rehearse(judge: ModelJudge, items: Sequence[Item], rubrics: Sequence[Rubric]) -> Estimate:
    """Estimate what applying rubrics to items takes; nothing is sent.

    The judge asks a model that only counts. The prompts are the real ones, so their number and
    length are right as far as they do not depend on replies: a split answer has one claim a
    sentence in the low estimate, two in the high one.

    Example:
        >>> from ragbench.score.judge.chat import OpenAIJudge
        >>> from ragbench.score.judge.rubric import load_rubric
        >>> judge = OpenAIJudge(model="gpt-4o-mini", api_key_env="NONE")
        >>> item = Item(question="Why?", answer="Because. So it is.", contexts=["It is so."])
        >>> rehearse(judge, [item], [load_rubric("faithfulness")]).calls  # split, then check
        (2.0, 2.0)
    """
    if not items or not rubrics:
        return Estimate()
    some = items[:_MOST]

    def ask(model: ChatModel) -> None:
        stand_in = ModelJudge(
            lambda replies: model,
            judge.jury,
            replace(judge.asking, rehearsal=True),
            prices=lambda: Prices({}),
        )
        try:
            stand_in.judge_all(some, rubrics)
        finally:
            stand_in.close()

    found = estimate(ask, judge.load_prices()).times(len(items) / len(some))
    if found.usd is None:
        return found
    low, high = found.usd
    return replace(found, usd=(low * judge.price_share, high * judge.price_share))
