"""Failures of calls from HTTP errors: whether and when to retry, and the cause to count."""

from __future__ import annotations

import math
import re
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import Any

from ragbench.llm.base import CallFailure
from ragbench.llm.error_words import error_words, find_field, parse_error
from ragbench.secrets import mask_addresses
from ragbench.types import Cause

# Statuses that ask for fewer calls: rate limit, overload, and the overload of Anthropic.
THROTTLED = frozenset({429, 503, 529})
_RETRYABLE = frozenset({408, 409, 425})  # timeout, locked, too early; beside them most 5xx
# Statuses of a server that refuses this key, account, address or model whatever the prompt.
_FATAL = frozenset({401, 402, 403, 404})
_QUOTA = ("insufficient_quota", "billing_hard_limit_reached")
_FILTERED = re.compile(
    r"content_?filter|content_policy_violation|responsibleaipolicyviolation", re.IGNORECASE
)
# Words of OpenAI, Anthropic, Bedrock, OpenRouter, Gemini, xAI, DeepSeek, Alibaba.
_MODERATED = re.compile(
    r"content[_ ]filter|content[_ ]policy|\bmoderation\b|flagged|guardrail|block_?reason"
    r"|usage (?:policy|policies|guidelines)|safety (?:system|filter|policy|settings)"
    r"|prohibited[_ ]content|content exists risk|inappropriate content|data_?inspection"
    r"|blocked by (?:our |the )?(?:safety|content|responsible)",
    re.IGNORECASE,
)
_MODERATED_STATUS = frozenset({400, 403, 422, 451})
_TOO_LONG = re.compile(
    r"(?:maximum|max|available|model's) context (?:length|size|window)|maximum context length"
    r"|context (?:length|window|size) (?:exceeded|of only|is only)|exceeds? the (?:context|maximum"
    r" number of tokens)|prompt is too long|longer than the model|context_length_exceeded"
    r"|exceed_context_size|`?max_new_tokens`? must be <=|must have less than \d+ tokens"
    r"|input is too long",
    re.IGNORECASE,
)
_ABOUT_CONTEXT = re.compile(r"context[ _-]?(?:length|window|size|limit)", re.IGNORECASE)
_TOO_LONG_STATUS = frozenset({400, 413, 422})  # of a prompt that the server has looked at
_UNKNOWN_MODEL = re.compile(
    r"model_not_found|(?:unknown|invalid|no such|unrecognized|not a valid) model\b"
    r"|\bmodels?\b[^.;]{0,100}?(?:does not exist|doesn't exist|not exist|not found|not be found)"
    r"|model (?:identifier|name|id) is (?:invalid|unknown)",
    re.IGNORECASE,
)
_GENERIC = re.compile(r"Error code: \d+(?: - )?")  # before the words of `openai` and `anthropic`
_LASTING = (401, 402, 429)  # statuses about the key and the account
_REFUSALS = 3  # fatal refusals in a row after which no further request is sent
_MAX_DETAIL = 500
_MAX_REPLY = 64 * 2**20  # bytes; no answer to one question is longer


def failure_of_status(
    status: int,
    message: str,
    *,
    headers: Mapping[str, str],
    code: str | None = None,
    param: str | None = None,
    url: str = "",
) -> CallFailure:
    """Return the failure of an HTTP error; its words decide before its status.

    It is returned, not raised. `fatal` is set for 401, 402, 403, 404, an unknown model, redirects
    and 429 without quota. Causes are SERVER_ERROR; for other statuses than 429 REFUSED by a content
    filter and TOO_LONG; UNREADABLE for a reply that a llama.cpp server cut off. Retryable are 408,
    409, 425, 429 with quota left, and 5xx other than 501 and that of a reply cut off. `throttled`
    is set for 429 with quota left, 503 and 529.

    Args:
        status: HTTP status.
        message: Error message without secrets.
        headers: Headers of the response, looked up by names in lower case.
        code: Error code of the server.
        param: Parameter that the error is about.
        url: URL of the request, which ends the detail; empty leaves it out.
    """
    failure = _failure_of_words(status, f"{code or ''} {message}", message)
    if failure is None:
        throttled = status in THROTTLED
        failure = CallFailure(
            Cause.SERVER_ERROR,
            f"the server answered {status}: {one_line(message)}",
            retryable=throttled or status in _RETRYABLE or (status >= 500 and status != 501),
            throttled=throttled,
            retry_after_s=retry_after(headers),
            fatal=status in _FATAL or (status < 500 and is_unknown_model(f"{code} {message}")),
            param=param,
        )
    where = f" ({url})" if url else ""
    words = f"{message} {code or ''}"
    return replace(failure, detail=failure.detail + where, status=status, words=words)


def _failure_of_words(status: int, words: str, message: str) -> CallFailure | None:
    """Return the failure of an error whose words or kind tell more than its status, else None."""
    # The order matters: an exhausted quota comes as 429 as well, and filters and context limits as
    # 400, so these cases are recognised by their words before the status decides.
    if status == 429:
        if not any(word in words for word in _QUOTA):
            return None
        detail = f"the account has no quota left: {one_line(message)}"
        return CallFailure(Cause.SERVER_ERROR, detail, fatal=True)
    # A whole account may be flagged too, which is no refusal of a prompt.
    is_moderated = status in _MODERATED_STATUS and "account" not in words.lower()
    if _FILTERED.search(words) or (is_moderated and _MODERATED.search(words)):
        detail = f"a content filter held back the prompt: {one_line(message)}"
        return CallFailure(Cause.REFUSED, detail)
    about_context = status in _TOO_LONG_STATUS and _ABOUT_CONTEXT.search(words)
    if about_context or _TOO_LONG.search(words):
        detail = f"the prompt is too long for the model: {one_line(message)}"
        return CallFailure(Cause.TOO_LONG, detail)
    if 300 <= status < 400:
        hint = "it redirects, which is not followed: give the address that answers"
        detail = f"the server answered {status}: {hint}"
        return CallFailure(Cause.SERVER_ERROR, detail, fatal=True)
    if status == 500 and "does not match the expected" in message:  # llama.cpp, a reply cut short
        return CallFailure(Cause.UNREADABLE, one_line(message))
    return None


class Access:
    """Decision whether a server that refuses access still gets requests, for one component.

    A fatal failure before any reply ends the requests: of a wrong key, address or model. Later the
    words of one request may be the reason: only the key, the account and redirects end them, and
    only after three refusals in a row. `replied` and `refused` record what the server answers.

    Attributes:
        has_replied: True from the first usable reply on.
        refusal: Failure that ends the requests; None as long as they go on.
    """

    def __init__(self) -> None:
        self.has_replied = False
        self.refusal: CallFailure | None = None
        self._in_a_row = 0

    def replied(self) -> None:
        """Record a usable reply."""
        self.has_replied, self._in_a_row = True, 0

    def refused(self, failure: CallFailure) -> CallFailure:
        """Record a failure; return it, with `unreachable` set if it ends the requests at once."""
        redirects = failure.status is not None and 300 <= failure.status < 400
        # A key that has worked may be refused once by mistake, and a proxy may redirect once,
        # but not several times in a row. Other statuses are about one prompt then.
        is_lasting = redirects or failure.status in _LASTING
        self._in_a_row = self._in_a_row + 1 if failure.fatal and is_lasting else 0
        is_certain = failure.fatal and not self.has_replied and not redirects
        if is_certain:
            failure = replace(failure, retryable=False, unreachable=True)
        if is_certain or self._in_a_row >= _REFUSALS:
            self.refusal = failure
        return failure


def is_unknown_model(words: str) -> bool:
    """Return True if the words of an error say that the server does not have the model."""
    return _UNKNOWN_MODEL.search(words) is not None


def failure_of_body(body: object) -> CallFailure:
    """Return the failure of an error that came with status 200.

    The status is the `code` of the error if it is an HTTP status, else 500. It is returned, not
    raised.

    Args:
        body: JSON value of the error.
    """
    code = find_field(body, "code")
    status = int(code) if code.isdecimal() and len(code) == 3 and 400 <= int(code) < 600 else 500
    words = error_words(body) or str(body)
    param = find_field(body, "param")
    return failure_of_status(status, words, headers={}, code=code, param=param)


def failure_of_page(page: str) -> CallFailure:
    """Return the failure of a web page that came in place of a completion, with status 200.

    Before any reply the address is wrong or wants a login; later, a proxy may have answered once.
    """
    detail = f"the server answered 200 with a web page: {one_line(error_words(page))}"
    return CallFailure(Cause.SERVER_ERROR, detail, retryable=True, fatal=True, status=200)


def failure_of_connection(message: str, error: BaseException | None) -> CallFailure:
    """Return the failure of a connection that was refused or cut; it is retryable.

    It is returned, not raised, with the cause SERVER_ERROR and `unconnected` set. `error` tells a
    refused connection, which is `unreachable`, from one that was cut; None counts as cut.
    """
    detail = f"the connection failed: {one_line(message)}"
    unreachable = _is_unreachable(error)
    return CallFailure(
        Cause.SERVER_ERROR, detail, retryable=True, unconnected=True, unreachable=unreachable
    )


def _is_unreachable(error: BaseException | None) -> bool:
    """Return True for a refused connection or an unknown host, also as a cause of `error`."""
    errors, visited = [error], set[int]()
    while errors:
        error = errors.pop()
        if error is None or id(error) in visited:
            continue
        visited.add(id(error))
        if isinstance(error, (ConnectionRefusedError, socket.gaierror)):
            return True
        errors += [error.__cause__, error.__context__, *getattr(error, "exceptions", ())]
    return False


def failure_of_exception(error: BaseException, clean: Callable[[str], str] = str) -> CallFailure:
    """Return the failure of an exception of any client library.

    An HTTP status on the exception or its response decides. Without a status, timeouts and
    connection errors are recognised by type and name; any other exception is a final error. It is
    returned, not raised. The cause is TIMEOUT, SERVER_ERROR or ERROR if there is no status.

    Args:
        error: Exception of a client.
        clean: Masks secrets in texts.
    """
    response = getattr(error, "response", None)
    status = getattr(error, "status_code", None) or getattr(response, "status_code", None)
    # Masked before it is shortened, since a cut secret would no longer be recognised.
    message = clean(str(error)) or type(error).__name__
    if isinstance(status, int):
        body = parse_error(_body_of(error, response))
        return failure_of_status(
            status,
            _message_of(message, clean(error_words(body))),
            headers=getattr(response, "headers", None) or {},
            code=clean(find_field(body, "code") or str(getattr(error, "code", None) or "")),
            param=clean(find_field(body, "param") or str(getattr(error, "param", None) or "")),
            url=clean(_url_of(response)),
        )
    if isinstance(reason := getattr(error, "reason", None), OSError):
        error = reason  # urllib wraps the error of its socket
    name = type(error).__name__
    if isinstance(error, TimeoutError) or "Timeout" in name:
        return CallFailure(Cause.TIMEOUT, f"{name}: {one_line(message)}", retryable=True)
    is_socket = isinstance(error, (ConnectionError, socket.gaierror))
    if is_socket or "Connect" in name or "Protocol" in name:
        return failure_of_connection(message, error)
    return CallFailure(Cause.ERROR, f"{name}: {one_line(message)}")


def _body_of(error: BaseException, response: object) -> object:
    """Return the body of an HTTP error, as text or as the client has parsed it; None without."""
    # `openai` keeps a part of the body in `error.body`, and drops the rest.
    try:
        text = getattr(response, "text", None)
    except RuntimeError:  # a streamed response of httpx that has not been read
        text = None
    return text if isinstance(text, str) and text.strip() else getattr(error, "body", None)


def _message_of(message: str, words: str) -> str:
    """Return the message of an exception with the words of its body, each of them once."""
    text = _GENERIC.sub("", message, count=1)
    if not words:
        return text or message
    # Clients append the body as it is, or as Python shows it.
    is_repeated = not text or text in words or text.startswith(("{", "["))
    return words if is_repeated else f"{text}: {words}"


def _url_of(response: object) -> str:
    """Return the URL of a response without query and login; empty if it is unknown."""
    try:
        url = str(getattr(response, "url", None) or "")
    except RuntimeError:  # a response of httpx without a request
        return ""
    return mask_addresses(url.partition("?")[0])


def retry_after(headers: Mapping[str, str], time_s: float | None = None) -> float | None:
    """Return the seconds that a server asks to wait; None without a readable header.

    The header is `retry-after-ms` (OpenAI), else `retry-after` in seconds or as an HTTP date (RFC
    9110, 10.2.3). A date in the past gives 0.

    Args:
        headers: Headers of the response, with names in lower case.
        time_s: Current time in seconds since 1970; None reads the clock.
    """
    for name, divisor in (("retry-after-ms", 1000), ("retry-after", 1)):
        seconds = _number(headers.get(name))
        if seconds is not None:
            return seconds / divisor
    try:
        date = parsedate_to_datetime(headers.get("retry-after") or "")
        return max(0.0, date.timestamp() - (time.time() if time_s is None else time_s))
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def one_line(text: str) -> str:
    """Return a text as one line of at most 500 characters, and ` ...` if it is cut.

    An empty text stays empty.
    """
    # Some servers answer with a whole HTML page.
    line = " ".join(text.split())
    return line if len(line) <= _MAX_DETAIL else f"{line[:_MAX_DETAIL]} ..."


def _number(text: str | None) -> float | None:
    """Return a finite number of at least 0 from a header; None for any other text."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def bound_reply(response: Any) -> None:
    """Limit the body of a response to 64 MiB; a hook for clients like httpx.

    Reading beyond the limit raises a CallFailure; so does this call for a compressed response. It
    replaces `response.stream`.
    """
    encoding = str(response.headers.get("content-encoding", "identity")).strip().lower()
    # A few megabytes of gzip may decompress to gigabytes, and replies are short.
    if encoding != "identity":
        detail = f"the reply has the content encoding {encoding[:40]!r}, allowed: identity"
        raise CallFailure(Cause.MALFORMED, detail)
    stream, received = response.stream, 0

    def count(piece: bytes) -> bytes:
        """Return a piece; raise a CallFailure over the limit."""
        nonlocal received
        received += len(piece)
        if received > _MAX_REPLY:
            detail = f"the reply is larger than {_MAX_REPLY >> 20} MiB"
            raise CallFailure(Cause.MALFORMED, detail)
        return piece

    def pieces(self: object) -> Iterator[bytes]:
        for piece in stream:
            yield count(piece)

    async def async_pieces(self: object) -> AsyncIterator[bytes]:
        async for piece in stream:
            yield count(piece)

    methods = {
        "__iter__": pieces,
        "__aiter__": async_pieces,
        "close": lambda self: stream.close(),
        "aclose": lambda self: stream.aclose(),
    }
    # The client accepts streams of its own base classes only, and several libraries define some.
    kinds = ("SyncByteStream", "AsyncByteStream")
    bases = tuple(kind for kind in type(stream).__mro__ if kind.__name__ in kinds)
    response.stream = type("Bounded", bases, methods)()


async def async_bound_reply(response: Any) -> None:
    """Limit the body of a response as `bound_reply` does; a hook for asynchronous clients."""
    bound_reply(response)
