"""What a scripted chat server answers: one record per answer, and the faults that servers have."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Literal, Protocol

from ragbench.errors import OptionError

Cut = Literal["before", "headers", "body"]
"""Where a connection is cut: before any byte, after the headers, or in the middle of the body."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One scripted answer of the server."""

    text: str = ""
    """What the model says."""
    status: int = 200
    """HTTP status; any other than 200 sends an error body with `text` as its message."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Further response headers, such as `retry-after`."""
    delay_s: float = 0.0
    """Seconds until the answer is sent, beyond the server's own latency."""
    cut: Cut | None = None
    """Where the connection is cut; None answers in full."""
    finish_reason: str = "stop"
    """Why the model stopped."""
    refusal: str | None = None
    """The refusal field of the message."""
    empty: bool = False
    """Whether the list of choices is empty."""
    error_code: str | None = None
    """`error.code` of an error body: `insufficient_quota`."""
    param: str | None = None
    """`error.param` of an error body: the parameter that the server refuses."""
    alternatives: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Probabilities of the tokens that could have stood in a token's place, by that token."""
    body: bytes | None = None
    """The whole response body instead of a chat completion: a proxy's HTML page."""


Fault = Callable[[str], Answer]
"""Makes a faulty answer of the text that the server would have sent."""


FAULTS: dict[str, Fault] = {
    "rate_limited": lambda text: Answer(
        "Rate limit reached", status=429, headers={"retry-after": "0.05"}
    ),
    "server_error": lambda text: Answer("The server had an error", status=500),
    "overloaded": lambda text: Answer("The engine is overloaded", status=503),
    "slow": lambda text: Answer(text, delay_s=30.0),
    "cut": lambda text: Answer(text, cut="body"),
    "hung_up": lambda text: Answer(text, cut="before"),
    "truncated_json": lambda text: Answer(text[: len(text) // 2], finish_reason="length"),
    "prose": lambda text: Answer(f"Sure! Here is my verdict:\n```json\n{text}\n```\nIs that all?"),
    "not_a_number": lambda text: Answer(_with_numbers(text, "NaN")),
    "number_word": lambda text: Answer(_with_numbers(text, '"four"')),
    "no_choices": lambda text: Answer(empty=True),
    "refusal": lambda text: Answer(refusal="I cannot help with that."),
}
"""The faults by name; those that a client can mend are `rate_limited`, `server_error`,
`overloaded`, `cut`, `hung_up` (ask again) and `prose` (read around it)."""


class Script(Protocol):
    """Says what the server answers to a request."""

    def __call__(self, request: Mapping[str, Any], times_asked: int) -> Answer | str:
        """Return the answer to a request body that was asked `times_asked` times before."""
        ...


@dataclass(frozen=True, slots=True)
class Faults:
    """A script that answers with `text`, apart from a share of requests that meet a fault.

    Which fault a request meets, if any, follows from its content and the seed, not from the order
    of arrival: an undisturbed and a repeated run meet the same. A request that is sent again is
    answered; a question that is asked once more in the same conversation meets its fault again.

    Example:
        >>> script = Faults('{"score": 4}', share=0.5, kinds=["server_error"])
        >>> asking = lambda i: {"messages": [{"role": "user", "content": f"{i}"}]}
        >>> answers = [script(asking(i), times_asked=0).status for i in range(1000)]
        >>> answers.count(500), script(asking(1), times_asked=1).status
        (510, 200)
    """

    text: str
    """What the server says when nothing goes wrong."""
    share: float = 0.2
    """Which part of the requests meets a fault."""
    kinds: tuple[str, ...] | list[str] = tuple(FAULTS)
    """Names in `FAULTS`, all equally frequent."""
    seed: int = 0
    """Another seed, other victims."""

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in FAULTS:
                raise OptionError("chat server", "kinds", kind, ", ".join(FAULTS))

    def kind_of(self, request: Mapping[str, Any]) -> str | None:
        """Return the name of the fault that a request meets, or None."""
        said = takewhile(lambda m: m.get("role") != "assistant", request.get("messages") or ())
        content = json.dumps([self.seed, *said], sort_keys=True).encode()
        draw = int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big") / 2**64
        if draw >= self.share:
            return None
        return self.kinds[int(draw / self.share * len(self.kinds))]

    def __call__(self, request: Mapping[str, Any], times_asked: int) -> Answer:
        """Answer with the fault on the first request, and with the text from then on."""
        kind = self.kind_of(request) if times_asked == 0 else None
        return Answer(self.text) if kind is None else FAULTS[kind](self.text)


def _with_numbers(text: str, written: str) -> str:
    """The text with every number in it written otherwise; `written` alone where it is no JSON."""
    try:
        value = json.loads(text)
    except ValueError:
        return written
    marker = "\x00"
    marked = json.dumps(_marked(value, marker))
    return marked.replace(json.dumps(marker), written)


def _marked(value: Any, marker: str) -> Any:
    """A JSON value with its numbers replaced by a marker."""
    if isinstance(value, dict):
        return {key: _marked(part, marker) for key, part in value.items()}
    if isinstance(value, list):
        return [_marked(part, marker) for part in value]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return marker if is_number else value
