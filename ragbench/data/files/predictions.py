"""Stored answers: JSON lines or tables with `query_id`, `id` or `question`, and `answer`.

A folder of `run_*.json`, as the harness of an agent writes them, has an answer in each file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ragbench.data.files.collection import check_unique
from ragbench.data.files.fields import Passages, read_calls, read_text, read_texts
from ragbench.data.files.published_rows import read_published
from ragbench.data.files.rows import Entry, read_rows
from ragbench.data.files.tables import read_table
from ragbench.errors import DataError
from ragbench.types import Answered
from ragbench.types.lookups import take_items
from ragbench.types.tables import PARTS

# Columns of the query, the first of them that a row has.
ID_KEYS = ("query_id", "id")


def read_predictions(path: str | os.PathLike[str]) -> dict[str, Answered]:
    """Return stored answers by `query_id` or `id`, or by the `question` in rows without an id.

    The answers are in the order of the rows, each with the question of its row, if there is one, in
    its metadata. An empty JSON array or a table without rows raises. A failed answer has `answer`
    None. An empty answer, also in CSV, is an empty text, which is scored. Tool calls are None if no
    row of the file has any, and else () in rows without them.

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
    return take_items(samples, numbers)


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
            metadata=_question_of(entry),
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


def _question_of(entry: Entry) -> dict[str, str]:
    """Return the metadata of an answer: the question of its row, if it has one."""
    question = entry.values.get("question")
    return {"question": question} if isinstance(question, str) and question.strip() else {}


def _key(entry: Entry) -> str:
    """Return the query id of a row, or else its question; raise a `DataError` if it has neither."""
    for column in ID_KEYS:
        if entry.has(column):
            return entry.id(column)
    if not entry.has("question"):
        keys = ", ".join(entry.values) or "none"
        raise entry.error(f"no query_id, id or question (keys: {keys})", allowed="one of them")
    return entry.text("question")
