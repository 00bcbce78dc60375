"""The whole rows of a damaged file: those whose checksum fits, wherever they stand in it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

from ragbench.store.kinds import FileKind
from ragbench.store.pages import MAGIC, log_of, records


def is_ours(path: Path, kind: FileKind) -> bool:
    """Return whether a file was made for this kind, as far as its damage lets that be seen."""
    with path.open("rb") as stream:
        head = stream.read(max(kind.page_bytes, 4096))
    if len(head) < 100:  # cut off before it said whose it is
        return MAGIC.startswith(head[: len(MAGIC)])
    made = f"CREATE TABLE {kind.table} ({kind.columns})".encode()
    if int.from_bytes(head[68:72], "big") == kind.application_id or made in head:
        return True
    return any(True for _ in whole_rows(path, kind, set()))


def salvage(path: Path, kind: FileKind, into: sqlite3.Connection) -> tuple[int, int]:
    """Write the whole rows of a file into a database that has its tables, all empty.

    Returns how many they are, and how many keys were seen without a whole row.
    """
    marks = ", ".join("?" * len(kind.names))
    updates = ", ".join(f"{name} = excluded.{name}" for name in kind.names)
    later = f"UPDATE SET {updates} WHERE excluded.{kind.newest} > {kind.newest}"
    statement = f"INSERT INTO {kind.table} VALUES ({marks}) ON CONFLICT (key) DO "
    seen: set[object] = set()
    into.execute("BEGIN")
    into.executemany(
        statement + (later if kind.newest else "NOTHING"), whole_rows(path, kind, seen)
    )
    into.execute("COMMIT")
    kept = into.execute(f"SELECT count(*) FROM {kind.table}").fetchone()[0]
    return int(kept), len(seen) - int(kept)


def whole_rows(path: Path, kind: FileKind, seen: set[object]) -> Iterator[tuple[object, ...]]:
    """Yield the rows whose checksum fits; the keys of all rows and index entries go to `seen`."""
    names = kind.names
    key, content, checksum = (names.index(name) for name in ("key", kind.content, "checksum"))
    for record in records(path, kind.page_bytes):
        values = record.values
        if not record.in_table and len(values) == 2 and isinstance(values[1], int):
            seen.add(values[0])
        elif record.in_table and len(values) == len(names):
            seen.add(values[key])
            if kind.fits(values[key], values[content], values[checksum]):
                yield values


def keep_aside(path: Path, connection: sqlite3.Connection) -> Path:
    """Give a damaged file with its log another name, which is returned; it may keep the old one.

    `connection` is ours to it, which Windows wants closed.
    """
    aside = _aside(path)
    log, index = log_of(path), path.with_name(f"{path.name}-shm")
    if sys.platform == "win32":  # no open file is moved there, and closing may remove the log
        for each, copy in ((log, log_of(aside)), (path, aside)):
            if each.exists():
                shutil.copyfile(each, copy)
        connection.close()
    # the log goes first: SQLite would apply one that is left behind to the new file
    elif log.exists():
        log.rename(log_of(aside))
    log.unlink(missing_ok=True)
    index.unlink(missing_ok=True)
    if not aside.exists():
        try:
            os.link(path, aside)
        except OSError:  # no hard links here: for a moment there is no file
            path.rename(aside)
    return aside


def _aside(path: Path) -> Path:
    """A name for a damaged file, beside it, which is not in use."""
    number = 1
    while True:
        found = path.with_name(f"{path.stem}.damaged-{number}{path.suffix}")
        if not found.exists() and not log_of(found).exists():
            return found
        number += 1
