"""A model that can be told what to say: it fills whatever schema it is asked for."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

from tests.chat_server.answers import Answer

KINDS = ("sentence", "claim", "nugget")


def kind_of(body: Mapping[str, Any]) -> str:
    """Return the kind of a request: level, sentence (split), claim, nuggets, nugget or outcome."""
    keys = list(body["response_format"]["json_schema"]["schema"]["properties"])
    last = keys[-1]
    return next((kind for kind in KINDS if last.startswith(f"{kind}_")), last)


def user_text(body: Mapping[str, Any]) -> str:
    """The text of the user's message."""
    return body["messages"][1]["content"]


class Script:
    """Answers by schema; each rule is a value, or a function of what is judged.

    Args:
        level: The level of a rating.
        split: number of a sentence -> its claims.
        verdict: (number of a claim, user's text) -> ruling, or (ruling, numbers of passages);
            without numbers, those of all passages that it takes, from the first on.
        alternatives: Probabilities of other tokens, by the token that is said.
    """

    def __init__(
        self,
        *,
        level: int | Callable[[str], int] = 4,
        split: Callable[[int, str], list[str]] = lambda n, text: [f"claim of sentence {n}"],
        verdict: Callable[[int, str], Any] = lambda n, text: "supported",
        outcome: Callable[[str], str] = lambda text: "A",
        nuggets: tuple[tuple[str, str], ...] = (("it opened in 1932", "vital"),),
        support: Callable[[int], str] = lambda n: "support",
        alternatives: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        self.level, self.split, self.verdict = level, split, verdict
        self.outcome, self.nuggets, self.support = outcome, nuggets, support
        self.alternatives = alternatives or {}
        self.kinds: list[str] = []

    def __call__(self, body: Mapping[str, Any], times_asked: int) -> Answer:
        kind, text = kind_of(body), user_text(body)
        self.kinds.append(kind)
        keys = body["response_format"]["json_schema"]["schema"]["properties"]
        reply = {key: self._value(kind, key, text, keys[key]) for key in keys}
        return Answer(json.dumps(reply), alternatives=self.alternatives)

    def _value(self, kind: str, key: str, text: str, schema: Mapping[str, Any]) -> Any:
        if key == "reasoning":
            return "since it is so"
        if kind == "level":
            return self.level(text) if callable(self.level) else self.level
        if kind == "outcome":
            return self.outcome(text)
        if kind == "nuggets":
            return [{"nugget": fact, "importance": weight} for fact, weight in self.nuggets]
        number = int(key.rpartition("_")[2])
        if kind == "sentence":
            return self.split(number, text)
        words = self.verdict(number, text) if kind == "claim" else self.support(number)
        if isinstance(words, tuple):
            words, passages = words
        else:
            passages = {"supported_together": [1, 2], "not_mentioned": []}.get(words, [1])
        together = {"passages": passages} if "passages" in schema["properties"] else {}
        return {"reason": "it says so", **together, "verdict": words}


class Held:
    """A script that answers so many requests, and then holds all others until it is released."""

    def __init__(self, script: Callable[..., Any], hold_after: int | None = None) -> None:
        self._script, self.answered, self.hold_after = script, 0, hold_after
        self._released = threading.Event()

    def __call__(self, body: Mapping[str, Any], times_asked: int) -> Any:
        self.answered += 1
        if self.hold_after is not None and self.answered > self.hold_after:
            assert self._released.wait(120), "the test releases what it holds"
        return self._script(body, times_asked)

    def release(self) -> None:
        """Answer from now on."""
        self.hold_after = None
        self._released.set()
