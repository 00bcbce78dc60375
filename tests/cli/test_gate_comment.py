"""`ragbench gate --comment`: the verdict is the same, whatever becomes of the comment."""

import json
import os

import pytest

from tests.cli.test_gate import N, documents, question, rows
from tests.commands import run_command
from tests.review_server import ReviewServer

pytestmark = pytest.mark.costly

CONFIG = """\
name: search
dataset: {type: records, path: qa.jsonl, corpus: corpus.jsonl}
retrievers: {bm25: {type: bm25, k1: 0.9}}
metrics: {retrieval: {measures: [mrr]}}
statistics: {resamples: 200}
"""
SECRET = "7b2d6f0c19aa4e55"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A checkout with a worse config than that of its baseline."""
    folder = tmp_path_factory.mktemp("comment")
    questions = [question(n) for n in range(N)]
    questions[0]["question"] += f" {SECRET}"
    # three of the five that are shown, with their escapes, are longer than a comment
    for row in (questions[1], *questions[10:13]):
        row["question"] += " &" * 6_000
    (folder / "qa.jsonl").write_text(rows(questions))
    (folder / "corpus.jsonl").write_text(rows(documents()))
    (folder / "search.yaml").write_text(CONFIG)
    for line in (("run", "search.yaml"), ("baseline", "runs/search", "-o", "main.json")):
        assert run_command(*line, cwd=folder).returncode == 0
    (folder / "search.yaml").write_text(CONFIG.replace("0.9", "0"))
    (folder / "broken.yaml").write_text(CONFIG.replace("0.9", "'@alice'"))
    two = CONFIG.replace("0.9", "'@alice'").replace("mrr", "mrrr")
    (folder / "two.yaml").write_text(two)
    (folder / "event.json").write_text(json.dumps({"pull_request": {"number": 7}}))
    return folder


@pytest.fixture
def server():
    with ReviewServer() as server:
        yield server


def gate(folder, server, config="search.yaml", **variables):
    environment = {
        **os.environ,
        "GITHUB_API_URL": server.url,
        "GITHUB_EVENT_PATH": str(folder / "event.json"),
        "GITHUB_REPOSITORY": "acme/search",
        "GITHUB_RUN_ID": "9",
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_TOKEN": "token-of-the-job",
        "DB_PASSWORD": SECRET,
        **variables,
    }
    line = ("gate", config, "--base", "main.json", "--comment", "--quiet")
    done = run_command(*line, cwd=folder, env=environment)
    assert "token-of-the-job" not in done.stdout + done.stderr
    return done


def test_a_long_comment_is_cut_at_a_line_end_and_has_no_secret(folder, server):
    done = gate(folder, server)

    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "the comment was written")
    (comment,) = server.comments
    assert 50_000 < len(comment["body"].encode()) <= 65_536
    assert comment["body"].endswith("rank 3\n\n(cut here: the run folder has all results)\n")
    assert SECRET not in comment["body"]
    assert "q0 what is word0 " in comment["body"]


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"GITHUB_TOKEN": ""}, "GITHUB_TOKEN is not set"),
        ({"GITHUB_EVENT_PATH": "none.json"}, "none.json: the event cannot be read"),
        ({"GITHUB_API_URL": "no address"}, "comment: url: "),
        ({"GITHUB_API_URL": "http://127.0.0.1:9"}, "the connection failed"),
        ({}, "the server answered 403: "),
    ],
)
def test_a_comment_that_cannot_be_written_is_one_line(
    folder, server, monkeypatch, variables, says, assert_message
):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    server.read_only = True

    done = gate(folder, server, **variables)

    assert done.returncode == 1
    assert_message(done.stdout)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("no comment was written: ")
    assert says in last
    assert server.comments == []


def test_an_error_replaces_the_verdict_on_the_commit_before(folder, server, assert_message):
    old = {"id": 5, "user": {"type": "Bot"}, "body": "<!-- ragbench:broken.yaml -->\n**fine**"}
    server.comments.append(old)

    done = gate(folder, server, "broken.yaml")

    assert done.returncode == 2
    assert [method for method, _ in server.writes] == ["PATCH"]
    assert_message(old["body"])
    assert "@&#8288;alice" in old["body"]


def test_each_mistake_of_a_config_is_a_line_of_the_comment(folder, server, assert_message):
    done = gate(folder, server, "two.yaml")

    assert done.returncode == 2
    (comment,) = server.comments
    _, first, second, link = filter(None, comment["body"].split("\n"))
    assert_message(first)
    assert second.startswith("two.yaml:4:")
    assert_message(link)
    assert "^" not in comment["body"], "a caret has no place in a paragraph"


def test_a_step_summary_that_cannot_be_written_does_not_keep_the_comment_away(
    folder, server, assert_message
):
    done = gate(folder, server, GITHUB_STEP_SUMMARY=str(folder / "none" / "summary.md"))

    assert done.returncode == 2
    assert_message(done.stderr)
    assert len(server.comments) == 1
