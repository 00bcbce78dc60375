"""Bradley-Terry against scipy's optimiser, against hand-worked odds, and against its own terms."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.stats import bradley_terry_strengths
from ragbench.stats.bradley_terry import win_matrix
from tests.lazy import Lazy

optimize = Lazy("scipy.optimize")
scipy = Lazy("scipy.stats")

TRIANGLE = [(0, 1), (0, 2), (1, 2)]
OUTCOMES = st.sampled_from([0.0, 0.5, 1.0, math.nan])


@st.composite
def comparisons(draw, connected=True):
    """Up to five systems and all their pairs; in a circle, everybody has beaten somebody."""
    size = draw(st.integers(2, 5))
    pairs = [(i, j) for i in range(size) for j in range(i + 1, size)]
    rows = draw(st.lists(st.lists(OUTCOMES, min_size=len(pairs), max_size=len(pairs)), max_size=8))
    circle = [math.nan if j > i + 1 and j - i < size - 1 else 0.5 for i, j in pairs]
    return np.array([*rows, *([circle] if connected else [])]).reshape(-1, len(pairs)), pairs


@settings(max_examples=16, deadline=None)
@given(comparisons())
def test_agrees_with_the_maximum_that_scipy_finds(case):
    outcomes, pairs = case
    strengths = bradley_terry_strengths(outcomes, pairs)
    wins = win_matrix(outcomes, pairs)

    def loss(free):
        values = np.append(free, -free.sum())
        return (wins * np.logaddexp(0, values[None, :] - values[:, None])).sum()

    oracle = optimize.minimize(
        loss, np.zeros(len(wins) - 1), method="BFGS", options={"gtol": 1e-9}
    ).x

    assert strengths.rule == "mle"
    np.testing.assert_allclose(strengths.values[:-1], oracle, atol=1e-5)
    assert strengths.values.sum() == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("outcomes", "odds"),
    [
        pytest.param([1, 1, 1, 0], 3, id="3 wins to 1"),
        pytest.param([1, 1, 0.5, 0], 2.5 / 1.5, id="(2 + 1/2) to (1 + 1/2)"),
        pytest.param([0.5, 0.5], 1, id="ties alone"),
        pytest.param([1, 0, math.nan], 1, id="no outcome counts for nobody"),
    ],
)
def test_two_systems_by_hand(outcomes, odds):
    strengths = bradley_terry_strengths(np.array(outcomes, dtype=float)[:, None], [(0, 1)])

    assert strengths.values == pytest.approx([math.log(odds) / 2, -math.log(odds) / 2])
    assert strengths.rule == "mle"


def test_three_systems_by_hand():
    # Strengths 4 : 2 : 1 give chances of 2/3, 4/5 and 2/3: of 15 comparisons 10, 12 and 10
    columns = [[1] * won + [0] * (15 - won) for won in (10, 12, 10)]
    strengths = bradley_terry_strengths(np.array(columns, dtype=float).T, TRIANGLE)

    assert strengths.values == pytest.approx(np.array([1, 0, -1]) * math.log(2), abs=1e-9)


def test_an_interval_by_hand():
    # A win, a loss, a tie added: variance 1/3 each, Student's t with 3 degrees of freedom
    strengths = bradley_terry_strengths([[1.0], [0.0]], [(0, 1)])

    assert strengths.upper == pytest.approx([math.sqrt(1 / 3) * scipy.t.ppf(0.975, 3)] * 2)
    assert strengths.lower == pytest.approx(-strengths.upper)


def test_one_that_never_lost_has_a_finite_strength_and_says_so():
    # Four wins and a tie added: 4.5 to 0.5
    strengths = bradley_terry_strengths(np.ones((4, 1)), [(0, 1)])

    assert strengths.rule == "plus_tie"
    assert strengths.values == pytest.approx([math.log(9) / 2, -math.log(9) / 2])
    assert strengths.lower[0] < strengths.values[0] < strengths.upper[0]


def test_what_was_not_compared_is_not_ranked():
    strengths = bradley_terry_strengths([[1, 1], [0, 0]], [(0, 1), (2, 3)])
    assert strengths.groups == ((0, 1), (2, 3))
    assert strengths.values == pytest.approx([0, 0, 0, 0])

    alone = bradley_terry_strengths([[1, math.nan], [0, math.nan]], [(0, 1), (1, 2)])
    assert alone.groups == ((0, 1), (2,))
    assert np.isnan([alone.values[2], alone.lower[2], alone.upper[2]]).all()


def test_nothing_at_all():
    strengths = bradley_terry_strengths(np.full((3, 1), math.nan), [(0, 1)])

    assert (strengths.n, np.isnan(strengths.values).all(), np.isnan(strengths.lower).all()) == (
        0,
        True,
        True,
    )
    assert bradley_terry_strengths(np.empty((0, 0)), []).groups == ()


@settings(max_examples=16, deadline=None)
@given(comparisons(connected=False))
def test_an_interval_holds_its_value_and_has_a_width(case):
    strengths = bradley_terry_strengths(*case)
    is_ranked = ~np.isnan(strengths.values)

    assert (strengths.lower[is_ranked] <= strengths.values[is_ranked]).all()
    assert (strengths.values[is_ranked] <= strengths.upper[is_ranked]).all()
    assert (strengths.upper[is_ranked] > strengths.lower[is_ranked]).all()
    for group in strengths.groups:
        if len(group) > 1:
            assert strengths.values[list(group)].sum() == pytest.approx(0, abs=1e-6)


@settings(max_examples=16, deadline=None)
@given(comparisons(connected=False))
def test_turned_pairs_say_the_same(case):
    outcomes, pairs = case
    one = bradley_terry_strengths(outcomes, pairs)
    other = bradley_terry_strengths(1 - outcomes, [(j, i) for i, j in pairs])

    np.testing.assert_allclose(one.values, other.values, atol=1e-6)
    np.testing.assert_allclose(one.lower, other.lower, atol=1e-6)


def test_comparisons_of_one_query_are_not_counted_as_queries():
    # The same outcome on both pairs of each query says less than outcomes of their own
    pairs = [(0, 1), (0, 2)]
    alike = bradley_terry_strengths([[1, 1], [1, 1], [0, 0], [0, 0]] * 5, pairs)
    apart = bradley_terry_strengths([[1, 1], [1, 0], [0, 1], [0, 0]] * 5, pairs)

    assert alike.values == pytest.approx(apart.values)
    assert alike.upper[0] - alike.lower[0] > 1.2 * (apart.upper[0] - apart.lower[0])


@pytest.mark.costly
def test_the_interval_covers_the_truth():
    # 95 % of 125 samples, give or take 3 standard errors of that share
    rng = np.random.default_rng(7)
    truth = np.array([0.8, 0.0, -0.8])
    chances = [1 / (1 + math.exp(truth[j] - truth[i])) for i, j in TRIANGLE]
    hits = 0
    for _ in range(125):
        strengths = bradley_terry_strengths((rng.random((40, 3)) < chances).astype(float), TRIANGLE)
        hits += int(((strengths.lower <= truth) & (truth <= strengths.upper)).sum())

    assert hits / 375 == pytest.approx(0.95, abs=0.034)


@pytest.mark.parametrize(
    ("outcomes", "pairs", "place"),
    [
        ([[2.0]], [(0, 1)], "bradley_terry_strengths: outcomes"),
        ([[1.0]], [], "bradley_terry_strengths: pairs"),
        ([[1.0]], [(1, 1)], "bradley_terry_strengths: pairs"),
        ([[1.0]], [(0, -1)], "bradley_terry_strengths: pairs"),
        ([1.0], [(0, 1)], "bradley_terry_strengths: outcomes"),
    ],
)
def test_bad_input_says_what_is_allowed(outcomes, pairs, place, assert_message):
    with pytest.raises(OptionError) as caught:
        bradley_terry_strengths(outcomes, pairs)
    assert_message(caught.value, place)
