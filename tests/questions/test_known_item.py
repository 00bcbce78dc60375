"""Known-item queries: questions without a model."""

import csv

import pytest

from ragbench.questions.known_item import known_items
from ragbench.text.tokenize import words
from ragbench.types import Document
from tests.commands import run_command
from tests.messages import lines_with

TEXT = "# Rules\n\nEverybody knows them.\n\nReport a {} {} to the {} office today."
RARE = ["purple badge warden", "silver token porter", "yellow ticket marshal"]
DOCUMENTS = [
    Document(f"{name}.md", TEXT.format(*terms.split()), "Rules")
    for name, terms in zip("abc", RARE, strict=True)
]


def test_a_query_is_the_title_and_the_rarest_terms_of_its_quote():
    candidates = known_items(DOCUMENTS, 3)

    assert len(candidates) == 3
    for candidate in candidates:
        row = dict(zip("abc", RARE, strict=True))[candidate.passage.document.id[0]]
        assert candidate.question == " ".join(["Rules", *sorted(row.split())])
        assert candidate.quote.startswith("Report a ")
        assert candidate.quote in candidate.passage.document.text
        assert candidate.checks == ("rare_terms", "unique")
        assert candidate.reference == ""


def test_a_file_name_is_no_title():
    (candidate,) = known_items([Document("docs/a.md", "Report a purple badge today.", "a.md")], 1)

    assert words(candidate.question) == ["badge", "purple", "report"]


def test_fewer_questions_than_asked_have_a_reason(tmp_path, assert_message):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text(DOCUMENTS[0].text, encoding="utf-8")

    done = run_command("questions", "docs", "-n", 3, "--model", "none", "-o", "a.csv", cwd=tmp_path)

    assert done.returncode == 0
    assert_message(lines_with(done.stderr, "questions were kept"), "warning: 1 of 3")


@pytest.mark.parametrize("text", ["", "Io is hot."])
def test_documents_without_rare_terms_give_no_question(tmp_path, text):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text(text)
    (tmp_path / "docs" / "b.md").write_text("Io.")

    done = run_command("questions", "docs", "-n", 3, "--model", "none", "-o", "a.csv", cwd=tmp_path)

    assert done.returncode == 2
    assert "docs: no question was kept; allowed: documents with facts" in done.stderr


@pytest.mark.slow  # a whole run
def test_the_command_and_the_run_after_it(tmp_path, assert_message):
    (tmp_path / "docs").mkdir()
    for document in DOCUMENTS:
        (tmp_path / "docs" / document.id).write_text(document.text)

    done = run_command("questions", "docs", "-n", 3, "--model", "none", "-o", "a.csv", cwd=tmp_path)

    assert done.returncode == 0
    assert_message(done.stderr)
    with (tmp_path / "a.csv").open(newline="") as stream:
        assert {row["kind"] for row in csv.DictReader(stream)} == {"known_item"}
    init = run_command("init", "--from", "a.csv", "--corpus", "docs", cwd=tmp_path)
    assert init.returncode == 0
    assert run_command("run", cwd=tmp_path).returncode == 0
