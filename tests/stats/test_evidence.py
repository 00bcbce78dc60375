"""Evidence over commits: exact expectations, what repeats adds nothing, simulated errors."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.stats import drop_evidence, evidence
from ragbench.stats.evidence import evidence_path

STAKES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)
N = 14


@st.composite
def histories(draw, max_commits=5):
    """Differences of 14 queries at some commits, most of them 0, some without a pair."""
    cell = st.sampled_from([0.0, 0.0, 0.0, 0.25, -0.5, 1.0, -1.0, 1 / 3, math.nan])
    row = st.lists(cell, min_size=N, max_size=N)
    return np.array(draw(st.lists(row, min_size=1, max_size=max_commits)))


@given(st.lists(st.sampled_from([0.0, -1.0, 1.0, 0.3, -0.2]), min_size=12, max_size=30).filter(any))
def test_the_first_commit_by_the_definition(d):
    """Half of the capital is staked at once, in equal parts; the other half waits."""
    products = [math.prod(1 - min(stake, 0.95 / 1.02) * (x + 0.02) for x in d) for stake in STAKES]

    found = drop_evidence([d], 0.02)

    assert found.e == pytest.approx(0.5 * sum(products) / len(STAKES) + 0.5, rel=1e-9)
    assert (found.n_commits, found.fails_from) == (1, 20)


def test_where_all_scored_alike_before_there_is_nothing_to_predict_by():
    """By hand; rounding errors of equal scores are no pattern, in whatever order they come."""
    first, second = [1 / 3] * 14, [-1.0, 0.25, *[0.0] * 11, 1 / 3]
    expected = 0.0
    for stake in STAKES:
        stake = min(stake, 0.95 / 1.02)
        one, two = (math.prod(1 - stake * (x + 0.02) for x in d) for d in (first, second))
        expected += (one * two / 2 + two / 6) / len(STAKES)

    found = drop_evidence([first, second], 0.02)

    assert found.e == pytest.approx(expected + 1 / 3, rel=1e-6)


@pytest.mark.parametrize(
    "losing",
    [
        pytest.param([0.5] * 12, id="each query is a coin"),
        pytest.param([0.1] * 6 + [0.9] * 6, id="half of them mostly win, half lose"),
        pytest.param([0.0] * 5 + [1.0] * 5 + [0.5] * 2, id="most are certain"),
    ],
)
def test_no_commit_can_be_expected_to_pay(losing):
    """All 4096 outcomes of 12 queries, weighted by their chance: unequal queries pay least."""
    outcomes = np.array(list(itertools.product([-1.0, 1.0], repeat=12)))
    chances = np.where(outcomes < 0, losing, 1 - np.array(losing)).prod(axis=1)

    values, _ = evidence_path(outcomes[:, np.newaxis], 0.0)

    assert chances.sum() == pytest.approx(1)
    assert (chances @ values[:, 0]) <= 1 + 1e-12
    if losing[0] == 0.5:
        assert (chances @ values[:, 0]) == pytest.approx(1), "a fair bet, no more and no less"


def test_two_commits_cannot_be_expected_to_pay_either(monkeypatch):
    """All 64 x 64 outcomes of two fresh commits: the prediction is of the second one itself."""
    monkeypatch.setattr(evidence, "ENOUGH_UNITS", 6)
    rows = np.array(list(itertools.product([-1.0, 1.0], repeat=6)))
    pairs = np.array([[a, b] for a in rows for b in rows])

    values, _ = evidence_path(pairs, 0.0)

    assert values[:, 1].mean() <= 1 + 1e-12


@pytest.mark.costly
@given(histories(), st.data())
def test_a_commit_that_changes_nothing_adds_nothing(d, data):
    times = data.draw(st.lists(st.integers(1, 3), min_size=len(d), max_size=len(d)))

    once, again = drop_evidence(d, 0.02), drop_evidence(np.repeat(d, times, axis=0), 0.02)

    assert again.e == once.e
    assert again.n_commits == once.n_commits


def test_eighteen_identical_commits_say_no_more_than_the_first():
    d = np.repeat([-1.0, 0.0], [4, 96])

    first, all_of_them = drop_evidence([d], 0.0), drop_evidence([d] * 18, 0.0)

    assert 1 < first.e < first.fails_from
    assert set(all_of_them.e_values.tolist()) == {first.e}


def test_commits_like_the_record_are_no_evidence_at_all():
    found = drop_evidence(np.zeros((9, 50)), 0.02)

    assert found.e_values.tolist() == [1.0] * 9
    assert found.e < found.fails_from


@given(histories(), st.permutations(range(N)))
def test_the_order_of_queries_does_not_matter(d, order):
    expected = drop_evidence(d, 0.02).e_values

    np.testing.assert_allclose(drop_evidence(d[:, order], 0.02).e_values, expected, rtol=1e-6)


@given(histories())
def test_the_unit_of_a_score_does_not_matter(d):
    expected = drop_evidence(d, 0.02).e_values

    found = drop_evidence(d * 8, 0.16, range=(-3, 5)).e_values

    np.testing.assert_allclose(found, expected, rtol=1e-9)


@given(histories())
def test_copies_of_a_query_in_one_cluster_count_once(d):
    alone = drop_evidence(d, 0.02).e_values

    found = drop_evidence(np.repeat(d, 3, axis=1), 0.02, clusters=np.repeat(np.arange(N), 3))

    np.testing.assert_allclose(found.e_values, alone, rtol=1e-6)


@pytest.mark.costly
@given(histories())
def test_queries_that_never_have_a_pair_are_left_out(d):
    wider = np.insert(d, 3, np.nan, axis=1)

    np.testing.assert_allclose(
        drop_evidence(wider, 0.02).e_values, drop_evidence(d, 0.02).e_values, rtol=1e-9
    )


def test_many_histories_at_once_are_what_each_is_alone():
    d = np.random.default_rng(2).normal(-0.03, 0.2, (3, 6, 40)).clip(-1, 1)

    together, _ = evidence_path(d, 0.0)

    for values, one in zip(together, d, strict=True):
        np.testing.assert_allclose(drop_evidence(one, 0.0).e_values, values, rtol=1e-9)


def test_a_small_commit_is_not_bet_on():
    found = drop_evidence(-np.ones((3, 11)), 0.0)

    assert (found.e, found.n_commits) == (1.0, 0)
    assert drop_evidence(np.empty((0, 20)), 0.0).e == 1.0


def noisy_record(rng, shape):
    """The trap: the luck of the record is in every later difference."""
    record = rng.normal(0, 0.2, (shape[0], 1, shape[2]))
    return np.clip(rng.normal(0, 0.2, shape) - record, -1, 1)


def better_for_a_while(rng, shape):
    """What looked like a gain at first must not hide what looked like a drop after it."""
    d = noisy_record(rng, shape)
    d[:, :10] += 0.05
    return d


def renewed(rng, shape):
    d = rng.choice([-1.0, 0.0, 1.0], shape, p=[0.05, 0.9, 0.05])
    for commit in range(1, shape[1]):
        kept = rng.random(d[:, 0].shape) < 0.9
        d[:, commit] = np.where(kept, d[:, commit - 1], d[:, commit])
    return d


@pytest.mark.slow
@pytest.mark.parametrize("draw", [noisy_record, better_for_a_while, renewed])
@pytest.mark.parametrize("n", [20, 100])
def test_one_in_twenty_at_most_is_a_false_alarm_ever(draw, n):
    d = draw(np.random.default_rng(5), (200, 60, n))

    values, _ = evidence_path(d, 0.0)

    assert (values >= 20).any(axis=1).mean() <= 0.05
    naive = np.cumsum(np.log1p(-0.2 * d).sum(axis=2), axis=1)
    if draw is noisy_record:
        assert (naive >= math.log(20)).any(axis=1).mean() > 0.2, "the trap is one"


@pytest.mark.slow
def test_a_drop_that_no_commit_shows_is_shown_by_the_eighth():
    d = np.random.default_rng(6).choice([-1.0, 0.0, 1.0], (400, 8, 100), p=[0.04, 0.95, 0.01])

    values, _ = evidence_path(d, 0.0)

    assert (values >= 20).any(axis=1).mean() >= 0.8
    assert (values[:, 0] >= 20).mean() <= 0.02


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"range": (0, math.inf)}, "two finite ends"),
        ({"max_drop": -0.1}, "a number from 0 to 1"),
        ({"max_drop": 1.5}, "a number from 0 to 1"),
        ({"confidence": 1}, "between 0 and 1"),
        ({"clusters": ["a"]}, "20 labels"),
        ({"differences": [0.0] * 20}, "two: queries x columns"),
        ({"differences": [[2.0] * 20]}, "differences"),
    ],
)
def test_bad_arguments_say_what_is_allowed(options, message):
    given = {"differences": np.zeros((2, 20)), "max_drop": 0.02} | options

    with pytest.raises(OptionError, match=message):
        drop_evidence(given.pop("differences"), given.pop("max_drop"), **given)
