"""Answers that nothing has judged: the page and `explain` count them, and not as failures."""

from __future__ import annotations

import json
import re

import pytest
from msgspec import structs

import ragbench as rb
from ragbench.report.page.html import render_html
from tests.commands import run_command
from tests.report import example
from tests.report.pages import records

DOCUMENTS = {f"d{n}": f"The moon number {n} has mount{n} and crater{n}." for n in range(8)}


def found(question):
    """Return the document of a question, and a text made from it."""
    name = f"d{question.removesuffix('?')[-1]}"
    return {"answer": "a tall one", "contexts": [{"id": name, "text": DOCUMENTS[name]}]}


def silent(question):
    """Return an answer alone, without passages: wrong but for the first question."""
    return {"answer": "a tall one" if question.endswith("mount 0?") else "no such thing"}


def broken(question):
    """Return an answer without passages, and fail on the last question."""
    if question.endswith("mount 7?"):
        raise ValueError("no answer")
    return silent(question)


def run_app(folder, app, n_gold=8, **row):
    """Run an app on 8 questions, the first `n_gold` with these further fields."""
    rows = [{"id": f"q{n}", "question": f"which moon has mount {n}?"} for n in range(8)]
    rows = [{**entry, **(row if n < n_gold else {})} for n, entry in enumerate(rows)]
    for n, question in enumerate(rows):
        question["relevant"] = [f"d{n}"]
    corpus = [{"id": name, "text": text} for name, text in DOCUMENTS.items()]
    for name, entries in (("rows", rows), ("corpus", corpus)):
        text = "".join(f"{json.dumps(entry)}\n" for entry in entries)
        (folder / f"{name}.jsonl").write_text(text)
    path, documents = str(folder / "rows.jsonl"), str(folder / "corpus.jsonl")
    return rb.run_experiment(
        {
            "name": "moons",
            "dataset": {"type": "records", "path": path, "corpus": documents},
            "apps": {"mine": {"type": f"python:{__name__}:{app.__name__}"}},
            "output": str(folder / "runs"),
            "max_failed": 0.5,
        }
    ).path


@pytest.fixture(scope="module")
def open_run(tmp_path_factory):
    """A run of an app that finds all, on questions without gold answers."""
    return run_app(tmp_path_factory.mktemp("open"), found)


def test_answers_that_nothing_judged_are_no_failures(open_run, assert_message):
    page = (open_run / "report.html").read_text()

    assert_message(re.findall(r'<p class="outcome">(.*?)</p>', page))
    assert 'id="failing"' not in page
    assert "questions that fail" not in page


def test_explain_does_not_list_what_nothing_judged(open_run, assert_message):
    done = run_command("explain", open_run)

    counts, lost, _ = done.stdout.split("\n\n")
    assert_message([counts, lost])


def test_wrong_answers_without_passages_fail(tmp_path):
    # Their cause is unknown as well, and they are judged.
    run = run_app(tmp_path, silent, reference="a tall one")
    page = (run / "report.html").read_text()

    assert "3 of 7 questions that fail" in page
    assert "not judged" not in page


def test_explain_lists_judged_answers_alone_if_some_are_not_judged(tmp_path):
    run = run_app(tmp_path, silent, n_gold=4, reference="a tall one")
    lost = run_command("explain", run).stdout.split("\n\n")[1]

    assert "4 answers of mine are not judged" in lost
    assert re.findall(r"^q(\d)", lost, re.MULTILINE) == ["1", "2", "3"]
    assert "3 of 3 questions that fail" in (run / "report.html").read_text()


def test_questions_of_unknown_cause_come_last(tmp_path):
    run = run_app(tmp_path, broken, reference="a tall one")
    lost = run_command("explain", run).stdout.split("\n\n")[1]

    assert re.findall(r"^q(\d)", lost, re.MULTILINE) == ["7", "1", "2", "3"]


def test_the_best_systems_and_the_baseline_have_numbers():
    # 8 retrievers in the order of the config, the best last.
    summary, comparisons = records(example.summary(), example.comparisons())
    (first, *_) = summary.systems
    systems = []
    for n in range(8):
        score = structs.replace(first.scores["ndcg@10"], mean=n / 10)
        name = f"r{n}"
        systems.append(structs.replace(first, name=name, scores={"ndcg@10": score}, baseline=None))
    summary = structs.replace(summary, systems=tuple(systems), baseline="r0", user_systems=())
    comparisons = structs.replace(comparisons, measures=(), preferences=(), causes=())
    page = render_html(summary, comparisons)

    [table] = re.findall(r"<caption>two main numbers of 5 of 8.*?</table>", page, re.S)
    assert re.findall(r'<th scope="row">(\w+)', table) == ["r0", "r4", "r5", "r6", "r7"]
