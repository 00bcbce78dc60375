"""`max_drop` against a history: evidence adds up, can only fail, and is no evidence of itself."""

import math

import numpy as np
import pytest

from ragbench import compare
from ragbench.data.runs.baseline import write_baseline
from ragbench.data.runs.history import append_to_history, start_history
from ragbench.errors import ConfigError
from ragbench.experiment.gates import check_gates
from ragbench.pytest_plugin import assert_not_worse
from ragbench.records.score import Early
from ragbench.stats import drop_evidence
from ragbench.types import Cause
from tests.data.test_history import run

N = 100
RECORD = np.ones(N)
GATE = {"measure": "mrr", "system": "bm25", "max_drop": 0.02}


def losing(*queries):
    """Every query is answered, but these."""
    scores = RECORD.copy()
    scores[list(queries)] = 0.0
    return scores


DECAY = [losing(*range(5 * commit, 5 * commit + 5)) for commit in range(9)]
"""Five other queries lost at each commit: .05 less than the record."""


@pytest.fixture
def held(tmp_path, monkeypatch):
    """A run, held against a history of the record and other runs; the one verdict."""
    monkeypatch.chdir(tmp_path)

    def decide(newest, commits, *, name="main.jsonl", run_id=None, **keys):
        start_history(name, run("record", RECORD))
        for number, cells in enumerate(commits):
            append_to_history(name, run(f"run{number}", cells))
        write_baseline("now.json", run("now", newest))
        (found,) = check_gates("now.json", {**GATE, "against": name, **keys})
        return found

    return decide


@pytest.mark.costly
def test_a_decay_that_no_commit_shows_is_failed(held):
    verdicts = [held(DECAY[n], DECAY[:n]) for n in range(9)]

    assert verdicts[0]["verdict"] == "undecided"
    assert verdicts[-1]["verdict"] == "fail"
    assert "evidence over 9 commits since record: e = " in verdicts[-1]["why"]
    assert "(fails from 20): a drop by more than 0.02; this run: -0.05 [" in verdicts[-1]["why"]
    first = next(n for n, found in enumerate(verdicts) if found["verdict"] == "fail")
    assert first < 8
    assert all(found["verdict"] == "undecided" for found in verdicts[:first])


def test_the_record_in_the_verdict_is_what_the_statistics_say(held):
    found = held(DECAY[2], DECAY[:2])

    e = drop_evidence([row - RECORD for row in DECAY[:3]], 0.02).e
    assert found["evidence"].pop("e") == pytest.approx(e)
    assert found["evidence"] == {
        "fails_from": 20.0, "commits": 3, "changed": 3, "since": "record",
    }  # fmt: skip
    assert found["why"].endswith(
        f"evidence over 3 commits since record: e = {e:.3g} (fails from 20)"
    )
    assert found["difference"] == pytest.approx(-0.05)


@pytest.mark.costly
def test_identical_commits_add_nothing(held):
    first, last = held(DECAY[0], []), held(DECAY[0], [DECAY[0]] * 18)

    assert last["verdict"] == first["verdict"] == "undecided"
    assert last["evidence"]["e"] == first["evidence"]["e"]
    assert (last["evidence"]["commits"], last["evidence"]["changed"]) == (19, 1)
    assert "19 commits (1 changed scores)" in last["why"]


@pytest.mark.costly
def test_a_run_that_is_back_within_the_margin_is_not_failed(held):
    shown = held(DECAY[8], DECAY[:8])
    back = held(losing(3), DECAY)

    assert shown["evidence"]["e"] >= 20
    assert back["evidence"]["e"] >= 20, "the drop before it was real"
    assert back["verdict"] != "fail"
    assert held(RECORD, DECAY)["verdict"] == "pass"


@pytest.mark.costly
def test_the_same_run_is_not_counted_twice(held, tmp_path):
    held(DECAY[1], DECAY[:1])
    append_to_history("main.jsonl", run("twice", DECAY[1]))
    before = check_gates("now.json", {**GATE, "against": "main.jsonl"})
    start_history("other.jsonl", run("twice", DECAY[1]))

    (found,) = check_gates("other.jsonl", {**GATE, "against": "main.jsonl"})

    assert found["evidence"]["commits"] == 2
    assert before[0]["evidence"]["commits"] == 3, "a run without an id is another one"


def test_the_record_held_against_its_own_history_is_identical(held):
    held(RECORD, DECAY)
    start_history("first.jsonl", run("record", RECORD))

    (found,) = check_gates("first.jsonl", {**GATE, "against": "main.jsonl"})

    assert found["verdict"] == "pass"
    assert "evidence" not in found


@pytest.mark.costly
def test_failures_that_could_turn_it_are_undecided(held):
    cells = [float(score) for score in DECAY[2]]
    whole = held(cells, DECAY[:2])
    cells[20:] = [Cause.TIMEOUT] * 80

    found = held(cells, DECAY[:2])

    assert whole["evidence"]["e"] < 20 < found["evidence"]["e"]
    assert found["verdict"] == "undecided"
    assert found["why"].startswith("failures on 80 queries could turn fail; without them: ")


def test_a_run_that_fails_by_itself_says_both(held):
    found = held(losing(*range(40)), DECAY[:1])

    assert found["verdict"] == "fail"
    assert "a drop by more than 0.02; evidence over 2 commits since record" in found["why"]


def test_a_score_without_a_pair_is_left_out(held):
    cells = [float(score) for score in DECAY[3]]
    cells[99] = Cause.NO_RELEVANT
    expected = np.array([row - RECORD for row in DECAY[:4]])
    expected[3, 99] = np.nan

    found = held(cells, DECAY[:3])

    assert found["evidence"]["e"] == pytest.approx(drop_evidence(expected, 0.02).e)


def test_the_mean_of_these_queries_needs_no_evidence(held):
    found = held(DECAY[8], DECAY[:8], decide="mean", max_drop=0.06)

    assert found["verdict"] == "pass"
    assert "evidence" not in found


def test_a_history_that_is_not_there_yet_is_undecided(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_baseline("now.json", run("now", RECORD))

    (found,) = check_gates("now.json", {**GATE, "against": "history/main.jsonl"})

    assert found["verdict"] == "undecided"
    assert found["why"] == (
        "no history yet: ragbench baseline RUN --append history/main.jsonl starts it"
    )
    with pytest.raises(ConfigError, match="no such file"):
        check_gates("now.json", {**GATE, "against": "history/main.json"})


def test_other_gates_are_held_against_the_record(held):
    found = held(DECAY[2], DECAY[:2], max_drop=None, max_queries_worse=4)

    assert (found["verdict"], found["n_worse"]) == ("fail", 5)


def test_a_system_that_came_later_has_its_own_record(held):
    held(RECORD, [])
    append_to_history("main.jsonl", run("later", DECAY[0], system="new"))
    append_to_history("main.jsonl", run("last", DECAY[1], system="new"))
    write_baseline("now.json", run("now", DECAY[2], system="new"))

    (found,) = check_gates("now.json", {**GATE, "system": "new", "against": "main.jsonl"})

    assert (found["evidence"]["since"], found["evidence"]["commits"]) == ("later", 2)


def test_a_commit_scored_in_another_way_is_refused_with_its_line(held):
    held(RECORD, DECAY[:1])
    append_to_history("main.jsonl", run("other", DECAY[1], signature="mrr|v:2"))

    (found,) = check_gates("now.json", {**GATE, "against": "main.jsonl"})

    assert found["refused"]
    assert "v is 1 in main.jsonl and 2 in main.jsonl:3" in found["why"]


@pytest.mark.costly
def test_assertions_in_pytest_add_it_up_too(held):
    assert held(DECAY[8], DECAY[:8])["verdict"] == "fail"

    with pytest.raises(AssertionError, match="evidence over 9 commits since record"):
        assert_not_worse("now.json", "main.jsonl", measures={"mrr": 0.02})


@pytest.mark.costly
def test_a_baseline_of_check_gates_may_be_a_history(held):
    expected = held(DECAY[8], DECAY[:8])

    (found,) = check_gates("now.json", GATE, baseline="main.jsonl")

    assert (found["verdict"], found["evidence"]) == ("fail", expected["evidence"])


def test_comparing_with_a_history_is_comparing_with_its_record(held):
    held(DECAY[1], DECAY[:1])

    found = compare("main.jsonl", "now.json", measures=["mrr"])

    assert found.to_dict()["sources"][0] == "main.jsonl"


def test_a_judge_that_may_stop_early_is_no_evidence(held):
    """Whom it leaves out depends on the scores."""
    early = Early(stopped=False, judged=N, queries=N, look=1, sizes=(N,), always_valid=False)
    held(RECORD, DECAY[:3])
    append_to_history("main.jsonl", run("early", DECAY[3], early=early))
    write_baseline("now.json", run("now", DECAY[4], early=early))

    (found,) = check_gates("now.json", {**GATE, "against": "main.jsonl"})

    alone = drop_evidence([row - RECORD for row in DECAY[:3]], 0.02)
    assert found["evidence"]["e"] == pytest.approx(alone.e)
    assert (found["evidence"]["commits"], found["evidence"]["changed"]) == (5, 3)


def test_a_score_without_a_bound_adds_up_to_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    start_history("main.jsonl", run("record", RECORD, high=math.inf))
    write_baseline("now.json", run("now", DECAY[0], high=math.inf))

    (found,) = check_gates("now.json", {**GATE, "against": "main.jsonl"})

    assert found["why"].endswith("no evidence adds up, as the score has no bound")
    assert "evidence" not in found
