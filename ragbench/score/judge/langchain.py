"""A judge by any langchain chat model: `type: langchain`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from ragbench.adapters.libraries import FactoryArgs
from ragbench.errors import OptionError
from ragbench.llm import ChatModel, LangchainChat, Replies
from ragbench.llm.server import PriceOptions
from ragbench.registry import Option, make_object
from ragbench.score.judge.methods.session import Asking
from ragbench.score.judge.model_judge import (
    ExampleOptions,
    Jury,
    ModelJudge,
    PassageOptions,
    RepeatOptions,
)
from ragbench.signature import fingerprint_json


@dataclass(frozen=True, kw_only=True)
class LangchainJudgeOptions(RepeatOptions, ExampleOptions, PassageOptions, PriceOptions):
    """What a judge by a chat model of langchain is made with."""

    factory: Annotated[
        str | None,
        Option("`module:name` of a function that makes the chat model.", refers_to="object"),
    ] = None
    args: FactoryArgs = None
    version: Annotated[str | None, Option("A word that you change when its replies change.")] = None


class LangchainJudge(ModelJudge):
    """Judge by a chat model of langchain, or any object with `invoke(messages)`.

    Temperature, longest reply and retries are those that the model was made with.
    """

    declares = LangchainJudgeOptions

    def __init__(self, *, client: Any = None, **options: Any) -> None:
        """Make a judge; the factory is called before the first question."""
        chosen = LangchainJudgeOptions(**options)
        factory = chosen.factory
        if (factory is None) == (client is None):
            allowed = "module:name of what makes a chat model; from Python, or a client"
            raise OptionError("langchain", "factory", factory, allowed)
        # what the factory is given may hold a key: only its hash is kept
        self._identity = fingerprint_json([factory, chosen.args, chosen.version])
        self._factory, self._args, self._client = factory, chosen.args or {}, client
        name = factory or str(getattr(client, "__name__", type(client).__name__))
        super().__init__(
            self._chat_model,
            Jury((name,), samples=chosen.samples),
            Asking(
                temperature=None,
                few_shot=chosen.few_shot,
                language=chosen.language,
                passages=chosen.passages,
                window=chosen.window,
            ),
            limits=chosen.limits,
            prices=chosen.load_prices,
        )
        self._version = chosen.version

    @property
    def options(self) -> Mapping[str, Any]:
        """What verdicts depend on besides model and prompt."""
        return {"version": self._version, "arguments": self._identity, **super().options}

    def _chat_model(self, replies: Replies | None) -> ChatModel:
        model = self._client if self._client is not None else self._made()
        chat = LangchainChat(model, version=self._identity)
        if chat.name:
            self.jury = replace(self.jury, models=(chat.name,))
        return chat

    def _made(self) -> Any:
        return make_object(self._factory or "", self._args, "judge 'langchain'")
