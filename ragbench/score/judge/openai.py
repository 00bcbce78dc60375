"""A judge on any OpenAI-compatible server: `type: openai` (extra `judge`)."""

from __future__ import annotations

from typing import Annotated, Any

from ragbench.errors import OptionError
from ragbench.llm import Limits, Prices, Server
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
from ragbench.score.judge.methods.session import Asking
from ragbench.score.judge.model_judge import Combine, Jury, ModelJudge


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
        base_url: BaseUrl = None,
        api_key_env: ApiKeyEnv = "OPENAI_API_KEY",
        temperature: Temperature = 0.0,
        samples: Annotated[int, Option("How often each item is judged.", ge=1)] = 1,
        concurrency: Concurrency = 16,
        timeout: Timeout = 60.0,
        retries: Retries = 6,
        few_shot: Annotated[bool, Option("Whether prompts show examples.")] = True,
        max_tokens: MaxTokens = None,
        seed: Seed = None,
        stream: Stream = False,
        extra: Extra = None,
        prices: PriceFile = None,
        client: Any = None,
    ) -> None:
        """Make a judge; nothing is sent, and no key is needed, before the first question.

        Raises:
            OptionError: Not exactly one of model and models, or a jury that cannot be one.
        """
        self._server = Server(base_url, api_key_env, stream, client)
        super().__init__(
            self._server.connect,
            Jury(_models(model, models), combine, samples),
            Asking(temperature, max_tokens, seed, few_shot, extra or {}),
            limits=Limits(concurrency=concurrency, timeout=timeout, retries=retries),
            prices=lambda: Prices.load(prices),
        )

    @property
    def missing_key(self) -> str | None:
        """The variable that must hold a key and does not; None where none is needed."""
        return self._server.missing_key


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
