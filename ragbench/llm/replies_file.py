"""The SQLite file under a reply store: what is in it, and how damage shows."""

from __future__ import annotations

import hashlib

from ragbench.database import FileKind

REPLIES = FileKind(
    noun="store of replies",
    table="replies",
    columns="""
    key TEXT PRIMARY KEY,
    model TEXT NOT NULL,
    reply BLOB NOT NULL,
    checksum BLOB NOT NULL,
    stored_at REAL NOT NULL
""",
    application_id=0x52414742,  # 'RAGB'
    version=1,
    remedy="its replies will be asked for again",
    survives_power_cut=True,  # a reply that was paid for
)


def checksum(key: str, packed: bytes) -> bytes:
    """Return what tells a damaged row from a whole one."""
    return hashlib.blake2b(packed, key=key.encode()[:64], digest_size=16).digest()
