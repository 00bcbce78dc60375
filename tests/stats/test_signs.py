"""Sign flips: every one once, the random ones fair, and both independent of the blocks."""

from itertools import product

import numpy as np
import pytest

from ragbench.stats import paired_tests as signs
from ragbench.stats.paired_tests import all_flips, random_flips, tolerance

TABLE = np.random.default_rng(2).normal(size=(70, 3))


def test_each_flip_comes_once():
    d = np.array([[1.0], [10.0], [100.0]])
    expected = sorted(sum(s) for s in product((1, -1), (10, -10), (100, -100)))

    assert sorted(np.concatenate(list(all_flips(d)))[:, 0].tolist()) == expected


def test_no_query_has_one_flip():
    assert np.concatenate(list(all_flips(np.zeros((0, 2))))).tolist() == [[0.0, 0.0]]


def test_random_flips_are_fair_and_independent():
    # The sums of n unit differences have mean 0 and variance n
    d = np.eye(130)
    flips = np.concatenate(list(random_flips(d, 20_000, seed=0)))

    assert set(np.unique(flips)) == {-1.0, 1.0}
    assert np.abs(flips.mean(axis=0)).max() < 5 / np.sqrt(20_000)
    assert flips.sum(axis=1).var() == pytest.approx(130, rel=0.05)


@pytest.mark.parametrize("rows", [1, 7, 64])
def test_blocks_do_not_change_the_flips(monkeypatch, rows):
    whole = np.concatenate(list(random_flips(TABLE, 300, seed=1)))
    every = np.concatenate(list(all_flips(TABLE[:9])))
    monkeypatch.setattr(signs, "_BLOCK_BYTES", rows * 8 * 70)
    blocks = list(random_flips(TABLE, 300, seed=1))

    assert max(map(len, blocks)) == rows
    np.testing.assert_allclose(np.concatenate(blocks), whole, rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.concatenate(list(all_flips(TABLE[:9]))), every, atol=1e-12)


@pytest.mark.parametrize(("n", "m"), [(70, 1), (2_000, 9), (5_000, 45), (300, 200)])
def test_sums_are_those_of_signs(n, m):
    # Each product covers a block of queries and flips; blocks at the ends are shorter
    table = np.random.default_rng(n).normal(size=(n, m))
    drawn = np.random.default_rng(4).integers(0, 2**64, size=(150, -(-n // 64)), dtype=np.uint64)
    bits = np.unpackbits(drawn.astype("<u8").view(np.uint8), axis=1, count=n).astype(np.int64)

    sums = np.concatenate(list(random_flips(table, 150, seed=4)))

    np.testing.assert_allclose(sums, (1 - 2 * bits) @ table, rtol=0, atol=1e-10)


def test_memory_stays_bounded_for_many_queries():
    sums = signs._FlippedSums(np.zeros((1_000_000, 4)), 10_000)

    assert sums._flips.nbytes <= 1.1 * signs._BLOCK_BYTES


def test_a_column_is_flipped_alike_in_any_company():
    together = np.concatenate(list(random_flips(TABLE, 200, seed=3)))
    alone = np.concatenate(list(random_flips(TABLE[:, 1:2], 200, seed=3)))

    np.testing.assert_allclose(together[:, 1:2], alone, rtol=0, atol=1e-12)


def test_tolerance_is_relative_to_what_is_summed():
    assert tolerance(np.array([[3.0, 0.0], [-1.0, 0.0]])) == pytest.approx([4e-12, 0.0])
