"""Files of SQLite: what is refused, and that a transaction is whole or absent."""

import errno
import os
import sqlite3
import sys

import pytest

from ragbench.errors import DataError
from ragbench.store import kinds
from ragbench.store.database import open_database, open_shared
from ragbench.store.kinds import FileKind, NetworkCache

NOTES = FileKind("store of notes", "notes", "text TEXT", 1, 2, "its notes are written again")


def _insert(connection, *tables):
    for table in tables:
        connection.execute(f"INSERT INTO {table} VALUES ('a')")


def test_a_block_that_fails_writes_nothing(tmp_path):
    file = open_database(tmp_path / "notes.sqlite", NOTES)
    with pytest.raises(DataError, match="no such table"):
        file.write(lambda connection: _insert(connection, "notes", "nowhere"))
    file.write(lambda connection: connection.execute("INSERT INTO notes VALUES ('b')"))
    file.close()

    shared = open_shared(tmp_path / "notes.sqlite", NOTES)
    query = "SELECT text FROM notes"
    assert shared.use(lambda connection: connection.execute(query).fetchall()) == [("b",)]
    shared.close()


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        pytest.param(["CREATE TABLE t (x)"], "is a database, but no store of notes", id="other"),
        pytest.param(
            ["PRAGMA application_id=1", "PRAGMA user_version=3"],
            r"written by a newer ragbench \(schema 3\); allowed: schema 2",
            id="newer",
        ),
    ],
)
def test_files_of_others_are_refused(tmp_path, statements, message):
    path = tmp_path / "other.sqlite"
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.close()

    with pytest.raises(DataError, match=message):
        open_database(path, NOTES)


def test_what_is_no_database_says_what_to_do(tmp_path):
    path = tmp_path / "text.sqlite"
    path.write_bytes(b"no database at all, but long enough to be read as one" * 100)

    with pytest.raises(DataError, match=r"text.sqlite: is damaged .* move it away; its notes are"):
        open_database(path, NOTES)


def test_a_folder_that_cannot_be_made_is_an_error_that_names_the_file(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(DataError, match=r"n.sqlite: cannot be used as a store of notes"):
        open_database(tmp_path / "file" / "n.sqlite", NOTES)


def test_several_machines_share_no_write_ahead_log(tmp_path, monkeypatch):
    """One that a local disk had is folded in, and nothing of it is lost."""
    path = tmp_path / "notes.sqlite"
    with open_database(path, NOTES) as file:
        file.write(lambda connection: connection.execute("INSERT INTO notes VALUES ('b')"))
        (mode,) = file.use(lambda connection: connection.execute("PRAGMA journal_mode").fetchone())
    assert mode == "wal"
    (tmp_path / "mounts").write_text(f"disk / ext4 rw 0 0\nserver:/ {tmp_path} nfs4 rw 0 0\n")
    monkeypatch.setattr("ragbench.files.MOUNTS", tmp_path / "mounts")
    monkeypatch.setattr(kinds, "_told", set())

    with pytest.warns(NetworkCache, match=r"network file system \(nfs4\).*cache_also") as told:
        opened = [open_database(path, NOTES) for _ in range(2)]
    for number, file in enumerate(opened):
        (mode,) = file.use(lambda connection: connection.execute("PRAGMA journal_mode").fetchone())
        assert mode == "delete"
        file.write(lambda c, n=number: c.execute("INSERT INTO notes VALUES (?)", [str(n)]))
    assert len(opened[0]) == 3
    for file in opened:
        file.close()
    assert len(told) == 1, "once for a folder"


@pytest.mark.skipif(sys.platform == "win32", reason="locks of POSIX")
def test_a_file_system_without_locks_is_refused(tmp_path, monkeypatch):
    def refuse(file, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", refuse)

    with pytest.raises(DataError, match=r"notes\.sqlite: .*No locks available"):
        open_database(tmp_path / "notes.sqlite", NOTES)
