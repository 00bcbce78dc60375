"""Rows of a table of labels: the judged answer that a row is about, by ids or by texts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ragbench.calibration.judged_run import JudgedRun, Key
from ragbench.data.files.fields import read_text
from ragbench.data.files.rows import Entry
from ragbench.errors import DataError
from ragbench.registry import nearest
from ragbench.types.reasoning import split_reasoning
from ragbench.types.tables import PARTS, columns_named

# Part of a row that identifies an answer -> names of its column, the best first.
ANSWER_PARTS: Mapping[str, tuple[str, ...]] = {
    "query_id": ("query_id", "id"),
    "question": (*PARTS["question"].sure, *PARTS["question"].likely),
    "system": ("system", *PARTS["system"].sure, *PARTS["system"].likely),
    "answer": (*PARTS["answer"].sure, *PARTS["answer"].likely),
}


@dataclass(frozen=True)
class AnswerFinder:
    """Finder of the judged answer of a row: by query id, else by question, system and answer.

    Attributes:
        run: Run with the judged answers and their questions.
        columns: Part of `ANSWER_PARTS` -> its column, as the user names it.
        labels: Columns that hold labels, whatever their names.
    """

    run: JudgedRun
    columns: Mapping[str, str]
    labels: Collection[str] = ()

    def key(self, entry: Entry) -> Key:
        """Return the answer of a row, as (system, query id).

        Raises:
            DataError: The row names no judged answer, or several, or has an id and the question or
                the answer of another one.
        """
        column = self._column(entry, "query_id")
        if column is not None and entry.values[column] not in (None, ""):
            query = entry.id(column)
            if query in self._queries or self._column(entry, "question") is None:
                key = self._system(entry), query
                self._check_texts(entry, key)
                return key
        return self._by_texts(entry)

    def _column(self, entry: Entry, part: str) -> str | None:
        """Return the column of a part in a row; None without one."""
        if part in self.columns:
            entry.field(self.columns[part])  # raises if the row has no such column
            return self.columns[part]
        return next(iter(columns_named([*entry.values], ANSWER_PARTS[part])), None)

    def _text(self, entry: Entry, part: str) -> str:
        """Return the text of a part; empty without a column or a value."""
        column = self._column(entry, part)
        return "" if column is None else read_text(entry, column, entry.values[column]) or ""

    def _system(self, entry: Entry) -> str:
        """Return the system of a row; a run of one system needs no column."""
        systems = self.run.systems
        text = self._text(entry, "system") or (systems[0] if len(systems) == 1 else "")
        if (name := self.run.find_system(text)) is None:
            problem = f"system '{text}' was not judged" if text else "no 'system' in the row"
            raise entry.error(problem, allowed=", ".join(systems), near=nearest(text, systems))
        return name

    @cached_property
    def _queries(self) -> set[str]:
        """Ids of the queries with judged answers."""
        return {query for _, query in self.run.answers}

    def _check_texts(self, entry: Entry, key: Key) -> None:
        """Raise a DataError for a row with an id, but the question or answer of another one."""
        system, query = key
        queries = []
        for _, name in self._by_question.get(_folded(self._text_cell(entry, "question")), ()):
            queries.append(name)
        if queries and query not in queries:
            problem = f"the question is that of '{queries[0]}' in the run, and the id '{query}'"
            raise entry.error(problem, allowed="ids of the run, or no column of ids")
        answer = _folded(split_reasoning(self._text_cell(entry, "answer"))[1])
        if answer and key in self.run.answers and not self._has_answer(key, answer):
            raise _unknown(entry, f"'{system}' has another answer to '{query}' than this row")

    def _text_cell(self, entry: Entry, part: str) -> str:
        """Return the text in a column of a part; empty for another value and without a column."""
        column = self._column(entry, part)
        value = None if column is None or column in self.labels else entry.values[column]
        return value if isinstance(value, str) else ""

    @cached_property
    def _by_question(self) -> dict[str, list[Key]]:
        """Folded question -> its judged answers."""
        answers: dict[str, list[Key]] = {}
        for key, item in self.run.answers.items():
            if item.question:
                answers.setdefault(_folded(item.question), []).append(key)
        return answers

    def _by_texts(self, entry: Entry) -> Key:
        """Return the answer with the question, system and answer of a row."""
        question = self._text(entry, "question")
        if not question:
            raise entry.error(
                f"no query id and no question (columns: {', '.join(entry.values)})",
                allowed="query_id or question, or --column question=COLUMN",
            )
        keys = self._by_question.get(_folded(question), [])
        if not keys:
            raise _unknown(entry, f"the run has no question '{question[:60]}'")
        if self._column(entry, "system") is not None:
            system = self._system(entry)
            keys = [key for key in keys if key[0] == system]
        # a run without texts of answers is searched by question and system
        if (column := self._column(entry, "answer")) is not None:
            answer = _folded(split_reasoning(self._text(entry, "answer"))[1])
            keys = [key for key in keys if self._has_answer(key, answer)]
            if not keys:
                raise _unknown(
                    entry, f"no judged answer to '{question[:60]}' is that of '{column}'"
                )
        if len(keys) != 1:
            raise entry.error(
                f"{_names(keys)} fit the question '{question[:60]}'",
                allowed="a column system, or a column query_id, that tells them apart",
            )
        return keys[0]

    def _has_answer(self, key: Key, answer: str) -> bool:
        """Return True if a judged answer has this folded text, or if the run holds no text."""
        text = self.run.answers[key].answer
        return text is None or _folded(text) == answer


def _unknown(entry: Entry, problem: str) -> DataError:
    """Return the error for a row that is about no judged answer."""
    return entry.error(problem, allowed="the table that was judged, or a new run over this one")


def _names(keys: Sequence[Key]) -> str:
    """Return the number of answers with the ids of the first ones."""
    first = ", ".join(f"{query} of {system}" for system, query in keys[:3])
    return f"{len(keys)} answers ({first})" if keys else "0 answers"


def _folded(text: str) -> str:
    """Return a text with every run of white space as one blank."""
    return " ".join(text.split())
