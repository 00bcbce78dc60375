"""Readers of a run with several answers per query: they take the mean, or the first answers."""

import json
import time

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from ragbench.calibration.judged_run import read_judged_run
from ragbench.cli import group
from ragbench.comparison.sources import read_scored
from ragbench.experiment.result import load_experiment
from ragbench.experiment.runner import run_experiment
from ragbench.records.manifest import Choices
from tests.chat_server import ChatServer
from tests.chat_server.answers import Answer
from tests.commands import run_command
from tests.experiment.moons import FEW_SCORES, QUERIES, moons_place
from tests.experiment.test_preferences import JUDGE_MODULE
from tests.experiment.test_samples import (
    REPLIES,
    SAMPLES,
    answer_in_turn,
    asking,
    rows_of,
    system_of,
)
from tests.messages import lines_with
from tests.score.judge.scripted import Held

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

RUN = ["run", "exp.yaml", "--no-judge"]


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def server():
    with ChatServer(answer_in_turn, model="m") as server:
        yield server


def judged(config, server, *, rubrics=("answer_relevancy",), **options):
    entries = asking(config, server)
    judge = {"type": "openai", "model": "m", "base_url": server.url, "rubrics": [*rubrics]}
    entries["metrics"] = {**FEW_SCORES, "generation": ["rouge1"], "judge": {**judge, **options}}
    return entries


def invoke(*arguments):
    result = CliRunner().invoke(group, [*map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run with several answers to each query and one with one, which no test changes."""
    folder = tmp_path_factory.mktemp("samples")
    with ChatServer(answer_in_turn, model="m") as server, moons_place(folder) as config:
        config["output"] = str(folder / "runs")
        return [
            run_experiment(asking(config, server, samples), choices=Choices(judge=False))
            for samples in (SAMPLES, 1)
        ]


def test_comparisons_and_baselines_take_the_mean_of_a_query(runs, tmp_path):
    several, once = runs
    means = several.per_query["bm25/gpt"]["rouge1"]

    column = read_scored(several.path).systems["bm25/gpt"].columns["rouge1"]
    np.testing.assert_allclose(column.values, list(means.values()), atol=1e-15)
    result = invoke("compare", once.path, several.path)
    assert result.exit_code == 0, result.output
    saved = tmp_path / "main.json"
    assert invoke("baseline", several.path, "-o", saved).exit_code == 0
    stored = read_scored(saved).systems["bm25/gpt"].columns["rouge1"]
    np.testing.assert_allclose(stored.values, column.values, atol=1e-15)


def test_several_answers_ask_a_judge_the_same_as_one(config, server):
    several, once = (
        run_experiment({**judged(config, server), "generators": entries["generators"]})
        for entries in (asking(config, server), asking(config, server, 1))
    )

    signatures = [
        {name: score["signature"] for name, score in system_of(run)["scores"].items()}
        for run in (several, once)
    ]
    assert signatures[0] == signatures[1]
    assert invoke("compare", once.path, several.path).exit_code == 0


def test_a_certificate_is_made_of_the_first_answers(config, server):
    experiment = run_experiment(judged(config, server))
    firsts = {
        row["query_id"]: row["answer"]
        for row in rows_of(experiment, "predictions")
        if row["sample"] == 0
    }

    run = read_judged_run(experiment.path)
    assert {query: run.answers["bm25/gpt", query].answer for query in QUERIES} == firsts
    scores = run.scores["answer_relevancy"].scores
    assert {query: scores["bm25/gpt", query] for query in QUERIES} == {
        query: float(text == REPLIES[0]) for query, text in firsts.items()
    }


def test_a_pair_of_systems_is_won_by_the_majority_of_meetings(
    config, server, tmp_path, monkeypatch
):
    # Answers of 17, 3 and 20 characters meet one of 9: two of three are longer.
    (tmp_path / "length_judge.py").write_text(JUDGE_MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    entries = asking(config, server)
    judge = {"type": "python:length_judge:Longest", "rubrics": ["pairwise"]}
    entries["metrics"] = {**FEW_SCORES, "judge": judge}
    experiment = run_experiment(entries, generators={"one": lambda question, contexts: "nine char"})

    (path,) = (experiment.path / "judgements" / "pairs").iterdir()
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    counted = {(row["query_id"], row["sample"]) for row in rows}
    assert counted == {(query, sample) for query in QUERIES for sample in range(SAMPLES)}
    (entry,) = experiment.comparisons["preferences"]
    (pair,) = entry["comparisons"]
    assert (pair["system"], pair["wins"], pair["n"]) == ("bm25/gpt", len(QUERIES), len(QUERIES))


def test_a_judge_with_samples_does_not_share_its_noise_among_equal_answers(config):
    with ChatServer(lambda body, n: answer_in_turn(body, 0), model="m") as server:
        run_experiment(judged(config, server))
        once = server.counters.requests
        run_experiment(judged(config, server, repeat=2))
        twice = server.counters.requests - once

    n = len(QUERIES)
    assert once == SAMPLES * n + n, "one verdict serves equal answers"
    assert twice == (2 * SAMPLES - 1) * n, "all samples but the first, which is stored"


def test_pages_say_what_their_intervals_cover(runs, assert_message):
    several, once = runs
    for page in ("report.md", "report.html"):
        text = (several.path / page).read_text(encoding="utf-8")
        assert "and of answers to them" in text
        assert_message(lines_with(text, "3 times"))
        assert "of answers to them" not in (once.path / page).read_text(encoding="utf-8")


def test_a_coverage_gate_counts_answers(config):
    questions = set()

    def refuse_once(body, times_asked):
        question = body["messages"][-1]["content"]
        is_repeated, _ = question in questions, questions.add(question)
        return REPLIES[0] if is_repeated else Answer("", refusal="I will not.")

    with ChatServer(refuse_once, model="m") as server:
        entries = asking(config, server) | {"gates": [{"failed": "rouge1", "max": 0.01}]}
        experiment = run_experiment(entries, choices=Choices(judge=False))

    (gate,) = (gate for gate in experiment.summary["gates"] if gate["system"] == "bm25/gpt")
    assert gate["verdict"] == "fail"
    assert gate["n_failed"] == 4, "one answer to each query with a reference"


@pytest.mark.slow
def test_a_kill_loses_at_most_what_was_under_way(config, tmp_path, warm):
    script = Held(answer_in_turn, hold_after=4)
    with ChatServer(script, model="m") as server:
        entries = asking(config, server, concurrency=1)
        (tmp_path / "exp.yaml").write_text(yaml.safe_dump(entries))
        process = warm.start(*RUN, cwd=tmp_path)
        while server.counters.requests < 5 and process.poll() is None:
            time.sleep(0.01)
        process.kill()
        process.communicate()
        script.release()
        n_requests = server.counters.requests
        assert 5 <= n_requests < len(QUERIES) * SAMPLES
        assert run_command(*RUN, cwd=tmp_path).returncode == 0

        assert len(QUERIES) * SAMPLES <= server.counters.requests <= len(QUERIES) * SAMPLES + 1
    rows = rows_of(load_experiment(tmp_path / "runs" / "moons"), "predictions")
    assert len(rows) == len(QUERIES) * SAMPLES
