"""One row of a records file, read by the parts that its columns play."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ragbench.data.columns import Columns
from ragbench.data.jsonl import Entry
from ragbench.data.passages import Passages, content_id, read_text, read_texts
from ragbench.types import Document, Query


@dataclass(frozen=True, slots=True)
class Row:
    """One record, read."""

    entry: Entry
    """Its place."""
    query: Query
    """The question, with what else the record says."""
    system: str | None
    """Who answered; None where no column says it."""
    contexts: list[Document] | None
    """The passages, best first."""
    answer: str | None
    """The system's answer."""
    reference: list[str]
    """The gold answers; empty ones are left out."""
    queries: list[str]
    """The queries that the system formulated."""

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
    """Part -> column."""
    passages: Passages
    """Reads the passages."""
    cells: bool
    """Whether the file holds text only, as CSV does."""

    def read(self, entry: Entry) -> Row:
        """Read one record.

        Raises:
            DataError: A cell that is not what its part needs.
        """
        question = self._question(entry)
        return Row(
            entry=entry,
            query=Query(self._id(entry, question), question, self._metadata(entry)),
            system=self._system(entry),
            contexts=self._contexts(entry),
            answer=self._text(entry, "answer"),
            reference=[text for text in self._texts(entry, "reference") if text.strip()],
            queries=self._texts(entry, "queries"),
        )

    def _question(self, entry: Entry) -> str:
        question = self._text(entry, "question")
        if question is None or not question.strip():
            raise entry.error(f"no question in column '{self.columns['question']}'")
        return question

    def _id(self, entry: Entry, question: str) -> str:
        return entry.id(self.columns["id"]) if "id" in self.columns else content_id(question)

    def _system(self, entry: Entry) -> str | None:
        if "system" not in self.columns:
            return None
        system = self._text(entry, "system")
        if system is None or not system.strip():
            raise entry.error(f"no system in column '{self.columns['system']}'")
        return system

    def _contexts(self, entry: Entry) -> list[Document] | None:
        column = self.columns.get("contexts")
        return None if column is None else self.passages.read(entry, column, cells=self.cells)

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
