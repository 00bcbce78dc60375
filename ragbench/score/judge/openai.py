"""A judge on any OpenAI-compatible server: `type: openai` (extra `judge`)."""

from __future__ import annotations

import os
from typing import Annotated, Any

from ragbench.errors import OptionError
from ragbench.llm import ChatModel, Limits, OpenAIChat, Prices, Replies
from ragbench.registry import Option
from ragbench.score.judge.hearing import Asking
from ragbench.score.judge.jury import Combine
from ragbench.score.judge.model_judge import Bench, ModelJudge

_OWN_SERVER = "https://api.openai.com/v1"


class OpenAIJudge(ModelJudge):
    """Judge by a language model on a server that speaks the OpenAI protocol.

    Replies come as JSON by schema where the server has it; else they are parsed, repaired, and
    asked for once more. Levels are weighted by their probabilities where the server returns them.
    """

    def __init__(
        self,
        *,
        model: Annotated[str | None, Option("The model, as the server calls it.")] = None,
        models: Annotated[
            list[str] | None, Option("Several models of the server: a jury; instead of `model`.")
        ] = None,
        combine: Annotated[Combine, Option("How a jury's scores become one.")] = "mean",
        base_url: Annotated[
            str | None, Option("The server, up to and with `/v1`; default: OpenAI's own.")
        ] = None,
        api_key_env: Annotated[
            str, Option("Environment variable with the key; a server of your own needs none.")
        ] = "OPENAI_API_KEY",
        temperature: Annotated[
            float | None, Option("Randomness of replies; null leaves it to the server.", ge=0, le=2)
        ] = 0.0,
        samples: Annotated[int, Option("How often each item is judged.", ge=1)] = 1,
        concurrency: Annotated[int, Option("Most calls at the same time.", ge=1)] = 16,
        timeout: Annotated[float | None, Option("Seconds for one reply, all tries.", gt=0)] = 60.0,
        retries: Annotated[int, Option("Further tries, where one can succeed.", ge=0)] = 6,
        few_shot: Annotated[bool, Option("Whether prompts show examples.")] = True,
        max_tokens: Annotated[int | None, Option("Longest reply.", ge=1)] = None,
        seed: Annotated[int | None, Option("Seed of the server's sampling.", ge=0)] = None,
        stream: Annotated[bool, Option("Take replies in pieces.")] = False,
        extra: Annotated[
            dict[str, Any] | None, Option("Further parameters of the server's own.")
        ] = None,
        prices: Annotated[
            str | None, Option("YAML file with prices of models.", refers_to="path")
        ] = None,
        client: Any = None,
    ) -> None:
        """Make a judge; nothing is sent, and no key is needed, before the first question.

        Raises:
            OptionError: Not exactly one of model and models, or a jury that cannot be one.
        """
        super().__init__(
            self._chat_model,
            Bench(_models(model, models), combine, samples),
            Asking(temperature, max_tokens, seed, few_shot, extra or {}),
            limits=Limits(concurrency=concurrency, timeout=timeout, retries=retries),
            prices=lambda: Prices.load(prices),
        )
        self._address, self._api_key_env = base_url, api_key_env
        self._stream, self._client = stream, client

    @property
    def missing_key(self) -> str | None:
        """The variable that must hold a key and does not; None where none is needed."""
        address = self._address or os.environ.get("OPENAI_BASE_URL")
        if address or self._client is not None or os.environ.get(self._api_key_env):
            return None
        return self._api_key_env

    def _chat_model(self, replies: Replies | None) -> ChatModel:
        if self._client is not None:
            return OpenAIChat(client=self._client)
        address = self._address
        if replies is not None and replies.replay and self.missing_key:
            address = _OWN_SERVER  # nothing is sent, so that no key is asked for
        return OpenAIChat(base_url=address, api_key_env=self._api_key_env, stream=self._stream)


def _models(model: str | None, models: list[str] | None) -> tuple[str, ...]:
    """The models of either option."""
    if model is None and models is None:
        raise OptionError("openai", "model", None, "the name of a model, or models: [a, b]")
    if model is not None and models is not None:
        raise OptionError("openai", "models", models, "either model or models")
    names = tuple(models) if models is not None else (model or "",)
    if len(set(names)) < len(names) or not all(names) or not names:
        raise OptionError("openai", "models", list(names), "names of models, each once")
    return names
