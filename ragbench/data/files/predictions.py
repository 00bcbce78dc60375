"""Stored answers: JSON lines or CSV with `query_id` or `question`, and `answer`.

And answers beside their references: two tables by query, or two text files by line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragbench.data.files.collection import check_unique
from ragbench.data.files.fields import Passages, read_calls, read_text, read_texts
from ragbench.data.files.lines import plain_suffix, text_lines
from ragbench.data.files.rows import Entry, is_csv, read_rows
from ragbench.errors import DataError
from ragbench.types import Document, ToolCall
from ragbench.types.tables import CONVERSATION_NAMES

_TABLES = (".jsonl", ".csv", ".parquet")
_FORMS = "both .jsonl, .csv (also with .gz) or .parquet by query_id, or both text lines"


@dataclass(frozen=True, slots=True)
class StoredPrediction:
    """One line of a predictions file.

    Attributes:
        queries: The queries that it formulated.
        tool_calls: The tools that were called; None where the file does not say.
    """

    answer: str | None
    contexts: list[Document] | None = None
    system: str | None = None
    queries: tuple[str, ...] = ()
    tool_calls: tuple[ToolCall, ...] | None = None


def read_predictions(path: str | os.PathLike[str]) -> dict[str, StoredPrediction]:
    """Read stored answers by `query_id`, or by the text of `question` in lines that have no id.

    In CSV an empty answer is an empty text, not a missing one: it counts.
    """
    first, *others = read_samples(path)
    if others:
        allowed = "one; a generator of type predictions reads several, as its `samples`"
        raise DataError(f"{1 + len(others)} answers to a query", file=path, allowed=allowed)
    return first


def read_samples(path: str | os.PathLike[str]) -> list[dict[str, StoredPrediction]]:
    """Read stored answers as `read_predictions` does, where a query may have several.

    Where a query comes more than once, the column `sample` counts its answers from 0. A file
    without any has one sample, of nothing.
    """
    path = Path(path)
    rows = list(_rows(path))
    if len({key for _, key, _ in rows}) == len(rows):
        return [{key: prediction for _, key, prediction in rows}]
    seen: dict[int, dict[str, Entry]] = {}
    found: dict[int, dict[str, StoredPrediction]] = {}
    for entry, key, prediction in rows:
        sample = _sample(entry)
        check_unique(key, "query", entry, seen.setdefault(sample, {}))
        found.setdefault(sample, {})[key] = prediction
    numbers = sorted(found)
    if numbers != [*range(len(found))]:
        shown = f"the samples {', '.join(map(str, numbers[:10]))}"
        raise DataError(shown, file=path, allowed="numbers from 0 on, none left out")
    return [found[sample] for sample in numbers]


def _rows(path: Path) -> Iterator[tuple[Entry, str, StoredPrediction]]:
    """The lines with their keys; all of them are of one system."""
    cells = is_csv(path)
    passages = Passages()
    first: StoredPrediction | None = None
    entries = list(read_rows(path, "predictions"))
    # where some line has tool calls, a line without any made none
    names = CONVERSATION_NAMES["tool_calls"]
    filled = (n for n in names if any(e.values.get(n) not in (None, "") for e in entries))
    calls = next(filled, None)
    for entry in entries:
        key = _key(entry)
        # null is a failed answer, a line without the key an error
        entry.field("answer")
        prediction = StoredPrediction(
            answer=read_text(entry, "answer", entry.values["answer"]),
            contexts=passages.read(entry, "contexts", cells=cells),
            system=read_text(entry, "system", entry.values.get("system")) or None,
            queries=tuple(read_texts(entry, "queries", cells=cells) or ()),
            tool_calls=None if calls is None else read_calls(entry, calls, cells=cells) or (),
        )
        first = first or prediction
        if prediction.system != first.system:
            found = f"system '{prediction.system}' after system '{first.system}'"
            raise entry.error(found, allowed="the answers of one system per file")
        yield entry, key, prediction


def _sample(entry: Entry) -> int:
    value = entry.values.get("sample")
    if value in (None, ""):
        return 0
    text = str(value)
    # isdigit() takes '²' as well, and int() refuses more than 4,300 digits in its own words
    if isinstance(value, bool) or not text.isascii() or not text.isdigit() or len(text) > 6:
        raise entry.error(f"sample {value!r}", allowed="a whole number from 0")
    return int(text)


def _key(entry: Entry) -> str:
    if entry.values.get("query_id") not in (None, ""):
        return entry.id("query_id")
    question = entry.values.get("question")
    if question in (None, ""):
        keys = ", ".join(entry.values) or "none"
        raise entry.error(f"neither query_id nor question (keys: {keys})")
    return entry.text("question")


@dataclass(frozen=True, slots=True)
class Pairs:
    """Predictions beside their references.

    Attributes:
        ids: The query, or the number of the line.
        predictions: The answers; None where there is none.
        references: The gold answers; empty where there are none.
    """

    ids: list[str]
    predictions: list[str | None]
    references: list[list[str]]


def read_pairs(predictions: str, references: Sequence[str]) -> Pairs:
    """Read predictions and references, and pair them by query, or by line in text files.

    The items are those of the references, and after them predictions that have none.
    """
    paths = (predictions, *references)
    tables = [path for path in paths if plain_suffix(Path(path)) in _TABLES]
    if 0 < len(tables) < len(paths):
        text = next(path for path in paths if path not in tables)
        raise DataError(f"{tables[0]} is a table and {text} is text lines", allowed=_FORMS)
    answers: dict[str, str | None]
    if tables:
        answers = {key: stored.answer for key, stored in read_predictions(predictions).items()}
    else:
        answers = {key: line for key, [line] in _read_lines(predictions).items()}
    gold: dict[str, list[str]] = {}
    for path in references:
        texts_of = _read_references(path) if tables else _read_lines(path)
        if not tables and len(texts_of) != len(answers):
            found = f"{len(texts_of)} lines, and {len(answers)} in {predictions}"
            raise DataError(found, file=path, allowed="as many, paired by line")
        for key, texts in texts_of.items():
            gold.setdefault(key, []).extend(texts)
    if not answers.keys() & gold.keys():
        found = "no query of the predictions has a reference"
        allowed = f"the same query_id in both, such as '{next(iter(gold))}'"
        raise DataError(found, file=predictions, allowed=allowed)
    ids = list(gold | answers)
    return Pairs(ids, [answers.get(key) for key in ids], [gold.get(key, []) for key in ids])


def _read_lines(path: str) -> dict[str, list[str]]:
    """Read the text of each line by its number, from 1."""
    return {str(number): [line.rstrip("\r\n")] for number, line in text_lines(path)}


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
            keys = ", ".join(entry.values)
            what = f"{' and '.join(columns) or 'no gold answer'} (keys: {keys})"
            raise entry.error(what, allowed="one of answers, reference")
        found[key] = read_texts(entry, columns[0], cells=cells) or []
    return found
