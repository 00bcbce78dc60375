"""What an HTTP error means: whether to ask again, when, and under which cause it counts."""

from __future__ import annotations

import math
import re
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

from ragbench.llm.base import CallFailure
from ragbench.records.codec import clean_tree
from ragbench.types import Cause

# Statuses that ask for fewer calls: rate limit, overload, and Anthropic's overload.
THROTTLED = frozenset({429, 503, 529})
_RETRYABLE = frozenset({408, 409, 425})  # too slow, locked, too early; 5xx come beside them
_QUOTA = ("insufficient_quota", "billing_hard_limit_reached")
_FILTERED = ("content_filter", "content_policy_violation", "ContentPolicyViolation")
_TOO_LONG = re.compile(
    r"(?:maximum|max|available|model's) context (?:length|size|window)|maximum context length"
    r"|context (?:length|window|size) (?:exceeded|of only|is only)|exceeds? the (?:context|maximum"
    r" number of tokens)|prompt is too long|longer than the model|context_length_exceeded"
    r"|exceed_context_size|`?max_new_tokens`? must be <=",
    re.IGNORECASE,
)
_ROOM = re.compile(
    r"(?:context (?:length|size|window)\D{0,24}|allowed \(|> |must be <= |model with )"
    r"(\d[\d,]*)(?: maximum context length)?",
    re.IGNORECASE,
)
_COUNT = re.compile(r"(?<![\w.,-])\d[\d,]*(?![\w-]|\.\d)")
_LONGEST_DETAIL = 500
_LARGEST_REPLY = 64 * 2**20  # bytes, unpacked; what is longer is no answer to one question
# How a reply may be packed -> what zlib calls that; others could not be measured.
ENCODINGS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


def failure_of_status(
    status: int,
    message: str,
    *,
    headers: Mapping[str, str],
    code: str | None = None,
    param: str | None = None,
    body: object = None,
) -> CallFailure:
    """Return the failure that an HTTP error stands for; `body` is its error as a mapping."""
    out_of_money = code in _QUOTA or any(word in message for word in _QUOTA)
    if status == 429 and out_of_money:
        detail = f"the account has no quota left: {shortened(message)}"
        return CallFailure(Cause.SERVER_ERROR, detail, fatal=True, status=status)
    if status != 429 and (code in _FILTERED or any(word in message for word in _FILTERED)):
        return CallFailure(Cause.REFUSED, _filtered(message, body), status=status)
    if status != 429 and _TOO_LONG.search(f"{code or ''} {message}"):
        return CallFailure(Cause.TOO_LONG, _too_long(message, body), status=status)
    if 300 <= status < 400:
        what = "it redirects, which is not followed: give the address that answers"
        detail = f"the server answered {status}: {what}"
        return CallFailure(Cause.SERVER_ERROR, detail, fatal=True, status=status)
    throttled = status in THROTTLED
    return CallFailure(
        Cause.SERVER_ERROR,
        f"the server answered {status}: {shortened(message)}",
        retryable=throttled or status in _RETRYABLE or (status >= 500 and status != 501),
        throttled=throttled,
        retry_after_s=retry_after(headers),
        fatal=status == 401,
        status=status,
        param=param,
    )


def failure_of_body(error: object, message: str) -> CallFailure:
    """Return the failure of an error that came with status 200, or in the middle of a stream."""
    code = error.get("code") if isinstance(error, Mapping) else None
    status = code if isinstance(code, int) and 400 <= code < 600 else 500
    return failure_of_status(status, message, headers={}, code=str(code or ""), body=error)


def failure_of_connection(message: str) -> CallFailure:
    """Return the failure of a connection that was refused or cut; it may hold next time."""
    detail = f"the connection failed: {shortened(message)}"
    return CallFailure(Cause.SERVER_ERROR, detail, retryable=True, unconnected=True)


def failure_of_exception(error: BaseException, clean: Callable[[str], str] = str) -> CallFailure:
    """Return the failure that any client's exception stands for, by what it carries.

    Clients of all vendors put the HTTP status on the exception or on its response; those that do
    not are timeouts, connection errors, or mistakes that will not go away.
    """
    response = getattr(error, "response", None)
    status = getattr(error, "status_code", None) or getattr(response, "status_code", None)
    # before it is cut: a part of a secret would be left
    message = clean(str(error)) or type(error).__name__
    if isinstance(status, int):
        headers = getattr(response, "headers", None) or {}
        code, param = (str(getattr(error, name, None) or "") for name in ("code", "param"))
        body = clean_tree(getattr(error, "body", None), clean)
        # where a client looks for `error.message` alone: FastAPI writes `detail`
        told = body.get("detail") if isinstance(body, Mapping) else None
        if told and str(told) not in message:
            message = f"{message}: {told}"
        return failure_of_status(
            status, message, headers=headers, code=code, param=param, body=body
        )
    name = type(error).__name__
    if isinstance(error, TimeoutError) or "Timeout" in name:
        return CallFailure(Cause.TIMEOUT, f"{name}: {shortened(message)}", retryable=True)
    if isinstance(error, ConnectionError) or "Connect" in name or "Protocol" in name:
        return failure_of_connection(message)
    return CallFailure(Cause.ERROR, f"{name}: {shortened(message)}")


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the seconds that a server asks to wait; None where it does not say so readably.

    Reads `retry-after-ms` (OpenAI), then `retry-after` in seconds or as an HTTP date (RFC 9110,
    10.2.3). A date in the past is 0.
    """
    for name, divisor in (("retry-after-ms", 1000), ("retry-after", 1)):
        seconds = _number(headers.get(name))
        if seconds is not None:
            return seconds / divisor
    try:
        date = parsedate_to_datetime(headers.get("retry-after") or "")
        return max(0.0, date.timestamp() - (time.time() if now is None else now))
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _filtered(message: str, body: object) -> str:
    """That a filter held a prompt back, and what for, where the server says so as Azure does."""
    inner = body.get("innererror") if isinstance(body, Mapping) else None
    found = inner.get("content_filter_result") if isinstance(inner, Mapping) else None
    kinds = [
        f"{name}: {kind.get('severity') or 'detected'}"
        for name, kind in (found if isinstance(found, Mapping) else {}).items()
        if isinstance(kind, Mapping) and kind.get("filtered")
    ]
    told = body.get("message") if isinstance(body, Mapping) else None
    why = f" ({', '.join(kinds)})" if kinds else ""
    return f"a content filter held back the prompt{why}: {shortened(str(told or message))}"


def _too_long(message: str, body: object) -> str:
    """How long the prompt is and how much fits, as far as the server says, and its own words."""
    error = body if isinstance(body, Mapping) else {}
    most, asked = error.get("n_ctx"), error.get("n_prompt_tokens")  # llama.cpp's
    if not isinstance(most, int) and (room := _ROOM.search(message)):
        most = int(room.group(1).replace(",", ""))
        counts = [int(count.replace(",", "")) for count in _COUNT.findall(message)]
        asked = max((count for count in counts if count > most), default=None)
    if not isinstance(most, int):
        return f"the prompt is too long for the model: {shortened(message)}"
    said = f"{asked:,} tokens where {most:,} fit" if isinstance(asked, int) else f"{most:,} fit"
    return f"the prompt is too long for the model ({said}): {shortened(message)}"


def shortened(text: str) -> str:
    """One line of at most 500 characters: an error page is no message."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_DETAIL else f"{line[:_LONGEST_DETAIL]} ..."


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


class _Response(Protocol):
    """What `httpx`, or what has its interface, calls a hook with."""

    headers: Mapping[str, str]
    stream: Any


def bound_reply(response: _Response) -> None:
    """Let a reply be read up to 64 MiB, unpacked: a few MB of gzip may make gigabytes.

    A hook for responses; beyond comes a `CallFailure`.
    """
    stream, size = response.stream, _Size(response)

    def pieces(self: object) -> Iterator[bytes]:
        for piece in stream:
            size.add(piece)
            yield piece

    async def async_pieces(self: object) -> AsyncIterator[bytes]:
        async for piece in stream:
            size.add(piece)
            yield piece

    methods = {
        "__iter__": pieces,
        "__aiter__": async_pieces,
        "close": lambda self: stream.close(),
        "aclose": lambda self: stream.aclose(),
    }
    # the client refuses a stream that is not of its own class, and several libraries have one
    kinds = ("SyncByteStream", "AsyncByteStream")
    bases = tuple(kind for kind in type(stream).__mro__ if kind.__name__ in kinds)
    response.stream = type("Bounded", bases, methods)()


async def async_bound_reply(response: _Response) -> None:
    """Do what `bound_reply` does, as a hook of an asynchronous client."""
    bound_reply(response)


class _Size:
    """Counts the bytes of a reply, packed and unpacked."""

    def __init__(self, response: _Response) -> None:
        packed = str(response.headers.get("content-encoding", "identity")).strip().lower()
        if packed not in ENCODINGS and packed != "identity":
            allowed = ", ".join(ENCODINGS)
            detail = f"the reply is packed as {packed[:40]!r}, which was not asked for: {allowed}"
            raise CallFailure(Cause.MALFORMED, detail)
        self._inflate = zlib.decompressobj(ENCODINGS[packed]) if packed in ENCODINGS else None
        self._came, self._unpacked = 0, 0

    def add(self, piece: bytes) -> None:
        """Count a piece before anybody unpacks it."""
        self._came += len(piece)
        self._unpacked += self._size_of(piece)
        if self._unpacked > _LARGEST_REPLY:
            detail = (
                f"the reply is larger than {_LARGEST_REPLY >> 20} MiB: {self._came:,} bytes came, "
                f"{self._unpacked:,} of them unpacked"
            )
            raise CallFailure(Cause.MALFORMED, detail)

    def _size_of(self, piece: bytes) -> int:
        if self._inflate is None:
            return len(piece)
        left = _LARGEST_REPLY + 1 - self._unpacked
        try:
            return len(self._inflate.decompress(piece, left))
        except zlib.error:  # bare deflate, or broken: as large as such a piece can be
            return min(left, len(piece) * 1032)
