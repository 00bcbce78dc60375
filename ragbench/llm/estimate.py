"""What calls will take before any is sent, as a range from a low to a high estimate."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ragbench.llm.base import ChatModel, ChatReply, ChatRequest
from ragbench.llm.usage import Prices


@dataclass(frozen=True, slots=True)
class Estimate:
    """A range of what calls will take."""

    calls: tuple[float, float] = (0.0, 0.0)
    """Calls, from a low to a high estimate."""
    tokens: tuple[float, float] = (0.0, 0.0)
    """Tokens, sent and received."""
    usd: tuple[float, float] | None = (0.0, 0.0)
    """US dollars; None where a price is not known."""

    def __add__(self, other: Estimate) -> Estimate:
        """Return both together."""
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
    """Estimate what asking a model takes: it is asked twice, sparingly and at length.

    In the low estimate a token has five bytes, a list of a reply one part and a reply 40 tokens;
    in the high one it is three bytes, two parts and 200 tokens.

    Args:
        rehearse: Asks the model that it is given all that the real one will be asked.
        prices: What calls cost.
    """
    low = Counting(prices, items=1, reply=40, bytes_a_token=5)
    high = Counting(prices, items=2, reply=200, bytes_a_token=3)
    rehearse(low)
    rehearse(high)
    usd = None if low.usd is None or high.usd is None else (low.usd, high.usd)
    return Estimate((low.calls, high.calls), (low.tokens, high.tokens), usd)


class Counting:
    """A chat model that sends nothing: it answers with the shape of what is asked, and counts.

    Args:
        prices: What calls cost.
        items: How many parts a list of a reply has.
        reply: Tokens of a reply, where its shape does not need more.
        bytes_a_token: Bytes of a token of what is sent.
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
        sent = (
            sum(len(m.content.encode("utf-8", "replace")) for m in request.messages) / self._bytes
        )
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
        """The plainest value of a schema."""
        if "enum" in schema:
            return schema["enum"][0]
        kind = schema.get("type")
        if kind == "object":
            return {name: self._made(part) for name, part in schema["properties"].items()}
        if kind == "array":
            return [self._made(schema["items"]) for _ in range(self._items)]
        return {"integer": 1, "number": 1, "boolean": True}.get(str(kind), "something")


def _sum(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return one[0] + other[0], one[1] + other[1]
