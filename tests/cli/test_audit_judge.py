"""`ragbench audit --judge`: doubtful labels over HTTP, the page to grade them, and the way back."""

import csv
import json
import re

import pytest

from tests.chat_server import ChatServer
from tests.commands import run_command
from tests.messages import lines_with
from tests.score.judge.scripted import Script

CONFIG = """\
dataset: {{type: beir, path: data}}
retrievers: {{stored: {{type: run_file, path: run.trec}}}}
metrics:
  retrieval: {{top_k: 10}}
  judge: {{type: openai, model: m, base_url: "{url}", rubrics: [faithfulness], concurrency: 1}}
"""
DOCUMENTS = {
    "io": "Io has more than 400 active volcanoes.",
    "europa": "Europa hides an ocean under its ice.",
    "titan": "Titan has a thick air of nitrogen.",
    "copy": "An ocean is hidden under the ice of Europa.",
    "deep": "There is an ocean below the ice of Europa as well.",
}
QUERIES = {"q1": "Which moon has an ocean?", "q2": "Which moon has volcanoes?"}
# q1: titan is wrong, and copy is missing; q2 is right
QRELS = {"q1": {"europa": 1, "titan": 1}, "q2": {"io": 1, "titan": 0}}
RUN = {"q1": ["copy", "titan", "io", "deep"], "q2": ["titan", "io", "europa"]}


def level(text):
    """4 for a passage with the last word of the question, else 1."""
    word = re.search(r"has (?:an )?(\w+)\?", text)[1]
    return 4 if len(re.findall(word, text)) > 1 else 1


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A test set with one wrong and one missing label, its ranking, and a cache of its own."""
    monkeypatch.delenv("RAGBENCH_CACHE", raising=False)
    return write_set(tmp_path)


def write_set(tmp_path):
    """Write the test set and its ranking; return the folder."""
    (tmp_path / "data" / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", DOCUMENTS), ("queries", QUERIES)):
        rows = "".join(json.dumps({"_id": n, "text": t}) + "\n" for n, t in texts.items())
        (tmp_path / "data" / f"{name}.jsonl").write_text(rows)
    rows = "".join(f"{q}\t{d}\t{g}\n" for q, docs in QRELS.items() for d, g in docs.items())
    (tmp_path / "data" / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}")
    lines = [f"{q} Q0 {d} 1 {9 - n} s" for q, docs in RUN.items() for n, d in enumerate(docs)]
    (tmp_path / "run.trec").write_text("\n".join(lines) + "\n")
    return tmp_path


def audit(folder, server, *options, config=""):
    (folder / "c.yaml").write_text(CONFIG.format(url=server.url) + config)
    return run_command("audit", "c.yaml", *options, cwd=folder)


@pytest.mark.costly
def test_the_judge_finds_a_wrong_and_a_missing_label_and_is_asked_once(folder, assert_message):
    with ChatServer(Script(level=level), model="m-1") as server:
        result = audit(folder, server, "--judge", "--json", "--strict")
        # gold: europa, titan, io; unjudged hits: copy, io and deep for q1, europa for q2
        assert server.counters.requests == 7
        again = audit(folder, server, "--judge", "--json")
        assert server.counters.requests == 7
    findings = json.loads(result.stdout)["findings"]
    assert [(f["kind"], f["query_id"], f["document_id"]) for f in findings] == [
        ("label_suspected_wrong", "q1", "titan"),
        ("label_suspected_missing", "q1", "copy"),
        ("label_suspected_missing", "q1", "deep"),
    ]
    assert findings[0]["place"].endswith("test.tsv:3")
    problem = (
        "document titan, of grade 1 for query q1, has level 1 of 4 by judge openai: 'passage 1: "
    )
    assert findings[0]["problem"].startswith(problem)
    assert_message(result.stderr)
    assert_message(again.stderr)
    assert json.loads(again.stdout)["findings"] == findings
    assert (result.returncode, again.returncode) == (1, 0)


def test_the_rules_of_fill_set_depth_and_the_relevant_level(folder):
    with ChatServer(Script(level=3), model="m-1") as server:
        rules = ("--set", "metrics.retrieval.fill={depth: 1, relevant_from: 4}")
        result = audit(folder, server, "--judge", "--json", *rules)
        # three of gold, and the best unjudged hits: copy, and europa behind two judged ones
        assert server.counters.requests == 5
    kinds = [(f["kind"], f["document_id"]) for f in json.loads(result.stdout)["findings"]]
    assert kinds == [("label_suspected_wrong", name) for name in ("europa", "titan", "io")]


def test_a_passage_that_people_grade_low_is_doubtful_only_at_the_lowest_level(folder):
    qrels = folder / "data" / "qrels" / "test.tsv"
    qrels.write_text("query-id\tcorpus-id\tscore\nq1\teuropa\t3\nq1\ttitan\t1\nq2\tio\t3\n")
    depth = ("--set", "metrics.retrieval.fill={depth: 1}")
    for level, names in ((2, ["europa", "io"]), (1, ["europa", "titan", "io"])):
        with ChatServer(Script(level=level), model=f"m-{level}") as server:
            model = ("--set", f"metrics.judge.model=m{level}")
            result = audit(folder, server, "--judge", "--json", *depth, *model)
        findings = json.loads(result.stdout)["findings"]
        assert [f["document_id"] for f in findings if "wrong" in f["kind"]] == names


def test_doubtful_passages_are_graded_on_a_page_and_correct_the_judgements(folder, assert_message):
    with ChatServer(Script(level=level), model="m-1") as server:
        result = audit(folder, server, "--judge", "-o", "doubtful.html")
        assert_message(result.stderr)
        page = (folder / "doubtful.html").read_text()
        assert_message(lines_with(page, "corrected.tsv --reviewed"))
        data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
        assert [row[0] for row in data["rows"]] == ["q1 titan", "q1 copy", "q1 deep"]
        assert data["levels"] == [["0", "1"]] * 3
        assert data["passages"][1][1][1] == DOCUMENTS["copy"]
        # a person agrees on the first two, and leaves the third open
        for row, grade in zip(data["rows"], ("0", "1", ""), strict=True):
            row[data["columns"].index("label")] = grade
        with (folder / "doubtful.csv").open("w", newline="") as stream:
            csv.writer(stream).writerows([data["columns"], *data["rows"]])
        read = audit(folder, server, "--reviewed", "doubtful.csv", "-o", "corrected.tsv")
        assert server.counters.requests == 7
    assert_message(read.stdout.splitlines())
    corrected = (folder / "corrected.tsv").read_text().splitlines()
    assert corrected == [
        "query-id\tcorpus-id\tscore",
        *("q1\teuropa\t1", "q1\ttitan\t0", "q1\tcopy\t1", "q2\tio\t1", "q2\ttitan\t0"),
    ]


def test_a_failed_reply_is_counted_and_ends_with_3(folder, assert_message):
    with ChatServer(Script(level=lambda text: 9 if "Io " in text else level(text))) as server:
        result = audit(folder, server, "--judge", "--json")
    assert_message(result.stderr)
    assert result.returncode == 3
    assert len(json.loads(result.stdout)["findings"]) == 3


def test_the_budget_holds(folder):
    with ChatServer(Script(level=level)) as server:
        result = audit(folder, server, "--judge", "--json", config="budget: {tokens: 1}\n")
        assert server.counters.requests <= 1
    assert "over_budget" in result.stderr
    assert result.returncode == 3


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--judge", "--repair"), "pass one of --judge, --reviewed and --repair"),
        (("--judge", "-o", "x.csv"), "--judge needs -o FILE.html"),
        (("--reviewed", "x.csv", "--strict"), "--reviewed takes CONFIG and -o alone"),
        (("--reviewed", "sheet.csv"), "sheet.csv:2: item 'q9 io' is not of this test set"),
        (("--reviewed", "label.csv"), "label.csv:2: label '2'; allowed: 0, 1"),
    ],
)
def test_what_is_refused(folder, options, problem):
    (folder / "sheet.csv").write_text("item,label,draw\nq9 io,1,audit\n")
    (folder / "label.csv").write_text("item,label,draw\nq1 io,2,audit\n")
    with ChatServer(Script(level=level)) as server:
        result = audit(folder, server, *options)
        assert server.counters.requests == 0
    assert result.returncode == 2
    assert problem in result.stderr


def test_a_config_without_a_judge_is_told(folder, assert_message):
    (folder / "c.yaml").write_text(CONFIG.partition("metrics")[0].format())
    result = run_command("audit", "c.yaml", "--judge", cwd=folder)
    assert result.returncode == 2
    assert_message(result.stderr)
