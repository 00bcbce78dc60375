"""Scales of labels: what they hold, and the levels nearest to a score."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.calibration.label_scale import LabelScale
from ragbench.errors import OptionError
from ragbench.score.judge.rubric import load_rubric


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("1..5", (1, 2, 3, 4, 5)),
        ("0..1", (0, 1)),
        ("1..0", (1, 0)),
        ("-1 .. 1", (-1, 0, 1)),
        ("0..100", ()),
        ("0..0.5", ()),
    ],
)
def test_levels_are_one_apart(text, levels):
    assert LabelScale.parse(text).levels == levels


@pytest.mark.parametrize("text", ["5", "1-5", "1..1", "a..b", ""])
def test_anything_else_is_refused(text, assert_message):
    with pytest.raises(OptionError) as caught:
        LabelScale.parse(text)
    assert_message(caught.value)


def test_a_rubric_that_judges_claims_is_labelled_by_their_share():
    assert str(LabelScale.of_rubric(load_rubric("faithfulness"))) == "0..1"
    assert str(LabelScale.of_rubric(load_rubric("answer_relevancy"))) == "1..5"


@given(st.sampled_from(["1..5", "5..1", "0..1", "1..0", "-3..3"]))
def test_labels_come_back_from_their_scores(text):
    scale = LabelScale.parse(text)
    scores = scale.score(np.array(scale.levels))

    assert scores[[0, -1]].tolist() == [0, 1]
    assert tuple(scale.nearest_levels(scores)) == scale.levels


@pytest.mark.parametrize(
    ("score", "level"), [(0.124, 1), (0.125, 2), (0.5, 3), (0.874, 4), (0.875, 5), (0.3 + 0.325, 4)]
)
def test_halfway_is_the_better_level(score, level):
    assert LabelScale(1, 5).nearest_levels(np.array([score])) == [level]
