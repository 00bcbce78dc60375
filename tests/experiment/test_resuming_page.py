"""The table of docs/resuming.md, all but the prompt: each change, and the counters of its run."""

import json
import re
from importlib.resources import files

import pytest

from ragbench.experiment.runner import run_experiment
from tests.chat_server import ChatServer
from tests.experiment.moons import moons_place, write_jsonl
from tests.experiment.test_stages import work
from tests.score.judge.scripted import Script

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

OPTIONS = {
    "retriever option": {"retrievers.exact.b": 0.1},
    "generator option": {"generators.extractive.sentences": 2},
    "metric": {"metrics.generation": ["rouge1", "chrf"]},
    "metric option": {"metrics.generation": ["rouge1(stemmer=true)"]},
    "k": {"metrics.retrieval.measures": ["ndcg@5"]},
    "statistics": {"statistics.resamples": 200},
}


@pytest.fixture(scope="module")
def table(request):
    page = request.config.rootpath / "docs" / "resuming.md"
    section = page.read_text(encoding="utf-8").split("## What a change recomputes")[1]
    cells = r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$"
    rows = re.findall(cells, section.split("\n## ")[0], re.MULTILINE)
    return {change: (words(always), words(perhaps)) for change, always, perhaps in rows[1:]}


def words(cell):
    return set() if cell == "-" else set(cell.split(", "))


def fits(work, row):
    always, perhaps = row
    return always <= work <= always | perhaps


METRICS = {
    "retrieval": {"measures": ["ndcg@10"]},
    "generation": ["rouge1"],
    "judge": {"type": "python:tests.words:context_overlap"},
}


@pytest.fixture
def judged(config):
    return {**config, "metrics": {**METRICS}, "statistics": {"resamples": 100}}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The config of a finished run, with its results in the store."""
    with moons_place(tmp_path_factory.mktemp("finished")) as config:
        judged = {**config, "metrics": METRICS, "statistics": {"resamples": 100}}
        run_experiment(judged)
        yield judged


def stages(experiment):
    return {name.split()[0] for name in work(experiment)}


@pytest.mark.parametrize("change", OPTIONS)
def test_a_changed_option(finished, table, change, monkeypatch):
    monkeypatch.setenv("RAGBENCH_CACHE", "cache")

    work = stages(run_experiment(finished, overrides=OPTIONS[change]))

    assert fits(work, table[change]), work
    assert stages(run_experiment(finished, overrides=OPTIONS[change])) == set()


def test_a_changed_document(judged, table, data):
    run_experiment(judged)
    rows = [json.loads(line) for line in (data / "corpus.jsonl").read_text().splitlines()]
    write_jsonl(data / "corpus.jsonl", [*rows, {"_id": "zz", "title": "", "text": "unrelated"}])

    work = stages(run_experiment(judged))

    assert fits(work, table["data: a document"]), work


def test_a_changed_rubric_text(judged, table, tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    rubric = tmp_path / "mine.yaml"
    built_in = files("ragbench.score.judge") / "rubrics" / "answer_relevancy.yaml"
    rubric.write_text(built_in.read_text().replace("name: answer_relevancy", "name: mine"))
    with ChatServer(Script(), model="m") as server:
        model = {"type": "openai", "model": "m", "base_url": server.url}
        judged["metrics"]["judge"] = {**model, "rubrics": [str(rubric)]}
        run_experiment(judged)

        rubric.write_text(rubric.read_text().replace("1: does not address", "1: ignores"))
        work = stages(run_experiment(judged))
        assert fits(work, table["rubric text"]), work
