"""Steps between the scores of neighbouring hits, and the note on scores that never fall."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.types.score_order import ScoreSteps

LISTS = st.lists(st.lists(st.sampled_from([-1.0, 0.0, -0.0, 0.5, 2.0, float("inf")]), max_size=5))


@given(LISTS)
def test_columns_and_lists_give_the_same_notes(rankings):
    starts = np.cumsum([0, *map(len, rankings)])
    scores = np.array([score for ranking in rankings for score in ranking], np.float64)
    steps = [pair for ranking in rankings for pair in pairwise(ranking)]

    in_columns = ScoreSteps.of(scores, starts)

    assert sum(in_columns) == len(steps)
    assert in_columns.falling == sum(first > after for first, after in steps)
    never_falls = bool(steps) and all(first <= after for first, after in steps)
    for from_file in (True, False):
        notes = ScoreSteps.of_lists(rankings).notes(from_file=from_file)
        assert in_columns.notes(from_file=from_file) == notes
        assert bool(notes) == never_falls


@pytest.mark.parametrize(
    "steps",
    [
        ScoreSteps(equal=3),
        ScoreSteps(equal=1, rising=1),
    ],
)
def test_the_note_has_the_line_to_write(steps, assert_message):
    [note] = steps.notes(from_file=True)
    assert_message(note)


def test_parts_add_up():
    parts = [ScoreSteps(1, 2, 0), ScoreSteps(0, 1, 4)]
    assert ScoreSteps.total(parts) == ScoreSteps(1, 3, 4)
    assert ScoreSteps.total([]) == ScoreSteps()
