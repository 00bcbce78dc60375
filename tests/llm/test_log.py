"""Logger `ragbench`: requests that fail or are repeated, spent budgets, and notes on scores."""

import logging
import warnings

import pytest

import ragbench as rb
from ragbench import testing
from ragbench.llm import Budget
from tests.chat_server import Answer
from tests.llm.conftest import GOOD, ask_many, asking
from tests.messages import lines_with


@pytest.fixture
def records():
    """Collect level and text of the records of the logger, from INFO on."""
    lines, log = [], logging.getLogger("ragbench")

    class Handler(logging.Handler):
        def emit(self, record):
            lines.append(f"{record.levelname} {record.getMessage()}")

    handler, level = Handler(), log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield lines
    log.removeHandler(handler)
    log.setLevel(level)


def test_requests_that_are_repeated_and_fail_are_logged(serve, records, assert_message):
    busy, wrong = Answer("busy", status=503), Answer("no such field", status=400)
    _, engine = serve([busy, GOOD, wrong])

    ask_many(engine, [asking("first")])
    ask_many(engine, [asking("second")])

    assert_message(records)


def test_a_wrong_key_is_logged_once(serve, records):
    server, engine = serve(Answer("wrong key", status=401))

    ask_many(engine, [asking(f"question {n}") for n in range(5)])

    assert len(lines_with(records, "WARNING request to m failed")) == 1
    assert server.counters.requests == 1


def test_a_spent_budget_is_logged_once(serve, records):
    _, engine = serve(GOOD, engine={"budget": Budget(tokens=200)})

    ask_many(engine, [asking(f"question {n}", max_tokens=40) for n in range(20)])

    assert len(lines_with(records, "WARNING the budget is spent: not sent")) == 1
    assert len(records) == 1


def test_notes_on_scores_are_logged(records):
    rows = [{"question": "When?", "answer": "<think>Hm.</think>1932", "reference": "1932"}]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = rb.evaluate(rows, ["exact_match"])

    assert result.notes
    assert records == [f"INFO {note}" for note in result.notes]


def test_nothing_is_printed_where_logging_is_not_configured(capfd):
    reply = testing.Answer("no such model", status=404)
    with testing.ChatServer(reply) as server, rb.Judge("m", ["fluency"], base_url=server.url) as j:
        verdict = j.score(answer="In 1932.")["fluency"]

    assert verdict.status == "failed"
    handlers = logging.getLogger("ragbench").handlers
    assert any(isinstance(handler, logging.NullHandler) for handler in handlers)
    assert capfd.readouterr().err == ""


def test_warnings_and_notes_of_a_run_are_logged(records, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"question": "When?", "answer": "<think>Hm.</think>1932", "reference": "1932"}]

    summary = rb.run_experiment(dataset=rows).summary

    expected = [f"WARNING {line}" for line in summary["warnings"]]
    expected += [f"INFO {line}" for line in summary["notes"]]
    assert expected
    assert records == expected
