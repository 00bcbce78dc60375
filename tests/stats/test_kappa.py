"""Kappa against scikit-learn and worked by hand."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ragbench.stats.agreement import cohen_kappa
from tests.lazy import Lazy
from tests.stats.strategies import rated

sklearn = Lazy("sklearn.metrics")

LEVELS = [1, 2, 3, 4, 5]


@given(
    pair=rated(),
    weights=st.sampled_from([("equal", None), ("linear", "linear"), ("quadratic", "quadratic")]),
)
@settings(max_examples=16)
def test_agrees_with_scikit_learn(pair, weights):
    assume(all(len(set(ratings)) > 1 for ratings in pair))
    x, y = (ratings.astype(int) for ratings in pair)

    ours = cohen_kappa(np.column_stack(pair), weights=weights[0]).value

    assert ours == pytest.approx(
        sklearn.cohen_kappa_score(x, y, labels=LEVELS, weights=weights[1]), abs=1e-9
    )


def _of(table):
    """The ratings of two raters that have these counts, levels from 1 on."""
    rows = [
        (i, j) for i, row in enumerate(table, 1) for j, n in enumerate(row, 1) for _ in range(n)
    ]
    return np.array(rows, float)


@pytest.mark.parametrize(
    ("table", "weights", "expected"),
    [
        pytest.param([[20, 5], [10, 15]], "equal", 0.4, id="(.7 - .5) / (1 - .5)"),
        pytest.param([[1, 1], [1, 1]], "equal", 0.0, id="chance"),
        pytest.param([[0, 2], [2, 0]], "equal", -1.0, id="never: 1 - 1 / .5"),
        pytest.param(
            [[1, 0, 1], [0, 1, 0], [0, 0, 1]],
            "linear",
            1 - (2 / 4) / (16 / 16),
            id="marginals 2 1 1 and 1 1 2: distances 1 x 6 + 2 x 5 = 16 of 4 x 4",
        ),
        pytest.param(
            [[1, 0, 1], [0, 1, 0], [0, 0, 1]],
            "quadratic",
            1 - (4 / 4) / (26 / 16),
            id="likewise 1 x 6 + 4 x 5 = 26",
        ),
    ],
)
def test_hand_worked(table, weights, expected):
    assert cohen_kappa(_of(table), weights).value == pytest.approx(expected)


def test_unused_levels_count_as_distance():
    # 1 and 5 are four apart, though nobody says 2, 3 or 4
    table = np.array([[1, 1], [1, 5], [5, 5], [5, 5], [4, 4]])
    near = np.array([[1, 1], [1, 3], [3, 3], [3, 3], [2, 2]])

    assert cohen_kappa(table, "linear").value != cohen_kappa(near, "linear").value
