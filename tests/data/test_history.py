"""Histories: whole lines or none, of one data set, each run once."""

import json
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.data.runs.baseline import write_baseline
from ragbench.data.runs.history import (
    append_to_history,
    is_history,
    read_history,
    start_history,
)
from ragbench.errors import DataError
from ragbench.records.codec import from_json, to_json
from ragbench.records.score import HISTORY_SCHEMA, HistoryLine
from ragbench.records.summary import Summary, Timing
from tests.data.test_baseline import CELLS, cells_of, stored


def run(run_id, cells=(1.0, 0.5), **facts):
    summary = Summary(name="mine", systems=(), timing=Timing(run_id=run_id))
    return replace(stored(list(cells), **facts), summary=summary)


@pytest.fixture
def history(tmp_path):
    path = tmp_path / "history" / "main.jsonl"
    for number in range(3):
        append_to_history(path, run(f"run{number}", (1.0, number / 7)))
    return path


def problem(call, *arguments):
    with pytest.raises(DataError) as caught:
        call(*arguments)
    return str(caught.value)


@given(st.lists(st.lists(CELLS, min_size=2, max_size=2), min_size=1, max_size=3))
def test_reads_back_every_line_exactly(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("made") / "new" / "main.jsonl"
    runs = [run(f"run{number}", row) for number, row in enumerate(rows)]

    lines = [append_to_history(path, each) for each in runs]
    found = read_history(path)

    assert lines == [entry.line for entry in found] == list(range(1, len(rows) + 1))
    assert [entry.run_id for entry in found] == [f"run{n}" for n in range(len(rows))]
    for entry, each in zip(found, runs, strict=True):
        assert repr(cells_of(entry.scores)) == repr(cells_of(each))


def test_earlier_lines_keep_their_bytes_and_unknown_keys(history):
    lines = history.read_text().splitlines()
    lines[1] = json.dumps({**json.loads(lines[1]), "commit": "1a2b"})
    history.write_text("\n".join(lines) + "\n")
    before = history.read_bytes()

    append_to_history(history, run("run3"))

    assert history.read_bytes().startswith(before)
    assert [path.name for path in history.parent.iterdir()] == ["main.jsonl"]
    record = from_json(HistoryLine, json.loads(lines[1]))
    assert record.unknown == {"commit": "1a2b"}
    assert to_json(record) == json.loads(lines[1])


def test_a_line_is_what_a_baseline_file_holds(history, tmp_path):
    write_baseline(tmp_path / "main.json", run("run1", (1.0, 1 / 7)))
    baseline = json.loads((tmp_path / "main.json").read_text())

    line = json.loads(history.read_text().splitlines()[1])

    assert line.pop("run_id") == "run1"
    assert line == {**baseline, "schema": HISTORY_SCHEMA}


def test_a_run_is_in_it_once(history):
    before = history.read_bytes()

    assert append_to_history(history, run("run1", (0.0, 0.0))) is None
    assert history.read_bytes() == before


def test_starting_replaces_it(history):
    start_history(history, run("run9"))

    assert [entry.run_id for entry in read_history(history)] == ["run9"]


def test_an_empty_file_is_started(tmp_path):
    path = tmp_path / "main.jsonl"
    path.touch()

    assert append_to_history(path, run("run0")) == 1


def test_another_data_set_is_refused_with_the_line(history):
    before = history.read_bytes()
    more, others = run("run4", (1.0, 0.5, 0.0)), run("run4", ids=["q0", "q7"])
    judged = run("run4")
    judged.data["qrels"] = "ffff"

    for other, why in (
        (more, "other queries (2, not 3) than this run"),
        (others, "queries with other ids than this run"),
        (judged, "other qrels (fingerprints) than this run"),
    ):
        said = problem(append_to_history, history, other)
        assert f"{history}:1: the record is of {why}" in said
        assert "a new record: ragbench baseline RUN -o FILE" in said
    assert history.read_bytes() == before

    line = json.loads(before.splitlines()[2])
    line["data"]["qrels"] = "ffff"
    history.write_text(
        history.read_text().replace(before.decode().splitlines()[2], json.dumps(line))
    )
    said = problem(read_history, history)
    assert f"{history}:3: it is of other qrels (fingerprints) than line 1, the record" in said


def test_half_a_line_is_named(history):
    history.write_bytes(history.read_bytes()[:-30])

    for call in (lambda: read_history(history), lambda: append_to_history(history, run("new"))):
        assert f"{history}:3: the line is cut off: it has no end" in problem(call)


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ("<<<<<<< HEAD", "conflict of a merge; allowed: the lines of both sides"),
        ("[1]", "found a list; allowed: ragbench.history/1"),
        ('{"schema": "ragbench.baseline/1"}', "found schema 'ragbench.baseline/1'"),
        ('{"schema": "ragbench.history/1"', "bad JSON at column"),
        ('{"schema": "ragbench.history/1"}', "no 'name'"),
        ("{first}", "run run0 is in an earlier line"),
    ],
)
def test_what_is_no_line_is_named(history, second, said):
    first, _, third = history.read_text().splitlines()
    history.write_text("\n".join([first, second.replace("{first}", first), third, ""]))

    found = problem(read_history, history)

    assert found.startswith(f"{history}:2: ")
    assert said in found


def test_what_is_no_history_is_refused(tmp_path):
    assert (is_history("a/main.jsonl"), is_history("main.json")) == (True, False)
    assert "a name with .jsonl" in problem(append_to_history, tmp_path / "main.json", run("run0"))
    unnamed = problem(append_to_history, tmp_path / "main.jsonl", run(""))
    assert "the run has no id" in unnamed
    (tmp_path / "blank.jsonl").write_text("\n\n")
    assert "the history has no lines" in problem(read_history, tmp_path / "blank.jsonl")
    assert "no such file" in problem(read_history, tmp_path / "none.jsonl")


APPEND = """
import sys
from tests.data.test_history import append_to_history, run
print("ready", flush=True)
for number in range(int(sys.argv[3])):
    append_to_history(sys.argv[1], run(f"{sys.argv[2]}-{number}", [number / 997] * 400))
"""


def appender(warm, path, name, times):
    process = warm.popen(["-c", APPEND, str(path), name, str(times)])
    with process.stdout as told:
        assert told.readline() == b"ready\n"
    process.stdin.close()
    return process


@pytest.mark.slow
def test_two_at_once_lose_no_line(warm, tmp_path):
    path = tmp_path / "main.jsonl"
    processes = [appender(warm, path, name, 15) for name in ("one", "two")]

    assert [process.wait() for process in processes] == [0, 0]

    ids = [entry.run_id for entry in read_history(path)]
    assert sorted(ids) == sorted(f"{name}-{n}" for name in ("one", "two") for n in range(15))
    assert [each.name for each in tmp_path.iterdir()] == ["main.jsonl"]


@pytest.mark.slow
def test_killed_while_appending_it_holds_whole_lines(warm, tmp_path):
    path = tmp_path / "main.jsonl"
    append_to_history(path, run("first", [0.5] * 400))
    for number, pause in enumerate((0.03, 0.07, 0.13)):
        process = appender(warm, path, f"killed{number}", 10_000)
        time.sleep(pause)
        process.kill()
        process.wait()

        before = len(read_history(path))
        assert append_to_history(path, run(f"after{number}", [0.5] * 400)) == before + 1
