"""The sign-flip test: SciPy's exact p-values, hand-worked ones, and what may not change them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.stats import paired_tests as signs
from ragbench.stats.paired_tests import randomization_p_values
from tests.stats.strategies import difference_tables


def pair(*d):
    return np.array(d, dtype=float)[:, np.newaxis]


@given(difference_tables(missing=False))
@settings(max_examples=16, deadline=None)
def test_exact_agrees_with_scipy(scipy_stats, table):
    # Differences in tenths are multiples of one unit here, so that SciPy keeps the ties
    whole = np.rint(table * 10)
    ours = randomization_p_values(table)

    for column in range(table.shape[1]):
        d = whole[:, column]
        if len(d) < 2:
            assert ours[column] == 1.0  # one query: both signs are as far from 0
            continue
        oracle = scipy_stats.permutation_test(
            (d, np.zeros(len(d))),
            lambda a, b, axis: np.abs((a - b).sum(axis=axis)),
            permutation_type="samples",
            vectorized=True,
            alternative="greater",
            n_resamples=np.inf,
        )
        assert ours[column] == pytest.approx(oracle.pvalue, abs=1e-12)


def test_random_flips_agree_with_scipy(scipy_stats):
    # 40 changed queries, 20,000 flips each: two standard errors of .005
    d = np.random.default_rng(4).normal(0.03, 0.1, 40)
    oracle = scipy_stats.permutation_test(
        (d, np.zeros(40)),
        lambda a, b, axis: (a - b).mean(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=20_000,
        rng=1,
    ).pvalue

    assert 0.02 < oracle < 0.5
    assert randomization_p_values(d[:, None], resamples=20_000)[0] == pytest.approx(
        oracle, abs=0.01
    )


@pytest.mark.parametrize(
    ("d", "expected"),
    [
        pytest.param([0.1], 1.0, id="one query: 2 / 2"),
        pytest.param([0.1, 0.2, 0.3], 2 / 8, id="all won: +++ and ---"),
        pytest.param([0.1, -0.2, 0.3], 6 / 8, id="|sum| .2; only two flips give less, 0"),
        pytest.param([0.1, 0.2, 0.0, 0.0, 0.3], 2 / 8, id="unchanged queries do not matter"),
        pytest.param([0.1, 0.2, np.nan, 0.3], 2 / 8, id="unscored queries do not matter"),
        pytest.param([0.0, 0.0], 1.0, id="nothing changed"),
        pytest.param([0.0, np.nan], 1.0, id="nothing changed where scored"),
        pytest.param([np.nan, np.nan], np.nan, id="nothing scored"),
        pytest.param([1.0] * 14, 2 / 2**14, id="14 changed: exact"),
        pytest.param([1.0] * 40, 1 / 1000, id="40 changed: 999 flips and the observed one"),
    ],
)
def test_hand_worked(d, expected):
    ours = randomization_p_values(pair(*d), resamples=999)

    assert ours == pytest.approx([expected], nan_ok=True, abs=1e-15)


def test_ties_lost_to_rounding_are_ties():
    # .1 + .2 - .3 is 6e-17 and not 0, and one order of summing differs from another
    d = [0.1, 0.2, -0.3, 0.7, -0.7]
    tenths = [1.0, 2.0, -3.0, 7.0, -7.0]

    assert randomization_p_values(pair(*d)) == randomization_p_values(pair(*tenths)) == [1.0]

    many = pair(*([0.1, 0.2, -0.3] * 10), 0.3)
    whole = np.rint(many * 10)
    np.testing.assert_array_equal(
        randomization_p_values(many, resamples=2_000),
        randomization_p_values(whole, resamples=2_000),
    )


@given(difference_tables(), st.randoms(use_true_random=False))
@settings(max_examples=16)
def test_what_may_not_change_exact_p_values(table, random):
    p_values = randomization_p_values(table)
    rows = random.sample(range(len(table)), len(table))

    for same in (table[rows], -table, table * 1e200, table * 1e-200):
        np.testing.assert_array_equal(randomization_p_values(same), p_values)
    np.testing.assert_array_equal(randomization_p_values(table[:, ::-1]), p_values[::-1])


def test_a_pair_has_the_same_p_value_in_any_company():
    table = np.random.default_rng(5).normal(0.02, 0.1, (80, 4))
    table[10:, 2] = 0.0  # an exact one among them
    together = randomization_p_values(table, resamples=1_000, seed=3)

    alone = [randomization_p_values(table[:, [j]], resamples=1_000, seed=3)[0] for j in range(4)]
    assert together.tolist() == alone


def test_blocks_do_not_change_p_values(monkeypatch):
    table = np.round(np.random.default_rng(6).normal(0.01, 0.1, (90, 5)), 1)
    whole = randomization_p_values(table, resamples=1_000)
    monkeypatch.setattr(signs, "_BLOCK_BYTES", 8 * 90 * 13)

    np.testing.assert_array_equal(randomization_p_values(table, resamples=1_000), whole)


def test_the_seed_decides():
    table = np.random.default_rng(7).normal(0.01, 0.1, (50, 1))
    p_values = {
        seed: randomization_p_values(table, resamples=500, seed=seed)[0] for seed in range(9)
    }

    assert len(set(p_values.values())) > 1
    assert randomization_p_values(table, resamples=500, seed=8)[0] == p_values[8]


def test_rejects_as_rarely_as_it_says():
    # 1,000 pairs that do not differ: at 5 %, standard error .7 points
    null = np.random.default_rng(8).standard_t(3, (60, 1_000))

    assert np.mean(randomization_p_values(null, resamples=999) <= 0.05) == pytest.approx(
        0.05, abs=0.021
    )


def test_no_pair_and_no_query():
    assert randomization_p_values(np.zeros((5, 0))).shape == (0,)
    assert np.isnan(randomization_p_values(np.zeros((0, 2)))).all()


def test_arguments_are_not_modified():
    table = np.array([[np.nan, 0.5], [0.1, -0.5]])
    original = table.copy()
    randomization_p_values(table)

    np.testing.assert_array_equal(table, original)


@pytest.mark.parametrize(
    ("table", "options", "place"),
    [
        ([0.1], {}, "randomization_p_values: differences"),
        ([[np.inf]], {}, "randomization_p_values: differences"),
        ([[0.1]], {"resamples": 0}, "randomization_p_values: resamples"),
        ([[0.1]], {"seed": -1}, "randomization_p_values: seed"),
    ],
)
def test_bad_arguments_say_what_is_allowed(table, options, place, assert_message):
    with pytest.raises(OptionError) as caught:
        randomization_p_values(table, **options)
    assert_message(caught.value, place)
