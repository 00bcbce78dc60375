"""Review of questions by people: write the page, and read back the table that it saves."""

from __future__ import annotations

from pathlib import Path

from ragbench.cli import output
from ragbench.data.files.collection import read_corpus
from ragbench.errors import DataError
from ragbench.files import naming_unwritable, write_file
from ragbench.questions import review
from ragbench.report.page.review import write_review_page
from ragbench.report.text import counted


def write_page(questions: Path, corpus: Path, target: Path) -> None:
    """Write the review page of a table of questions, and print how to go on.

    Raises:
        DataError: The table or the corpus cannot be read, or the page cannot be written.
        MissingExtra: A format of the corpus needs an extra.
    """
    entries = review.read_questions(questions)
    documents = read_corpus(corpus)
    output.write_notes(documents.notes)
    with naming_unwritable(target):
        write_review_page(target, entries, documents.documents)
    output.echo(f"wrote {target}: {counted(len(entries), 'questions')} to review in a browser")


def read_back(reviewed: Path, corpus: Path | None, target: Path) -> None:
    """Write a reviewed table as the table of questions, and print the agreement with the checks.

    Args:
        reviewed: Table that the page saved.
        corpus: Documents in which quotes are looked up; None leaves them unchecked.
        target: Table of questions; an existing one is replaced if it has the same questions and
            differs in reviewed rows alone.

    Raises:
        DataError: A file cannot be read or written, the target holds something else, or a quote
            stands in no gold document.
        MissingExtra: A format of the corpus needs an extra.
    """
    entries = review.read_questions(reviewed)
    if target.exists() and not review.is_update(entries, review.read_questions(target)):
        problem = "has other questions, or other cells in questions that are not reviewed"
        raise DataError(problem, file=target, allowed="another file")
    documents = None if corpus is None else read_corpus(corpus).documents
    checked = review.check_quotes(entries, documents)
    write_file(target, review.to_reviewed_table(checked))
    for line in review.agreement_lines(entries):
        output.echo(line)
    n_kept = sum(map(review.is_kept, checked))
    output.echo(f"wrote {target}: {n_kept} of {counted(len(checked), 'questions')} to keep")
    if documents is None:
        output.write_notes(["quotes were not looked up; pass the CORPUS to do so"])
