"""Notebooks: replies that are stored by default, told once, and the progress of long calls."""

import io
import json
import sys
from types import SimpleNamespace

import pytest

import ragbench as rb
from ragbench.report.progress import Progress, progress_of
from ragbench.score.judge import judge as judge_module
from ragbench.testing import ChatServer
from ragbench.types import progress_line
from ragbench.types.progress_line import ProgressLine, in_notebook, shown_progress

ROWS = [
    {"question": f"{n}?", "answer": "an answer", "reference": "gold", "contexts": ["a text"]}
    for n in range(4)
]
REPLY = json.dumps({"reasoning": "x", "level": 4})


@pytest.fixture
def notebook(monkeypatch, tmp_path):
    """Imitate the kernel of a notebook, as IPython shows it to a program."""
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAGBENCH_CACHE", raising=False)
    # the file is opened once in a process: each test has another folder
    judge_module._notebook_replies.cache_clear()
    yield tmp_path
    judge_module._notebook_replies.cache_clear()


def test_a_program_is_no_notebook(monkeypatch):
    assert not in_notebook()
    # a shell without a kernel, as `ipython` has
    terminal = SimpleNamespace()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: terminal))
    assert not in_notebook(), "IPython in a terminal has no kernel"


def test_a_cell_that_runs_again_pays_nothing(notebook, capsys, assert_message):
    with ChatServer(REPLY) as server:
        n_requests = []
        for metrics in (["fluency"], ["fluency", "chrf"], ["fluency"]):
            judge = {"model": "m", "base_url": server.url}
            rb.evaluate(ROWS, metrics, judge=judge)
            n_requests.append(len(server.received))

    assert n_requests[0] == n_requests[1] == n_requests[2] > 0
    assert [path.name for path in notebook.iterdir()] == [".ragbench"]
    assert_message(capsys.readouterr().err)


@pytest.mark.parametrize("choice", ["off", "file", "program"])
def test_replies_are_stored_where_the_user_says(choice, notebook, monkeypatch, capsys):
    if choice == "program":
        monkeypatch.delitem(sys.modules, "IPython")
    replies = {"off": False, "file": notebook / "mine.db", "program": None}[choice]
    with ChatServer(REPLY) as server:
        for _ in range(2):
            with rb.Judge("m", ["fluency"], base_url=server.url, replies=replies) as judge:
                judge.score_many(ROWS)
        n_requests = len(server.received)

    assert not (notebook / ".ragbench").exists()
    assert (notebook / "mine.db").exists() == (choice == "file")
    assert capsys.readouterr().err == ""
    with ChatServer(REPLY) as server:
        with rb.Judge("m", ["fluency"], base_url=server.url, replies=False) as judge:
            judge.score_many(ROWS)
        assert n_requests == (1 if choice == "file" else 2) * len(server.received)


def test_a_function_as_client_is_asked_each_time(notebook):
    calls = []

    def client(messages):
        calls.append(messages)
        return REPLY

    for _ in range(2):
        with rb.Judge(client=client, rubrics=["fluency"]) as judge:
            judge.score_many(ROWS[:1])
    assert len(calls) == 2, "the code of a function may have changed"


def test_a_line_appears_after_two_seconds_and_goes(monkeypatch):
    seconds = [0.0]
    monkeypatch.setattr(progress_line.time, "monotonic", lambda: seconds[0])
    stream = io.StringIO()
    line = ProgressLine("judge", stream)
    # a report for each second of the fake clock
    for done in range(5):
        seconds[0] = float(done)
        line.report(done, 10)
    line.close()

    output = stream.getvalue().split("\r")
    assert [text.strip() for text in output] == [
        "",
        "judge: 2 of 10, 8 s left",
        "judge: 3 of 10, 7 s left",
        "judge: 4 of 10, 6 s left",
        "",
        "",
    ]
    assert len(output[-2]) == len(output[-3]), "blanks cover the last text"


def test_progress_goes_to_a_person_alone(notebook, monkeypatch, capsys):
    # no waiting: a line appears at once instead of after two seconds
    monkeypatch.setattr(ProgressLine.__init__, "__defaults__", (0.0,))
    judge = rb.Judge(type=lambda answer: 1.0 if answer else 0.0, rubrics=None)
    calls = []
    for choice in (None, True, False, lambda *counts: calls.append(counts)):
        rb.evaluate(ROWS, ["token_f1"], judge=judge, progress=choice)
        output = capsys.readouterr().err
        assert ("judge: " in output) == (choice is None or choice is True)
        rb.evaluate_texts(["red"] * 4, ["blue"] * 4, ["token_f1"], progress=choice)
        output = capsys.readouterr().err
        assert ("metrics: 4 of 4" in output) == (choice is None or choice is True)
        judge.score_many(ROWS, progress=choice)
        output = capsys.readouterr().err
        assert ("judge: " in output) == (choice is None or choice is True)
    assert calls[-1] == (4, 4)
    monkeypatch.delitem(sys.modules, "IPython")
    with shown_progress(None, "judge") as report:
        assert report is None, "a redirected stream has no line"


def test_an_experiment_shows_its_stages_in_a_notebook(notebook, monkeypatch, capsys):
    monkeypatch.setattr(ProgressLine.__init__, "__defaults__", (0.0,))
    config = {"metrics": {"generation": ["token_f1"]}}
    rb.run_experiment(config, dataset=ROWS)
    assert "\r" in capsys.readouterr().err
    rb.run_experiment(config, dataset=ROWS, progress=False)
    assert capsys.readouterr().err == ""

    stream = io.StringIO()
    progress = Progress(stream=stream)
    with progress.stage("judge", 4) as stage:
        stage.advance()
        progress.note("a note")
        stage.advance(3)
    lines = [text.rpartition("\r")[2].rstrip() for text in stream.getvalue().split("\n")]
    assert lines[0] == "a note"
    assert lines[1].startswith("judge: 4 queries in ")
    assert progress_of(progress) is progress
