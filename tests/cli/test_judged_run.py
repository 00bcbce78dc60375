"""`ragbench run` and `validate` with a judge on a server: replay, keys, what is said."""

import os

import pytest

from tests.chat_server import ChatServer
from tests.commands import run_command
from tests.messages import lines_with
from tests.score.judge.scripted import Script

CONFIG = """\
dataset: {{type: records, path: rows.jsonl}}
metrics:
  generation: []
  judge: {{type: openai, model: m, rubrics: [answer_relevancy], {more}}}
"""
ROWS = """\
{"question": "When did it open?", "answer": "It opened in 1932.", "reference": "1932"}
{"question": "What colour is it?", "answer": "Green.", "reference": "red"}
"""


@pytest.fixture
def ragbench(tmp_path):
    """Run a command on two records, in an environment without a key; returns what it printed."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("OPENAI")
    }
    columns = "columns: {question: question, answer: answer, reference: reference}"
    (tmp_path / "rows.jsonl").write_text(ROWS)

    def run(name, *arguments, more=""):
        text = CONFIG.format(more=more).replace("rows.jsonl", f"rows.jsonl, {columns}")
        (tmp_path / "exp.yaml").write_text(text)
        return run_command(name, "exp.yaml", *arguments, cwd=tmp_path, env=environment)

    return run


@pytest.mark.costly
def test_judged_then_replayed(ragbench, assert_message):
    with ChatServer(Script(), model="m-2024") as server:
        more = f"base_url: '{server.url}'"
        done = ragbench("run", more=more)
        assert done.returncode == 0, done.stderr
        sent = server.counters.requests
    replayed = ragbench("run", "--judge-replay", more=more)
    missing = ragbench("run", "--judge-replay", more=f"{more}, temperature: 0.5")

    assert sent == 2
    assert "answer_relevancy" in done.stdout
    assert_message(lines_with(done.stdout, "m-2024: a language model"))
    assert replayed.returncode == 0, replayed.stderr
    assert missing.returncode == 2
    assert "no reply from 'm' to" in missing.stderr
    assert "Traceback" not in missing.stderr


@pytest.mark.parametrize("command", ["run", "validate", "plan"])
def test_a_missing_key_ends_each_command_unless_the_judge_is_left_out(
    ragbench, command, assert_message
):
    done, without = ragbench(command), ragbench(command, "--no-judge")

    assert done.returncode == 2
    place = "exp.yaml:4:3: metrics.judge.api_key_env: found 'OPENAI_API_KEY', which is not set"
    assert place in done.stderr
    assert_message(lines_with(done.stderr, "`when: available` in its"))
    assert without.returncode == 0, without.stderr


def test_a_judge_that_runs_only_where_it_can(ragbench, assert_message):
    more = "when: available"
    run, validate = ragbench("run", more=more), ragbench("validate", more=more)

    assert run.returncode == 0, run.stderr
    sentence = "judge openai was skipped: OPENAI_API_KEY is not set (when: available)"
    assert sentence in run.stdout + run.stderr
    assert_message(lines_with(validate.stdout, "openai' would be skipped"))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("models: [a]", "metrics.judge.models: found ['a']\n"),
        ("combine: sum", "metrics.judge.combine: unknown value 'sum'"),
        ("prices: absent.yaml", "metrics.judge.prices: no such file: absent.yaml"),
        ("repeat: 0", "metrics.judge.repeat: 0 is out of range"),
        ("extra: 3", "metrics.judge.extra: 3 is not a mapping"),
        ("modell: x", "did you mean 'model'"),
        ("base_url: 'ftp://x'", "metrics.judge.base_url: found 'ftp://x'\n"),
    ],
)
def test_mistakes_in_the_block(ragbench, more, message):
    done = ragbench("validate", more=more)

    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_replay_without_a_judge_is_bad_usage(ragbench, assert_message):
    done = ragbench("run", "--no-judge", "--judge-replay")

    assert done.returncode == 2
    assert_message(done.stderr)
