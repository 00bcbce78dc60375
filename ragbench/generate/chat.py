"""Generators that ask a chat model: prompt, passages within a budget of tokens, replies, usage."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from ragbench.generate.base import AskingGenerator, Generator
from ragbench.generate.prompt import Prompt
from ragbench.llm import (
    CallFailure,
    ChatModel,
    ChatRequest,
    Connected,
    Estimate,
    Limits,
    Prices,
    Replies,
    estimate,
)
from ragbench.registry import Option
from ragbench.signature import fingerprint_json
from ragbench.types import Cause, Document, Prediction, Query, Usage

_CHARACTERS_A_TOKEN = 4
_WORD = re.compile(r"\s*\S+")


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text without the model's tokeniser.

    Four ASCII characters are a token, as OpenAI's help page says of English; every other character
    counts as one, which is about what Chinese and Japanese take, and more than other scripts do.
    """
    plain = sum(character < "\x80" for character in text)
    return -(-plain // _CHARACTERS_A_TOKEN) + len(text) - plain


def fit(
    passages: Sequence[Document], budget: int | None, count: Callable[[str], int] = estimate_tokens
) -> list[Document]:
    """Return the passages that fit into a budget of tokens, best first.

    Whole passages are taken as long as they fit. The first that does not is cut after the last
    word that does, or left out where not one fits; those after it are left out. None takes all.
    """
    if budget is None:
        return list(passages)
    kept: list[Document] = []
    left = budget
    for passage in passages:
        tokens = count(passage.full_text)
        if tokens <= left:
            kept.append(passage)
            left -= tokens
            continue
        if (cut := _cut(passage, left, count)) is not None:
            kept.append(cut)
        break
    return kept


def _cut(passage: Document, left: int, count: Callable[[str], int]) -> Document | None:
    """The passage up to the last word that fits, found by halving; None where none does."""
    ends = [match.end() for match in _WORD.finditer(passage.text)]
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high + 1) // 2
        text = replace(passage, text=passage.text[: ends[middle - 1]]).full_text
        low, high = (middle, high) if count(text) <= left else (low, middle - 1)
    return replace(passage, text=passage.text[: ends[low - 1]]) if low else None


@dataclass(frozen=True, kw_only=True)
class PromptOptions:
    """What a model is told."""

    prompt: Annotated[
        str,
        Option(
            "A built-in prompt, a YAML file with system and user, or a .j2 template.",
            refers_to="path_or_name",
        ),
    ] = "qa"
    system: Annotated[str | None, Option("System text; default: the prompt's.")] = None


@dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    """Where an answer ends, and how much of the passages it is made from."""

    stop: Annotated[list[str] | None, Option("Texts that end an answer.")] = None
    context_tokens: Annotated[
        int | None,
        Option(
            "Tokens of all passages: the first that does not fit is cut after a word, "
            "the rest is left out; null: no limit.",
            ge=1,
        ),
    ] = None


class ChatGenerator(Connected, Generator):
    """Answers questions by one chat model; see `AskingGenerator` for who keeps its replies."""

    def __init__(
        self,
        connect: Callable[[Replies | None], ChatModel],
        prompt: Prompt,
        request: ChatRequest,
        *,
        context_tokens: int | None = None,
        limits: Limits | None = None,
        prices: Callable[[], Prices] = Prices.load,
    ) -> None:
        super().__init__(connect, limits=limits, prices=prices)
        self.prompt, self._request, self._context_tokens = prompt, request, context_tokens
        self._left_out: set[str] = set()

    @property
    def temperature(self) -> float | None:
        """The randomness that is asked for; None leaves it to the server."""
        return self._request.temperature

    @property
    def asks(self) -> AskingGenerator:
        """Itself: its replies are kept."""
        return self

    @property
    def prompt_hash(self) -> str | None:
        """A short hash of the prompt; None where another one's code has it."""
        return self.prompt.hash

    def told(self, question: str, contexts: Sequence[Document]) -> str | None:
        """Return the prompt; None where another one's code has it."""
        return None if self.prompt_hash is None else self.prompt.text(question, contexts)

    def signature_parts(self) -> Mapping[str, Any]:
        """Return what answers depend on besides question and passages."""
        request = self._request
        return {
            "model": request.model,
            "prompt": self.prompt_hash,
            "temperature": request.temperature,
            "max_tokens": request.max_tokens,
            "seed": request.seed,
            "reasoning_effort": request.reasoning_effort,
            "stop": fingerprint_json(request.stop) if request.stop else None,
            "extra": fingerprint_json(dict(request.extra)) if request.extra else None,
            "context_tokens": self._context_tokens,
            "left_out": "+".join(sorted(self._left_out)) or None,
        }

    def generate(self, question: str, contexts: Sequence[Document]) -> Prediction:
        """Answer from the passages that fit.

        The prediction's contexts are the passages as the model saw them, so that it is judged by
        these; its latency is that of the reply, also where that was stored. A refusal is a
        `CallFailure`.
        """
        return self._answered(Query("", question), contexts, 0)

    def generate_for(self, query: Query, contexts: Sequence[Document]) -> Prediction:
        """Answer a question after what was said before it: earlier turns are messages."""
        return self._answered(query, contexts, 0)

    def generate_sample(
        self, query: Query, contexts: Sequence[Document], sample: int
    ) -> Prediction:
        """Answer once more: in a call of its own, with the next seed where there is one."""
        return self._answered(query, contexts, sample)

    def _answered(self, query: Query, contexts: Sequence[Document], sample: int) -> Prediction:
        passages = fit(contexts, self._context_tokens)
        reply = self.engine.ask(replace(self._asking(query, passages), sample=sample))
        if reply.refused:
            said = reply.refusal or f"finish reason {reply.finish_reason}"
            raise CallFailure(Cause.REFUSED, said, replies=(reply,))
        self._left_out.update(reply.left_out)
        if reply.ran_out:
            raise CallFailure(Cause.OUT_OF_TOKENS, reply.ran_out, replies=(reply,))
        used = reply.usage
        return Prediction(
            reply.text.strip(),
            passages,
            Usage(used.input_tokens, used.output_tokens, reply.cost_usd, used.reasoning_tokens),
            latency_ms=reply.latency_ms,
            left_out=reply.left_out,
        )

    def estimate(self, asked: Sequence[tuple[Query, Sequence[Document]]]) -> Estimate:
        """Estimate what answering questions from passages takes; nothing is sent."""

        def ask(model: ChatModel) -> None:
            for query, contexts in asked:
                request = self._asking(query, fit(contexts, self._context_tokens))
                asyncio.run(model.complete(request))

        return estimate(ask, self.load_prices())

    def _asking(self, query: Query, passages: Sequence[Document]) -> ChatRequest:
        messages = self.prompt.messages(query.text, passages, query.turns)
        return replace(self._request, messages=messages)
