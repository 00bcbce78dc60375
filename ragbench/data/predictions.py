"""Stored answers of generators: JSON lines or CSV with `query_id` or `question`, and `answer`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ragbench.data.files.collection import check_unique
from ragbench.data.files.jsonl import Entry
from ragbench.data.files.passages import Passages, read_text
from ragbench.data.files.rows import is_csv, read_rows
from ragbench.errors import DataError
from ragbench.types import Document


@dataclass(frozen=True, slots=True)
class StoredPrediction:
    """One line of a predictions file."""

    answer: str | None
    """The text; None where the line has none."""
    contexts: list[Document] | None = None
    """The passages that it was made from, where the line has them."""
    system: str | None = None
    """The system that answered, where the line names one."""


def read_predictions(path: str | os.PathLike[str]) -> dict[str, StoredPrediction]:
    """Read stored answers by `query_id`, or by the text of `question` in lines that have no id.

    In CSV an empty answer is an empty text, not a missing one: it counts.

    Raises:
        DataError: A line with neither key or without the column `answer`, a query that occurs
            twice, or the answers of two systems, with the line.
    """
    first, *others = read_samples(path)
    if others:
        allowed = "one; a generator of type predictions reads several, as its `samples`"
        raise DataError(f"{1 + len(others)} answers to a query", file=path, allowed=allowed)
    return first


def read_samples(path: str | os.PathLike[str]) -> list[dict[str, StoredPrediction]]:
    """Read stored answers as `read_predictions` does, where a query may have several.

    Where a query comes more than once, the column `sample` counts its answers from 0.

    Returns:
        Per sample the answers; a file without any has one sample, of nothing.
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
    for entry in read_rows(path, "predictions"):
        key = _key(entry)
        entry.field("answer")
        prediction = StoredPrediction(
            answer=read_text(entry, "answer", entry.values["answer"]),
            contexts=passages.read(entry, "contexts", cells=cells),
            system=read_text(entry, "system", entry.values.get("system")) or None,
        )
        first = first or prediction
        if prediction.system != first.system:
            raise _two_systems(entry, first.system, prediction.system)
        yield entry, key, prediction


def _sample(entry: Entry) -> int:
    """Which of the answers to its query a line has."""
    value = entry.values.get("sample")
    if value in (None, ""):
        return 0
    text = str(value)
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


def _two_systems(entry: Entry, first: str | None, other: str | None) -> DataError:
    return entry.error(
        f"system '{other}' after system '{first}'", allowed="the answers of one system per file"
    )
