"""Ids that stay bytes behave as the list of their texts."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.types.byte_ids import ByteIds, TextIds, as_bytes

ids = st.lists(st.text(max_size=20).filter(lambda text: "\n" not in text), max_size=8)
bounds = st.none() | st.integers(-9, 9)


@given(ids, ids, bounds, bounds, st.sampled_from([None, 1, 2, -1]))
def test_reads_like_a_list(one, other, start, stop, step):
    found = TextIds.joined([TextIds.of(ByteIds.of(one)), TextIds.of(ByteIds.of(other))])
    expected = one + other

    assert [*found] == expected
    assert len(found) == len(expected)
    assert [*found[start:stop:step]] == expected[start:stop:step]
    assert [found[row] for row in range(-len(expected), len(expected))] == expected * 2


def test_bytes_that_are_not_utf_8_come_back():
    ids = TextIds.of(ByteIds.of_bytes([b"\xff", b"a"]))

    assert [*ids] == ["\udcff", "a"]
    assert [as_bytes(ids)[row] for row in range(2)] == [b"\xff", b"a"]
    assert [*pickle.loads(pickle.dumps(ids))] == ["\udcff", "a"]


def test_no_row_behind_the_last():
    with pytest.raises(IndexError):
        TextIds.of(ByteIds.of(["a"]))[1]
