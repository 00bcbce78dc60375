"""Stored answers: JSON lines or tables with `query_id`, `id` or `question`, and `answer`.

A folder of `run_*.json`, as the harness of an agent writes them, has an answer in each file.

`read_pairs` reads answers beside their references, from two tables by query or two text files by
line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragbench.data.files.collection import check_unique
from ragbench.data.files.fields import Passages, read_calls, read_text, read_texts
from ragbench.data.files.lines import plain_suffix, text_lines
from ragbench.data.files.published_rows import read_published
from ragbench.data.files.rows import Entry, read_rows
from ragbench.data.files.tables import read_table
from ragbench.errors import DataError
from ragbench.types import Answered
from ragbench.types.display import counted
from ragbench.types.lookups import find_key
from ragbench.types.tables import PARTS

_IDS = ("query_id", "id")
_TABLES = (".jsonl", ".csv", ".parquet")
_FORMS = "both .jsonl, .csv (also with .gz) or .parquet by query_id, or both text lines"


def read_predictions(path: str | os.PathLike[str]) -> dict[str, Answered]:
    """Return stored answers by `query_id` or `id`, or by the `question` in rows without an id.

    The answers are in the order of the rows; an empty JSON array or a table without rows raises. A
    failed answer has `answer` None. An empty answer, also in CSV, is an empty text, which is
    scored. Tool calls are None if no row of the file has any, and else () in rows without them.

    Raises:
        DataError: The file cannot be read, a row is wrong, or the file has several systems or
            samples.
        MissingExtra: A Parquet file without the extra `parquet`.
    """
    first, *more = read_samples(path)
    if more:
        allowed = "one; a generator of type predictions reads several, as its `samples`"
        problem = f"{1 + len(more)} answers to query '{next(iter(more[-1]))}'"
        raise DataError(problem, file=path, allowed=allowed)
    return first


def read_samples(path: str | os.PathLike[str]) -> list[dict[str, Answered]]:
    """Read stored answers like `read_predictions`, but with several answers to a query.

    Where a query comes more than once, the column `sample` numbers its answers from 0. Return one
    mapping of key -> answer per sample, in the order of the numbers, with keys in the order of the
    rows. Without a repeated query the column does not count, and there is one mapping.

    Raises:
        DataError: As `read_predictions`, but several samples are no error; two answers to a query
            have one number, or numbers of samples are left out.
        MissingExtra: A Parquet file without the extra `parquet`.
    """
    path = Path(path)
    rows = list(_rows(path))
    # the column `sample` counts only where a query has several answers
    answers = {key: prediction for _, key, prediction in rows}
    if len(answers) == len(rows):
        return [answers]
    entries: dict[int, dict[str, Entry]] = {}
    samples: dict[int, dict[str, Answered]] = {}
    for entry, key, prediction in rows:
        sample = _sample(entry)
        check_unique(key, "query", entry, entries.setdefault(sample, {}))
        samples.setdefault(sample, {})[key] = prediction
    numbers = sorted(samples)
    if numbers != [*range(len(samples))]:
        problem = f"the samples are numbered {', '.join(map(str, numbers[:10]))}"
        raise DataError(problem, file=path, allowed="0, 1, 2, ... without gaps")
    return [samples[sample] for sample in numbers]


def _rows(path: Path) -> Iterator[tuple[Entry, str, Answered]]:
    """Yield (row, key, answer) of each row."""
    passages = Passages()
    entries = _entries(path)
    # where some line has tool calls, a line without any made none
    calls = None
    for column in PARTS["tool_calls"].sure:
        if any(entry.has(column) for entry in entries):
            calls = column
            break
    first_system: str | None = None
    for number, entry in enumerate(entries):
        key = _key(entry)
        # null is a failed answer, a line without the key an error
        entry.field("answer")
        prediction = Answered(
            key,
            answer=read_text(entry, "answer", entry.values["answer"]),
            contexts=passages.read(entry, "contexts"),
            queries=read_texts(entry, "queries") or [],
            tool_calls=None if calls is None else read_calls(entry, calls) or (),
        )
        system = read_text(entry, "system", entry.values.get("system")) or None
        first_system = first_system if number else system
        # the answers of two systems in one file would be mixed up
        if system != first_system:
            problem = f"system '{system}' after system '{first_system}'"
            raise entry.error(problem, allowed="the answers of one system per file")
        yield entry, key, prediction


def _entries(path: Path) -> Sequence[Entry]:
    """Return the rows of a file, or of a folder with a file for each question."""
    if not path.is_dir():
        return [*read_rows(path, "predictions")]
    return read_published([*read_table(path, "predictions")], {}).entries


def _sample(entry: Entry) -> int:
    """Return the number of the answer to a query, 0 without one."""
    if not entry.has("sample"):
        return 0
    value = entry.values["sample"]
    text = str(value)
    # isdigit() takes '²' as well, and int() refuses more than 4,300 digits in its own words
    if isinstance(value, bool) or not text.isascii() or not text.isdigit() or len(text) > 6:
        raise entry.error(f"sample {value!r}", allowed="a whole number from 0")
    return int(text)


def _key(entry: Entry) -> str:
    """Return the query id of a row, or else its question; raise a `DataError` if it has neither."""
    for column in _IDS:
        if entry.has(column):
            return entry.id(column)
    if not entry.has("question"):
        keys = ", ".join(entry.values) or "none"
        raise entry.error(f"no query_id, id or question (keys: {keys})", allowed="one of them")
    return entry.text("question")


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
        DataError: The forms of the files do not fit together, a file cannot be read, or no query
            has a reference.
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
    answers = dict[str, str | None]()
    if tables:
        for key, stored in read_predictions(predictions).items():
            answers[key] = stored.answer
    else:
        for key, [line] in _read_lines(predictions).items():
            answers[key] = line
    gold: dict[str, list[str]] = {}
    for path in references:
        texts_of = _read_references(path) if tables else _read_lines(path)
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


def _read_references(path: str) -> dict[str, list[str]]:
    """Return query -> gold answers of a table with `answers` (a list) or `reference`."""
    entries: dict[str, Entry] = {}
    answers: dict[str, list[str]] = {}
    for entry in read_rows(Path(path), "references"):
        column = find_key(entry.values, _IDS)
        key = entry.text("question") if column is None else entry.id(column)
        check_unique(key, "query", entry, entries)
        columns = [column for column in ("answers", "reference") if column in entry.values]
        if len(columns) != 1:
            keys = ", ".join(entry.values)
            problem = f"{' and '.join(columns) or 'no gold answer'} (keys: {keys})"
            raise entry.error(problem, allowed="one of answers, reference")
        answers[key] = read_texts(entry, columns[0]) or []
    return answers
