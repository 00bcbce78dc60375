"""Words of the body of an error, whatever its form: object, list, text, HTML or XML."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ragbench.json_yaml import load_json

_MOST_CHARACTERS = 2**16  # of a body; the words that matter come first
_MOST_NODES = 10_000
_PAGE = re.compile(r"\s*(?:<!doctype html|<html|<head|<body)", re.IGNORECASE)
_MARKUP = re.compile(r"\s*<[!?a-z]", re.IGNORECASE)
_TAG = re.compile(r"(<[^<>]*>)")
_UNSEEN = re.compile(r"<(/?)(script|style)\b", re.IGNORECASE)
# Keys of messages, read before other keys, so that a cut leaves them.
_MESSAGES = ("message", "msg", "detail", "details", "error", "errors", "description", "title")
# Keys that say nothing beside their value; others, such as the name of a parameter, do.
_PLAIN = frozenset(
    {*_MESSAGES, "type", "code", "status", "object", "param", "loc", "reason", "raw", "field"}
    | {"error_type", "error_code", "errormessage", "error_message", "errorcode", "statustext"}
    | {"request_id", "requestid", "provider_name", "metadata", "url", "documentation_url"}
)


def error_words(body: object) -> str:
    """Return all texts of a body on one line, messages first; empty for a body without a text.

    Texts of JSON stand beside their keys where the keys say more than `message`. Markup loses its
    tags, scripts and styles. Equal texts stand once.

    Args:
        body: Body as text, or the JSON value of a client that has parsed it.

    Example:
        >>> error_words('[{"error": {"code": 400, "message": "no logprobs", "status": "INVALID"}}]')
        'no logprobs; INVALID'
        >>> error_words({"errors": {"logprobs": ["not supported"]}})
        'logprobs: not supported'
        >>> error_words("<html><title>403 Forbidden</title><p>Ask the proxy &amp; wait</p></html>")
        '403 Forbidden Ask the proxy & wait'
    """
    words: dict[str, None] = {}
    for text in _texts(parse_error(body)):
        line = " ".join(text.split())
        if line:
            words[line] = None
    return "; ".join(words)


def parse_error(body: object) -> Any:
    """Return the JSON object or list of a body; a body of another form as it is."""
    if not isinstance(body, str) or not body.lstrip().startswith(("{", "[", '"')):
        return body
    try:
        return load_json(body, most=_MOST_NODES)
    except ValueError:  # cut off, or no JSON
        return body


def find_field(body: object, name: str) -> str:
    """Return the first text or number under a key of a parsed body, searched in depth; else empty.

    Args:
        body: JSON value of the body.
        name: Key.
    """
    if isinstance(body, Mapping):
        value = body.get(name)
        if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "":
            return str(value)
    for part in _parts(body):
        if value := find_field(part, name):
            return value
    return ""


def is_web_page(body: str) -> bool:
    """Return True for a page of HTML, such as a login page or the error page of a proxy."""
    return _PAGE.match(body) is not None


def _parts(value: object) -> Iterable[Any]:
    """Return the values of a mapping, the entries of a list, or nothing."""
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def _texts(value: object, key: str = "") -> Iterator[str]:
    """Yield the texts of a body in order, messages first."""
    if isinstance(value, str):
        parsed = parse_error(value)
        if isinstance(parsed, (Mapping, list)):  # a body that another server has passed on
            yield from _texts(parsed, key)
        else:
            text = _without_markup(value[:_MOST_CHARACTERS])
            yield f"{key}: {text}" if key and text else text
    elif isinstance(value, Mapping):
        for name in sorted(value, key=_rank):
            is_plain = str(name).lower() in _PLAIN
            yield from _texts(value[name], "" if is_plain else str(name))
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part, key)


def _rank(key: object) -> int:
    """Return the position of a key: messages first, other keys stay in their order."""
    name = str(key).lower()
    return _MESSAGES.index(name) if name in _MESSAGES else len(_MESSAGES)


def _without_markup(text: str) -> str:
    """Return the visible text of HTML or XML; another text as it is."""
    if not _MARKUP.match(text):
        return text
    pieces, hidden = [], ""
    # Not html.parser, which takes quadratic time for tags that are never closed.
    for position, piece in enumerate(_TAG.split(text)):
        if position % 2 == 0:
            pieces.append("" if hidden else piece)
        elif match := _UNSEEN.match(piece):
            hidden = "" if match[1] else match[2].lower()
    # A text that only looks like markup keeps its words.
    return html.unescape(" ".join(pieces)) if any(map(str.strip, pieces)) else text
