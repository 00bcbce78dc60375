"""Pages for people: questions to keep, edit or drop, answers to label, disagreements of judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ragbench.calibration.disagreements import Disagreement
from ragbench.calibration.label_scale import LabelScale
from ragbench.calibration.sheet import COLUMNS
from ragbench.data.files.rows import Entry
from ragbench.errors import visible
from ragbench.questions.review import QuotedDocuments
from ragbench.records.certificate import JudgeCertificate
from ragbench.report.judge_sentences import certificate_sentences
from ragbench.report.page.html import render_page, write_text
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
    rows = []
    for entry in entries:
        rows.append([*entry.values.values()])
    data = {
        "columns": [*entries[0].values],
        "rows": rows,
        "passages": [_excerpt(entry, *corpus.find(entry)) for entry in entries],
    }
    name = f"{Path(entries[0].file).stem}.reviewed.csv"
    _write(path, {**data, "name": name}, name=Path(entries[0].file).name, is_labels=False)


def write_label_page(
    path: Path,
    rows: Sequence[Sequence[str | float | None]],
    scales: Mapping[str, LabelScale],
    *,
    noun: str = "answer",
    command: str = "ragbench calibrate RUN --labels",
) -> None:
    """Write the page on which a person labels the rows of a sheet, and which saves the sheet.

    Args:
        path: The HTML file; the saved sheet has its name, ending in .csv.
        rows: Rows with the cells of `COLUMNS`, at least one.
        scales: Rubric -> scale of its labels, for the digit keys.
        noun: Name of what is labelled, a singular.
        command: Command that reads the saved sheet.

    Raises:
        KeyError: The rubric of a row has no scale.
        ValueError: A row has another number of cells.
        OSError: The page cannot be written.
    """
    parts = ("question", "answer", "passages", "reference", "queries")
    texts, passages, levels = [], [], []
    for row in rows:
        cells = []
        for cell in row:
            cells.append("" if cell is None else str(cell))
        answer = dict(zip(COLUMNS, cells, strict=True))
        texts.append(cells)
        passages.append([(part, visible(answer[part])) for part in parts if answer[part]])
        levels.append([f"{level:g}" for level in scales[answer["rubric"]].levels])
    data = {
        "columns": COLUMNS,
        "rows": texts,
        "passages": passages,
        "levels": levels,
        "name": f"{path.stem}.csv",
    }
    _write(path, data, is_labels=True, noun=noun, command=command)


def _write(path: Path, data: Mapping[str, object], **values: object) -> None:
    # two tables never share the state that the browser stores
    key = f"ragbench review {fingerprint_json(data)}"
    write_text(path, render_page("review", data={**data, "key": key}, **values))


def _excerpt(entry: Entry, document: Document | None, quote: str) -> list[tuple[str, str]]:
    """Return a list with one pair: title of a row's gold document, and its text around a quote."""
    if document is None:
        if name := entry.values["relevant"]:
            return [(visible(f"gold document '{name}' is not in the corpus"), "")]
        return [("no gold document: the documents must not answer this question", "")]
    place = document.text.find(quote)
    start, end = max(place - _AROUND, 0), place + len(quote) + _AROUND
    text = "… " * (start > 0) + document.text[start:end] + " …" * (end < len(document.text))
    title = f"{document.id}: {document.title}" if document.title else document.id
    return [(visible(title), visible(text))]


def write_disagreement_page(
    path: Path,
    disagreements: Sequence[Disagreement],
    certificate: JudgeCertificate,
    changes: Sequence[str] = (),
) -> None:
    """Write the page of disagreements and flipped answers; it makes no request.

    The sentences on the judges stand first, then `changes`, the lines on judges that changed.

    Raises:
        OSError: The page cannot be written.
    """
    sentences = [*certificate_sentences(certificate), *changes]
    page = render_page(
        "disagreements", name=certificate.run, sentences=sentences, disagreements=disagreements
    )
    write_text(path, page)
