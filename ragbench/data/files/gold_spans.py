"""Gold spans of a question: the column `reference_spans`, and the places of quoted passages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ragbench import registry
from ragbench.data.files.fields import parse_cell
from ragbench.data.files.gold import GoldIds, without_hop_mark
from ragbench.data.files.rows import Entry
from ragbench.types import Document, Span
from ragbench.types.ids import id_text
from ragbench.types.lookups import index_by_id
from ragbench.types.spans import locate_quote

_FORMS = (
    "a list of {document, start, end} or {document, quote}, in characters from start to before end"
)


class WrittenSpan(NamedTuple):
    """Gold span as a file has it, checked by `read_written_spans`.

    Attributes:
        fields: The object, with further keys.
        document: Name of the document.
        place: Start and end (exclusive), in characters of the document's text; None without them.
        quote: Quoted text; None without one, or if it is blank.
    """

    fields: Mapping[str, Any]
    document: str
    place: tuple[int, int] | None
    quote: str | None


def read_written_spans(entry: Entry, column: str) -> Iterator[WrittenSpan]:
    """Yield the items of a column with gold spans, in order; nothing for an empty cell.

    Raises:
        DataError: The cell cannot be parsed, or an item has another form.
    """
    value = entry.values.get(column)
    if isinstance(value, str):
        value = parse_cell(entry, column, value, _FORMS) if value.strip() else None
    if value is None or value != value:  # an empty cell is NaN in tables that pandas wrote
        return
    # a single object is a list of one: tables of one span per row are written so
    for item in value if isinstance(value, (list, tuple)) else [value]:
        fields: Mapping[str, Any] = item if isinstance(item, Mapping) else {}
        quoted = fields.get("quote")
        start: Any = fields.get("start")
        end: Any = fields.get("end")
        # the exact type, as True is an int; an empty span has no character to hold
        is_place = type(start) is type(end) is int and 0 <= start < end
        place = (start, end) if is_place else None
        text = quoted if isinstance(quoted, str) and quoted.strip() else None
        # wrong positions are an error also beside a quote: to ignore them would hide a mistake
        has_gold = place is not None or (text is not None and start is end is None)
        if not has_gold:
            raise entry.error(f"column '{column}': {registry.quote(item)}", allowed=_FORMS)
        try:
            name = id_text(fields.get("document"))
        except ValueError as error:
            raise entry.error(
                f"column '{column}': {registry.quote(item)}", allowed=_FORMS
            ) from error
        yield WrittenSpan(fields, name, place, text)


class SpanReader:
    """Reader of gold spans; each span of a corpus has the text of its document as `quote`.

    It is created with the corpus (None without one) and the reader of ids. `read(row, column)`
    yields (document id, span), and raises DataError for an item of another form; `quoted` returns
    the spans of a quote. None stands for a span or quote that its document, or the corpus, does not
    hold.
    """

    def __init__(self, documents: Sequence[Document] | None, ids: GoldIds) -> None:
        """Index `documents` by id; without a corpus (None) spans are taken as they are written.

        `ids` reads the names of their documents.
        """
        self._documents = None if documents is None else index_by_id(documents)
        self._ids = ids

    def read(self, entry: Entry, column: str) -> Iterator[tuple[str, Span | None]]:
        """Yield (document id, span) of each item of a column, in order; nothing for an empty cell.

        The span is None if the corpus lacks the document, or the document the positions or the
        quote. A quote beside positions has to stand there.

        Raises:
            DataError: An item has another form, a name fits several documents, or a quote comes
                without a corpus.
        """
        for _, name, place, quote in read_written_spans(entry, column):
            document = self._ids.resolve(entry, column, name)
            if self._documents is not None:
                yield document, self._span(document, place, quote)
            elif place is not None:
                yield document, Span(document, *place, quote or "")
            else:
                problem = f"column '{column}': a quote, and there is no corpus to look it up"
                raise entry.error(problem, allowed="{document, start, end}; or `corpus:`")

    def quoted(self, quote: str, documents: Iterable[str]) -> Sequence[Span | None]:
        """Return the first place of a quote in each document that holds it; [None] if none does.

        The result is in the order of the ids. All ids are of the corpus, or unknown.
        """
        # ragas puts the mark of a hop before a quote, which no document has
        text = without_hop_mark(quote)
        return [span for name in documents if (span := self._span(name, None, text))] or [None]

    def _span(self, name: str, place: tuple[int, int] | None, quote: str | None) -> Span | None:
        """Return the span at a place, or at the first place of a quote; None as for `read`."""
        document = (self._documents or {}).get(name)
        if document is None:
            return None
        if place is None:
            place = locate_quote(quote or "", document.text)
        # a slice would shorten such a span without an error, and change recall
        elif place[1] > len(document.text):
            return None
        if place is None:
            return None
        text = document.text[slice(*place)]
        # positions of an earlier version of the document cut other text: the quote reveals it
        is_quoted = quote is None or text.split() == quote.split()
        return Span(name, *place, text) if is_quoted else None
