"""Run folders and caches of the wrong shape: a problem with its place, or made again; never 70."""

import json
import os
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragbench.store.database import CACHE_FILE
from ragbench.store.sqlite_file import DamagedCache
from tests.cli.run_files import JUDGED_RUN
from tests.commands import run_command
from tests.store.rows import forge

pytestmark = pytest.mark.slow
HITS, ANSWER = {"documents": [{"id": 1}]}, {"answer": 5, "usage": []}
ODD = [None, 1, "x", [], {}, [1], {"a": 1}, {"value": 3}, {"cause": "no"}, HITS, ANSWER,
       {"score": "x"}, {"name": 1}]  # fmt: skip


@pytest.fixture
def run(judged_quickstart, tmp_path):
    """A run with verdicts; its cache lies beside."""
    judged_quickstart.copy_to(tmp_path)
    return Path(tmp_path / "runs/quickstart/latest").resolve()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"latest", "found 'latest'"),
        (b"\xff\xfe", "cannot be read"),
        (b"../../..", "found '../../..'"),
        (b"", "found ''"),
        (b"nothing", "no run here"),
    ],
)
def test_a_file_latest(run, content, problem):
    latest = run.parent / "latest"
    latest.unlink()
    latest.write_bytes(content)

    for command in (["report"], ["compare"], ["calibrate", "--draw", "2"], ["reproduce"]):
        done = run_command(command[0], run.parent, *command[1:])
        assert done.returncode == 2, done.stderr
        assert problem in done.stderr


_json = st.sampled_from([None, 1, -1.5, "x", [], {}, [{}], {"a": []}, True, "\x1b"])


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_calibrate_on_lines_of_the_wrong_shape(run, data):
    kind = data.draw(st.sampled_from(["predictions", "judgements"]))
    file = run / kind / "bm25--extractive.jsonl"
    right = file.read_text()
    lines = right.splitlines()
    number = data.draw(st.integers(0, len(lines) - 1))
    row = json.loads(lines[number])
    row[data.draw(st.sampled_from(list(row)))] = data.draw(_json)
    lines[number] = json.dumps(data.draw(st.sampled_from([row, row, row, [], 1, {}])))
    file.write_text("\n".join(lines) + "\n")

    try:
        done = run_command("calibrate", run, "--draw", 3)
    finally:
        file.write_text(right)

    assert done.returncode in (0, 2), done.stderr


@pytest.mark.parametrize(
    "text",
    ["metrics: []", "metrics: {judge: x}", "metrics: {judge: {rubrics: x}}", "a: " + "[" * 200,
     "metrics: {judge: {rubrics: [{a: b}]}}", "generators: [x]", "\xff", "- x", ""],
)  # fmt: skip
def test_calibrate_on_a_config_of_the_wrong_shape(run, text):
    (run / "config.yaml").write_bytes(text.encode("latin-1"))

    done = run_command("calibrate", run, "--draw", 3)

    assert done.returncode == 2, done.stderr
    assert "config.yaml" in done.stderr


@pytest.mark.parametrize("shift", range(0, len(ODD), 17))
def test_stored_items_of_the_wrong_shape_are_made_again(
    run, tmp_path, repository, shift, monkeypatch
):
    # Their checksums are right: somebody else wrote them. Each item has another of the values.
    systems = json.loads((run / "summary.json").read_text())["systems"]
    for number, value in enumerate(ODD):
        rows = f"(rowid + {shift}) % {len(ODD)} = {number}"
        forge(tmp_path / "cache" / CACHE_FILE, rows, json.dumps(value).encode())
    # and two are no JSON at all
    for rowid, line in ((1, b"[" * 100_000), (2, b"\xff")):
        forge(tmp_path / "cache" / CACHE_FILE, f"rowid = {rowid}", line)
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DamagedCache)
        config = repository / "configs/quickstart.yaml"
        done = run_command("run", config, *JUDGED_RUN, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    again = Path(tmp_path / "runs/quickstart/latest/summary.json").read_text(encoding="utf-8")
    for old, new in zip(systems, json.loads(again)["systems"], strict=True):
        assert old["scores"] == new["scores"]


OWN_JUDGE = "class J:\n    label = 'mine'\n    def judge(self, item, rubric): ...\n"
FAILING = "class J:\n    def __init__(self): raise ValueError('no database')\n"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (OWN_JUDGE, "metrics.judge: python:mine:J has no model, options, allowed: an object with"),
        (FAILING, "metrics.judge: python:mine:J: ValueError: no database"),
    ],
)
def test_a_judge_of_ones_own_that_is_none_is_no_internal_error(tmp_path, code, message):
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    row = {"question": "a?", "answer": "b c", "reference": "b", "contexts": ["x b"]}
    (tmp_path / "qa.jsonl").write_text(json.dumps(row), encoding="utf-8")
    (tmp_path / "c.yaml").write_text(
        "dataset: {type: records, path: qa.jsonl}\n"
        "metrics: {judge: {type: 'python:mine:J', rubrics: [faithfulness]}}\n",
        encoding="utf-8",
    )

    done = run_command("run", "c.yaml", cwd=tmp_path)

    assert done.returncode == 2, done.stderr
    assert message in done.stderr


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
@pytest.mark.parametrize("name", ["queries.jsonl", "per_query.csv", "predictions/new.jsonl"])
def test_what_is_no_file_is_named_and_not_waited_for(run, name):
    # Half of the files of a run hung `report`, `show` and `compare` as pipes with names.
    odd = run / name
    odd.unlink(missing_ok=True)
    os.mkfifo(odd)
    for line in (["report"], ["show", "1"], ["compare"], ["calibrate", "--draw", 2], ["reproduce"]):
        done = run_command(line[0], run, *line[1:])
        assert done.returncode == 2
        assert f"{name}: is no regular file" in done.stderr


READERS = (["report"], ["show", "1"], ["explain"], ["compare"], ["runs"], ["reproduce"],
           ["calibrate", "--draw", 2], ["baseline", "-o", "out.json"])  # fmt: skip


@pytest.mark.parametrize(
    "name", ["summary.json", "questions.jsonl", "per_query.csv", "config.yaml", "rankings", "new"]
)
def test_a_link_in_a_run_folder_is_named_and_not_followed(run, tmp_path, name):
    # The first line of the file behind it stood in the error, and so in logs of CI.
    private = tmp_path / "private"
    private.mkdir() if name == "rankings" else private.write_text("root:x:0:0:mine\n")
    link = run / name
    if link.exists():
        link.rename(tmp_path / "old")
    link.symlink_to(private)

    for line in READERS:
        place = run.parent if line == ["runs"] else run
        done = run_command(line[0], place, *line[1:], cwd=tmp_path)
        assert f"{name}: is no regular file" in done.stdout + done.stderr, line
        assert done.returncode == (0 if line == ["runs"] else 2), line
        assert "mine" not in done.stdout + done.stderr


def test_latest_leads_to_a_folder_beside_it_only(run, tmp_path):
    latest = run.parent / "latest"
    assert run_command("explain", latest).returncode == 0
    run.rename(tmp_path / "elsewhere")
    latest.unlink()
    latest.symlink_to(tmp_path / "elsewhere")

    for place in (latest, latest.parent):
        done = run_command("explain", place)
        assert done.returncode == 2
        assert "latest:1: found" in done.stderr


def test_calibrate_names_the_verdicts_that_are_missing(run, assert_message):
    # A label of theirs was 'no answer of this run'.
    [verdicts, *_] = sorted((run / "judgements").iterdir())
    verdicts.unlink()

    done = run_command("calibrate", run, "--draw", 2)

    assert done.returncode == 2
    assert_message(done.stderr)
