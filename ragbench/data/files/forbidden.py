"""Column `forbidden` of a table: what must never come up for a question."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from ragbench.data.files.gold import GoldIds
from ragbench.data.files.gold_spans import SpanReader
from ragbench.data.files.printed_lists import SEPARATORS, is_printed, pieces_of, read_ids
from ragbench.data.files.rows import Entry
from ragbench.errors import DataError
from ragbench.registry import nearest, quote
from ragbench.types import Document, Span
from ragbench.types.forbidden import Forbidden

# A field of the metadata; the start of an address or a path with a `=` is none.
_FIELD = re.compile(r"[^\W\d][\w.-]*")
# A second field behind a comma or a blank would be a part of the value.
_SECOND_FIELD = re.compile(r"[,\s][^\W\d][\w.-]*\s*=")
_FORMS = (
    "ids, field=value, {document, start, end} or {document, quote}; several in a list, or between ;"
)


class ForbiddenReader:
    """Reader of the column `forbidden`, which refuses what it does not understand.

    `read(row, column)` returns the documents, metadata and spans of a cell.
    """

    def __init__(
        self, ids: GoldIds, spans: SpanReader, documents: Sequence[Document] | None
    ) -> None:
        self._ids, self._spans, self._documents = ids, spans, documents

    def read(self, entry: Entry, column: str) -> Forbidden:
        """Return the documents, metadata and spans of a cell; nothing for an empty cell.

        Raises:
            DataError: An item has another form, a document lacks its span, or no document of the
                corpus has a field.
        """
        ids, fields, spans = [], set[tuple[str, str]](), []
        for item in self._items(entry, column):
            pair = self._field(entry, column, item) if isinstance(item, str) else None
            if isinstance(item, Mapping):
                spans.append(self._span(entry, column, item))
            elif pair is not None:
                fields.add(pair)
            elif isinstance(item, (list, tuple, set, frozenset, bool)) or item is None:
                raise self._error(entry, column, quote(item))
            else:
                ids.append(item)
        # a text alone, so that blanks and commas in it are read as in `relevant`
        cell = ids[0] if len(ids) == 1 else ids
        names = self._ids.read(_with_cell(entry, column, cell), column) if ids else []
        documents = frozenset(name for name, _ in names)
        return Forbidden(documents, frozenset(fields), tuple(spans))

    def _items(self, entry: Entry, column: str) -> Iterable[Any]:
        """Return the items of a cell: a list, the parts of a text, or one value."""
        value = entry.values.get(column)
        if value is None or value != value:  # an empty cell is NaN in tables that pandas wrote
            return []
        if isinstance(value, str):
            text = value.strip()
            if not text or self._is_document(text):
                return [text] if text else []
            if not is_printed(text):
                return pieces_of(text, SEPARATORS)
            try:
                value = read_ids(text)
            except ValueError as error:
                raise self._error(entry, column, str(error)) from error
        if isinstance(value, (set, frozenset)):
            return sorted(value, key=str)
        return value if isinstance(value, (list, tuple)) else [value]

    def _field(self, entry: Entry, column: str, item: str) -> tuple[str, str] | None:
        """Return the field and the value of an item `field=value`; None for an id."""
        field, sign, value = map(str.strip, item.partition("="))
        if not (sign and _FIELD.fullmatch(field)) or self._is_document(item.strip()):
            return None
        if not value or _SECOND_FIELD.search(value):
            raise self._error(entry, column, quote(item))
        if self._documents is not None and field not in self._fields:
            problem = f"column '{column}': no document has metadata '{field}'"
            allowed = ", ".join(self._fields) or "ids of documents: the corpus has no metadata"
            raise entry.error(problem, allowed=allowed[:100], near=nearest(field, self._fields))
        return field, value

    @cached_property
    def _fields(self) -> list[str]:
        """Fields of the metadata of all documents."""
        fields = dict[str, None]()
        for document in self._documents or ():
            fields |= dict.fromkeys(document.metadata)
        return [*fields]

    def _span(self, entry: Entry, column: str, item: Mapping[str, Any]) -> Span:
        """Return the span of an object; a document that lacks it is an error."""
        if "document" not in item:
            raise self._error(entry, column, quote(item))
        [(document, span)] = self._spans.read(_with_cell(entry, column, [dict(item)]), column)
        if span is None:
            problem = f"column '{column}': {quote(dict(item))}: '{document}' has no such text"
            raise entry.error(problem, allowed="a span of a document of the corpus")
        return span

    def _is_document(self, text: str) -> bool:
        return self._ids.names is not None and text in self._ids.names

    def _error(self, entry: Entry, column: str, problem: str) -> DataError:
        """Return the error on a cell of another form."""
        return entry.error(f"column '{column}': {problem}", allowed=_FORMS)


def _with_cell(entry: Entry, column: str, value: Any) -> Entry:
    """Return a row with another value of a column."""
    return replace(entry, values={**entry.values, column: value})
