"""What the SQLite files of a cache are for: their tables, checksums and names in messages."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field


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
