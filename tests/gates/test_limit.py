"""Gates on one number: hand-worked verdicts, and what failures may not hide."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.gates.base import score_facts
from ragbench.gates.limit import Cost, Limit
from ragbench.records.gate import Facts
from ragbench.score.judge.rubric import built_in_rubrics, load_rubric
from ragbench.score.retrieval import MEASURES
from ragbench.score.text import METRICS
from ragbench.signature import Signature
from ragbench.types import Cause, ScoreColumn

NAN = float("nan")


def column(values, cause=Cause.TIMEOUT, **facts):
    values = np.asarray(values, dtype=float)
    causes = np.where(np.isnan(values), cause, Cause.SCORED).astype(np.uint8)
    return ScoreColumn("f1", values, causes, Signature("f1"), **facts)


def decide_score(scores, *, least=None, most=None, decide=None):
    return Limit(measure="hit", min=least, max=most, decide=decide).decide_column(scores)


@pytest.mark.parametrize(
    ("values", "limits", "verdict"),
    [
        pytest.param([1, 1, 1, 0], {"least": 0.75}, "pass", id="the mean is .75"),
        pytest.param([1, 1, 1, 0], {"least": 0.76}, "fail", id="below .76"),
        pytest.param([0.1] * 3, {"least": 0.1}, "pass", id=".1 + .1 + .1 is not .3"),
        pytest.param([0.1] * 3, {"most": 0.1}, "pass", id="nor above it"),
        pytest.param([1, 1, 1, 0], {"most": 0.74}, "fail", id="above .74"),
        pytest.param([1, 1, 1, 0], {"least": 0.31, "decide": "interval"}, "fail", id="[.301, "),
        pytest.param([1, 1, 1, 0], {"least": 0.30, "decide": "interval"}, "pass", id="[.301"),
        pytest.param([1, 1, 1, 0], {"most": 0.95, "decide": "interval"}, "fail", id=".954]"),
        pytest.param([1, 1, 1, 0], {"most": 0.96, "decide": "interval"}, "pass", id=" .954]"),
        pytest.param([1, 1, 1, NAN], {"least": 0.7}, "pass", id="one failed: at worst .75"),
        pytest.param([1, 1, 1, NAN], {"least": 0.8}, "undecided", id="at worst .75, at best 1"),
        pytest.param([1, 0, 0, NAN], {"least": 0.6}, "fail", id="at best .5"),
        pytest.param([1, 0, 0, NAN], {"most": 0.4}, "undecided", id="1/3 of three; at best .5"),
        pytest.param([NAN, NAN], {"least": 0.0}, "undecided", id="nothing was scored"),
        pytest.param([1, 1, 1, NAN], {"least": 0.4, "decide": "interval"}, "undecided",
                     id="[.44 of three; [.30 at worst"),
    ],
)  # fmt: skip
def test_hand_worked(values, limits, verdict):
    assert decide_score(column(values), **limits).verdict == verdict


@pytest.mark.parametrize(
    ("values", "limits", "level"),
    [
        pytest.param([1, 1, 1, NAN], {"least": 0.8}, "notice", id="the mean is 1"),
        pytest.param([1, 0, 0, NAN], {"most": 0.4}, "notice", id="the mean is 1/3"),
        pytest.param([1, 0, 0, NAN], {"least": 0.4}, "warning", id="1/3 is below .4"),
        pytest.param([NAN, NAN], {"least": 0.0}, "warning", id="nothing was scored"),
    ],
)
def test_an_undecided_limit_warns_unless_the_mean_keeps_it(values, limits, level, assert_message):
    decision = decide_score(column(values), **limits)

    assert (decision.verdict, decision.level) == ("undecided", level)
    assert_message(decision.why)


def test_what_does_not_apply_is_not_counted_against_a_system():
    decision = decide_score(column([1, 1, NAN], Cause.NO_RELEVANT), least=1.0)

    assert decision.verdict == "pass"
    assert decision.facts == Facts(
        mean=1.0, interval=pytest.approx((0.342, 1), abs=1e-3), n=2, n_failed=0
    )


def test_a_failure_of_a_score_without_a_bound_leaves_its_interval_open():
    decision = decide_score(
        column([1.0, 2.0, 3.0, NAN], high=math.inf, low=-math.inf), most=99.0, decide="interval"
    )

    assert decision.verdict == "undecided"


@given(
    st.lists(st.sampled_from([0.0, 0.5, 1.0, NAN]), min_size=1, max_size=12),
    st.sampled_from([0.0, 0.3, 0.5, 0.9]),
    st.sampled_from(["mean", "interval"]),
)
@settings(max_examples=30)
def test_pass_and_fail_stand_whatever_the_failed_items_would_have_been(values, least, decide):
    verdict = decide_score(column(values), least=least, decide=decide).verdict

    if verdict != "undecided":
        for end in (0.0, 1.0):
            filled = [end if math.isnan(value) else value for value in values]
            assert decide_score(column(filled), least=least, decide=decide).verdict == verdict


@pytest.mark.parametrize(
    ("value", "verdict"), [(199.9, "pass"), (200.0, "pass"), (200.1, "fail"), (None, "undecided")]
)
def test_cost(value, verdict):
    assert Cost(measure="usd", max=200.0).decide_value(value).verdict == verdict


@pytest.mark.parametrize(
    ("condition", "worst"),
    [
        ({"measure": "mrr", "min": 0.8}, [("q3", 0.25), ("q2", 1 / 3), ("q1", 0.5)]),
        ({"measure": "mrr", "min": 0.4}, []),
    ],
)
def test_what_did_not_pass_names_its_worst_queries(condition, worst):
    # The relevant document is at rank n + 1: reciprocal ranks 1, 1/2, 1/3, 1/4.
    qrels = {f"q{n}": {"d": 1} for n in range(4)}
    run = {
        f"q{n}": {**{f"x{i}": 9.0 - i for i in range(n)}, "d": 9.0 - n} for n in range(4)
    }  # fmt: skip
    (decision,) = rb.check_gates(rb.evaluate_run(run, qrels, ["mrr"]), condition)

    worst_queries = [
        (entry["query_id"], entry["score"]) for entry in decision.get("worst_queries", [])
    ]
    assert worst_queries == [(query, pytest.approx(value)) for query, value in worst]
    assert decision["verdict"] == ("fail" if worst else "pass")


# Scores whose lower values are better, by kind
LOWER = {
    "retrieval": {"leak", "num_nonrel_judged_ret", "rbp_residual", "redundancy", "unjudged"},
    "generation": {
        *("abstention.over_refusal", "ter", "ter.corpus", "tool_call_count", "words_over_limit")
    },
    "judge": {"hallucination", "noise_sensitivity", "refusal", "self_knowledge"},
}


def names_of(kind):
    if kind == "retrieval":
        names = MEASURES.names()
    elif kind == "generation":
        names = METRICS.names()
    else:
        names = [name for name in built_in_rubrics() if not is_of_pairs(name)]
    return sorted(names)


def is_of_pairs(name):
    return load_rubric(name).method == "pairwise"


def facts_of(name, kind):
    # some measures need a cut-off
    cut = {"iprec_at_recall": "@0.5"}.get(name, "@5")
    return score_facts(name, kind) or score_facts(f"{name}{cut}", kind)


@pytest.mark.parametrize("kind", LOWER)
def test_each_score_is_limited_on_the_side_of_its_worse_values(kind):
    lower = set()
    for name in names_of(kind):
        facts = facts_of(name, kind)
        problems = {}
        for key in ("min", "max"):
            limit = Limit(measure=facts.name, **{key: facts.low})
            problems[key] = [problem.key for problem in limit.check_condition(facts)]
        assert sorted(map(len, problems.values())) == [0, 1], name
        if not problems["max"]:
            lower.add(name)

    assert lower == LOWER[kind]
