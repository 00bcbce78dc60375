"""What the SQLite files of a cache are for: tables, checksums, names in messages, journals."""

from __future__ import annotations

import hashlib
import sqlite3
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ragbench.files import network_file_system

_told: set[Path] = set()


class NetworkCache(UserWarning):
    """A cache on a network file system, which several machines must not write at once."""


@dataclass(frozen=True, slots=True)
class FileKind:
    """What a database file is for."""

    noun: str
    """How messages name it: `store of replies`."""
    table: str
    columns: str
    application_id: int
    """Tells its files from those of others."""
    version: int
    remedy: str
    content: str = ""
    """The column that a row's checksum is of; empty where rows have none, and none is salvaged."""
    rows: str = "rows"
    """How messages name what it holds: `replies`."""
    newest: str = ""
    """The column by which the later of two salvaged states of a row counts; empty: any does."""
    checksum_bytes: int = 16
    page_bytes: int = 4096
    """Size of a page: rows that nearly fill one leave the rest of it empty."""
    survives_power_cut: bool = True
    """Whether a commit waits for the disk; without it, a power cut may lose the last ones."""
    further: Mapping[str, str] = field(default_factory=dict)
    """Further tables with their columns; files of older versions get them when they are opened."""

    def checksum(self, key: str | bytes, content: bytes) -> bytes:
        """Return what tells a damaged row from a whole one, and from the row of another key."""
        name = (key.encode("utf-8", "surrogateescape") if isinstance(key, str) else key)[
            :64
        ]  # the longest that BLAKE2 takes
        return hashlib.blake2b(content, key=name, digest_size=self.checksum_bytes).digest()

    def fits(self, key: object, content: object, checksum: object) -> bool:
        """Return whether a row is whole, as it was read from a file that may be damaged."""
        if not isinstance(key, (str, bytes)) or not isinstance(content, bytes):
            return False
        return self.checksum(key, content) == checksum

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.split()[0] for column in self.columns.split(","))


def use_journal(connection: sqlite3.Connection, path: Path, patience_s: float) -> None:
    """Keep changes in a write-ahead log; in a rollback journal on a network file system.

    The log needs memory that its readers and writers share, which machines do not: SQLite says
    that it does not work there. Several processes that switch a fresh file at once may be told
    'database is locked' at once, whatever the timeout (SQLite 3.40): as often as it takes. Where
    the file system has no log, the old mode stays.

    References:
        https://www.sqlite.org/wal.html, https://www.sqlite.org/useovernet.html
    """
    network, deadline = network_file_system(path), time.monotonic() + patience_s
    if network is not None and path.parent not in _told:
        _told.add(path.parent)
        text = (
            f"{path.parent} lies on a network file system ({network}): one machine at a time may "
            "write there; give each its own folder and join them by cache_also (see docs/scale.md)"
        )
        warnings.warn(NetworkCache(text), stacklevel=2)
    mode = "WAL" if network is None else "DELETE"
    while True:
        try:
            connection.execute(f"PRAGMA journal_mode={mode}")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
