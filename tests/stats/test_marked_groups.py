"""Groups with too many marked items, against SciPy, every permutation, and error rates."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.stats import overrepresentation
from tests.lazy import Lazy

stats = Lazy("scipy.stats")

WITHOUT_REFERENCE = {
    "overrepresentation": "Fisher's exact test of SciPy for each group, and all permutations"
}


@st.composite
def families(draw, max_items=40, max_groups=5):
    n = draw(st.integers(1, max_items))
    m = draw(st.integers(0, max_groups))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shares = rng.choice([0.0, 0.1, 0.5, 0.9, 1.0], m + 1)
    return rng.random(n) < shares[0], rng.random((n, m)) < shares[1:]


@given(families())
@settings(max_examples=16)
def test_p_values_are_those_of_scipy(family):
    marked, members = family

    ours = overrepresentation(marked, members, resamples=1)

    n, n_marked = len(marked), sum(marked)
    sizes = members.sum(axis=0)
    counts = (members & marked[:, None]).sum(axis=0)
    oracle = stats.hypergeom.sf(counts - 1, n, n_marked, sizes)
    np.testing.assert_allclose(ours.p_values, oracle, rtol=1e-9)
    np.testing.assert_array_equal(ours.marked, counts)
    np.testing.assert_allclose(ours.expected, sizes * n_marked / n)


def test_far_tails_of_many_items_are_those_of_fisher():
    members = np.zeros((5000, 1), bool)
    members[:1900] = True
    marked = np.zeros(5000, bool)
    marked[:700] = marked[2000:2300] = True

    ours = overrepresentation(marked, members, resamples=1)

    oracle = stats.fisher_exact([[700, 1200], [300, 2800]], alternative="greater").pvalue
    assert ours.p_values[0] == pytest.approx(oracle, rel=1e-9)
    assert oracle < 1e-100


def test_adjusted_p_values_are_those_of_all_permutations():
    rng = np.random.default_rng(2)
    members = rng.random((9, 4)) < 0.4
    marked = np.zeros(9, bool)
    marked[[0, 1, 2]] = True

    ours = overrepresentation(marked, members, resamples=5_000)

    def p_values(chosen):
        counts = members[list(chosen)].sum(axis=0)
        return stats.hypergeom.sf(counts - 1, 9, 3, members.sum(axis=0))

    lowest = np.array([p_values(chosen).min() for chosen in combinations(range(9), 3)])
    exact = [(lowest <= p * (1 + 1e-9)).mean() for p in p_values((0, 1, 2))]
    np.testing.assert_allclose(ours.adjusted, exact, atol=0.03)


@pytest.mark.costly
def test_at_most_five_percent_of_random_marks_have_any_group():
    rng = np.random.default_rng(5)
    members = rng.random((70, 40)) < rng.uniform(0.05, 0.5, 40)
    n_false = 0
    for seed in range(100):
        marked = rng.permutation(70) < 13
        adjusted = overrepresentation(marked, members, resamples=99, seed=seed).adjusted
        n_false += adjusted.min() <= 0.05

    # 5 are expected at most; more than 12 have a chance of 0.2 %
    assert n_false <= 12


def test_equal_groups_cost_nothing():
    one = np.repeat([True, False], 10)[:, None]
    marked = np.arange(20) < 6

    alone = overrepresentation(marked, one).adjusted
    five = overrepresentation(marked, np.repeat(one, 5, axis=1)).adjusted

    np.testing.assert_array_equal(five, np.repeat(alone, 5))


@pytest.mark.parametrize("marked", [[False] * 4, [True] * 4])
def test_nothing_is_overrepresented_among_none_or_all(marked):
    result = overrepresentation(marked, [[1, 0], [1, 0], [0, 0], [0, 0]])

    assert result.p_values.tolist() == result.adjusted.tolist() == [1, 1]


def test_no_groups():
    result = overrepresentation([True, False], np.zeros((2, 0)))

    assert [len(column) for column in result] == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("marked", "options", "message"),
    [
        ([1], {}, "found 2 rows, allowed: 1"),
        ([1, 0], {"resamples": 0}, "resamples"),
        ([1, 0], {"seed": -1}, "seed"),
    ],
)
def test_wrong_arguments_are_named(marked, options, message):
    with pytest.raises(OptionError) as caught:
        overrepresentation(marked, [[1], [0]], **options)

    assert message in str(caught.value)
