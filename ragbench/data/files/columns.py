"""Which column of a records file plays which part: `columns: {question: user_input, ...}`.

A column may lie inside another, as in exported traces: `columns: {answer: output.text}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragbench.data.files.jsonl import Entry
from ragbench.errors import DataError, OptionError
from ragbench.registry import nearest

USUAL_NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("id",),
    "question": ("question", "user_input", "input"),
    "contexts": ("contexts", "retrieved_contexts", "retrieval_context"),
    "answer": ("answer", "response", "actual_output"),
    "reference": ("reference", "expected_output"),
    "queries": ("queries",),
    "system": ("system",),
}
"""Part -> the names understood without `columns`: ours, those of ragas, those of deepeval."""

_RAGBENCH = {"documents", "documents_sentences", "response"}
"""Columns that tell the RAGBench data set, whose passages are its `documents`."""

Columns = Mapping[str, str]
"""Part -> the column that plays it; parts that no column plays are absent."""


def check_mapping(columns: Mapping[str, str | None], owner: str) -> None:
    """Check the option `columns` by itself, without a file.

    Raises:
        OptionError: An unknown part, a name that is no text, or a column with two parts.
    """
    players: dict[str, str] = {}
    for part, column in columns.items():
        if part not in USUAL_NAMES:
            close = nearest(str(part), USUAL_NAMES)
            raise OptionError(owner, "columns", part, ", ".join(USUAL_NAMES), close)
        if column is None:
            continue
        if not isinstance(column, str):
            raise OptionError(owner, f"columns.{part}", column, "the name of a column, or null")
        if column in players:
            allowed = f"another column than that of {players[column]}"
            raise OptionError(owner, f"columns.{part}", column, allowed)
        players[column] = part


def resolve_columns(
    present: Sequence[str], columns: Mapping[str, str | None] | None, file: object
) -> Columns:
    """Say which column plays which part.

    A part that `columns` names is played by that column, or by none where it says null; every
    other part by a column of its usual names.

    Raises:
        DataError: A named column is absent, two columns could play a part, there is no question,
            or it is unclear whether `answer` is gold or generated.
    """
    named = columns or {}
    found = {part: column for part, column in named.items() if column is not None}
    for part, column in found.items():
        if column not in present:
            raise DataError(
                f"no column '{column}' (columns: {', '.join(present)})",
                file=file,
                record=f"columns.{part}",
                nearest=nearest(column, present),
            )
    free = [column for column in present if column not in found.values()]
    for part, names in USUAL_NAMES.items():
        if part in named:
            continue
        if part == "contexts" and set(present) >= _RAGBENCH:
            names = ("documents",)
        players = [column for column in names if column in free]
        if len(players) > 1:
            both = " and ".join(f"'{column}'" for column in players)
            allowed = f"one of them: columns: {{{part}: {players[0]}}}"
            raise DataError(f"columns {both} could both be the {part}", file=file, allowed=allowed)
        if players:
            found[part] = players[0]
    _require_question(found, present, file)
    _refuse_bare_answer(found, named, file)
    return {part: found[part] for part in USUAL_NAMES if part in found}


def _require_question(found: Columns, present: Sequence[str], file: object) -> None:
    if "question" not in found:
        names = ", ".join(USUAL_NAMES["question"])
        raise DataError(
            f"no column with the question (columns: {', '.join(present)})",
            file=file,
            allowed=f"one of {names}, or columns: {{question: NAME}}",
        )


def _refuse_bare_answer(found: Columns, named: Mapping[str, str | None], file: object) -> None:
    """Refuse `question` with `answer` alone: in half of all files it is gold."""
    decided = "answer" in named or "reference" in named
    alone = not found.keys() & {"reference", "contexts", "queries", "system"}
    if found.get("answer") == "answer" and alone and not decided:
        question = found["question"]
        raise DataError(
            "cannot tell whether the column 'answer' is gold or generated",
            file=file,
            allowed=(
                f"columns: {{question: {question}, reference: answer}} where it is gold, "
                f"columns: {{question: {question}, answer: answer}} where a system wrote it"
            ),
        )


def with_paths(entries: Sequence[Entry], columns: Mapping[str, str | None]) -> Sequence[Entry]:
    """Return the rows with a column of its own for each path that `columns` names.

    A path is keys and numbers of list items, joined by dots. A column that has the whole name
    comes first; where some row has the path, rows without it have null there.

    Example:
        >>> row = Entry("x", 1, {"outputs": {"documents": [{"text": "Io"}], "answer": "yes"}})
        >>> columns = {"answer": "outputs.answer", "contexts": "outputs.documents.0"}
        >>> [found] = with_paths([row], columns)
        >>> found.values["outputs.answer"], found.values["outputs.documents.0"]
        ('yes', {'text': 'Io'})
    """
    paths = [
        column
        for column in columns.values()
        if column is not None
        and "." in column
        and not any(column in entry.values for entry in entries)
        and any(_found(entry.values, column) is not None for entry in entries)
    ]
    if not paths:
        return entries
    return [
        replace(entry, values=entry.values | {path: _found(entry.values, path) for path in paths})
        for entry in entries
    ]


def _found(value: Any, path: str) -> Any:
    """What a path leads to; None where it leads nowhere."""
    for step in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value
