"""What a caller passes to a judge, as items: texts checked, keys known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ragbench.errors import DataError
from ragbench.registry import nearest, shown
from ragbench.score.judge.base import Item

_ROW_KEYS = (
    "question",
    "answer",
    "contexts",
    "reference",
    "query_id",
    "queries",
    "guidelines",
    "other",
)


def _texts(name: str, value: Any) -> list[str] | None:
    """The texts of contexts or references: texts, {id, text} mappings, or `Document` objects."""
    if value is None:
        return None
    return [_text(name, item) for item in ([value] if isinstance(value, str) else value)]


def _text(name: str, item: Any) -> str:
    found = item.get("text") if isinstance(item, Mapping) else getattr(item, "full_text", item)
    if not isinstance(found, str):
        raise DataError(f"'{name}' holds {shown(item)}", allowed="texts, {id, text}, Document")
    return found


def items_of(rows: Iterable[Mapping[str, Any]]) -> list[Item]:
    """Return the rows as items, all of them checked before the first is judged.

    Raises:
        DataError: A row has another key, or something else than texts.
    """
    return [item_of(**_check_row(number, row)) for number, row in enumerate(rows)]


def item_of(
    *,
    contexts: Any = None,
    reference: Any = None,
    queries: Any = None,
    guidelines: Any = None,
    **texts: Any,
) -> Item:
    """Return an item of the arguments of `Judge.score`.

    Raises:
        DataError: Something else than texts.
    """
    return Item(
        contexts=_texts("contexts", contexts),
        references=_texts("reference", reference) or [],
        queries=_texts("queries", queries),
        guidelines=_texts("guidelines", guidelines) or [],
        **texts,
    )


def _check_row(number: int, row: Mapping[str, Any]) -> dict[str, Any]:
    for key in row:
        if key not in _ROW_KEYS:
            allowed = ", ".join(_ROW_KEYS)
            close = nearest(str(key), _ROW_KEYS)
            raise DataError(f"rows[{number}] has '{key}'", allowed=allowed, nearest=close)
    return dict(row)
