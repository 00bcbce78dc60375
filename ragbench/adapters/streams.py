"""Events of a streamed reply: server-sent events, JSON lines, or plain text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

from ragbench.errors import AdapterError
from ragbench.json_yaml import MOST_NODES, load_json

Stream = Literal["sse", "ndjson", "text"]
# Form of a stream -> media type that a client accepts.
MEDIA_TYPES = {"sse": "text/event-stream", "ndjson": "application/x-ndjson", "text": "text/plain"}
_LINE_END = re.compile("\r\n|\n|\r")  # JSON may hold the other line ends of Unicode
_END = "[DONE]"  # last event of OpenAI and its copies


def read_events(body: bytes, stream: Stream) -> list[str]:
    r"""Return the data of each event of a whole reply; plain text is one event.

    Empty events and the mark `[DONE]` are left out.

    Raises:
        AdapterError: The body is not UTF-8, or an event of the type `error` has come.

    Example:
        >>> read_events(b"data: one\n\n: comment\ndata: t\ndata: wo\n\n", "sse")
        ['one', 't\nwo']

    References:
        WHATWG, HTML Living Standard, section 9.2 (server-sent events).
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise AdapterError(f"the stream is not UTF-8: byte {error.start}") from error
    if stream == "text":
        return [text]
    lines = _LINE_END.split(text)
    events = _data_of_events(lines) if stream == "sse" else iter(lines)
    return [event for event in events if event.strip() not in ("", _END)]


def _data_of_events(lines: list[str]) -> Iterator[str]:
    """Yield the data of each server-sent event; raise AdapterError for one of the type `error`."""
    kind, data = "", list[str]()
    # the end of the reply ends the last event too: many servers send no last blank line
    for line in [*lines, ""]:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            kind = value
        elif not line:
            joined = "\n".join(data)
            if kind == "error":
                raise AdapterError(f"the stream has an event 'error': {joined[:200]!r}")
            if data:
                yield joined
            kind, data = "", []


def value_of_event(event: str) -> Any:
    """Return the JSON value of an event, or its text if it is no JSON."""
    try:
        return load_json(event.encode(), most=MOST_NODES)
    except ValueError:
        return event
