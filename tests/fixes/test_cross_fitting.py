"""Gains of choices, by hand and against a loop over the parts."""

import numpy as np
import pytest

from ragbench.fixes.cross_fitting import choose, gain_of, parts_of


def test_every_part_is_priced_by_a_choice_without_it():
    rng = np.random.default_rng(5)
    hits, base = rng.random((7, 60)) < 0.6, rng.random(60) < 0.5
    parts = parts_of(60, seed=3)

    best, confirmed = choose(hits, base, parts)

    # recomputed plainly: choose on nine parts, count the gain on the tenth
    gains = hits.astype(int) - base
    for part in range(10):
        inside = parts == part
        choice = gains[:, ~inside].sum(axis=1).argmax()
        assert confirmed[inside].tolist() == gains[choice, inside].tolist()
    assert best == gains.sum(axis=1).argmax()


def test_of_equal_changes_the_first_is_chosen():
    # three equal changes: the first of them is the cheapest to try
    hits = np.ones((3, 20), bool)

    best, confirmed = choose(hits, np.zeros(20, bool), parts_of(20, seed=0))

    assert best == 0
    assert confirmed.tolist() == [1.0] * 20


def test_the_parts_are_of_one_size_and_keep_clusters_together():
    assert np.bincount(parts_of(100, seed=1)).tolist() == [10] * 10
    # two clusters can fill only two parts
    clusters = ["a", "b"] * 15
    parts = parts_of(30, seed=1, clusters=clusters)
    assert len(set(parts[::2].tolist())) == len(set(parts[1::2].tolist())) == 1


def test_the_interval_of_other_questions_is_wider_by_the_choices_and_the_questions():
    # four questions gained and one lost, of 70
    gain = gain_of(np.array([1.0] * 4 + [-1.0] + [0.0] * 65), 0.95)

    assert gain.mean == pytest.approx(3)
    for end, wide in zip(gain.interval, gain.untouched, strict=True):
        # variances add up: 1 + 10 / 9 of a cross-fitted mean, and 1 of as many other questions
        assert wide - 3 == pytest.approx((2 + 10 / 9) ** 0.5 * (end - 3))
    assert gain.interval[0] < 0 < gain.interval[1]
