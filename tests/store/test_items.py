"""Stage items: values come back, kills lose none, damage is made again, runs share a file."""

import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import DataError
from ragbench.store.database import CACHE_FILE
from ragbench.store.items import StageStore
from ragbench.store.maintenance import stored_in
from ragbench.store.sqlite_file import DamagedCache
from tests.store.rows import damage, items, query


@pytest.fixture
def open_items(tmp_path):
    """Opens the items of a stage, in a folder and with further folders."""
    opened = []

    def of(folder="ours", also=(), key="k"):
        store = StageStore(tmp_path / folder, [tmp_path / other for other in also])
        opened.append(store)
        return store.items("retrieve", "bm25", key)

    yield of
    for store in opened:
        store.close()


@settings(max_examples=5)  # each makes a file
@given(content=st.dictionaries(st.text(), st.binary(max_size=40), max_size=5))
def test_values_come_back(content, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    # the second turn opens the file again, so that nothing comes from memory
    for turn in range(2):
        store = StageStore(folder)
        stored = store.items("retrieve", "bm25", "k")
        for item, value in content.items():
            if turn == 0:
                stored.put(item, value)
            assert stored.get(item) == value
            assert item in stored
        assert stored.get("another") is None
        store.close()


def test_the_last_value_of_an_item_counts(open_items):
    for line in (b"1", b"2", b"3"):
        open_items().put("q", line)

    assert open_items().get("q") == b"3"


def test_items_of_further_folders_are_there(open_items):
    open_items("theirs").put("q", b"1")

    items = open_items("ours", ["theirs"])
    assert ("q" in items, "other" in items) == (True, False)


def test_keys_and_stages_have_items_of_their_own(open_items):
    open_items(key="a").put("q", b"1")

    assert open_items(key="b").get("q") is None


def test_looking_for_items_makes_no_folder(open_items, tmp_path):
    assert open_items().get("q") is None
    assert "q" not in open_items()
    assert not (tmp_path / "ours").exists()


def test_folders_of_others_are_only_read(open_items, tmp_path):
    open_items("theirs").put("q1", b"stored")
    old_rows = query(tmp_path / "theirs" / CACHE_FILE, "SELECT * FROM rows")
    # a further folder may be absent: `cache_also` may name one that comes later
    ours = open_items("ours", ["theirs", "nowhere"])

    assert ours.get("q1") == b"stored"
    ours.put("q2", b"new")
    assert query(tmp_path / "theirs" / CACHE_FILE, "SELECT * FROM rows") == old_rows
    assert [item for _, item, _ in items(tmp_path / "ours", "retrieve")] == ["q2"]
    assert not (tmp_path / "nowhere").exists()


def test_a_damaged_item_is_said_once_and_made_again(open_items, tmp_path, assert_message):
    open_items().put("q1", b'["d1"]')
    open_items().put("q2", b'["d2"]')
    # one byte of the stored value is flipped
    damage(tmp_path / "ours" / CACHE_FILE, "item = 'q1'")

    stored = open_items()
    with pytest.warns(DamagedCache) as warned:
        assert stored.get("q1") is None
    assert_message([warning.message for warning in warned])
    assert "q1" not in stored
    assert stored.get("q2") == b'["d2"]'
    stored.put("q1", b'["d3"]')
    assert open_items().get("q1") == b'["d3"]'


def test_an_item_under_the_name_of_another_is_damaged(open_items, tmp_path):
    open_items().put("q1", b"1")
    query(tmp_path / "ours" / CACHE_FILE, "UPDATE rows SET item = 'q2'")

    with pytest.warns(DamagedCache):
        assert open_items().get("q2") is None


def test_an_item_of_another_shape_is_refused_and_made_again(open_items):
    stored = open_items()
    stored.put("q1", b"1")

    with pytest.warns(DamagedCache, match="q1 has another shape"):
        stored.refuse("q1")
    assert "q1" not in stored
    stored.put("q1", b"2")
    assert stored.get("q1") == b"2"


def test_threads_and_connections_fill_one_file(open_items, tmp_path):
    def fill(name):
        items = open_items()
        for i in range(100):
            items.put(f"{name}{i}", b"x" * i)

    threads = [threading.Thread(target=fill, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(items(tmp_path / "ours", "retrieve")) == 400


KILLED = """
import sys
from pathlib import Path
from ragbench.store.items import StageStore
stored = StageStore(Path(sys.argv[1])).items("retrieve", "bm25", "k")
for i in range(int(sys.argv[2]), 10**9):
    stored.put(str(i), b"x" * (i % 5000))
    print(i, flush=True)
"""


@pytest.mark.costly
@pytest.mark.parametrize("count", [1, 40, 700])
def test_kill_9_loses_no_item(open_items, tmp_path, warm, count):
    process = warm.popen(["-c", KILLED, str(tmp_path / "ours"), "0"], text=True)
    reported = [int(process.stdout.readline()) for _ in range(count)]
    process.kill()
    output, _ = process.communicate()
    reported += [int(line) for line in output.splitlines(keepends=True) if line.endswith("\n")]

    stored = open_items()
    assert all(stored.get(str(i)) == b"x" * (i % 5000) for i in reported)


@pytest.mark.costly
def test_two_processes_fill_one_file(open_items, tmp_path, warm):
    processes = [
        warm.popen(["-c", KILLED, str(tmp_path / "ours"), str(start)], text=True)
        for start in (0, 10**6)
    ]
    reported = [[int(process.stdout.readline()) for _ in range(300)] for process in processes]
    for process in processes:
        process.kill()
        process.communicate()

    stored = open_items()
    assert all(str(i) in stored for numbers in reported for i in numbers)


FULL = """
import resource, signal, sys
from pathlib import Path
from ragbench.errors import DataError
from ragbench.store.items import StageStore
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
stored = StageStore(Path(sys.argv[1])).items("retrieve", "bm25", "k")
try:
    for i in range(1000):
        stored.put(str(i), b"x" * 2000)
except DataError as error:
    print(i, error)
"""


def test_a_full_disk_is_said_and_loses_nothing(open_items, tmp_path, warm, assert_message):
    # A limit on the size of files stands for the disk; in a process of its own.
    status, printed = warm.run(FULL, str(tmp_path / "ours"))

    count, message = printed.split(" ", 1)
    assert status == 0
    assert_message(message)
    assert "free space" in message
    assert len(items(tmp_path / "ours", "retrieve")) == int(count) > 10
    stored = open_items()
    stored.put("after", b"1")
    assert stored.get(str(int(count) - 1)) == b"x" * 2000


def test_a_folder_that_may_only_be_read_says_so(open_items, tmp_path, assert_message):
    (tmp_path / "ours").write_text("a file")

    with pytest.raises(DataError) as error:
        open_items().put("q", b"1")
    assert_message(error.value, "TMP/ours/cache.sqlite")


def test_use_is_noted_for_pruning(open_items, tmp_path):
    open_items().put("q", b"1")
    query(tmp_path / "ours" / CACHE_FILE, "UPDATE entries SET used_at = 1")

    open_items().get("q")

    (entry,) = stored_in(tmp_path / "ours")
    assert (entry.kind, entry.label) == ("retrieve", "bm25")
    assert time.time() - entry.used_at < 600


def test_rows_can_be_read_without_us(open_items, tmp_path):
    open_items().put("é", b'{"b": 1}')

    ((key, item, blob),) = items(tmp_path / "ours", "retrieve")
    assert (key, item, blob) == ("k", "é", b'{"b": 1}')
