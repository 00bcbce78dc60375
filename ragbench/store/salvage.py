"""The whole rows of a damaged file: those whose checksum fits, wherever they stand in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from ragbench.store.kinds import FileKind
from ragbench.store.pages import MAGIC, records


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
