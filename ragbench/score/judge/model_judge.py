"""Judges by language models: prompts, votes and verdicts of one or several models."""

from __future__ import annotations

import asyncio
import itertools
import statistics
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Any, Literal

from msgspec import structs

from ragbench import llm
from ragbench.errors import RagbenchError
from ragbench.llm.limits import Limits
from ragbench.llm.usage import CountingModel
from ragbench.registry import Option
from ragbench.score.base import Advance
from ragbench.score.judge.base import NEEDS, JudgedItem, Rubric, RubricJudge, missing_verdict
from ragbench.score.judge.items import explain_evidence, item_of, with_evidence
from ragbench.score.judge.methods.claims import check_claims
from ragbench.score.judge.methods.conversation import count_retained, count_satisfied
from ragbench.score.judge.methods.ragas import apply_ragas
from ragbench.score.judge.methods.rating import compare_pair, rate
from ragbench.score.judge.methods.templates import (
    load_examples,
    load_templates,
    prompt_parts,
    reads_passages,
)
from ragbench.score.judge.methods.trec_rag import check_support, count_nuggets
from ragbench.score.judge.methods.vote import Asking, Tasks, Vote, sent_prompts
from ragbench.score.judge.rubric import embedding_identity
from ragbench.score.judge.verdicts import deviation_of, failed_verdict, without_probabilities
from ragbench.signature import fingerprint_json
from ragbench.types.lookups import select_keys, take_items
from ragbench.types.records import add_usage
from ragbench.types.scores import Verdict

# Combination of the scores of several models.
Combine = Literal["mean", "median", "majority"]


@dataclass(frozen=True, slots=True)
class Jury:
    """Models of a judge, and the combination of their verdicts.

    Values are not checked. Several repeats of one model are always combined by their mean.

    Attributes:
        models: Names of the models, as in requests.
        combine: Combination of the scores of several models: mean, median or majority.
        repeat: Number of replies of each model to the same prompts, 1 or more.
    """

    models: tuple[str, ...]
    combine: Combine = "mean"
    repeat: int = 1


class RepeatOptions(Limits):
    """Option for repeated verdicts of one model, with the options of `Limits` on its calls."""

    repeat: Annotated[int, Option("How often each item is judged.", ge=1)] = 1


# Function that sends the requests of a vote and returns its verdict.
Method = Callable[[Vote], Awaitable[Verdict]]
_METHODS: Mapping[str, Method] = {
    "rating": rate,
    "claims": check_claims,
    "pairwise": compare_pair,
    "nuggets": count_nuggets,
    "intentions": count_satisfied,
    "retention": count_retained,
    "support": check_support,
    "ragas": apply_ragas,
}

_MOST = 60  # items of a rehearsal; the estimate scales their mean to all items


def majority(values: Sequence[float]) -> float:
    """Return the most frequent value; the mean of the most frequent ones if several tie.

    An empty list raises ValueError. Values count as equal only if they are exactly so.
    """
    counts = Counter(values)
    most = max(counts.values())
    return statistics.fmean(value for value, count in counts.items() if count == most)


_COMBINED: Mapping[str, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "majority": majority,
}


class ModelJudge(llm.Connected, RubricJudge):
    """Judge by the language models behind one chat client.

    A failure on an item becomes a verdict with status `failed`, the cause, and the replies that
    arrived. Errors that the user can fix (no key, a full disk, a missing reply in a replay) are
    raised. An item that lacks a part of a rubric gets a verdict `not_applicable`.

    `connect` returns the client of the models, given the store of replies or None. It is called at
    the first request or by `check`, and raises OptionError for a missing key, MissingExtra for a
    missing package. After `close` the judge connects anew. `limits` None means the default limits;
    `prices` returns the price table. `judge_all` and `judge` return the verdicts.

    Attributes:
        price_share: Price of the requests as a share of the list price; below 1 for batches.
        jury: Models and repeats.
        asking: Options of the requests.
    """

    takes_many = asks = True
    label = "a language model: its verdicts are opinions until they are checked against people's"
    price_share = 1.0

    def __init__(
        self,
        connect: Callable[[llm.Replies | None], llm.ChatModel],
        jury: Jury,
        asking: Asking,
        *,
        limits: llm.Limits | None = None,
        prices: Callable[[], llm.Prices] = llm.Prices.load,
    ) -> None:
        super().__init__(connect, limits=limits, prices=prices)
        self.jury, self.asking = jury, asking
        self.citations = asking.citations

    def check(self) -> None:
        """Connect to the model and load the templates of prompts, before the first request.

        A judge that is connected stays so.

        Raises:
            OptionError: An option of the connection is not allowed, or the key is missing.
            MissingExtra: A package is not installed.
            DataError: The prices cannot be read.
        """
        super().check()
        # A process that forks while another thread imports leaves its child half of a module.
        load_templates()

    @property
    def model(self) -> str:
        """Names of the models, as in requests, joined by `+`."""
        return "+".join(self.models)

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models, as in requests."""
        return self.jury.models

    @property
    def options(self) -> Mapping[str, Any]:
        """Options that verdicts depend on besides model and prompt; None for unused ones.

        The keys are `temperature`, `repeat`, `combine` (of a jury), `seed`, `max_tokens`,
        `reasoning_effort`, `extra` (a hash of further request parameters) and `language`.
        """
        asking, jury = self.asking, self.jury
        return {
            "temperature": asking.temperature,
            "repeat": jury.repeat,
            "combine": jury.combine if len(jury.models) > 1 else None,
            "seed": asking.seed,
            "max_tokens": asking.max_tokens,
            "reasoning_effort": asking.reasoning_effort,
            "extra": fingerprint_json(asking.extra) if asking.extra else None,
            "language": asking.language,
        }

    def signature_parts(self, rubric: Rubric) -> Mapping[str, Any]:
        """Return the signature parts of a rubric's scores besides the model.

        The keys are those of `prompt_parts` and `options`, and `embeddings`; `citations` for a
        rubric that reads other markers than in brackets; for a rubric on claims and passages also
        `passages` and `window`. A part that is not used is None.

        Raises:
            MissingExtra: The rubric embeds texts, and sentence-transformers is not installed.
            OptionError: The embedding model does not exist.
            DataError: The model is not in the cache of the hub, and the hub cannot be reached.
        """
        asking = self.asking
        prompt = prompt_parts(rubric, few_shot=asking.few_shot, passages=asking.passages)
        parts = {**prompt, **self.options, "embeddings": embedding_identity(rubric)}
        # the usual form is no part: signatures of other judges stay as they are
        if rubric.method in ("claims", "support") and asking.citations != "brackets":
            parts["citations"] = asking.citations
        if not reads_passages(rubric):
            return parts
        together = asking.passages == "together"
        return {**parts, "passages": asking.passages, "window": asking.window if together else None}

    def judge_each(
        self, items: Iterable[JudgedItem], rubrics: Sequence[Rubric]
    ) -> Iterator[tuple[int, dict[str, Verdict]]]:
        """Yield position and rubric -> verdict of each item as its replies arrive.

        As many items as the limits allow are judged concurrently. Items are drawn one by one and
        not kept, so that memory does not grow with their number. Positions count from 0. A failed
        request, or a part that an item lacks, gives a verdict with a cause. Raises RagbenchError if
        the user has to act, as for a missing key.
        """
        yield from self.engine.map(lambda item: self._verdicts(item, rubrics), items)

    def judge_all(
        self, items: Iterable[JudgedItem], rubrics: Sequence[Rubric], advance: Advance | None = None
    ) -> list[dict[str, Verdict]]:
        """Return rubric -> verdict per item, in order; `advance` counts completed items.

        Raises RagbenchError if the user has to act, as for a missing key.
        """
        verdicts = {}
        for position, by_rubric in self.judge_each(items, rubrics):
            verdicts[position] = by_rubric
            if advance is not None:
                advance(1)
        return take_items(verdicts, sorted(verdicts))

    async def ajudge_all(
        self, items: Iterable[JudgedItem], rubrics: Sequence[Rubric], advance: Advance | None = None
    ) -> list[dict[str, Verdict]]:
        """Return rubric -> verdict per item, in order, without blocking the running event loop.

        `advance` is called with 1 for each completed item. Cancelling aborts the requests. Raises
        RagbenchError if the user has to act, as for a missing key; a failed request is a verdict.
        """

        async def judge(item: JudgedItem) -> dict[str, Verdict]:
            """Return the verdicts on an item, after telling `advance`."""
            verdicts = await self._verdicts(item, rubrics)
            if advance is not None:
                advance(1)
            return verdicts

        pairs = await self.engine.amap(judge, items)
        return [verdicts for _, verdicts in sorted(pairs, key=lambda pair: pair[0])]

    def rehearsal(self, model: llm.ChatModel) -> ModelJudge:
        """Return a judge of these options that sends its requests to `model`, to count them.

        It has no store of replies, no budget and no prices, and loads no embedding model.
        """
        asking = replace(self.asking, rehearsal=True)
        return ModelJudge(lambda _: model, self.jury, asking, prices=lambda: llm.Prices({}))

    # ServedClassifier overrides it: the same votes, by the probabilities of a classifier
    def _method(self, rubric: Rubric) -> Method:
        return _METHODS[rubric.method]

    async def _verdicts(self, item: JudgedItem, rubrics: Sequence[Rubric]) -> dict[str, Verdict]:
        """Return rubric -> verdict on one item; equal prompts of rubrics are sent once."""
        items = {rubric.name: with_evidence(item, rubric) for rubric in rubrics}
        missing = {}
        for rubric in rubrics:
            missing[rubric.name] = missing_verdict(items[rubric.name], rubric)
        present = []
        for rubric in rubrics:
            if missing[rubric.name] is None:
                present.append(rubric)
        votes = self._votes(item, [(items[rubric.name], rubric) for rubric in present])
        vote_verdicts = iter(await self._cast(list(chain.from_iterable(votes.values()))))
        verdicts, counted = {}, set[int]()
        for rubric in rubrics:
            if (verdict := missing[rubric.name]) is not None:
                verdicts[rubric.name] = verdict
                continue
            rubric_votes = votes[rubric.name]
            combined = self._combined([next(vote_verdicts) for _ in rubric_votes], rubric)
            explained = explain_evidence(combined, item, items[rubric.name])
            verdicts[rubric.name] = self._with_replies(explained, rubric_votes, item, counted)
        return verdicts

    async def _cast(self, votes: Sequence[Vote]) -> list[Verdict]:
        """Return the verdict of each vote, after all requests have ended."""
        casts = [cast_vote(vote, self._method(vote.rubric)) for vote in votes]
        verdicts = []
        for outcome in await asyncio.gather(*casts, return_exceptions=True):
            # only after all have ended: an error must not leave requests behind
            if isinstance(outcome, BaseException):
                raise outcome
            verdicts.append(outcome)
        return verdicts

    def _with_replies(
        self, verdict: Verdict, votes: Sequence[Vote], item: JudgedItem, counted: set[int]
    ) -> Verdict:
        """Return a verdict with replies, models, usage and prompts of its votes."""
        replies = list(chain.from_iterable(vote.replies for vote in votes))
        # rubrics share replies: tokens and cost count for the first rubric that has one
        new = []
        for reply in replies:
            if id(reply) not in counted:
                new.append(reply)
        counted.update(map(id, new))
        return structs.replace(
            verdict,
            raw="\n\n".join(reply.refusal or reply.answer() for reply in replies),
            model="+".join(sorted({reply.model for reply in replies} - {""})),
            left_out=tuple(sorted(set().union(*(reply.left_out for reply in replies)))),
            usage=add_usage(reply.usage for reply in new),
            prompts=() if self.asking.rehearsal else sent_prompts(votes, item),
        )

    def _votes(
        self, item: JudgedItem, pairs: Sequence[tuple[JudgedItem, Rubric]]
    ) -> dict[str, list[Vote]]:
        """Return rubric -> votes, model by model and repeat by repeat."""
        votes: dict[str, list[Vote]] = {}
        for _, rubric in pairs:
            votes[rubric.name] = []
        # samples of a generator may be equal answers: each is judged by new replies
        n = self.jury.repeat
        first = item.first_reply + (item.sample * n if n > 1 else 0)
        for model, number in itertools.product(self.jury.models, range(n)):
            voter = model if n == 1 else f"{model}, repeat {number + 1}"
            sample, tasks = first + number, Tasks()
            shared = (model, voter, sample, self.asking, self.engine.aask, tasks)
            for full_item, rubric in pairs:
                votes[rubric.name].append(Vote(full_item, rubric, *shared))
        return votes

    def _combined(self, verdicts: Sequence[Verdict], rubric: Rubric) -> Verdict:
        """Return the verdict of all votes, weighted by probabilities if all scored ones are."""
        plain = [without_probabilities(verdict, rubric) for verdict in verdicts]
        plain_verdict = self._combine_votes(plain, rubric)
        if not all(verdict.weighted for verdict in verdicts if verdict.score is not None):
            return plain_verdict
        verdict = self._combine_votes(verdicts, rubric)
        if not verdict.weighted:
            return verdict
        return structs.replace(
            verdict,
            # reasons quote the levels that the replies name
            reasoning=plain_verdict.reasoning,
            plain_level=plain_verdict.level,
            plain_samples=plain_verdict.samples,
        )

    def _combine_votes(self, verdicts: Sequence[Verdict], rubric: Rubric) -> Verdict:
        n, jury = self.jury.repeat, self.jury
        by_model = []
        for start in range(0, len(verdicts), n):
            by_model.append(_combine_repeats(verdicts[start : start + n], rubric))
        return combine_verdicts(by_model, jury.models, rubric, jury.combine)


async def cast_vote(vote: Vote, method: Method) -> Verdict:
    """Return the verdict of one vote; `failed` for a failed request or an unexpected error.

    `method` returns the verdict of a vote.

    Raises:
        RagbenchError: The user has to act, as for a missing key.
    """
    try:
        return await method(vote)
    except llm.CallFailure as failure:
        cause = failure.cause.word
        return Verdict(None, reasoning=failure.detail, status="failed", cause=cause)
    except RagbenchError:
        raise
    except Exception as error:  # noqa: BLE001 - one odd item must not end the others
        return failed_verdict(error)


def combine_verdicts(
    verdicts: Sequence[Verdict],
    labels: Sequence[str],
    rubric: Rubric,
    combine: Combine = "mean",
    *,
    may_fail: bool = False,
) -> Verdict:
    """Return the combined verdict of several models, or of the repeats of one.

    A single verdict is returned unchanged. Verdicts without a score are left out; the reasoning
    joins all reasons, and the deviation is None for fewer than two scores. If none has a score,
    score and cause are those of the first failed verdict, else of the first one.

    Args:
        verdicts: The verdicts, at least one.
        labels: Name of each verdict in the reasoning.
        rubric: Rubric of the verdicts.
        combine: Combination of the levels, or of the scores if a verdict has no level: mean, median
            or majority. For a majority levels are rounded; the mean of the most frequent ones
            counts if several tie.
        may_fail: True combines the others if some failed, as repeats of one model do. Models are
            not exchangeable: if one fails, the item fails, since otherwise items would be judged by
            different juries.

    Raises:
        IndexError: `verdicts` is empty.
        ValueError: `labels` are not as many as the verdicts.
    """
    if len(verdicts) == 1:
        return verdicts[0]
    scored, failed = [], []
    for verdict in verdicts:
        if verdict.score is not None:
            scored.append(verdict)
        if verdict.status == "failed":
            failed.append(verdict)
    reasons = []
    for label, verdict in zip(labels, verdicts, strict=True):
        reasons.append(f"{label}: {_outcome_of(verdict)}: {verdict.reasoning}")
    # models of a jury may have several repeats each: all of them tell the deviation
    samples: list[float | None] = []
    for verdict in verdicts:
        samples += verdict.samples or (verdict.score,)
    scores = []
    for sample in samples:
        if sample is not None:
            scores.append(sample)
    # the failure decides, so that its cause is counted
    if not scored or (failed and not may_fail):
        whole = [*failed, *verdicts][0]
    else:
        whole = _combine(scored, rubric, combine)
        if failed:
            note = f"the mean of {len(scores)} repeats; {len(failed)} of {len(verdicts)} failed"
            reasons.insert(0, note)
    return structs.replace(
        whole,
        # the text of an error stands in one line
        reasoning=("; " if whole.status == "failed" else "\n").join(reasons),
        samples=tuple(samples),
        spread=deviation_of(scores) if len(scores) > 1 else None,
        repeat_causes=_repeat_causes(verdicts, whole, may_fail),
    )


def _repeat_causes(verdicts: Sequence[Verdict], whole: Verdict, may_fail: bool) -> tuple[str, ...]:
    """Return the cause of each repetition behind a combined verdict; () if none failed."""
    if may_fail:
        is_failed = any(verdict.status == "failed" for verdict in verdicts)
        return tuple(verdict.cause for verdict in verdicts) if is_failed else ()
    n = max(len(verdict.repeat_causes) for verdict in verdicts)
    if whole.status == "failed":
        return (whole.cause,) * (n * len(verdicts))
    causes = list[str]()
    for verdict in verdicts:
        causes += verdict.repeat_causes or [verdict.cause] * n
    return tuple(causes)


def combine_repeats(verdicts: Sequence[Verdict], rubric: Rubric) -> Verdict:
    """Return the verdict of a judge of own code on an item from its repetitions, at least one.

    Its score is the mean, and its usage the sum. If the rubric does not apply to the item, the
    first verdict says so.
    """
    if len(verdicts) == 1 or all(verdict.status == "not_applicable" for verdict in verdicts):
        return verdicts[0]
    combined = _combine_repeats(verdicts, rubric)
    replies = []
    for verdict in verdicts:
        if verdict.raw:
            replies.append(verdict.raw)
    return structs.replace(
        combined,
        raw="\n\n".join(replies),
        model=verdicts[0].model,
        usage=add_usage(verdict.usage for verdict in verdicts),
    )


def _combine_repeats(verdicts: Sequence[Verdict], rubric: Rubric) -> Verdict:
    labels = [f"repeat {number}" for number in range(1, len(verdicts) + 1)]
    return combine_verdicts(verdicts, labels, rubric, may_fail=True)


def _combine(verdicts: Sequence[Verdict], rubric: Rubric, combine: Combine) -> Verdict:
    """Return the combination of verdicts with scores: of their levels if all have one."""
    # For a majority, levels are rounded first. The reasoning is empty.
    levels = []
    for verdict in verdicts:
        if verdict.level is not None:
            levels.append(verdict.level)
    weighted = any(verdict.weighted for verdict in verdicts)
    # methods without levels have a score alone
    if len(levels) < len(verdicts):
        scores = []
        for verdict in verdicts:
            if verdict.score is not None:
                scores.append(verdict.score)
        return Verdict(_COMBINED[combine](scores), weighted=weighted)
    orders = tuple(score for verdict in verdicts for score in verdict.orders)
    # weighted levels are fractions: in a majority they vote for the nearest level
    votes = [float(round(level)) for level in levels] if combine == "majority" else levels
    level = _COMBINED[combine](votes)
    return Verdict(rubric.score_of(level), level=level, weighted=weighted, orders=orders)


def _outcome_of(verdict: Verdict) -> str:
    if verdict.level is not None:
        return f"level {verdict.level:.3g}"
    return verdict.cause if verdict.score is None else f"{verdict.score:.3g}"


class _Recording(CountingModel):
    """Chat model that records requests and sends none; replies have the shape of the schema."""

    def __init__(self) -> None:
        super().__init__(llm.Prices({}), items=1, reply=0, bytes_a_token=1)
        self.requests: list[llm.ChatRequest] = []

    async def complete(self, request: llm.ChatRequest) -> llm.ChatReply:
        """Append the request to `requests` and return a placeholder that fits its schema."""
        self.requests.append(request)
        return await super().complete(request)


def example_requests(rubric: Rubric) -> list[llm.ChatRequest]:
    """Return the distinct requests that a rubric makes for its first example; none is sent.

    In a prompt that quotes an earlier reply, the word "something" replaces the reply. Placeholders
    replace the parts that the example lacks, or all parts without an example. Ratings of several
    passages make several.

    Example:
        >>> from ragbench.score.judge.rubric import load_rubric
        >>> [request.messages[0].role for request in example_requests(load_rubric("fluency"))]
        ['system']
    """
    example = rubric.examples[0] if rubric.examples else {}
    placeholders = load_examples("placeholders")
    parts = {need: placeholders[need] for need in rubric.needs}
    parts |= select_keys(example, NEEDS)
    item = item_of("example", (None,) * 5, parts)
    model = _Recording()
    # rehearsal: placeholders must not be embedded, which would load a model
    judge = ModelJudge(lambda replies: model, Jury(("model",)), Asking(rehearsal=True))
    judge.judge(item, rubric)
    judge.close()
    return model.requests


def _sample(items: Sequence[JudgedItem]) -> list[JudgedItem]:
    """Return some 60 items at most, all of each query: its answers share requests."""
    by_query: dict[str, list[JudgedItem]] = {}
    for number, item in enumerate(items):
        by_query.setdefault(item.query_id or str(number), []).append(item)
    groups = [*by_query.values()]
    # no draw: equal calls give equal estimates, and two judges get the same items
    n = max(1, min(len(groups), _MOST * len(groups) // len(items)))
    some = list[JudgedItem]()
    for number in range(n):
        some += groups[number * len(groups) // n]
    return some


def rehearse(
    judge: ModelJudge,
    items: Sequence[JudgedItem],
    rubrics: Sequence[Rubric],
    counted: llm.CountedRequests | None = None,
    salt: str = "",
) -> llm.Estimate:
    """Estimate requests, tokens and cost of applying rubrics to items; nothing is sent.

    A counting model receives the real prompts of up to 60 items, those of queries at equal
    distances, and the sums are scaled to all items. Number and length of these prompts are exact
    unless they depend on replies: the low estimate assumes one claim a sentence, the high one two.
    Without items or rubrics the estimate is zero; without a price the cost is None. Cost is in US
    dollars; an estimate is a pair (low, high).

    Args:
        judge: Judge of the items.
        items: Items to judge.
        rubrics: Rubrics of the judge.
        counted: Requests that other judges make as well, and a run sends once.
        salt: Word that tells items that stand for others from those of other stages.

    Raises:
        RagbenchError: The prices cannot be read, or a rubric's embedding model is missing.

    Example:
        >>> from ragbench.score.judge.chat import OpenAIJudge
        >>> from ragbench.score.judge.rubric import load_rubric
        >>> judge = OpenAIJudge(model="gpt-4o-mini", api_key_env="NONE")
        >>> item = JudgedItem(question="Why?", answer="Because. So it is.", contexts=["It is so."])
        >>> rehearse(judge, [item], [load_rubric("faithfulness")]).calls  # split, then check
        (2.0, 2.0)
    """
    if not items or not rubrics:
        return llm.Estimate()
    some = _sample(items)
    n = len(some)

    def ask(model: llm.ChatModel) -> None:
        rehearsal = judge.rehearsal(model)
        try:
            rehearsal.judge_all(some, rubrics)
        finally:
            rehearsal.close()

    server = {**judge.server, "salt": salt} if salt else judge.server
    total = llm.estimate(ask, judge.load_prices(), counted, server).times(len(items) / n)
    if total.usd is None:
        return total
    low, high = total.usd
    return replace(total, usd=(low * judge.price_share, high * judge.price_share))
