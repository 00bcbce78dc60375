"""Qrels as a set of judged passages, and the runs that stand beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ragbench.data.files.judged_rows import JudgedRow, JudgedSet
from ragbench.data.files.judgements import QrelsTable, read_judgements
from ragbench.data.files.lines import plain_suffix, read_lines
from ragbench.data.files.rows import Entry
from ragbench.errors import DataError

# Column of the grades.
GRADE = "grade"
_FIELDS = {4: "qrels", 6: "runs"}
_TABLES = (".csv", ".json", ".jsonl", ".parquet")
_BEIR = [b"query-id", b"corpus-id", b"score"]


@dataclass(frozen=True, slots=True)
class TrecFiles:
    """Files of TREC by their form.

    Attributes:
        qrels: Files of judgements.
        runs: Runs of systems.
    """

    qrels: Sequence[Path]
    runs: Sequence[Path]


def sort_trec_files(files: Sequence[Path]) -> TrecFiles | None:
    """Return qrels and runs among some files; None if the first file is neither.

    Raises:
        DataError: A file cannot be read, or a further file is neither; or there are several qrels.
    """
    forms = [_form_of(file) for file in files]
    if forms[0] is None:
        return None
    by_form: dict[str, list[Path]] = {"qrels": [], "runs": []}
    for file, form in zip(files, forms, strict=True):
        if form is None:
            problem, allowed = "neither qrels nor a run", "lines of 4 or 6 fields, as TREC has them"
            raise DataError(problem, file=file, allowed=allowed)
        by_form[form].append(file)
    if len(by_form["qrels"]) != 1:
        problem = f"{len(by_form['qrels'])} files of qrels"
        allowed = "the qrels of people after --on, those of a judge as --ratings FILE"
        raise DataError(problem, file=files[0], allowed=allowed)
    return TrecFiles(by_form["qrels"], by_form["runs"])


def _form_of(file: Path) -> str | None:
    """Return `qrels` or `runs` by the first lines of a file; None for a table or a folder."""
    if file.is_dir() or plain_suffix(file) in _TABLES:
        return None
    first: list[bytes] = []
    for _, line in islice(read_lines(file), 20):
        fields = line.split()
        if fields and not fields[0].startswith(b"#"):
            first = fields
            break
    if first[:3] == _BEIR:
        return "qrels"
    is_number = bool(first) and first[-1].lstrip(b"+-").isdigit()
    form = _FIELDS.get(len(first))
    return None if form == "qrels" and not is_number else form


def read_judged_qrels(
    file: Path, texts: Mapping[str, str] | None, questions: Mapping[str, str] | None
) -> tuple[JudgedSet, int]:
    """Return (the judged pairs of query and document as a set, number of pairs without a text).

    Args:
        file: Qrels.
        texts: Document -> text; None where no text is needed.
        questions: Query -> question; None where none is needed.

    Raises:
        DataError: The file cannot be read, or no pair has a question and a text.
    """
    table = read_judgements(file)
    rows, n_total = [], 0
    for query, grades in table.grades.items():
        for document, grade in grades.items():
            n_total += 1
            if questions is not None and query not in questions:
                continue
            if texts is not None and not texts.get(document, "").strip():
                continue
            passages = None if texts is None else [texts[document]]
            question = None if questions is None else questions[query]
            rows.append(_row(table, query, document, grade, question, passages))
    if not rows:
        allowed = "judged queries and documents that the dataset of the config has"
        raise DataError("no pair has a question and a text", file=file, allowed=allowed)
    judged = JudgedSet("qrels", (file,), rows, (GRADE,), len(rows))
    return judged, n_total - len(rows)


def _row(
    table: QrelsTable,
    query: str,
    document: str,
    grade: int,
    question: str | None,
    passages: list[str] | None,
) -> JudgedRow:
    """Return a judged pair as a row; grades below 0, such as those of spam, are 0."""
    values = {"query_id": query, "document_id": document, GRADE: max(grade, 0)}
    return JudgedRow(
        entry=Entry(table.file, table.lines.get((query, document)), values),
        id=f"{query}/{document}",
        unit=query,
        system=None,
        question=question,
        contexts=passages,
        answer=None,
        other=None,
        raters={},
    )


def pair_of(row: JudgedRow) -> tuple[str, str]:
    """Return query and document of a row of qrels."""
    return row.entry.values["query_id"], row.entry.values["document_id"]
