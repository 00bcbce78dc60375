"""Nuggets of a run: given in a file, or made of the pool; the same for every system."""

import json
import re

import pytest
import yaml

from ragbench.errors import ConfigError
from ragbench.experiment.runner import run_experiment
from tests.chat_server import ChatServer
from tests.chat_server.answers import Answer
from tests.commands import run_command
from tests.experiment.moons import QUERIES, write_jsonl
from tests.score.judge.scripted import Script

pytestmark = pytest.mark.slow  # seconds in all: real runs, models or processes

FIRST, *OTHERS = QUERIES


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "RAGBENCH_CACHE"):
        monkeypatch.delenv(name, raising=False)


def fenced(text, label):
    return re.findall(rf"<{label}-[0-9a-f]{{12}}>\n(.*?)\n</", text, re.DOTALL)


class Maker(Script):
    """Makes a nugget of each passage, its first word; the first one is vital."""

    def __call__(self, body, times_asked):
        text = body["messages"][1]["content"]
        properties = body["response_format"]["json_schema"]["schema"]["properties"]
        passages = fenced(text, r"passage-\d+")
        if passages:
            made = [passage.split()[0] for passage in passages]
            return Answer(json.dumps({"nuggets": [*fenced(text, r"nugget-\d+"), *made]}))
        if properties.get("nugget_1", {}).get("enum"):
            words = ["vital" if key == "nugget_1" else "okay" for key in properties]
            return Answer(json.dumps(dict(zip(properties, words, strict=True))))
        return super().__call__(body, times_asked)


@pytest.fixture
def server():
    with ChatServer(Maker(support=lambda n: "support" if n == 1 else "partial_support")) as server:
        yield server


def judged(config, server, **block):
    judge = {"type": "openai", "model": "m", "base_url": server.url, **block}
    return {**config, "metrics": {"generation": [], "judge": judge}}


def system(experiment, name):
    return next(each for each in experiment.summary["systems"] if each["name"] == name)


def test_given_nuggets(config, server, tmp_path):
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
    said = " ".join(experiment.summary["warnings"])
    assert f"{len(OTHERS)} of {len(QUERIES)} queries have no nuggets in the file" in said
    assert "their assignments are not read" in said
    kinds = [
        list(r.body["response_format"]["json_schema"]["schema"]["properties"])
        for r in server.received
    ]
    assert all(keys == ["nugget_1", "nugget_2"] for keys in kinds), "none are made"

    asked = len(server.received)
    again = run_experiment(judged(config, server, **block))
    assert len(server.received) == asked
    assert system(again, "bm25/extractive")["scores"] == scores

    nuggets[1]["importance"] = "vital"
    write_jsonl(tmp_path / "nuggets.jsonl", [{"qid": FIRST, "nuggets": nuggets}])
    edited = system(run_experiment(judged(config, server, **block)), "bm25/extractive")["scores"]
    assert edited["nugget_recall"]["mean"] == 0.5, "edited nuggets count at once"
    assert edited["nugget_recall"]["signature"] != scores["nugget_recall"]["signature"]


def test_nuggets_of_other_queries_are_a_mistake_and_some_of_them_a_note(config, server, tmp_path):
    nuggets = [{"text": "a", "importance": "vital"}]
    lines = [{"qid": name, "nuggets": nuggets} for name in ("topic-1", "topic-2")]
    write_jsonl(tmp_path / "nuggets.jsonl", lines)
    block = {"nuggets": str(tmp_path / "nuggets.jsonl"), "rubrics": ["nugget_recall"]}
    (tmp_path / "c.yaml").write_text(json.dumps(judged(config, server, **block)))

    refused = run_command("validate", "c.yaml", cwd=tmp_path)

    assert refused.returncode == 2
    assert "c.yaml:1:" in refused.stderr
    assert "metrics.judge.nuggets: none of its 2 queries, such as 'topic-1'" in refused.stderr
    assert f"such as '{next(iter(QUERIES))}'" in refused.stderr

    write_jsonl(tmp_path / "nuggets.jsonl", [*lines, {"qid": FIRST, "nuggets": nuggets}])
    noted = run_command("validate", "c.yaml", cwd=tmp_path)
    assert noted.returncode == 0, noted.stderr
    assert f"{len(OTHERS)} of {len(QUERIES)} queries have no nuggets in the file" in noted.stdout
    assert "2 of 3 queries of the file are not in the data set" in noted.stdout


def test_names_with_two_judges(config, server):
    judge = {"type": "openai", "model": "m", "base_url": server.url}
    judges = {
        "a": {**judge, "rubrics": ["nugget_recall(score=all)"]},
        "b": {**judge, "rubrics": ["fluency"]},
    }
    gate = {"measure": "nugget_recall(score=all,judge=a)", "min": 0.1}
    block = {"metrics": {"generation": [], "judge": judges}, "gates": [gate]}
    experiment = run_experiment({**config, **block})
    names = [name for name in system(experiment, "bm25/extractive")["scores"] if "judge" in name]
    assert names == ["nugget_recall(score=all,judge=a)", "fluency(judge=b)"]


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"rubrics": ["fluency"], "nuggets": "n.jsonl"}, "means nothing without a rubric over nug"),
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


@pytest.mark.slow
def test_nuggets_of_a_run_made_edited_and_used(config, server, tmp_path):
    (tmp_path / "moons.yaml").write_text(
        yaml.safe_dump(judged(config, server, rubrics=["fluency"])), "utf-8"
    )
    assert run_command("run", "moons.yaml", cwd=tmp_path).returncode == 0
    before = len(server.received)
    refused = run_command("nuggets", "runs/moons", "-o", "nuggets.jsonl", cwd=tmp_path)
    assert refused.returncode == 2
    assert f"would ask {server.url}, an address from the run folder" in refused.stderr
    assert len(server.received) == before, "nothing leaves for it"

    trusting = ("nuggets", "runs/moons", "--trust", server.url)
    made = run_command(*trusting, "-o", "nuggets.jsonl", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert re.match(r"nuggets: nuggets.jsonl: \d+ nuggets \(\d+ vital\) of \d+ quer", made.stdout)

    lines = [json.loads(line) for line in (tmp_path / "nuggets.jsonl").read_text().splitlines()]
    assert [line["qid"] for line in lines] == [*QUERIES]
    for line in lines:
        importances = [nugget["importance"] for nugget in line["nuggets"]]
        assert importances == ["vital"] + ["okay"] * (len(importances) - 1)
    pool = fenced(server.received[before].body["messages"][1]["content"], r"passage-\d+")
    assert len(pool) == len(set(pool)) > 1, "of both retrievers, each text once"

    again = run_command(*trusting, "-o", "nuggets.jsonl", cwd=tmp_path)
    assert again.returncode == 2
    assert "exists already" in again.stderr
    asked = len(server.received)
    again = run_command(*trusting, "-o", "second.jsonl", cwd=tmp_path)
    assert (tmp_path / "second.jsonl").read_text() == (tmp_path / "nuggets.jsonl").read_text()
    assert len(server.received) == asked, "replies are stored"

    block = {"rubrics": ["nugget_recall(score=all)"], "nuggets": str(tmp_path / "nuggets.jsonl")}
    (tmp_path / "moons.yaml").write_text(yaml.safe_dump(judged(config, server, **block)), "utf-8")
    ran = run_command("run", "moons.yaml", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "nugget_recall(score=all)" in ran.stdout


def test_a_run_without_a_judge_that_asks(config, tmp_path):
    (tmp_path / "moons.yaml").write_text(
        yaml.safe_dump({**config, "metrics": {"generation": []}}),
        "utf-8",
    )
    assert run_command("run", "moons.yaml", cwd=tmp_path).returncode == 0
    made = run_command("nuggets", "runs/moons", "-o", "nuggets.jsonl", cwd=tmp_path)
    assert made.returncode == 2
    assert "a run whose config has a judge that asks a model" in made.stderr
