"""`review.html`: questions with their quotes, which a person keeps, edits or drops with keys."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragbench.data.files.rows import Entry
from ragbench.errors import visible
from ragbench.questions.review import QuotedDocuments
from ragbench.report.page.html import render_page, write_html
from ragbench.signature import fingerprint_json
from ragbench.types import Document

# Characters of a document on each side of a quote: some two passages of 200 words.
_AROUND = 1_200


def write_review_page(path: Path, entries: Sequence[Entry], documents: Sequence[Document]) -> None:
    """Write the page on which a person reviews questions; it makes no request.

    The page shows each question with its quote in its gold document, stores decisions in the
    browser, and saves a table with the columns of the rows.

    Args:
        path: The HTML file.
        entries: Rows of `read_questions`, at least one.
        documents: The corpus.

    Raises:
        DataError: A cell `relevant` cannot be read.
        OSError: The page cannot be written.
    """
    corpus = QuotedDocuments(documents)
    data = {
        "columns": [*entries[0].values],
        "rows": [[*entry.values.values()] for entry in entries],
        "passages": [_excerpt(*corpus.find(entry)) for entry in entries],
    }
    name = f"{Path(entries[0].file).stem}.reviewed.csv"
    # two tables never share the state that the browser stores
    data = {**data, "key": f"ragbench review {fingerprint_json(data)}", "name": name}
    write_html(path, render_page("review", name=Path(entries[0].file).name, data=data))


def _excerpt(document: Document | None, quote: str) -> tuple[str, str]:
    """Return the title of a document and its text around a quote; without a document, ('', '').

    Without a quote, the text starts at the beginning. Characters that a browser would obey are
    shown as other characters.
    """
    if document is None:
        return "", ""
    place = document.text.find(quote)
    start, end = max(place - _AROUND, 0), place + len(quote) + _AROUND
    text = "… " * (start > 0) + document.text[start:end] + " …" * (end < len(document.text))
    title = f"{document.id}: {document.title}" if document.title else document.id
    return visible(title), visible(text)
