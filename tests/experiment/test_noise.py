"""Noise of repeated systems: tables of repetitions, shares, flips, and where they are reported."""

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ragbench.cli import group
from ragbench.comparison.answer_verdicts import DecidingScores
from ragbench.experiment.noise import find_flips, noise_of
from ragbench.experiment.repeated_scores import RepeatedScores
from ragbench.experiment.result import load_experiment
from ragbench.experiment.runner import run_experiment
from ragbench.records.manifest import Choices
from ragbench.signature import Signature
from ragbench.stats import noise_parts
from ragbench.types import Cause, ScoreColumn
from tests.chat_server import ChatServer
from tests.experiment.moons import QUERIES
from tests.experiment.test_repeat import CODE, entry, with_parts

COSTS = {"answers": 1.0, "judge": 1.0}


def scores_of(table, *, is_judged=False, **changes):
    """Return scores from a table of shape (queries, repetitions, judgements)."""
    table = np.array(table, float)[:, None]
    values = np.nanmean(table, axis=(1, 2, 3))
    facts = {"direction": "higher", "low": 0.0, "high": 1.0, **changes}
    column = ScoreColumn(
        "right", values, np.zeros(len(table), np.uint8), Signature("right"), **facts
    )
    return RepeatedScores(column, table, COSTS, is_judged)


# four questions: right, wrong, and two that flip
FLIPPING = [[[1], [1]], [[0], [0]], [[1], [0]], [[0], [1]]]


def test_noise_worked_by_hand():
    # Shares 1/4 and 3/4, as in tests/stats/test_noise.py; twice the answers leave 5/8 of it.
    #
    # An equal sum buys 2 x the questions, or 2 x the answers: (1/4 + 3/8) of the variance.
    noise = noise_of(scores_of(FLIPPING), (0.3, 0.7), 0.95)

    assert (noise.n, noise.half_width) == (4, pytest.approx(0.2))
    assert noise.questions.share == pytest.approx(0.25)
    assert noise.app.share == pytest.approx(0.75)
    assert (noise.retrieval, noise.answers, noise.judge) == (None, None, None)
    bought = {buy.level: (buy.times, buy.half_width) for buy in noise.buy}
    assert bought["questions"] == (2.0, pytest.approx(0.2 * 0.5**0.5))
    assert bought["app"] == (2.0, pytest.approx(0.2 * 0.625**0.5))


def test_retrieval_and_answers_are_apart_where_both_are_repeated():
    rng = np.random.default_rng(3)
    table = rng.integers(0, 2, (30, 2, 3, 1)).astype(float)
    whole = scores_of(FLIPPING)
    scores = RepeatedScores(whole.column, table, COSTS, False)
    noise = noise_of(scores, (0.4, 0.6), 0.95)
    parts = noise_parts(table, ["retrieval", "answers", "judge"])

    assert noise.retrieval.share == pytest.approx(parts["retrieval"].share)
    assert noise.answers.share == pytest.approx(parts["answers"].share)
    assert noise.app.share == pytest.approx(noise.retrieval.share + noise.answers.share)
    assert noise.questions.share + noise.app.share == pytest.approx(1)


def test_a_difference_has_the_noise_of_both():
    other = scores_of([[[1], [1]], [[0], [0]], [[0], [0]], [[0], [0]]])
    noise = noise_of(scores_of(FLIPPING), None, 0.95, against=other)
    alone = noise_of(other, None, 0.95)

    # differences 0, 0, .5, .5 have variance 1/12; the answers put .125 into each
    assert noise.app.share == 1
    assert alone.app.share == 0
    assert noise.half_width is None
    assert noise.buy == ()


def test_answers_of_a_file_cost_nothing_and_are_not_bought():
    # two repetitions in the file, two judgements of each
    table = [[[1, 1], [1, 0]], [[0, 0], [0, 0]], [[1, 0], [0, 0]], [[0, 1], [1, 1]]]
    scores = replace(scores_of(table), costs={"answers": 0.0, "judge": 1.0}, is_stored=True)

    noise = noise_of(scores, (0.3, 0.7), 0.95)

    assert {buy.level: buy.times for buy in noise.buy} == {"questions": 2.0, "judge": 2.0}
    # nor where only the baseline is read from a file
    other = noise_of(scores_of(table), (0.3, 0.7), 0.95, against=scores)
    assert {buy.level for buy in other.buy} == {"questions", "judge"}


@pytest.mark.slow
def test_the_purchases_of_recorded_answers_are_judgements(config, tmp_path):
    rows = []
    for question in QUERIES.values():
        rows.append(json.dumps({"question": question, "answer": "It is so.", "reference": "x"}))
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))

    def in_turn(body, times_asked):
        return json.dumps({"reasoning": "so", "level": 1 + 4 * (times_asked % 2)})

    with ChatServer(in_turn, model="m") as server:
        judge = {"type": "openai", "model": "m", "base_url": server.url, "repeat": 2}
        judge |= {"rubrics": ["answer_relevancy"], "temperature": 1.0}
        dataset = {"type": "records", "path": str(tmp_path / "rows.jsonl")}
        parts = {"name": "r", "dataset": dataset, "metrics": {"judge": judge}}
        experiment = run_experiment(parts | {"output": str(tmp_path / "runs")})

    [noise] = [of_system["answer_relevancy"] for of_system in experiment.noise.values()]
    assert {buy.level: buy.times for buy in noise.buy} == {"questions": 2.0, "judge": 2.0}


@pytest.mark.slow
@pytest.mark.parametrize("repeat", [1, 2])
def test_a_further_look_asks_a_judge_anew_about_equal_answers(flaky, repeat):
    def reply(body, times_asked):
        return json.dumps({"reasoning": "so", "level": 3})

    counts = []
    with ChatServer(reply, model="m") as server:
        judge = {"type": "openai", "model": "m", "base_url": server.url, "repeat": repeat}
        parts = with_parts(flaky, apps={"mine": entry("app", repeat=1)})
        parts["metrics"]["judge"] = judge | {"rubrics": ["answer_relevancy"], "temperature": 1.0}
        for look in (0, 1, 1, 2):
            Path("calls.txt").unlink(missing_ok=True)  # the app begins anew
            run_experiment(parts, choices=Choices(look=look))
            counts.append(server.counters.requests)

    n = len(QUERIES) * repeat
    # the second run of a look has its replies
    assert counts == [n, 2 * n, 2 * n, 3 * n]


def test_nothing_repeated_has_no_noise():
    assert noise_of(scores_of([[[1]], [[0]], [[1]]]), (0, 1), 0.95) is None


def test_each_difference_of_a_sure_score_is_a_flip():
    source, flips = find_flips(scores_of(FLIPPING), ["a", "b", "c", "d"])

    assert source == "app"
    assert [(f.query_id, f.pass_rate, f.passed, f.failed) for f in flips] == [
        ("c", 0.5, 0, 1),
        ("d", 0.5, 1, 0),
    ]


def test_a_judge_that_disagrees_with_itself_does_not_name_the_app():
    table = [
        [[1, 1], [0, 0]],  # one repetition is right for both judgements, one wrong: a flip
        [[1, 1], [1, 0]],  # the judge alone disagrees
        [[1, 0], [0, 1]],
    ]
    source, flips = find_flips(scores_of(table, is_judged=True), ["a", "b", "c"])

    assert source == "app"
    assert [(flip.query_id, flip.pass_rate) for flip in flips] == [("a", 0.5)]


def test_an_unrepeated_judge_leaves_app_or_judge():
    source, flips = find_flips(scores_of(FLIPPING, is_judged=True), ["a", "b", "c", "d"])

    assert source == "app or judge"
    assert len(flips) == 2


def test_a_lower_score_is_right_at_its_low_end():
    table = [[[0], [1]], [[1], [1]]]
    _, flips = find_flips(scores_of(table, direction="lower"), ["a", "b"])

    assert [(flip.query_id, flip.passed) for flip in flips] == [("a", 0)]


def test_graded_scores_have_no_flips():
    assert find_flips(scores_of([[[0.3], [0.8]]]), ["a"]) == (None, ())


def test_worlds_with_known_parts(repository, monkeypatch):
    # A few of the worlds of `benchmarks/noise.py`, which has the bars for 500 of them.
    monkeypatch.syspath_prepend(repository / "benchmarks")
    worlds = importlib.import_module("noise")
    rng, tally = np.random.default_rng(1), worlds.Tally()
    for _ in range(60):
        worlds.try_world(worlds.random_world(rng), rng, tally)

    for level in worlds.LEVELS:
        assert tally.estimated[level] / tally.true[level] == pytest.approx(1, abs=0.2)
    assert tally.counts["held"] >= 54
    assert tally.counts["wrongly named"] <= 0.1 * tally.counts["named"]
    assert tally.counts["named"] > 100


@pytest.fixture
def flaky(config, tmp_path, monkeypatch):
    (tmp_path / "flaky.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return config


@pytest.mark.slow
def test_a_run_reports_the_noise_of_an_app(flaky, tmp_path):
    experiment = run_experiment(with_parts(flaky, apps={"mine": entry("app")}))

    noise = experiment.noise["mine"]["right"]
    # the question on Pluto has no answer in the corpus, and is answered all the same
    table = [[1, 1, 1], [1, 0, 0], [1, 1, 1], [1, 1, 1], [0, 0, 0]]
    assert noise.app.share == pytest.approx(noise_parts(table, ["app"])["app"].share)
    assert [(f.query_id, f.passed, f.failed) for f in noise.flipping] == [("q2", 0, 1)]
    summary = json.loads((experiment.path / "summary.json").read_text())
    [system] = summary["systems"]
    assert {"questions", "app", "judge", "flipping"} <= system["noise"]["right"].keys()
    assert load_experiment(experiment.path).noise == experiment.noise
    _, second, *_ = str(experiment).splitlines()
    assert second.startswith("right of mine has an interval of +-0.")
    assert second.endswith("your app (squares add up); 1 of 5 questions flip")
    for file in ("report.md", "report.html"):
        text = (experiment.path / file).read_text()
        assert "noise of questions, app and judge" in text
        assert second in text
    printed = CliRunner().invoke(group, ["show", str(experiment.path), "q2"]).output
    assert "Europa" in printed
    assert "Callisto" in printed


@pytest.mark.slow
def test_errors_in_place_of_wrong_answers_do_not_look_perfect(flaky):
    # each question is answered right once, and fails twice
    apps = {"old": entry("breaking"), "new": entry("app")}
    experiment = run_experiment(with_parts(flaky, apps=apps) | {"max_failed": 1.0})

    noise = experiment.noise["old"]["right"]
    assert (noise.n_partly_failed, noise.flipping) == (5, ())
    assert experiment.noise["new"]["right"].n_partly_failed == 0
    printed = CliRunner().invoke(group, ["run", str(experiment.path / "config.yaml")]).output
    first, *_ = str(experiment).splitlines()
    assert "(3.3 failed)" in first
    assert "10 of 15 answers of old (error 10)" in printed


@pytest.mark.slow
def test_a_repeated_judge_has_a_share_of_its_own(flaky):
    # A judge that says yes and no in turn about each answer, and an app that never changes.
    def in_turn(body, times_asked):
        return json.dumps({"reasoning": "so", "level": 1 + 4 * (times_asked % 2)})

    with ChatServer(in_turn, model="m") as server:
        judge = {"type": "openai", "model": "m", "base_url": server.url, "repeat": 2}
        judge |= {"rubrics": ["answer_relevancy"], "temperature": 1.0, "concurrency": 1}
        parts = with_parts(flaky, apps={"mine": entry("app", repeat=2)})
        parts["metrics"]["judge"] = judge
        experiment = run_experiment(parts)

    noise = experiment.noise["mine"]["answer_relevancy"]
    assert noise.judge.share == pytest.approx(1)
    assert noise.flips_by == "app"
    assert noise.flipping == ()


@pytest.mark.slow
def test_two_repeated_retrievers_share_the_noise_of_their_difference(flaky):
    parts = {
        "retrievers": {"base": entry("retrieve"), "mine": entry("retrieve", 2, version="2")},
        "statistics": {"baseline": "base", "resamples": 200},
    }
    experiment = run_experiment(with_parts(flaky, **parts))

    [family] = [f for f in experiment.compared.measures if f.measure == "mrr"]
    [row] = family.comparisons
    assert row.noise.questions.share + row.noise.app.share == pytest.approx(1)
    assert experiment.noise["mine"]["mrr"].app is not None


@pytest.mark.slow
def test_a_run_without_repeats_has_no_noise(flaky):
    experiment = run_experiment(with_parts(flaky, apps={"mine": entry("app", repeat=1)}))

    assert experiment.noise == {}
    assert "noise" not in json.loads((experiment.path / "summary.json").read_text())["systems"][0]
    assert len(QUERIES) == 5


def test_a_missing_judgement_of_a_deciding_score_is_a_failure():
    causes = np.array([Cause.SCORED, Cause.SCORED, Cause.TIMEOUT], np.uint8)
    values = np.array([2 / 3, 1 / 3, np.nan])
    judged, other = (ScoreColumn(name, values, causes, Signature(name)) for name in ("a", "b"))
    votes = {"a": np.array([0.0, np.nan, 1.0])}

    scores = DecidingScores(judged, faithfulness=other).with_votes(votes)

    assert scores.correctness.values == pytest.approx([0, np.nan, np.nan], nan_ok=True)
    assert [Cause(cause).failed for cause in scores.correctness.causes] == [False, True, True]
    assert scores.correctness.causes[2] == Cause.TIMEOUT, "the cause of the score is kept"
    assert scores.faithfulness is other


# an app and a judge of which one tosses a coin at each call, and the other one never changes
TOSSED = """
import random

draw = random.Random({seed})

def app(question):
    is_right = {app}
    return "yes" if is_right else "no"

def correctness(question, answer):
    return int({judge})
"""
TOSS, CONSTANT_APP, CONSTANT_JUDGE = "draw.random() < 0.5", "True", 'answer == "yes"'


@pytest.fixture
def tossed(tmp_path, monkeypatch):
    """A function that runs 60 questions with an app and a judge, and returns the experiment."""

    def run(app, judge, repeats):
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(str(tmp_path))
        (tmp_path / "tossed.py").write_text(TOSSED.format(seed=5, app=app, judge=judge))
        sys.modules.pop("tossed", None)
        rows = [f"question {number},yes\n" for number in range(60)]
        (tmp_path / "qa.csv").write_text("question,answer\n" + "".join(rows))
        of_app, of_judge = repeats
        columns = {"question": "question", "reference": "answer"}
        return run_experiment(
            {
                "name": "tossed",
                "dataset": {"type": "records", "path": "qa.csv", "columns": columns},
                "apps": {"mine": {"type": "python:tossed:app", "repeat": of_app}},
                "metrics": {"judge": {"type": "python:tossed:correctness", "repeat": of_judge}},
                "output": "runs",
            }
        )

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("app", "judge", "expected"),
    [
        pytest.param(CONSTANT_APP, TOSS, {"app": 0, "judge": 1}, id="judge tosses"),
        pytest.param(TOSS, CONSTANT_JUDGE, {"app": 1, "judge": 0}, id="app tosses"),
    ],
)
def test_right_names_whom_its_noise_is_of(tossed, app, judge, expected):
    experiment = tossed(app, judge, (3, 3))

    noise = experiment.noise["mine"]["right"]
    found = {level: getattr(noise, level).share for level in expected}
    assert found == pytest.approx(expected, abs=0.2)
    assert noise.flips_by == "app"
    assert experiment.noise["mine"]["correctness"].judge.share == pytest.approx(noise.judge.share)
    _, second, *_ = str(experiment).splitlines()
    assert " your app, 0." in second
    assert " the judge (" in second


@pytest.mark.slow
def test_a_judge_that_is_repeated_alone_has_its_line(tossed):
    experiment = tossed(CONSTANT_APP, TOSS, (1, 3))

    noise = experiment.noise["mine"]["right"]
    assert noise.app is None
    assert noise.judge.share == pytest.approx(1, abs=0.2)
    assert {buy.level for buy in noise.buy} == {"questions", "judge"}
    _, second, third, *_ = str(experiment).splitlines()
    assert second.startswith("right of mine has an interval of +-0.")
    assert second.endswith(" from the judge (squares add up)")
    assert third.endswith(" x the judge") or " x the judge, " in third
