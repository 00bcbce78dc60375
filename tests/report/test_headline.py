"""The result in words, in each of the situations that a reader can be in."""

import pytest

from ragbench.records.comparison import Difference, MeasureComparison
from ragbench.records.score import SystemScore
from ragbench.records.summary import CheapestSystem, Summary
from ragbench.report.headline import cheapest_sentence, lead, outcome_of
from ragbench.report.sections import score_cell
from tests.report.example import comparison, score
from tests.report.pages import read
from tests.report.pages import write_headline as headline

SCORES = {
    "bm25": score((0.4, 0.36, 0.44), "m"),
    "dense": score((0.41, 0.37, 0.45), "m"),
    "hybrid": score((0.45, 0.41, 0.49), "m"),
}
BASELINES = {"bm25": None, "dense": "bm25", "hybrid": "bm25"}


def family(best, tied, *comparisons):
    return {"best": best, "tied_with_best": tied, "comparisons": list(comparisons)}


def told(*made, best="hybrid", tied=("hybrid",), scores=SCORES):
    return headline("ndcg@10", scores, family(best, tied, *made), BASELINES)


def test_a_real_difference():
    assert told(comparison("hybrid", "bm25", (0.05, 0.02, 0.08), 0.002, True)) == (
        "ndcg@10: hybrid is best, 0.450, surely better than bm25: +0.050 [+0.020, +0.080] "
        "(95 % confidence, adjusted p 0.0020)"
    )


def test_an_undecided_one_says_what_could_have_been_shown():
    made = comparison("hybrid", "bm25", (0.05, -0.02, 0.12), 0.2, False)

    assert told(made, tied=["hybrid", "dense", "bm25"]) == (
        "ndcg@10: hybrid is best, 0.450, but not shown to be better than bm25: +0.050 "
        "[-0.020, +0.120] (95 % confidence, adjusted p 0.20); 60 queries would show a difference "
        "of 0.0300 in 4 of 5 cases; dense is not shown to be worse"
    )


def test_a_best_mean_over_other_queries_is_not_called_better():
    made = comparison("hybrid", "bm25", (-0.05, -0.08, -0.02), 0.002, True)

    assert told(made) == (
        "ndcg@10: hybrid is best, 0.450, but, on the queries that both have, surely worse than "
        "bm25: -0.050 [-0.080, -0.020] (95 % confidence, adjusted p 0.0020)"
    )
    assert "not tested against bm25: -0.050 " in told({**made, "differs": None})


def cheapest(system, cost="usd", **costs):
    record = CheapestSystem(
        measure="ndcg@10", margin=0.02, best="hybrid", system=system, cost=cost, costs=costs
    )
    scores = {name: read(SystemScore, value) for name, value in SCORES.items()}
    return cheapest_sentence(record, scores)


def test_the_cheapest_that_is_not_much_worse():
    assert cheapest("dense", dense=0.00031, hybrid=0.0041) == (
        "cheapest within 0.02 of the best: dense (ndcg@10 0.410 against 0.450, 0.00031 against "
        "0.0041 USD a query)"
    )
    assert cheapest("dense", "latency_ms", dense=0.3, hybrid=41).endswith(
        "0.3 against 41 ms a query)"
    )
    assert "312 against 2,045 tokens a query" in cheapest("dense", "tokens", dense=312, hybrid=2045)
    assert cheapest(None, hybrid=0.0041) == (
        "no cheaper system is surely within 0.02 of the best by ndcg@10"
    )


def mark(name, family):
    return score_cell(name, read(SystemScore, SCORES[name]), family).mark


def test_a_pair_has_one_answer_on_a_page():
    """Holm tells the best from its baseline, max-T over all pairs does not: the planned test says.

    On the page that this is about, the headline called the difference real (adjusted p 0.049), and
    the table marked the baseline as equal.
    """
    made = comparison("hybrid", "bm25", (0.05, 0.0, 0.1), 0.049, True)
    scores = {"hybrid": {"m": SCORES["hybrid"]}, "bm25": {"m": SCORES["bm25"]}}
    found = read(MeasureComparison, {"measure": "m", **family("hybrid", ["hybrid", "bm25"], made)})

    text = told(made, tied=["hybrid", "bm25"])
    assert "surely better than bm25" in text
    assert "adjusted p 0.049)" in text
    assert "not shown" not in text
    assert [mark(name, found) for name in scores] == ["best", ""]

    other = comparison("hybrid", "bm25", (0.05, -0.01, 0.1), 0.06, False)
    found = read(MeasureComparison, {"measure": "m", **family("hybrid", ["hybrid"], other)})
    assert "not shown to be better" in told(other)
    assert [mark(name, found) for name in scores] == ["best", "tied"]


def test_a_winner_with_rivals():
    made = comparison("hybrid", "bm25", (0.05, 0.02, 0.08), 0.002, True)

    assert told(made, tied=["hybrid", "dense"]).endswith("; dense is not shown to be worse")


def test_the_baseline_itself_is_best():
    made = comparison("hybrid", "bm25", (-0.05, -0.08, -0.02), 0.002, True)

    assert told(made, best="bm25", tied=["bm25"]) == (
        "ndcg@10: bm25 (the baseline) is best, 0.400 [0.360, 0.440]"
    )
    assert told(made, best="bm25", tied=["bm25", "dense", "hybrid"]).endswith(
        "; dense is not shown to be worse"
    )


def test_what_shares_no_query_is_not_called_better():
    apart = {"system": "hybrid", "baseline": "bm25", "n": 0, "n_changed": 0}

    assert told(apart, tied=["hybrid", "bm25"]) == (
        "ndcg@10: hybrid is best, 0.450 [0.410, 0.490]; bm25 is not shown to be worse"
    )


def test_what_nothing_is_compared_with_is_no_baseline():
    assert told(best="bm25", tied=["bm25"]).startswith("ndcg@10: bm25 is best")


def test_the_same_value_on_every_query():
    made = {**comparison("hybrid", "bm25", (0.0, -0.1, 0.1), 1.0, False), "n_changed": 0}

    assert told(made) == "hybrid and bm25 have the same ndcg@10 on every query, 0.450"


def test_one_system_alone():
    assert told(scores={"bm25": SCORES["bm25"]}, best=None, tied=[]) == (
        "bm25 has ndcg@10 0.400 [0.360, 0.440] (95 % interval); there is nothing to compare it with"
    )


def test_nothing_compared_and_nothing_scored():
    assert headline("m", SCORES, {}, {}) == "3 systems have m; they were not compared"
    assert told(scores={"bm25": score(None, "m")}) == (
        "no system has a value of ndcg@10: nothing was scored"
    )


@pytest.mark.parametrize(
    ("change", "direction", "differs", "word"),
    [
        (0.1, "higher", True, "better"),
        (-0.1, "higher", True, "worse"),
        (0.1, "lower", True, "worse"),
        (-0.1, "lower", True, "better"),
        (0.1, "higher", False, "not shown"),
        (None, "higher", None, "not compared"),
        (None, "higher", False, "not compared"),
        (0.1, "higher", None, ""),
    ],
)
def test_the_verdict_obeys_the_direction(change, direction, differs, word):
    made = Difference(system="a", baseline="b", difference=change, differs=differs)

    assert outcome_of(made, direction) == word


def lead_of(*systems, **facts):
    return lead(read(Summary, {"name": "run", "systems": list(systems), **facts}))


def test_a_reason_why_a_measure_tells_nothing_comes_before_no_right_answer():
    system = counted("bm25", "retrieval", not_retrieved=3)
    summary = read(Summary, {"name": "run", "systems": [system]})
    doubted = MeasureComparison(measure="answer_hit@5", tells_nothing="no passage holds an answer")

    assert lead(summary).startswith("bm25 finds the gold of 0 of 3 questions")
    assert lead(summary, [doubted]) == ""


def counted(name, kind, role="system", **causes):
    scores = {"m": score((0.4, 0.36, 0.44), "m", kind=kind)}
    return {"name": name, "scores": scores, "role": role, "causes": causes}


APP = counted("mychain", "judge", "app", right=21, not_used=4, not_retrieved=5)


@pytest.mark.parametrize(
    ("systems", "facts", "expected"),
    [
        pytest.param(
            [counted("bm25", "retrieval", right=30), APP],
            {"user_system": "mychain"},
            "mychain answers 21 of 30 questions; lost: 5 not retrieved, 4 not used",
            id="the user's own, even if another one is better",
        ),
        pytest.param(
            [counted("bm25", "retrieval", right=57, not_retrieved=7, ranked_too_low=6, unknown=8)],
            {"hits_read": 5},
            "bm25 finds the gold of 57 of 70 questions in its first 5 hits; "
            "lost: 7 not retrieved, 6 ranked too low; unknown: 8",
            id="a retriever finds; a question without an answer is no loss",
        ),
        pytest.param(
            [counted("a/x", "generation", right=2, refused=1), counted("a", "retrieval", right=3)],
            {},
            "a/x answers 2 of 3 questions; lost: 1 refused",
            id="answers before rankings",
        ),
        pytest.param(
            [
                counted("gold_context/x", "generation", "control", right=3),
                counted("a/x", "generation", right=1, failed=2),
                counted("b/x", "generation", right=2, failed=1),
            ],
            {},
            "b/x answers 2 of 3 questions; lost: 1 failed",
            id="the best, which no control can be",
        ),
        pytest.param(
            [counted("given", "generation", refused=23, unknown=217)],
            {"user_system": "given"},
            "given: of 240 queries: 23 refused, 217 unknown",
            id="where no answer was checked, none is called wrong",
        ),
        pytest.param(
            [counted("a", "retrieval", right=1)],
            {},
            "a finds the gold of 1 of 1 question",
            id="nothing lost",
        ),
        pytest.param([counted("a", "retrieval")], {}, "", id="no causes"),
        pytest.param([], {}, "", id="no system"),
    ],
)
def test_the_first_line_says_what_happened(systems, facts, expected):
    assert lead_of(*systems, **facts) == expected
