"""Votes of one model on one item; a prompt that several rubrics need is sent once."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from sys import intern
from typing import Annotated, Any, TypeVar

from msgspec import structs

from ragbench import llm
from ragbench.errors import OptionError
from ragbench.llm.calls import Ask
from ragbench.llm.server import SamplingOptions
from ragbench.registry import Option, OptionSet
from ragbench.score.judge.base import JudgedItem, Rubric
from ragbench.score.judge.markers import CitationForms
from ragbench.score.judge.methods.prompt import JudgePrompt, Prompts
from ragbench.score.judge.methods.templates import Together, harmless, split_user_text
from ragbench.types.scores import SentPrompt, named_text

Outcome = TypeVar("Outcome")

_LANGUAGE = re.compile(r"[^\W\d_](?:[^\W\d_]|[ ()-]){0,39}")


class ExampleOptions(OptionSet):
    """Options of the prompts besides the task; this class does not check their values."""

    few_shot: Annotated[bool, Option("Whether prompts show examples.")] = True
    language: Annotated[
        str | None,
        Option(
            "Language of reasons and claims, such as German; `item`: the language of the "
            "judged texts; null: prompts name no language."
        ),
    ] = None


class PassageOptions(OptionSet):
    """Options of the check of claims against passages; `passages` is `together` or `each`."""

    passages: Annotated[
        Together,
        Option(
            "Whether claims are checked against all passages at once, so that one may "
            "need several, or against each by itself: one request a passage."
        ),
    ] = "together"
    citations: Annotated[
        CitationForms,
        Option(
            "Forms of citation markers to read: `brackets`, as [1], [doc1], 【1】 and "
            "<cite>; besides these `round`, as (1), `superscript`, or `all`."
        ),
    ] = "brackets"
    window: Annotated[
        int,
        Option(
            "Longest prompt about passages, in tokens, estimated at 3 bytes each; more "
            "passages are read in several requests.",
            ge=1_000,
        ),
    ] = 32_000


class Asking(SamplingOptions, ExampleOptions, PassageOptions):
    """Options of all requests of a judge, the same for all items, models and samples.

    `Asking.from_options` reads them from the options of a judge. Besides the attributes below they
    are `temperature`, `max_tokens`, `seed`, `reasoning_effort`, `few_shot`, `language`, `passages`,
    `citations` and `window`. Raises OptionError if `language` is more than a name; other values are
    not checked.

    Attributes:
        extra: Further request parameters of the server.
        rehearsal: True if requests are only counted and replies are placeholders.
    """

    extra: Mapping[str, Any] = field(default_factory=dict)
    rehearsal: bool = False

    def __post_init__(self) -> None:
        # a name only: a sentence here would be a further instruction to the judge
        if self.language is not None and not _LANGUAGE.fullmatch(self.language):
            allowed = "the name of a language, such as German, or item"
            raise OptionError("judge", "language", self.language, allowed)

    def request(
        self, model: str, prompt: JudgePrompt, sample: int, top_logprobs: int
    ) -> llm.ChatRequest:
        """Return the request to `model` for a prompt: a system and a user message, with the schema.

        `sample` numbers repeated requests with one prompt; `top_logprobs` is the number of
        alternatives per token, 0 for none. `sample` counts from 0.
        """
        return replace(
            self.base_request(model, self.extra),
            messages=(llm.Message("system", self.system(prompt)), llm.Message("user", prompt.user)),
            schema=prompt.schema,
            top_logprobs=top_logprobs,
            sample=sample,
        )

    def system(self, prompt: JudgePrompt) -> str:
        """Return the system text of a prompt, ended by a line on the language if one is chosen."""
        if self.language is None:
            return prompt.system
        is_item = self.language == "item"
        name = "the language of the judged texts" if is_item else self.language
        line = f"Word reasons, claims and facts in {name}; keep the keys and fixed values as given."
        return f"{prompt.system}\n\n{line}"


# Builder of the prompt that asks for an entry on each of several texts.
PromptOf = Callable[[Sequence[str]], JudgePrompt]
# Texts of a request: with more, replies reach the token limits of models.
MOST_TEXTS = 50

# Prompt (system, user, log-probabilities) -> reply, pending or done.
Tasks = dict[tuple[str, str, int], "asyncio.Task[llm.StructuredReply]"]


@dataclass(eq=False)
class Vote:
    """Vote of one model on one item by one rubric, with the replies that it rests on.

    Votes of one model and sample on an item share `tasks`: equal prompts are sent once, so that all
    rubrics over claims share the split and the verdicts. A failed prompt is not sent again either.
    A vote belongs to one event loop. `ask` returns the reply to one prompt, `ask_all` the replies
    to several. They raise CallFailure for a failed request, RagbenchError if the user has to act.

    Attributes:
        item: Item with its evidence.
        rubric: Rubric of the vote.
        model: Name of the model, as in requests.
        voter: Name of the model, with the number of the sample if there are several, for readers.
        sample: Number of the sample, for the keys of stored replies.
        asking: Options of the requests.
        send: Function that sends a request.
        tasks: Replies by prompt, shared with other votes.
        replies: Replies in the order of their prompts, each once.
        sent: Prompts in order, repeated ones included.
    """

    item: JudgedItem
    rubric: Rubric
    model: str
    voter: str
    sample: int
    asking: Asking
    send: Ask
    tasks: Tasks
    replies: list[llm.ChatReply] = field(default_factory=list)
    sent: list[JudgePrompt] = field(default_factory=list)

    @property
    def prompts(self) -> Prompts:
        """Builder of the prompts for this rubric and item."""
        return Prompts(self.rubric, self.item, self.asking.few_shot)

    async def ask(self, prompt: JudgePrompt) -> llm.StructuredReply:
        """Return the reply to one prompt, which is sent unless a vote with the same tasks sent it.

        Raises:
            CallFailure: The request failed, or its reply cannot be read.
            RagbenchError: The user has to act, as for a missing key.
        """
        return (await self.ask_all([prompt]))[0]

    async def ask_all(
        self, prompts: Sequence[JudgePrompt], *, top_logprobs: int = 0
    ) -> list[llm.StructuredReply]:
        """Return the replies to several concurrent prompts, in order.

        Tokens and cost are in the replies. `top_logprobs` is the number of alternatives per token
        that are requested, 0 for none.

        Raises:
            CallFailure: A request failed; the first failure in order, after all have ended.
            RagbenchError: The user has to act, as for a missing key; takes precedence.
        """
        return await self._replies([self._task(prompt, top_logprobs) for prompt in prompts])

    async def ask_values(self, prompts: Sequence[JudgePrompt]) -> list[Any]:
        """Return the parsed replies to several concurrent prompts, in order; see `ask_all`."""
        return [reply.value for reply in await self.ask_all(prompts)]

    async def ask_each(self, jobs: Sequence[tuple[PromptOf, Sequence[str]]]) -> list[list[Any]]:
        """Return per job the entries of the replies on its texts, in order.

        The schema of a prompt has one key per text. A request has at most 50 texts, and is halved
        if its reply ended at the token limit. Without texts, a job sends nothing.

        Raises:
            CallFailure: A request failed; the first failure in order, after all have ended.
            RagbenchError: The user has to act, as for a missing key; takes precedence.
        """
        parts = []
        for job, (prompt_of, texts) in enumerate(jobs):
            for start in range(0, len(texts), MOST_TEXTS):
                parts.append((job, prompt_of, texts[start : start + MOST_TEXTS]))
        # a vote per part, so that the order of replies does not depend on their time
        votes = []
        for _ in parts:
            votes.append(replace(self, replies=[], sent=[]))
        outcomes = await asyncio.gather(
            *(vote._ask_part(*part[1:]) for vote, part in zip(votes, parts, strict=True)),
            return_exceptions=True,
        )
        for vote in votes:
            self.sent += vote.sent
            self._log(vote.replies)
        entries: list[list[Any]] = [[] for _ in jobs]
        for (number, *_), values in zip(parts, successes(outcomes), strict=True):
            entries[number] += values
        return entries

    async def _ask_part(self, prompt_of: PromptOf, texts: Sequence[str]) -> list[Any]:
        """Return the entries on texts, by one request or, where its reply is cut, by halves."""
        prompt, middle = prompt_of(texts), len(texts) // 2
        try:
            [reply] = await self._replies([self._task(prompt, 0, repeats_cut=not middle)])
        except llm.CallFailure as failure:
            if not middle or not failure.is_cut:
                raise
        else:
            return [reply.value[key] for key in prompt.schema["required"]]
        first = await self._ask_part(prompt_of, texts[:middle])
        return first + await self._ask_part(prompt_of, texts[middle:])

    async def ask_again(self, prompt: JudgePrompt, times: int) -> list[Any]:
        """Return `times` independent parsed replies to one prompt, in the order of their numbers.

        The prompt is sent each time, with a sample number of its own, which is part of the key of a
        stored reply. Raises CallFailure if a request failed, RagbenchError if the user has to act.
        """
        # copies share the lists of replies and prompts with this vote
        tasks = []
        for n in range(times):
            vote = replace(self, sample=self.sample * times + n, tasks={})
            tasks.append(vote._task(prompt, 0))
        return [reply.value for reply in await self._replies(tasks)]

    def _task(
        self, prompt: JudgePrompt, top_logprobs: int, *, repeats_cut: bool = True
    ) -> asyncio.Task[llm.StructuredReply]:
        self.sent.append(prompt)
        # a reply without log-probabilities cannot serve a rating
        key = (prompt.system, prompt.user, top_logprobs)
        if key not in self.tasks:
            request = self.asking.request(self.model, prompt, self.sample, top_logprobs)
            reply = llm.ask_structured(
                self.send,
                request,
                check=prompt.check,
                repeats_cut=repeats_cut,
                reading=prompt.reading,
            )
            self.tasks[key] = asyncio.ensure_future(reply)
        return self.tasks[key]

    async def _replies(
        self, tasks: Sequence[asyncio.Task[llm.StructuredReply]]
    ) -> list[llm.StructuredReply]:
        """Append all replies to `replies`, then return those of the tasks, in order."""
        # The first failure is raised after all requests have ended; an error of the user comes
        # before it.
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, (llm.StructuredReply, llm.CallFailure)):
                self._log(outcome.replies)
        return successes(outcomes)

    def _log(self, replies: Sequence[llm.ChatReply]) -> None:
        """Append replies that are not in `replies` yet."""
        logged = {id(reply) for reply in self.replies}
        for reply in replies:
            if id(reply) not in logged:
                logged.add(id(reply))
                self.replies.append(reply)


def successes(outcomes: Sequence[Outcome | BaseException]) -> list[Outcome]:
    """Return the results of tasks that have ended, or raise the first error of one of them.

    Errors that the user has to fix, such as a full disk, come before failures of requests.
    """
    errors = []
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            errors.append(outcome)
    if errors:
        raise min(errors, key=lambda error: isinstance(error, llm.CallFailure))
    values = []
    for outcome in outcomes:
        if not isinstance(outcome, BaseException):
            values.append(outcome)
    return values


def numbered_texts(noun: str, texts: Iterable[str]) -> dict[str, str]:
    """Return texts by their names, which have numbers from 1: `passage 1`, `passage 2`."""
    return {f"{noun} {number}": text for number, text in enumerate(texts, start=1)}


def sent_prompts(votes: Sequence[Vote], item: JudgedItem) -> tuple[SentPrompt, ...]:
    """Return the distinct prompts of several votes, with the item's texts replaced by names.

    Names are `question`, `answer`, `other`, `passage 1`, `reference 1` and `passages` (all of them
    in lines). A text that `harmless` changed stays in full, since it was sent in another form.
    """
    contexts = item.contexts or []
    texts = {
        "passages": "\n".join(contexts),
        **numbered_texts("reference", item.references),
        **numbered_texts("passage", contexts),
        "other": item.other,
        "answer": item.answer,
        "question": item.question,
    }
    names = {}
    for name, text in texts.items():
        if text and harmless(text) == text:
            names[text] = name
    receivers: dict[SentPrompt, Counter[str]] = {}
    for vote in votes:
        for prompt in vote.sent:
            template, fence, judged = split_user_text(prompt.user)
            # interned: thousands of items share few templates
            system = intern(vote.asking.system(prompt))
            texts_or_names = tuple(named_text(text, names) for text in judged)
            sent = SentPrompt(system, intern(template), fence, texts_or_names)
            receivers.setdefault(sent, Counter())[vote.voter] += 1
    # the usual case, in which `to` stays empty: each voter got the prompt once
    all_once = Counter(vote.voter for vote in votes)
    prompts = []
    for sent, times in receivers.items():
        if times != all_once:
            voters = []
            for name, n in times.items():
                voters.append(name if n == 1 else f"{name} ({n} times)")
            sent = structs.replace(sent, to="; ".join(voters))
        prompts.append(sent)
    return tuple(prompts)
