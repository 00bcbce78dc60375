"""What judging will cost, before anything is sent: a judge asks a model that only counts.

The prompts are the real ones, so their number and their length are right as far as they do not
depend on replies. A split answer has one claim a sentence in the low estimate, two in the high
one; a reply is short in the one and long in the other; a token has five bytes or three.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragbench.llm import ChatReply, ChatRequest, Prices
from ragbench.score.judge.base import Item, Rubric
from ragbench.score.judge.model_judge import ModelJudge

_MOST = 20  # items that are rehearsed; the others are taken to be like them


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


def rehearse(judge: ModelJudge, items: Sequence[Item], rubrics: Sequence[Rubric]) -> Estimate:
    """Estimate what applying rubrics to items takes; nothing is sent.

    Example:
        >>> from ragbench.score.judge.openai import OpenAIJudge
        >>> from ragbench.score.judge.rubric import load_rubric
        >>> judge = OpenAIJudge(model="gpt-4o-mini", api_key_env="NONE")
        >>> item = Item(question="Why?", answer="Because. So it is.", contexts=["It is so."])
        >>> rehearse(judge, [item], [load_rubric("faithfulness")]).calls  # split, then check
        (2.0, 2.0)
    """
    if not items or not rubrics:
        return Estimate()
    some = items[:_MOST]
    prices = judge.load_prices()
    low = _rehearse(judge, some, rubrics, _Counting(prices, claims=1, reply=40, bytes_a_token=5))
    high = _rehearse(judge, some, rubrics, _Counting(prices, claims=2, reply=200, bytes_a_token=3))
    usd = None if low.usd is None or high.usd is None else (low.usd, high.usd)
    found = Estimate((low.calls, high.calls), (low.tokens, high.tokens), usd)
    return found.times(len(items) / len(some))


def _rehearse(
    judge: ModelJudge, items: Sequence[Item], rubrics: Sequence[Rubric], model: _Counting
) -> _Counting:
    stand_in = ModelJudge(
        lambda replies: model, judge.bench, judge.asking, prices=lambda: Prices({})
    )
    try:
        stand_in.judge_all(items, rubrics)
    finally:
        stand_in.close()
    return model


class _Counting:
    """A model that answers with the shape of what it is asked for, and counts."""

    identity: Mapping[str, str] = {"type": "rehearsal"}

    def __init__(self, prices: Prices, *, claims: int, reply: int, bytes_a_token: int) -> None:
        self._prices, self._claims = prices, claims
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
            return [self._made(schema["items"]) for _ in range(self._claims)]
        return {"integer": 1, "number": 1, "boolean": True}.get(str(kind), "something")


def _sum(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return one[0] + other[0], one[1] + other[1]
