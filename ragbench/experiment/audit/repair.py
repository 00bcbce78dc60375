"""Repair of a table of questions after its documents changed: gold quotes get their new places."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import structs

from ragbench.config.schema import ExperimentConfig
from ragbench.data.files.collection import read_corpus
from ragbench.data.files.fields import read_texts
from ragbench.data.files.formulas import is_own_table
from ragbench.data.files.gold import DocumentNames, GoldIds
from ragbench.data.files.gold_spans import read_written_spans
from ragbench.data.files.lines import plain_suffix
from ragbench.data.files.rows import Entry, is_csv, read_rows
from ragbench.data.loaders.questions import KEEP, map_columns
from ragbench.data.loaders.records import Records
from ragbench.data.runs.run_folder import to_csv
from ragbench.errors import DataError
from ragbench.experiment.audit.anchors import GoldQuote, QuoteAnchor, anchor_quotes
from ragbench.files import write_file
from ragbench.records.audit import LABEL_STATUSES, AnchoredLabel, Repair
from ragbench.types.lookups import index_by_id
from ragbench.types.spans import locate_quote
from ragbench.types.tables import columns_named

_SUFFIXES = (".csv", ".tsv", ".json", ".jsonl")
# Statuses with one certain place; each other status needs a person.
_REPAIRABLE = ("kept", "moved")


@dataclass(frozen=True, slots=True)
class _RowLabel:
    """Gold quote in a row of the table, as `_StaleTable.labels` returns."""

    row: Entry  # the row
    quote: GoldQuote  # the quote, with the document that it is expected in
    # position in the list `reference_spans`, from 0; None for a document of `relevant`
    number: int | None = None
    is_clear: bool = True  # false if it is not known which document of the row had the quote

    def settle(self, anchor: QuoteAnchor) -> QuoteAnchor:
        """Return the anchor; gone if the quote moved, and it is not known which document had it."""
        # without its old document a label cannot be renamed: which id of `relevant` would change?
        if self.is_clear or anchor.status != "moved":
            return anchor
        finding = f"{anchor.finding}, and in none of the documents of its row"
        return replace(anchor, status="gone", finding=finding, documents=(), span=None)

    def record(self, anchor: QuoteAnchor) -> AnchoredLabel:
        """Return the label and its anchor as the record of the report."""
        span = None if self.quote.place is None else anchor.span
        return AnchoredLabel(
            status=anchor.status,
            place=self.row.file_place,
            query_id=self.quote.question,
            document=self.quote.document,
            quote=self.quote.text,
            finding=anchor.finding,
            documents=anchor.documents,
            start=None if span is None else span.start,
            end=None if span is None else span.end,
        )


# Labels of a row, each with its anchor.
_Anchored = Sequence[tuple[_RowLabel, QuoteAnchor]]


def repair_labels(config: ExperimentConfig, target: Path | None) -> Repair:
    """Return the place that each gold quote of a table has today, and write the repaired table.

    Labels that were kept or moved are written with their places. A row with another label stays as
    it is but for the column `keep`, which becomes no: no run uses it until a person corrects it.

    Args:
        config: Names the table, its columns and the corpus.
        target: File to write, which may be the table itself; None writes nothing.

    Raises:
        DataError: The data set cannot be rewritten, has no corpus or quote, or `target` holds
            something else.
        MissingExtra: A format of the corpus needs an extra.
    """
    table = _StaleTable(config, target)
    labels = table.labels()
    if not labels:
        allowed = "columns relevant and quote, or reference_spans with quotes"
        raise DataError("no gold has a quote to look for", file=table.path, allowed=allowed)
    anchors = anchor_quotes([label.quote for label in labels], table.corpus.documents, table.names)
    anchored, by_row = [], defaultdict[int, list[tuple[_RowLabel, QuoteAnchor]]](list)
    for label, anchor in zip(labels, anchors, strict=True):
        pair = label, label.settle(anchor)
        anchored.append(pair)
        by_row[label.row.number].append(pair)
    open_rows = set()
    for number, group in by_row.items():
        if any(anchor.status not in _REPAIRABLE for _, anchor in group):
            open_rows.add(number)
    if target is not None:
        cells = {}
        for number, group in by_row.items():
            is_open = number in open_rows
            cells[number] = table.open_cells() if is_open else table.repaired_cells(group)
        table.write(target, cells)
    counts = Counter(anchor.status for _, anchor in anchored)
    return Repair(
        counts={status: counts[status] for status in LABEL_STATUSES},
        labels=tuple(label.record(anchor) for label, anchor in anchored),
        unquoted=table.unquoted,
        open_rows=len(open_rows),
    )


class _StaleTable:
    """Table of questions that was written for earlier documents, read when it is created."""

    def __init__(self, config: ExperimentConfig, target: Path | None) -> None:
        """Read the table and the corpus; arguments and errors are those of `repair_labels`."""
        cls, options = config.dataset.cls, config.dataset.options
        if cls is not Records or options["corpus"] is None:
            allowed = "dataset: {type: records, path: qa.csv, corpus: docs/}"
            raise DataError("has no table with gold quotes", file=config.path, allowed=allowed)
        self.path, self.unquoted = Path(options["path"]), 0
        self._suffix = plain_suffix(self.path)
        if self._suffix not in _SUFFIXES:
            raise DataError("cannot be rewritten", file=self.path, allowed=", ".join(_SUFFIXES))
        # `.suffix`, not `plain_suffix`: the new file is not compressed, and must not end in .gz
        if target is not None and target.suffix.lower() != self._suffix:
            problem = f"is written in the format of {self.path.name}"
            raise DataError(problem, file=target, allowed=f"a name that ends in {self._suffix}")
        self._entries = list(read_rows(self.path, "records"))
        self.corpus = read_corpus(Path(options["corpus"]))
        self._by_id = index_by_id(self.corpus.documents)
        self.names = DocumentNames(self.corpus.documents, self.corpus.folder)
        mapping = options["columns"] or {}
        self._rows, self._columns = map_columns(self._entries, mapping, self.names, self.path)
        self._quotes = self._columns.get("reference_contexts", "quote")
        self._spans = self._columns.get("reference_spans", "reference_spans")
        # stale: a name that no longer fits one document is a label to repair, not an error
        self._ids = GoldIds(self.names, is_stale=True)

    def labels(self) -> list[_RowLabel]:
        """Return the gold quotes in the order of the rows; those with keep = no have none."""
        return list(chain.from_iterable(map(self._row_labels, self._rows)))

    def _row_labels(self, row: Entry) -> Iterator[_RowLabel]:
        """Yield the labels of a row; raise a `DataError` if a cell cannot be read."""
        column = self._columns.get("id") or self._columns.get("question", "")
        question = str(row.values.get(column) or row.place)
        for number, span in enumerate(read_written_spans(row, self._spans)):
            if span.quote is None:
                self.unquoted += 1
            else:
                label = GoldQuote(question, span.document, span.quote, span.place)
                yield _RowLabel(row, label, number)
        if "relevant" not in self._columns:
            return
        documents = []
        for name, _ in self._ids.read(row, self._columns["relevant"]):
            documents.append(name)
        quotes = read_texts(row, self._quotes) or [] if documents else []
        self.unquoted += max(len(documents) - len(quotes), 0)
        present, missing = [], []
        for name in documents:
            if name in self._by_id:
                present.append(self._by_id[name])
            else:
                missing.append(name)
        for quote in quotes:
            holders = []
            for document in present:
                if locate_quote(quote, document.text) is not None:
                    holders.append(document.id)
            # the document that the corpus lacks is the one that changed
            home = next(iter(holders or missing or documents))
            # one quote has one home if one document is missing, or the row has one document; with
            # several quotes each document may have lost any of them
            is_clear = bool(holders) or (len(quotes) == 1 and 1 in (len(missing), len(documents)))
            yield _RowLabel(row, GoldQuote(question, home, quote), is_clear=is_clear)

    def open_cells(self) -> dict[str, Any]:
        """Return column -> cell, one entry, that leaves a row out of every run."""
        present = list(dict.fromkeys(chain.from_iterable(e.values for e in self._entries)))
        # the column may have another spelling; a second `keep` beside it would be ambiguous
        column = next(iter(columns_named(present, [KEEP])), KEEP)
        return {column: "no" if is_csv(self.path) else False}

    def repaired_cells(self, group: _Anchored) -> dict[str, Any]:
        """Return the changed cells of a row with labels that were kept or moved."""
        row, cells = group[0][0].row, dict[str, Any]()
        old_spans = list(read_written_spans(row, self._spans))
        spans = [dict(span.fields) for span in old_spans]
        # old document -> documents that have its quotes now; a span without a quote stays
        moves = defaultdict[str, dict[str, None]](dict)
        # such a span still needs its document in `relevant` if the quotes beside it move away
        for old in old_spans:
            if old.quote is None:
                name = self._ids.resolve(row, self._spans, old.document)
                moves[name][old.document] = None
        for label, anchor in group:
            if anchor.span is not None:
                name = self._ids.resolve(row, self._spans, label.quote.document)
                moves[name][anchor.span.document] = None
            if anchor.span is not None and anchor.status == "moved" and label.number is not None:
                span = spans[label.number]
                # not strict: the last field of a span is its quote, which the file has already
                place = zip(
                    ("document", "start", "end"), structs.astuple(anchor.span), strict=False
                )
                # a label without positions stays without: they would go stale at the next change
                span |= {key: value for key, value in place if span.get(key) is not None}
                cells[self._spans] = spans
        if "relevant" in self._columns:
            changed = {old: [*new] for old, new in moves.items() if [*new] != [old]}
            cells |= self._renamed(row, changed)
        for column in cells:
            # the mapping may read a path in an object: the file has no such cell, and a new column
            # would leave the old gold in place
            if column not in self._entries[row.number - 1].values:
                problem = f"'{column}' is no column of the file, and cannot be rewritten"
                raise row.error(problem, allowed="a column of ids or spans, no path")
        if is_csv(self.path):
            for column, cell in cells.items():
                if not isinstance(cell, str):
                    cells[column] = json.dumps(cell, ensure_ascii=False)
        return cells

    def _renamed(self, row: Entry, moves: Mapping[str, Iterable[str]]) -> dict[str, Any]:
        """Return column -> changed cell of a row after its gold moved; {} if no document is new."""
        column, grade_column = self._columns["relevant"], self._columns.get("grades")
        gold, grades = self._ids.read(row, column), dict[str, int]()
        if grade_column is not None:
            gold = list(self._ids.grades(row, grade_column, gold).items())
        if not moves.keys() & {name for name, _ in gold}:
            return {}
        for name, optional_grade in gold:
            grade = 1 if optional_grade is None else optional_grade
            for document in moves.get(name, (name,)):
                # of two documents that are one now, the better grade counts
                grades[document] = max(grades.get(document, grade), grade)
        # as many grades as documents, whose number may have changed
        if grade_column is not None:
            return {column: [*grades], grade_column: [*grades.values()]}
        # one written grade is enough: a list would lose it
        if any(grade is not None for _, grade in gold):
            return {column: grades}
        return {column: next(iter(grades), "") if len(grades) < 2 else [*grades]}

    def write(self, target: Path, cells: Mapping[int, Mapping[str, Any]]) -> None:
        """Write all rows, with the changed cells of some row numbers (from 1), in one step."""
        rows = []
        for n, entry in enumerate(self._entries, 1):
            rows.append(entry.values | {**cells.get(n, {})})
        if self._suffix == ".jsonl":
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        elif self._suffix == ".json":
            text = json.dumps(rows, ensure_ascii=False, indent=2) + "\n"
        else:
            text = self._to_table(rows)
        # `samefile`, not equal paths: the table may be named through a link
        is_new = not target.exists() or target.samefile(self.path)
        # equal bytes are no error, so that the same command may be repeated
        if not is_new and target.read_bytes() != text.encode():
            allowed = "another file, or the table itself"
            raise DataError("exists and holds something else", file=target, allowed=allowed)
        write_file(target, text)

    def _to_table(self, rows: Sequence[Mapping[str, str | None]]) -> str:
        """Return rows as CSV, or with tabs for .tsv; formulas in tables of ragbench stay inert."""
        header = list(dict.fromkeys(chain.from_iterable(rows)))
        cells = []
        for row in rows:
            cells.append([row.get(column) or "" for column in header])
        # apostrophes before formulas are removed when such a table is read, and have to come back;
        # in a foreign table they would change its texts
        if is_own_table(self._entries[0].values) and self._suffix == ".csv":
            return to_csv(header, cells)
        stream = io.StringIO()
        delimiter = "\t" if self._suffix == ".tsv" else ","
        csv.writer(stream, delimiter=delimiter, lineterminator="\n").writerows([header, *cells])
        return stream.getvalue()
