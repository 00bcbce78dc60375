"""`metadata.<key>`: what a config calls the metadata of a passage or a query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

PREFIX = "metadata."


def look_up(metadata: Mapping[str, Any], path: str) -> Any:
    """Return the value of `metadata.<key>`, or None where there is none.

    Dots lead into nested metadata; a key that holds the dots itself comes first.

    Example:
        >>> look_up({"source": {"doc": 7}}, "metadata.source.doc")
        7
    """
    return _follow(metadata, path.removeprefix(PREFIX))


def keys_of(many: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the keys that occur, as a config writes them, each once.

    Example:
        >>> keys_of([{"topic": "law"}, {"topic": "tax", "year": 1999}])
        ['metadata.topic', 'metadata.year']
    """
    return list(dict.fromkeys(f"{PREFIX}{key}" for metadata in many for key in metadata))


def _follow(metadata: Mapping[str, Any], path: str) -> Any:
    if path in metadata:
        return metadata[path]
    key, dot, rest = path.partition(".")
    inner = metadata.get(key)
    return _follow(inner, rest) if dot and isinstance(inner, Mapping) else None
