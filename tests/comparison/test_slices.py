"""Slices: a loss that the mean hides is found, chance is not, small slices are only listed."""

import numpy as np
import pytest

from ragbench.comparison.method import Method
from ragbench.comparison.slice_differences import compare_slices
from ragbench.comparison.slices import Slicing
from ragbench.records.codec import to_json
from ragbench.stats import randomization_p_values
from tests.comparison.test_paired import system

RANDOM = np.random.default_rng(21)
TOPICS = Slicing(
    "metadata.topic", ("law", "tax", "tiny"), [("law",)] * 60 + [("tax",)] * 60 + [("tiny",)] * 9
)
BASE = RANDOM.uniform(0.3, 0.7, 129)
CHANGE = np.concatenate(
    [RANDOM.normal(0.15, 0.1, 60), RANDOM.normal(-0.08, 0.1, 60), np.full(9, -0.1)]
)


def slices(other, *, slicing=TOPICS, clusters=None, **facts):
    systems = [system("base", BASE, **facts), system("new", other, **facts)]
    compared = compare_slices(systems, "base", Method(resamples=2_000), [slicing], clusters)
    return [to_json(row) for row in compared]


def test_finds_the_loss_that_the_mean_hides():
    law, tax, tiny = slices(BASE + CHANGE)

    assert CHANGE.mean() > 0
    assert (law["worse"], tax["worse"], tiny["worse"]) == (False, True, None)
    assert (tax["slice"], tax["field"]) == ("tax", "metadata.topic")
    assert tax["difference"] == pytest.approx(CHANGE[60:120].mean())
    assert tax["interval"][1] < 0
    assert [row["n"] for row in (law, tax, tiny)] == [60, 60, 9]
    assert tiny["p_adjusted"] is None, "nine queries are listed, not tested"


def test_a_single_slice_is_the_one_sided_randomization_test():
    everything = Slicing("all", ("all",), [("all",)] * 129)
    d = CHANGE - 0.01
    (row,) = slices(BASE + d, slicing=everything)

    two_sided = randomization_p_values(d[:, None], resamples=20_000)[0]
    one_sided = two_sided / 2 if d.sum() < 0 else 1 - two_sided / 2
    assert row["p_adjusted"] == pytest.approx(one_sided, abs=0.03)


def test_lower_is_better_turns_worse_round():
    law, tax, _ = slices(BASE + CHANGE, direction="lower")

    assert (law["worse"], tax["worse"]) == (True, False)


def test_unscored_queries_do_not_fill_a_slice():
    other = BASE + CHANGE
    other[60:105] = np.nan

    _, tax, _ = slices(other)

    assert (tax["n"], tax["worse"]) == (15, None)


def test_clusters_fill_a_slice():
    # 60 queries of 12 clusters are twelve units: too few
    clusters = [f"c{i // 5}" for i in range(129)]

    law, tax, _ = slices(BASE + CHANGE, clusters=clusters)

    assert law["worse"] is tax["worse"] is None
    assert law["n_clusters"] == 12


@pytest.mark.slow
def test_chance_is_seldom_called_worse():
    # 20 comparisons of eight slices without a loss: at 5 %, se 4.9 points; uncorrected, 34 %
    slicing = Slicing("f", tuple("abcdefgh"), [(name,) for name in "abcdefgh"] * 25)
    rng, wrong = np.random.default_rng(3), 0
    for _ in range(20):
        base, other = rng.uniform(0.2, 0.8, (2, 200))
        systems = [system("base", base), system("new", other)]
        rows = compare_slices(systems, "base", Method(resamples=199), [slicing])
        wrong += any(row.worse for row in rows)

    assert wrong / 20 < 0.16


def test_a_query_of_two_slices_is_in_both():
    # The loss of the second half is found in the slice that has it, whatever else is there
    labels = [("law", "old")] * 60 + [("tax", "old")] * 60 + [("old",)] * 9
    slicing = Slicing("metadata.tags", ("law", "tax", "old"), labels)
    law, tax, old = slices(BASE + CHANGE, slicing=slicing)

    assert [row["n"] for row in (law, tax, old)] == [60, 60, 129]
    assert (law["worse"], tax["worse"], old["worse"]) == (False, True, False)
    assert old["difference"] == pytest.approx(CHANGE.mean())
