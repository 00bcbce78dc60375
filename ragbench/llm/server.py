"""Options of chat servers, and the base of judges and generators that call a chat model.

The options are declared here once for generators and judges. A component inherits the dataclasses
that it needs; their order as bases is the order of the options in lists, docs and resolved configs.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlsplit

from ragbench.errors import OptionError
from ragbench.llm.base import ChatModel, ChatRequest
from ragbench.llm.batch import BatchChat
from ragbench.llm.engine import ChatEngine
from ragbench.llm.environment import is_loopback
from ragbench.llm.langchain import LangchainChat
from ragbench.llm.limits import Limits
from ragbench.llm.openai import Address, OpenAIChat, OpenAILike, is_azure
from ragbench.llm.replies import Replies
from ragbench.llm.threads import renew_after_fork
from ragbench.llm.usage import Budget, Prices, Totals
from ragbench.registry import Option, OptionSet
from ragbench.secrets import mask_secrets

# Reasoning effort; a model knows only some of these words.
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
# Calls are sent one by one, or in files of the batch API.
Mode = Literal["live", "batch"]

_BATCH_CONCURRENCY = 10_000  # a call of a batch runs for hours without using a connection


class ServerOptions(OptionSet):
    """Address and key of a server with the OpenAI protocol; `Server` checks and joins them."""

    base_url: Annotated[
        str | None, Option("URL of the server, up to and including `/v1`; default: OpenAI's.")
    ] = None
    api_key_env: Annotated[
        str, Option("Environment variable with the key; your own server needs none.")
    ] = "OPENAI_API_KEY"
    azure_endpoint: Annotated[
        str | None, Option("Azure resource, `https://NAME.openai.azure.com`; not with `base_url`.")
    ] = None
    azure_deployment: Annotated[
        str | None, Option("Deployment in `azure_endpoint`; default: the name of the model.")
    ] = None
    api_version: Annotated[
        str | None, Option("Version of the interface of `azure_endpoint`, such as `2024-10-21`.")
    ] = None


class SamplingOptions(OptionSet):
    """Sampling parameters of replies; a parameter that is None is left to the server.

    Only a config checks the values. `base_request` returns a request with them.
    """

    temperature: Annotated[
        float | None,
        Option("Randomness of replies; null is the default of the server.", ge=0, le=2),
    ] = 0.0
    max_tokens: Annotated[
        int | None, Option("Length limit of a reply with its reasoning, in tokens.", ge=1)
    ] = None
    seed: Annotated[int | None, Option("Seed of the sampling by the server.", ge=0)] = None
    reasoning_effort: Annotated[
        Effort | None, Option("How long a reasoning model thinks; null is its default.")
    ] = None

    def base_request(self, model: str, extra: Mapping[str, Any] | None) -> ChatRequest:
        """Return a request to a model without messages; `extra` is further parameters or None."""
        return ChatRequest(
            model,
            (),
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            seed=self.seed,
            extra=extra or {},
            reasoning_effort=self.reasoning_effort,
        )


class ReplyOptions(OptionSet):
    """Connections to the server, and further parameters of requests.

    Only a config checks the values.
    """

    keep_alive: Annotated[
        bool, Option("Use a connection for several requests; false opens one for each request.")
    ] = True
    extra: Annotated[dict[str, Any] | None, Option("Further parameters that the server knows.")] = (
        None
    )


class BatchOptions(OptionSet):
    """Mode of calls: one by one (`live`), or in files of the batch API at half the price.

    Only a config checks the value. `in_batches` adapts limits to it.
    """

    mode: Annotated[
        Mode,
        Option(
            "`batch` sends all calls in files of OpenAI's batch API, at half the price, "
            "answered within a day; `concurrency` and `timeout` do not apply then."
        ),
    ] = "live"

    def in_batches(self, limits: Limits) -> Limits:
        """Return the limits, in mode `batch` with 10,000 concurrent calls and no time limit."""
        if self.mode == "live":
            return limits
        return replace(limits, concurrency=_BATCH_CONCURRENCY, timeout=None)


class PriceOptions(OptionSet):
    """Price table of calls: the built-in one, and a file that overrides it.

    `load_prices` reads them, and raises DataError for a bad file.
    """

    prices: Annotated[str | None, Option("YAML file with prices of models.", refers_to="path")] = (
        None
    )

    def load_prices(self) -> Prices:
        """Return the built-in prices, overridden by those of the file.

        Raises:
            DataError: The file cannot be read, or has an entry that is no price.
        """
        return Prices.load(self.prices)


def speaks_openai(client: object) -> bool:
    """Return True if an object has `chat.completions.create`, as clients of `openai` have."""
    completions = getattr(getattr(client, "chat", None), "completions", None)
    return callable(getattr(completions, "create", None))


class Connected:
    """Base of judges and generators that call one chat model, connected on first use.

    Subclasses send requests by `engine`, which raises OptionError, MissingExtra or DataError if it
    cannot connect.

    Args:
        connect: Returns the client of the model, given the store of replies.
        limits: Limits of the calls.
        prices: Returns the prices of models.
    """

    def __init__(
        self,
        connect: Callable[[Replies | None], ChatModel],
        *,
        limits: Limits | None = None,
        prices: Callable[[], Prices] = Prices.load,
    ) -> None:
        self._connect, self._limits, self.load_prices = connect, limits or Limits(), prices
        self._replies: Replies | None = None
        self._budget: Budget | None = None
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Connect again at the next call, in a forked process; the engine is not closed."""
        self._engine: ChatEngine | None = None
        self._lock = threading.Lock()

    def check(self) -> None:
        """Connect to the model, so that a missing key or package fails before the first call.

        An engine that exists is left as it is. It raises OptionError, MissingExtra or DataError, as
        `engine` does.
        """
        self.engine  # noqa: B018 - made on first use

    def keep_replies(self, replies: Replies | None) -> None:
        """Set the store of replies, before the first call; None stores nothing."""
        self._replies = replies

    def spend_from(self, budget: Budget | None) -> None:
        """Set the budget of all calls, before the first call."""
        self._budget = budget

    @property
    def engine(self) -> ChatEngine:
        """Engine of the model, created on first use.

        Raises:
            OptionError: An option of the connection is not allowed, or the key is missing.
            MissingExtra: A package is not installed.
            DataError: The prices cannot be read.
        """
        with self._lock:
            if self._engine is None:
                self._engine = ChatEngine(
                    self._connect(self._replies),
                    limits=self._limits,
                    replies=self._replies,
                    prices=self.load_prices(),
                    budget=self._budget,
                )
                # Closes the connections also if the caller forgets `close`.
                weakref.finalize(self, self._engine.close)
            return self._engine

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models, as in requests; a subclass has them."""
        return ()

    @property
    def server(self) -> Mapping[str, str]:
        """Identity of the server in the keys of replies: equal requests to it are sent once.

        By default it is a word for this object alone, whose server is not known.
        """
        return {"client": f"{id(self)}"}

    @property
    def is_on_this_machine(self) -> bool:
        """True for a server at a loopback address, where tokens mostly have no price."""
        return is_loopback(urlsplit(self.server.get("base_url", "")).hostname)

    def unpriced(self) -> dict[str, str]:
        """Return model without a known price -> entry to write, and its file.

        Raises:
            DataError: The prices cannot be read.
        """
        prices = self.load_prices()
        entries = {}
        for model in self.models:
            if prices.of(model) is None:
                entries[model] = prices.entry_to_write(model)
        return entries

    def totals(self) -> Totals:
        """Return a copy of the totals of the engine so far; connects if there is no engine yet.

        After `close` they begin at zero. Connecting raises the errors of `engine`, for example an
        OptionError for a missing key.
        """
        totals = self.engine.totals
        return replace(totals, models=set(totals.models))

    def close(self) -> None:
        """Cancel running calls and close the connections; the next call connects again."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()


class Server(ServerOptions):
    """Server of a chat model, or a ready client; environment variables are read on `connect`.

    `Server.from_options` takes it from the options of a judge or generator. `connect` returns the
    chat model, which ignores the key if there is a client.

    Attributes:
        mode: `batch` sends calls in files of the batch API, `live` one by one.
        keep_alive: False to open a connection for each request.
        client: Client to use instead of the address: of `openai`, an object like it, a chat model
            of LangChain, or a function of messages; None connects to the address.

    Raises:
        OptionError: Options of Azure do not fit together, or the address is invalid.
    """

    mode: Mode = "live"
    keep_alive: bool = True
    client: Any = None

    def __post_init__(self) -> None:
        if self.azure_endpoint and self.base_url:
            allowed = "either azure_endpoint or base_url"
            raise OptionError("openai", "azure_endpoint", self.azure_endpoint, allowed)
        if self.azure_endpoint and not self.api_version:
            allowed = "with azure_endpoint: a version, such as 2024-10-21"
            raise OptionError("openai", "api_version", self.api_version, allowed)
        for option in () if self.azure_endpoint else ("azure_deployment", "api_version"):
            if (value := getattr(self, option)) is not None:
                allowed = "only with azure_endpoint; with base_url, a part of the URL"
                raise OptionError("openai", option, value, allowed)
        if self.client is None:
            Address.parse(self.address)

    @property
    def address(self) -> str | None:
        """URL of the server with its query; None means `OPENAI_BASE_URL`, else OpenAI."""
        if not self.azure_endpoint:
            return self.base_url or None
        name = self.azure_deployment
        place = f"/deployments/{quote(name, safe='')}" if name else ""
        version = quote(self.api_version or "", safe="")
        return f"{self.azure_endpoint.rstrip('/')}/openai{place}?api-version={version}"

    @property
    def identity(self) -> Mapping[str, str]:
        """Identity of the server as `OpenAIChat` has it, without a connection."""
        if self.client is not None:
            return {"client": f"{id(self.client)}"}
        address = Address.parse(self.address or os.environ.get("OPENAI_BASE_URL") or None)
        if address is None:
            return {"type": "openai", "base_url": "https://api.openai.com/v1"}
        text = mask_secrets(address.text) if address.query else address.url.rstrip("/")
        return {"type": "openai", "base_url": text}

    @property
    def missing_key(self) -> str | None:
        """Name of the environment variable whose key is missing; None if it is set or not needed.

        OpenAI and Azure need a key; another server, and a ready client, need none.
        """
        if self.client is not None or os.environ.get(self.api_key_env, "").strip():
            return None
        address = self.address or os.environ.get("OPENAI_BASE_URL")
        return None if address and not is_azure(address) else self.api_key_env

    def connect(self, replies: Replies | None) -> ChatModel:
        """Return the chat model of the server or client.

        `replies` is the store beside which notes on batches are written; None writes none.

        Raises:
            OptionError: The address is invalid, the key is missing, or the client does not fit; a
                replayed store needs no key.
            MissingExtra: The package `openai` is not installed, and no client is given.
            DataError: The folder for notes on batches is a link.
        """
        # Not imported: whoever has a client of `openai` has imported the package.
        openai = sys.modules.get("openai")
        kinds = () if openai is None else (openai.OpenAI, openai.AsyncOpenAI)
        if self.client is not None and not isinstance(self.client, kinds):
            if self.mode == "batch":
                type_name = type(self.client).__name__
                raise OptionError("openai", "client", type_name, "with mode: batch, one of openai")
            is_openai = speaks_openai(self.client)
            return OpenAILike(self.client) if is_openai else LangchainChat(self.client)
        if self.client is not None:
            chat = OpenAIChat(client=self.client, keep_alive=self.keep_alive)
        else:
            chat = OpenAIChat(
                base_url=self.address,
                api_key_env=self.api_key_env,
                keep_alive=self.keep_alive,
                keyless=replies is not None and replies.replay,
            )
        return BatchChat(chat, replies) if self.mode == "batch" else chat
