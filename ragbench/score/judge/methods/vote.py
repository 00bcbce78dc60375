"""Votes of one model on one item: each prompt is sent once, whichever rubrics need its reply."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from sys import intern
from typing import Annotated, Any

from ragbench.errors import OptionError
from ragbench.llm import (
    CallFailure,
    ChatReply,
    ChatRequest,
    Message,
    StructuredReply,
    ask_structured,
)
from ragbench.llm.calls import Ask
from ragbench.llm.server import SamplingOptions
from ragbench.registry import Option
from ragbench.score.judge.base import JudgedItem, Rubric
from ragbench.score.judge.methods.prompt import JudgePrompt, Prompts
from ragbench.score.judge.methods.templates import Together, harmless, split_user_text
from ragbench.types.scores import SentPrompt, named_text

_LANGUAGE = re.compile(r"[^\W\d_](?:[^\W\d_]|[ ()-]){0,39}")


@dataclass(frozen=True, kw_only=True)
class ExampleOptions:
    """What prompts say besides the task."""

    few_shot: Annotated[bool, Option("Whether prompts show examples.")] = True
    language: Annotated[
        str | None,
        Option(
            "The language of reasons and claims, such as German, or item: that of the judged "
            "texts; null says nothing of it."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class PassageOptions:
    """How claims are checked against passages."""

    passages: Annotated[
        Together,
        Option(
            "Whether claims are checked against all passages at once, so that one may need "
            "several, or against each by itself: one request a passage."
        ),
    ] = "together"
    window: Annotated[
        int,
        Option(
            "Longest prompt about passages, in tokens, estimated at 3 bytes each; more passages "
            "are read in several requests.",
            ge=1_000,
        ),
    ] = 32_000


@dataclass(frozen=True, kw_only=True)
class Asking(SamplingOptions, ExampleOptions, PassageOptions):
    """How prompts become requests: the same for all items, models and samples.

    Attributes:
        extra: Further parameters that the server knows.
        rehearsal: Whether requests are only counted: nothing is computed from the replies.
    """

    extra: Mapping[str, Any] = field(default_factory=dict)
    rehearsal: bool = False

    def __post_init__(self) -> None:
        # a name, and no further instruction to the judge
        if self.language is not None and not _LANGUAGE.fullmatch(self.language):
            allowed = "the name of a language, such as German, or item"
            raise OptionError("judge", "language", self.language, allowed)

    @classmethod
    def by(cls, options: object, **more: Any) -> Asking:
        """Return what the options of a judge say of it, as far as `more` does not say otherwise."""
        own = {
            each.name: getattr(options, each.name)
            for each in fields(cls)
            if hasattr(options, each.name)
        }
        return cls(**own | more)

    def request(
        self, model: str, prompt: JudgePrompt, sample: int, top_logprobs: int
    ) -> ChatRequest:
        """Return the request that carries a prompt."""
        return ChatRequest(
            model=model,
            messages=(Message("system", self.system(prompt)), Message("user", prompt.user)),
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            seed=self.seed,
            schema=prompt.schema,
            top_logprobs=top_logprobs,
            extra=self.extra,
            reasoning_effort=self.reasoning_effort,
            sample=sample,
        )

    def system(self, prompt: JudgePrompt) -> str:
        """The task, with a line on the language where one is chosen."""
        if self.language is None:
            return prompt.system
        named = "the language of the judged texts" if self.language == "item" else self.language
        line = (
            f"Word reasons, claims and facts in {named}; keep the keys and fixed values as given."
        )
        return f"{prompt.system}\n\n{line}"


# Prompt (system, user, log-probabilities) -> its reply, under way or done.
Tasks = dict[tuple[str, str, int], "asyncio.Task[StructuredReply]"]


@dataclass(eq=False)
class Vote:
    """Judge one item by one rubric with one model, and log the replies that the verdict rests on.

    Votes of one model and sample on an item share `tasks`: equal prompts are sent once, so that
    all rubrics over claims share the split and the verdicts. A prompt that failed is not asked
    again either. Belongs to one event loop.

    Attributes:
        voter: The model, with the number of its sample where it has several, for people.
        replies: The replies, in the order in which they were asked for.
        sent: The prompts, as often as they were sent.
    """

    item: JudgedItem
    rubric: Rubric
    model: str
    voter: str
    sample: int
    asking: Asking
    send: Ask
    tasks: Tasks
    replies: list[ChatReply] = field(default_factory=list)
    sent: list[JudgePrompt] = field(default_factory=list)

    @property
    def prompts(self) -> Prompts:
        """Return the builder of the prompts."""
        return Prompts(self.rubric, self.item, self.asking.few_shot)

    async def ask(self, prompt: JudgePrompt) -> StructuredReply:
        """Return the reply to one prompt, as `ask_all` does."""
        return (await self.ask_all([prompt]))[0]

    async def ask_all(
        self, prompts: Sequence[JudgePrompt], *, top_logprobs: int = 0
    ) -> list[StructuredReply]:
        """Return the replies to several prompts at once.

        Raises:
            CallFailure: One of them failed; the first in order, once all have ended.
        """
        return await self._replies([self._task(prompt, top_logprobs) for prompt in prompts])

    async def ask_again(self, prompt: JudgePrompt, times: int) -> list[StructuredReply]:
        """Return several replies to one prompt, as `ask_all` does, each a sample of its own."""
        # they share the lists of replies and prompts with this vote
        votes = [replace(self, sample=self.sample * times + n, tasks={}) for n in range(times)]
        return await self._replies([vote._task(prompt, 0) for vote in votes])

    def _task(self, prompt: JudgePrompt, top_logprobs: int) -> asyncio.Task[StructuredReply]:
        self.sent.append(prompt)
        key = (prompt.system, prompt.user, top_logprobs)
        if key not in self.tasks:
            request = self.asking.request(self.model, prompt, self.sample, top_logprobs)
            reply = ask_structured(self.send, request, check=prompt.check)
            self.tasks[key] = asyncio.ensure_future(reply)
        return self.tasks[key]

    async def _replies(
        self, tasks: Sequence[asyncio.Task[StructuredReply]]
    ) -> list[StructuredReply]:
        """Log and return the replies once all have come; raise the first failure."""
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        logged = {id(reply) for reply in self.replies}
        for outcome in outcomes:
            if isinstance(outcome, (StructuredReply, CallFailure)):
                new = [reply for reply in outcome.replies if id(reply) not in logged]
                self.replies += new
                logged.update(map(id, new))
        errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if errors:
            # what is for the user, such as a full disk, before what is a verdict
            raise min(errors, key=lambda error: isinstance(error, CallFailure))
        return [outcome for outcome in outcomes if isinstance(outcome, StructuredReply)]


def sent_prompts(votes: Sequence[Vote], item: JudgedItem) -> tuple[SentPrompt, ...]:
    """Return the prompts of several votes, each once, the texts that the item has by their names.

    A text that `harmless` changes is not named: it was sent otherwise than the item has it.
    """
    contexts = item.contexts or []
    texts = {
        "passages": "\n".join(contexts),
        **{f"reference {n}": text for n, text in enumerate(item.references, start=1)},
        **{f"passage {n}": text for n, text in enumerate(contexts, start=1)},
        "other": item.other,
        "answer": item.answer,
        "question": item.question,
    }
    names = {text: name for name, text in texts.items() if text and harmless(text) == text}
    receivers: dict[SentPrompt, Counter[str]] = {}
    for vote in votes:
        for prompt in vote.sent:
            words, fence, judged = split_user_text(prompt.user)
            system = intern(vote.asking.system(prompt))
            named = tuple(named_text(text, names) for text in judged)
            sent = SentPrompt(system, intern(words), fence, named)
            receivers.setdefault(sent, Counter())[vote.voter] += 1
    all_once = Counter(vote.voter for vote in votes)
    return tuple(
        sent if times == all_once else replace(sent, to=_times(times))
        for sent, times in receivers.items()
    )


def _times(times: Mapping[str, int]) -> str:
    return "; ".join(name if n == 1 else f"{name} ({n} times)" for name, n in times.items())
