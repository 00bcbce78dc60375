"""What asks a chat model: where its server is, connected on first use, its replies kept.

The options are declared here once for generators and judges. A component inherits the dataclasses
that it needs; their order as bases is the order in which lists, docs and resolved configs have the
options.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal
from urllib.parse import quote

from ragbench.errors import OptionError
from ragbench.llm.base import ChatModel
from ragbench.llm.batch import BatchChat
from ragbench.llm.engine import ChatEngine
from ragbench.llm.langchain import LangchainChat
from ragbench.llm.limits import Limits
from ragbench.llm.openai import Address, OpenAIChat, OpenAILike, is_azure
from ragbench.llm.replies import Replies
from ragbench.llm.usage import Budget, Prices, Totals
from ragbench.registry import Option

# How long reasoning models think; each of them knows some of these.
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
# Whether calls are sent one by one, or in files.
Mode = Literal["live", "batch"]

_IN_A_BATCH = 10_000  # calls under way


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Where a server that speaks the OpenAI protocol is."""

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

    def server(self, *, stream: bool = False, mode: Mode = "live", client: Any = None) -> Server:
        """Return the server that these name.

        Raises:
            OptionError: Options of Azure that do not fit together, or a stream in a batch.
        """
        if stream and mode == "batch":
            raise OptionError("openai", "stream", stream, "false with mode: batch")
        address = self.base_url
        if self.azure_endpoint:
            if address:
                allowed = "either azure_endpoint or base_url"
                raise OptionError("openai", "azure_endpoint", self.azure_endpoint, allowed)
            if not self.api_version:
                allowed = "with azure_endpoint: a version, such as 2024-10-21"
                raise OptionError("openai", "api_version", self.api_version, allowed)
            name = self.azure_deployment
            place = f"/deployments/{quote(name, safe='')}" if name else ""
            address = f"{self.azure_endpoint.rstrip('/')}/openai{place}"
            address += f"?api-version={quote(self.api_version, safe='')}"
        else:
            for option in ("azure_deployment", "api_version"):
                if (found := getattr(self, option)) is not None:
                    allowed = "only with azure_endpoint; in base_url they are written themselves"
                    raise OptionError("openai", option, found, allowed)
        return Server(address, self.api_key_env, stream, client, mode)


@dataclass(frozen=True, kw_only=True)
class SamplingOptions:
    """How a server makes a reply."""

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


@dataclass(frozen=True, kw_only=True)
class CallOptions:
    """How many calls there are, how long they may take, and how often they are tried again."""

    concurrency: Annotated[
        int,
        Option(
            "Largest number of concurrent calls; lowered while the server reports overload.", ge=1
        ),
    ] = 16
    timeout: Annotated[
        float | None, Option("Time limit of one reply, in seconds, retries included.", gt=0)
    ] = 60.0
    retries: Annotated[int, Option("Retries of errors that may be temporary.", ge=0)] = 6

    @property
    def limits(self) -> Limits:
        """The limits of the calls."""
        return Limits(concurrency=self.concurrency, timeout=self.timeout, retries=self.retries)


@dataclass(frozen=True, kw_only=True)
class ReplyOptions:
    """How replies come, and what else a server is told."""

    stream: Annotated[bool, Option("Receive replies as a stream.")] = False
    extra: Annotated[dict[str, Any] | None, Option("Further parameters that the server knows.")] = (
        None
    )


@dataclass(frozen=True, kw_only=True)
class BatchOptions:
    """Whether calls are sent at once, or in files for half the price."""

    mode: Annotated[
        Mode,
        Option(
            "`batch` sends all calls in files of OpenAI's batch API, at half the price, answered "
            "within a day; `concurrency` and `timeout` do not apply then."
        ),
    ] = "live"

    def in_batches(self, limits: Limits) -> Limits:
        """Return the limits of the calls: in a batch, all are under way at once for hours."""
        if self.mode == "live":
            return limits
        return replace(limits, concurrency=_IN_A_BATCH, timeout=None)


@dataclass(frozen=True, kw_only=True)
class PriceOptions:
    """What calls cost."""

    prices: Annotated[str | None, Option("YAML file with prices of models.", refers_to="path")] = (
        None
    )

    def load_prices(self) -> Prices:
        """Read the file, or the built-in table."""
        return Prices.load(self.prices)


def speaks_openai(client: object) -> bool:
    """Whether an object is asked by `chat.completions.create`, as those of `openai` are."""
    completions = getattr(getattr(client, "chat", None), "completions", None)
    return callable(getattr(completions, "create", None))


class Connected:
    """The base of judges and generators that ask one chat model, which `connect` makes."""

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
        self._engine: ChatEngine | None = None
        self._lock = threading.Lock()

    def check(self) -> None:
        """Connect, so that what is missing is said before anything is asked."""
        self.engine  # noqa: B018 - made on first use

    def keep_replies(self, replies: Replies | None) -> None:
        """Set where replies are kept and looked up; before the first question."""
        self._replies = replies

    def spend_from(self, budget: Budget | None) -> None:
        """Set what all calls may cost together; before the first question."""
        self._budget = budget

    @property
    def engine(self) -> ChatEngine:
        """What asks; made on first use."""
        with self._lock:
            if self._engine is None:
                self._engine = ChatEngine(
                    self._connect(self._replies),
                    limits=self._limits,
                    replies=self._replies,
                    prices=self.load_prices(),
                    budget=self._budget,
                )
                # who forgets to close leaves no connection behind
                weakref.finalize(self, self._engine.close)
            return self._engine

    def totals(self) -> Totals:
        """Return a copy of what has been sent and paid so far."""
        totals = self.engine.totals
        return replace(totals, models=set(totals.models))

    def close(self) -> None:
        """Cancel what is under way and give back the connections."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()


@dataclass(frozen=True, slots=True)
class Server:
    """An address with the name of the variable that holds its key; nothing is read before use.

    Attributes:
        base_url: The server; None or empty: what `OPENAI_BASE_URL` says, else OpenAI's own.
        client: A ready client in place of all that: of `openai`, an object like it, a chat model of
            LangChain, or a function of messages.
        mode: `batch` asks by files of the batch API.
    """

    base_url: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    stream: bool = False
    client: Any = None
    mode: str = "live"

    def __post_init__(self) -> None:
        """Refuse an address that could not be asked, before anything is made."""
        if self.client is None:
            Address.parse(self.base_url or None)

    @property
    def missing_key(self) -> str | None:
        """The variable that must hold a key and does not; None where none is needed."""
        if self.client is not None or os.environ.get(self.api_key_env):
            return None
        address = self.base_url or os.environ.get("OPENAI_BASE_URL")
        return None if address and not is_azure(address) else self.api_key_env

    def connect(self, replies: Replies | None) -> ChatModel:
        """Return the chat model behind it."""
        openai = sys.modules.get("openai")  # who has made a client has imported it
        kinds = () if openai is None else (openai.OpenAI, openai.AsyncOpenAI)
        if self.client is not None and not isinstance(self.client, kinds):
            if self.mode == "batch":
                found = type(self.client).__name__
                raise OptionError("openai", "client", found, "with mode: batch, one of openai")
            known = speaks_openai(self.client)
            return OpenAILike(self.client) if known else LangchainChat(self.client)
        if self.client is not None:
            chat = OpenAIChat(client=self.client)
        else:
            chat = OpenAIChat(
                base_url=self.base_url,
                api_key_env=self.api_key_env,
                stream=self.stream,
                keyless=replies is not None and replies.replay,
            )
        return BatchChat(chat, replies) if self.mode == "batch" else chat
