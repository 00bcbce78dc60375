"""A history in CI: run, append, run again; a slow drop fails though no single commit shows it."""

import json

import pytest

from ragbench.data.runs.history import read_history
from tests.cli.run_files import write_trec
from tests.commands import run_command

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

QUERIES = [f"q{number}" for number in range(100)]
CONFIG = """
name: search
dataset: {type: beir, path: data, split: test}
retrievers:
  saved: {type: run_file, path: saved.trec}
metrics: {retrieval: {top_k: 10, measures: [hit_rate@1]}}
gates:
  - {measure: hit_rate@1, system: saved, against: history/main.jsonl, max_drop: 0.02}
"""


@pytest.fixture
def project(tmp_path):
    """A data set of 100 questions, with a config that holds its run file against a history."""
    folder = tmp_path / "data"
    (folder / "qrels").mkdir(parents=True)
    documents = [{"_id": name, "title": "", "text": name} for name in ("right", "wrong")]
    questions = [{"_id": query, "text": f"question {query}"} for query in QUERIES]
    for name, rows in (("corpus", documents), ("queries", questions)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = [f"{query}\tright\t1\n" for query in QUERIES]
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))
    (tmp_path / "search.yaml").write_text(CONFIG)
    return tmp_path


def commit(project, lost):
    """Run with a run file that lost some queries; exit code, the verdict, the words."""
    found = {query: {"wrong" if query in lost else "right": 1.0} for query in QUERIES}
    write_trec(project / "saved.trec", found)
    ran = run_command("run", "search.yaml", "--quiet", cwd=project)
    summary = json.loads((project / "runs/search/latest/summary.json").read_text())
    (gate,) = summary["gates"]
    return ran.returncode, gate


def append(project, *options):
    return run_command("baseline", "runs/search", *options, cwd=project)


def test_a_decay_over_eight_commits_fails_the_build(project):
    history = project / "history" / "main.jsonl"
    code, gate = commit(project, [])
    for command in ("validate", "plan"):
        assert run_command(command, "search.yaml", cwd=project).returncode == 0
    assert (code, gate["verdict"]) == (0, "undecided")
    assert "no history yet: ragbench baseline RUN --append history/main.jsonl" in gate["why"]
    said = append(project, "--append", "history/main.jsonl").stdout
    assert said == "history: history/main.jsonl: line 1, the record: 1 system, 100 queries\n"

    for number in range(8):
        code, gate = commit(project, QUERIES[5 * number : 5 * number + 5])
        if code:
            break
        assert gate["verdict"] == "undecided", "no single commit shows it"
        assert append(project, "--append", "history/main.jsonl").returncode == 0

    entries = read_history(history)
    assert code == 1
    assert gate["verdict"] == "fail"
    assert gate["evidence"]["since"] == entries[0].run_id
    assert gate["evidence"]["commits"] == len(entries), "those in the file and this one"
    report = (project / "runs/search/latest/report.md").read_text()
    assert f"evidence over {len(entries)} commits since {entries[0].run_id}" in report

    # what is meant is the new record
    assert append(project, "-o", "history/main.jsonl").stdout.startswith("history: ")
    code, gate = commit(project, QUERIES[35:40])
    assert (code, gate["evidence"]["commits"]) == (0, 1)


def test_commits_that_change_nothing_stay_undecided(project):
    commit(project, [])
    append(project, "--append", "history/main.jsonl")
    found = []
    for _ in range(4):
        code, gate = commit(project, QUERIES[:4])
        found.append((code, gate["verdict"], gate["evidence"]["e"]))
        append(project, "--append", "history/main.jsonl")

    assert found == [found[0]] * 4
    assert found[0][:2] == (0, "undecided")
    again = append(project, "--append", "history/main.jsonl")
    assert "this run is in it already; nothing was added" in again.stdout
    assert len(read_history(project / "history" / "main.jsonl")) == 5


def test_other_judgements_stop_the_run_and_the_append(project):
    commit(project, [])
    append(project, "--append", "history/main.jsonl")
    qrels = project / "data" / "qrels" / "test.tsv"
    qrels.write_text(qrels.read_text().replace("q7\tright", "q7\twrong"))

    code, gate = commit(project, [])
    refused = append(project, "--append", "history/main.jsonl")

    assert (code, gate["refused"]) == (2, True)
    assert refused.returncode == 2
    assert "history/main.jsonl:1: the record is of other qrels" in refused.stderr
    assert "ragbench baseline RUN -o FILE" in refused.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "one of -o FILE and --append FILE"),
        (["-o", "a.json", "--append", "a.jsonl"], "one of -o FILE and --append FILE"),
        (["--append", "a.jsonl", "--costs"], "a history holds scores alone"),
        (["-o", "a.jsonl", "--costs"], "a history holds scores alone"),
        (["--append", "a.json"], "a name with .jsonl"),
    ],
)
def test_options_that_do_not_go_together(project, options, said):
    commit(project, [])

    refused = append(project, *options)

    assert refused.returncode == 2
    assert said in refused.stderr
    assert not list(project.glob("a.json*"))
