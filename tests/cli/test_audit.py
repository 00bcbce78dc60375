"""`ragbench audit`: planted faults with their places, and nothing in the clean example."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.commands import run_command
from tests.messages import lines_with

EXAMPLE = Path(__file__).parents[2] / "datasets" / "example"
CONFIG = """\
dataset: {type: beir, path: data}
retrievers: {bm25: {type: bm25}, minilm: {type: run_file, path: RUN}}
"""


class EditedLines:
    """A text file as lines; each change returns the place `path:line` of a finding."""

    def __init__(self, path):
        self.path = path
        self.lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def append(self, line):
        self.lines.append(line if isinstance(line, str) else json.dumps(line))
        return f"{self.path}:{len(self.lines)}"

    def change(self, key, name, **values):
        number = next(n for n, line in enumerate(self.lines) if json.loads(line)[key] == name)
        self.lines[number] = json.dumps(json.loads(self.lines[number]) | values)
        return f"{self.path}:{number + 1}"

    def drop(self, *starts):
        self.lines = [line for line in self.lines if not line.startswith(starts)]

    def place(self, start):
        number = next(n for n, line in enumerate(self.lines) if line.startswith(start))
        return f"{self.path}:{number + 1}"

    def write(self):
        self.path.write_text("\n".join(self.lines) + "\n", encoding="utf-8")


@pytest.fixture
def example(tmp_path):
    """A copy of the example data beside `c.yaml`, in the test's folder."""
    (tmp_path / "data" / "qrels").mkdir(parents=True)
    for name in ("corpus.jsonl", "queries.jsonl", "answers.jsonl", "qrels/test.tsv"):
        text = (EXAMPLE / name).read_text(encoding="utf-8")
        (tmp_path / "data" / name).write_text(text, encoding="utf-8")
    config = CONFIG.replace("RUN", str(EXAMPLE / "runs" / "minilm.trec"))
    (tmp_path / "c.yaml").write_text(config, encoding="utf-8")
    return tmp_path


def audit(folder, *options):
    result = run_command("audit", "c.yaml", "--json", *options, cwd=folder)
    assert result.stderr == ""
    return result.returncode, json.loads(result.stdout)


@pytest.mark.costly
def test_the_example_has_no_finding(example):
    # another file of judgements of the same queries is no other split
    qrels = example / "data" / "qrels"
    (qrels / "graded.tsv").write_bytes((qrels / "test.tsv").read_bytes())

    code, report = audit(example, "--strict")

    assert (code, report["findings"], report["notes"]) == (0, [], [])


def plant(folder):
    """Plant 12 faults, one of each kind but `one_pool`; return {kind: place}."""
    data = folder / "data"
    queries, answers = EditedLines(data / "queries.jsonl"), EditedLines(data / "answers.jsonl")
    corpus, qrels = EditedLines(data / "corpus.jsonl"), EditedLines(data / "qrels" / "test.tsv")
    # case and a missing question mark make no other question
    repeated = "how long did VENERA 13 keep working on the surface of Venus"
    # one further word
    nearly = "How many flights did the helicopter on Mars complete, please?"
    copied = "In 2004 Stardust flew past Wild 2 and collected dust from the coma of the comet."
    german = "Wie lange hat die Sonde auf der Venus in dem Sturm gearbeitet?"
    long = "Which craft was the first to go into orbit around Mercury? " * 12
    # the document that is planted a second time, with one further word
    text = json.loads(corpus.lines[0])
    places = {
        "repeated_question": queries.append({"_id": "p1", "text": repeated}),
        "nearly_repeated_question": queries.append({"_id": "p2", "text": nearly}),
        "question_in_another_split": queries.place('{"_id": "q07"'),
        "question_copied": queries.append({"_id": "p4", "text": copied}),
        "language_outlier": queries.append({"_id": "p5", "text": german}),
        "length_outlier": queries.append({"_id": "p6", "text": long}),
        "answer_not_in_gold": answers.change("query_id", "q13", answers=["Ligeia Mare"]),
        "gold_not_in_corpus": qrels.append("q14\tno-such-document\t2"),
        "gold_empty": qrels.append("q15\tblank\t2"),
        "gold_has_unjudged_duplicate": qrels.append(f"p1\t{text['_id']}\t3"),
        "unanswerable_with_gold": qrels.append("q71\tvenera-13\t1"),
    }
    queries.append({"_id": "t1", "text": "Who proposed the name of Pluto?"})
    corpus.append({"_id": "blank", "text": " ", "title": ""})
    corpus.append({**text, "_id": "copy", "text": f"{text['text']} Indeed."})
    corpus.append({"_id": "wild-2-dust", "text": f"It was long ago. {copied} Then it went on."})
    for name in ("p2", "p5", "p6"):
        # planted questions have gold, or they would have a second fault
        qrels.append(f"{name}\tvenera-13\t1")
    qrels.append("p4\twild-2-dust\t1")
    gold = [line.split("\t")[1] for line in qrels.lines if line[:4] == "q21\t" and line[-1] > "0"]
    qrels.drop(*(f"q21\t{document}\t" for document in gold[1:]))
    places["one_gold_document"] = queries.place('{"_id": "q21"')
    # dropped lines stand before the judgements that were appended
    # the lines of q21 were dropped after places were noted
    for kind in places:
        path, _, number = places[kind].rpartition(":")
        if path == str(qrels.path):
            places[kind] = f"{path}:{int(number) - len(gold) + 1}"
    train = EditedLines(data / "qrels" / "train.tsv")
    train.append("query-id\tcorpus-id\tscore")
    train.append("t1\tvenera-13\t1")
    for file in (queries, answers, corpus, qrels, train):
        file.write()
    return places


def test_each_planted_fault_is_found_at_its_place_and_nothing_else(example):
    expected = plant(example)
    code, report = audit(example, "--strict")
    places = {finding["kind"]: finding["place"] for finding in report["findings"]}
    assert Counter(f["kind"] for f in report["findings"]) == dict.fromkeys(expected, 1)
    assert {kind: Path(place).name for kind, place in places.items()} == {
        kind: Path(place).name for kind, place in expected.items()
    }
    assert (code, len(expected)) == (1, 12)


def test_judgements_from_the_first_hits_of_one_system_are_a_pool(example, assert_message):
    ranking = {}
    for line in (EXAMPLE / "runs" / "minilm.trec").read_text(encoding="utf-8").splitlines():
        query, _, document, *_ = line.split()
        ranking.setdefault(query, []).append(document)
    rows = [
        # every judged document comes from the first eight hits of one system
        f"{q}\t{d}\t{int(n == 0)}"
        for q, docs in ranking.items()
        for n, d in enumerate(docs[:8])
    ]
    text = "\n".join(["query-id\tcorpus-id\tscore", *rows])
    (example / "data" / "qrels" / "test.tsv").write_text(text, encoding="utf-8")
    _, report = audit(example)
    pools = [finding for finding in report["findings"] if finding["kind"] == "one_pool"]
    assert [(pool["place"], pool["query_id"]) for pool in pools] == [("test set", None)]
    assert_message(pools[0]["problem"])


def test_the_block_audit_names_the_kinds_of_questions(example, assert_message):
    # questions about people are to have several gold documents
    with (example / "c.yaml").open("a", encoding="utf-8") as config:
        config.write("audit: {kind: metadata.topic, multi_document: [people], unanswerable: []}\n")
    _, report = audit(example)
    kinds = Counter(finding["kind"] for finding in report["findings"])
    assert kinds.keys() == {"one_gold_document"}
    assert_message(report["findings"][0]["problem"])


def test_a_split_of_some_of_the_queries_has_them_too(example):
    train = EditedLines(example / "data" / "qrels" / "train.tsv")
    train.append("query-id\tcorpus-id\tscore")
    train.append("q07\tvenera-13\t1")
    train.write()
    (finding,) = audit(example)[1]["findings"]
    assert (finding["kind"], finding["query_id"]) == ("question_in_another_split", "q07")


def test_the_text_groups_findings_and_lists_five_of_a_kind(example, assert_message):
    queries = EditedLines(example / "data" / "queries.jsonl")
    qrels = EditedLines(example / "data" / "qrels" / "test.tsv")
    for number in range(7):
        queries.append({"_id": f"r{number}", "text": "Who proposed the name of Pluto?"})
        qrels.append(f"r{number}\tvenera-13\t1")
    queries.write()
    qrels.write()
    result = run_command("audit", "c.yaml", cwd=example)
    head, _, title, first, *lines = result.stdout.splitlines()
    assert head == "7 findings in 85 queries"
    assert_message(title)
    assert_message(first)
    assert_message(lines[4:6])
    assert (result.returncode, result.stderr) == (0, "")


def test_records_have_the_line_of_their_row(tmp_path):
    rows = [
        {"id": "a", "question": "Who found Titan?", "reference": "Huygens"},
        {"id": "b", "question": "Who found Titan?", "reference": "Huygens"},
    ]
    path = tmp_path / "qa.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    config = f"dataset: {{type: records, path: {path}}}\nretrievers: {{b: {{type: bm25}}}}\n"
    (tmp_path / "c.yaml").write_text(config, encoding="utf-8")
    _, report = audit(tmp_path)
    assert [(f["kind"], f["place"]) for f in report["findings"]] == [
        ("repeated_question", f"{path}:2")
    ]
    detects = {"scores": "metrics of answers", "slice": "all", "queries": 2}
    assert report["detects"] == [detects | {"graded": None, "hits": None}]


def test_a_wrong_key_of_the_metadata_has_its_place(example, assert_message):
    with (example / "c.yaml").open("a", encoding="utf-8") as config:
        config.write("audit: {kind: topic}\n")
    result = run_command("audit", "c.yaml", cwd=example)
    assert result.returncode == 2
    assert_message(result.stderr)


@pytest.mark.costly
def test_a_run_with_the_block_has_the_findings_on_its_page(example, assert_message):
    queries = EditedLines(example / "data" / "queries.jsonl")
    queries.append({"_id": "r", "text": "Who proposed the name of <Pluto>?"})
    queries.write()
    with (example / "data" / "qrels" / "test.tsv").open("a", encoding="utf-8") as qrels:
        qrels.write("r\tvenera-13\t1\n")
    config = (example / "c.yaml").read_text(encoding="utf-8") + "audit: {}\n"
    (example / "c.yaml").write_text(config, encoding="utf-8")
    result = run_command("run", "c.yaml", "--quiet", cwd=example)
    assert result.returncode == 0, result.stderr
    run = example / "runs" / "c" / "latest"
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    assert summary["audit"] == audit(example)[1]
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "<h2>test set</h2>" in page
    page = page.replace("<wbr>", "")  # the place of a finding may break after each /
    assert_message(lines_with(page, "q07: &#39;Who proposed", "1 finding of the audit"))
    text = (run / "report.md").read_text(encoding="utf-8")
    assert_message(lines_with(text, "the two: it counts twice"))
