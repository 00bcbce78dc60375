"""A look into the SQLite files of a cache, and changes that no code of ours makes."""

import sqlite3
from contextlib import closing
from pathlib import Path

from ragbench.store.database import CACHE_FILE


def query(path: Path, statement: str, values=()) -> list[tuple]:
    """Return the rows of a statement, which may also change some."""
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(statement, values).fetchall()


def items(folder: Path, kind: str) -> list[tuple[str, str, bytes]]:
    """Return key, item and blob of all stored items of a kind."""
    path = folder / CACHE_FILE
    if not path.exists():
        return []
    return query(path, "SELECT key, item, blob FROM rows WHERE kind = ? ORDER BY rowid", [kind])


def damage(path: Path, where: str = "1", values=()) -> None:
    """Flip a bit of the blob of some rows."""
    for number, blob in query(path, f"SELECT rowid, blob FROM rows WHERE {where}", values):
        flipped = bytes([blob[0] ^ 4]) + blob[1:]
        query(path, "UPDATE rows SET blob = ? WHERE rowid = ?", [flipped, number])


def forge(path: Path, where: str, blob: bytes, values=()) -> None:
    """Put another blob with a right checksum into some rows."""
    from ragbench.store.sqlite_file import checksum

    for number, kind, item in query(
        path, f"SELECT rowid, kind, item FROM rows WHERE {where}", values
    ):
        row = [blob, checksum(kind, item, blob), number]
        query(path, "UPDATE rows SET blob = ?, checksum = ? WHERE rowid = ?", row)
