"""Max-T against every sign written out in plain Python, SciPy for one column, and error rates."""

import tracemalloc
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.stats import multiple_comparisons
from ragbench.stats import paired_tests as signs
from ragbench.stats.clusters import cluster_sums
from ragbench.stats.difference import paired_differences
from ragbench.stats.multiple_comparisons import SystemPairs, max_t_p_values
from ragbench.stats.paired_tests import random_flips, randomization_p_values
from tests.stats.strategies import difference_tables


def written_out(table):
    """Westfall and Young's definition, one flip and one hypothesis at a time."""
    d = np.nan_to_num(table)
    m = d.shape[1]
    norms = [np.sqrt((d[:, j] ** 2).sum()) or 1.0 for j in range(m)]
    observed = [abs(d[:, j].sum()) / norms[j] for j in range(m)]
    flips = [
        [abs(np.dot(flip, d[:, j])) / norms[j] for j in range(m)]
        for flip in product((1, -1), repeat=len(d))
    ]
    p_values = []
    for j in range(m):
        rivals = [k for k in range(m) if observed[k] <= observed[j] + 1e-9]
        reached = [max(flip[k] for k in rivals) >= observed[j] - 1e-9 for flip in flips]
        p_values.append(np.mean(reached))
    p_values = [  # no p-value below one of a more extreme column
        max(p_values[k] for k in range(m) if observed[k] >= observed[j] - 1e-9) for j in range(m)
    ]
    return np.where(np.isnan(table).all(axis=0), np.nan, p_values)


@given(difference_tables())
@settings(max_examples=16, deadline=None)
def test_agrees_with_every_sign_written_out(table):
    expected = written_out(table)

    assert max_t_p_values(table) == pytest.approx(expected, nan_ok=True, abs=1e-12)


@given(difference_tables(max_columns=1))
@settings(max_examples=16)
def test_one_column_is_the_randomization_test(table):
    np.testing.assert_array_equal(max_t_p_values(table), randomization_p_values(table))


def test_one_column_of_random_flips_is_the_randomization_test():
    table = np.random.default_rng(1).normal(0.02, 0.1, (40, 1))

    np.testing.assert_array_equal(
        max_t_p_values(table, resamples=3_000), randomization_p_values(table, resamples=3_000)
    )


def test_random_flips_approach_the_exact_p_values(monkeypatch):
    # 14 queries, all 16,384 flips against 20,000 random ones: two standard errors
    table = np.random.default_rng(2).normal([0.0, 0.03, 0.06], 0.1, (14, 3))
    exact = max_t_p_values(table)
    monkeypatch.setattr("ragbench.stats.multiple_comparisons.EXACT_UP_TO", 0)
    ours = max_t_p_values(table, resamples=20_000)

    assert (ours != exact).all()
    assert ours == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        pytest.param([[1, 1], [1, 1], [1, 1]], [1 / 4, 1 / 4], id="a copy costs nothing: 2 / 8"),
        pytest.param(
            [[1, 0], [1, 0], [1, 0], [0, 1]],
            [2 / 8, 1.0],
            id="sqrt 3 only by +++ and ---; the other always 1",
        ),
        pytest.param([[1, 0], [1, 0]], [1 / 2, 1.0], id="identical: 1"),
        pytest.param([[1, np.nan], [1, np.nan]], [1 / 2, np.nan], id="not scored: NaN"),
        pytest.param([[1, 1e9], [1, 1e9]], [1 / 2, 1 / 2], id="scale does not matter"),
    ],
)
def test_hand_worked(table, expected):
    ours = max_t_p_values(np.array(table, dtype=float))

    assert ours == pytest.approx(expected, nan_ok=True)


@given(difference_tables(), st.randoms(use_true_random=False))
@settings(max_examples=16)
def test_order_changes_nothing_where_exact(table, random):
    p_values = max_t_p_values(table)
    columns = random.sample(range(table.shape[1]), table.shape[1])
    rows = random.sample(range(len(table)), len(table))

    np.testing.assert_array_equal(max_t_p_values(table[:, columns]), p_values[columns])
    for same in (table[rows], -table, table * 1e200, table * 1e-200):
        np.testing.assert_array_equal(max_t_p_values(same), p_values)


def test_order_of_columns_and_blocks_change_nothing_where_random(monkeypatch):
    table = np.random.default_rng(3).normal(np.linspace(0, 0.04, 6), 0.1, (60, 6))
    p_values = max_t_p_values(table, resamples=700)

    np.testing.assert_array_equal(max_t_p_values(table[:, ::-1], resamples=700), p_values[::-1])
    monkeypatch.setattr(signs, "_BLOCK_BYTES", 8 * 73 * 11)
    np.testing.assert_array_equal(max_t_p_values(table, resamples=700), p_values)


@pytest.mark.costly
def test_any_false_rejection_is_as_rare_as_it_says():
    # 500 families of 10 columns that do not differ, one of them in counts: 5 %, error 1
    rng = np.random.default_rng(5)
    scale = np.array([1.0] * 9 + [500.0])
    families = (rng.normal(size=(40, 10)) * scale + rng.normal(size=(40, 1)) for _ in range(500))
    rejected = [max_t_p_values(d, resamples=199).min() <= 0.05 for d in families]

    assert np.mean(rejected) == pytest.approx(0.05, abs=0.03)


def test_one_real_difference_in_another_unit_is_found():
    # Without the division the column of counts would hide it: 0 of 84 %
    rng = np.random.default_rng(6)
    n_shown = 0
    for _ in range(50):
        d = np.column_stack((rng.normal(0.06, 0.1, 40), rng.normal(0, 500, 40)))
        n_shown += max_t_p_values(d, resamples=199)[0] <= 0.05
    assert n_shown >= 40


def test_no_column_and_no_query():
    assert max_t_p_values(np.zeros((5, 0))).shape == (0,)
    assert np.isnan(max_t_p_values(np.zeros((0, 2)))).all()


def differing(values, alpha=0.05, clusters=None):
    """Return the pairs of systems with a small p-value."""
    pairs = SystemPairs(values, clusters)
    numbers = zip(pairs.first.tolist(), pairs.second.tolist(), pairs.p_values, strict=True)
    return [(first, second) for first, second, p in numbers if p <= alpha]


CLEAR = np.random.default_rng(7).normal([0.9, 0.5, 0.9, 0.1], 0.05, (60, 4))


def test_pairs_separate_the_clear_cases():
    assert differing(CLEAR) == [(0, 1), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert differing(CLEAR, alpha=1e-5) == [], "10,000 flips cannot say so little"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([[0.3]], [], id="one system"),
        pytest.param([[0.3, 0.9]], [], id="one query tells nothing"),
        pytest.param([[0.3, 0.3]] * 9, [], id="the same everywhere"),
        pytest.param([[0.3, 0.2]] * 5, [], id="5 of 5 worse: p 2 / 32"),
        pytest.param([[0.3, 0.2]] * 6, [(0, 1)], id="6 of 6 worse: p 2 / 64"),
        pytest.param([[0.3, np.nan]] * 9, [], id="no score at all"),
        pytest.param([[0.3, np.nan]] * 9 + [[np.nan, 0.2]] * 9, [], id="no query in common"),
        pytest.param([[0.3, 0.2, 0.1 + 0.2]] * 6, [(0, 1), (1, 2)], id="equal, but for rounding"),
    ],
)
def test_pairs_by_hand(values, expected):
    assert differing(np.array(values)) == expected


def test_no_system():
    assert differing(np.zeros((4, 0))) == []


@given(difference_tables(), st.randoms(use_true_random=False))
@settings(max_examples=16)
def test_pairs_do_not_depend_on_the_order_of_systems(values, random):
    columns = random.sample(range(values.shape[1]), values.shape[1])
    moved = differing(values[:, columns], alpha=0.3)

    assert {frozenset(pair) for pair in differing(values, alpha=0.3)} == {
        frozenset((columns[first], columns[second])) for first, second in moved
    }


@pytest.mark.parametrize("seed", range(4))
def test_only_columns_of_one_group_are_paired(seed):
    # Two measures side by side: the flips of a query are the same for both
    rng = np.random.default_rng(seed)
    scores = rng.random((50, 5)) * [1, 1, 1, 100, 100]
    scores[rng.random((50, 5)) < 0.1] = np.nan
    pairs = SystemPairs(scores, groups=[0, 0, 0, 3, 3], resamples=300, seed=seed)
    places = [(0, 1), (0, 2), (1, 2), (3, 4)]
    d = np.column_stack([paired_differences(scores[:, a], scores[:, b]) for a, b in places])

    assert list(zip(pairs.first, pairs.second, strict=True)) == places
    np.testing.assert_array_equal(pairs.p_values, max_t_p_values(d, resamples=300, seed=seed))


def scores_of(seed, n=60):
    """Ties, offsets, few changes, holes that differ between systems, and holes that do not."""
    rng = np.random.default_rng(seed)
    shape = n, int(rng.integers(1, 7))
    scores = [
        rng.random(shape),
        rng.integers(0, 3, shape) / 3,
        1e3 * rng.random((n, 1)) + rng.random(shape) * (rng.random(shape) < 0.3),
        1e-300 * rng.random(shape),
    ][seed % 4]
    scores[rng.random(shape) < [0, 0, 0.1][seed % 3]] = np.nan
    scores[rng.random(n) < [0, 0.3][seed % 2]] = np.nan
    return scores, rng.integers(0, 40, n) if seed % 5 == 0 else None


@pytest.mark.costly
@pytest.mark.parametrize("seed", range(24))
def test_pairs_have_the_p_values_of_their_differences_to_the_last_bit(seed):
    scores, clusters = scores_of(seed)
    pairs = SystemPairs(scores, clusters, resamples=300, seed=seed)
    both = list(combinations(range(scores.shape[1]), 2))
    first, second = np.array(both, dtype=int).reshape(-1, 2).T
    d = paired_differences(scores[:, first], scores[:, second])
    d = d if clusters is None else cluster_sums(d, clusters)

    np.testing.assert_array_equal(pairs.p_values, max_t_p_values(d, resamples=300, seed=seed))


def test_all_pairs_take_one_product_for_each_system(monkeypatch):
    flipped = []

    def counting(columns, resamples, seed):
        flipped.append(columns.shape[1])
        return random_flips(columns, resamples, seed)

    monkeypatch.setattr(multiple_comparisons, "random_flips", counting)
    pairs = SystemPairs(np.random.default_rng(1).random((50, 10)), resamples=200)
    assert pairs.p_values.shape == (45,)
    assert flipped == [10]


def test_pairs_in_blocks_have_the_same_p_values(monkeypatch):
    scores = np.random.default_rng(2).normal(0.5, 0.1, (40, 9)) + np.linspace(0, 0.1, 9)
    whole = SystemPairs(scores, resamples=500).p_values

    for pairs_of_a_block in (1, 7):
        monkeypatch.setattr(multiple_comparisons, "_BLOCK_BYTES", 8 * 500 * pairs_of_a_block)
        np.testing.assert_array_equal(SystemPairs(scores, resamples=500).p_values, whole)


@pytest.mark.costly
def test_memory_grows_with_systems_not_with_their_pairs():
    # 40 systems have 780 pairs, 80 systems 3,160: four times as many

    def peak(systems):
        pairs = SystemPairs(np.random.default_rng(3).random((60, systems)), resamples=1_000)
        tracemalloc.start()
        assert pairs.p_values.size
        try:
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(80) <= 2.3 * peak(40)


@pytest.mark.parametrize(
    ("call", "place"),
    [
        (lambda: max_t_p_values([0.1]), "max_t_p_values: differences"),
        (lambda: max_t_p_values([[np.inf]]), "max_t_p_values: differences"),
        (lambda: max_t_p_values([[1.0]], resamples=0), "max_t_p_values: resamples"),
        (lambda: max_t_p_values([[1.0]], seed=-1), "max_t_p_values: seed"),
        (lambda: SystemPairs([1.0]), "SystemPairs: values"),
    ],
)
def test_bad_arguments_say_what_is_allowed(call, place, assert_message):
    with pytest.raises(OptionError) as caught:
        call()
    assert_message(caught.value, place)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(-0.1, 1 / 2**10, id="all - alone"),
        pytest.param(0.1, 1.0, id="every flip is as low"),
    ],
)
def test_a_decrease_looks_one_way(change, expected):
    assert max_t_p_values([[change]] * 10, decrease=True).tolist() == [expected]


def test_clusters_are_flipped_together():
    # Five topics of eight queries: 2^5 signs cannot reject at 5 %, 40 queries would
    table = np.column_stack([np.full(40, 0.5), 0.4 - np.repeat(np.arange(5), 8) / 100])
    topics = np.repeat(np.arange(5), 8)

    assert differing(table) == [(0, 1)]
    assert differing(table, clusters=topics) == []
