"""Records, a row per question: `dataset: {type: records, path: logs.jsonl, columns: {...}}`."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from ragbench.data.files.collection import empty_note, read_corpus
from ragbench.data.files.jsonl import Entry
from ragbench.data.files.passages import Passages, content_id, read_text, read_texts
from ragbench.data.files.table import (
    Columns,
    check_mapping,
    is_csv,
    read_rows,
    resolve_columns,
    with_paths,
)
from ragbench.data.loaders.base import RandomSplit, SplitOption, finished, parse_split
from ragbench.registry import Option
from ragbench.types import Answered, Collection, Document, Query

GIVEN = "given"
"""The name of the system that records are, where they name none."""
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_.-]")


class TableLoader(ABC):
    """A loader of a table, a row per question; `ragbench validate` shows its first rows."""

    _drawn: RandomSplit | None
    """The random test set that is asked for."""

    def load(self) -> Collection:
        """Read and check the rows, and the corpus where there is one."""
        return finished(self._rows().collection(), self._drawn)

    def preview(self, count: int = 2) -> list[dict[str, Any]]:
        """Return how the first rows were read: part -> value."""
        return self._rows().preview(count)

    @abstractmethod
    def _rows(self) -> RecordTable:
        """Return the table of the rows."""


class Records(TableLoader):
    """Read JSON lines, CSV or Parquet with questions, and what systems answered to them.

    Records that carry passages or answers are themselves a system, named `given`, or one for each
    value of `system`. Columns that play no part become metadata of the question.
    """

    def __init__(
        self,
        *,
        path: Annotated[
            Path, Option("The .jsonl, .csv or .parquet file, a row per question.", refers_to="path")
        ],
        columns: Annotated[
            Mapping[str, str | None] | None,
            Option(
                "Which column is the id, question, contexts, answer (the system's), reference "
                "(the gold one), queries, system; null for none."
            ),
        ] = None,
        corpus: Annotated[
            Path | None,
            Option(
                "Documents for retrievers: corpus.jsonl, or a folder of .txt and .md files.",
                refers_to="path",
            ),
        ] = None,
        split: SplitOption = None,
    ) -> None:
        self._path = Path(path)
        self._corpus = None if corpus is None else Path(corpus)
        check_mapping(columns or {}, "records")
        self._columns = columns
        self._drawn = parse_split(split, "records")

    def _rows(self) -> RecordTable:
        return RecordTable(
            list(read_rows(self._path, "records")),
            columns=self._columns,
            documents=None if self._corpus is None else read_corpus(self._corpus),
            file=self._path,
            cells=is_csv(self._path),
        )


class RecordTable:
    """Rows with a question each, read by the parts that their columns play."""

    def __init__(
        self,
        entries: Sequence[Entry],
        *,
        columns: Mapping[str, str | None] | None,
        documents: list[Document] | None,
        file: object,
        cells: bool = False,
    ) -> None:
        entries = with_paths(entries, columns or {})
        self._entries, self._documents = entries, documents
        present = list(dict.fromkeys(key for entry in entries for key in entry.values))
        resolved = resolve_columns(present, columns, file)
        self._reader = RowReader(resolved, Passages(documents or []), cells=cells)

    def collection(self) -> Collection:
        """Return the data set, without fingerprints."""
        gathered = Gathered()
        for entry in self._entries:
            gathered.add(self._reader.read(entry))
        return Collection(
            queries=list(gathered.queries.values()),
            documents=self._documents,
            answers=gathered.answers,
            given={name: list(answers.values()) for name, answers in gathered.systems.items()},
            notes=_notes(self._entries, self._reader.columns, gathered, self._documents),
        )

    def preview(self, count: int) -> list[dict[str, Any]]:
        """Return how the first rows were read: part -> value."""
        reader = self._reader
        return [reader.read(entry).parts(reader.columns) for entry in self._entries[:count]]


def _notes(
    entries: Sequence[Entry], columns: Columns, gathered: Gathered, documents: list[Document] | None
) -> list[str]:
    used = set(columns.values())
    rest = dict.fromkeys(key for entry in entries for key in entry.values if key not in used)
    notes = [f"{len(entries)} rows, {len(gathered.queries)} questions"]
    notes.append("columns: " + ", ".join(f"{part} = {name}" for part, name in columns.items()))
    if "id" not in columns:
        notes.append("ids are hashes of the questions")
    if rest:
        notes.append(f"further columns, kept as metadata: {', '.join(rest)}")
    for name, answers in gathered.systems.items():
        written = gathered.written_as[name]
        renamed = f" (written '{written}')" if written != name else ""
        notes.append(f"system {name}{renamed}: {len(answers)} of {len(gathered.queries)} questions")
    answered = [query for answers in gathered.systems.values() for query in answers]
    if len(gathered.systems) > 1 and len(answered) == len(set(answered)):
        advice = "if they answered the same ones, map id to the question's id, or to null"
        notes.append(f"no question is shared by two systems; {advice}")
    if documents is not None and (note := empty_note(documents)):
        notes.append(note)
    return notes


@dataclass(slots=True)
class Gathered:
    """The rows, put together by question and system."""

    queries: dict[str, Query] = field(default_factory=dict)
    answers: dict[str, list[str]] = field(default_factory=dict)
    systems: dict[str, dict[str, Answered]] = field(default_factory=dict)
    """System -> query id -> what it said."""
    first: dict[str, Entry] = field(default_factory=dict)
    """Query id -> the first record with it."""
    places: dict[tuple[str | None, str], Entry] = field(default_factory=dict)
    """(system, query id) -> its record."""
    written_as: dict[str, str] = field(default_factory=dict)
    """System name -> how the records write it."""

    def add(self, row: Row) -> None:
        """Add a record."""
        self._refuse_repeated(row)
        self._add_query(row)
        if row.contexts is None and row.answer is None and not row.queries:
            return
        name = self._name(row)
        self.systems.setdefault(name, {})[row.query.id] = Answered(
            row.query.id, row.answer, row.contexts, row.queries
        )

    def _refuse_repeated(self, row: Row) -> None:
        before = self.places.setdefault((row.system, row.query.id), row.entry)
        if before is not row.entry:
            system = f" of system '{row.system}'" if row.system else ""
            raise row.entry.error(
                f"question '{row.query.id}'{system} is repeated, first at {before.place}: "
                f"'{row.query.text[:60]}'",
                allowed="one row per question, or a column id or system that tells them apart",
            )

    def _add_query(self, row: Row) -> None:
        query = self.queries.get(row.query.id)
        if query is None:
            self.queries[row.query.id], self.first[row.query.id] = row.query, row.entry
            query = row.query
        elif query.text != row.query.text:
            self._conflict(row, "another question")
        # what the rows of a question disagree on says something about the answers, not about it
        shared = {
            key: value
            for key, value in query.metadata.items()
            if key in row.query.metadata and row.query.metadata[key] == value
        }
        self.queries[query.id] = replace(query, metadata=shared)
        if row.reference and self.answers.setdefault(query.id, row.reference) != row.reference:
            self._conflict(row, "another reference")

    def _conflict(self, row: Row, what: str) -> None:
        first = self.first[row.query.id]
        raise row.entry.error(f"'{row.query.id}' has {what} at {first.place}")

    def _name(self, row: Row) -> str:
        """The system's name as file names can hold it."""
        written = GIVEN if row.system is None else row.system
        name = _NOT_IN_A_NAME.sub("-", written)
        if self.written_as.setdefault(name, written) != written:
            other = self.written_as[name]
            raise row.entry.error(f"systems '{written}' and '{other}' would both be named '{name}'")
        return name


@dataclass(frozen=True, slots=True)
class Row:
    """One record, read."""

    entry: Entry
    query: Query
    system: str | None
    contexts: list[Document] | None
    answer: str | None
    reference: list[str]
    """The gold answers; empty ones are left out."""
    queries: list[str]

    def parts(self, columns: Columns) -> dict[str, Any]:
        """The values by part, of the parts that a column plays."""
        contexts = [{"id": d.id, "text": d.text} for d in self.contexts or ()]
        values: dict[str, Any] = {
            "id": self.query.id,
            "question": self.query.text,
            "contexts": None if self.contexts is None else contexts,
            "answer": self.answer,
            "reference": self.reference,
            "queries": self.queries,
            "system": self.system,
        }
        return {part: values[part] for part in columns}


@dataclass(frozen=True, slots=True)
class RowReader:
    """Reads records by their columns."""

    columns: Columns
    passages: Passages
    cells: bool
    """Whether the file holds text only, as CSV does."""

    def read(self, entry: Entry) -> Row:
        """Read one record."""
        question, contexts = self._needed(entry, "question"), self.columns.get("contexts")
        column = self.columns.get("id")
        identifier = content_id(question) if column is None else entry.id(column)
        return Row(
            entry=entry,
            query=Query(identifier, question, self._metadata(entry)),
            system=self._needed(entry, "system") if "system" in self.columns else None,
            contexts=None
            if contexts is None
            else self.passages.read(entry, contexts, cells=self.cells),
            answer=self._text(entry, "answer"),
            reference=[text for text in self._texts(entry, "reference") if text.strip()],
            queries=self._texts(entry, "queries"),
        )

    def _needed(self, entry: Entry, part: str) -> str:
        text = self._text(entry, part)
        if text is None or not text.strip():
            raise entry.error(f"no {part} in column '{self.columns[part]}'")
        return text

    def _text(self, entry: Entry, part: str) -> str | None:
        column = self.columns.get(part)
        return None if column is None else read_text(entry, column, entry.values.get(column))

    def _texts(self, entry: Entry, part: str) -> list[str]:
        column = self.columns.get(part)
        return [] if column is None else read_texts(entry, column, cells=self.cells) or []

    def _metadata(self, entry: Entry) -> dict[str, Any]:
        """The columns that play no part; an object `metadata` is taken apart."""
        used = set(self.columns.values())
        rest = {key: value for key, value in entry.values.items() if key not in used}
        nested = rest.get("metadata")
        if isinstance(nested, dict):
            del rest["metadata"]
            rest |= nested
        return rest
