"""Ids as spans of a buffer: hashed, compared and sorted as their bytes are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.types import byte_ids
from ragbench.types.byte_ids import PADDING, ByteIds, spans, words_from
from ragbench.types.checks import id_bytes

# prefixes of each other across the borders of words, and bytes on both sides of ASCII
PIECES = (
    "",
    "a",
    "b",
    "1234567",
    "12345678",
    "\u00ff",
    "\U0001f600",
    "x" * 70,
    "\udcff",
    "\n",
    "\ud800",
)
texts = st.builds("".join, st.lists(st.sampled_from(PIECES), max_size=4))
several = st.lists(texts, max_size=12)


@given(st.binary(max_size=60), st.lists(st.integers(0, 40), max_size=9), st.integers(0, 8))
def test_words_from_any_place(text, places, offset):
    # Also where the buffer itself starts at no multiple of eight
    text += bytes(64 - len(text))
    data = np.frombuffer(bytes(offset) + text + PADDING, np.uint8)[offset:]
    words = words_from(data, np.array(places, np.int64))

    for start in (0, 8, 16):
        expected = [
            int.from_bytes(text[place + start : place + start + 8], "little") for place in places
        ]
        assert next(words).tolist() == expected


@settings(max_examples=15)
@given(several)
def test_texts_go_in_and_bytes_come_out(ids):
    byte_ids = ByteIds.of(ids)

    assert [byte_ids[row] for row in range(len(byte_ids))] == [*map(id_bytes, ids)]


@settings(max_examples=15)
@given(several)
def test_hashes_are_of_the_bytes_wherever_they_lie(ids):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(byte_ids, "_ROWS_PER_BATCH", 3)
        hashes = ByteIds.of(ids).hashes().tolist()

    for text, hashed in zip(ids, hashes, strict=True):
        assert ByteIds.of(["before", text, "after"]).hashes()[1] == hashed
    assert len(set(hashes)) == len({*map(id_bytes, ids)})


def test_hashes_are_the_same_on_every_machine():
    # They are in fingerprints, which files keep
    assert ByteIds.of(["d1", "a-longer-id"]).hashes().tolist() == HASHES


HASHES = [8094038970492536536, 14273840632282256993]


@pytest.mark.costly
def test_similar_ids_have_other_hashes():
    ids = [f"doc-{n:07d}" for n in range(50_000)]
    hashes = ByteIds.of(ids).hashes()

    assert len(np.unique(hashes)) == len(ids)
    slots = np.bincount((hashes >> np.uint64(54)).astype(np.int64), minlength=1024)
    assert slots.max() < 100, "spread over the upper bits too: 49 a slot are expected"


@settings(max_examples=15)
@given(several)
def test_neighbours_that_differ(ids):
    raw = np.array([*map(id_bytes, ids)], object)

    differs = ByteIds.of(ids).differ_from_last().tolist()

    assert differs == (raw[1:] != raw[:-1]).tolist()


@given(st.lists(st.tuples(texts, texts), max_size=9))
def test_pairs_that_are_equal(pairs):
    one, other = ([pair[side] for pair in pairs] for side in (0, 1))

    is_equal = ByteIds.of(one).equal(ByteIds.of(other)).tolist()

    assert is_equal == [id_bytes(a) == id_bytes(b) for a, b in pairs]


@pytest.mark.costly
@settings(max_examples=15)
@given(st.lists(st.tuples(st.integers(0, 3), texts), max_size=12, unique=True))
def test_order_falls_by_bytes_within_groups(members):
    group = np.array([number for number, _ in members], np.int64)
    ids = [text for _, text in members]

    order = ByteIds.of(ids).falling_order(group).tolist()

    expected = sorted(range(len(ids)), key=lambda row: id_bytes(ids[row]), reverse=True)
    expected.sort(key=lambda row: group[row])
    ids_in_order, expected_ids = (
        [(group[row], id_bytes(ids[row])) for row in o] for o in (order, expected)
    )
    assert ids_in_order == expected_ids


@pytest.mark.parametrize(
    ("starts", "ends", "expected"),
    [([], [], []), ([2], [2], []), ([3, 0, 9], [5, 0, 11], [3, 4, 9, 10])],
)
def test_spans(starts, ends, expected):
    rows = spans(np.array(starts, np.int64), np.array(ends, np.int64))

    assert rows.tolist() == expected
