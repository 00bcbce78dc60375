"""Arrays of the cache: as NumPy has them, whole or absent, made once, and made again if damaged."""

import os
import time
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from ragbench import files
from ragbench.errors import DataError
from ragbench.store.arrays import ArrayStore, DamagedArrays, WaitingForArrays, array_path
from ragbench.store.maintenance import remove, stored_in, verify
from tests.store.test_read_only import cache, read_only

__all__ = ["cache"]

NUMBERS = np.arange(12.0).reshape(4, 3)


def write(writer):
    writer.add("numbers", NUMBERS)
    writer.add_texts("words", ["a", "", "\udce9 é"])


def key_of(folder):
    return array_path(folder, "index", "k")


@settings(max_examples=15)  # each makes a folder
@given(
    st.sampled_from(["float64", "float32", "int64", "uint8"]).flatmap(
        lambda kind: arrays.arrays(kind, arrays.array_shapes(max_dims=2, min_side=0))
    ),
    st.lists(st.text(st.characters(exclude_categories=())), max_size=5),
    st.integers(0, 3),
)
def test_what_was_written_is_read_and_numpy_reads_it_too(tmp_path_factory, array, texts, cut):
    folder = tmp_path_factory.mktemp("cache")

    def fill(writer):
        with writer.open_array("grown") as grown:
            grown.append(array[:cut])
            grown.append(array[cut:])
        writer.add_texts("texts", texts)

    stored = ArrayStore(folder).ensure("index", "of", "k", fill)

    np.testing.assert_array_equal(stored["grown"], array)
    numpys = np.load(key_of(folder) / "grown.npy")
    assert (numpys.dtype, numpys.shape) == (array.dtype, array.shape)
    assert stored.texts("texts") == texts
    assert not stored["grown"].flags.writeable


def test_made_once_and_found_in_the_folders_of_others(tmp_path):
    calls = []

    def count(writer):
        calls.append(1)
        write(writer)

    ArrayStore(tmp_path / "theirs").ensure("index", "of", "k", count)
    ours = ArrayStore(tmp_path / "ours", [tmp_path / "theirs"])
    arrays = ours.ensure("index", "of", "k", count)

    np.testing.assert_array_equal(arrays["numbers"], NUMBERS)
    assert len(calls) == 1
    assert not (tmp_path / "ours").exists()


def cut(path):
    os.truncate(path / "numbers.npy", 150)


def flip(path):
    data = bytearray((path / "numbers.npy").read_bytes())
    data[-5] ^= 1
    (path / "numbers.npy").write_bytes(data)


def lose(path):
    (path / "words.npy").unlink()


def misname(path):
    text = (path / "about.json").read_text()
    (path / "about.json").write_text(text.replace("numbers", "nombers"))


def blank(path):
    (path / "about.json").write_bytes(b"\xff")


@pytest.mark.parametrize("damage", [cut, flip, lose, misname, blank])
def test_damage_is_told_and_made_again(tmp_path, damage):
    store = ArrayStore(tmp_path)
    store.ensure("index", "of", "k", write)
    damage(key_of(tmp_path))
    assert [n for _, n, _ in verify(tmp_path)] == [1]

    with pytest.warns(DamagedArrays, match="they are made again"):
        arrays = store.ensure("index", "of", "k", write)

    np.testing.assert_array_equal(arrays["numbers"], NUMBERS)
    (stored,) = stored_in(tmp_path)
    assert ([*verify(tmp_path)], stored.kind, stored.label) == ([], "index", "of")


def test_use_counts_as_use_and_removed_is_gone(tmp_path):
    store = ArrayStore(tmp_path)
    arrays = store.ensure("index", "of", "k", write)
    numbers = arrays["numbers"]
    os.utime(key_of(tmp_path) / "about.json", (0, 0))
    store.find("index", "k")

    (stored,) = stored_in(tmp_path)
    assert stored.used_at > time.time() - 3600
    assert remove([stored]) > NUMBERS.nbytes
    assert (stored_in(tmp_path), store.find("index", "k")) == ([], None)
    np.testing.assert_array_equal(numbers, NUMBERS)  # whoever has it mapped keeps it
    with pytest.raises(DataError, match="cannot be read"):
        arrays["words"]


WRITE = """
import os, sys
import numpy as np
from pathlib import Path
from ragbench.store.arrays import ArrayStore
folder, what = sys.argv[1:]
def write(writer):
    print("made", flush=True)
    with writer.open_array("numbers") as grown:
        grown.append(np.arange(100_000))
        if what == "wait":
            sys.stdin.readline()
        grown.append(np.arange(100_000))
kept = ArrayStore(Path(folder)).ensure("index", "of", "k", write)
print(None if kept is None else int(kept["numbers"].sum()), flush=True)
"""
SUM = str(99_999 * 100_000)


def process(folder, mode, warm):
    return warm.popen(["-c", WRITE, str(folder), mode], text=True)


@pytest.mark.costly
def test_of_two_runs_one_makes_it(tmp_path, warm):
    first = process(tmp_path, "wait", warm)
    assert first.stdout.readline() == "made\n"
    second = process(tmp_path, "go", warm)  # waits for the first, or finds what it made

    first.stdin.write("\n")
    first.stdin.flush()

    assert first.communicate()[0] == f"{SUM}\n"
    assert second.communicate()[0] == f"{SUM}\n"


@pytest.mark.costly
def test_who_waits_for_arrays_is_told_and_goes_on_when_the_other_is_dead(tmp_path, warm):
    first = process(tmp_path, "wait", warm)
    assert first.stdout.readline() == "made\n"
    waits = []

    def tell():
        waits.append(True)
        first.kill()
        first.communicate()

    with files.locked_beside(key_of(tmp_path), tell):
        assert waits


def test_who_waits_for_arrays_says_which(tmp_path, monkeypatch):
    @contextmanager
    def waiting(path, report):
        report()
        yield

    monkeypatch.setattr(files, "locked_beside", waiting)
    with pytest.warns(WaitingForArrays, match="^bm25 of 3: waiting"):
        ArrayStore(tmp_path).ensure("index", "bm25 of 3", "k", lambda writer: None)


@pytest.mark.costly
def test_a_kill_in_the_middle_leaves_nothing_under_the_name(tmp_path, warm):
    first = process(tmp_path, "wait", warm)
    assert first.stdout.readline() == "made\n"
    first.kill()
    first.communicate()
    names = [path.name for path in key_of(tmp_path).parent.iterdir()]
    assert "k" not in names
    assert any(name.endswith(".tmp") for name in names)
    assert stored_in(tmp_path) == []

    assert process(tmp_path, "go", warm).communicate()[0] == f"made\n{SUM}\n"
    assert [path.name for path in key_of(tmp_path).parent.iterdir()] == ["k"]


@pytest.mark.slow
def test_a_cache_that_may_only_be_read_serves(cache, warm):
    assert read_only(warm, cache, WRITE, cache, "go").stdout == "None\n"
    process(cache, "go", warm).communicate()
    assert read_only(warm, cache, WRITE, cache, "go").stdout == f"{SUM}\n"


def test_a_full_disk_is_named(tmp_path, assert_message):
    def fail(writer):
        raise OSError(28, "No space left on device")

    with pytest.raises(DataError) as error:
        ArrayStore(tmp_path).ensure("index", "of", "k", fail)
    assert_message(error.value, "TMP/arrays/index/k")
    with warnings.catch_warnings(action="error"):
        assert ArrayStore(tmp_path).find("index", "k") is None
