"""Gates between sets of questions of which some were edited, added or removed."""

import pytest

from ragbench import check_gates, evaluate_run

QRELS = {f"q{n}": {"d": 1} for n in range(78)}
GOOD, REVERSED = ({"d": 3.0 * sign, "x": 2.0 * sign, "y": 1.0 * sign} for sign in (1, -1))


def evaluated(qrels, ranking):
    return evaluate_run(dict.fromkeys(qrels, ranking), qrels, ["mrr", "ndcg@10"])


BASE = evaluated(QRELS, GOOD)
GROWN = {**QRELS, "q5": {"d": 1, "x": 1}, "q99": {"d": 1}}  # one edited, one new


@pytest.mark.parametrize(
    "gate", [{"measure": "ndcg@10", "max_drop": 0.05}, {"measure": "mrr", "max_queries_worse": 2}]
)
@pytest.mark.parametrize(("ranking", "verdict"), [(REVERSED, "fail"), (GOOD, "pass")])
def test_the_common_unchanged_questions_decide(gate, ranking, verdict, assert_message):
    [decision] = check_gates(evaluated(GROWN, ranking), gate, BASE)

    assert (decision["verdict"], decision["n"]) == (verdict, 77)
    assert_message(decision["why"])
    assert "q5" not in [query["query_id"] for query in decision.get("worst_queries", ())]


@pytest.mark.parametrize(("n_removed", "verdict"), [(15, "fail"), (16, "undecided")])
def test_under_80_percent_of_the_baseline_is_undecided(n_removed, verdict):
    common = dict(list(QRELS.items())[n_removed:])  # 63 of 78 are 81 %, 62 are 79 %

    [decision] = check_gates(evaluated(common, REVERSED), "mrr drop > 0.05", BASE)

    counts = f"{78 - n_removed} of 78 unchanged ({n_removed} removed)"
    assert decision["verdict"] == verdict
    assert counts in decision["why"]
    assert not decision.get("refused")


def test_many_edits_are_undecided_and_only_edits_are_refused(assert_message):
    edited = {query: {"d": 1, "x": 1} for query in QRELS}

    [decision] = check_gates(evaluated(edited | {"q0": {"d": 1}}, GOOD), "mrr drop > 0", BASE)
    [refused] = check_gates(evaluated(edited, GOOD), "mrr drop > 0", BASE)

    why = "only 1 of 78 unchanged (77 edited), under 80%: ask the same questions, or"
    why += " write the baseline again"
    assert (decision["verdict"], decision["why"]) == ("undecided", why)
    assert refused["refused"]
    assert_message(refused["why"])


def test_a_new_question_alone_says_nothing_about_the_others(assert_message):
    # New questions are in neither mean, however bad they are.
    new = evaluate_run(
        {**dict.fromkeys(QRELS, GOOD), "q99": REVERSED}, {**QRELS, "q99": {"d": 1}}, ["ndcg@10"]
    )

    [decision] = check_gates(new, "ndcg@10 drop > 0", BASE)

    assert decision["means"] == [1.0, 1.0]
    assert_message(decision["why"])
