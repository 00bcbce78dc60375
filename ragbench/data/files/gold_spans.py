"""Gold spans of a question: the column `reference_spans`, and the places of quoted passages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ragbench.data.files.fields import parse_cell
from ragbench.data.files.gold import GoldIds, without_hop_mark
from ragbench.data.files.rows import Entry
from ragbench.registry import shown
from ragbench.types import Document, Span
from ragbench.types.packed_documents import documents_by_id
from ragbench.types.spans import locate_quote

_FORMS = (
    "a list of {document, start, end} or {document, quote}; positions are characters in the text "
    "of the document, the end is exclusive"
)


class SpanReader:
    """Reader of gold spans; each span of a corpus has the text of its document as `quote`."""

    def __init__(self, documents: Sequence[Document] | None, ids: GoldIds) -> None:
        """Index `documents` by id; without a corpus (None) spans are taken as they are written.

        `ids` reads the names of their documents.
        """
        self._documents = None if documents is None else documents_by_id(documents)
        self._ids = ids

    def read(self, entry: Entry, column: str) -> Iterator[tuple[str, Span | None]]:
        """Yield (document id, span) of each item of a column, in order; nothing for an empty cell.

        The span is None if the corpus lacks the document, or the document the positions or the
        quote. A quote beside positions has to stand there.

        Raises:
            DataError: An item has another form, a name fits several documents, or there is a quote
                without positions and no corpus.
        """
        value = entry.values.get(column)
        if isinstance(value, str):
            value = parse_cell(entry, column, value, _FORMS) if value.strip() else None
        if value is None or value != value:  # an empty cell is NaN in tables that pandas wrote
            return
        for item in value if isinstance(value, list) else [value]:
            yield self._read_item(entry, column, item)

    def _read_item(self, entry: Entry, column: str, item: Any) -> tuple[str, Span | None]:
        fields: Mapping[str, Any] = item if isinstance(item, Mapping) else {}
        name, quote = fields.get("document"), fields.get("quote")
        start: Any = fields.get("start")
        end: Any = fields.get("end")
        place, is_number = None, type(start) is type(end) is int  # True is an int, too
        if is_number and 0 <= start < end:
            place = start, end
        has_quote = isinstance(quote, str) and bool(quote.strip())
        has_gold = place is not None or (has_quote and start is end is None)
        if not isinstance(name, str) or not has_gold:
            raise entry.error(f"column '{column}': {shown(item)}", allowed=_FORMS)
        document = self._ids.resolve(entry, column, name)
        if self._documents is not None:
            return document, self._span(document, place, quote if has_quote else None)
        if place is None:
            problem = f"column '{column}': a quote, and there is no corpus to look it up"
            raise entry.error(problem, allowed="{document, start, end}; or `corpus:`")
        return document, Span(document, *place, quote or "")

    def quoted(
        self, quote: str, relevant: Iterable[str], documents: Iterable[str]
    ) -> Sequence[Span | None]:
        """Return the first place of a quote in each relevant document that holds it.

        If none of them does, those in `documents`; [None] if none of these does either. The result
        is in the order of the ids. All ids are of the corpus, or unknown.
        """
        text = without_hop_mark(quote)
        for names in (relevant, documents):
            spans = [span for name in names if (span := self._span(name, None, text))]
            if spans:
                return spans
        return [None]

    def _span(self, name: str, place: tuple[int, int] | None, quote: str | None) -> Span | None:
        """Return the span at a place, or at the first place of a quote; None as for `read`."""
        document = (self._documents or {}).get(name)
        if document is None:
            return None
        if place is None:
            place = locate_quote(quote or "", document.text)
        elif place[1] > len(document.text):
            return None
        if place is None:
            return None
        text = document.text[slice(*place)]
        is_quoted = quote is None or text.split() == quote.split()
        return Span(name, *place, text) if is_quoted else None
