"""Answers from any OpenAI-compatible server: `type: openai` (extra `judge`)."""

from __future__ import annotations

from typing import Annotated, Any

from ragbench.generate.chat import (
    ChatGenerator,
    ContextTokens,
    PromptOption,
    Stop,
    System,
)
from ragbench.generate.prompt import load_prompt
from ragbench.llm import ChatRequest, Limits, Prices, Server
from ragbench.llm.options import (
    ApiKeyEnv,
    BaseUrl,
    Concurrency,
    Extra,
    MaxTokens,
    PriceFile,
    Retries,
    Seed,
    Stream,
    Temperature,
    Timeout,
)
from ragbench.registry import Option


class OpenAIGenerator(ChatGenerator):
    """Answer by a language model on a server that speaks the OpenAI protocol.

    The passages are numbered, best first. Where `context_tokens` is set, whole passages are taken
    as long as they fit; the first that does not is cut after a word, the rest is left out. Tokens
    are estimated: four ASCII characters, or one other character, each.
    """

    def __init__(
        self,
        *,
        model: Annotated[str, Option("The model, as the server calls it.")],
        base_url: BaseUrl = None,
        api_key_env: ApiKeyEnv = "OPENAI_API_KEY",
        prompt: PromptOption = "qa",
        system: System = None,
        temperature: Temperature = 0.0,
        max_tokens: MaxTokens = None,
        seed: Seed = None,
        stop: Stop = None,
        context_tokens: ContextTokens = None,
        concurrency: Concurrency = 16,
        timeout: Timeout = 60.0,
        retries: Retries = 6,
        stream: Stream = False,
        extra: Extra = None,
        prices: PriceFile = None,
        client: Any = None,
    ) -> None:
        """Make a generator; nothing is sent, and no key is needed, before the first question.

        Raises:
            OptionError: There is no such prompt.
            DataError: The file of the prompt is none.
        """
        self._server = Server(base_url, api_key_env, stream, client)
        super().__init__(
            self._server.connect,
            load_prompt(prompt, system, "openai"),
            ChatRequest(
                model,
                (),
                temperature=temperature,
                max_tokens=max_tokens,
                seed=seed,
                stop=tuple(stop or ()),
                extra=extra or {},
            ),
            context_tokens=context_tokens,
            limits=Limits(concurrency=concurrency, timeout=timeout, retries=retries),
            prices=lambda: Prices.load(prices),
        )

    @property
    def missing_key(self) -> str | None:
        """The variable that must hold a key and does not; None where none is needed."""
        return self._server.missing_key
