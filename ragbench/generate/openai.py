"""Answers from any OpenAI-compatible server: `type: openai` (extra `judge`)."""

from __future__ import annotations

from typing import Annotated, Any

from ragbench.generate.chat import (
    ChatGenerator,
    ContextTokens,
    MaxTokens,
    PromptOption,
    Stop,
    System,
)
from ragbench.generate.prompt import load_prompt
from ragbench.llm import ApiKeyEnv, BaseUrl, ChatRequest, Limits, Prices, Server
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
        temperature: Annotated[
            float | None, Option("Randomness of answers; null leaves it to the server.", ge=0, le=2)
        ] = 0.0,
        max_tokens: MaxTokens = None,
        seed: Annotated[int | None, Option("Seed of the server's sampling.", ge=0)] = None,
        stop: Stop = None,
        context_tokens: ContextTokens = None,
        concurrency: Annotated[
            int, Option("Most calls at the same time; fewer while the server complains.", ge=1)
        ] = 16,
        timeout: Annotated[float | None, Option("Seconds for one reply, all tries.", gt=0)] = 60.0,
        retries: Annotated[int, Option("Further tries, where one can succeed.", ge=0)] = 6,
        stream: Annotated[bool, Option("Take replies in pieces.")] = False,
        extra: Annotated[
            dict[str, Any] | None, Option("Further parameters of the server's own.")
        ] = None,
        prices: Annotated[
            str | None, Option("YAML file with prices of models.", refers_to="path")
        ] = None,
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
