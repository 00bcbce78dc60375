"""A table of records, wherever it comes from, as a data set: questions, and who answered what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragbench.data.column_paths import with_paths
from ragbench.data.columns import Columns, resolve_columns
from ragbench.data.corpus import empty_note
from ragbench.data.given import Gathered
from ragbench.data.jsonl import Entry
from ragbench.data.passages import Passages
from ragbench.data.record_rows import RowReader
from ragbench.types import Collection, Document


class RecordTable:
    """Rows with a question each, read by the parts that their columns play.

    Args:
        entries: The rows, with their places.
        columns: The option `columns`: part -> column; None takes the usual names.
        documents: The corpus; None where there is none.
        file: The table, as messages name it.
        cells: Whether it holds text only, as CSV does.

    Raises:
        DataError: A column that is missing, or cannot be told from another.
    """

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
        """Return the data set, without fingerprints.

        Raises:
            DataError: A row that cannot be read, with its place.
        """
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
    """Say how the columns were read, and what was found."""
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
