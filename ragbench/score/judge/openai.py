"""A judge on any OpenAI-compatible server: `type: openai` (extra `judge`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from ragbench.errors import OptionError
from ragbench.llm.batch import PRICE_SHARE
from ragbench.llm.server import (
    BatchOptions,
    PriceOptions,
    ReplyOptions,
    SamplingOptions,
    ServerOptions,
)
from ragbench.registry import Option
from ragbench.score.judge.methods.session import Asking
from ragbench.score.judge.model_judge import (
    Combine,
    ExampleOptions,
    Jury,
    ModelJudge,
    PassageOptions,
    RepeatOptions,
)


@dataclass(frozen=True, kw_only=True)
class OpenAIJudgeOptions(
    ServerOptions,
    SamplingOptions,
    RepeatOptions,
    ExampleOptions,
    PassageOptions,
    ReplyOptions,
    BatchOptions,
    PriceOptions,
):
    """What a judge on a server is made with."""

    model: Annotated[str | None, Option("The model, as the server calls it.")] = None
    models: Annotated[
        list[str] | None, Option("Several models of the server: a jury; instead of `model`.")
    ] = None
    combine: Annotated[Combine, Option("How the scores of a jury are combined.")] = "mean"


class OpenAIJudge(ModelJudge):
    """Judge by a language model on a server that speaks the OpenAI protocol.

    Replies come as JSON by schema where the server has it; else they are parsed, repaired, and
    asked for once more. Levels are weighted by their probabilities where the server returns them.
    """

    declares = OpenAIJudgeOptions

    def __init__(self, *, client: Any = None, **options: Any) -> None:
        """Make a judge; nothing is sent, and no key is needed, before the first question."""
        chosen = OpenAIJudgeOptions(**options)
        self._server = chosen.server(stream=chosen.stream, mode=chosen.mode, client=client)
        super().__init__(
            self._server.connect,
            Jury(_models(chosen.model, chosen.models), chosen.combine, chosen.samples),
            Asking(
                chosen.temperature,
                chosen.max_tokens,
                chosen.seed,
                chosen.few_shot,
                chosen.extra or {},
                chosen.reasoning_effort,
                chosen.language,
                passages=chosen.passages,
                window=chosen.window,
            ),
            limits=chosen.in_batches(chosen.limits),
            prices=chosen.load_prices,
        )
        if chosen.mode == "batch":
            self.price_share = PRICE_SHARE

    @property
    def missing_key(self) -> str | None:
        """The variable that must hold a key and does not; None where none is needed."""
        return self._server.missing_key


def _models(model: str | None, models: list[str] | None) -> tuple[str, ...]:
    if model is None and models is None:
        raise OptionError("openai", "model", None, "the name of a model, or models: [a, b]")
    if model is not None and models is not None:
        raise OptionError("openai", "models", models, "either model or models")
    names = tuple(models) if models is not None else (model or "",)
    if len(set(names)) < len(names) or not all(names) or not names:
        raise OptionError("openai", "models", list(names), "names of models, each once")
    return names
