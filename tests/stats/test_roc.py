"""The area under the ROC curve against scikit-learn, and worked by hand."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ragbench.stats.agreement import mean_agreement
from ragbench.stats.correlation import roc_auc
from tests.lazy import Lazy
from tests.stats.strategies import FEW

sklearn = Lazy("sklearn.metrics")

items = st.lists(st.tuples(st.sampled_from(FEW), st.sampled_from([0, 1])), min_size=2, max_size=30)


@given(items)
@settings(max_examples=16)
def test_agrees_with_scikit_learn(items):
    scores, good = np.array(items, float).T
    assume(0 < good.sum() < len(good))

    ours = roc_auc(np.column_stack((scores, good))).value
    assert ours == pytest.approx(sklearn.roc_auc_score(good, scores), abs=1e-12)


@given(items)
@settings(max_examples=16)
def test_leaving_one_out_in_closed_form_is_computing_it_again(items):
    table = np.array(items, float)
    auc = roc_auc(table)
    assume(not np.isnan(auc.value))

    again = [roc_auc(np.delete(table, row, axis=0)).value for row in range(len(table))]

    np.testing.assert_allclose(auc.without, again, atol=1e-12)


@pytest.mark.parametrize(
    ("scores", "good", "expected"),
    [
        pytest.param([0.9, 0.8, 0.1], [1, 1, 0], 1.0, id="both above"),
        pytest.param([0.9, 0.4, 0.4, 0.1], [1, 1, 0, 0], 3.5 / 4, id="three pairs and a tie"),
        pytest.param([0.5, 0.5], [1, 0], 0.5, id="a tie"),
        pytest.param([0.1, 0.9], [1, 0], 0.0, id="the wrong way"),
    ],
)
def test_hand_worked(scores, good, expected):
    assert roc_auc(np.column_stack((scores, good))).value == expected


@given(items)
@settings(max_examples=16)
def test_turning_the_score_round_mirrors_it(items):
    scores, good = np.array(items, float).T
    one, other = (
        mean_agreement(roc_auc, [np.column_stack((s, good))], "ordinal", span=(0.0, 1.0))
        for s in (scores, -scores)
    )
    assume(one.rule != "undefined")

    assert other.value == pytest.approx(1 - one.value, abs=1e-12)
    if one.value != 0.5:  # at chance, neither way of differing is the opposite one
        assert (other.lower, other.upper) == pytest.approx((1 - one.upper, 1 - one.lower), abs=1e-9)
