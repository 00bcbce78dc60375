"""StageStore: whole lines count, damage is made again, a full or read-only disk is said."""

import json
import os
import tempfile
import threading
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.data.loaders.base import kept_apart
from ragbench.errors import DataError
from ragbench.store.items import (
    DamagedItems,
    Form,
    Spool,
    Spooled,
    StageFile,
    StageStore,
    stage_path,
)
from ragbench.types.rows import Places

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture
def path(tmp_path):
    return stage_path(tmp_path, "retrieve", "k")


def stage_file(path, also=()):
    return StageFile(path, {"stage": "retrieve", "of": "bm25"}, also)


@given(items=st.dictionaries(st.text(), values, max_size=5))
def test_what_is_put_is_there_again(items, tmp_path_factory):
    path = tmp_path_factory.mktemp("stage") / "k.jsonl"
    with stage_file(path) as first:
        for item, value in items.items():
            first.put(item, value)
            assert first.get(item) == value

    second = stage_file(path)
    assert {item: second.get(item) for item in items} == items
    assert len(second) == len(items)


def test_the_last_value_of_an_item_counts(path):
    for value in (1, 2, 3):
        with stage_file(path) as each:
            each.put("q", value)

    assert stage_file(path).get("q") == 3


@pytest.mark.parametrize("cut", range(2, 30))
def test_a_line_that_was_cut_off_is_left_out_and_the_next_one_is_whole(path, cut):
    with stage_file(path) as first:
        first.put("q1", ["d1"])
        first.put("q2", ["d2"])
    path.write_bytes(path.read_bytes()[:-cut])

    with pytest.warns(DamagedItems, match="stored items are damaged"):
        second = stage_file(path)
    with second:
        second.put("q3", ["d3"])
    third = stage_file(path)  # which warns of nothing: the file is whole again

    assert (third.get("q1") or ["d1"], third.get("q3")) == (["d1"], ["d3"])
    assert "q2" not in third


@pytest.mark.costly
@pytest.mark.parametrize("bit", range(8))
def test_each_flipped_bit_is_found(path, bit):
    with stage_file(path) as first:
        first.put("q1", ["d1", 0.5])
    whole = path.read_bytes()
    start = whole.index(b"\n") + 1

    for position in range(start, len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << bit
        path.write_bytes(damaged)
        with pytest.warns(DamagedItems, match=str(path)):
            assert "q1" not in stage_file(path)


def test_a_file_of_another_format_is_left_alone(path):
    path.parent.mkdir(parents=True)
    path.write_text('ragbench.stage/9 {"stage": "retrieve"}\nsomething new\n')

    assert len(stage_file(path)) == 0


def test_folders_of_others_are_only_read(tmp_path):
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    with stage_file(stage_path(theirs, "retrieve", "k")) as first:
        first.put("q1", "stored")
    before = {p: p.read_bytes() for p in theirs.rglob("*") if p.is_file()}
    store = StageStore(ours, [theirs])
    found = store.file("retrieve", "bm25", "k")

    assert found.get("q1") == "stored"
    found.put("q2", "new")
    store.close()
    assert {p: p.read_bytes() for p in theirs.rglob("*") if p.is_file()} == before
    assert "q2" in stage_file(stage_path(ours, "retrieve", "k"))


def test_a_damaged_first_line_costs_no_item(path):
    with stage_file(path) as first:
        first.put("q1", 1)
    path.write_bytes(b"R" + path.read_bytes()[1:])

    with pytest.warns(DamagedItems, match="1 stored items are damaged"):
        second = stage_file(path)
    with second:
        assert second.get("q1") == 1
        second.put("q2", 2)

    third = stage_file(path)
    assert (third.get("q1"), third.get("q2")) == (1, 2)


def test_lines_of_another_format_are_left_alone(path):
    path.parent.mkdir(parents=True)
    theirs = b"ragbench.stage/2 {}\nsomething of theirs\n"
    path.write_bytes(theirs)

    with stage_file(path) as first:
        assert len(first) == 0
        first.put("q1", 1)

    assert path.read_bytes().startswith(theirs)
    assert len(stage_file(path)) == 1


def test_several_threads_and_files_fill_one_file(path):
    def fill(name):
        with stage_file(path) as own:
            for i in range(100):
                own.put(f"{name}{i}", "x" * i)

    threads = [threading.Thread(target=fill, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(stage_file(path)) == 400


def test_a_disk_that_cannot_be_written_is_said_and_loses_nothing(path):
    full = "/dev/full"
    if not os.path.exists(full):
        pytest.skip("no /dev/full here")
    path.parent.mkdir(parents=True)
    path.symlink_to(full)

    with pytest.raises(DataError, match=r"k\.jsonl: cannot be written: No space left on device"):
        StageFile.put(_empty(path), "q", 1)


def _empty(path):
    made = StageFile.__new__(StageFile)
    made.path, made._about, made._lock = path, {}, threading.Lock()
    made._stream, made._synced, made._items, made._damaged = None, 0.0, Places(), 0
    return made


KILLED = """
import sys
from pathlib import Path
from ragbench.store.items import StageFile
file = StageFile(Path(sys.argv[1]), {"stage": "retrieve"})
for i in range(10**9):
    file.put(str(i), "x" * (i % 5000))
    print(i, flush=True)
"""


@pytest.mark.costly
@pytest.mark.parametrize("items", [1, 40, 700])
def test_kill_9_loses_nothing_that_was_put(path, warm, items):
    process = warm.popen(["-c", KILLED, str(path)], text=True)
    told = [int(process.stdout.readline()) for _ in range(items)]
    process.kill()
    rest, _ = process.communicate()
    told += [int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")]

    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DamagedItems)  # a line under way may have been cut off
        found = stage_file(path)
    assert all(str(i) in found for i in told)


def test_use_is_noted_for_pruning(path):
    with stage_file(path) as first:
        first.put("q", 1)
    os.utime(path, (1, 1))

    stage_file(path)

    assert time.time() - path.stat().st_mtime < 600


def test_lines_can_be_read_without_us(path):
    with stage_file(path) as first:
        first.put("é", {"b": 1})

    head, line = path.read_text(encoding="ascii").splitlines()
    assert head == 'ragbench.stage/1 {"stage": "retrieve", "of": "bm25"}'
    assert json.loads(line.partition(" ")[2]) == ["é", {"b": 1}]


def test_values_stay_on_disk_and_are_read_from_the_right_file(tmp_path):
    paths = [stage_path(tmp_path / name, "retrieve", "k") for name in ("ours", "first", "second")]
    for number, path in enumerate(paths):
        with stage_file(path) as each:
            for item in ("all", f"only {number}", "two")[: 2 + (number > 0)]:
                each.put(item, [item, number, "x" * 1_000_000])

    tracemalloc.start()
    ours = stage_file(paths[0], paths[1:])
    with ours:
        ours.put("new", "x" * 1_000_000)
        held, _ = tracemalloc.get_traced_memory()
        found = {item: ours.get(item)[1] for item in ("all", "only 0", "only 1", "only 2", "two")}
    tracemalloc.stop()

    assert found == {"all": 0, "only 0": 0, "only 1": 1, "only 2": 2, "two": 2}
    assert ours.get("new") == "x" * 1_000_000
    assert held < 100_000
    paths[2].unlink()
    assert ours.get("two") is None


def test_what_a_damaged_file_still_holds_is_found_after_it_was_written_anew(path):
    with stage_file(path) as first:
        for item in "abc":
            first.put(item, item * 9)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = b"x" + lines[1][1:]
    path.write_bytes(b"".join(lines))

    with pytest.warns(DamagedItems):
        again = stage_file(path)
    with again:
        again.put("d", "d" * 9)

        assert {item: again.get(item) for item in "abcd"} == {
            "a": None, "b": "b" * 9, "c": "c" * 9, "d": "d" * 9
        }  # fmt: skip


PAIRS = Form(list, tuple, lambda value: value != ())


@given(changes=st.lists(st.tuples(st.integers(0, 6), st.lists(values, max_size=3).map(tuple))))
def test_spooled_values_are_those_of_a_list(changes, tmp_path_factory):
    spool = Spool(tmp_path_factory.getbasetemp())
    ours, theirs = Spooled(spool, PAIRS, 7, "none"), ["none"] * 7

    for row, value in changes:
        ours[row] = theirs[row] = value
        assert ours[row] == value

    assert list(ours) == theirs
    assert [*ours[2:5]] == theirs[2:5]
    assert len(ours) == 7
    assert ours[-1] == theirs[-1]
    assert ours.lacking() == [row for row, value in enumerate(theirs) if value in ("none", ())]
    spool.close()


def test_spooled_values_are_in_no_file_with_a_name_and_not_in_memory(tmp_path):
    with_spool = StageStore(tmp_path)
    tracemalloc.start()
    kept = Spooled(with_spool.spool, PAIRS, 2_000)
    for row in range(len(kept)):
        kept[row] = (row, f"{row} " * 3_000)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert held < 1_500_000, "28 MB are on disk"
    assert kept[1_234] == (1_234, "1234 " * 3_000)
    assert kept[7] == (7, "7 " * 3_000)
    assert [*tmp_path.rglob("*")] == []
    with_spool.close()
    with pytest.raises(ValueError, match="closed"):
        kept[5]


def test_a_spool_lies_elsewhere_where_the_cache_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr("ragbench.store.items.os.access", lambda path, mode: False)
    places = []
    made = tempfile.SpooledTemporaryFile
    monkeypatch.setattr(
        "ragbench.store.items.tempfile.SpooledTemporaryFile",
        lambda size, dir: places.append(dir) or made(size, dir=dir),
    )

    spool = Spool(tmp_path / "not there")

    assert spool.get(spool.put(["a", 1.5])) == ["a", 1.5]
    assert places == [None]
    spool.close()


def test_a_full_disk_is_said_where_values_are_spooled(tmp_path, monkeypatch):
    spool = Spool(tmp_path)
    spool.put(1)

    def full(data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(spool._stream, "write", full)
    with pytest.raises(DataError, match=r"cannot be written: No space left on device"):
        spool.put(2)
    monkeypatch.undo()
    spool.close()


@pytest.mark.parametrize("n", [0, 5, 999, 1_000, 1_203])
@pytest.mark.parametrize("odd_at", [None, 7, 1_100])
def test_values_kept_apart_are_the_same(n, odd_at):
    """Also where a spool does not take one of them: then all of them stay in memory."""
    values = [{"row": row, "odd": object() if row == odd_at else None} for row in range(n)]

    kept = kept_apart(iter(values), Form(lambda value: value, lambda flat: flat))

    assert list(kept) == values
    assert isinstance(kept, Spooled) == (n >= 1_000 and (odd_at is None or odd_at >= n))
