"""Judges by chat models: `type: openai` (extra `judge`) and `type: langchain`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from ragbench.errors import OptionError
from ragbench.llm import ChatModel, LangchainChat, Replies, server
from ragbench.llm.batch import PRICE_SHARE
from ragbench.registry import FactoryArgs, Option, check_values, declared_options, make_object
from ragbench.score.judge.methods.vote import Asking, ExampleOptions, PassageOptions
from ragbench.score.judge.model_judge import Combine, Jury, ModelJudge, RepeatOptions
from ragbench.signature import fingerprint_json


class OpenAIJudgeOptions(
    server.ServerOptions,
    server.SamplingOptions,
    RepeatOptions,
    ExampleOptions,
    PassageOptions,
    server.ReplyOptions,
    server.BatchOptions,
    server.PriceOptions,
):
    """Options of a judge by a model on a server.

    They are keywords of `OpenAIJudge`, which checks their values. The base classes have address and
    key, sampling, `repeat`, examples, passages, limits of calls, batches and prices.
    """

    model: Annotated[str | None, Option("The model, as the server calls it.")] = None
    models: Annotated[
        list[str] | None, Option("Several models of the server: a jury; instead of `model`.")
    ] = None
    combine: Annotated[Combine, Option("How the scores of a jury are combined.")] = "mean"


class OpenAIJudge(ModelJudge):
    """Judge by a language model on a server that speaks the OpenAI protocol.

    Replies are JSON by schema if the server supports it; otherwise they are parsed and repaired,
    and unreadable ones are requested once more. Levels are weighted by their probabilities if the
    server returns log-probabilities.

    It is created with options of `OpenAIJudgeOptions`: `model`, or `models` for a jury. A wrong
    value raises an `OptionError`. A missing key is an OptionError at `check` or the first request.
    `judge_all` returns rubric -> verdict per item; a failed request is a verdict with status
    `failed`.
    """

    declares = OpenAIJudgeOptions

    def __init__(self, *, client: Any = None, **options: Any) -> None:
        """Create a judge; it sends nothing, and needs no key, before the first request.

        Args:
            client: Client of the package `openai`, synchronous or not; None creates one.
            **options: Options that `OpenAIJudgeOptions` declares, such as `model`, or `models` for
                a jury.

        Raises:
            OptionError: An option is not allowed, or not exactly one of `model` and `models` is
                given.
            TypeError: An unknown option.
        """
        chosen = OpenAIJudgeOptions(**options)
        check_values("openai", declared_options(OpenAIJudgeOptions), options)
        self._server = server.Server.from_options(chosen, client=client)
        super().__init__(
            self._server.connect,
            Jury(_models(chosen.model, chosen.models), chosen.combine, chosen.repeat),
            Asking.from_options(chosen, extra=chosen.extra or {}),
            limits=chosen.in_batches(chosen),
            prices=chosen.load_prices,
        )
        if chosen.mode == "batch":
            # servers bill batches below the list price
            self.price_share = PRICE_SHARE

    @property
    def server(self) -> Mapping[str, str]:
        """Identity of the server in the keys of replies."""
        return self._server.identity

    @property
    def missing_key(self) -> str | None:
        """Name of the environment variable that should hold the key and is not set, or None.

        The result is None too for a server or client that needs no key.
        """
        return self._server.missing_key


def _models(model: str | None, models: list[str] | None) -> tuple[str, ...]:
    """Return the distinct names of the models, in order, from exactly one of the two options."""
    if model is None and models is None:
        raise OptionError("openai", "model", None, "the name of a model, or models: [a, b]")
    if model is not None and models is not None:
        raise OptionError("openai", "models", models, "either model or models")
    # a model that comes twice would count twice in the jury
    names = tuple(models) if models is not None else (model or "",)
    if len(set(names)) < len(names) or not all(names) or not names:
        raise OptionError("openai", "models", list(names), "names of models, each once")
    return names


class LangchainJudgeOptions(RepeatOptions, ExampleOptions, PassageOptions, server.PriceOptions):
    """Options of a judge by a chat model of LangChain.

    They are keywords of `LangchainJudge`, which checks their values. The base classes have
    `repeat`, examples, passages, limits of calls and prices.

    Attributes:
        args: Arguments of the factory.
    """

    factory: Annotated[
        str | None,
        Option("`module:name` of a function that makes the chat model.", refers_to="object"),
    ] = None
    args: FactoryArgs = None
    version: Annotated[str | None, Option("A word that you change when its replies change.")] = None


class LangchainJudge(ModelJudge):
    """Judge by a chat model of LangChain, or any object with `invoke(messages)`.

    Temperature, maximum length of replies and retries are set on the chat model itself.

    It is created with `client`, the chat model, or with the option `factory`; raises OptionError
    for neither or both. The factory is called by `check` or at the first request, which raises
    DataError if it cannot be imported, AdapterError if it fails. `judge_all` returns rubric ->
    verdict per item.
    """

    declares = LangchainJudgeOptions

    def __init__(self, *, client: Any = None, **options: Any) -> None:
        """Create a judge; the factory is called before the first request.

        Raises:
            OptionError: Neither or both of `factory` and `client`, or another option is wrong.
            TypeError: An unknown option.
        """
        chosen = LangchainJudgeOptions(**options)
        check_values("langchain", declared_options(LangchainJudgeOptions), options)
        factory = chosen.factory
        if (factory is None) == (client is None):
            allowed = "module:name of what makes a chat model; from Python, or a client"
            raise OptionError("langchain", "factory", factory, allowed)
        # the arguments of the factory may hold a key: signatures and keys have only their hash
        self._identity = fingerprint_json([factory, chosen.args, chosen.version])
        self._factory, self._args, self._client = factory, chosen.args or {}, client
        name = factory or str(getattr(client, "__name__", type(client).__name__))
        super().__init__(
            self._chat_model,
            Jury((name,), repeat=chosen.repeat),
            Asking.from_options(chosen, temperature=None),
            limits=chosen,
            prices=chosen.load_prices,
        )
        self._version = chosen.version

    @property
    def options(self) -> Mapping[str, Any]:
        """Options that verdicts depend on besides model and prompt.

        They are those of `ModelJudge`, `version`, and `arguments`, a hash of factory, arguments and
        version.
        """
        return {"version": self._version, "arguments": self._identity, **super().options}

    def _chat_model(self, replies: Replies | None) -> ChatModel:
        model = self._client
        if model is None:
            model = make_object(self._factory or "", self._args, "judge 'langchain'")
        chat = LangchainChat(model, version=self._identity)
        # the name of the model is known only now; until then the judge is named after its factory
        if chat.name:
            self.jury = replace(self.jury, models=(chat.name,))
        return chat
