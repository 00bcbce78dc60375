"""Columns of a table by part: `columns: {question: user_input, ...}`.

A part is what a column holds of a record: question, answer, contexts, relevant and so on. A column
may lie inside another, as in exported traces (`columns: {answer: output.text}`). The column names
that are known without `columns` stand in `types/tables.py`, for the loaders and for `ragbench
init`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ragbench.data.files.column_contents import ColumnContents
from ragbench.data.files.document_columns import DOCUMENT_PARTS, DocumentColumns
from ragbench.data.files.rows import Entry, parse_json
from ragbench.errors import DataError, OptionError, list_names
from ragbench.registry import check_allowed, nearest
from ragbench.types.column_words import (
    names_answer,
    names_output,
    names_question,
    names_reference,
)
from ragbench.types.lookups import select_in_order
from ragbench.types.tables import PARTS, columns_named, folded

_CONTEXT = "context"
# Part -> its column; parts without a column are absent.
Columns = Mapping[str, str]
# The option `columns`: part -> its column, or None for no column.
PartMap = Mapping[str, str | None]
# Part -> function that tells from the words of a column name that the column holds it.
_BY_WORDS = {
    "question": names_question,
    "reference": names_reference,
    "answer": names_answer,
}


def check_mapping(columns: Mapping[str, object], owner: str) -> None:
    """Check the option `columns` of a loader by itself, before a file is read.

    Parts with None are skipped; an empty mapping is allowed.

    Raises:
        OptionError: A part is unknown, a column is no text, or a column is named twice; `owner`
            names the loader.
    """
    check_allowed(owner, "columns", columns, PARTS)
    parts: dict[str, str] = {}
    for part, column in columns.items():
        if column is None:
            continue
        if not isinstance(column, str):
            allowed = "the name of a column, or null"
            raise OptionError(owner, f"columns.{part}", column, allowed)
        if column in parts:
            allowed = f"another column than that of {parts[column]}"
            raise OptionError(owner, f"columns.{part}", column, allowed)
        parts[column] = part


def resolve_columns(
    present: Sequence[str],
    columns: PartMap | None,
    file: object,
    contents: ColumnContents | None = None,
    doubts: list[str] | None = None,
) -> Columns:
    """Return part -> column for each part that has one, in the order of `PARTS`.

    A part that `columns` names has that column, in its case, or none for null. Every other part
    gets the free column with one of its names in `PARTS`, or else with words of its meaning. Cells
    decide whether documents are ids or texts. Case does not matter, and hyphens and blanks are as
    underscores.

    Args:
        present: The columns of the file.
        columns: Part -> column, as the user names them.
        file: For messages.
        contents: Cells of the columns; None if the names alone decide.
        doubts: Receives each ambiguity as a sentence, and the first candidate is taken. None raises
            it as an error.

    Raises:
        DataError: A named column is missing, no column has the question, or the part of a column is
            not clear.
    """
    mapping, chosen = columns or {}, dict[str, str]()
    for part, column in mapping.items():
        if column is not None:
            _check_present(column, present, part, file)
            chosen[part] = column
    # a column holds one part only
    free = [column for column in present if column not in chosen.values()]
    finder = ColumnFinder(present, contents or ColumnContents([], None))
    for part in PARTS:
        if part in mapping:
            continue
        candidates = finder.candidates(part, free)
        if len(candidates) > 1:
            _report_ambiguity(_several_columns(part, candidates, file), doubts)
        if candidates:
            chosen[part] = candidates[0]
            free.remove(candidates[0])
    # after all other parts: it depends on whether there are passages and an answer
    _place_context(chosen, free, mapping)
    # guessed grades belong to no ids, nor does a page without a file
    for part in ("grades", "page"):
        if part not in mapping and "relevant" not in chosen:
            chosen.pop(part, None)
    if "question" not in chosen and "turns" not in chosen:
        raise _no_question_error(present, file)
    if "answer" not in mapping and "reference" not in mapping:
        _check_answer(chosen, file, doubts)
    return select_in_order(chosen, PARTS)


class UnclearColumns(DataError):
    """A table whose columns do not say which parts they hold; the option `columns` names them."""


class UnclearAnswer(UnclearColumns):
    """A table of questions and answers alone: nothing tells whether the answers are gold."""


def _several_columns(part: str, candidates: Sequence[str], file: object) -> DataError:
    """Return the error on several columns that fit one part."""
    both = " and ".join(f"'{column}'" for column in candidates)
    choices = [f"columns: {{{part}: {column}}}" for column in candidates]
    problem = f"columns {both} could both be the {part}"
    return UnclearColumns(problem, file=file, allowed=f"one of them: {' or '.join(choices)}")


def _no_question_error(present: Sequence[str], file: object) -> DataError:
    """Return the error on a table without a column for the question."""
    names = ", ".join((*PARTS["question"].sure, PARTS["question"].likely[0]))
    option = "columns: {question: NAME} (init: --column question=NAME)"
    problem = f"no column with the question (columns: {list_names(present)})"
    return UnclearColumns(problem, file=file, allowed=f"one of {names}, or {option}")


def _check_answer(chosen: Columns, file: object, doubts: list[str] | None) -> None:
    """Report a column `answer` that may be gold as well as generated."""
    # a file with `question` and `answer` alone: in half of all such files the answer is gold
    outputs = {"contexts", "retrieved", "queries", "system", "standalone_question", "tool_calls"}
    lacks_output = not chosen.keys() & {"reference", *outputs}
    if chosen.get("answer", "").casefold() == "answer" and lacks_output:
        problem = "cannot tell if 'answer' is gold or generated"
        answer, question = chosen["answer"], chosen.get("question", "NAME")
        gold = f"columns: {{question: {question}, reference: {answer}}} (gold)"
        output = f"{{question: {question}, answer: {answer}}} (generated)"
        error = UnclearAnswer(problem, file=file, allowed=f"{gold} or {output}")
        _report_ambiguity(error, doubts)


class ColumnFinder:
    """Finder of the columns that may hold a part, by their names and their cells.

    `candidates(part, free)` returns the columns of `free` with a sure name of the part, or else
    with a likely one; several are an ambiguity, none is an empty list.
    """

    def __init__(self, present: Sequence[str], contents: ColumnContents) -> None:
        self._contents, self._documents = contents, DocumentColumns(present, contents)

    def candidates(self, part: str, free: Sequence[str]) -> list[str]:
        """Return the columns that may hold a part; `free` are those that hold no other part."""
        if part in DOCUMENT_PARTS:
            if columns := self._documents.candidates(part, free):
                return columns
        elif columns := columns_named(free, PARTS[part].sure):
            if part == "pool":
                return [*filter(self._contents.holds_pools, columns)]
            return [*columns, *self._rivals(part, columns, free)]
        free = [column for column in free if not self._documents.part_of(column)]
        columns = columns_named(free, PARTS[part].likely)
        if part == "relevant":
            return [c for c in columns if self._contents.holds_ids(c)]
        names_part = _BY_WORDS.get(part)
        if columns or names_part is None:
            return columns
        columns = []
        for column in free:
            if names_part(column):
                columns.append(column)
        # an output is a system's beside a column of gold answers
        if part == "answer" and not columns and any(map(names_reference, free)):
            return [column for column in free if names_output(column)]
        return columns

    def _rivals(self, part: str, columns: Sequence[str], free: Sequence[str]) -> list[str]:
        """Return other columns of gold answers if those of a sure name hold addresses or files."""
        if part != "reference" or not all(map(self._contents.are_places, columns)):
            return []
        rival_columns = columns_named(free, PARTS[part].likely)
        rivals = []
        for column in rival_columns:
            if not self._contents.are_places(column):
                rivals.append(column)
        return rivals


def _report_ambiguity(error: DataError, doubts: list[str] | None) -> None:
    """Add the text of an error to `doubts`; raise the error if `doubts` is None."""
    if doubts is None:
        raise error
    doubts.append(error.problem.found)


def _place_context(chosen: dict[str, str], free: Sequence[str], option: PartMap) -> None:
    """Add a column `context` to `chosen`, as gold passages or as retrieved ones."""
    # It is gold beside retrieved passages, as in deepeval, and in a table without answers, as in
    # SQuAD.
    columns = []
    for column in free:
        if folded(column) == _CONTEXT:
            columns.append(column)
    if not columns:
        return
    by_system = "answer" in chosen and (chosen["answer"] != "answer" or "reference" in chosen)
    if "contexts" in chosen or "answer" not in chosen:
        if "reference_contexts" not in chosen and "reference_contexts" not in option:
            chosen["reference_contexts"] = columns[0]
    elif by_system and "contexts" not in option:
        chosen["contexts"] = columns[0]


def _check_present(column: str, present: Sequence[str], part: str, file: object) -> None:
    """Raise a `DataError` with the nearest name unless a named column is in the table."""
    if column not in present:
        problem = f"no column '{column}' (columns: {list_names(present)})"
        close = nearest(column, present)
        raise DataError(problem, file=file, record=f"columns.{part}", nearest=close)


def with_paths(entries: Sequence[Entry], columns: PartMap) -> Sequence[Entry]:
    """Return the rows with a further column for each path that `columns` names, as `output.text`.

    A path is keys and numbers of list items, joined by dots; keys may hold dots themselves, and
    objects may be written as JSON. A column with the whole name comes first. Without such a path
    `entries` is returned as it is. Rows without the path have None; a path that no row has is left
    for `resolve_columns` to refuse.
    """
    paths = []
    for column in columns.values():
        if column is None or "." not in column or any(column in e.values for e in entries):
            continue
        if any(value_at(entry.values, column) is not None for entry in entries):
            paths.append(column)
    if not paths:
        return entries
    extended = []
    for entry in entries:
        further = {path: value_at(entry.values, path) for path in paths}
        extended.append(replace(entry, values=entry.values | further))
    return extended


def value_at(value: Any, path: str | None) -> Any:
    """Return the value at a path of keys and list positions; None where the path leads nowhere.

    An empty path or None returns the value itself. A null at the end of the path is None as well.
    Texts that begin like JSON are parsed on the way.

    Example:
        >>> value_at({"a.b": [1, '{"c": 2}']}, "a.b.1.c")
        2
    """
    if not path:
        return value
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        with suppress(ValueError):
            value = parse_json(value)
    if isinstance(value, list):
        head, _, tail = path.partition(".")
        return value_at(value[int(head)], tail) if head in map(str, range(len(value))) else None
    if not isinstance(value, Mapping):
        return None
    # the longest key comes first: keys may hold dots themselves
    head, dot = path, "."
    while dot:
        part = value.get(head)
        # most paths of an export lead nowhere, which one look for each key tells
        inner = None if part is None else value_at(part, path[len(head) + 1 :])
        if inner is not None:
            return inner
        head, dot, _ = head.rpartition(".")
    return None
