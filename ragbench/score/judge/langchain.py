"""A judge by any langchain chat model: `type: langchain`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from ragbench.adapters.factory import FactoryArgs
from ragbench.errors import OptionError
from ragbench.llm import ChatModel, LangchainChat, Limits, Prices, Replies
from ragbench.llm.options import Concurrency, PriceFile, Retries, Timeout
from ragbench.registry import Option, make_object
from ragbench.score.judge.methods.session import Asking
from ragbench.score.judge.model_judge import Jury, ModelJudge
from ragbench.signature import fingerprint_json


class LangchainJudge(ModelJudge):
    """Judge by a chat model of langchain, or any object with `invoke(messages)`.

    Temperature, longest reply and retries are those that the model was made with.
    """

    def __init__(
        self,
        *,
        factory: Annotated[
            str | None,
            Option("`module:name` of what makes the chat model.", refers_to="object"),
        ] = None,
        args: FactoryArgs = None,
        version: Annotated[str | None, Option("A word that changes when its replies do.")] = None,
        samples: Annotated[int, Option("How often each item is judged.", ge=1)] = 1,
        concurrency: Concurrency = 16,
        timeout: Timeout = 60.0,
        retries: Retries = 6,
        few_shot: Annotated[bool, Option("Whether prompts show examples.")] = True,
        prices: PriceFile = None,
        client: Any = None,
    ) -> None:
        """Make a judge; the factory is called before the first question."""
        if (factory is None) == (client is None):
            allowed = "module:name of what makes a chat model; from Python, or a client"
            raise OptionError("langchain", "factory", factory, allowed)
        # what the factory is given may hold a key: only its hash is kept
        self._identity = fingerprint_json([factory, args, version])
        self._factory, self._args, self._client = factory, args or {}, client
        name = factory or type(client).__name__
        super().__init__(
            self._chat_model,
            Jury((name,), samples=samples),
            Asking(temperature=None, few_shot=few_shot),
            limits=Limits(concurrency=concurrency, timeout=timeout, retries=retries),
            prices=lambda: Prices.load(prices),
        )
        self._version = version

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
        """What the factory makes."""
        return make_object(self._factory or "", self._args, "judge 'langchain'")
