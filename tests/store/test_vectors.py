"""Vectors on disk: what comes back, damage, kills, and several processes at once."""

import sqlite3

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragbench.errors import DataError
from ragbench.store.sqlite_file import DamagedCache
from ragbench.store.vectors import EmbeddingCache, vector_key
from tests.store.rows import damage

PARTS = st.tuples(st.text("ab:", max_size=3), st.text("ab:", max_size=3), st.text(max_size=4))
FLOATS = st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=5)


@given(PARTS, PARTS)
@example(("m", "ab", "c"), ("m", "a", "bc"))
@example(("ma", "", "c"), ("m", "a", "c"))
def test_keys_are_equal_only_where_all_three_parts_are(one, other):
    assert (vector_key(*one) == vector_key(*other)) == (one == other)


def test_a_text_that_is_no_unicode_has_a_key_of_its_own():
    assert len({vector_key("m", "", text) for text in ("\ud800", "\udc00", "?")}) == 3


@settings(max_examples=25)  # each makes a file
@given(st.dictionaries(st.text(min_size=1, max_size=4), FLOATS, max_size=8))
def test_what_was_stored_comes_back_bit_for_bit(tmp_path_factory, content):
    vectors = {key: np.array(numbers, dtype=np.float32) for key, numbers in content.items()}
    path = tmp_path_factory.mktemp("cache") / "deep" / "cache.sqlite"
    with EmbeddingCache(path) as cache:
        cache.store(vectors)
        cache.store({key: -vector for key, vector in vectors.items()})  # the first one stays
    with EmbeddingCache(path) as cache:
        found = dict(cache.find([*vectors, "never"]))

    assert found.keys() == vectors.keys()
    assert all(found[key].tobytes() == vectors[key].tobytes() for key in vectors)


@settings(max_examples=25)  # each makes a file
@given(st.dictionaries(st.text(min_size=1, max_size=4), st.integers(0, 2**40), max_size=8))
def test_numbers_of_tokens_come_back(tmp_path_factory, lengths):
    path = tmp_path_factory.mktemp("cache") / "cache.sqlite"
    with EmbeddingCache(path) as cache:
        cache.store_lengths(lengths)
        cache.store_lengths(dict.fromkeys(lengths, 0))  # the first one stays
    with EmbeddingCache(path) as cache:
        assert cache.lengths([*lengths, "never"]) == lengths
        assert len(cache) == 0, "vectors are counted, lengths are not"


def test_more_keys_than_one_query_takes(tmp_path):
    vectors = {f"{i}": np.array([i], dtype=np.float32) for i in range(1201)}
    with EmbeddingCache(tmp_path / "e.sqlite") as cache:
        cache.store(vectors)

        assert {key: v.tolist() for key, v in cache.find(list(vectors))} == {
            key: v.tolist() for key, v in vectors.items()
        }
        assert len(cache) == 1201


def test_a_damaged_vector_is_dropped_and_may_be_stored_again(tmp_path):
    path = tmp_path / "e.sqlite"
    vector = np.array([1, 2], dtype=np.float32)
    with EmbeddingCache(path) as cache:
        cache.store({"a": vector, "b": vector})
    damage(path, "item = 'a'")

    with EmbeddingCache(path) as cache:
        with pytest.warns(DamagedCache, match=r"e.sqlite: 1 damaged in embed"):
            assert [key for key, _ in cache.find(["a", "b"])] == ["b"]
        cache.store({"a": vector})
        assert dict(cache.find(["a"]))["a"].tolist() == [1, 2]


def test_a_file_of_somebody_else_is_refused(tmp_path):
    path = tmp_path / "e.sqlite"
    path.write_bytes(b"not a database, but long enough to look like a header of one" * 9)

    with pytest.raises(DataError, match=r"is damaged or no cache.*move it away"):
        list(EmbeddingCache(path).find(["a"]))


WRITER = """
import sys
import numpy as np
from ragbench.store.vectors import EmbeddingCache, vector_key
path, start, stop = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with EmbeddingCache(path) as cache:
    for i in range(start, stop, 20):
        keys = {vector_key("m", "", str(j)): np.full(64, j, np.float32) for j in range(i, i + 20)}
        cache.store(keys)
        print(i + 20, flush=True)
"""


def write(warm, path, start, stop):
    return warm.popen(["-c", WRITER, str(path), str(start), str(stop)], text=True)


def assert_holds(path, count):
    with EmbeddingCache(path) as cache:
        found = dict(cache.find([vector_key("m", "", str(i)) for i in range(count)]))
    assert [found[vector_key("m", "", str(i))][0] for i in range(count)] == list(range(count))


@pytest.mark.costly
def test_kill_9_loses_nothing_that_was_stored(warm, tmp_path):
    path = tmp_path / "e.sqlite"
    for _ in range(2):
        process = write(warm, path, 0, 1_000_000)
        for _ in range(10):
            told = int(process.stdout.readline())
        process.kill()
        process.communicate()

        assert_holds(path, told)


@pytest.mark.costly
def test_processes_write_at_once(warm, tmp_path):
    """Both start with a file that is not there; half of what they store is the same."""
    path = tmp_path / "e.sqlite"
    processes = [write(warm, path, start, start + 1000) for start in (0, 500)]
    for process in processes:
        process.communicate()

    assert [process.returncode for process in processes] == [0, 0]
    assert_holds(path, 1500)
    with EmbeddingCache(path) as cache:
        assert len(cache) == 1500


def filled(path, **vectors):
    with EmbeddingCache(path) as cache:
        cache.store({key: np.array([n], dtype=np.float32) for key, n in vectors.items()})
        cache.store_lengths(vectors)
    return path


def found_in(path, *also, keys=("a", "b", "c")):
    with EmbeddingCache(path, also) as stored:
        vectors = {key: float(vector[0]) for key, vector in stored.find(keys)}
        lengths = stored.lengths(keys)
    return vectors, lengths


def test_other_files_are_read_where_the_own_one_lacks_a_key_and_never_written(tmp_path):
    own, one, two = (tmp_path / f"{name}.sqlite" for name in ("own", "one", "two"))
    filled(own, a=1), filled(one, a=2, b=3), filled(two, b=4, c=5)
    before = one.read_bytes(), two.read_bytes()

    expected = {"a": 1, "b": 3, "c": 5}
    assert found_in(own, one, tmp_path / "none.sqlite", two) == (expected, expected)

    with EmbeddingCache(own, [one, two]) as stored:
        stored.store({"d": np.array([6], dtype=np.float32)})
        stored.store_lengths({"d": 6})
    assert found_in(own, keys=["a", "b", "d"]) == ({"a": 1, "d": 6}, {"a": 1, "d": 6})
    assert (one.read_bytes(), two.read_bytes()) == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"no database" * 9, "is damaged or no cache", id="no database"),
        pytest.param(None, "is a database, but no cache", id="another database"),
    ],
)
def test_another_file_that_cannot_be_used_is_named_and_left_out(tmp_path, content, message):
    own, bad, good = (tmp_path / f"{name}.sqlite" for name in ("own", "bad", "good"))
    filled(own, a=1), filled(good, b=2)
    if content is None:
        with sqlite3.connect(bad) as connection:
            connection.execute("CREATE TABLE mine (x)")
    else:
        bad.write_bytes(content)

    with pytest.warns(DamagedCache, match=rf"bad\.sqlite.* {message}.*left out"):
        assert found_in(own, bad, good) == ({"a": 1, "b": 2}, {"a": 1, "b": 2})


def test_a_damaged_vector_of_another_file_is_named_and_stays_there(tmp_path):
    own, other = filled(tmp_path / "own.sqlite", a=1), filled(tmp_path / "other.sqlite", b=2, c=3)
    damage(other, "key = 'vectors of texts' AND item = 'b'")

    with pytest.warns(DamagedCache, match=r"other\.sqlite: 1 damaged in embed"):
        assert found_in(own, other) == ({"a": 1, "c": 3}, {"a": 1, "b": 2, "c": 3})
    with EmbeddingCache(other) as cache:
        assert len(cache) == 2
