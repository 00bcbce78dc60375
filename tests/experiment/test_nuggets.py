"""Nuggets of a run, given in a file: the same for every system."""

import json
import re

import pytest

from ragbench.errors import ConfigError
from ragbench.experiment.runner import run_experiment
from tests.chat_server import ChatServer
from tests.commands import run_command
from tests.experiment.moons import FEW_SCORES, QUERIES, write_jsonl
from tests.score.judge.scripted import Script

pytestmark = pytest.mark.slow  # seconds in all: real runs, models or processes

FIRST, *LATER_QUERIES = QUERIES


@pytest.fixture
def config(config):
    """The config with one retriever: what is tested needs no second one."""
    del config["retrievers"]["exact"]
    return config


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "RAGBENCH_CACHE"):
        monkeypatch.delenv(name, raising=False)


def fenced(text, label):
    return re.findall(rf"<{label}-[0-9a-f]{{12}}>\n(.*?)\n</", text, re.DOTALL)


@pytest.fixture
def server():
    with ChatServer(Script(support=lambda n: "support" if n == 1 else "partial_support")) as server:
        yield server


def judged(config, server, **block):
    judge = {"type": "openai", "model": "m", "base_url": server.url, **block}
    return {**config, "metrics": {**FEW_SCORES, "judge": judge}}


def system(experiment, name):
    return next(entry for entry in experiment.summary["systems"] if entry["name"] == name)


def test_given_nuggets(config, server, tmp_path, assert_message):
    nuggets = [
        {"text": "a", "importance": "vital", "assignment": "not_support"},
        {"text": "b", "importance": "okay"},
    ]
    write_jsonl(tmp_path / "nuggets.jsonl", [{"qid": FIRST, "query": "?", "nuggets": nuggets}])
    rubrics = ["nugget_recall", "nugget_recall(score=weighted)"]
    block = {"nuggets": str(tmp_path / "nuggets.jsonl"), "rubrics": rubrics}
    experiment = run_experiment(judged(config, server, **block))

    scores = system(experiment, "bm25/extractive")["scores"]
    assert scores["nugget_recall"]["mean"] == 1.0
    assert scores["nugget_recall(score=weighted)"]["mean"] == pytest.approx(1.25 / 1.5)
    assert scores["nugget_recall"]["n"] == 1
    assert "|nuggets:" in scores["nugget_recall"]["signature"]
    assert "|gold:" not in scores["nugget_recall"]["signature"]
    warnings = " ".join(experiment.summary["warnings"])
    assert_message(warnings)
    kinds = [
        list(r.body["response_format"]["json_schema"]["schema"]["properties"])
        for r in server.received
    ]
    assert all(keys == ["nugget_1", "nugget_2"] for keys in kinds), "none are made"

    n_requests = len(server.received)
    again = run_experiment(judged(config, server, **block))
    assert len(server.received) == n_requests
    assert system(again, "bm25/extractive")["scores"] == scores

    nuggets[1]["importance"] = "vital"
    write_jsonl(tmp_path / "nuggets.jsonl", [{"qid": FIRST, "nuggets": nuggets}])
    edited = system(run_experiment(judged(config, server, **block)), "bm25/extractive")["scores"]
    assert edited["nugget_recall"]["mean"] == 0.5, "edited nuggets count at once"
    assert edited["nugget_recall"]["signature"] != scores["nugget_recall"]["signature"]


def test_nuggets_of_other_queries_are_a_mistake_and_some_of_them_a_note(
    config, server, tmp_path, assert_message
):
    nuggets = [{"text": "a", "importance": "vital"}]
    lines = [{"qid": name, "nuggets": nuggets} for name in ("topic-1", "topic-2")]
    write_jsonl(tmp_path / "nuggets.jsonl", lines)
    block = {"nuggets": str(tmp_path / "nuggets.jsonl"), "rubrics": ["nugget_recall"]}
    (tmp_path / "c.yaml").write_text(json.dumps(judged(config, server, **block)))

    refused = run_command("validate", "c.yaml", cwd=tmp_path)

    assert refused.returncode == 2
    assert "c.yaml:1:" in refused.stderr
    assert "metrics.judge.nuggets: none of its 2 queries has nuggets" in refused.stderr
    assert f"such as '{next(iter(QUERIES))}'" in refused.stderr

    write_jsonl(tmp_path / "nuggets.jsonl", [*lines, {"qid": FIRST, "nuggets": nuggets}])
    noted = run_command("validate", "c.yaml", cwd=tmp_path)
    assert noted.returncode == 0, noted.stderr
    assert_message(noted.stdout)


def test_names_with_two_judges(config, server):
    judge = {"type": "openai", "model": "m", "base_url": server.url}
    judges = {
        "a": {**judge, "rubrics": ["nugget_recall(score=all)"]},
        "b": {**judge, "rubrics": ["fluency"]},
    }
    gate = {"measure": "nugget_recall(score=all,judge=a)", "min": 0.1}
    block = {"metrics": {**FEW_SCORES, "judge": judges}, "gates": [gate]}
    experiment = run_experiment({**config, **block})
    names = [name for name in system(experiment, "bm25/extractive")["scores"] if "judge" in name]
    assert names == ["nugget_recall(score=all,judge=a)", "fluency(judge=b)"]


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"rubrics": ["fluency"], "nuggets": "n.jsonl"}, "has no effect without a rubric over nug"),
        ({"rubrics": ["nugget_recall"], "nuggets": "gone.jsonl"}, "gone.jsonl"),
        ({"rubrics": ["nugget_recall(score=al)"]}, "score: 'al'"),
        ({"rubrics": ["nugget_recall", "nugget_recall(score=strict_vital)"]}, "a second score"),
    ],
)
def test_mistakes_in_a_config(config, server, tmp_path, block, message):
    write_jsonl(tmp_path / "n.jsonl", [{"qid": FIRST, "nuggets": []}])
    with pytest.raises(ConfigError) as raised:
        run_experiment(judged(config, server, **block))
    assert message in str(raised.value)
