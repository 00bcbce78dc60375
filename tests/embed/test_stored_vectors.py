"""Stored vectors: bits that come back, damage, kills, and several processes at once."""

import sqlite3

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragbench.embed.cache import VECTOR_ROWS, CachedEmbedder, vector_key
from ragbench.errors import DataError
from ragbench.store.sqlite_file import DamagedCache
from tests.embed.tables import Table, stored_vectors
from tests.store.rows import damage

PARTS = st.tuples(st.text("ab:", max_size=3), st.text("ab:", max_size=3), st.text(max_size=4))
FLOATS = st.lists(
    st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=2, max_size=2
)


def encode(model, path, texts, also=()):
    return CachedEmbedder(model, path, also=also).encode(list(texts), normalize=False)


@given(PARTS, PARTS)
@example(("m", "ab", "c"), ("m", "a", "bc"))
@example(("ma", "", "c"), ("m", "a", "c"))
def test_keys_are_equal_only_where_all_three_parts_are(one, other):
    assert (vector_key(*one) == vector_key(*other)) == (one == other)


def test_a_text_that_is_no_unicode_has_a_key_of_its_own():
    assert len({vector_key("m", "", text) for text in ("\ud800", "\udc00", "?")}) == 3


@settings(max_examples=15)  # each makes a file
@given(st.dictionaries(st.text(min_size=1, max_size=4), FLOATS, max_size=8))
def test_stored_vectors_come_back_bit_for_bit(tmp_path_factory, vectors):
    path = tmp_path_factory.mktemp("cache") / "deep" / "cache.sqlite"
    first = encode(Table(vectors), path, vectors)
    other = Table()

    again = encode(other, path, [*vectors, "never"])

    assert again[: len(vectors)].tobytes() == first.tobytes()
    assert other.encoded == ["never"]


@settings(max_examples=15)  # each makes a file
@given(st.dictionaries(st.text(min_size=1, max_size=4), st.integers(1, 2**40), max_size=8))
def test_stored_numbers_of_tokens_come_back(tmp_path_factory, counts):
    path = tmp_path_factory.mktemp("cache") / "cache.sqlite"
    CachedEmbedder(Table(counts=counts), path).count_tokens(list(counts))

    again = CachedEmbedder(Table(), path).count_tokens([*counts, "longer"])

    assert again == [*counts.values(), 0]
    assert stored_vectors(path) == 0, "numbers of tokens are no vectors"


def test_more_texts_than_one_query_of_the_file_takes(tmp_path):
    path, vectors = tmp_path / "e.sqlite", {f"{i}": [i, 1] for i in range(1201)}
    encode(Table(vectors), path, vectors)
    other = Table()

    assert encode(other, path, vectors).tolist() == list(vectors.values())
    assert (other.encoded, stored_vectors(path)) == ([], 1201)


def test_a_damaged_vector_is_encoded_and_stored_again(tmp_path, assert_message):
    path, model = tmp_path / "e.sqlite", Table({"a": [1, 2], "b": [3, 4]})
    encode(model, path, "ab")
    damage(path, f"item = '{vector_key('m@', '', 'a')}'")
    model.encoded.clear()

    with pytest.warns(DamagedCache, match="e") as caught:
        assert encode(model, path, "ab").tolist() == [[1, 2], [3, 4]]
    assert_message(caught[0].message)
    assert model.encoded == ["a"]
    assert encode(Table(), path, "ab").tolist() == [[1, 2], [3, 4]]


def test_a_file_of_another_program_is_refused(tmp_path, assert_message):
    path = tmp_path / "e.sqlite"
    path.write_bytes(b"not a database, but long enough to look like a header of one" * 9)

    with pytest.raises(DataError) as caught:
        encode(Table(), path, "a")
    assert_message(caught.value)


WRITER = """
import sys
import numpy as np
from pathlib import Path
from ragbench.embed.cache import CachedEmbedder
class Numbers:
    identity, revision, limit, manner, prompts = "m", "", None, "", {}
    def encode(self, texts, *, prompt, normalize, advance):
        return np.array([[int(text)] * 64 for text in texts], dtype=np.float32)
path, start, stop = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
for i in range(start, stop, 20):
    CachedEmbedder(Numbers(), path).encode([str(j) for j in range(i, i + 20)])
    print(i + 20, flush=True)
"""


def write(warm, path, start, stop):
    return warm.popen(["-c", WRITER, str(path), str(start), str(stop)], text=True)


def assert_holds(path, count):
    model = Table()
    vectors = encode(model, path, map(str, range(count)))
    assert vectors[:, 0].tolist() == list(range(count))
    assert model.encoded == []


@pytest.mark.costly
def test_kill_9_loses_nothing_that_was_stored(warm, tmp_path):
    path = tmp_path / "e.sqlite"
    for _ in range(2):
        process = write(warm, path, 0, 1_000_000)
        for _ in range(10):
            count = int(process.stdout.readline())
        process.kill()
        process.communicate()

        assert_holds(path, count)


@pytest.mark.costly
def test_processes_write_at_once(warm, tmp_path):
    # Both start without a file; half of their texts are the same
    path = tmp_path / "e.sqlite"
    processes = [write(warm, path, start, start + 1000) for start in (0, 500)]
    for process in processes:
        process.communicate()

    assert [process.returncode for process in processes] == [0, 0]
    assert_holds(path, 1500)
    assert stored_vectors(path) == 1500


def fill(path, **numbers):
    embedder = CachedEmbedder(Table({text: [n, n] for text, n in numbers.items()}, numbers), path)
    embedder.encode(list(numbers))
    embedder.count_tokens(list(numbers))
    return path


def stored_numbers(path, *also, texts="abc"):
    """Return the first number of each vector, and the number of tokens; 0 where none is stored."""
    embedder = CachedEmbedder(Table(), path, also=also)
    vectors = embedder.encode(list(texts), normalize=False)
    return vectors[:, 0].tolist(), embedder.count_tokens(list(texts))


def test_further_files_serve_texts_that_the_first_one_lacks_and_are_never_written(tmp_path):
    main, one, two = (tmp_path / f"{name}.sqlite" for name in ("own", "one", "two"))
    fill(main, a=1), fill(one, a=2, b=3), fill(two, b=4, c=5)
    contents = one.read_bytes(), two.read_bytes()

    also = one, tmp_path / "none.sqlite", two
    assert stored_numbers(main, *also, texts="abcd") == ([1, 3, 5, 0], [1, 3, 5, 0])

    assert stored_vectors(main) == 2, "a, and d that no file had"
    assert (one.read_bytes(), two.read_bytes()) == contents


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"no database" * 9, id="no database"),
        pytest.param(None, id="another database"),
    ],
)
def test_another_file_that_cannot_be_used_is_named_and_left_out(tmp_path, content, assert_message):
    main, bad, good = (tmp_path / f"{name}.sqlite" for name in ("own", "bad", "good"))
    fill(main, a=1), fill(good, b=2)
    if content is None:
        with sqlite3.connect(bad) as connection:
            connection.execute("CREATE TABLE mine (x)")
    else:
        bad.write_bytes(content)

    with pytest.warns(DamagedCache, match="bad") as caught:
        assert stored_numbers(main, bad, good, texts="ab") == ([1, 2], [1, 2])
    assert_message(caught[0].message)


def test_a_damaged_vector_of_another_file_is_named_and_stays_there(tmp_path, assert_message):
    main, other = fill(tmp_path / "own.sqlite", a=1), fill(tmp_path / "other.sqlite", b=2, c=3)
    damage(other, f"key = '{VECTOR_ROWS}' AND item = '{vector_key('m@', '', 'b')}'")

    with pytest.warns(DamagedCache, match="other") as caught:
        assert stored_numbers(main, other) == ([1, 0, 3], [1, 2, 3])
    assert_message(caught[0].message)
    assert stored_vectors(other) == 2
