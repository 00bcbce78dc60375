"""Rule G against scipy's intervals and power, hand-worked verdicts, and what must hold of any."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.comparison.method import Method
from ragbench.comparison.pairs import PairedScores
from ragbench.gates.drop import Drop, NotWorse
from ragbench.signature import Signature
from ragbench.types import Cause, ScoreColumn
from tests.lazy import Lazy

scipy_stats = Lazy("scipy.stats")

NAN = float("nan")
FAST = Method(resamples=500)


def column(values, causes=None, **facts):
    values = np.asarray(values, dtype=float)
    absent = np.where(np.isnan(values), Cause.NO_RELEVANT, Cause.SCORED)
    causes = absent if causes is None else causes
    return ScoreColumn("hit", values, np.asarray(causes, np.uint8), Signature("hit"), **facts)


def paired(system, baseline, causes=None, **facts):
    ids = [f"q{row}" for row in range(len(system))]
    return PairedScores(column(system, causes, **facts), column(baseline, **facts), ids)


def decide_drop(pairs, max_drop, method=FAST, *, decide="interval"):
    return Drop(measure="hit", max_drop=max_drop, decide=decide).decide_pairs(pairs, method)


def decide(system, baseline, max_drop, causes=None, *, decide="interval", **facts):
    return decide_drop(paired(system, baseline, causes, **facts), max_drop, FAST, decide=decide)


def test_the_interval_is_not_narrower_than_that_of_scipy():
    # The interval that decides contains the t interval of scipy if 60 queries changed.
    random = np.random.default_rng(3)
    base = random.random(60)
    system = np.clip(base + random.normal(-0.05, 0.2, 60), 0, 1)
    theirs = scipy_stats.ttest_1samp(system - base, 0).confidence_interval(0.95)

    decision = decide(system, base, 0.05)

    low, high = decision.facts.interval
    assert low <= theirs.low + 1e-12
    assert high >= theirs.high - 1e-12
    assert decision.facts.difference == pytest.approx((system - base).mean())


@pytest.mark.parametrize(
    ("n_lost", "n_won", "n", "facts", "verdict", "words"),
    [
        pytest.param(0, 0, 100, {}, "pass", "identical on all 100 queries; excludes", id="equal"),
        pytest.param(1, 0, 100, {}, "pass", "not shown to be worse", id="within the margin"),
        pytest.param(2, 0, 100, {}, "fail", "worse by more than 0.019, though", id="beyond"),
        pytest.param(6, 0, 1000, {}, "fail", "surely worse", id="sure, though within the margin"),
        pytest.param(3, 0, 100, {"high": 4.0}, "pass", "not shown", id="the range is wider"),
        pytest.param(0, 9, 100, {}, "pass", "surely better", id="better"),
        pytest.param(9, 0, 100, {"direction": "lower"}, "pass", "surely better", id="lower is"),
        pytest.param(0, 3, 100, {"direction": "lower"}, "fail", "worse by", id="higher is not"),
    ],
)
def test_without_a_limit_sure_losses_and_large_ones_fail(n_lost, n_won, n, facts, verdict, words):
    base = np.repeat([1.0, 0.0], n // 2)
    system = base.copy()
    system[:n_lost], system[n // 2 : n // 2 + n_won] = 0.0, 1.0

    decision = NotWorse(measure="hit").decide_pairs(paired(system, base, **facts), FAST)

    assert (decision.verdict, words in decision.why) == (verdict, True), decision.why


@pytest.mark.costly
@pytest.mark.parametrize(
    ("n_lost", "n_won", "verdict", "rule"),
    [
        pytest.param(6, 0, "fail", "score", id="6 of 100 hits lost: binomial(100, .02) 1.5 %"),
        pytest.param(5, 0, "undecided", "score", id="5 of 100: 5.1 %"),
        pytest.param(0, 1, "undecided", "score", id="1 gain of 100 excludes no 2 losses in 100"),
        pytest.param(0, 2, "pass", "score", id="2 gains do"),
    ],
)
def test_few_lost_hits_fail(n_lost, n_won, verdict, rule):
    # A true drop of 5 in 100 fails at a margin of 2 in 100 where 6 are lost: 38 % of draws.
    base = np.repeat([1.0, 0.0], 50)
    system = base.copy()
    system[:n_lost], system[50 : 50 + n_won] = 0.0, 1.0

    decision = decide(system, base, 0.02)

    assert (decision.verdict, decision.facts.rule) == (verdict, rule)


@pytest.mark.parametrize(
    ("n", "verdict"), [pytest.param(10, "fail", id="ten"), pytest.param(2, "undecided", id="two")]
)
def test_total_losses_are_a_drop(n, verdict):
    assert decide([0.0] * n, [1.0] * n, 0.05).verdict == verdict


def test_ten_identical_queries_still_pass():
    assert decide([1.0] * 10, [1.0] * 10, 0.01).verdict == "pass"


@pytest.mark.slow
@pytest.mark.parametrize("truth", ["equal", "as_observed"])
def test_the_queries_needed_have_the_power_they_say(truth, monkeypatch):
    # 40 evaluations of so many queries, each of which changes like one of 60; se 6.3 points.
    random = np.random.default_rng(3)
    base = random.random(60)
    system = np.clip(np.where(random.random(60) < 0.3, random.random(60), base) - 0.02, 0, 1)
    decision = decide(system, base, 0.1)
    assert decision.verdict == "undecided"
    needed = getattr(decision.power.queries_needed, truth)
    assert f" {needed} " in decision.why
    monkeypatch.setattr(
        "ragbench.gates.drop._queries_needed", lambda *_: decision.power.queries_needed
    )
    decided = 0
    for _ in range(40):  # only the verdict counts: each open one would plan again
        drawn = random.choice(system - base, needed)
        if truth == "equal":
            drawn *= random.choice([-1, 1], needed)
        base_scores = np.where(drawn < 0, 1.0, 0.0)
        decided += decide(base_scores + drawn, base_scores, 0.1).verdict != "undecided"

    assert decided / 40 == pytest.approx(0.8, abs=0.13)


# 200 queries that alternate around a mean: s = 0.1, t interval +-0.014, 200 changed
NOISE = np.tile([0.1, -0.1], 100)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("shift", "max_drop", "verdict"),
    [
        pytest.param(0.0, 0.02, "pass", id="[-.014, +.014] lies above -.02"),
        pytest.param(-0.05, 0.02, "fail", id="[-.064, -.036] lies below -.02"),
        pytest.param(-0.02, 0.02, "undecided", id="[-.034, -.006] holds -.02"),
        pytest.param(0.05, 0.0, "pass", id="[+.036, +.064] lies above 0"),
        pytest.param(0.0, 0.0, "undecided", id="[-.014, +.014] holds 0"),
    ],
)
def test_hand_worked(shift, max_drop, verdict):
    base = np.full(200, 0.5)

    assert decide(base + shift + NOISE, base, max_drop).verdict == verdict


def test_lower_is_better_turns_the_verdict_and_not_the_printed_numbers():
    base = np.full(200, 0.5)
    more = base + 0.05 + NOISE

    decision = decide(more, base, 0.02, direction="lower")

    assert decision.verdict == "fail"
    assert decision.facts.difference == pytest.approx(0.05)
    assert decision.facts.interval[0] == pytest.approx(0.036, abs=3e-3)
    assert "+0.05" in decision.why
    assert "lower is better" in decision.why
    assert decide(base - 0.05 + NOISE, base, 0.02, direction="lower").verdict == "pass"


@pytest.mark.parametrize(
    ("n", "max_drop", "says"),
    [
        pytest.param(200, 0.02, "excludes changes in more than 0.017 of all queries", id="3.4/200"),
        pytest.param(
            100,
            0.02,
            "more than 0.033 of all queries, which leaves a drop by 0.02 open",
            id="3.4 / 100",
        ),
        pytest.param(3, 0.02, "too few to exclude changes in others", id="3.4 / 3 > 1"),
        pytest.param(1, 0.0, "identical on the only query", id="one query"),
    ],
)
def test_identical_passes_and_says_what_it_excludes(n, max_drop, says):
    decision = decide([1.0] * n, [1.0] * n, max_drop)

    assert decision.verdict == "pass"
    assert says in decision.why
    assert decision.facts.n_changed == 0
    assert ("leaves a drop" in decision.why) == (n == 100)


@pytest.mark.parametrize(
    ("n", "max_drop", "verdict"),
    [
        pytest.param(10, 0.05, "undecided", id="3.4 / 10"),
        pytest.param(66, 0.05, "undecided", id="3.4 / 66 = .0502"),
        pytest.param(67, 0.05, "pass", id="3.4 / 67 = .0495"),
        pytest.param(1000, 0.0, "undecided", id="no number excludes every drop"),
    ],
)
def test_identical_may_be_asked_to_exclude_the_margin(n, max_drop, verdict, assert_message):
    # The chance that none of n queries is among a share p is (1 - p) ** n; 3/4 of it counts.
    gate = Drop(measure="hit", max_drop=max_drop, identical="undecided")
    pairs = paired([1.0] * n, [1.0] * n)

    assert gate.decide_pairs(pairs, FAST).verdict == verdict
    assert 0.75 * (1 - max_drop) ** n < 0.025 or verdict == "undecided"
    if verdict == "undecided":
        decision = gate.decide_pairs(pairs, FAST)
        assert_message(decision.why)
        assert decision.level == "notice"
        assert ("leaves a drop by" in decision.why) == (max_drop > 0)
    assert 0.75 * (1 - max_drop) ** (n - 3) > 0.025 or verdict == "pass"
    assert replace(gate, identical="pass").decide_pairs(pairs, FAST).verdict == "pass"


def test_three_identical_queries_exclude_no_drop(assert_message):
    gate = Drop(measure="hit", max_drop=0.9, identical="undecided")
    three, four = (gate.decide_pairs(paired([0.4] * n, [0.4] * n), FAST) for n in (3, 4))

    assert (three.verdict, four.verdict) == ("undecided", "pass")
    assert_message(three.why)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "margin"), [("hits", 0.05), ("graded", 0.02)])
def test_a_drop_that_is_called_detectable_fails_in_4_of_5_runs(kind, margin):
    # From one undecided sample, then that drop is drawn many times from a truth like it.
    random = np.random.default_rng(8)

    def draw(drop, n):
        if kind == "hits":  # 5 % became better
            return random.choice([1.0, -1.0, 0.0], n, p=[0.05, 0.05 + drop, 0.9 - drop])
        return np.clip(random.normal(-drop, 0.2, n), -1, 1)

    n, failed, runs = 150, 0, 40
    decisions = [decide(0.5 + draw(0.02, n) / 2, np.full(n, 0.5), margin / 2) for _ in range(5)]
    open_ones = [
        decision.power.detectable for decision in decisions if decision.verdict == "undecided"
    ]
    assert len(open_ones) >= 3
    least = 2 * float(np.median(open_ones))
    for _ in range(runs):
        decided = decide(0.5 + draw(least, n) / 2, np.full(n, 0.5), margin / 2)
        failed += decided.verdict == "fail"

    assert 0.61 <= failed / runs < 1, "0.8 and three standard errors of 0.063"


def test_an_undecided_verdict_says_what_could_be_seen_and_where_the_estimate_is(assert_message):
    base = np.full(200, 0.5)

    inside, beyond = decide(base + NOISE, base, 0.0), decide(base - 0.021 + NOISE, base, 0.02)

    assert (inside.power.estimate, beyond.power.estimate) == ("within", "beyond")
    assert_message(beyond.why)
    assert 0.039 < beyond.power.detectable < 0.05, ".02 and 2.8 standard errors of .0071"


@pytest.mark.parametrize(
    ("lost", "gained", "direction", "level"),
    [
        pytest.param(1, 1, "higher", "notice", id="mean 0"),
        pytest.param(1, 2, "higher", "notice", id="mean +.05"),
        pytest.param(2, 1, "higher", "warning", id="mean -.05"),
        pytest.param(2, 1, "lower", "notice", id="fewer is better"),
        pytest.param(1, 2, "lower", "warning", id="more is worse"),
    ],
)
def test_an_undecided_gate_warns_only_if_the_estimate_is_worse(
    lost, gained, direction, level, assert_message
):
    base = np.repeat([1.0, 0.0], 10)
    system = base.copy()
    system[:lost], system[10 : 10 + gained] = 0.0, 1.0

    decision = decide(system, base, 0.05, direction=direction)

    assert (decision.verdict, decision.level) == ("undecided", level)
    assert_message(decision.why)


def test_a_sure_drop_that_may_be_within_the_margin_is_called_sure(assert_message):
    # Ten of 100 hits are lost: the interval is about [-.17, -.05].
    decision, other = (
        decide([0.0] * 10 + [1.0] * 90, [1.0] * 100, 0.1),
        decide(NOISE + 0.5, [0.5] * 200, 0.0),
    )

    assert decision.verdict == other.verdict == "undecided"
    assert_message(decision.why)
    assert "surely" not in other.why


def test_clusters_are_the_unit():
    # Copies of 12 queries are 12 units: the interval is that of the 12, not of the 120.
    random = np.random.default_rng(2)
    base = random.random(12)
    system = np.clip(base + random.normal(0, 0.05, 12), 0, 1)
    few = paired(system, base)
    ids = [str(row) for row in range(120)]
    many = PairedScores(column(np.repeat(system, 10)), column(np.repeat(base, 10)), ids)
    clustered = replace(many, clusters=[str(row // 10) for row in range(120)])

    copied, alone = decide_drop(clustered, 0.2, FAST), decide_drop(few, 0.2, FAST)

    assert copied.facts.interval == pytest.approx(alone.facts.interval)
    assert copied.facts.n_clusters == 12
    assert decide_drop(many, 0.2, FAST).facts.interval != copied.facts.interval


def test_fewer_than_ten_clusters_are_undecided():
    base = np.full(200, 0.5)
    pairs = replace(paired(base + 0.05 + NOISE, base), clusters=[str(i % 9) for i in range(200)])

    decision = decide_drop(pairs, 0.1, FAST)

    assert (decision.verdict, decision.why[:10]) == ("undecided", "9 clusters")


def test_unchanged_clusters_exclude_what_their_interval_excludes():
    # 10 clusters of 10 and 40 of 1: the interval is +-0.235, not +-0.066.
    labels = [*(str(row // 10) for row in range(100)), *(f"single {row}" for row in range(40))]
    pairs = replace(paired(np.full(140, 0.5), np.full(140, 0.5)), clusters=labels)

    def verdict(max_drop):
        gate = Drop(measure="m", max_drop=max_drop, identical="undecided")
        return gate.decide_pairs(pairs, FAST).verdict

    assert (verdict(0.07), verdict(0.24)) == ("undecided", "pass")


@pytest.mark.costly
def test_ten_queries_pass_nothing():
    # At margins up to 0.05, identity aside: 3 in 10 may lose everything yet.
    random = np.random.default_rng(1)
    for _ in range(8):
        base = random.random(10)
        system = np.clip(base + random.normal(0, 0.1, 10), 0, 1)
        assert decide(system, base, 0.05).verdict != "pass"


FAILED = [Cause.TIMEOUT, *[Cause.SCORED] * 199]


@pytest.mark.costly
@pytest.mark.parametrize(
    ("shift", "max_drop", "n_failed", "verdict"),
    [
        pytest.param(0.0, 0.025, 1, "pass", id="one of 200 at -.5 moves the mean by .0025"),
        pytest.param(0.0, 0.02, 8, "undecided", id="eight move it by .02"),
        pytest.param(-0.05, 0.02, 1, "fail", id="one at +.5 does not save it"),
        pytest.param(-0.05, 0.02, 16, "undecided", id="sixteen at +.5 may"),
    ],
)
def test_failed_queries_count_at_both_bounds(shift, max_drop, n_failed, verdict):
    base = np.full(200, 0.5)
    system = base + shift + NOISE
    system[:n_failed] = NAN
    causes = np.where(np.isnan(system), Cause.TIMEOUT, Cause.SCORED)

    decision = decide(system, base, max_drop, causes)

    assert decision.verdict == verdict
    assert decision.facts.n_failed == n_failed
    assert decision.facts.n == 200 - n_failed
    assert (f"failures on {n_failed} queries could turn" in decision.why) == (
        verdict == "undecided"
    )


def test_a_failure_of_the_baseline_counts_as_well():
    base, system = np.full(50, 0.5), np.full(50, 0.5)
    base[0] = NAN
    causes = np.where(np.isnan(base), Cause.ERROR, Cause.SCORED)
    pairs = PairedScores(column(system), column(base, causes), [str(i) for i in range(50)])

    decision = decide_drop(pairs, 0.02, FAST)

    assert pairs.with_failed("worst")[0] == pytest.approx(-0.5), "0.5 now, 1 it could have been"
    assert pairs.with_failed("best")[0] == pytest.approx(0.5)
    assert decision.verdict == "undecided"


def test_what_does_not_apply_is_left_out_even_where_the_other_failed():
    base, system = [0.5] * 3 + [NAN], [0.5] * 3 + [NAN]
    causes = [Cause.SCORED] * 3 + [Cause.TIMEOUT]

    decision = decide(system, base, 0.02, causes)

    assert decision.verdict == "pass"
    assert decision.facts.n_failed == 0


def test_a_failure_without_a_bound_leaves_everything_open():
    base = np.full(200, 0.5)
    system = base + 0.1 + NOISE
    system[0] = NAN

    decision = decide(system, base, 0.02, FAILED, high=math.inf, low=-math.inf)

    assert decision.verdict == "undecided"


def test_few_changes_without_a_bound_are_undecided(assert_message):
    base = np.zeros(50)
    system = base.copy()
    system[:3] = -1.0

    decision = decide(system, base, 0.02, low=-math.inf, high=math.inf)

    assert decision.verdict == "undecided"
    assert_message(decision.why)
    assert decision.facts.interval == (None, None)


@pytest.mark.parametrize(("change", "verdict"), [(2.0, "pass"), (-2.0, "fail")])
def test_the_same_change_on_every_query_decides_without_a_bound(change, verdict):
    # one call of a tool, then three, on every question
    base = np.full(50, 3.0)

    decision = decide(base + change, base, 0.02, low=0.0, high=math.inf)

    assert decision.verdict == verdict
    assert decision.facts.rule == "near_constant"
    assert "not to be trusted" in decision.why


def test_nothing_in_common_is_undecided(assert_message):
    decision = decide([NAN, 0.5], [0.5, NAN], 0.02)

    assert decision.verdict == "undecided"
    assert_message(decision.why)


@pytest.mark.parametrize(
    ("drop", "verdict"),
    [
        pytest.param(0.02, "pass", id="0.5 - 0.48 is 0.02 but for rounding"),
        pytest.param(0.021, "fail", id="more"),
        pytest.param(-0.1, "pass", id="a gain"),
    ],
)
def test_decide_mean_looks_at_these_queries_alone(drop, verdict):
    decision = decide([0.5 - drop] * 10, [0.5] * 10, 0.02, decide="mean")

    assert decision.verdict == verdict
    assert "over these 10 queries" in decision.why


SCORES = st.sampled_from([0.0, 0.25, 0.5, 1.0])
ROWS = st.lists(st.tuples(SCORES, SCORES, st.booleans()), min_size=1, max_size=40)


@pytest.mark.costly
@settings(max_examples=15)
@given(ROWS, st.sampled_from([0.0, 0.01, 0.1, 0.5]))
def test_a_verdict_that_stands_with_failures_stands_whatever_they_were(rows, max_drop):
    # Pass or fail means: the same, had the failed queries been scored, at either end.
    base = np.array([a for a, _, _ in rows])
    scores = np.array([NAN if lost else b for _, b, lost in rows])
    causes = np.where(np.isnan(scores), Cause.TIMEOUT, Cause.SCORED)

    decision = decide(scores, base, max_drop, causes)

    if decision.verdict != "undecided":
        for end in (0.0, 1.0):
            assert decide(np.where(np.isnan(scores), end, scores), base, max_drop).verdict == (
                decision.verdict
            )


@pytest.mark.costly
@settings(max_examples=15)
@given(ROWS, st.sampled_from([0.0, 0.01, 0.1, 0.5]))
def test_a_larger_margin_never_turns_pass_into_fail(rows, max_drop):
    base, system = [a for a, _, _ in rows], [b for _, b, _ in rows]
    order = {"fail": 0, "undecided": 1, "pass": 2}

    strict, lenient = (decide(system, base, margin) for margin in (max_drop, max_drop + 0.2))

    assert order[strict.verdict] <= order[lenient.verdict]


@pytest.mark.costly
@settings(max_examples=15)
@given(ROWS, st.sampled_from([0.0, 0.01, 0.1]))
def test_turned_scores_of_which_lower_is_better_get_the_same_verdict(rows, max_drop):
    base = np.array([a for a, _, _ in rows])
    system = np.array([b for _, b, _ in rows])

    up = decide(system, base, max_drop)
    down = decide(1 - system, 1 - base, max_drop, direction="lower")

    assert up.verdict == down.verdict


def test_with_a_baseline_file_all_systems_of_the_run_are_compared():
    gate = Drop(measure="hit", max_drop=0.1, against="main.json", file=Path("main.json"))

    assert gate.default_systems({"old": None, "new": None}, run=None) == ["old", "new"]
