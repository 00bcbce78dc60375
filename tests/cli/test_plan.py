"""`ragbench plan`: what is stored, what is to do, and that nothing is sent or written."""

import json
from pathlib import Path

import pytest
import yaml

from tests.chat_server import ChatServer
from tests.score.judge.scripted import Script

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

ROWS = """\
{"question": "When did it open?", "answer": "It opened in 1932.", "reference": "1932"}
{"question": "What colour is it?", "answer": "Green.", "reference": "red"}
"""


def test_the_quickstart_before_and_after_a_run(quickstart, finished_quickstart, golden):
    unfinished = quickstart("plan", "CONFIG")[1]
    assert not Path("cache").exists()
    assert not Path("runs").exists()
    finished_quickstart.copy_to(Path())
    after = quickstart("plan", "CONFIG")[1]
    edited = quickstart("plan", "CONFIG", "--set", "retrievers.exact.b=0.1")[1]

    golden("plan.txt", f"{unfinished}\n{after}\n{edited}")


def test_json(quickstart):
    code, text, _ = quickstart("plan", "CONFIG", "--json", "--limit", "5")

    plan = json.loads(text)
    assert code == 0
    assert plan["queries"] == 5
    assert plan["stages"][0]["stage"] == "retrieve bm25"
    assert plan["cost"]["calls"] == [0, 0]


@pytest.mark.parametrize("rubrics", [["answer_relevancy"], ["faithfulness", "answer_relevancy"]])
def test_calls_are_those_that_a_run_sends(quickstart, monkeypatch, rubrics):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    Path("rows.jsonl").write_text(ROWS, encoding="utf-8")
    columns = {"question": "question", "answer": "answer", "reference": "reference"}
    with ChatServer(Script(), model="m") as server:
        judge = {"type": "openai", "model": "m", "base_url": server.url, "rubrics": rubrics}
        dataset = {"type": "records", "path": "rows.jsonl", "columns": columns}
        config = {"dataset": dataset, "metrics": {"generation": [], "judge": judge}}
        Path("exp.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")

        code, text, problems = quickstart("plan", "exp.yaml", "--json")
        assert code == 0, problems
        assert server.counters.requests == 0, "nothing is sent"
        low, high = json.loads(text)["cost"]["calls"]
        assert quickstart("run", "exp.yaml", "--quiet")[0] == 0

        assert low <= server.counters.requests <= high
        if rubrics == ["answer_relevancy"]:
            assert low == high == 2
        again = json.loads(quickstart("plan", "exp.yaml", "--json")[1])
        assert again["cost"]["calls"] == [0, 0]
