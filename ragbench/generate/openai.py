"""Answers from any OpenAI-compatible server: `type: openai` (extra `judge`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from ragbench.generate.chat import AnswerOptions, ChatGenerator, PromptOptions, load_prompt
from ragbench.llm import ChatRequest
from ragbench.llm.server import (
    CallOptions,
    PriceOptions,
    ReplyOptions,
    SamplingOptions,
    ServerOptions,
)
from ragbench.registry import Option


@dataclass(frozen=True, kw_only=True)
class OpenAIGeneratorOptions(
    ServerOptions,
    PromptOptions,
    SamplingOptions,
    AnswerOptions,
    CallOptions,
    ReplyOptions,
    PriceOptions,
):
    """What a generator on a server is made with."""

    model: Annotated[str, Option("The model, as the server calls it.")]


class OpenAIGenerator(ChatGenerator):
    """Answer by a language model on a server that speaks the OpenAI protocol.

    The passages are numbered, best first. The tokens of `context_tokens` are estimated: four ASCII
    characters, or one other character, each.
    """

    declares = OpenAIGeneratorOptions

    def __init__(self, *, client: Any = None, **options: Any) -> None:
        """Make a generator; nothing is sent, and no key is needed, before the first question."""
        chosen = OpenAIGeneratorOptions(**options)
        self._server = chosen.server(stream=chosen.stream, client=client)
        super().__init__(
            self._server.connect,
            load_prompt(chosen.prompt, chosen.system, "openai"),
            ChatRequest(
                chosen.model,
                (),
                temperature=chosen.temperature,
                max_tokens=chosen.max_tokens,
                seed=chosen.seed,
                stop=tuple(chosen.stop or ()),
                extra=chosen.extra or {},
                reasoning_effort=chosen.reasoning_effort,
            ),
            context_tokens=chosen.context_tokens,
            limits=chosen.limits,
            prices=chosen.load_prices,
        )

    @property
    def missing_key(self) -> str | None:
        """The variable that must hold a key and does not; None where none is needed."""
        return self._server.missing_key
