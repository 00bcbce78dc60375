"""Histories: `ragbench.history/1`, JSON lines, one with the scores of each run that was appended.

A line is what a baseline file holds, with the id of the run, and stands by itself. The first one
is the record; all others are of the same data and queries. A file grows by whole lines only: it is
written anew beside the old one and renamed, while others wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ragbench.data.files.rows import parse_json
from ragbench.data.runs.baseline import check_scored, format_baseline, stored_scores
from ragbench.data.runs.run_folder import to_json_line
from ragbench.data.runs.run_scores import StoredScores
from ragbench.errors import DataError
from ragbench.files import locked_beside, write_atomically
from ragbench.json_yaml import load_json
from ragbench.records.baseline import HISTORY_SCHEMA, HistoryLine
from ragbench.records.codec import from_json, kind

SUFFIX = ".jsonl"
"""How the name of a history ends; that of a baseline file does not."""
_NEW_RECORD = "a new record: ragbench baseline RUN -o FILE"
_CONFLICT = ("<<<<<<<", "=======", ">>>>>>>")


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One line of a history, read."""

    line: int
    run_id: str
    scores: StoredScores


def is_history(path: str | Path) -> bool:
    """Tell by its name whether a file is a history; it need not be there yet."""
    return Path(path).suffix == SUFFIX


def start_history(path: str | Path, scores: StoredScores) -> None:
    """Write a history of one line, the record of all later ones; an existing file is replaced."""
    _write(path, _line(path, scores))


def append_to_history(path: str | Path, scores: StoredScores) -> int | None:
    """Add a run as the last line, or as the record where the file is new.

    Returns:
        The number of the new line; None where the run is in the history already.

    Raises:
        DataError: The file is no history, or the run is of other data or queries than its record.
    """
    path = Path(path)
    if not is_history(path):
        raise DataError("not the name of a history", file=path, allowed=f"a name with {SUFFIX}")
    added = _line(path, scores)
    try:
        with locked_beside(path):
            entries = read_history(path) if path.exists() and path.stat().st_size else []
            run_id = _run_id(path, scores)
            if any(entry.run_id == run_id for entry in entries):
                return None
            number = entries[-1].line + 1 if entries else 1
            new = HistoryEntry(number, run_id, _read_line(path, number, added)[1])
            if entries and (why := _why_other(entries[0], new)):
                found = f"the record is of {why} than this run"
                raise DataError(found, file=path, line=entries[0].line, allowed=_NEW_RECORD)
            before = path.read_bytes() if entries else b""
            _write(path, before + added.encode())
            return number
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", file=path) from error


def read_history(path: str | Path) -> list[HistoryEntry]:
    """Read a history strictly: every line whole, and of the data and queries of the first one."""
    try:
        text = Path(path).read_bytes().decode("utf-8")
    except FileNotFoundError as error:
        raise DataError("no such file", file=path) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=path) from error
    except UnicodeDecodeError as error:
        raise DataError("not UTF-8", file=path, allowed="a file of ragbench baseline") from error
    entries: list[HistoryEntry] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        is_last = number == text.count("\n") + 1
        if is_last:  # no line end behind it
            found, allowed = "the line is cut off: it has no end", "whole lines: delete this one"
            raise DataError(found, file=path, line=number, allowed=allowed)
        entries.append(HistoryEntry(number, *_read_line(path, number, line)))
        if why := _why_other(entries[0], entries[-1]):
            found = f"it is of {why} than line {entries[0].line}, the record"
            allowed = "runs of the same data: delete this line"
            raise DataError(found, file=path, line=number, allowed=allowed)
        if entries[-1].run_id in {entry.run_id for entry in entries[:-1]}:
            found = f"run {entries[-1].run_id} is in an earlier line"
            raise DataError(found, file=path, line=number, allowed="each run once")
    if not entries:
        raise DataError("the history has no lines", file=path, allowed=_NEW_RECORD)
    return entries


def _run_id(path: str | Path, scores: StoredScores) -> str:
    run_id = "" if scores.summary is None else scores.summary.run_id
    if not run_id:
        raise DataError("the run has no id", file=path, allowed="the folder of a run")
    return run_id


def _line(path: str | Path, scores: StoredScores) -> str:
    check_scored(path, scores)
    head = {"schema": HISTORY_SCHEMA, "run_id": _run_id(path, scores)}
    return to_json_line({**head, **{**load_json(format_baseline(scores)), **head}}) + "\n"


def _read_line(path: str | Path, number: int, line: str) -> tuple[str, StoredScores]:
    if line.startswith(_CONFLICT):
        allowed = "the lines of both sides without the marks"
        raise DataError("conflict of a merge", file=path, line=number, allowed=allowed)
    try:
        value = parse_json(line)
    except ValueError as error:
        raise DataError(str(error), file=path, line=number) from error
    if not isinstance(value, dict) or value.get("schema") != HISTORY_SCHEMA:
        found = f"schema {value.get('schema')!r}" if isinstance(value, dict) else kind(value)
        raise DataError(f"found {found}", file=path, line=number, allowed=HISTORY_SCHEMA)
    record = from_json(HistoryLine, value, file=path, line=number)
    return record.run_id, stored_scores(record, path, number)


def _why_other(record: HistoryEntry, other: HistoryEntry) -> str | None:
    """Say what keeps two runs from being one history; None where nothing does."""
    data, theirs = record.scores.data, other.scores.data
    parts = [part for part in data if part in theirs and data[part] != theirs[part]]
    if parts:
        return f"other {_listed(parts)} (fingerprints)"
    if list(record.scores.query_ids) != list(other.scores.query_ids):
        counts = len(record.scores.query_ids), len(other.scores.query_ids)
        return f"other queries ({counts[0]}, not {counts[1]})" if counts[0] != counts[1] else (
            "queries with other ids"
        )  # fmt: skip
    return None


def _listed(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def _write(path: str | Path, text: str | bytes) -> None:
    try:
        write_atomically(Path(path), text)
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", file=path) from error
