"""Stored answers of generators: JSON lines or CSV with `query_id` or `question`, and `answer`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ragbench.data.corpus import check_unique
from ragbench.data.jsonl import Entry
from ragbench.data.passages import Passages, read_text
from ragbench.data.rows import is_csv, read_rows
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
    path = Path(path)
    cells = is_csv(path)
    passages = Passages()
    seen: dict[str, Entry] = {}
    found: dict[str, StoredPrediction] = {}
    for entry in read_rows(path, "predictions"):
        key = _key(entry)
        check_unique(key, "query", entry, seen)
        entry.field("answer")
        prediction = StoredPrediction(
            answer=read_text(entry, "answer", entry.values["answer"]),
            contexts=passages.read(entry, "contexts", cells=cells),
            system=read_text(entry, "system", entry.values.get("system")) or None,
        )
        found[key] = prediction
        _refuse_two_systems(found, prediction, entry)
    return found


def _key(entry: Entry) -> str:
    if entry.values.get("query_id") not in (None, ""):
        return entry.id("query_id")
    question = entry.values.get("question")
    if question in (None, ""):
        keys = ", ".join(entry.values) or "none"
        raise entry.error(f"neither query_id nor question (keys: {keys})")
    return entry.text("question")


def _refuse_two_systems(
    found: dict[str, StoredPrediction], prediction: StoredPrediction, entry: Entry
) -> None:
    first = next(iter(found.values())).system
    if prediction.system != first:
        raise _two_systems(entry, first, prediction.system)


def _two_systems(entry: Entry, first: str | None, other: str | None) -> DataError:
    return entry.error(
        f"system '{other}' after system '{first}'", allowed="the answers of one system per file"
    )
