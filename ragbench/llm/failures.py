"""What an HTTP error means: whether to ask again, when, and under which cause it counts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from ragbench.llm.base import CallFailure
from ragbench.types import Cause

THROTTLED = frozenset({429, 503, 529})
"""Statuses that ask for fewer calls: rate limit, overload, and Anthropic's overload."""
_RETRYABLE = frozenset({408, 409, 425})  # too slow, locked, too early; 5xx come beside them
_QUOTA = ("insufficient_quota", "billing_hard_limit_reached")
_LONGEST_DETAIL = 500


def failure_of_status(
    status: int,
    message: str,
    *,
    headers: Mapping[str, str],
    code: str | None = None,
    param: str | None = None,
) -> CallFailure:
    """Return the failure that an HTTP error stands for."""
    out_of_money = code in _QUOTA or any(word in message for word in _QUOTA)
    if status == 429 and out_of_money:
        detail = f"the account has no quota left: {shortened(message)}"
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
    return failure_of_status(status, message, headers={})


def failure_of_connection(message: str) -> CallFailure:
    """Return the failure of a connection that was refused or cut; it may hold next time."""
    detail = f"the connection failed: {shortened(message)}"
    return CallFailure(Cause.SERVER_ERROR, detail, retryable=True, unconnected=True)


def failure_of_exception(error: BaseException, clean: Callable[[str], str] = str) -> CallFailure:
    """Return the failure that any client's exception stands for, by what it carries.

    Clients of all vendors put the HTTP status on the exception or on its response; those that do
    not are timeouts, connection errors, or mistakes that will not go away.
    """
    response: Any = getattr(error, "response", None)
    status = getattr(error, "status_code", None) or getattr(response, "status_code", None)
    # before it is cut: a part of a secret would be left
    message = clean(str(error)) or type(error).__name__
    if isinstance(status, int):
        headers = getattr(response, "headers", None) or {}
        code, param = (str(getattr(error, name, None) or "") for name in ("code", "param"))
        return failure_of_status(status, message, headers=headers, code=code, param=param)
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
