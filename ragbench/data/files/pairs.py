"""Predictions beside their references: two tables by query, or two text files by line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ragbench.data.files.collection import check_unique
from ragbench.data.files.jsonl import Entry
from ragbench.data.files.lines import plain_suffix, text_lines
from ragbench.data.files.passages import read_texts
from ragbench.data.files.rows import is_csv, read_rows
from ragbench.data.predictions import read_predictions
from ragbench.errors import DataError

_TABLES = (".jsonl", ".csv", ".parquet")
_FORMS = "both .jsonl, .csv (also with .gz) or .parquet by query_id, or both text lines"


@dataclass(frozen=True, slots=True)
class Pairs:
    """Predictions beside their references."""

    ids: list[str]
    """The query, or the number of the line."""
    predictions: list[str | None]
    """The answers; None where there is none."""
    references: list[list[str]]
    """The gold answers; empty where there are none."""


def read_pairs(predictions: str, references: Sequence[str]) -> Pairs:
    """Read predictions and references, and pair them by query, or by line in text files.

    The items are those of the references, and after them predictions that have none.

    Raises:
        DataError: A table beside a text file, text files of different lengths, or tables without
            a common query.
    """
    paths = (predictions, *references)
    tables = [path for path in paths if _is_table(path)]
    if not tables:
        return _pair_lines(predictions, references)
    if len(tables) < len(paths):
        text = next(path for path in paths if path not in tables)
        raise DataError(f"{tables[0]} is a table and {text} is text lines", allowed=_FORMS)
    return _pair_tables(predictions, references)


def _is_table(path: str) -> bool:
    return plain_suffix(Path(path)) in _TABLES


def _pair_lines(predictions: str, references: Sequence[str]) -> Pairs:
    answers = _lines(predictions)
    columns = [_lines(path) for path in references]
    for path, column in zip(references, columns, strict=True):
        if len(column) != len(answers):
            raise DataError(
                f"{len(column)} lines, and {len(answers)} in {predictions}",
                file=path,
                allowed="as many, paired by line",
            )
    ids = [str(number) for number in range(1, len(answers) + 1)]
    return Pairs(ids, [*answers], [list(gold) for gold in zip(*columns, strict=True)])


def _lines(path: str) -> list[str]:
    return [line.rstrip("\r\n") for _, line in text_lines(path)]


def _pair_tables(predictions: str, references: Sequence[str]) -> Pairs:
    answers = {key: stored.answer for key, stored in read_predictions(predictions).items()}
    gold: dict[str, list[str]] = {}
    for path in references:
        for key, texts in _read_references(path).items():
            gold.setdefault(key, []).extend(texts)
    if not answers.keys() & gold.keys():
        raise DataError(
            "no query of the predictions has a reference",
            file=predictions,
            allowed=f"the same query_id in both, such as '{next(iter(gold))}'",
        )
    ids = list(gold | answers)
    return Pairs(ids, [answers.get(key) for key in ids], [gold.get(key, []) for key in ids])


def _read_references(path: str) -> dict[str, list[str]]:
    """Read gold answers: `answers`, a list, or `reference`, by `query_id` or else `question`."""
    cells = is_csv(Path(path))
    seen: dict[str, Entry] = {}
    found: dict[str, list[str]] = {}
    for entry in read_rows(Path(path), "references"):
        key = entry.id("query_id") if "query_id" in entry.values else entry.text("question")
        check_unique(key, "query", entry, seen)
        columns = [column for column in ("answers", "reference") if column in entry.values]
        if len(columns) != 1:
            has = ", ".join(entry.values)
            raise entry.error(
                f"{' and '.join(columns) or 'no gold answer'} (keys: {has})",
                allowed="one of answers, reference",
            )
        found[key] = read_texts(entry, columns[0], cells=cells) or []
    return found
