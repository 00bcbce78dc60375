"""Ids that stay bytes behave as the list of their texts."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.types import Run
from ragbench.types.byte_ids import ByteIds, TextIds, as_bytes

ids = st.lists(st.text(max_size=20).filter(lambda text: "\n" not in text), max_size=8)
bounds = st.none() | st.integers(-9, 9)


@settings(max_examples=30)
@given(ids, ids, bounds, bounds, st.sampled_from([None, 1, 2, -1]))
def test_reads_like_a_list(one, other, start, stop, step):
    text_ids = TextIds.joined([TextIds.of(ByteIds.of(one)), TextIds.of(ByteIds.of(other))])
    expected = one + other

    assert [*text_ids] == expected
    assert len(text_ids) == len(expected)
    assert [*text_ids[start:stop:step]] == expected[start:stop:step]
    assert [text_ids[row] for row in range(-len(expected), len(expected))] == expected * 2


def test_bytes_that_are_not_utf_8_come_back():
    ids = TextIds.of(ByteIds.of_bytes([b"\xff", b"a"]))

    assert [*ids] == ["\udcff", "a"]
    assert [as_bytes(ids)[row] for row in range(2)] == [b"\xff", b"a"]
    assert [*pickle.loads(pickle.dumps(ids))] == ["\udcff", "a"]


def test_no_row_behind_the_last():
    with pytest.raises(IndexError):
        TextIds.of(ByteIds.of(["a"]))[1]


@given(st.lists(st.lists(st.sampled_from(["a", "bb", "\xe9", "d 1"]), unique=True), max_size=5))
def test_joined_runs_are_one_run(rankings):
    whole = {f"q{row}": ids for row, ids in enumerate(rankings)}
    parts = [{query: ids} for query, ids in whole.items()]

    joined = Run.joined(map(Run.from_rankings, parts), "name")

    assert joined.to_dict() == Run.from_rankings(whole).to_dict()
    assert joined.query_ids == tuple(whole)
    assert joined.name == "name"
    assert isinstance(joined.documents, TextIds)


@pytest.mark.parametrize("odd", ["a\nb", "\ud800"])
def test_ids_that_bytes_would_change_stay_as_they_are(odd):
    parts = [{"q1": ["d1", "d1"]}, {"q2": [("d1", 1.0), (odd, 2.0)]}]

    joined = Run.joined(map(Run.from_rankings, parts))

    assert joined.to_dict() == {"q1": {"d1": 1.0}, "q2": {"d1": 2.0, odd: 1.0}}
    assert (joined.duplicates, joined.substituted) == ({"q1": 1}, 2)
