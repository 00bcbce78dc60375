"""The rows of a table, put together by question and system, and the gold that they name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from ragbench.data.files.columns import (
    Columns,
    PartMap,
    group_numbered_columns,
    join_columns,
    resolve_columns,
    with_paths,
)
from ragbench.data.files.fields import Chat, content_id, read_texts
from ragbench.data.files.gold import DocumentNames, GoldIds, QuotedPassages
from ragbench.data.files.rows import Entry
from ragbench.errors import DataError
from ragbench.types import Answered, Document, Query, ToolCall

GOLD_PARTS = ("relevant", "reference_contexts", "grades")
_SHOWN = 3
T = TypeVar("T")
_LONGEST = 60
# The name of the system that records are, where they name none.
GIVEN = "given"
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_.-]")


def system_name(written: str) -> str:
    """Return the name of a system as file names can hold it.

    Example:
        >>> system_name("Original Ground Truth")
        'Original-Ground-Truth'
    """
    return _NOT_IN_A_NAME.sub("-", written)


@dataclass(slots=True)
class Gathered:
    """The rows, grouped by question and system.

    Attributes:
        is_log: Whether rows have neither ids nor systems: then a question that is asked again is
            another.
        again: How many records of such a log ask a question again.
        expected: Query id -> gold tool calls.
        whole: How many records are whole conversations.
        grades: Query id -> gold document -> grade.
        systems: System -> what it said to each query.
        first: Query id -> the first record with it.
        rows: (system, query id) -> its record, the first where several name gold of one question.
        joined: How many records only add gold to a question that was there before.
        written_as: System name -> how the records write it.
    """

    is_log: bool = False
    again: int = 0
    queries: dict[str, Query] = field(default_factory=dict)
    answers: dict[str, list[str]] = field(default_factory=dict)
    expected: dict[str, tuple[ToolCall, ...]] = field(default_factory=dict)
    whole: int = 0
    grades: dict[str, dict[str, int]] = field(default_factory=dict)
    systems: dict[str, list[Answered]] = field(default_factory=dict)
    first: dict[str, Entry] = field(default_factory=dict)
    rows: dict[tuple[str | None, str], Row] = field(default_factory=dict)
    joined: int = 0
    written_as: dict[str, str] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        """Add a record."""
        if self.is_log and row.of_a_system:
            row = self._with_free_id(row)
        first = self.rows.setdefault((row.system, row.query.id), row)
        if first is not row:
            self._join(row, first)
        self.first.setdefault(row.query.id, row.entry)
        self._add_query(row)
        if first is row and row.grades:
            self._add("other gold documents", row, self.grades, dict(row.grades))
        self.whole += row.talk.whole is not None
        if not row.of_a_system:
            return
        answered = Answered(
            row.query.id, row.answer, row.contexts, row.queries, row.talk.tool_calls
        )
        self.systems.setdefault(self._name(row), []).append(answered)

    def _with_free_id(self, row: Row) -> Row:
        """Return the record with another id where the log has the question already."""
        identifier, number = row.query.id, 1
        while (row.system, identifier) in self.rows:
            number += 1
            identifier = f"{row.query.id}-{number}"
        self.again += number > 1
        return row if number == 1 else replace(row, query=replace(row.query, id=identifier))

    def _join(self, row: Row, first: Row) -> None:
        """Let several rows name the gold of one question; a system answers it once."""
        if row.of_a_system or first.of_a_system:
            system = f" of system '{row.system}'" if row.system else ""
            raise row.entry.error(
                f"question '{row.query.id}'{system} is repeated, first at {first.entry.place}: "
                f"'{row.query.text[:60]}'",
                allowed="one row per question, or a column id or system that tells them apart",
            )
        for name, grade in row.grades.items():
            if self.grades.setdefault(row.query.id, {}).setdefault(name, grade) != grade:
                raise row.entry.error(f"'{row.query.id}': '{name}' has two grades")
        self.joined += 1

    def _add_query(self, row: Row) -> None:
        query = self.queries.setdefault(row.query.id, row.query)
        if query.text != row.query.text:
            raise self._conflict("another question", row)
        if query.turns != row.query.turns:
            raise self._conflict("other earlier turns", row)
        # metadata that the rows of a question disagree on is about the answers, not the question
        shared = {
            key: value
            for key, value in query.metadata.items()
            if key in row.query.metadata and row.query.metadata[key] == value
        }
        if len(shared) < len(query.metadata):
            self.queries[query.id] = replace(query, metadata=shared)
        if row.reference:
            hint = "the same gold answer in each row of a question, or an id that tells them apart"
            self._add("another reference", row, self.answers, row.reference, hint)
        if row.talk.expected is not None:
            self._add("other expected tool calls", row, self.expected, row.talk.expected)

    def _add(
        self, conflict: str, row: Row, gold: dict[str, T], value: T, allowed: str | None = None
    ) -> None:
        """Note the gold of a question; raise an error if an earlier row has other gold."""
        if gold.setdefault(row.query.id, value) != value:
            raise self._conflict(conflict, row, allowed)

    def _conflict(self, conflict: str, row: Row, allowed: str | None = None) -> DataError:
        first = self.first[row.query.id]
        found = f"'{row.query.id}' has {conflict} at {first.place}: '{row.query.text[:60]}'"
        return row.entry.error(found, allowed=allowed)

    def _name(self, row: Row) -> str:
        label = GIVEN if row.system is None else row.system
        name = system_name(label)
        if (other := self.written_as.setdefault(name, label)) != label:
            raise row.entry.error(f"systems '{label}' and '{other}' would both be named '{name}'")
        return name


@dataclass(frozen=True, slots=True)
class Row:
    """One record, read.

    Attributes:
        reference: The gold answers; empty ones are left out.
        talk: The conversation that it belongs to, and the tools that were called.
        grades: The gold documents with their grades.
        quoted: Gold passages, as they are written.
    """

    entry: Entry
    query: Query
    system: str | None
    contexts: list[Document] | None
    answer: str | None
    reference: list[str]
    queries: list[str]
    talk: Chat
    grades: dict[str, int]
    quoted: list[str]

    @property
    def of_a_system(self) -> bool:
        """Return True if the record has an output of a system."""
        outputs = (self.contexts, self.answer, self.talk.tool_calls)
        return bool(self.queries) or any(output is not None for output in outputs)

    def parts(self, columns: Columns) -> dict[str, Any]:
        """Return the values by part, of the parts that a column plays."""
        values: dict[str, Any] = {
            "id": self.query.id,
            "question": self.query.text,
            "contexts": None if self.contexts is None else [d.text for d in self.contexts],
            "answer": self.answer,
            "reference": self.reference,
            "queries": self.queries,
            "system": self.system,
            **self.talk.parts(),
            "reference_contexts": self.quoted,
            "relevant": [n if g == 1 else f"{n}: {g}" for n, g in self.grades.items()],
        }
        cut = () if self.talk.whole is None else ("question", "turns", "answer", "tool_calls")
        return {part: values[part] for part in values if part in columns or part in cut}


class GoldColumns:
    """Reads the gold documents of each row; what could not be placed is kept with its place."""

    def __init__(
        self,
        columns: Columns,
        entries: Sequence[Entry],
        documents: Sequence[Document] | None,
        names: DocumentNames | None,
        *,
        cells: bool,
    ) -> None:
        self.columns = {part: columns[part] for part in GOLD_PARTS if part in columns}
        self._cells, self._documents, self._names = cells, documents, names
        self._ids = GoldIds(names)
        self._quotes = None
        if documents is not None and "reference_contexts" in columns:
            texts = (text for entry in entries for text in self.texts(entry))
            self._quotes = QuotedPassages(texts, documents)
        # Gold passages by id, where there is no corpus to find them in.
        self.passages: dict[str, Document] = {}
        # Gold id as it is written -> where it stands first; those that the corpus lacks.
        self.places: dict[str, str] = {}
        self._homeless: dict[str, str] = {}
        self._alike: dict[str, str] = {}
        self._several: dict[str, str] = {}
        self._quoted: set[str] = set()
        self._without = self._rows = 0

    def read(self, entry: Entry) -> dict[str, int]:
        """Return the grades of a row by document; empty where it names none."""
        grades: dict[str, int] = {}
        if "relevant" in self.columns:
            gold = self._ids.read(entry, self.columns["relevant"])
            if "grades" in self.columns:
                grades = self._ids.grades(entry, self.columns["grades"], gold)
            else:
                grades = {name: 1 if grade is None else grade for name, grade in gold}
            for name in grades:
                if self._names is not None and name not in self._names.ids:
                    self.places.setdefault(name, f"{Path(entry.file).name} {entry.place}")
        for text in self.texts(entry):
            for document in self._placed(entry, text):
                grades.setdefault(document, 1)
        self._rows += 1
        self._without += not grades
        return grades

    def texts(self, entry: Entry) -> list[str]:
        """Return the gold passages of a row."""
        column = self.columns.get("reference_contexts")
        # without a corpus, ids are of what the records hold, and passages have no id
        if column is None or (self._documents is None and "relevant" in self.columns):
            return []
        texts = read_texts(entry, column, cells=self._cells) or []
        return [text for text in texts if text.strip()]

    def _placed(self, entry: Entry, text: str) -> list[str]:
        """Return the ids of the documents that hold a quoted text; its own without a corpus."""
        if self._quotes is None:
            name = content_id(text)
            self.passages.setdefault(name, Document(name, text))
            return [name]
        ids, is_exact = self._quotes.place(text)
        line = " ".join(text.split())
        quote = line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
        place = f"{entry.place}: '{quote}'"
        self._quoted.add(text)
        if not ids:
            self._homeless.setdefault(text, place)
        elif not is_exact:
            self._alike.setdefault(text, place)
        if len(ids) > 1:
            self._several.setdefault(text, place)
        return ids

    def refuse_nothing(self, file: object, parts: Iterable[str]) -> None:
        """Refuse columns of parts that the user named, without gold, and quotes that are all lost.

        Raises:
            DataError: No row has gold, or no quote stands in the corpus.
        """
        if self._homeless and len(self._homeless) == len(self._quoted):
            raise DataError(
                f"none of the {len(self._quoted)} gold passages stands in the corpus, such as "
                f"{next(iter(self._homeless.values()))}",
                file=file,
                record=self.columns["reference_contexts"],
                allowed="texts that documents of the corpus hold, or ids in `relevant`",
            )
        columns = [column for part, column in self.columns.items() if part in parts]
        if columns and self._without == self._rows:
            allowed = "the ids of gold documents, or gold passages, in one row at least"
            raise DataError("no row has any gold", file=file, record=columns[0], allowed=allowed)

    @property
    def notes(self) -> list[str]:
        """How the gold was read, in sentences."""
        notes = []
        if self._without and self.columns:
            notes.append(f"{self._without} of {self._rows} rows name no gold document")
        if renamed := self._ids.renamed:
            name = next(iter(renamed))
            (meant,) = self._names.resolve(name) if self._names else [""]
            are = "document is" if len(renamed) == 1 else "documents are"
            notes.append(
                f"{len(renamed)} gold {are} not written as the corpus has them: "
                f"'{name}' is '{meant}'"
            )
        if self._ids.repeated:
            notes.append(f"{self._ids.repeated} gold ids stand twice in their row; counted once")
        if self._quoted:
            placed = len(self._quoted) - len(self._homeless)
            notes.append(f"{placed} of {len(self._quoted)} gold passages found in the corpus")
        for places, note in (
            (self._alike, "of them not word for word (at least 80 % of their words in a row)"),
            (
                self._several,
                "gold passages stand in several documents, each of which counts as relevant",
            ),
        ):
            if places:
                notes.append(f"{len(places)} {note}, first at {next(iter(places.values()))}")
        if self.passages:
            note = "gold passages; there is no corpus, so that passages are matched by their words"
            notes.append(f"{len(self.passages)} {note}")
        return notes

    @property
    def warnings(self) -> list[str]:
        """Gold passages that have no place in the corpus."""
        if not self._homeless:
            return []
        shown = "; ".join(list(self._homeless.values())[:_SHOWN])
        more = "; ..." if len(self._homeless) > _SHOWN else ""
        return [
            f"{len(self._homeless)} of {len(self._quoted)} gold passages stand in no document of "
            f"the corpus and are left out: {shown}{more}"
        ]


def map_columns(
    entries: Sequence[Entry],
    named: PartMap,
    names: DocumentNames | None,
    file: object,
    doubts: list[str] | None = None,
) -> tuple[Sequence[Entry], Columns, PartMap]:
    """Return the rows with paths and groups as columns, the column of each part, and the groups.

    Args:
        entries: Rows of the table.
        named: Part -> its column, its columns, or none, as the user says it.
        names: Document ids of the corpus; None without a corpus.
        file: For messages.
        doubts: Receives ambiguous columns as sentences; None raises the first one.

    Raises:
        DataError: No column has the question, or the part of a column cannot be told.
    """
    rows = with_paths(entries, named)
    present = list(dict.fromkeys(key for row in rows for key in row.values))
    groups = group_numbered_columns(present, named, lambda column: holds_ids(rows, names, column))
    joined, columns = join_columns(rows, groups)
    # a group is one column now, so that the names are read again
    present = list(dict.fromkeys(key for row in joined for key in row.values))
    resolved = resolve_columns(
        present, columns, file, lambda column: holds_ids(joined, names, column), doubts
    )
    return joined, resolved, groups


def holds_ids(entries: Sequence[Entry], names: DocumentNames | None, column: str) -> bool:
    """Return True if at least half of the cells of a column are ids of the corpus."""
    n_known, total = known_ids(entries, names, column)
    return total > 0 and n_known * 2 >= total


def known_ids(
    entries: Sequence[Entry], names: DocumentNames | None, column: str
) -> tuple[int, int]:
    """Return how many of the ids in a column the corpus knows, and how many there are."""
    if names is None:
        return 0, 0
    reader = GoldIds(names)
    try:
        ids = [name for entry in entries for name, _ in reader.read(entry, column)]
    except DataError:  # it holds something else
        return 0, 0
    return sum(name in names.ids for name in ids), len(ids)
