"""Greedy matching: values worked by hand, the definition word by word, properties."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ragbench.score.text.token_vectors import WeightedTokens, match

X, Y = (1.0, 0.0), (0.0, 1.0)
BETWEEN = (math.sqrt(0.5), math.sqrt(0.5))


def text(vectors, weights=None):
    weights = [1.0] * len(vectors) if weights is None else weights
    return WeightedTokens(np.array(vectors, dtype=np.float32), np.array(weights))


@st.composite
def texts(draw):
    n = draw(st.integers(1, 5))
    rows = draw(arrays(np.float32, (n, 3), elements=st.sampled_from([-2.0, -1.0, 0.5, 1.0, 3.0])))
    weights = draw(arrays(np.float64, n, elements=st.sampled_from([0.0, 0.5, 1.0, 2.0])))
    return WeightedTokens(rows / np.linalg.norm(rows, axis=1, keepdims=True), weights)


def by_definition(prediction, reference):
    """The weighted mean of the largest cosines, token by token."""

    def side(mine, theirs):
        best = [max(float(np.dot(a, b)) for b in theirs.vectors) for a in mine.vectors]
        total = sum(mine.weights)
        return sum(w * b for w, b in zip(mine.weights, best, strict=True)) / total if total else 0.0

    return side(prediction, reference), side(reference, prediction)


@settings(max_examples=30)
@given(texts(), texts())
def test_agrees_with_the_definition(prediction, reference):
    matched = match(prediction, reference)

    assert matched[:2] == pytest.approx(by_definition(prediction, reference), abs=1e-6)
    assert -1 <= matched.precision <= 1
    assert -1 <= matched.recall <= 1


@settings(max_examples=30)
@given(texts(), texts())
def test_swapping_the_texts_swaps_precision_and_recall(prediction, reference):
    forward, back = match(prediction, reference), match(reference, prediction)

    assert (forward.precision, forward.recall) == pytest.approx(
        (back.recall, back.precision), abs=1e-6
    )
    assert forward.fmeasure == pytest.approx(back.fmeasure, abs=1e-6)


@pytest.mark.parametrize(
    ("prediction", "reference", "expected"),
    [
        pytest.param(text([X]), text([X]), (1, 1, 1), id="equal"),
        pytest.param(text([X]), text([Y]), (0, 0, 0), id="at right angles"),
        pytest.param(text([X, Y]), text([X]), (1 / 2, 1, 2 / 3), id="(1 + 0) / 2, 1"),
        pytest.param(text([X, Y], [3, 1]), text([X]), (3 / 4, 1, 6 / 7), id="(3 x 1 + 0) / 4"),
        pytest.param(
            text([X, Y], [0, 1]), text([X]), (0, 1, 0), id="weight 0, matched all the same"
        ),
        pytest.param(text([X, Y], [0, 0]), text([X]), (0, 1, 0), id="no weight at all"),
        pytest.param(text([BETWEEN]), text([X, Y]), (0.5**0.5,) * 3, id="cosines of 45 degrees"),
        pytest.param(text([X]), text([(-1.0, 0.0)]), (-1, -1, 0), id="not clamped at 0"),
    ],
)
def test_hand_worked(prediction, reference, expected):
    assert match(prediction, reference) == pytest.approx(expected, abs=1e-6)
