"""No waiting for the disk: a test cannot lose power, and the waits add up to minutes."""

from __future__ import annotations

import os
import sqlite3
from functools import partial
from typing import IO, Any


class QuickConnection(sqlite3.Connection):
    """A connection to SQLite that leaves writing to the operating system."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Run a statement; a request to wait for the disk becomes one not to wait."""
        return super().execute(
            "PRAGMA synchronous=OFF" if sql.startswith("PRAGMA synchronous=") else sql, parameters
        )


connect = partial(sqlite3.connect, factory=QuickConnection)


def fsync(file: int | IO[Any]) -> None:
    """Check that a file is open, as `os.fsync` does, and wait for nothing."""
    os.fstat(file if isinstance(file, int) else file.fileno())
