"""Batches of texts of similar length: nothing lost, nothing too large, little padding."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.embed.encoders import bucketed

lengths = st.lists(st.integers(0, 30), max_size=30)


@given(lengths, st.integers(1, 60), st.none() | st.integers(1, 4))
def test_every_text_is_in_one_batch_within_the_limits(lengths, budget, most):
    batches = list(bucketed(lengths, budget, most))

    assert sorted(position for batch in batches for position in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(max(lengths[position] for position in batch), 1)
        assert len(batch) == 1 or len(batch) * longest <= budget
        assert most is None or len(batch) <= most


@given(lengths, st.integers(1, 60))
def test_no_text_is_longer_than_one_of_an_earlier_batch(lengths, budget):
    order = [lengths[position] for batch in bucketed(lengths, budget) for position in batch]

    assert order == sorted(lengths, reverse=True)


@pytest.mark.parametrize(
    ("lengths", "budget", "expected"),
    [
        pytest.param([], 8, [], id="nothing"),
        pytest.param([9], 8, [[0]], id="9 > 8: alone"),
        pytest.param([4, 4, 4], 8, [[0, 1], [2]], id="2 x 4 = 8"),
        pytest.param([4, 4, 4], 7, [[0], [1], [2]], id="2 x 4 > 7"),
        pytest.param([2, 4, 1], 8, [[1, 0], [2]], id="4 + padded 2 = 8"),
    ],
)
def test_hand_worked(lengths, budget, expected):
    assert list(bucketed(lengths, budget)) == expected
