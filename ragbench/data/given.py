"""Records put together: one question per id, and the systems that answered it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from ragbench.data.jsonl import Entry
from ragbench.data.record_rows import Row
from ragbench.types import Answered, Query

GIVEN = "given"
"""The name of the system that records are, where they name none."""

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(slots=True)
class Gathered:
    """The rows, put together by question and system."""

    queries: dict[str, Query] = field(default_factory=dict)
    """The questions by id, in the order of the file."""
    answers: dict[str, list[str]] = field(default_factory=dict)
    """Gold answers by query id."""
    systems: dict[str, dict[str, Answered]] = field(default_factory=dict)
    """System -> query id -> what it said."""
    first: dict[str, Entry] = field(default_factory=dict)
    """Query id -> the first record with it."""
    places: dict[tuple[str | None, str], Entry] = field(default_factory=dict)
    """(system, query id) -> its record."""
    written_as: dict[str, str] = field(default_factory=dict)
    """System name -> how the records write it."""

    def add(self, row: Row) -> None:
        """Add a record.

        Raises:
            DataError: It repeats or contradicts an earlier one; names both places.
        """
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
