"""JSON over HTTP, in the standard library: a request, a reply, its time limit and its retries."""

from __future__ import annotations

import http.client
import json
import re
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any
from urllib.parse import urlsplit

from ragbench.errors import OptionError
from ragbench.json_yaml import MOST_NODES, load_json
from ragbench.llm.base import CallFailure
from ragbench.llm.failures import failure_of_connection, failure_of_status, shortened
from ragbench.llm.limits import Backoff
from ragbench.registry import Option
from ragbench.secrets import Redactor, is_harmless, secret_parts
from ragbench.types import Cause

_LARGEST_REPLY = 64 * 2**20  # bytes; what is longer is no answer to one question
_PIECE = 1 << 16

_UNSENT = re.compile("[\x00-\x20\x7f-\U0010ffff]")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile("[\t\x20-\x7e\xa0-\xff]*")

Url = Annotated[str, Option("Where to POST.")]


@dataclass(frozen=True, kw_only=True)
class RequestOptions:
    """Time limit and number of retries of a request."""

    timeout: Annotated[
        float, Option("Time limit of one reply, in seconds, retries included.", gt=0)
    ] = 60.0
    retries: Annotated[int, Option("Retries of errors that may be temporary.", ge=0)] = 2


@dataclass(frozen=True, kw_only=True)
class EndpointOptions(RequestOptions):
    """Headers, limits and retries of requests to a URL of the user."""

    headers: Annotated[
        dict[str, str] | None,
        Option('Headers; `"Bearer ${TOKEN}"` reads the environment.', secret=True),
    ] = None
    url: Url

    def endpoint(self) -> Endpoint:
        """Return the URL as what JSON is posted to."""
        return Endpoint("http", self.url, self.headers, timeout=self.timeout, retries=self.retries)


class Endpoint:
    """Client of one URL that takes JSON and answers JSON.

    Connections stay open between questions. 408, 425, 429 and 5xx are asked again, as long after as
    the server says, and so are connections that break; redirects are not followed, since they would
    carry the headers elsewhere. No message holds a header's value or the URL's query. `timeout` is
    in seconds, for all tries and the waiting between them; it is checked between pieces of a reply,
    so that headers which come byte by byte are waited for.
    """

    def __init__(
        self,
        owner: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        timeout: float = 60.0,
        retries: int = 2,
    ) -> None:
        allowed = "http://host/path or https://host/path"
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:  # a host in half a bracket, or what is no port
            raise OptionError(owner, "url", url.partition(":")[0] + "://...", allowed) from None
        host = parts.hostname or ""
        known = parts.scheme in ("http", "https") and _is_host(host)
        is_sent = not _UNSENT.search(parts.path + parts.query)
        if not (known and is_sent) or "@" in parts.netloc:
            bare = f"{parts.scheme}://{host}{parts.path.rpartition('@')[2]}"
            more = "" if is_sent else ", in ASCII; %20 for a blank, and so on"
            raise OptionError(owner, "url", bare, allowed + more)
        for name, value in (headers or {}).items():
            if not (_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value)):
                found = "a name or a value that no header can have"
                allowed = "a name of ASCII letters and '-'; a value of Latin-1 on one line"
                raise OptionError(owner, f"headers.{name}", found, allowed)
        self._secure, self._host = parts.scheme == "https", host
        self._port, query = port, f"?{parts.query}" if parts.query else ""
        self._target = f"{parts.path or '/'}{query}"
        # The URL without its query, as messages name it.
        self.address = f"{parts.scheme}://{parts.netloc}{parts.path}"
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        self._headers |= headers or {}
        self._clean = Redactor(_secrets_of(headers or {}, url))
        self._timeout, self._retries, self._backoff = timeout, retries, Backoff(seed=0)
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        weakref.finalize(self, _close, self._idle)

    def post(self, body: Any) -> Any:
        """Return the reply to a body; one that is no JSON is a failure, `malformed`."""
        content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        deadline = time.monotonic() + self._timeout
        for tried in range(1, self._retries + 2):
            try:
                return self._read(self._once(content, deadline))
            except CallFailure as failure:
                wait_s = self._backoff.seconds(failure, tried) if failure.retryable else 0.0
                late = time.monotonic() + wait_s >= deadline
                if not failure.retryable or tried > self._retries or late:
                    more = f"; tried {tried} times" if tried > 1 else ""
                    detail = self._clean(failure.detail + more)
                    raise replace(failure, detail=detail) from None
            time.sleep(wait_s)
        raise AssertionError  # pragma: no cover - the last try returns or raises

    def _once(self, content: bytes, deadline: float) -> bytes:
        """Send once and return the body of a 200; a connection that has grown stale is replaced."""
        connection, is_old = self._connection(deadline)
        try:
            try:
                connection.request("POST", self._target, content, self._headers)
                response = connection.getresponse()
            except ConnectionError:
                if not is_old:
                    raise
                connection.close()  # the server gave it up while it was idle
                connection.request("POST", self._target, content, self._headers)
                response = connection.getresponse()
            text = _whole(response, deadline)
        except TimeoutError:
            connection.close()
            detail = f"{self.address} did not answer within {self._timeout:g} s"
            raise CallFailure(Cause.TIMEOUT, detail) from None
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            words = f"{self.address}: {type(error).__name__}: {error}"
            raise failure_of_connection(words) from None
        return self._checked(connection, response, text)

    def _checked(self, connection: http.client.HTTPConnection, response: Any, text: bytes) -> bytes:
        if len(text) > _LARGEST_REPLY or response.will_close:
            connection.close()
        else:
            with self._lock:
                self._idle.append(connection)
        if len(text) > _LARGEST_REPLY:
            raise CallFailure(Cause.MALFORMED, f"{self.address}: the reply is larger than 64 MiB")
        if 200 <= response.status < 300:
            return text
        headers = {name.lower(): value for name, value in response.getheaders()}
        # before it is cut: a part of a secret would be left
        said = self._clean(text.decode("utf-8", "replace") or response.reason)
        if 300 <= response.status < 400:
            said = "it redirects, which is not followed: give the URL that answers"
        raise failure_of_status(response.status, f"{self.address}: {said}", headers=headers)

    def _connection(self, deadline: float) -> tuple[http.client.HTTPConnection, bool]:
        left_s = max(0.001, deadline - time.monotonic())
        with self._lock:
            if self._idle:
                connection = self._idle.pop()
                if connection.sock is not None:
                    connection.sock.settimeout(left_s)
                return connection, True
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        return kind(self._host, self._port, timeout=left_s), False

    def _read(self, text: bytes) -> Any:
        try:
            return load_json(text, most=MOST_NODES)
        except ValueError:
            start = shortened(self._clean(text[:4096].decode("utf-8", "replace"))[:200])
            found = f"the reply is no JSON: {start!r}" if text.strip() else "the reply is empty"
            raise CallFailure(Cause.MALFORMED, f"{self.address}: {found}") from None


def _is_host(name: str) -> bool:
    """Return True if a host name can be looked up; the resolver fails on others in many ways."""
    try:
        return bool(name) and not _UNSENT.search(name.encode("idna").decode())
    except UnicodeError:  # a part that is empty or too long
        return False


def _whole(response: http.client.HTTPResponse, deadline: float) -> bytes:
    """Return the body; one that broke off may still look like a reply, and reading does not tell.

    The deadline is checked between pieces: to a server that sends a byte a second, no read of the
    socket takes too long.
    """
    pieces, size = [], 0
    # not `read(n)`: of a chunk of -1 bytes it reads all that ever comes, whatever n
    while size <= _LARGEST_REPLY:
        piece = response.read1(_PIECE)
        if time.monotonic() > deadline:
            raise TimeoutError
        if not piece:
            break
        pieces.append(piece)
        size += len(piece)
    text = b"".join(pieces)
    if size > _LARGEST_REPLY:
        return text
    if response.length:
        raise http.client.IncompleteRead(text, response.length)
    response.close()  # before the connection can be asked again
    return text


def _close(connections: list[http.client.HTTPConnection]) -> None:
    for connection in connections:
        connection.close()


def _secrets_of(headers: Mapping[str, str], url: str) -> dict[str, str]:
    """Return the secrets of a request by place: header values, and the URL if its query has any."""
    found = {f"headers.{name}": value for name, value in headers.items() if not is_harmless(name)}
    return {**found, "url": url} if secret_parts(url) else found
