"""`ragbench plan`: what is stored, what is to do, and that nothing is sent or written."""

import json
from pathlib import Path

import pytest
import yaml

from ragbench import testing
from tests.chat_server import ChatServer
from tests.messages import lines_with
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


PRICES = """\
models:
  m: {input: 2.5, output: 10}
  n: {input: 1, output: 4}
"""


def priced_config(address, **judges):
    """Return a config of two systems with 12 answers each, of which they share 8."""
    rows = []
    for n in range(12):
        for system, end in (("old", "moons"), ("new", "moons" if n < 8 else "stars")):
            answer = f"It is {n} {end}."
            rows.append({"question": f"What is {n}?", "system": system, "answer": answer})
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    Path("prices.yaml").write_text(PRICES, encoding="utf-8")
    common = {"type": "openai", "base_url": address, "prices": "prices.yaml"}
    blocks = {name: {**common, **judge} for name, judge in judges.items()}
    dataset = {"type": "records", "path": "rows.jsonl"}
    return {"dataset": dataset, "metrics": {"generation": [], "judge": blocks}}


def last_cost(name):
    """Return `cost` of the newest run of an experiment."""
    folder = max(path for path in Path("runs", name).iterdir() if path.is_dir())
    return json.loads((folder / "summary.json").read_text())["cost"]


def test_equal_prompts_count_once_and_the_bill_is_within_its_range(quickstart, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with ChatServer(Script(), model="m") as server:
        config = priced_config(
            server.url,
            single={"model": "m", "rubrics": ["fluency", "answer_relevancy"]},
            jury={"models": ["m", "n"], "rubrics": ["fluency"]},
        )
        Path("exp.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        plan = json.loads(quickstart("plan", "exp.yaml", "--json")[1])["cost"]
        assert quickstart("run", "exp.yaml", "--quiet")[0] == 0
        sent = server.counters.requests

    # 16 different answers: two rubrics of `single`, and `n` of the jury; `m` has its replies
    assert sent == 16 * 3
    assert [0.9 * sent <= calls <= 1.1 * sent for calls in plan["calls"]] == [True, True]
    cost = last_cost("exp")
    assert plan["usd"][0] <= cost["usd"] <= plan["usd"][1]
    assert set(cost["by"]) == {"judge single", "judge jury"}
    assert cost["usd"] == pytest.approx(sum(cost["by"].values()), abs=2e-6)


def test_replies_of_another_judge_are_counted_as_stored(quickstart, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with ChatServer(Script(), model="m") as server:
        first = priced_config(server.url, single={"model": "m", "rubrics": ["fluency"]})
        jury = priced_config(server.url, jury={"models": ["m", "n"], "rubrics": ["fluency"]})
        for name, config in (("first.yaml", first), ("jury.yaml", jury)):
            Path(name).write_text(yaml.safe_dump(config), encoding="utf-8")
        quickstart("run", "first.yaml", "--quiet")
        before = server.counters.requests
        plan = json.loads(quickstart("plan", "jury.yaml", "--json")[1])["cost"]
        quickstart("run", "jury.yaml", "--quiet")

    # 16 different answers, by the model `n` alone
    assert server.counters.requests - before == 16
    assert plan["calls"] == [16, 16]
    assert plan["usd"][0] <= last_cost("jury")["usd"] <= plan["usd"][1]


def test_the_sum_that_a_run_paid_is_printed(quickstart, monkeypatch, assert_message):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    lines, paid = [], []
    reply = testing.Answer('{"reasoning": "It reads well.", "level": 4}', prompt_tokens=400)
    with testing.ChatServer(reply) as server:
        config = priced_config(server.url, single={"model": "m", "rubrics": ["fluency"]})
        Path("exp.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        for _ in range(2):
            lines += lines_with(quickstart("run", "exp.yaml")[1], "cost:")
            paid.append(last_cost("exp")["usd"])

    # 16 different answers, each with 400 tokens at 2.5 and 18 at 10 per million
    assert paid == [pytest.approx(16 * (400 * 2.5 + 18 * 10) / 1e6), 0.0]
    assert_message(lines)


def test_a_missing_price_is_told_with_its_file_and_key(quickstart, monkeypatch, assert_message):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with ChatServer(Script(), model="own") as server:
        config = priced_config(server.url, single={"model": "own", "rubrics": ["fluency"]})
        Path("exp.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        plan = quickstart("plan", "exp.yaml")[1]
        run = quickstart("run", "exp.yaml")[1]

    assert_message(lines_with(plan, "models:"))
    assert_message(lines_with(run, "cost:"))
    cost = last_cost("exp")
    assert (cost["usd"], cost["by"], [*cost["unpriced"]]) == (None, {"judge single": None}, ["own"])


def test_a_server_on_this_machine_needs_no_price(quickstart, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with ChatServer(Script(), model="own") as server:
        config = priced_config(server.url, single={"model": "own", "rubrics": ["fluency"]})
        del config["metrics"]["judge"]["single"]["prices"]
        Path("exp.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        plan = quickstart("plan", "exp.yaml")[1]
        run = quickstart("run", "exp.yaml")[1]

    assert "price:" not in plan
    assert lines_with(run, "cost:") == lines_with(run, "prices") == []
    cost = last_cost("exp")
    assert (cost["usd"], cost["by"]) == (None, {"judge single": None})
    assert "unpriced" not in cost
