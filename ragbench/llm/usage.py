"""Tokens and money: what calls cost, what they will take before any is sent, and limits on both."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ragbench.errors import DataError, OptionError
from ragbench.json_yaml import load_yaml
from ragbench.llm.base import CallFailure, ChatModel, ChatReply, ChatRequest
from ragbench.types import Cause, Usage

_BUILT_IN = Path(__file__).with_name("prices.yaml")
_DATED = re.compile(r"-\d{4}-\d{2}-\d{2}$")
_PER_MESSAGE = 16  # tokens that a chat template may put around a message; real ones put 3 to 8
_PER_SCHEMA = 96  # tokens of the words that ask for a schema
_LONGEST_REPLY = 4096  # tokens that a reply is expected not to exceed where no limit is set


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs, in US dollars per million tokens.

    Attributes:
        cached: Input that the server had cached; None is as other input.
    """

    input: float
    output: float
    cached: float | None = None

    def cost_usd(self, usage: Usage) -> float | None:
        """Return the cost of some tokens; None where their number is not known.

        Reasoning is part of the output.
        """
        if self.input == self.output == 0:
            return 0.0
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        cached = 0 if self.cached is None else min(usage.cached_tokens, usage.input_tokens)
        new = (usage.input_tokens - cached) * self.input + cached * (self.cached or 0.0)
        return (new + usage.output_tokens * self.output) / 1e6


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices by model.

    Example:
        >>> prices = Prices.load()
        >>> prices.of("gpt-4o-mini-2024-07-18").cost_usd(Usage(1_000_000, 100_000))
        0.21
        >>> prices.of("my-own-model") is None  # not known, which is not free
        True
    """

    models: Mapping[str, Price]

    @classmethod
    def load(cls, path: str | Path | None = None) -> Prices:
        """Read the prices that ship with the package, and over them those of a file."""
        built_in = _read(_BUILT_IN)
        return cls(built_in if path is None else {**built_in, **_read(Path(path))})

    def of(self, model: str) -> Price | None:
        """Return the price of a model, also under a dated name; None where it is not known."""
        return self.models.get(model) or self.models.get(_DATED.sub("", model))

    def cost_usd(self, model: str, usage: Usage) -> float | None:
        """Return the cost of some tokens of a model; None where it is not known."""
        price = self.of(model)
        return None if price is None else price.cost_usd(usage)


def upper_bound(request: ChatRequest, longest: int = 0) -> Usage:
    """Return tokens that a call will hardly exceed, to be reserved before it is sent.

    Every tokeniser in use makes at most one token of a byte (UTF-8), so the input is a true bound;
    a schema is part of it. The output is `max_tokens`, reasoning included. Where the request sets
    none it is 4096, or twice the `longest` reply that this model gave so far: one that reasons may
    write far more than it says.
    """
    sent = sum(len(message.content.encode("utf-8", "replace")) for message in request.messages)
    sent += _PER_MESSAGE * len(request.messages)
    if request.schema is not None:
        sent += _PER_SCHEMA + len(json.dumps(dict(request.schema)).encode())
    expected = max(_LONGEST_REPLY, 2 * longest)
    return Usage(sent, expected if request.max_tokens is None else request.max_tokens)


@dataclass(slots=True)
class Totals:
    """What a number of calls used together.

    Attributes:
        calls: Replies that were paid for.
        stored: Replies that were read from the store instead.
        failed: Calls that brought no reply.
        reasoning_tokens: Those of the output that are reasoning, as far as servers say.
        unknown_usage: Replies whose server does not say how many tokens they took.
        unknown_cost: Replies whose cost is not known; `cost_usd` lacks them.
    """

    calls: int = 0
    stored: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float = 0.0
    unknown_usage: int = 0
    unknown_cost: int = 0
    models: set[str] = field(default_factory=set)

    def add(self, reply: ChatReply) -> None:
        """Count a reply."""
        self.models.add(reply.model)
        if reply.stored:
            self.stored += 1
            return
        self.calls += 1
        self.input_tokens += reply.usage.input_tokens or 0
        self.output_tokens += reply.usage.output_tokens or 0
        self.reasoning_tokens += reply.usage.reasoning_tokens
        self.cost_usd += reply.usage.usd or 0.0
        self.unknown_usage += reply.usage.output_tokens is None
        self.unknown_cost += reply.usage.usd is None


@cache
def _read(path: Path) -> dict[str, Price]:
    try:
        table = load_yaml(path.read_text(encoding="utf-8"), typed=True)
    except (OSError, ValueError) as error:
        found = " ".join(str(error).split())
        raise DataError(f"cannot be read as prices: {found}", file=path) from None
    if not isinstance(table, Mapping) or not set(table) <= {"models", "free"}:
        raise DataError("no table of prices", file=path, allowed="models: {...}, free: [...]")
    prices = {str(name): Price(0.0, 0.0) for name in table.get("free") or ()}
    for name, entry in (table.get("models") or {}).items():
        prices[str(name)] = _price(entry, path, str(name))
    return prices


def _price(entry: Any, path: Path, name: str) -> Price:
    keys = {"input", "output"}
    has_keys = isinstance(entry, Mapping) and keys <= set(entry) <= {*keys, "cached"}
    # the type itself: a truth value is a number to Python
    if has_keys and all(type(v) in (int, float) and 0 <= v < float("inf") for v in entry.values()):
        cached = float(entry["cached"]) if "cached" in entry else None
        return Price(float(entry["input"]), float(entry["output"]), cached)
    allowed = "{input: number, output: number, cached: number}, US dollars per million tokens"
    raise DataError(f"{entry!r} is no price", file=path, record=f"models.{name}", allowed=allowed)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A range of what calls will take.

    Attributes:
        usd: US dollars; None where a price is not known.
    """

    calls: tuple[float, float] = (0.0, 0.0)
    tokens: tuple[float, float] = (0.0, 0.0)
    usd: tuple[float, float] | None = (0.0, 0.0)

    def __add__(self, other: Estimate) -> Estimate:
        usd = None if self.usd is None or other.usd is None else _sum(self.usd, other.usd)
        return Estimate(_sum(self.calls, other.calls), _sum(self.tokens, other.tokens), usd)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping, each a low and a high estimate."""
        usd = None if self.usd is None else [round(part, 4) for part in self.usd]
        return {
            "calls": [round(part) for part in self.calls],
            "tokens": [round(part) for part in self.tokens],
            "usd": usd,
        }

    def times(self, factor: float) -> Estimate:
        """Return so many times as much."""
        low, high = self.usd or (0.0, 0.0)
        usd = None if self.usd is None else (low * factor, high * factor)
        calls = (self.calls[0] * factor, self.calls[1] * factor)
        return Estimate(calls, (self.tokens[0] * factor, self.tokens[1] * factor), usd)


def estimate(rehearse: Callable[[ChatModel], None], prices: Prices) -> Estimate:
    """Estimate what asking a model takes: `rehearse` asks it twice, sparingly and at length.

    In the low estimate a token has five bytes, a list of a reply one part and a reply 40 tokens; in
    the high one it is three bytes, two parts and 200 tokens.
    """
    low = Counting(prices, items=1, reply=40, bytes_a_token=5)
    high = Counting(prices, items=2, reply=200, bytes_a_token=3)
    rehearse(low)
    rehearse(high)
    usd = None if low.usd is None or high.usd is None else (low.usd, high.usd)
    return Estimate((low.calls, high.calls), (low.tokens, high.tokens), usd)


class Counting(ChatModel):
    """A chat model that sends nothing: it answers with the shape of what is asked, and counts.

    A list of a reply has so many `items`; a reply has `reply` tokens, or what its shape needs.
    """

    identity: Mapping[str, str] = {"type": "counting"}

    def __init__(self, prices: Prices, *, items: int, reply: int, bytes_a_token: int) -> None:
        self._prices, self._items = prices, items
        self._reply, self._bytes = reply, bytes_a_token
        self.calls, self.tokens = 0, 0.0
        self.usd: float | None = 0.0

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer and count."""
        text = json.dumps(self._made(request.schema or {"type": "string"}))
        size = sum(len(each.content.encode("utf-8", "replace")) for each in request.messages)
        sent = size / self._bytes
        received = max(self._reply, len(text) / self._bytes)
        self.calls += 1
        self.tokens += sent + received
        price = self._prices.of(request.model)
        if price is None or self.usd is None:
            self.usd = None
        else:
            self.usd += (sent * price.input + received * price.output) / 1e6
        return ChatReply(text)

    async def aclose(self) -> None:
        """There is nothing to give back."""

    def _made(self, schema: Mapping[str, Any]) -> Any:
        if "enum" in schema:
            return schema["enum"][0]
        kind = schema.get("type")
        if kind == "object":
            return {name: self._made(part) for name, part in schema["properties"].items()}
        if kind == "array":
            # numbers of a list say which of some things are meant: one, that is always there
            count = 1 if schema["items"].get("type") == "integer" else self._items
            return [self._made(schema["items"]) for _ in range(count)]
        return {"integer": 1, "number": 1, "boolean": True}.get(str(kind), "something")


def _sum(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return one[0] + other[0], one[1] + other[1]


@dataclass(frozen=True, slots=True)
class Reservation:
    """What one call may use at most.

    Attributes:
        usd: Cost; 0 where the budget does not limit it.
    """

    tokens: int
    usd: float


class Budget:
    """Money, tokens and time that calls share, also those of several engines and threads.

    A call reserves its upper bound before it is sent and settles what it used. One that does not
    fit waits while others are under way, since they mostly use less than they reserved; where none
    is, it fails as `over_budget`, and so does every later one: were smaller ones let in, what is
    done by then would be no fair sample. What is spent exceeds the budget only where a call uses
    more than its bound. `minutes` are wall time from now on; calls under way are waited for.
    """

    def __init__(
        self,
        *,
        usd: float | None = None,
        tokens: int | None = None,
        minutes: float | None = None,
    ) -> None:
        for name, value in (("usd", usd), ("tokens", tokens), ("minutes", minutes)):
            if value is not None and not value >= 0:
                raise OptionError("budget", name, value, "a number >= 0, or null")
        self.usd, self.tokens, self.minutes = usd, tokens, minutes
        # a monotonic clock: one that jumps neither shortens nor prolongs the time
        self._until = None if minutes is None else time.monotonic() + 60 * minutes
        self.spent_usd, self.spent_tokens = 0.0, 0
        # Calls that were not sent.
        self.refused = 0
        self._held_usd, self._held_tokens, self._under_way = 0.0, 0, 0
        self._lock = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    async def reserve(self, wanted: Reservation) -> Reservation:
        """Hold what a call may use, waiting for others if need be; else fail as `over_budget`."""
        while True:
            with self._lock:
                over = self.refused or self.time_is_up
                if not over and self._fits(wanted):
                    self._held_usd += wanted.usd
                    self._held_tokens += wanted.tokens
                    self._under_way += 1
                    return wanted
                if over or not self._under_way:
                    self.refused += 1
                    raise CallFailure(Cause.OVER_BUDGET, self._full(wanted))
                loop = asyncio.get_running_loop()
                change: asyncio.Future[None] = loop.create_future()
                self._waiting.append((loop, change))
            await change

    @property
    def time_is_up(self) -> bool:
        """Whether the minutes are over."""
        return self._until is not None and time.monotonic() >= self._until

    def settle(self, held: Reservation, usage: Usage) -> None:
        """Give back what was held, and count what was used; what is not known, as reserved."""
        known = usage.input_tokens is not None and usage.output_tokens is not None
        used = (usage.input_tokens or 0) + (usage.output_tokens or 0)
        usd = held.usd if usage.usd is None else usage.usd
        self._give_back(held, used if known else held.tokens, usd)

    def release(self, held: Reservation) -> None:
        """Give back what was held by a call that was not answered."""
        self._give_back(held, 0, 0.0)

    def _give_back(self, held: Reservation, tokens: int, usd: float) -> None:
        with self._lock:
            self._held_usd -= held.usd
            self._held_tokens -= held.tokens
            self._under_way -= 1
            if not self._under_way:
                self._held_usd = 0.0  # sums of floats leave crumbs
            self.spent_usd += usd
            self.spent_tokens += tokens
            waiting, self._waiting = self._waiting, []
        for loop, change in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_wake, change)

    def _fits(self, wanted: Reservation) -> bool:
        tokens = self.spent_tokens + self._held_tokens + wanted.tokens
        usd = self.spent_usd + self._held_usd + wanted.usd
        return (self.tokens is None or tokens <= self.tokens) and (
            self.usd is None or usd <= self.usd
        )

    def _full(self, wanted: Reservation) -> str:
        if self.time_is_up:
            return f"not sent: {self.minutes:g} minutes are over"
        parts = []
        if self.usd is not None:
            parts.append(f"{self.spent_usd:.4g} of {self.usd:g} USD")
        if self.tokens is not None:
            parts.append(f"{self.spent_tokens:,} of {self.tokens:,} tokens")
        need = f"{wanted.tokens:,} tokens" if self.usd is None else f"{wanted.usd:.4g} USD"
        return f"not sent: {' and '.join(parts)} are spent, and the call may take {need}"


def _wake(change: asyncio.Future[None]) -> None:
    if not change.done():
        change.set_result(None)
