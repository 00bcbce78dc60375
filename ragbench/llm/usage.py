"""Prices of models, totals and estimates of calls, and budgets."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from math import ceil
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypedDict

from ragbench.errors import DataError, OptionError
from ragbench.json_yaml import load_yaml
from ragbench.llm.base import CallFailure, ChatModel, ChatReply, ChatRequest
from ragbench.llm.replies import Replies, request_key
from ragbench.log import LOG
from ragbench.types import Cause, Usage

_BUILT_IN = Path(__file__).with_name("prices.yaml")
_DATED = re.compile(r"-\d{4}-\d{2}-\d{2}$")
_TOKENS_PER_MESSAGE = 16  # upper bound for a chat template; real ones add 3 to 8 a message
_TOKENS_PER_SCHEMA = 96  # of the sentences that ask for a schema
_LONGEST_REPLY = 4096  # tokens expected of a reply without a limit, before any is known
_INPUT_MARGIN = 1.5  # other texts may have more tokens per byte than those so far


@dataclass(frozen=True, slots=True)
class Price:
    """Price of a model, in US dollars per million tokens.

    Attributes:
        input: Price of input tokens.
        output: Price of output tokens, reasoning included.
        cached: Price of input tokens that the server had cached; None means the price of `input`.
    """

    input: float
    output: float
    cached: float | None = None

    def cost_usd(self, usage: Usage) -> float | None:
        """Return the cost of tokens in US dollars; None if a number of tokens is unknown.

        If the prices of input and output are 0, unknown numbers cost 0 too. Cached tokens beyond
        the input tokens are not counted.
        """
        if self.input == self.output == 0:
            return 0.0
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        cached = 0 if self.cached is None else min(usage.cached_tokens, usage.input_tokens)
        sent = (usage.input_tokens - cached) * self.input + cached * (self.cached or 0.0)
        return (sent + usage.output_tokens * self.output) / 1e6


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of models by name.

    `Prices.load()` returns the built-in ones; `Prices({"my-model": Price(0.1, 0.4)})` works too.

    Attributes:
        models: Price by name of the model.
        file: File of the user with further prices; None without one.
        setting: Words that name such a file, as a message asks the user to write them.

    Example:
        >>> prices = Prices.load()
        >>> prices.of("gpt-4o-mini-2024-07-18").cost_usd(Usage(1_000_000, 100_000))
        0.21
        >>> prices.of("my-own-model") is None  # unknown, which is not free
        True
    """

    models: Mapping[str, Price]
    file: str | None = None
    setting: str = "prices: FILE.yaml beside the model"

    @classmethod
    def load(cls, path: str | Path | None = None) -> Prices:
        """Return the built-in prices, overridden by those of a YAML file.

        In the file, `models` has a mapping of `input`, `output` and perhaps `cached` for each name,
        and `free` is a list of names with price 0; of a name in both, `models` counts. An empty
        mapping changes nothing. A file is read once per process; None means no file.

        Raises:
            DataError: The file cannot be read, or has an entry that is no price.
        """
        built_in = _read(_BUILT_IN)
        if path is None:
            return cls(built_in)
        return cls({**built_in, **_read(Path(path))}, str(path))

    def of(self, model: str) -> Price | None:
        """Return the price of a model, or of its name without a date; None if it is unknown.

        The date has the form `-YYYY-MM-DD` at the end of the name.
        """
        return self.models.get(model) or self.models.get(_DATED.sub("", model))

    def entry_to_write(self, model: str) -> str:
        """Return the entry for the price of a model, and the file to write it into.

        Example:
            >>> Prices({}, "prices.yaml").entry_to_write("m")
            'in prices.yaml (USD per million tokens) models: {m: {input: 1, output: 2}}'
        """
        entry = f"(USD per million tokens) models: {{{model}: {{input: 1, output: 2}}}}"
        if self.file is not None:
            return f"in {self.file} {entry}"
        return f"{self.setting}, and in FILE.yaml {entry}"

    def cost_usd(self, model: str, usage: Usage) -> float | None:
        """Return the cost of tokens in US dollars; None if the price or a number is unknown.

        If the prices of input and output are 0, unknown numbers cost 0 too.
        """
        price = self.of(model)
        return None if price is None else price.cost_usd(usage)


@dataclass(slots=True)
class ReplySizes:
    """Sizes of the replies of one model so far, from which those of the next call are estimated.

    Attributes:
        n: Number of replies.
        longest: Output tokens of the longest reply.
        input_share: Largest share of the input bound of a request that its input tokens were.
    """

    n: int = 0
    longest: int = 0
    input_share: float = 0.0

    def add(self, request: ChatRequest, usage: Usage) -> None:
        """Add a reply; tokens that its server does not report count as the bound."""
        most = _input_bound(request)
        sent = most if usage.input_tokens is None else usage.input_tokens
        self.n += 1
        self.longest = max(self.longest, usage.output_tokens or 0)
        self.input_share = max(self.input_share, sent / max(most, 1))


def upper_bound(request: ChatRequest, sizes: ReplySizes | None = None) -> Usage:
    """Return an upper bound on the tokens of a call, to reserve before it is sent.

    With `max_tokens`, no call takes more: the output bound is `max_tokens`, and the input bound the
    number of bytes in UTF-8, and 16 for each message and 96 for a schema. No tokeniser in use makes
    more than one token of a byte. Without it the bound is an expectation: 4096 output tokens before
    the first reply. After n replies it is 2 + 18 / n times the longest one, but no more than 4096
    or twice the longest one; and of the input bound 1.5 times the largest share so far. The factor
    falls because few replies do not show how long others are; it is 2 since reasoning may exceed
    the visible text. The cost is None.

    Args:
        request: Request with its schema, which counts as input.
        sizes: Replies of the model so far; None if it has not replied yet.
    """
    sent, expected = _input_bound(request), _LONGEST_REPLY
    if request.max_tokens is not None:
        return Usage(sent, request.max_tokens)
    if sizes is not None and sizes.n:
        # a server that adds a prompt of its own counts more tokens than bytes
        share = min(_INPUT_MARGIN * sizes.input_share, max(1.0, sizes.input_share))
        sent = ceil(share * sent)
        longest = max(sizes.longest, 1)
        expected = min(max(_LONGEST_REPLY, 2 * longest), longest * 2 + longest * 18 // sizes.n)
    return Usage(sent, expected)


def _input_bound(request: ChatRequest) -> int:
    """Return the most input tokens of a request: one for each byte, and those of the template."""
    sent = sum(len(message.content.encode("utf-8", "replace")) for message in request.messages)
    sent += _TOKENS_PER_MESSAGE * len(request.messages)
    if request.schema is not None:
        sent += _TOKENS_PER_SCHEMA + len(json.dumps(dict(request.schema)).encode())
    return sent


@dataclass(slots=True)
class Totals:
    """Totals of the calls of one engine or one judge.

    Attributes:
        calls: Number of paid replies.
        stored: Number of replies read from the store.
        failed: Number of calls without a reply.
        input_tokens: Tokens sent in paid calls, as far as known.
        output_tokens: Tokens of paid replies, as far as known.
        reasoning_tokens: Part of the output tokens that is reasoning, as far as known.
        cost: US dollars, without the replies of unknown cost; exact, whatever the order of the
            replies.
        unknown_usage: Number of paid replies whose server reports no output tokens.
        unknown_cost: Number of paid replies of unknown cost.
        models: Names of models as their servers report them.
        unreachable: Number of failed calls whose server cannot be used.
    """

    calls: int = 0
    stored: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost: Fraction = Fraction(0)
    unknown_usage: int = 0
    unknown_cost: int = 0
    models: set[str] = field(default_factory=set)
    unreachable: int = 0

    @property
    def cost_usd(self) -> float:
        """US dollars, without the replies of unknown cost."""
        return float(self.cost)

    def add(self, reply: ChatReply) -> None:
        """Add a reply to the totals, and its model to `models`.

        A reply from the store counts in `stored` alone. Unknown tokens or an unknown cost count as
        0, and in `unknown_usage` or `unknown_cost`. A model without a name counts as the empty
        text.
        """
        self.models.add(reply.model)
        if reply.stored:
            self.stored += 1
            return
        self.calls += 1
        self._add_usage(reply.usage)
        self.unknown_usage += reply.usage.output_tokens is None
        self.unknown_cost += reply.usage.usd is None

    def add_failure(self, failure: CallFailure, usage: Usage) -> None:
        """Add a call without a reply; its usage counts the tokens that were paid for all the same.

        Args:
            failure: Failure of the last try.
            usage: Usage of all tries, with its cost.
        """
        self.failed += 1
        self.unreachable += failure.unreachable
        self._add_usage(usage)

    def _add_usage(self, usage: Usage) -> None:
        """Add tokens and cost; unknown numbers count as 0."""
        self.input_tokens += usage.input_tokens or 0
        self.output_tokens += usage.output_tokens or 0
        self.reasoning_tokens += usage.reasoning_tokens
        self.cost += Fraction(usage.usd or 0)


@cache
def _read(path: Path) -> dict[str, Price]:
    """Return the prices of a YAML file by model; raise a DataError for a bad file or entry."""
    try:
        table = load_yaml(path.read_text(encoding="utf-8"), typed=True)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"cannot be read as prices: {reason}", file=path) from None
    is_table = isinstance(table, Mapping) and set(table) <= {"models", "free"}
    models, free = (
        (table.get("models") or {}, table.get("free") or []) if is_table else (None, None)
    )
    if not isinstance(models, Mapping) or not isinstance(free, list):
        raise DataError("no table of prices", file=path, allowed="models: {...}, free: [...]")
    prices = {}
    for name in free:
        prices[str(name)] = Price(0.0, 0.0)
    return prices | {str(name): _price(entry, path, str(name)) for name, entry in models.items()}


def _price(entry: Any, path: Path, name: str) -> Price:
    """Return the price of an entry with the numbers `input`, `output` and perhaps `cached`."""
    keys = {"input", "output"}
    has_keys = isinstance(entry, Mapping) and keys <= set(entry) <= {*keys, "cached"}
    # Compared by type, since isinstance() would accept True as a number.
    if has_keys and all(type(v) in (int, float) and 0 <= v < float("inf") for v in entry.values()):
        cached = float(entry["cached"]) if "cached" in entry else None
        return Price(float(entry["input"]), float(entry["output"]), cached)
    allowed = "{input: number, output: number, cached: number}, US dollars per million tokens"
    raise DataError(f"{entry!r} is no price", file=path, record=f"models.{name}", allowed=allowed)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimate of calls, tokens and cost, each as a low and a high number.

    `Estimate()` is 0 of all. Two estimates can be added; the cost is then None if one is.

    Attributes:
        calls: Number of calls.
        tokens: Input and output tokens together.
        usd: US dollars; None if a price is unknown.
    """

    calls: tuple[float, float] = (0.0, 0.0)
    tokens: tuple[float, float] = (0.0, 0.0)
    usd: tuple[float, float] | None = (0.0, 0.0)

    def __add__(self, other: Estimate) -> Estimate:
        usd = None if self.usd is None or other.usd is None else _sum(self.usd, other.usd)
        return Estimate(_sum(self.calls, other.calls), _sum(self.tokens, other.tokens), usd)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping of rounded pairs; `usd` is null if a price is unknown.

        Keys are `calls`, `tokens` and `usd`; US dollars have 4 decimals, the others none.
        """
        usd = None if self.usd is None else [round(part, 4) for part in self.usd]
        return {
            "calls": [round(part) for part in self.calls],
            "tokens": [round(part) for part in self.tokens],
            "usd": usd,
        }

    def times(self, factor: float) -> Estimate:
        """Return the estimate multiplied by a factor."""
        low, high = self.usd or (0.0, 0.0)
        usd = None if self.usd is None else (low * factor, high * factor)
        calls = (self.calls[0] * factor, self.calls[1] * factor)
        return Estimate(calls, (self.tokens[0] * factor, self.tokens[1] * factor), usd)


@dataclass(frozen=True, slots=True)
class CountedRequests:
    """Requests that a plan counts no more: equal ones of other stages, and those with a reply.

    Attributes:
        low: Keys of the requests of the low estimate; follow-up requests quote its replies.
        high: Keys of those of the high estimate.
        stored: Stored replies; None if nothing is stored.
    """

    low: set[str] = field(default_factory=set)
    high: set[str] = field(default_factory=set)
    stored: Replies | None = None


def estimate(
    rehearse: Callable[[ChatModel], None],
    prices: Prices,
    counted: CountedRequests | None = None,
    server: Mapping[str, str] = MappingProxyType({}),
) -> Estimate:
    """Return the estimate of the requests that `rehearse` sends; nothing reaches a server.

    The low estimate assumes five bytes per token, one entry per list of a reply and 40 tokens per
    reply; the high one three bytes, two entries and 200 tokens. Each pair is (low, high). Without
    requests, all numbers are 0; `usd` is None if the price of a requested model is unknown. Equal
    requests count once.

    Args:
        rehearse: Sends all requests to the model that it is given; called twice.
        prices: Prices of the models.
        counted: Requests that were counted before, and count no more; this call adds its own. None
            counts from the start.
        server: Identity of the server: equal requests to another server are sent as well.
    """
    counted = counted or CountedRequests()
    low = CountingModel(prices, items=1, reply=40, bytes_a_token=5)
    high = CountingModel(prices, items=2, reply=200, bytes_a_token=3)
    low.skip_equal(counted.low, counted.stored, server)
    high.skip_equal(counted.high, counted.stored, server)
    rehearse(low)
    rehearse(high)
    usd = None if low.usd is None or high.usd is None else (low.usd, high.usd)
    return Estimate((low.calls, high.calls), (low.tokens, high.tokens), usd)


# Text of a reply that nobody gave
_PLACEHOLDER = "something"


class CountingModel(ChatModel):
    """Chat model that sends nothing: it counts requests and replies with a value of their schema.

    `calls`, `tokens` and `usd` are the totals so far; `usd` is None after a request to a model of
    unknown price.

    Args:
        prices: Prices of the models.
        items: Number of entries of a list in a reply.
        reply: Least number of tokens of a reply.
        bytes_a_token: Bytes of UTF-8 per token.
    """

    identity: Mapping[str, str] = {"type": "counting"}

    def __init__(self, prices: Prices, *, items: int, reply: int, bytes_a_token: int) -> None:
        self._prices, self._items = prices, items
        self._reply, self._bytes = reply, bytes_a_token
        self.calls, self.tokens = 0, 0.0
        self.usd: float | None = 0.0
        self._counted: set[str] | None = None
        self._stored: Replies | None = None
        self._server: Mapping[str, str] = {}

    def skip_equal(
        self,
        counted: set[str],
        stored: Replies | None,
        server: Mapping[str, str],
    ) -> None:
        """Count no request whose key is in `counted`, which gets the others, or has a reply."""
        self._counted, self._stored, self._server = counted, stored, server

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Count a request and return a reply that fits its schema.

        The text of the reply is JSON, a string without a schema; its usage is unknown.
        """
        key = request_key(self._server, request)
        # other requests have other replies, and so have the requests that quote them
        word = _PLACEHOLDER if self._counted is None else key[: len(_PLACEHOLDER)]
        text = json.dumps(self._example(request.schema or {"type": "string"}, word))
        if self._counted is not None:
            reply = None if self._stored is None else self._stored.get(key)
            if reply is not None:
                return reply
            if key in self._counted:
                return ChatReply(text)
            self._counted.add(key)
        size = sum(len(part.content.encode("utf-8", "replace")) for part in request.messages)
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
        """Do nothing: there are no connections."""

    def _example(self, schema: Mapping[str, Any], word: str) -> Any:
        """Return a value that fits a schema, with a word for each text."""
        if "enum" in schema:
            return schema["enum"][0]
        kind = schema.get("type")
        if kind == "object":
            return {name: self._example(part, word) for name, part in schema["properties"].items()}
        if kind == "array":
            # Integers are numbers of passages or claims; only number 1 always exists.
            count = 1 if schema["items"].get("type") == "integer" else self._items
            return [self._example(schema["items"], word) for _ in range(count)]
        return {"integer": 1, "number": 1, "boolean": True}.get(str(kind), word)


def _sum(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    return first[0] + second[0], first[1] + second[1]


@dataclass(frozen=True, slots=True)
class Reservation:
    """Upper bound on tokens and cost of one call, reserved in a budget.

    Attributes:
        tokens: Input and output tokens together.
        usd: US dollars; 0 if the budget has no limit on cost.
    """

    tokens: int
    usd: float


class Budget:
    """Limits on cost, tokens and time, shared by the calls of several engines and threads.

    A call reserves its upper bound before it is sent, by the replies so far, and settles its usage
    afterwards. A call that does not fit waits for running calls, which mostly use less than they
    reserved. Without running calls it fails with a CallFailure, `over_budget`, and so does every
    later call: letting in smaller calls would bias the sample. Spending exceeds a limit only if a
    call uses more than its bound; no call is sent after that.

    Args:
        usd: Limit in US dollars.
        tokens: Limit on input and output tokens together.
        minutes: Wall time from now on. Running calls may finish after it.

    Attributes:
        spent_usd: US dollars spent so far, as far as known.
        is_cost_known: False once a call was made whose model has no known price.
        spent_tokens: Tokens used so far.
        refused: Number of calls that were not sent.

    Raises:
        OptionError: A limit is negative or NaN.
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
        # A monotonic clock: changes of the system time neither shorten nor prolong the budget.
        self._until = None if minutes is None else time.monotonic() + 60 * minutes
        self.spent_usd, self.spent_tokens = 0.0, 0
        self.is_cost_known = True
        self.refused = 0
        self._reserved_usd, self._reserved_tokens, self._running = 0.0, 0, 0
        self._lock = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    async def reserve(
        self, bound: Reservation, renew: Callable[[], Reservation] | None = None
    ) -> Reservation:
        """Reserve the upper bound of a call, waiting for running calls if it does not fit.

        It returns the reservation, which the caller must settle or release. After one refusal,
        every later call is refused.

        Args:
            bound: Upper bound of the call.
            renew: Returns the bound by the replies so far, after a wait; None keeps `bound`.

        Raises:
            CallFailure: The budget or the time is spent; its cause is `over_budget`.
        """
        while True:
            with self._lock:
                over = self.refused or self.time_is_up
                if not over and self._fits(bound):
                    self._reserved_usd += bound.usd
                    self._reserved_tokens += bound.tokens
                    self._running += 1
                    return bound
                if over or not self._running:
                    raise self._refuse(bound)
                loop = asyncio.get_running_loop()
                change: asyncio.Future[None] = loop.create_future()
                self._waiting.append((loop, change))
            await change
            bound = bound if renew is None else renew()

    def overrun(self) -> CallFailure | None:
        """Return the failure of a reserved call that is not sent any more; None if it may be.

        The time or the budget may have been spent while the call waited for its turn.
        """
        with self._lock:
            is_over = (
                self.time_is_up
                or (self.usd is not None and self.spent_usd > self.usd)
                or (self.tokens is not None and self.spent_tokens > self.tokens)
            )
            return self._refuse(Reservation(0, 0.0)) if is_over else None

    @property
    def time_is_up(self) -> bool:
        """True if the time limit has passed.

        Without a time limit it never is.
        """
        return self._until is not None and time.monotonic() >= self._until

    def settle(self, reservation: Reservation, usage: Usage) -> None:
        """Replace a reservation by the usage of the call, and let waiting calls try again.

        Args:
            reservation: Upper bound that was reserved.
            usage: Usage of the reply. If a number is unknown, at least the reservation counts.
        """
        is_known = usage.input_tokens is not None and usage.output_tokens is not None
        used = (usage.input_tokens or 0) + (usage.output_tokens or 0)
        usd = reservation.usd if usage.usd is None else usage.usd
        if usage.usd is None and not reservation.usd:
            self.is_cost_known = False
        self._settle(reservation, used if is_known else max(used, reservation.tokens), usd)

    def release(self, reservation: Reservation) -> None:
        """Cancel the reservation of a call that brought no reply; nothing counts as spent."""
        self._settle(reservation, 0, 0.0)

    def _settle(self, reservation: Reservation, tokens: int, usd: float) -> None:
        """Replace a reservation by tokens and cost, and wake the waiting calls."""
        with self._lock:
            self._reserved_usd -= reservation.usd
            self._reserved_tokens -= reservation.tokens
            self._running -= 1
            if not self._running:
                self._reserved_usd = 0.0  # removes the rounding error of the sum
            self.spent_usd += usd
            self.spent_tokens += tokens
            waiting, self._waiting = self._waiting, []
        for loop, change in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_wake, change)

    def _fits(self, bound: Reservation) -> bool:
        """Return True if a reservation fits into the limits beside all others."""
        tokens = self.spent_tokens + self._reserved_tokens + bound.tokens
        usd = self.spent_usd + self._reserved_usd + bound.usd
        return (self.tokens is None or tokens <= self.tokens) and (
            self.usd is None or usd <= self.usd
        )

    def _refuse(self, bound: Reservation) -> CallFailure:
        """Count a call that is not sent, and return its failure; the first one is logged."""
        failure = CallFailure(Cause.OVER_BUDGET, self._refusal(bound))
        if not self.refused:
            LOG.warning("the budget is spent: %s", failure.detail)
        self.refused += 1
        return failure

    def _refusal(self, bound: Reservation) -> str:
        """Return the error message of a call that is not sent."""
        if self.time_is_up:
            return f"not sent: {self.minutes:g} minutes are over"
        parts = []
        if self.usd is not None:
            parts.append(f"{self.spent_usd:.4g} of {self.usd:g} USD")
        if self.tokens is not None:
            parts.append(f"{self.spent_tokens:,} of {self.tokens:,} tokens")
        need = f"{bound.tokens:,} tokens" if self.usd is None else f"{bound.usd:.4g} USD"
        return f"not sent: {' and '.join(parts)} are spent, and the call may take {need}"


class BudgetOptions(TypedDict, total=False):
    """Limits of a `Budget`, as a user writes them."""

    usd: float | None
    tokens: int | None
    minutes: float | None


def read_budget(limits: BudgetOptions) -> Budget:
    """Return the budget with some limits.

    Raises:
        OptionError: It is no mapping, has another key, or a limit is no number of 0 or more.
    """
    names = tuple(BudgetOptions.__annotations__)
    if not isinstance(limits, Mapping) or not {*limits} <= {*names}:
        raise OptionError(
            "", "budget", limits, "a mapping such as {'usd': 1}, with usd, tokens, minutes"
        )
    for name, value in limits.items():
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if value is not None and not is_number:
            raise OptionError("budget", name, value, "a number >= 0, or null")
    return Budget(**limits)


def _wake(change: asyncio.Future[None]) -> None:
    if not change.done():
        change.set_result(None)
