"""What asks a chat model: where its server is, connected on first use, its replies kept."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ragbench.errors import OptionError
from ragbench.llm.base import ChatModel
from ragbench.llm.batch import BatchChat
from ragbench.llm.engine import ChatEngine, Replies
from ragbench.llm.langchain import LangchainChat
from ragbench.llm.limits import Limits
from ragbench.llm.openai import Address, OpenAIChat, OpenAILike, is_azure
from ragbench.llm.usage import Budget, Prices, Totals


def speaks_openai(client: object) -> bool:
    """Whether an object is asked by `chat.completions.create`, as those of `openai` are."""
    completions = getattr(getattr(client, "chat", None), "completions", None)
    return callable(getattr(completions, "create", None))


def _is_of_openai(client: object) -> bool:
    openai = sys.modules.get("openai")  # who has made a client has imported it
    return openai is not None and isinstance(client, (openai.OpenAI, openai.AsyncOpenAI))


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
                limits = self._limits
                if self._budget is not None:
                    most = self._budget.concurrency(limits.concurrency)
                    limits = replace(limits, concurrency=most)
                self._engine = ChatEngine(
                    self._connect(self._replies),
                    limits=limits,
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
    """An address with the name of the variable that holds its key; nothing is read before use."""

    base_url: str | None = None
    """The server; None or empty: what `OPENAI_BASE_URL` says, else OpenAI's own."""
    api_key_env: str = "OPENAI_API_KEY"
    stream: bool = False
    client: Any = None
    """A ready client in place of all that: of `openai`, an object like it, a chat model of
    LangChain, or a function of messages."""
    mode: str = "live"
    """`batch` asks by files of the batch API."""

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
        if self.client is not None and not _is_of_openai(self.client):
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
