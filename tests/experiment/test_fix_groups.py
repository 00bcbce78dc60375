"""Groups of lost questions in the fix list of a real run, whose rankings are known."""

from pathlib import Path

import pytest
from msgspec import structs

import ragbench as rb
from ragbench.data.runs.run_folder import resolve_run_folder
from ragbench.experiment.fix import RunReader, list_fixes
from ragbench.report.fixes import fix_chapter, fix_report, question_groups
from ragbench.report.formats import render
from ragbench.report.formats.base import Screen
from tests.experiment.moons import write_jsonl
from tests.report.pages import texts

N = 40
# Rank of the gold: of a quarter of the questions 8, so that it is not among the 5 that are read
FIRST = [[1, 8, 2, 1][n % 4] for n in range(N)]
SECOND = [[3, 1, 1, 1][n % 4] for n in range(N)]


class Reader:
    """Answer from the passage of the question, if it is among the first `n` passages."""

    def __init__(self, n):
        self.n = n

    def generate(self, question, contexts):
        key = question.split()[-1]
        texts = [document.text.split() for document in contexts[: self.n]]
        return next((text[-1] for text in texts if key in text), "something else")


def write_run(path, ranks):
    lines = []
    for n, rank in enumerate(ranks):
        ids = [f"other{number}" for number in range(9)]
        ids.insert(rank - 1, f"d{n}")
        lines += [f"q{n} Q0 {name} {place} {-place} run" for place, name in enumerate(ids, 1)]
    path.write_text("\n".join([*lines, ""]))
    return {"type": "run_file", "path": str(path)}


def run_readers(folder):
    rows = range(N)
    (folder / "data/qrels").mkdir(parents=True)
    texts = [{"_id": f"d{n}", "text": f"key{n} has the value word{n}"} for n in rows]
    texts += [{"_id": f"other{number}", "text": "nothing of use"} for number in range(9)]
    write_jsonl(folder / "data/corpus.jsonl", texts)
    kinds = ["plain", "odd", "plain", "plain"]
    queries = [
        {"_id": f"q{n}", "text": f"Value of key{n}", "metadata": {"kind": kinds[n % 4]}}
        for n in rows
    ]
    write_jsonl(folder / "data/queries.jsonl", queries)
    answers = [{"query_id": f"q{n}", "answers": [f"word{n}"]} for n in rows]
    write_jsonl(folder / "data/answers.jsonl", answers)
    qrels = [f"q{n}\td{n}\t1" for n in rows]
    text = "\n".join(["query-id\tcorpus-id\tscore", *qrels, ""])
    (folder / "data/qrels/test.tsv").write_text(text)
    config = {
        "name": "readers",
        "dataset": {"type": "beir", "path": str(folder / "data"), "split": "test"},
        "retrievers": {
            "first": write_run(folder / "first.trec", FIRST),
            "second": write_run(folder / "second.trec", SECOND),
        },
        "metrics": {"retrieval": {"measures": ["hit_rate@5"]}, "generation": ["contains"]},
        "statistics": {"resamples": 100},
        "output": str(folder / "runs"),
    }
    run = rb.run_experiment(config, generators={"open": Reader(5)})
    return resolve_run_folder(Path(run.path))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return run_readers(tmp_path_factory.mktemp("readers"))


@pytest.fixture(scope="module")
def fixes(folder):
    return list_fixes(RunReader(folder, "first"))


def test_lost_questions_have_their_kind_in_common(fixes, assert_message):
    [group] = fixes.groups.groups

    assert_message(fixes.groups.sentences)
    assert group.queries == tuple(f"q{n}" for n in range(1, N, 4))


def test_the_terminal_and_the_page_have_the_groups(fixes):
    grids = {grid.caption: texts(grid) for grid in fix_chapter(fixes).grids}
    text = " ".join(render(fix_report(fixes, "runs/readers"), "table", Screen(200)).split())

    assert "10 of 10 lost questions have kind 'odd' (2.5 expected) q1, q5, q9," in text
    [(sentence, which)] = grids["what lost questions have in common"]
    assert sentence == fixes.groups.sentences[0]
    assert which.startswith("q1, q5, q9,")
    group = next(group for group in question_groups(fixes) if group.title == sentence)
    assert group.queries == fixes.groups.groups[0].queries


def test_without_lost_questions_there_are_no_groups(fixes):
    none_lost = structs.replace(fixes.groups, lost=0, groups=())

    grids = fix_chapter(structs.replace(fixes, groups=none_lost)).grids

    assert not any("lost questions" in grid.caption for grid in grids)
