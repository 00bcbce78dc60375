"""Variance components: SciPy's analysis of variance, by hand, by simulation; the design advice."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.stats import VarianceComponent, VarianceSplit, cheapest_design, split_variance


def parts(x):
    return {c.levels: c.variance for c in split_variance(x).components}


def nested(rng, n, g, j, query=0.2, generator=0.1, judge=0.15):
    return (
        rng.normal(0, query, (n, 1, 1))
        + rng.normal(0, generator, (n, g, 1))
        + rng.normal(0, judge, (n, g, j))
    )


def test_agrees_with_scipys_analysis_of_variance(scipy_stats):
    """F = mean square between / within = (within + runs x between) / within."""
    x = nested(np.random.default_rng(1), 30, 4, 1)[:, :, 0]
    found = parts(x)
    within = found[("generator", "judge")]

    f = (within + 4 * found[("query",)]) / within

    assert f == pytest.approx(scipy_stats.f_oneway(*x).statistic)
    assert within == pytest.approx(x.var(axis=1, ddof=1).mean())


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        pytest.param(
            [0.0, 2.0], {("query", "generator", "judge"): 2.0}, id="one run: all confounded"
        ),
        pytest.param(
            [[0.0, 2.0], [10.0, 12.0]],
            {("query",): 49.0, ("generator", "judge"): 2.0},
            id="MS 100 and 2: (100 - 2) / 2",
        ),
        pytest.param(
            [[[0.0, 2.0]], [[10.0, 12.0]]],
            {("query", "generator"): 49.0, ("judge",): 2.0},
            id="the same two runs, of the judge",
        ),
        pytest.param(
            [[[0.0, 2.0], [4.0, 6.0]], [[10.0, 12.0], [14.0, 16.0]]],
            {("query",): 46.0, ("generator",): 7.0, ("judge",): 2.0},
            id="MS 200, 16, 2: (200 - 16) / 4, (16 - 2) / 2, 2",
        ),
        pytest.param(
            [[0.0, 2.0], [1.0, 1.0]],
            {("query",): 0.0, ("generator", "judge"): 1.0},
            id="an estimate below 0 is 0",
        ),
    ],
)
def test_hand_worked(x, expected):
    assert parts(x) == pytest.approx(expected)


def test_finds_the_variances_that_were_put_in():
    found = parts(nested(np.random.default_rng(2), 20_000, 3, 2))

    assert found[("query",)] == pytest.approx(0.04, rel=0.05)
    assert found[("generator",)] == pytest.approx(0.01, rel=0.08)
    assert found[("judge",)] == pytest.approx(0.0225, rel=0.03)


def test_its_standard_error_is_that_of_the_mean():
    rng = np.random.default_rng(3)
    means = [nested(rng, 40, 2, 3).mean() for _ in range(4_000)]
    split = split_variance(nested(rng, 20_000, 2, 3))

    assert split.standard_error(40, 2, 3) == pytest.approx(np.std(means), rel=0.05)


@given(st.integers(2, 5), st.integers(1, 3), st.integers(1, 3), st.integers(0, 9))
@settings(max_examples=40)
def test_in_its_own_design_it_gives_the_plain_standard_error(n, g, j, seed):
    """Whatever is confounded, the spread of the queries' means is what the mean varies by."""
    x = nested(np.random.default_rng(seed), n, g, j)
    split = split_variance(x)
    if all(component.variance > 0 for component in split.components):
        plain = x.mean(axis=(1, 2)).std(ddof=1) / np.sqrt(n)
        assert split.standard_error(n, g, j) == pytest.approx(plain)


def test_queries_that_miss_a_run_are_left_out():
    x = nested(np.random.default_rng(4), 10, 2, 2)
    holed = np.concatenate([x, np.full((1, 2, 2), np.nan)])
    holed[10, 0, 0] = 0.3

    assert split_variance(holed) == split_variance(x)
    assert split_variance(x).queries == 10


@pytest.mark.parametrize("x", [[], [0.5], [[0.1, 0.2]]])
def test_one_query_says_nothing_of_queries(x):
    assert np.isnan(split_variance(x).components[0].variance)
    assert cheapest_design(split_variance(x), 0.1) is None


def test_the_cheapest_design_beats_all_others():
    split = split_variance(nested(np.random.default_rng(5), 200, 3, 3))
    prices = {"query_cost": 3.0, "generation_cost": 2.0, "judgement_cost": 0.5}

    best = cheapest_design(split, 0.01, **prices)

    assert best.standard_error <= 0.01
    for n, g, j in itertools.product(range(100, 1500, 10), (1, 2, 3, 4), (1, 2, 3, 4)):
        if split.standard_error(n, g, j) <= 0.01:
            assert n * (3 + g * (2 + j * 0.5)) >= best.cost


def test_dear_queries_are_asked_more_often():
    split = split_variance(nested(np.random.default_rng(6), 500, 3, 3))
    cheap, dear = (cheapest_design(split, 0.01, query_cost=cost) for cost in (0.0, 100.0))

    assert dear.queries < cheap.queries
    assert dear.generations * dear.judgements > cheap.generations * cheap.judgements


def test_what_is_confounded_is_not_repeated():
    """Judged once: nobody knows whether a second time would help."""
    split = split_variance(nested(np.random.default_rng(7), 100, 3, 1))
    alone = VarianceSplit(
        (VarianceComponent(("query", "generator", "judge"), 0.04, 99),), 100, 1, 1
    )

    assert [c.confounded for c in split.components] == [False, True]
    assert cheapest_design(split, 0.01, query_cost=50.0).judgements == 1
    design = cheapest_design(alone, 0.01, query_cost=50.0)
    assert (design.queries, design.generations, design.judgements) == (400, 1, 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: split_variance(0.5), "split_variance: differences: found '0 dimensions'"),
        (lambda: split_variance([[np.inf]]), "found 'an infinity'"),
        (lambda: split_variance(np.zeros((3, 0))), "found 'no runs', allowed: one run or more"),
        (lambda: cheapest_design(split_variance([1, 2]), 0), "standard_error: found 0"),
        (
            lambda: cheapest_design(split_variance([1, 2]), 1, query_cost=-1),
            "query_cost: found -1, allowed: a number >= 0",
        ),
        (
            lambda: cheapest_design(split_variance([1, 2]), 1, generation_cost=0, judgement_cost=0),
            "or another cost above 0",
        ),
    ],
)
def test_bad_arguments_say_what_is_allowed(call, message):
    with pytest.raises(OptionError, match=message):
        call()
