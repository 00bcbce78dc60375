"""The cells of a record: texts, lists, and passages with or without ids."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Sequence
from typing import Any

from ragbench.data.files.collection import encode_spaces
from ragbench.data.files.rows import Entry, parse_json
from ragbench.records.codec import kind
from ragbench.signature import fingerprint
from ragbench.types import Document

_FIELDS = frozenset({"id", "text", "title", "metadata"})
_TEXT_KEYS = ("text", "page_content", "content")
"""Where an object has its text: our name, LangChain's, and that of OpenInference's documents."""


def content_id(text: str) -> str:
    """Return the id of a question or passage that has none: a hash of its text."""
    return fingerprint([text])


def read_text(entry: Entry, column: str, value: Any) -> str | None:
    """Return a text, an integer as its digits, or None for null."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if value is None or isinstance(value, str):
        return value
    raise entry.error(f"column '{column}' is {kind(value)}", allowed="text")


def read_list(entry: Entry, column: str, *, cells: bool) -> list[Any] | None:
    """Return the items of a column: those of a list, or a single value as one item.

    With `cells` the file holds text only, as CSV does: a list is written as JSON, or as Python and
    NumPy print it, and an empty cell is nothing.
    """
    value = entry.values.get(column)
    if cells and isinstance(value, str):
        if not value.strip():
            return None
        if value.lstrip().startswith("["):
            value = _parse_cell(entry, column, value)
    if value is None:
        return None
    return value if isinstance(value, list) else [value]


def _parse_cell(entry: Entry, column: str, cell: str) -> Any:
    try:
        return parse_json(cell)
    except ValueError as error:
        if (found := read_printed_list(cell)) is not None:
            return found
        allowed = 'a list in a CSV cell is JSON: ["first", "second"]'
        raise entry.error(f"column '{column}': {error}", allowed=allowed) from error


def read_printed_list(cell: str) -> list[Any] | None:
    """Read a list as Python or NumPy prints it, as tables that pandas wrote hold it; else None.

    Example:
        >>> read_printed_list("['a', 'b']"), read_printed_list("['a' 'b']"), read_printed_list("[a")
        (['a', 'b'], ['a', 'b'], None)
    """
    try:
        found = ast.literal_eval(cell.strip())
        tokens = list(tokenize.generate_tokens(io.StringIO(cell.strip()).readline))
    except (ValueError, SyntaxError, MemoryError, RecursionError, tokenize.TokenError):
        return None
    if not isinstance(found, list):
        return None
    # NumPy writes no commas, and Python would join such texts to one
    texts = [token.string for token in tokens if token.type == tokenize.STRING]
    if all(isinstance(item, str) for item in found) and len(texts) != len(found):
        return [ast.literal_eval(text) for text in texts]
    return found


def read_texts(entry: Entry, column: str, *, cells: bool) -> list[str] | None:
    """Return the texts of a column; an item may be an object with `text`, as in SQuAD."""
    items = read_list(entry, column, cells=cells)
    if items is None:
        return None
    texts = []
    if len(items) == 1 and isinstance(items[0], dict) and isinstance(items[0].get("text"), list):
        items = items[0]["text"]  # as SQuAD has it: {"text": [...], "answer_start": [...]}
    for position, item in enumerate(items, start=1):
        value = item.get("text") if isinstance(item, dict) else item
        # in a CSV cell, [0, 1] is more likely an interval than two answers
        known = isinstance(value, str) if cells else value is not None
        text = read_text(entry, column, value) if known else None
        if text is None:
            found = f"column '{column}': item {position} is {kind(item)}"
            raise entry.error(found, allowed="text, or an object with text")
        texts.append(text)
    return texts


class Passages:
    """Reads passages, and knows the corpus that they may come from."""

    def __init__(self, documents: Sequence[Document] = ()) -> None:
        self._by_id = {document.id: document for document in documents}
        self._by_text: dict[str, Document] = {}
        for document in documents:
            for text in (document.text, document.full_text):
                self._by_text.setdefault(text, document)

    def read(self, entry: Entry, column: str, *, cells: bool) -> list[Document] | None:
        """Return the passages of a record, best first; None where it has none."""
        items = read_list(entry, column, cells=cells)
        if items is None:
            return None
        return [
            self._passage(entry, f"column '{column}': passage {position}", item)
            for position, item in enumerate(items, start=1)
        ]

    def _passage(self, entry: Entry, place: str, item: Any) -> Document:
        """One passage: its own text, or that of the corpus document which its id names."""
        if isinstance(item, str):
            return self._by_text.get(item) or Document(content_id(item), item)
        if not isinstance(item, dict):
            allowed = "text, or an object with id and text"
            raise entry.error(f"{place} is {kind(item)}", allowed=allowed)
        key_of_text = next((key for key in _TEXT_KEYS if item.get(key) is not None), "text")
        text, title, name = item.get(key_of_text), item.get("title"), item.get("id")
        for key, value in ((key_of_text, text), ("title", title)):
            if value is not None and not isinstance(value, str):
                raise entry.error(f"{place}: '{key}' is {kind(value)}", allowed="text")
        if isinstance(name, int) and not isinstance(name, bool):
            name = str(name)
        if name is not None and (not isinstance(name, str) or not name.strip()):
            raise entry.error(f"{place}: 'id' is {name!r}", allowed="text or an integer")
        name = None if name is None else encode_spaces(name)
        if text is None:
            if name in self._by_id:
                return self._by_id[name]
            raise entry.error(f"{place} has no text", allowed="text, or the id of a document")
        if name is None:
            name = self._by_text[text].id if text in self._by_text else content_id(text)
        return Document(name, text, title or "", _metadata(item, key_of_text))


def _metadata(item: dict[str, Any], key_of_text: str) -> dict[str, Any]:
    extra = {key: value for key, value in item.items() if key not in {*_FIELDS, key_of_text}}
    metadata = item.get("metadata")
    return {**extra, **(metadata if isinstance(metadata, dict) else {})}
