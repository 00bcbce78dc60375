"""Connections of the HTTP client of `openai` that are not used again if bytes follow a reply."""

from __future__ import annotations

import importlib
import json
import select
import ssl
import time
from collections import OrderedDict
from typing import Any

# A reply that a proxy sends twice would be read as the reply to the next request: httpcore keeps
# the bytes behind a reply in its parser, and looks at the socket only when it assigns a request.

_READ_BYTES = 1 << 20  # more than asyncio receives at once, so that its buffer keeps nothing
_MOST_IDS = 10_000  # replies that are remembered


def watch_connections(client: Any) -> bool:
    """Watch the future connections of an asynchronous client of httpx for bytes behind replies.

    Returns:
        True; False if this version of httpx has other connection pools, and nothing is watched.
    """
    # httpx has no parameter for the network backend of its pools, and pools built here would lose
    # its proxies and certificates.
    transports = [getattr(client, "_transport", None), *getattr(client, "_mounts", {}).values()]
    # A mount without a transport uses the first one.
    pools: list[Any] = []
    for transport in transports:
        if transport:
            pools.append(getattr(transport, "_pool", None))
    if not pools or not all(hasattr(pool, "_network_backend") for pool in pools):
        return False
    for pool in pools:
        pool._network_backend = WatchedBackend(pool._network_backend)
    return True


class WatchedBackend:
    """Network backend of httpcore with watched streams; it connects by TCP alone.

    Args:
        backend: Network backend that opens the connections.
    """

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        # Of httpcore or httpcore2; the pool sends the request on another connection then.
        package = importlib.import_module(type(backend).__module__.partition(".")[0])
        self._unavailable = package.ConnectionNotAvailable

    async def connect_tcp(self, *address: Any, **options: Any) -> WatchedStream:
        """Return a watched stream to a host; raise the errors of the backend."""
        stream = await self._backend.connect_tcp(*address, **options)
        return WatchedStream(stream, self._unavailable)

    async def sleep(self, seconds: float) -> None:
        """Wait between two tries to connect."""
        await self._backend.sleep(seconds)


class WatchedStream:
    """Network stream of httpcore on which no request is sent while bytes follow the last reply.

    Replies are parsed a second time, by the parser of httpcore, since only a parser knows the end
    of a reply. `write` raises `unavailable` in place of sending a request that would meet bytes, or
    on a stream that the pool has closed in the meantime.

    Args:
        stream: Network stream.
        unavailable: Exception on which the pool sends the request on another connection.
    """

    def __init__(self, stream: Any, unavailable: type[Exception]) -> None:
        import h11

        self._stream, self._unavailable = stream, unavailable
        self._h11: Any = h11
        self._reply: Any = None  # parser of the latest reply
        self._has_rest = self._is_closed = False
        # Read once: the pool asks every idle connection before each request, and anyio collects all
        # properties of a socket to return one.
        self._tls = stream.get_extra_info("ssl_object")
        self._socket = stream.get_extra_info("socket")
        self._arrivals = select.poll()
        self._arrivals.register(self._socket, select.POLLIN)

    def retire(self) -> None:
        """Send no further request on this stream; a request that was sent gets its reply."""
        self._has_rest = True

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return the next bytes, perhaps more than `max_bytes`; empty at the end.

        `timeout` is in seconds; None waits without limit.
        """
        data: bytes = await self._stream.read(max(max_bytes, _READ_BYTES), timeout)
        if data and self._reply is not None:
            self._parse(self._reply, data)
        return data

    def _parse(self, reply: Any, data: bytes) -> None:
        """Add bytes to the parser of the running reply, and note bytes behind its end."""
        reply.receive_data(data)
        try:
            while reply.next_event() not in (self._h11.NEED_DATA, self._h11.PAUSED):
                pass
        except self._h11.RemoteProtocolError:  # no HTTP, such as the greeting of a SOCKS proxy
            self._has_rest = True
        self._has_rest |= reply.their_state is self._h11.DONE and bool(reply.trailing_data[0])

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send bytes; raise the exception for the pool if a request would meet waiting bytes."""
        if self._reply is None or self._reply.their_state is self._h11.DONE:
            # the pool may close a connection that it has assigned, until the request is sent
            if self._is_closed or (self._reply is not None and self._is_readable()):
                raise self._unavailable
            self._reply = self._h11.Connection(self._h11.CLIENT)
            # Any request: the parser needs one before the reply.
            self._reply.send(self._h11.Request(method="POST", target="/", headers=[("Host", "")]))
            self._reply.send(self._h11.EndOfMessage())
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        """Close the connection."""
        self._is_closed = True
        await self._stream.aclose()

    async def start_tls(self, *arguments: Any, **options: Any) -> WatchedStream:
        """Return the watched stream of TLS over this connection; raise the errors of TLS."""
        stream = await self._stream.start_tls(*arguments, **options)
        return WatchedStream(stream, self._unavailable)

    def get_extra_info(self, info: str) -> Any:
        """Return a property of the stream; the pool closes a connection that `is_readable`."""
        return self._is_readable() if info == "is_readable" else self._stream.get_extra_info(info)

    def _is_readable(self) -> bool:
        """Return True if bytes wait in the parser, in TLS or in the socket, or it is closed."""
        if self._tls is not None and not self._has_rest:
            try:
                self._tls.read(1)
                self._has_rest = True
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError:  # closed by the server
                self._has_rest = True
        # The number of a closed socket may belong to another one.
        return self._has_rest or self._socket.fileno() < 0 or bool(self._arrivals.poll(0))


class ReplyIds:
    """Ids of the latest replies of a server, by which a repeated reply is recognised.

    Some servers give all replies one id, draw it from a few numbers (Ollama) or derive it from the
    time. So a reply is repeated only if its whole body is equal to an earlier one with its id, and
    never once the server has given one id to two bodies. The latest 10,000 ids are remembered.
    """

    def __init__(self) -> None:
        self._replies: OrderedDict[str, tuple[int, int, float]] = OrderedDict()
        self._are_unique = True

    @property
    def has_several_ids(self) -> bool:
        """True if the server has given more than one id, so that an equal id means something."""
        return len(self._replies) > 1

    def is_repeated(self, identifier: object, body: str, request: object, sent_s: float) -> bool:
        """Return True if the reply equals one to another request that came before this was sent.

        The first reply with an id is remembered. Once two different replies have one id, as from a
        server whose ids are not unique, all calls give False. Equal replies to equal requests may
        come from a cache, and those of one moment may share an id that was made of the time.

        Args:
            identifier: Id of the reply; an empty one, and anything but a text, gives False.
            body: Body of the reply.
            request: Body of the request, of JSON values.
            sent_s: Time at which the request was sent, on the monotonic clock, in seconds.
        """
        if not isinstance(identifier, str) or not identifier or not self._are_unique:
            return False
        reply_hash, request_hash = hash(body), hash(json.dumps(request))
        reply = (reply_hash, request_hash, time.monotonic())
        earlier = self._replies.setdefault(identifier, reply)
        if len(self._replies) > _MOST_IDS:
            self._replies.popitem(last=False)
        self._are_unique = earlier[0] == reply_hash
        return self._are_unique and earlier[1] != request_hash and earlier[2] < sent_s
