"""The example of docs/traces.md, and runs over conversations, by a real client."""

import json
import os
import re

import pytest
import yaml

import ragbench as rb
from tests.chat_server import ChatServer
from tests.commands import run_command
from tests.messages import lines_with
from tests.notebook import run_cell
from tests.score.judge.test_conversation import ConversationScript
from tests.test_docs import blocks


@pytest.fixture
def example(repository, tmp_path):
    """The page's record and config in a folder."""
    page = (repository / "docs/traces.md").read_text(encoding="utf-8")
    page = page.partition("## Conversations and tool calls")[2].partition("\n## ")[0]
    (record,), (config,), (code,) = (blocks(page, kind) for kind in ("json", "yaml", "python"))
    (tmp_path / "talks.jsonl").write_text(json.dumps(json.loads(record)) + "\n")
    (tmp_path / "talks.yaml").write_text(config)
    return tmp_path, config, code


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def run(example, monkeypatch):
    """Run a config on one server for all runs; returns the experiment and the requests it took."""
    scripts, folder = [], example[0]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-judge")
    with ChatServer(lambda body, times: scripts[-1](body, times)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)

        def go(config, script):
            scripts.append(script)
            n_before = server.counters.requests
            places = {
                "output": str(folder / "runs"),
                "dataset.path": str(folder / "talks.jsonl"),
            }
            experiment = rb.run_experiment(yaml.safe_load(config), places)
            return experiment, server.counters.requests - n_before

        yield go


@pytest.mark.costly
def test_the_example_is_scored_by_yaml(example, run, assert_message):
    config = example[1]
    script = ConversationScript(
        ("the weather", "a restaurant"), {"turn_1": ["vegetarian"]}, ("intention_2",)
    )
    experiment, requests = run(config, script)

    (system,) = experiment.summary["systems"]
    means = {name: round(score["mean"], 3) for name, score in system["scores"].items()}
    # without a gold answer, a judge found the answers supported by what they read
    assert means == {
        "right": 1.0,
        "tool_call_correctness": 0.667,
        "tool_call_f1": 0.0,
        "tool_call_accuracy": 0.667,
        # Verde by a passage, Douro by one of an earlier turn, booked by a tool
        "faithfulness": 1.0,
        "conversation_completeness": 0.5,
        "knowledge_retention": 1.0,
    }
    (row,) = read_lines(experiment.path / "predictions" / "given.jsonl")
    assert_message(row["queries"])
    assert row["tool_calls"] == [
        {
            "name": "book",
            "arguments": {"place": "Casa Verde", "day": "4 May"},
            "output": "booked",
        }
    ]
    # a second run asks nothing
    _, again = run(config, script)
    assert requests > 5
    assert again == 0


def test_the_python_code_gives_what_it_says(example):
    names = {}
    run_cell(example[2], "traces.md", names)
    assert (round(names["part"], 3), names["named"], names["f1"]) == (0.667, 1.0, 0.0)
    assert names["verdict"].score == 1.0


def test_validate_shows_the_reading(example, assert_message):
    done = run_command("validate", "talks.yaml", cwd=example[0], env={"OPENAI_API_KEY": "x"})
    assert done.returncode == 0, done.stderr
    assert_message(lines_with(done.stdout, "= expected_tool_calls"))


def test_gold_calls_are_scored_by_default_and_never_dropped(example, run, assert_message):
    folder, config, _ = example
    plain = yaml.safe_load(config) | {"metrics": {"judge": {"type": "python:tests.words:Words"}}}
    experiment, _ = run(yaml.safe_dump(plain), ConversationScript())
    scores = experiment.summary["systems"][0]["scores"]
    assert {"tool_call_correctness", "tool_call_f1"} <= set(scores)

    row = json.loads((folder / "talks.jsonl").read_text())
    del row["expected_tool_calls"]
    (folder / "talks.jsonl").write_text(json.dumps(row))
    with pytest.raises(rb.DataError) as error:
        run(config, ConversationScript())
    assert_message(error.value, "metrics.generation")


@pytest.mark.costly
def test_another_turn_or_call_is_judged_anew(example, run):
    folder, config, _ = example
    _, first = run(config, ConversationScript())
    row = json.loads((folder / "talks.jsonl").read_text())
    row["tool_calls"][0]["output"] = "the place is full"
    (folder / "talks.jsonl").write_text(json.dumps(row))
    experiment, second = run(config, ConversationScript())
    assert 0 < second < first
    faithful = experiment.summary["systems"][0]["scores"]["faithfulness"]["mean"]
    assert faithful == 2 / 3


@pytest.mark.costly
def test_a_judge_that_is_asked_again_sees_the_turns_and_the_calls(example, run, monkeypatch):
    # Prompts of the run are answered from its store: they are the same to the letter.
    folder, config, _ = example
    monkeypatch.setenv("RAGBENCH_CACHE", str(folder / "cache"))
    script = ConversationScript(
        ("the weather", "a restaurant"), {"turn_1": ["vegetarian"]}, ("intention_2",)
    )
    row = json.loads((folder / "talks.jsonl").read_text())
    row["contexts"] = ["Casa Verde is vegetarian.", "Porto lies on the Douro."]
    (folder / "talks.jsonl").write_text(json.dumps(row))
    experiment, _ = run(config, script)
    address = os.environ["OPENAI_BASE_URL"]

    done = run_command(
        *("calibrate", str(experiment.path), "--probe", "position", "--trust", address),
        *("-o", str(folder / "probes.json")),
        cwd=folder,
    )

    assert done.returncode == 0, done.stderr
    rubrics = json.loads((folder / "probes.json").read_text())["rubrics"]
    assert {"conversation_completeness", "knowledge_retention"} <= rubrics.keys()
    assert rubrics["faithfulness"]["probes"]["position"]["n"] == 1, rubrics["faithfulness"]
    ((sent, stored),) = re.findall(r"(\d+) calls, (\d+) replies from the store", done.stderr)
    assert int(stored) >= int(sent) > 0, "the first order was asked in the run"


def test_apps_return_tool_calls_and_secrets_stay_out(example):
    # The value of a variable that a tool returned reaches no file.
    folder, _, _ = example
    (folder / "agent.py").write_text(
        "def answer(question):\n"
        "    call = {'name': 'book', 'arguments': {'place': 'Casa Verde', 'key': 'sk-of-the-tool'},"
        " 'output': {'token': 'sk-of-the-tool'}}\n"
        "    return {'answer': 'Done.', 'contexts': [], 'tool_calls': [call]}\n"
    )
    (folder / "app.yaml").write_text(
        "dataset: {type: records, path: talks.jsonl}\n"
        "apps: {agent: {type: 'python:agent:answer', key: '${TOOL_API_KEY}'}}\n"
        "metrics:\n  generation: [tool_call_correctness, tool_call_f1]\n"
        "  judge: {type: python:tests.words:Words}\n"
    )
    code = (folder / "agent.py").read_text().replace("(question)", "(question, key)")
    (folder / "agent.py").write_text(code)
    done = run_command("run", "app.yaml", cwd=folder, env={"TOOL_API_KEY": "sk-of-the-tool"})
    assert done.returncode == 0, done.stderr
    latest = folder / "runs" / "app" / "latest"
    (row,) = read_lines(latest / "predictions" / "agent.jsonl")
    assert row["tool_calls"][0]["name"] == "book"
    assert row["tool_calls"][0]["arguments"]["place"] == "Casa Verde"
    for path in latest.rglob("*"):
        assert path.is_dir() or "sk-of-the-tool" not in path.read_text(encoding="utf-8"), path


def test_chat_models_get_the_turns_as_messages(example, run, assert_message):
    folder, _, _ = example
    config = (
        "dataset: {type: records, path: talks.jsonl}\n"
        "retrievers: {bm25: {type: bm25}}\n"
        "generators: {gpt: {type: openai, model: m, base_url: '${OPENAI_BASE_URL}'}}\n"
        "metrics: {generation: [], judge: {type: python:tests.words:context_overlap}}\n"
    )
    (folder / "corpus.jsonl").write_text('{"_id": "d1", "text": "Casa Verde is vegetarian."}\n')
    parsed = yaml.safe_load(config)
    parsed["dataset"]["corpus"] = str(folder / "corpus.jsonl")
    chats = []

    def script(body, times_asked):
        chats.append(body["messages"])
        return "Casa Verde."

    run(yaml.safe_dump(parsed), script)
    roles = [message["role"] for message in chats[0]]
    assert roles == ["system", "user", "assistant", "user", "assistant", "user"]
    assert_message(chats[0][2]["content"])
    assert_message(chats[0][-1]["content"])
