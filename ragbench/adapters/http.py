"""JSON over HTTP with the standard library: requests with a time limit and retries."""

from __future__ import annotations

import base64
import contextlib
import http.client
import io
import json
import re
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from ragbench.errors import OptionError, Phrase
from ragbench.json_yaml import MOST_NODES, load_json
from ragbench.llm.base import CallFailure
from ragbench.llm.environment import BUNDLE, is_loopback, tls_context
from ragbench.llm.error_words import error_words
from ragbench.llm.failures import Access, failure_of_connection, failure_of_status, one_line
from ragbench.llm.limits import Backoff
from ragbench.llm.threads import renew_after_fork
from ragbench.registry import Option, OptionSet
from ragbench.secrets import Redactor, is_harmless, secret_parts
from ragbench.types import Cause

_MAX_REPLY = 64 * 2**20  # bytes; no answer to one question is longer
_PIECE = 1 << 16

# Status of a server that refuses access -> cure
_CURES = {
    401: "the key may be missing, expired, or that of another server",
    402: "the account of the key has to be paid for",
    403: "the key may not have access to this address",
    404: "`url` may be wrong: the server has nothing at this address",
}

_UNSENT = re.compile("[\x00-\x20\x7f-\U0010ffff]")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile("[\t\x20-\x7e\xa0-\xff]*")

Url = Annotated[str, Option("Where to POST.")]


class RequestOptions(OptionSet):
    """Time limit, number of retries and connections of requests.

    Only a config checks the values. `connect` returns the client of a URL.
    """

    timeout: Annotated[
        float, Option("Time limit of one reply, in seconds, retries included.", gt=0)
    ] = 60.0
    retries: Annotated[int, Option("Retries of errors that may be temporary.", ge=0)] = 2
    keep_alive: Annotated[
        bool, Option("Use a connection for several requests; false opens one for each request.")
    ] = True

    def connect(
        self, url: str, headers: Mapping[str, str] | None, accept: str = "application/json"
    ) -> Endpoint:
        """Return the client of a URL with headers; None sends none besides those for JSON.

        Nothing is sent. Errors are those of `Endpoint`.
        """
        return Endpoint(
            "http",
            url,
            headers,
            timeout=self.timeout,
            retries=self.retries,
            keep_alive=self.keep_alive,
            accept=accept,
            access=Access(),
        )


class EndpointOptions(RequestOptions):
    """Headers, limits and retries of requests to a URL of the user.

    `endpoint` returns the client, and raises OptionError for an invalid URL, header or proxy.

    Attributes:
        url: URL that requests are posted to.
    """

    headers: Annotated[
        dict[str, str] | None,
        Option('Headers; `"Bearer ${TOKEN}"` reads the environment.', secret=True),
    ] = None
    url: Url

    def endpoint(self) -> Endpoint:
        """Return the client of the URL; errors are those of `Endpoint`."""
        return self.connect(self.url, self.headers)


class Endpoint:
    """Client of one URL that accepts and returns JSON.

    Connections stay open between requests. A connection that holds bytes behind a reply is closed,
    since they would be read as the reply to the next request. The proxies of the environment apply
    (`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`). Broken connections, the statuses 408,
    409, 425 and 429, and 5xx other than 501 are tried again, after the time that the server asks
    for, and not if that is beyond the time limit. With `access`, a server that refuses the key or
    the address before any reply gets one request. Timeouts are not tried again. Redirects are
    not followed, since they would carry the headers to another server. No message holds the value
    of a header or the query of the URL. `post` returns the JSON reply, and raises CallFailure after
    the last try.

    Args:
        owner: Component with the options, for messages.
        url: URL with http or https.
        headers: Headers of each request.
        timeout: Time limit of a reply, in seconds, with all tries and waits. It is checked between
            pieces of the body only, so headers that arrive byte by byte can exceed it.
        retries: Number of further tries.
        keep_alive: False to open a connection for each request.
        accept: Media type that the reply should have.
        access: Rule that ends the requests to a server that refuses access; while it has served
            none, only the first request is tried again. None sends each request.

    Attributes:
        address: URL without its query, as messages name it.

    Raises:
        OptionError: The URL, a header or the proxy of the environment is invalid, or the URL holds
            credentials.
    """

    def __init__(
        self,
        owner: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        timeout: float = 60.0,
        retries: int = 2,
        keep_alive: bool = True,
        accept: str = "application/json",
        access: Access | None = None,
    ) -> None:
        parts = _checked_url(owner, url)
        secrets = {"url": url} if secret_parts(url) else {}
        for name, value in (headers or {}).items():
            if not (_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value)):
                problem = Phrase("a name or a value that no header can have")
                allowed = "a name of ASCII letters and '-'; a value of Latin-1 on one line"
                raise OptionError(owner, f"headers.{name}", problem, allowed)
            if not is_harmless(name):
                secrets[f"headers.{name}"] = value
        self._secure, self._host = parts.scheme == "https", parts.hostname or ""
        self._port, query = parts.port, f"?{parts.query}" if parts.query else ""
        self._target = f"{parts.path or '/'}{query}"
        self.address = f"{parts.scheme}://{parts.netloc}{parts.path}"
        self._headers = {"Content-Type": "application/json", "Accept": accept}
        self._keep_alive = keep_alive
        self._headers |= headers or {}
        if self._secure:
            _check_certificates(owner)
        self._proxy, self._proxy_headers = _proxy_of(owner, parts)
        if self._proxy is not None and not self._secure:
            self._target = f"http://{parts.netloc}{self._target}"  # the proxy needs it whole
            self._headers |= self._proxy_headers
        self._clean = Redactor(secrets | self._proxy_headers)
        self._timeout, self._retries, self._backoff = timeout, retries, Backoff(seed=0)
        self._access, self._is_unreachable = access, False
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Start again, in a forked process, without idle connections."""
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        weakref.finalize(self, _close, self._idle)

    def post(self, body: Any) -> Any:
        """Return the JSON reply to a JSON body that is sent by POST.

        Errors are those of `send`.
        """
        return self.send("POST", body)

    def send(self, method: str, body: Any = None) -> Any:
        """Return the JSON reply to a request; see `send_raw` for the arguments and errors.

        A reply that is no JSON is a CallFailure too (`malformed`), and is not tried again.
        """
        return self._read(self.send_raw(method, body))

    def send_raw(self, method: str, body: Any = None) -> bytes:
        """Return the body of the reply to a request, as it came.

        The body is sent as UTF-8; half surrogate pairs become `?`.

        Args:
            method: HTTP method, such as POST; GET is sent without the body.
            body: JSON value.

        Raises:
            CallFailure: The last try failed or timed out, or the reply is larger than 64 MiB.
        """
        if self._access is not None and self._access.refusal is not None:
            raise self._access.refusal
        text = "" if method == "GET" else json.dumps(body, ensure_ascii=False)
        content = text.encode("utf-8", "replace")
        deadline = time.monotonic() + self._timeout
        retries = 0 if self._is_unreachable else self._retries
        for tried in range(1, retries + 2):
            try:
                reply = self._once(method, content, deadline)
            except CallFailure as failure:
                wait_s = self._backoff.seconds(failure, tried) if failure.retryable else 0.0
                late = time.monotonic() + wait_s >= deadline
                if not failure.retryable or tried > retries or late:
                    raise self._final(failure, tried) from None
            else:
                self._is_unreachable = False
                if self._access is not None:
                    self._access.replied()
                return reply
            time.sleep(wait_s)
        raise AssertionError  # pragma: no cover - the last try returns or raises

    def _final(self, failure: CallFailure, tried: int) -> CallFailure:
        """Return the failure of a request that is not tried again, without secrets."""
        more = f"; tried {tried} times" if tried > 1 else ""
        failure = replace(failure, detail=self._clean(failure.detail + more))
        if self._access is None:
            return failure
        self._is_unreachable = failure.unreachable and not self._access.has_replied
        cure = _CURES.get(failure.status or 0, "")
        if failure.fatal and cure and not self._access.has_replied:
            failure = replace(failure, detail=f"{failure.detail}; {cure}")
        return self._access.refused(failure)

    def _once(self, method: str, content: bytes, deadline: float) -> bytes:
        """Send a request once and return the body; reconnect if an idle connection was closed."""
        connection, is_old = self._connection(deadline)
        try:
            try:
                connection.request(method, self._target, content, self._headers)
                response = connection.getresponse()
            except ConnectionError:
                if not is_old:
                    raise
                connection.close()  # the server closed it while it was idle
                connection.request(method, self._target, content, self._headers)
                response = connection.getresponse()
            text = _read_body(response, deadline)
        except TimeoutError:
            connection.close()
            detail = f"{self.address} did not answer within {self._timeout:g} s"
            raise CallFailure(Cause.TIMEOUT, detail) from None
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            words = f"{self.address}: {type(error).__name__}: {error}"
            raise failure_of_connection(words, error) from None
        return self._checked(connection, response, text)

    def _checked(self, connection: http.client.HTTPConnection, response: Any, text: bytes) -> bytes:
        """Return the body of a successful response; raise a CallFailure for any other."""
        is_clean = len(text) <= _MAX_REPLY and not response.reader.has_surplus
        if self._keep_alive and is_clean and not response.will_close:
            with self._lock:
                self._idle.append(connection)
        else:
            connection.close()
        if len(text) > _MAX_REPLY:
            raise CallFailure(Cause.MALFORMED, f"{self.address}: the reply is larger than 64 MiB")
        if 200 <= response.status < 300:
            return text
        headers = {}
        for name, value in response.getheaders():
            headers[name.lower()] = value
        # Masked before it is shortened, since a cut secret would no longer be recognised.
        message = self._clean(error_words(text.decode("utf-8", "replace")) or response.reason)
        if 300 <= response.status < 400:
            message = "it redirects, which is not followed: give the URL that answers"
        raise failure_of_status(response.status, f"{self.address}: {message}", headers=headers)

    def _connection(self, deadline: float) -> tuple[http.client.HTTPConnection, bool]:
        """Return a connection with the time limit set, and True if it was open already."""
        remaining_s = max(0.001, deadline - time.monotonic())
        with self._lock:
            while self._idle:
                connection = self._idle.pop(0)  # the longest idle, on which late bytes have come
                if connection.sock is not None and _is_silent(connection.sock):
                    connection.sock.settimeout(remaining_s)
                    return connection, True
                connection.close()
        connection = self._new_connection(remaining_s)
        connection.response_class = _WatchedResponse
        return connection, False

    def _new_connection(self, timeout: float) -> http.client.HTTPConnection:
        """Return a connection that is not opened yet, to the host or to its proxy."""
        host, port = self._host, self._port
        if self._proxy is not None:
            host, port = self._proxy.hostname or "", self._proxy.port or 80
        if not self._secure:
            return http.client.HTTPConnection(host, port, timeout=timeout)
        context = tls_context()
        connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
        if self._proxy is not None:
            connection.set_tunnel(self._host, self._port or 443, self._proxy_headers)
        return connection

    def _read(self, text: bytes) -> Any:
        """Return the JSON value of a body; raise a CallFailure if it is no JSON."""
        try:
            return load_json(text, most=MOST_NODES)
        except ValueError:
            start = one_line(self._clean(text[:4096].decode("utf-8", "replace"))[:200])
            problem = f"the reply is no JSON: {start!r}" if text.strip() else "the reply is empty"
            raise CallFailure(Cause.MALFORMED, f"{self.address}: {problem}") from None


class _WatchedResponse(http.client.HTTPResponse):
    """Response that notices bytes behind its body, by its `reader`."""

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp = self.reader = _Reader(self.fp.detach(), sock)


class _Reader(io.BufferedReader):
    """Buffer of one response, closed at the end of the body; `has_surplus` if bytes followed."""

    has_surplus = False

    def __init__(self, raw: io.RawIOBase, sock: socket.socket) -> None:
        super().__init__(raw)
        self._socket = sock

    def close(self) -> None:
        """Close the buffer, after a look for bytes behind the body, which would be lost in it."""
        # TLS without a further byte, and a closed socket, raise an error.
        with contextlib.suppress(OSError, ValueError):
            timeout_s = self._socket.gettimeout()
            self._socket.settimeout(0)
            try:
                self.has_surplus = bool(self.peek(1))
            finally:  # a tunnel goes on after the reply of the proxy
                self._socket.settimeout(timeout_s)
        super().close()


def _is_silent(sock: socket.socket) -> bool:
    """Return True for an open connection on which no byte waits, in TLS or in the socket."""
    try:
        sock.settimeout(0)
        sock.recv(1)
    except (BlockingIOError, ssl.SSLWantReadError):
        return True
    except OSError:
        pass
    return False


def _check_certificates(owner: str) -> None:
    """Raise an OptionError if the environment names certificates that cannot be read."""
    try:
        tls_context()
    except OSError as error:
        allowed = f"{BUNDLE}, SSL_CERT_FILE: files that exist"
        raise OptionError(owner, "environment", Phrase(str(error)), allowed) from None


def _proxy_of(owner: str, url: SplitResult) -> tuple[SplitResult | None, dict[str, str]]:
    """Return the proxy of the environment for a URL, and the headers with its login."""
    proxies = getproxies_environment()
    variable = url.scheme if proxies.get(url.scheme) else "all"
    text = proxies.get(variable)
    if not text or proxy_bypass(url.netloc) or is_loopback(url.hostname):
        return None, {}
    with contextlib.suppress(ValueError):  # an invalid port, or an unclosed bracket
        proxy = urlsplit(text if "://" in text else f"http://{text}")
        if proxy.scheme == "http" and proxy.hostname and proxy.port != 0:
            login = f"{unquote(proxy.username or '')}:{unquote(proxy.password or '')}"
            value = f"Basic {base64.b64encode(login.encode()).decode()}"
            return proxy, {} if proxy.username is None else {"Proxy-Authorization": value}
    address, allowed = text.rpartition("@")[2], "a proxy such as http://host:3128"
    raise OptionError(owner, f"{variable.upper()}_PROXY", address, allowed)


def _checked_url(owner: str, url: str) -> SplitResult:
    """Return the parts of a URL; raise an OptionError for one that no request can be sent to."""
    allowed = "http://host/path or https://host/path"
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises the ValueError of an invalid port
    except ValueError:  # an unclosed bracket in the host, or an invalid port
        raise OptionError(owner, "url", url.partition(":")[0] + "://...", allowed) from None
    host = parts.hostname or ""
    is_http = parts.scheme in ("http", "https") and _is_host(host)
    is_sent = not _UNSENT.search(parts.path + parts.query)
    if not (is_http and is_sent) or "@" in parts.netloc:
        bare = f"{parts.scheme}://{host}{parts.path.rpartition('@')[2]}"
        more = "" if is_sent else ", in ASCII; %20 for a blank, and so on"
        raise OptionError(owner, "url", bare, allowed + more)
    return parts


def _is_host(name: str) -> bool:
    """Return True for a well-formed host name or IP address, without a lookup; False for ''."""
    # The resolver raises various errors for other names.
    try:
        return bool(name) and not _UNSENT.search(name.encode("idna").decode())
    except UnicodeError:  # a label that is empty or too long
        return False


def _read_body(response: http.client.HTTPResponse, deadline: float) -> bytes:
    """Return the body of a response; it is longer than the limit if the body is too large."""
    # The deadline is checked between pieces, since a server that sends a byte a second never
    # exceeds the time limit of a single read.
    pieces, size = [], 0
    # Not `read(n)`: for a chunk with the invalid size -1 it reads without limit.
    while size <= _MAX_REPLY:
        piece = response.read1(_PIECE)
        if time.monotonic() > deadline:
            raise TimeoutError
        if not piece:
            break
        pieces.append(piece)
        size += len(piece)
    text = b"".join(pieces)
    if size > _MAX_REPLY:
        return text
    # http.client does not raise for a body that broke off.
    if response.length:
        raise http.client.IncompleteRead(text, response.length)
    response.close()  # else the connection cannot be used again
    return text


def _close(connections: list[http.client.HTTPConnection]) -> None:
    for connection in connections:
        connection.close()
