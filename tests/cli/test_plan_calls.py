"""Calls that `ragbench plan` counts, against those that a run sends to a scripted server."""

import hashlib
import json
from pathlib import Path

import pytest
import yaml

from tests.chat_server import ChatServer
from tests.score.judge.scripted import Script

pytestmark = pytest.mark.slow  # real runs

# each call has another answer of one sentence
APP = """\
from itertools import count

NUMBERS = count(1)

def passages(question):
    place = question.split()[-1]
    texts = [f"The bridge of {place} has {n} arches." for n in range(5)]
    return [{"id": f"d{n}", "text": text} for n, text in enumerate(texts)]

def answer(question):
    text = f"It opened {next(NUMBERS)} years ago [1]."
    return {"answer": text, "contexts": passages(question)}

def search(question, top_k):
    return passages(f"{question}{next(NUMBERS)}")
"""


def split(number, text):
    """Return the claim of a sentence: other texts have other claims."""
    return [f"claim {hashlib.sha256(text.encode()).hexdigest()[:6]} {number}"]


class Talk(Script):
    """A script that also judges citations, and answers questions, each time otherwise."""

    def __init__(self):
        super().__init__(split=split)
        self.n_answers = 0

    def _value(self, kind, key, text, schema):
        if kind.startswith("statement"):
            return {"reason": "so", "verdict": "full_support"}
        return super()._value(kind, key, text, schema)

    def __call__(self, body, times_asked):
        if "response_format" in body:
            return super().__call__(body, times_asked)
        self.n_answers += 1
        return f"It opened {self.n_answers} years ago [1]."


def calls_of(quickstart, rubrics, server, **parts):
    """Return the calls of a plan, (low, high), and those of the run."""
    judge = {"type": "openai", "model": "m", "base_url": server.url, "rubrics": rubrics}
    metrics = {"generation": [], "judge": judge | parts.pop("judge", {})}
    dataset = {"type": "records", "path": "rows.jsonl"}
    config = {"name": "calls", "dataset": dataset, "metrics": metrics, **parts}
    Path("exp.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    code, text, problems = quickstart("plan", "exp.yaml", "--json")
    assert code == 0, problems
    assert server.counters.requests == 0, "nothing is sent"
    code, _, problems = quickstart("run", "exp.yaml", "--quiet")
    assert code == 0, problems
    return json.loads(text)["cost"]["calls"], server.counters.requests


@pytest.fixture
def rows(quickstart, tmp_path, monkeypatch):
    """Questions with gold answers, and an app whose answers all differ."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    write_rows(2)
    (tmp_path / "answering.py").write_text(APP)


def write_rows(n):
    lines = []
    for number in range(n):
        row = {"question": f"When did it open in {number}", "reference": f"It opened in {number}."}
        lines.append(json.dumps(row) + "\n")
    Path("rows.jsonl").write_text("".join(lines), encoding="utf-8")


# a rubric of each method, and of each source that claims are checked against
RUBRICS = (
    "answer_relevancy",
    "context_relevancy",
    "faithfulness",
    "correctness",
    "context_recall",
    "hallucination",
    "citation_recall",
    "nugget_recall",
    "support_recall",
)


@pytest.mark.parametrize("rubric", RUBRICS)
def test_calls_of_a_rubric_on_repeated_answers(rows, quickstart, rubric):
    with ChatServer(Talk(), model="m") as server:
        app = {"type": "python:answering:answer", "repeat": 3}
        calls, sent = calls_of(quickstart, [rubric], server, apps={"mine": app})

    assert sent > 0
    assert calls == [sent, sent]


# a plan rehearses 60 answers at most, here of 63
@pytest.mark.parametrize(
    ("n", "repeat", "of_judge", "rubrics"),
    [(1, 2, 2, RUBRICS), (21, 3, 1, ("answer_relevancy",))],
)
def test_calls_of_all_rubrics_on_repeated_answers(rows, quickstart, n, repeat, of_judge, rubrics):
    write_rows(n)
    with ChatServer(Talk(), model="m") as server:
        app = {"type": "python:answering:answer", "repeat": repeat}
        parts = {"apps": {"mine": app}, "judge": {"repeat": of_judge}}
        calls, sent = calls_of(quickstart, list(rubrics), server, **parts)

    assert [0.9 * sent <= number <= 1.1 * sent for number in calls] == [True, True]


@pytest.mark.parametrize(("of_retriever", "of_generator"), [(1, 1), (1, 3), (2, 2)])
def test_calls_of_repeated_generators(rows, quickstart, of_retriever, of_generator):
    with ChatServer(Talk(), model="m") as server:
        chat = {"type": "openai", "model": "m", "base_url": server.url, "repeat": of_generator}
        retriever = {"type": "python:answering:search", "repeat": of_retriever}
        systems = {"retrievers": {"mine": retriever}, "generators": {"chat": chat}}
        calls, sent = calls_of(quickstart, ["faithfulness", "correctness"], server, **systems)

    assert calls == [sent, sent]
