"""Which column of a table plays which part: `columns: {question: user_input, ...}`.

A column may lie inside another, as in exported traces (`columns: {answer: output.text}`), and some
parts may have several columns (`columns: {relevant: [doc_1, doc_2]}`). The names that are
understood without being told stand here once, for the loaders and for `ragbench init`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any

from ragbench.data.files.rows import Entry, parse_json
from ragbench.errors import DataError, OptionError
from ragbench.registry import check_allowed, nearest
from ragbench.types.tables import PARTS, SEVERAL, columns_named, folded

_Values = dict[str, Any]

_CONTEXT = "context"
# Columns that tell the RAGBench data set, whose passages are its `documents`.
_RAGBENCH = {"documents", "documents_sentences", "response"}
# Part -> the column that plays it; parts that no column plays are absent.
Columns = Mapping[str, str]
# What `columns:` says: part -> its column, its columns, or none.
Named = Mapping[str, str | Sequence[str] | None]


def check_mapping(columns: Named, owner: str) -> None:
    """Check the option `columns` by itself, without a file."""
    check_allowed(owner, "columns", columns, PARTS)
    players: dict[str, str] = {}
    for part, named in columns.items():
        if named is None:
            continue
        several = part in SEVERAL and isinstance(named, (list, tuple)) and bool(named)
        for column in named if several else [named]:
            if not isinstance(column, str):
                names = ", a list of names" if part in SEVERAL else ""
                allowed = f"the name of a column{names}, or null"
                raise OptionError(owner, f"columns.{part}", column, allowed)
            if column in players:
                allowed = f"another column than that of {players[column]}"
                raise OptionError(owner, f"columns.{part}", column, allowed)
            players[column] = part


def several_columns(
    present: Sequence[str],
    columns: Named | None,
    holds_ids: Callable[[str], bool] = lambda column: False,
) -> Named:
    """Add to `columns` the parts that several columns play without being named.

    Their names differ in a number at the end alone, and are names of the part before it:
    `source_doc_1`, `source_doc_2`. Likely names of `relevant` need `holds_ids` of one column.
    """
    mapping = dict(columns or {})
    for part in SEVERAL:
        if part not in mapping and (group := _numbered(part, present, mapping, holds_ids)):
            mapping[part] = group
    return mapping


def join_columns(
    entries: Sequence[Entry], columns: Named
) -> tuple[Sequence[Entry], dict[str, str | None]]:
    """Make one column, a list, of the several that play one part; say how it is called."""
    present = list(dict.fromkeys(key for entry in entries for key in entry.values))
    groups: list[Sequence[str]] = []
    names: dict[str, str | None] = {}
    for part, value in columns.items():
        if value is None or isinstance(value, str):
            names[part] = value
            continue
        for column in value:
            _require(column, present, part, entries[0].file if entries else None)
        groups.append(value)
        names[part] = " + ".join(value)
    if groups:
        entries = [replace(e, values=_with_joined(e.values, groups)) for e in entries]
    return entries, names


def _numbered(
    part: str, present: Sequence[str], mapping: Named, holds_ids: Callable[[str], bool]
) -> list[str]:
    """Return columns `name_1, name_2, ...` of a part whose name alone no column has."""
    used = set(_columns_in(mapping))
    sure = set(map(folded, PARTS[part].sure))
    names = sure.union(map(folded, PARTS[part].likely))
    alone = [column for column in present if folded(column) in names]
    if any(part != "relevant" or folded(name) in sure or holds_ids(name) for name in alone):
        return []
    groups: dict[str, list[str]] = {}
    for column in present:
        stem = re.sub(r"_?\d+$", "", folded(column))
        if column not in used and stem != folded(column) and stem in names:
            groups.setdefault(stem, []).append(column)
    for stem, group in groups.items():
        certain = part != "relevant" or stem in sure or any(map(holds_ids, group))
        if len(group) > 1 and certain:
            return group
    return []


def _with_joined(values: _Values, groups: Sequence[Sequence[str]]) -> _Values:
    values = dict(values)
    for group in groups:
        cells = [values.pop(column, None) for column in group]
        filled = [cell for cell in cells if cell is not None and str(cell).strip()]
        values[" + ".join(group)] = list(
            chain.from_iterable(cell if isinstance(cell, list) else [cell] for cell in filled)
        )
    return values


def resolve_columns(
    present: Sequence[str],
    columns: Mapping[str, str | None] | None,
    file: object,
    holds_ids: Callable[[str], bool] = lambda column: False,
    doubts: list[str] | None = None,
) -> Columns:
    """Say which column plays which part.

    A part that `columns` names is played by that column, or by none where it says null; every
    other part by a column of its names.

    Args:
        present: The columns of the file.
        columns: Part -> column, as the user says it.
        file: For messages.
        holds_ids: Whether the corpus knows what stands in a column.
        doubts: Where a guess is wanted: what else could be meant is added here, and not raised.

    Raises:
        DataError: No column has the question, or what a column means cannot be told.
    """
    mapping = columns or {}
    chosen = {part: column for part, column in mapping.items() if column is not None}
    for part, column in chosen.items():
        _require(column, present, part, file)
    free = [column for column in present if column not in chosen.values()]
    for part in PARTS:
        players = [] if part in mapping else _players(part, free, present, holds_ids)
        if len(players) > 1:
            both = " and ".join(f"'{column}'" for column in players)
            allowed = f"one of them: columns: {{{part}: {players[0]}}}"
            found = f"columns {both} could both be the {part}"
            _doubt(DataError(found, file=file, allowed=allowed), doubts)
        if players:
            chosen[part] = players[0]
            free.remove(players[0])
    _place_context(chosen, free, mapping)
    if "grades" in chosen and "grades" not in mapping and "relevant" not in chosen:
        del chosen["grades"]
    if "question" not in chosen and "turns" not in chosen:
        names = ", ".join((*PARTS["question"].sure, PARTS["question"].likely[0]))
        option = "columns: {question: NAME} (of init: --column question=NAME)"
        found = f"no column with the question (columns: {', '.join(present)})"
        raise DataError(found, file=file, allowed=f"one of {names}, or {option}")
    # refuse `question` with `answer` alone: in half of all files it is gold
    is_decided = "answer" in mapping or "reference" in mapping
    of_systems = {"contexts", "queries", "system", "standalone_question", "tool_calls"}
    is_alone = not chosen.keys() & {"reference", *of_systems}
    if chosen.get("answer", "").casefold() == "answer" and is_alone and not is_decided:
        found = "cannot tell whether the column 'answer' is gold or generated"
        answer, question = chosen["answer"], chosen.get("question", "NAME")
        gold = f"columns: {{question: {question}, reference: {answer}}} where it is gold"
        output = f"columns: {{question: {question}, answer: {answer}}} where a system wrote it"
        _doubt(DataError(found, file=file, allowed=f"{gold}, {output}"), doubts)
    return {part: chosen[part] for part in PARTS if part in chosen}


def _players(
    part: str, free: Sequence[str], present: Sequence[str], holds_ids: Callable[[str], bool]
) -> list[str]:
    """Return the columns that may play a part: by its sure names, or else by its likely names."""
    ragbench = set(present) >= _RAGBENCH
    if part == "contexts" and ragbench:
        return ["documents"] if "documents" in free else []
    names = PARTS[part]
    if players := columns_named(free, names.sure):
        return players
    players = columns_named(free, names.likely)
    if part != "relevant":
        return players
    return [column for column in players if not ragbench and holds_ids(column)]


def _doubt(error: DataError, doubts: list[str] | None) -> None:
    if doubts is None:
        raise error
    doubts.append(error.problem.found)


def _place_context(found: dict[str, str], free: Sequence[str], named: Named) -> None:
    """A column `context` holds what was retrieved, or what should have been.

    It is gold beside retrieved passages, as in deepeval, and where no system says anything, as in
    SQuAD; it was retrieved where an answer is certainly a system's. Else it is left alone.
    """
    columns = [column for column in free if folded(column) == _CONTEXT]
    if not columns:
        return
    by_system = "answer" in found and (found["answer"] != "answer" or "reference" in found)
    if "contexts" in found or "answer" not in found:
        if "reference_contexts" not in found and "reference_contexts" not in named:
            found["reference_contexts"] = columns[0]
    elif by_system and "contexts" not in named:
        found["contexts"] = columns[0]


def _require(column: str, present: Sequence[str], part: str, file: object) -> None:
    if column not in present:
        what = f"no column '{column}' (columns: {', '.join(present)})"
        close = nearest(column, present)
        raise DataError(what, file=file, record=f"columns.{part}", nearest=close)


def with_paths(entries: Sequence[Entry], columns: Named) -> Sequence[Entry]:
    """Return the rows with a column of its own for each path that `columns` names.

    A path is keys and numbers of list items, joined by dots; keys may hold dots themselves, and
    objects may be written as JSON. A column that has the whole name
    comes first; where some row has the path, rows without it have null there.
    """
    paths = [
        column
        for column in _columns_in(columns)
        if "." in column
        and not any(column in entry.values for entry in entries)
        and any(value_at(entry.values, column) is not None for entry in entries)
    ]
    if not paths:
        return entries
    return [
        replace(entry, values=entry.values | {path: value_at(entry.values, path) for path in paths})
        for entry in entries
    ]


def _columns_in(mapping: Named) -> Iterator[str]:
    """Yield the columns that `columns` names."""
    for value in mapping.values():
        yield from [value] if isinstance(value, str) else value or ()


def value_at(value: Any, path: str | None) -> Any:
    """Return the value at a path, the value itself without one; None where the path leads nowhere.

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
        step, _, rest = path.partition(".")
        return value_at(value[int(step)], rest) if step in map(str, range(len(value))) else None
    if not isinstance(value, Mapping):
        return None
    steps = path.split(".")
    # the longest key comes first: keys may hold dots themselves
    for n in range(len(steps), 0, -1):
        inner = value_at(value.get(".".join(steps[:n])), ".".join(steps[n:]))
        if inner is not None:
            return inner
    return None
