"""The cheapest system that is surely not worse: verdicts worked by hand, costs, and picks."""

import numpy as np
import pytest

from ragbench.comparison.method import Method
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.gates.base import GatedRun
from ragbench.gates.cheapest import Cheapest, CostComparison
from ragbench.signature import Signature
from ragbench.types import Cause, ScoreColumn
from tests.lazy import Lazy

scipy = Lazy("scipy.stats")

N = 400
LOST = {"big": 0, "mid": 4, "odd": 9, "small": 40}
USD = {"big": 0.004, "mid": 0.001, "odd": 0.0005, "small": 0.0002}


def system(name, values, kind="generation", causes=None, direction="higher", **costs):
    """A system whose queries all cost the same; the costs left out are not known."""
    causes = np.zeros(len(values), np.uint8) if causes is None else causes
    values = np.where(causes == 0, values, np.nan)
    column = ScoreColumn("hit", values, causes, Signature("hit"), direction)
    by_cost = {"usd": np.nan, "input": np.nan, "output": np.nan, "latency_ms": np.nan, **costs}
    return SystemScores(
        name, name, None, columns={"hit": column}, kinds={"hit": kind},
        costs={
            {"input": "tokens.input", "output": "tokens.output"}.get(key, key):
            np.full(len(values), float(value)) for key, value in by_cost.items()
        },
    )  # fmt: skip


def hits(lost):
    """400 hits, of which the first ones are lost."""
    return np.where(np.arange(N) < lost, 0.0, 1.0)


def four(**changed):
    """Four systems; a changed one may have other values of any argument."""
    facts = {
        name: {"values": hits(LOST[name]), "usd": USD[name], **changed.get(name, {})}
        for name in LOST
    }
    return [system(name, **of) for name, of in facts.items()]


def decide(systems, name, clusters=None, margin=0.03):
    ids = [f"q{row}" for row in range(N)]
    run = GatedRun(
        scored=ScoredSystems("run", {s.name: s for s in systems}, ids),
        method=Method(resamples=500),
        n_queries=N,
        clusters=None if clusters is None else dict(zip(ids, clusters, strict=True)),
    )
    [decision] = Cheapest(cheapest_within=margin, system=name).decide_systems(run)
    assert decision.system == name
    return decision


def compare(systems, best="big", margin=0.03):
    by_name, ids = {s.name: s for s in systems}, [f"q{row}" for row in range(N)]
    return CostComparison(best, by_name, "hit", margin, Method(resamples=500), ids)


@pytest.mark.parametrize(
    ("name", "verdict", "why"),
    [
        (
            "big",
            "fail",
            "mid is cheaper and surely within 0.03 of the best: 0.001 against 0.004 USD",
        ),
        ("mid", "pass", "0.001 USD a query; hit against big: -0.01 [-0.02"),
        ("odd", "undecided", "includes a drop of 0.03"),
        ("small", "fail", "hit against big: -0.1 ["),
    ],
)
def test_four_systems_of_which_losses_are_counted(name, verdict, why):
    # Against 400 hits of the best, with an interval that we did not write for the lost ones.
    low, high = scipy.binomtest(LOST[name], N).proportion_ci(1 - 0.05 * 2 / 3, method="wilson")
    is_above, is_below = low > 0.03, high < 0.03
    assert (is_below, is_above) == {"odd": (False, False), "small": (False, True)}.get(
        name, (True, False)
    )

    decision = decide(four(), name)

    assert decision.verdict == verdict
    assert why in decision.why
    assert decision.facts.value == pytest.approx(USD[name])


def test_the_record_of_a_run_has_both_costs():
    [cheapest, none] = (compare(four(), margin=margin).cheapest() for margin in (0.03, 0.02))

    assert (cheapest.system, cheapest.best, cheapest.cost, cheapest.margin) == (
        "mid",
        "big",
        "usd",
        0.03,
    )
    assert cheapest.costs == pytest.approx({"mid": 0.001, "big": 0.004})
    assert none.system is None
    assert none.costs.keys() == {"big"}


def test_where_lower_is_better_the_losses_are_rises():
    turned = {name: {"values": 1 - hits(LOST[name]), "direction": "lower"} for name in LOST}

    assert decide(four(**turned), "mid").verdict == "pass"
    assert decide(four(**turned), "small").verdict == "fail"
    assert compare(four(**turned)).cheapest().system == "mid"


def test_failures_that_could_be_losses_leave_it_open():
    # Ten more losses would be 14 of 400, beyond the margin.
    causes = np.where(np.arange(N) >= N - 10, Cause.TIMEOUT, Cause.SCORED).astype(np.uint8)
    systems = four(mid={"causes": causes})

    assert decide(systems, "mid").verdict == "undecided"


def test_few_clusters_decide_nothing():
    assert decide(four(), "mid", np.arange(N) % 9).verdict == "undecided"
    assert decide(four(), "mid", np.arange(N)).verdict == "pass"


def test_the_best_mean_alone_is_no_proof():
    # A further system loses 1 of 30 queries: far too few queries to exclude 3 %.
    is_scored = (np.arange(N) >= 3) & (np.arange(N) < 33)
    causes = np.where(is_scored, Cause.SCORED, Cause.NO_RELEVANT).astype(np.uint8)
    systems = [*four(), system("rare", hits(0), causes=causes, usd=9)]

    decision = decide(systems, "mid")

    assert (decision.verdict, "hit against rare" in decision.why) == ("undecided", True)


@pytest.mark.parametrize(
    ("first", "second", "cost", "values"),
    [
        ({"usd": 1, "input": 9, "output": 0}, {"usd": 2, "input": 3, "output": 4}, "usd", [1, 2]),
        ({"usd": 3, "input": 5, "output": 1}, {"usd": 3, "input": 7, "output": 0}, "tokens",
         [6, 7]),
        ({"input": 5, "output": 1}, {"usd": 1, "input": 5, "output": 2}, "tokens", [6, 7]),
        ({"usd": 0, "latency_ms": 3}, {"usd": 0, "latency_ms": 30}, "latency_ms", [3, 30]),
        ({"input": 5, "latency_ms": 3}, {"input": 6, "latency_ms": 3}, "usd", []),
    ],
)  # fmt: skip
def test_the_first_cost_that_is_known_and_differs(first, second, cost, values):
    kind, costs = compare([system("big", hits(0), **first), system("b", hits(1), **second)]).costs

    assert (kind, list(costs.values())) == (cost, values)


@pytest.mark.parametrize(
    ("low", "high", "is_cheaper"),
    [(5, 10, True), (5.1, 10, False), (0.1, 9.9, False), (20, 41, True), (40, 41, False)],
)
def test_times_count_from_half_and_from_10_ms(low, high, is_cheaper):
    systems = [system("big", hits(0), latency_ms=high), system("b", hits(0), latency_ms=low)]

    comparison = compare(systems)

    assert comparison.cheaper == ["b"] * is_cheaper
    assert (comparison.cheapest() is not None) == is_cheaper


def test_a_system_without_a_known_cost_is_not_named(assert_message):
    systems = four(mid={"usd": np.nan})

    assert decide(systems, "big").verdict == "pass"
    assert_message(decide(systems, "mid").why)
    assert compare(systems, best="mid").cheapest() is None
    assert decide(four()[:1], "big").why.startswith("its cost is not known")


def test_equal_costs_tie_in_the_order_of_the_systems():
    systems = four(big={"usd": 0.001})

    assert [decide(systems, name).verdict for name in ("big", "mid")] == ["pass", "pass"]
    systems = [*four(), system("twin", hits(4), usd=USD["mid"])]
    assert compare(systems).cheapest().system == "mid"


def test_a_retriever_is_no_cheaper_answer():
    systems = four(mid={"kind": "retrieval"})

    assert decide(systems, "big").verdict == "pass"


def test_the_best_may_be_the_cheapest():
    systems = four(big={"usd": 0.0001})

    assert compare(systems).cheapest() is None
    assert decide(systems, "big").verdict == "pass"
    assert decide(systems, "mid").why.startswith("big is cheaper")


def test_true_losses_of_0_001_and_008():
    # A small form of `benchmarks/cheapest.py`, with 95 % for three systems.
    picks = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        base = rng.choice([0.0, 1.0, 0.63, 0.5], N)
        lost = [np.where(rng.random(N) < loss / 0.5325, 0.0, base) for loss in (0.08, 0.01, 0.0)]
        systems = [
            system(name, values, usd=1 + place)
            for place, (name, values) in enumerate(zip(("c", "b", "big"), lost, strict=True))
        ]
        picks.append(compare(systems).cheapest().system)

    assert "c" not in picks
    assert picks.count("b") >= 4


def test_equal_scores_need_more_questions_and_no_key_that_the_gate_lacks():
    [big, *_] = four()
    decision = compare([big, system("twin", hits(0), usd=0.001)], margin=0.001).decide(
        "big", "twin"
    )

    assert decision.verdict == "undecided"
    assert decision.why.endswith("equal queries exclude it")


def test_a_system_that_was_not_run_or_scored(assert_message):
    ids = [f"q{row}" for row in range(N)]
    run = GatedRun(
        scored=ScoredSystems("run", {s.name: s for s in four()}, ids), method=Method(), n_queries=N
    )
    gate = Cheapest(cheapest_within=0.03, system="new")
    [decision] = gate.decide_systems(run)
    assert decision.verdict == "undecided"
    assert decision.why.startswith("new was not run")

    [decision] = Cheapest(cheapest_within=0.03, system="mid", measure="rouge1").decide_systems(run)
    assert decision.verdict == "undecided"
    assert_message(decision.why)

    failed = four(mid={"causes": np.full(N, Cause.TIMEOUT, np.uint8)})
    assert_message(decide(failed, "mid").why)


@pytest.mark.parametrize(("name", "keys"), [(None, ["system"]), ("mid", [])])
def test_a_gate_without_a_system_is_a_problem(name, keys):
    problems = Cheapest(cheapest_within=0.03, system=name).check_condition(None)

    assert [problem.found for problem in problems] == [f"missing key '{key}'" for key in keys]
