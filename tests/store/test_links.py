"""A cache of somebody else: no link in it is followed, and nothing but our tables is read."""

import os
import sqlite3
from contextlib import closing

import pytest

import ragbench as rb
from ragbench.errors import DataError
from ragbench.llm import ChatReply, Replies
from ragbench.llm.batch import BatchChat
from ragbench.llm.openai import OpenAIChat
from ragbench.store.arrays import ArrayStore
from ragbench.store.database import Store
from ragbench.store.maintenance import stored_in, verify
from ragbench.store.sqlite_file import DamagedCache
from tests.commands import run_command
from tests.store.rows import query

# SQLite opens these files beside a database by their names
ENDS = ["", "-wal", "-shm", "-journal"]


def use_replies(cache):
    with Replies(cache / "replies.sqlite") as replies:
        replies.store("a" * 64, ChatReply("text")).result()
        assert replies.get("a" * 64).text == "text"


def use_items(cache):
    with closing(Store(cache / "cache.sqlite")) as store:
        store.put("judge", "k", {"1": b"x"})
        assert store.get("judge", "k", "1") == b"x"


def use_arrays(cache):
    import numpy as np

    arrays = ArrayStore(cache).ensure("index", "a", "k", lambda w: w.add("v", np.arange(3)))
    assert arrays["v"].tolist() == [0, 1, 2]


def use_batches(cache):
    with Replies(cache / "replies.sqlite") as replies:
        BatchChat(OpenAIChat(base_url="http://127.0.0.1:9/v1", keyless=True), replies)


@pytest.mark.parametrize("is_dangling", [True, False])
@pytest.mark.parametrize(
    ("name", "use"),
    [
        *((f"replies.sqlite{end}", use_replies) for end in ENDS),
        *((f"cache.sqlite{end}", use_items) for end in ENDS),
        (".replies.sqlite.claims", use_replies),
        (".replies.sqlite.lock", use_replies),
        (".cache.sqlite.lock", use_items),
        ("arrays", use_arrays),
        ("arrays/index", use_arrays),
        ("arrays/index/k", use_arrays),
        ("arrays/index/.k.lock", use_arrays),
        ("batches", use_batches),
    ],
)
def test_no_link_in_a_cache_is_followed(tmp_path, name, use, is_dangling):
    private, cache = tmp_path / "private", tmp_path / "cache"
    link = cache / name
    link.parent.mkdir(parents=True)
    if not is_dangling and "." in name:
        private.write_text("mine")
    elif not is_dangling:
        private.mkdir()
        (private / "about.json").write_text("mine")
    # whoever may write to a shared cache could point it at a file of another user
    link.symlink_to(private)

    with pytest.raises((DataError, OSError), match=f"{link.name}|symbolic links"):
        use(cache)

    assert link.is_symlink()
    assert private.exists() != is_dangling
    if private.is_file():
        assert private.read_text() == "mine"
    elif private.is_dir():
        assert os.listdir(private) == ["about.json"]


@pytest.mark.parametrize("name", ["about.json", "v.npy", "more.npy"])
def test_linked_arrays_are_made_again(tmp_path, name, assert_message):
    use_arrays(tmp_path)
    path = tmp_path / "arrays/index/k" / name
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")

    with pytest.warns(UserWarning, match="damaged") as warned:
        use_arrays(tmp_path)
    assert_message([warning.message for warning in warned])

    assert not path.is_symlink()
    assert [*verify(tmp_path)] == []


def test_arrays_behind_a_linked_folder_are_not_removed(tmp_path):
    use_arrays(tmp_path / "other")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/arrays").symlink_to(tmp_path / "other/arrays")

    for look in (stored_in, lambda cache: [*verify(cache)]):
        with pytest.raises(DataError, match="arrays: is a link"):
            look(tmp_path / "cache")

    assert [*verify(tmp_path / "other")] == []


def test_a_cache_folder_may_be_a_link_of_its_user(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "cache").symlink_to("disk")
    for use in (use_replies, use_items, use_arrays):
        use(tmp_path / "cache")

    assert {"cache.sqlite", "replies.sqlite", "arrays"} <= {*os.listdir(tmp_path / "disk")}


def test_a_linked_further_file_is_left_out(tmp_path):
    use_items(tmp_path / "other")
    (tmp_path / "also").symlink_to(tmp_path / "other/cache.sqlite")

    with (
        closing(Store(tmp_path / "cache.sqlite", [tmp_path / "also"])) as store,
        pytest.warns(DamagedCache, match="also: is a link.* it is left out"),
    ):
        assert store.get("judge", "k", "1") is None


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
CHANGES = {
    "view rows": [
        "DROP TABLE rows",
        f"CREATE VIEW rows AS SELECT i AS kind, i AS key, i AS item, i AS blob, i AS checksum,"
        f" i AS stored_at FROM ({ENDLESS})",
    ],
    "trigger t": [
        f"CREATE TRIGGER t BEFORE INSERT ON rows BEGIN SELECT count(*) FROM ({ENDLESS}); END",
    ],
    "trigger u": ["CREATE TRIGGER u AFTER INSERT ON rows BEGIN DELETE FROM rows; END"],
    "table more": ["CREATE TABLE more (a)"],
    "index i": ["CREATE INDEX i ON rows (length(hex(blob)))"],
    "table entries": [
        "DROP TABLE entries",
        "CREATE TABLE entries (kind TEXT, key TEXT, label TEXT, used_at REAL,"
        " x AS (hex(zeroblob(900000000))), PRIMARY KEY (kind, key))",
    ],
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_database_with_objects_of_others_is_set_aside(tmp_path, name, assert_message):
    # A view over an endless query hung each command; a trigger lost each reply.
    use_replies(tmp_path)
    path = tmp_path / "replies.sqlite"
    for statement in CHANGES[name]:
        query(path, statement)

    [(where, _, problem)] = verify(tmp_path)
    with pytest.warns(DamagedCache) as warned:
        use_replies(tmp_path)
    assert_message([warning.message for warning in warned])

    assert (where, f"{name} of another program" in problem) == (path, True)
    assert [*verify(tmp_path)] == []
    assert {kind for (kind,) in query(path, "SELECT type FROM sqlite_master")} == {"table", "index"}


def test_objects_behind_a_damaged_one_are_not_run(tmp_path):
    # SQLite refuses a malformed schema; mending it reads what is left of it.
    use_replies(tmp_path)
    path = tmp_path / "replies.sqlite"
    for statement in CHANGES["view rows"]:
        query(path, statement)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute("UPDATE sqlite_master SET sql = 'CREATE TABLE x' WHERE name = 'entries'")

    with pytest.warns(DamagedCache, match="replies.damaged-1.sqlite"):
        use_replies(tmp_path)


@pytest.mark.parametrize("place", ["file", "file/cache"])
def test_a_file_in_place_of_a_cache_is_one_line(
    tmp_path, repository, place, monkeypatch, assert_message
):
    (tmp_path / "file").write_text("mine")
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / place))
    config = repository / "configs/quickstart.yaml"

    for line in (["plan", config], ["cache"], ["cache", "verify"]):
        done = run_command(*line, cwd=tmp_path, env=os.environ)
        assert (done.returncode, done.stdout) == (2, "")
        assert_message(done.stderr)
    with pytest.raises(DataError) as error:
        rb.run_experiment(config, overrides={"output": str(tmp_path / "runs")})
    assert_message(error.value, "TMP/file")
