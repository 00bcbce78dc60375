"""`max_increase`: the interval decides, on either side of it and inside."""

import math
from dataclasses import replace

import numpy as np
import pytest

from ragbench.comparison.method import Method
from ragbench.comparison.pairs import PairedScores
from ragbench.gates.increase import CostIncrease
from ragbench.signature import Signature
from ragbench.stats import increase_interval
from ragbench.types import ScoreColumn

N = 120
RNG = np.random.default_rng(7)
BEFORE = np.exp(RNG.normal(3, 0.5, N))
NOW = BEFORE * np.exp(RNG.normal(0.1, 0.3, N))
METHOD = Method(resamples=1000)


MEASURES = {None: "usd", 0.5: "latency_ms.p50", 0.95: "latency_ms.p95"}


def decide_increase(pairs, margin, method, *, quantile=None):
    return CostIncrease(measure=MEASURES[quantile], max_increase=margin).decide_pairs(pairs, method)


def column(values):
    causes = np.where(np.isnan(values), 6, 0).astype(np.uint8)
    return ScoreColumn("cost", values, causes, Signature("cost"), "lower", 0.0, math.inf)


def pairs(now, before=BEFORE, clusters=None):
    ids = [f"q{i}" for i in range(len(now))]
    return PairedScores(column(now), column(before), ids, clusters)


@pytest.mark.costly
@pytest.mark.parametrize("quantile", [None, 0.5, 0.95])
def test_the_interval_decides_and_not_the_number(quantile):
    expected = increase_interval(NOW, BEFORE, quantile=quantile, resamples=1000, seed=METHOD.seed)
    low, high, middle = expected.lower, expected.upper, expected.increase
    assert low < middle < high

    def verdict(margin):
        return decide_increase(pairs(NOW), margin, METHOD, quantile=quantile).verdict

    assert verdict(high + 1e-6) == "pass"
    assert verdict((middle + high) / 2) == "undecided"
    assert verdict(high - 1e-6) == "undecided"
    if low > 0:
        assert verdict(low + 1e-6) == "undecided"
        assert verdict(low - 1e-6) == "fail"
    found = decide_increase(pairs(NOW), (middle + high) / 2, METHOD, quantile=quantile)
    assert found.facts.interval == (low, high)
    assert found.power.queries_needed.equal > 0
    assert found.power.detectable > (middle + high) / 2


def test_what_is_not_known_is_left_out():
    now = NOW.copy()
    now[::4] = np.nan

    found = decide_increase(pairs(now), 5.0, METHOD)

    assert (found.verdict, found.facts.n) == ("pass", 90)
    nothing = decide_increase(pairs(np.full(N, np.nan)), 5.0, METHOD)
    assert (nothing.verdict, nothing.why) == (
        "undecided", "not compared: known of no query in both; gate a cost that both have"
    )  # fmt: skip


def test_what_is_the_same_may_be_asked_to_be_undecided():
    gate = CostIncrease(measure="usd", max_increase=0.1, identical="undecided")

    same, doubled = (gate.decide_pairs(pairs(BEFORE * k), METHOD) for k in (1.0, 2.0))

    assert (same.verdict, doubled.verdict) == ("undecided", "fail")
    assert same.why.startswith(f"the same on all {N} queries")
    assert same.why.endswith("; identical: pass accepts it")
    assert (same.level, same.not_worse) == ("notice", True)
    assert replace(gate, identical="pass").decide_pairs(pairs(BEFORE), METHOD).verdict == "pass"


def test_few_clusters_are_undecided():
    few = [f"c{i % 9}" for i in range(N)]
    enough = [f"c{i % 30}" for i in range(N)]

    assert "9 clusters are too few" in decide_increase(pairs(NOW, clusters=few), 5.0, METHOD).why
    found = decide_increase(pairs(NOW, clusters=enough), 5.0, METHOD)
    assert (found.verdict, found.facts.n_clusters) == ("pass", 30)
