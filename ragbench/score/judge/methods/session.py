"""One model's replies about one item: each prompt is asked once, whichever rubrics need it."""

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
from ragbench.score.judge.base import Item, Rubric
from ragbench.score.judge.methods.prompt import Prompt, Shown
from ragbench.score.judge.methods.templates import Together, harmless, taken_apart
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
    """How prompts become requests: the same for all items, models and samples."""

    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further parameters that the server knows."""
    rehearsal: bool = False
    """Whether requests are only counted: nothing is computed from the replies."""

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

    def request(self, model: str, prompt: Prompt, sample: int, top_logprobs: int) -> ChatRequest:
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

    def system(self, prompt: Prompt) -> str:
        """The task, with a line on the language where one is chosen."""
        if self.language is None:
            return prompt.system
        named = "the language of the judged texts" if self.language == "item" else self.language
        line = (
            f"Word reasons, claims and facts in {named}; keep the keys and fixed values as given."
        )
        return f"{prompt.system}\n\n{line}"


class Session:
    """What one model says about one item, in one sample.

    Equal prompts are sent once: all rubrics over claims share the split and the verdicts. A
    prompt that failed is not asked again either. Belongs to one event loop.
    """

    def __init__(self, ask: Ask, asking: Asking, model: str, sample: int) -> None:
        self.asking, self.model = asking, model
        self._ask, self._sample = ask, sample
        self._asked: dict[tuple[str, str, int], asyncio.Task[StructuredReply]] = {}

    def ask(self, prompt: Prompt, top_logprobs: int) -> asyncio.Task[StructuredReply]:
        """Return the reply to a prompt, under way or done."""
        key = (prompt.system, prompt.user, top_logprobs)
        if key not in self._asked:
            request = self.asking.request(self.model, prompt, self._sample, top_logprobs)
            reply = ask_structured(self._ask, request, check=prompt.check)
            self._asked[key] = asyncio.ensure_future(reply)
        return self._asked[key]

    def again(self, prompt: Prompt, times: int) -> list[asyncio.Task[StructuredReply]]:
        """Return several replies to one prompt, each a sample of its own."""
        samples = [
            Session(self._ask, self.asking, self.model, self._sample * times + n)
            for n in range(times)
        ]
        return [sample.ask(prompt, 0) for sample in samples]


class ReplyLog:
    """The replies that one verdict rests on, in the order in which they were asked for."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.replies: list[ChatReply] = []
        self.sent: list[Prompt] = []
        """The prompts, as often as they were sent."""

    @property
    def asking(self) -> Asking:
        """How prompts become requests."""
        return self.session.asking

    @property
    def few_shot(self) -> bool:
        """Whether prompts show examples."""
        return self.asking.few_shot

    def shown(self, rubric: Rubric) -> Shown:
        """Return what the prompts of a rubric show besides what is judged."""
        return {"steps": rubric.own_steps, "few_shot": self.few_shot}

    async def ask(self, prompt: Prompt) -> StructuredReply:
        """Return the reply to one prompt, as `ask_all` does."""
        return (await self.ask_all([prompt]))[0]

    async def ask_all(
        self, prompts: Sequence[Prompt], *, top_logprobs: int = 0
    ) -> list[StructuredReply]:
        """Return the replies to several prompts at once.

        Raises:
            CallFailure: One of them failed; the first in order, once all have ended.
        """
        self.sent += prompts
        return await self._ended([self.session.ask(prompt, top_logprobs) for prompt in prompts])

    async def ask_again(self, prompt: Prompt, times: int) -> list[StructuredReply]:
        """Return several replies to one prompt, as `ask_all` does."""
        self.sent += [prompt] * times
        return await self._ended(self.session.again(prompt, times))

    async def _ended(self, tasks: Sequence[asyncio.Task[StructuredReply]]) -> list[StructuredReply]:
        """The replies once all have come; the first failure where there is one."""
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        known = {id(reply) for reply in self.replies}
        for outcome in outcomes:
            if isinstance(outcome, (StructuredReply, CallFailure)):
                new = [reply for reply in outcome.replies if id(reply) not in known]
                self.replies += new
                known.update(map(id, new))
        errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if errors:
            # what is for the user, such as a full disk, before what is a verdict
            raise min(errors, key=lambda error: isinstance(error, CallFailure))
        return [outcome for outcome in outcomes if isinstance(outcome, StructuredReply)]


def sent_prompts(
    asked: Sequence[tuple[str, Sequence[Prompt]]], asking: Asking, item: Item
) -> tuple[SentPrompt, ...]:
    """Return the prompts of several votes, each once, the texts that the item has by their names.

    `asked` has what each of those that voted was sent. A text that `harmless` changes is not named:
    it was sent otherwise than the item has it.
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
    found: dict[SentPrompt, Counter[str]] = {}
    for whom, prompts in asked:
        for prompt in prompts:
            user, fence, own = taken_apart(prompt.user)
            named = tuple(named_text(text, names) for text in own)
            sent = SentPrompt(intern(asking.system(prompt)), intern(user), fence, named)
            found.setdefault(sent, Counter())[whom] += 1
    all_once = Counter(whom for whom, _ in asked)
    return tuple(
        sent if times == all_once else replace(sent, to=_times(times))
        for sent, times in found.items()
    )


def _times(times: Mapping[str, int]) -> str:
    return "; ".join(name if n == 1 else f"{name} ({n} times)" for name, n in times.items())
