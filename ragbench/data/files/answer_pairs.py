"""Predictions beside their gold answers, from tables or text files, for `ragbench score`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ragbench.data.files.collection import check_unique
from ragbench.data.files.fields import read_texts
from ragbench.data.files.lines import plain_suffix, text_lines
from ragbench.data.files.predictions import ID_KEYS, read_predictions
from ragbench.data.files.question_rows import QuestionRows
from ragbench.data.files.rows import Entry, read_rows
from ragbench.errors import DataError
from ragbench.types.display import counted
from ragbench.types.lookups import find_key

_TABLES = (".jsonl", ".csv", ".parquet")
_FORMS = "both .jsonl, .csv (also with .gz) or .parquet by query_id, or both text lines"


@dataclass(frozen=True, slots=True)
class AnswerPairs:
    """Predictions beside their references, in three lists of equal length; `read_pairs` makes it.

    Attributes:
        ids: Ids of the queries (or their questions), or line numbers from 1 as text.
        predictions: The answers; None where a query has none or its system failed.
        references: The gold answers; an empty list where a query has none.
    """

    ids: list[str]
    predictions: list[str | None]
    references: list[list[str]]


def read_pairs(predictions: str, references: Sequence[str]) -> AnswerPairs:
    """Read predictions and references, and pair them by query, or by line for text files.

    Tables are .jsonl, .csv and .parquet files; all others, also .json and .tsv, are text files. Ids
    and questions meet as they are written, also in their case. The order is that of the references;
    predictions without a reference follow. Several reference files add their gold answers to a
    query, in order of the files.

    Args:
        predictions: Path of the predictions.
        references: Paths of the reference files; at least one.

    Raises:
        DataError: The forms of the files do not fit together, a file cannot be read, no query has a
            reference, or equal ids have other questions.
        MissingExtra: A Parquet file without the extra `parquet`.
    """
    paths = (predictions, *references)
    tables = []
    for path in paths:
        if plain_suffix(Path(path)) in _TABLES:
            tables.append(path)
    if 0 < len(tables) < len(paths):
        text = next(path for path in paths if path not in tables)
        raise DataError(f"{tables[0]} is a table and {text} is a text file", allowed=_FORMS)
    answers, questions = dict[str, str | None](), dict[str, str]()
    if tables:
        for key, stored in read_predictions(predictions).items():
            answers[key] = stored.answer
            if "question" in stored.metadata:
                questions[key] = stored.metadata["question"]
    else:
        for key, [line] in _read_lines(predictions).items():
            answers[key] = line
    rows = QuestionRows(questions, file=predictions, noun="reference")
    gold: dict[str, list[str]] = {}
    for path in references:
        texts_of = _read_references(path, rows) if tables else _read_lines(path)
        if not tables and len(texts_of) != len(answers):
            problem = f"{counted(len(texts_of), 'lines')}, but {predictions} has {len(answers)}"
            raise DataError(problem, file=path, allowed="equal numbers of lines, paired in order")
        for key, texts in texts_of.items():
            gold.setdefault(key, []).extend(texts)
    if not answers.keys() & gold.keys():
        problem = "no query of the predictions has a reference"
        allowed = f"the same query_id in both, such as '{next(iter(gold))}'"
        raise DataError(problem, file=predictions, allowed=allowed)
    # references first, in their order
    ids = list(gold | answers)
    return AnswerPairs(ids, [answers.get(key) for key in ids], [gold.get(key, []) for key in ids])


def _read_lines(path: str) -> dict[str, list[str]]:
    """Return line number from 1, as text -> a list with the text of the line."""
    lines = {}
    for number, line in text_lines(path):
        lines[str(number)] = [line.rstrip("\r\n")]
    return lines


def _read_references(path: str, predictions: QuestionRows) -> dict[str, list[str]]:
    """Return query -> gold answers of a table with `answers` (a list) or `reference`."""
    entries: dict[str, Entry] = {}
    answers: dict[str, list[str]] = {}
    for entry in read_rows(Path(path), "references"):
        column = find_key(entry.values, ID_KEYS)
        key = entry.text("question") if column is None else entry.id(column)
        check_unique(key, "query", entry, entries)
        if isinstance(question := entry.values.get("question"), str):
            predictions.check(key, question)
        columns = [column for column in ("answers", "reference") if column in entry.values]
        if len(columns) != 1:
            keys = ", ".join(entry.values)
            problem = f"{' and '.join(columns) or 'no gold answer'} (keys: {keys})"
            raise entry.error(problem, allowed="one of answers, reference")
        answers[key] = read_texts(entry, columns[0]) or []
    return answers
