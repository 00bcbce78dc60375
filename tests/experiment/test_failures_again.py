"""Failures of an earlier run: which ones the same command tries again, and what it says of others.

Each test runs the command over HTTP on loopback, with a server that fails first and works later.
"""

import json
import socket

import pytest
import yaml

from ragbench.experiment.result import Experiment
from ragbench.experiment.runner import run_experiment
from ragbench.records.manifest import Choices
from tests.chat_server import Answer, ChatServer
from tests.commands import run_command
from tests.messages import lines_with
from tests.score.judge.scripted import Script, kind_of

pytestmark = pytest.mark.slow  # seconds in all: real runs and servers

GOOD = '{"reasoning": "r", "level": 5}'
ROWS = [
    {
        "question": f"What is {name}?",
        "answer": f"{name} is a moon.",
        "contexts": [f"{name} orbits."],
    }
    for name in ("Io", "Europa", "Titan")
]


@pytest.fixture
def command(tmp_path):
    """Run `ragbench COMMAND exp.yaml` with a judge at a port; return exit code, stdout, stderr."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    columns = {"question": "question", "answer": "answer", "contexts": "contexts"}

    def run(name, port, *options, **more):
        judge = {"type": "openai", "model": "m", "base_url": f"http://127.0.0.1:{port}/v1"}
        judge |= {"rubrics": ["fluency"], "retries": 0, "concurrency": 1, **more}
        dataset = {"type": "records", "path": "rows.jsonl", "columns": columns}
        config = {"dataset": dataset, "metrics": {"generation": [], "judge": judge}}
        (tmp_path / "exp.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        environment = {"RAGBENCH_CACHE": str(tmp_path / "cache"), "PATH": "", "HOME": str(tmp_path)}
        done = run_command(name, "exp.yaml", *options, cwd=tmp_path, env=environment)
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture
def port():
    """A port of this machine on which no program listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def failed(stdout, score="fluency"):
    """Return cause -> count of the failed verdicts in `summary.json`."""
    [system] = json.loads(stdout)["systems"]
    return system["scores"][score]["failed"]


def test_a_refused_connection_is_tried_again_by_the_same_command(command, port):
    code, stdout, _ = command("run", port, "--json")
    assert (code, failed(stdout)) == (7, {"server_error": 3})

    with ChatServer(GOOD, model="m", port=port) as server:
        _, plan, _ = command("plan", port)
        assert "3 verdicts to do" in plan
        assert "kept" not in plan
        code, stdout, stderr = command("run", port, "--json")
        assert (code, failed(stdout), server.counters.requests) == (0, {}, 3)
        assert "kept" not in stderr
        command("run", port, "--json")
        assert server.counters.requests == 3


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (Answer("out of order", status=500), "server_error"),
        (Answer(GOOD, delay_s=30), "timeout"),
    ],
    ids=["500", "timeout"],
)
def test_only_the_failed_item_is_tried_again(command, answer, cause):
    broken = [True]

    def script(body, times_asked):
        return answer if broken and "Europa is" in str(body["messages"]) else GOOD

    with ChatServer(script, model="m") as server:
        limit = {"timeout": 0.2} if cause == "timeout" else {}
        assert failed(command("run", server._port, "--json", **limit)[1]) == {cause: 1}
        stdout = command("run", server._port, "--json", **limit)[1]
        assert failed(stdout) == {cause: 1}
        [warning] = lines_with(json.loads(stdout)["warnings"], "verdicts on")
        assert warning.endswith("; the same command asks again")
        broken.clear()
        sent = server.counters.requests
        code, stdout, _ = command("run", server._port, "--json", **limit)

    assert (code, failed(stdout)) == (0, {})
    assert (sent, server.counters.requests) == (4, 5), "three calls, then one for each further run"


def test_other_failures_are_counted_in_a_line_that_names_the_option(command, tmp_path):
    # The model refuses one text and writes no JSON for another.
    broken = [True]

    def script(body, times_asked):
        text = str(body["messages"])
        if broken and "Io is" in text:
            return Answer("", refusal="I will not.")
        return Answer("no JSON") if broken and "Europa is" in text else GOOD

    line = (
        "warning: kept 2 failures of an earlier run (refused 1, unreadable 1); "
        "--retry-failed tries them again\n"
    )
    with ChatServer(script, model="m") as server:
        _, stdout, stderr = command("run", server._port, "--json")
        assert failed(stdout) == {"refused": 1, "unreadable": 1}
        [warning] = lines_with(json.loads(stdout)["warnings"], "verdicts on")
        assert warning.endswith("; --retry-failed asks again")
        assert "--retry-failed" not in stderr, "they failed in this run"
        broken.clear()
        sent = server.counters.requests
        code, again, stderr = command("run", server._port, "--json", "--quiet")
        assert (code, failed(again)) == (3, failed(stdout))
        assert stderr == line
        assert line in command("plan", server._port)[1]
        record = json.loads(command("plan", server._port, "--json")[1])
        assert record["kept_failures"] == {"refused": 1, "unreadable": 1}
        assert server.counters.requests == sent
        latest = tmp_path / "runs" / "exp" / "latest"
        failures = Experiment(latest, record=None, compared=None).kept_failures
        assert failures == {"refused": 1, "unreadable": 1}

        assert "2 of 3 verdicts to do" in command("plan", server._port, "--retry-failed")[1]
        code, stdout, stderr = command("run", server._port, "--json", "--quiet", "--retry-failed")

    assert (code, failed(stdout), stderr) == (0, {}, "")


def test_good_replies_of_a_failed_verdict_are_not_paid_for_again(command):
    # Claims are split in one call and checked in the next, which fails first.
    broken, good = [True], Script()

    def script(body, times_asked):
        if broken and kind_of(body) == "claim":
            return Answer("out of order", status=500)
        return good(body, times_asked)

    with ChatServer(script, model="m") as server:
        options = {"rubrics": ["faithfulness"]}
        stdout = command("run", server._port, "--json", **options)[1]
        assert failed(stdout, "faithfulness") == {"server_error": 3}
        assert server.counters.requests == 6
        broken.clear()
        code, stdout, stderr = command("run", server._port, "--json", **options)

    assert (code, failed(stdout, "faithfulness")) == (0, {}), stderr
    assert server.counters.requests == 9


def test_within_a_run_nothing_is_tried_twice(command):
    # A budget goes through the queries in rounds, each of which looks at what is stored.
    with ChatServer(Answer("out of order", status=500), model="m") as server:
        code, stdout, _ = command("run", server._port, "--json", "--set", "budget.tokens=1000000")
        assert (code, failed(stdout)) == (3, {"server_error": 3})
        assert server.counters.requests == 3
        command("run", server._port, "--set", "budget.tokens=1000000")
        assert server.counters.requests == 6


def test_a_replay_tries_nothing_again(config):
    # A replay sends nothing, and failed answers have no stored reply.
    with ChatServer(Answer("out of order", status=500), model="m") as server:
        gpt = {"type": "openai", "model": "m", "base_url": server.url, "retries": 0}
        run = {**config, "generators": {"gpt": gpt}, "metrics": {"generation": ["rouge1"]}}
        run_experiment(run)
        sent = server.counters.requests
        replayed = run_experiment(run, choices=Choices(judge_replay=True))
        assert replayed.kept_failures == {"server_error": sent}
        assert server.counters.requests == sent


APP = """
import json, os, urllib.request

def answer(question):
    address = f"http://127.0.0.1:{os.environ['APP_PORT']}/v1/models"
    with urllib.request.urlopen(address, timeout=10) as reply:
        return json.loads(reply.read())["data"][0]["id"]
"""


def test_an_app_whose_service_was_down_is_asked_again(config, port, tmp_path, monkeypatch):
    # Its client raises URLError, which wraps the refused connection.
    (tmp_path / "service_app.py").write_text(APP, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("APP_PORT", str(port))
    app = {"type": "python:service_app:answer", "version": "v1"}
    config = {**config, "retrievers": {}, "generators": {}, "apps": {"mine": app}}
    down = run_experiment(config)
    with ChatServer(model="m", port=port):
        up = run_experiment(config)

    causes = {row.why for row in down.causes["mine"].values()}
    assert (down.exit_code, up.exit_code) == (7, 0), causes
    assert all("server_error" in why for why in causes)
    assert up.kept_failures == {}
