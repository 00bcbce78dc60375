"""The SQLite files of a cache: files of others, network file systems, locks, replaced files."""

import errno
import os
import sqlite3
from functools import partial

import pytest

from ragbench.errors import DataError
from ragbench.store import sqlite_file
from ragbench.store.database import Store
from ragbench.store.sqlite_file import DamagedCache, NetworkCache
from tests.store.rows import query


def put(path, **blobs):
    store = Store(path)
    store.put("kind", "key", {item: blob.encode() for item, blob in blobs.items()})
    store.close()


def get(path, *items, also=()):
    store = Store(path, also)
    blobs = {item: blob.decode() for item, blob in store.find("kind", "key", items)}
    store.close()
    return blobs


@pytest.mark.parametrize("since", [0.0, 1e12])
def test_a_row_stays_where_it_is_new_enough(tmp_path, since):
    store = Store(tmp_path / "c.sqlite")
    store.put("kind", "key", {"a": b"first"})

    stayed = store.put("kind", "key", {"a": b"second", "b": b"new"}, since=since)

    expected = b"second" if since else b"first"
    assert stayed == ({} if since else {"a": b"first"})
    assert dict(store.find("kind", "key", ["a", "b"])) == {"a": expected, "b": b"new"}
    assert store.get("kind", "key", "a", since=1e12) is None
    store.close()


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        pytest.param(["CREATE TABLE t (x)"], "is a database, but no cache", id="other"),
        pytest.param(
            ["CREATE TABLE t (x)", "PRAGMA application_id=1380009794", "PRAGMA user_version=9"],
            r"written by another version of ragbench \(schema 9\); allowed: schema 3",
            id="another version",
        ),
    ],
)
def test_databases_of_others_are_refused_and_stay(tmp_path, statements, message):
    path = tmp_path / "other.sqlite"
    for statement in statements:
        query(path, statement)
    old_bytes = path.read_bytes()

    with pytest.raises(DataError, match=message):
        get(path, "a")
    with pytest.raises(DataError, match=message):
        put(path, a="1")
    assert path.read_bytes() == old_bytes
    assert [file.name for file in tmp_path.iterdir()] == ["other.sqlite"]


def test_a_file_that_is_no_database_says_what_to_do_and_stays(tmp_path, assert_message):
    path = tmp_path / "text.sqlite"
    path.write_bytes(b"no database at all, but long enough to be read as one" * 100)

    with pytest.raises(DataError) as error:
        put(path, a="1")
    assert_message(error.value, "TMP/text.sqlite")
    assert [file.name for file in tmp_path.iterdir()] == ["text.sqlite"]


def test_a_further_file_that_cannot_be_used_is_named_and_left_out(tmp_path, assert_message):
    bad, good = tmp_path / "bad.sqlite", tmp_path / "good.sqlite"
    bad.write_bytes(b"no database" * 9)
    put(good, a="1")

    with pytest.warns(DamagedCache) as warned:
        assert get(tmp_path / "own.sqlite", "a", also=[bad, good]) == {"a": "1"}
    assert_message([warning.message for warning in warned])


def test_a_file_that_is_removed_or_replaced_under_a_store_is_opened_again(tmp_path):
    path, other = tmp_path / "c.sqlite", tmp_path / "other.sqlite"
    put(other, b="2")
    store = Store(path)
    store.put("kind", "key", {"a": b"1"})
    for end in ("", "-wal", "-shm"):
        path.with_name(f"c.sqlite{end}").unlink()
    assert store.get("kind", "key", "a") is None
    store.put("kind", "key", {"a": b"3"})
    assert get(path, "a") == {"a": "3"}
    for end in ("-wal", "-shm"):
        path.with_name(f"c.sqlite{end}").unlink(missing_ok=True)
    other.replace(path)

    assert store.get("kind", "key", "b") == b"2"
    store.close()
    assert get(path, "a", "b") == {"b": "2"}


def test_several_machines_share_no_write_ahead_log(tmp_path, monkeypatch, assert_message):
    # The log of a local disk is folded in, and nothing of it is lost.
    path = tmp_path / "notes.sqlite"
    put(path, a="1")
    assert query(path, "PRAGMA journal_mode") == [("wal",)]
    # the mount table of a machine whose cache lies on a file server
    (tmp_path / "mounts").write_text(f"disk / ext4 rw 0 0\nserver:/ {tmp_path} nfs4 rw 0 0\n")
    monkeypatch.setattr("ragbench.files.MOUNTS", tmp_path / "mounts")
    monkeypatch.setattr(sqlite_file, "_network_folders", set())

    with pytest.warns(NetworkCache) as warned:
        put(path, b="2")
    assert_message([warning.message for warning in warned])
    put(path, c="3")
    assert query(path, "PRAGMA journal_mode") == [("delete",)]
    assert get(path, "a", "b", "c") == {"a": "1", "b": "2", "c": "3"}
    assert len(warned) == 1, "once for a folder"


def test_a_file_system_without_locks_is_refused(tmp_path, monkeypatch, assert_message):
    def refuse(file, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with monkeypatch.context() as patch:
        patch.setattr("fcntl.flock", refuse)
        with pytest.raises(DataError) as error:
            put(tmp_path / "notes.sqlite", a="1")
    assert_message(error.value, "TMP/notes.sqlite")


def test_a_locked_file_is_an_error_that_names_it(tmp_path, monkeypatch, assert_message):
    monkeypatch.setattr(sqlite_file, "_PATIENCE_S", 0.05)
    path = tmp_path / "c.sqlite"
    put(path, a="1")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(DataError) as error:
        put(path, b="2")
    assert_message(error.value, "TMP/c.sqlite")
    other.close()
    assert get(path, "a") == {"a": "1"}


def test_a_file_without_rows_that_cannot_be_deleted_is_named(tmp_path, assert_message):
    store = Store(tmp_path / "c.sqlite")
    store.put("kind", "key", {"a": b"1"})
    (tmp_path / "c.sqlite-journal").mkdir()

    with pytest.raises(DataError) as error:
        store.remove_entries(store.entries())
    assert_message(error.value, "TMP/c.sqlite")


@pytest.mark.parametrize(("durable", "level"), [(True, "FULL"), (False, "NORMAL")])
def test_a_durable_write_waits_for_the_disk(tmp_path, durable, level):
    # no test can lose power: the pragma that SQLite gets is what can be seen
    class Traced(sqlite3.Connection):
        def execute(self, sql, parameters=(), /):
            statements.append(sql)
            return super().execute(sql, parameters)

    statements = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Traced))
        file = sqlite_file.SQLiteFile(tmp_path / "c.sqlite")
        file.write(lambda connection: None, durable=not durable)
        file.write(lambda connection: statements.append("work"), durable=durable)
        file.write(lambda connection: None, durable=durable)
        file.close()

    last = [sql for sql in statements if "synchronous" in sql or sql == "work"][-2:]
    assert last == [f"PRAGMA synchronous={level}", "work"]
