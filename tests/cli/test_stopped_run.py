"""Early stopping through the real command: retries, replays, budgets, baselines."""

import json
import os
import re
import shutil

import pytest

from ragbench.data.runs.baseline import read_baseline
from ragbench.errors import DataError
from tests.chat_server import Answer, ChatServer
from tests.commands import run_command
from tests.experiment.test_early_stopping import QUERIES, level
from tests.score.judge.scripted import Script, said

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

CONFIG = """\
name: early
dataset: {{type: records, path: records.jsonl}}
metrics:
  generation: []
  judge: {{type: openai, model: m, base_url: '{url}', rubrics: [answer_relevancy], retries: 0,
          concurrency: 16, {judge}}}
statistics: {{resamples: 1000}}
max_failed: 0.5
{more}
"""


class Failing(Script):
    """A server that fails for every third question, until it is repaired."""

    is_broken = False

    def __call__(self, body, times_asked):
        number = int(re.search(r"question (\d+)", said(body)).group(1))
        if self.is_broken and number % 3 == 0:
            return Answer("out of order", status=500)
        return super().__call__(body, times_asked)


@pytest.fixture(scope="module")
def script():
    return Failing(level=level)


@pytest.fixture(scope="module")
def server(script):
    with ChatServer(script, model="m") as server:
        yield server


def commands_in(folder, server):
    """What runs a command where the records are, in an environment without a key."""
    rows = [
        {"id": f"q{i}", "question": f"question {i}", "answer": f"{word} answer {i}", "system": name}
        for name, word in (("first", "good"), ("second", "bad"))
        for i in range(QUERIES)
    ]
    (folder / "records.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENAI")}
    environment["RAGBENCH_CACHE"] = str(folder / "cache")

    def ragbench(name, *arguments, more="", judge="stop_when: decided"):
        text = CONFIG.format(url=server.url, judge=judge, more=more)
        (folder / "e.yaml").write_text(text)
        config = ["e.yaml"] if name == "run" else []
        return run_command(name, *config, *arguments, cwd=folder, env=environment)

    return ragbench


@pytest.fixture
def ragbench(tmp_path, server):
    return commands_in(tmp_path, server)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory, server):
    """The folder of a run that stopped, with its cache."""
    folder = tmp_path_factory.mktemp("stopped")
    done = commands_in(folder, server)("run")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def after_run(stopped, tmp_path, ragbench):
    """The test's folder as that run leaves it, and what runs commands in it."""
    shutil.copytree(stopped, tmp_path, symlinks=True, dirs_exist_ok=True)
    return ragbench


@pytest.fixture
def summary(tmp_path):
    """The newest summary, when it is asked for."""
    return lambda: json.loads((tmp_path / "runs/early/latest/summary.json").read_text())


def test_what_failed_is_asked_again_within_the_looks_alone(ragbench, server, script, summary):
    before = server.counters.requests
    script.is_broken = True
    failed = ragbench("run")
    asked = server.counters.requests - before
    script.is_broken = False
    kept = ragbench("run")
    asked_again = server.counters.requests - before
    retried = ragbench("run", "--retry-failed")

    assert (failed.returncode, kept.returncode, retried.returncode) == (0, 0, 0), retried.stderr
    assert asked == asked_again == 2 * 40
    n_failed = int(re.search(r"(\d+) of 40 verdicts on answer_relevancy failed", failed.stdout)[1])
    assert server.counters.requests - before == asked + 2 * n_failed
    found = summary()["systems"][1]["scores"]["answer_relevancy"]
    assert (found["n"], found["failed"], found["not_judged"]) == (40, {}, 60)


def test_a_replay_stops_where_the_run_did_and_asks_nobody(after_run, server, summary):
    first, asked = summary(), server.counters.requests
    done = after_run("run", "--judge-replay")

    assert done.returncode == 0, done.stderr
    assert server.counters.requests == asked
    again = summary()
    assert [s["scores"] for s in again["systems"]] == [s["scores"] for s in first["systems"]]


def test_a_replay_that_needs_more_looks_is_refused(after_run, server):
    asked = server.counters.requests
    gate = "gates: [{measure: answer_relevancy, max_queries_worse: 100}]"
    done = after_run("run", "--judge-replay", more=gate)

    assert done.returncode == 2
    assert "replay needs every reply" in done.stderr
    assert server.counters.requests == asked


def test_a_budget_that_ends_the_looks_says_so(after_run, summary, tmp_path):
    used = summary()["systems"][0]["judging"]["openai"]["tokens"]
    a_query = 2 * (used["input"] + used["output"]) / 40
    shutil.rmtree(tmp_path / "cache")
    done = after_run("run", more=f"budget: {{tokens: {int(25 * a_query)}}}")

    assert done.returncode == 3, done.stderr
    early = summary()["early_stopping"]["openai"]
    assert not early["stopped"]
    assert early["judged"] + early["over_budget"] == QUERIES
    assert 0 < early["judged"] < 40
    assert f"judged {early['judged']} of 100 queries, which the budget ended" in done.stdout
    assert f"{early['judged']} of 100 queries judged, which the budget ended" in done.stdout
    assert "judged all" not in done.stdout + done.stderr

    finished = after_run("run")
    assert finished.returncode == 0, finished.stderr
    assert summary()["early_stopping"]["openai"]["judged"] == 40


@pytest.mark.parametrize("bets", ["", ", always_valid: true"], ids=["looks", "bets"])
def test_a_baseline_of_what_stopped_keeps_the_adjusted_interval(ragbench, tmp_path, bets):
    """What is compared with the file has the interval of the look, as with the folder."""
    ragbench("run", judge=f"stop_when: decided{bets}")
    stopped = (tmp_path / "runs/early/latest").resolve()
    ragbench("baseline", "runs/early", "-o", "main.json")
    ragbench("run", judge="")  # all queries, from the folder below
    whole = str((tmp_path / "runs/early/latest").resolve())
    shown = [
        json.loads(ragbench("compare", base, whole, "--format", "json").stdout)
        for base in ("main.json", str(stopped))
    ]
    alone = [
        json.loads(ragbench("compare", base, "--format", "json").stdout)["measures"][0]
        for base in ("main.json", str(stopped))
    ]

    assert shown[0]["measures"][0]["comparisons"][0]["early"]["judged"] < QUERIES
    [note] = shown[0]["notes"]
    assert re.match(
        r"main\.json: answer_relevancy stopped early, \d+ of 100 queries; its int", note
    )
    assert shown[0]["measures"] == relabelled(shown[1], shown[0])
    assert alone[0]["comparisons"] == alone[1]["comparisons"]
    assert alone[0]["comparisons"][0]["early"]["stopped"]
    score = read_baseline(tmp_path / "main.json").systems[0].scores["answer_relevancy"]
    assert score.early.seed == 13
    assert list(score.early.sizes) == [20, 40, 60, 80, 100]


def relabelled(found, like):
    """The measures of one comparison with the names that the other gives its rows."""
    names = {
        mine["name"]: theirs["name"]
        for mine, theirs in zip(found["systems"], like["systems"], strict=True)
    }
    text = json.dumps(found["measures"])
    for mine, theirs in names.items():
        text = text.replace(json.dumps(mine), json.dumps(theirs))
    return json.loads(text)


def test_a_damaged_look_is_named(after_run, tmp_path):
    after_run("baseline", "runs/early", "-o", "main.json")
    right = (tmp_path / "main.json").read_text()
    for edit, message in (
        ({"look": 9}, "look is 9; allowed: 1 to 5"),
        ({"sizes": [40, 20]}, "sizes is [40, 20]"),
        ({"judged": 0}, "judged is 0"),
        ({"stopped": "yes"}, "'stopped' is text"),
    ):
        content = json.loads(right)
        content["systems"]["first"]["scores"]["answer_relevancy"]["early"].update(edit)
        (tmp_path / "main.json").write_text(json.dumps(content))

        with pytest.raises(DataError) as raised:
            read_baseline(tmp_path / "main.json")

        assert message in str(raised.value)
