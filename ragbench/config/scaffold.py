"""Configs to start from: `ragbench init`, also from a file of records."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from ragbench.errors import DataError

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_WORDS = {"no", "null", "off", "on", "true", "false", "yes"}
_SNIFFED = 50  # rows; the keys of a JSONL file may differ from row to row

_OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("_id", "qid", "query_id", "question_id"),
    "question": ("query", "prompt", "q", "user_query"),
    "contexts": ("context", "passages", "documents", "chunks"),
    "answer": ("generated_answer", "model_answer", "output", "prediction"),
    "reference": ("ground_truth", "gold", "gold_answer", "answers", "expected", "target"),
}
"""Part -> names that a loader does not take by itself, but that are worth a guess in a config."""


@dataclass(frozen=True, slots=True)
class Scaffold:
    """A config to start from."""

    text: str
    notes: tuple[str, ...]
    """What the user must know or do."""


def scaffold_beir(file: Path) -> Scaffold:
    """Return a config for a folder in the BEIR layout, which the user fills."""
    text = _template("beir").replace("@FILE@", str(file)).replace("@PATH@", "dataset")
    folder = file.parent / "dataset"
    return Scaffold(text, (f"put your data into {folder}, or change dataset.path",))


def scaffold_records(file: Path, records: Path) -> Scaffold:
    """Return a config that reads a file of records, its columns guessed from their names."""
    from ragbench.data.files.table import read_rows

    rows = itertools.islice(read_rows(records, "records"), _SNIFFED)
    present = list(dict.fromkeys(key for row in rows for key in row.values))
    columns = guess_columns(present)
    if "question" not in columns:
        raise DataError(
            f"no column looks like the question (columns: {', '.join(present)})",
            file=records,
            allowed="a column named question, query or user_input",
        )
    _refuse_unclear_answers(columns, records)
    is_system = "answer" in columns or "contexts" in columns
    lines = [f"    {part}: {_scalar(column)}" for part, column in columns.items()]
    text = (
        _template("records")
        .replace("@FILE@", str(file))
        .replace("@PATH@", _scalar(os.path.relpath(records, file.parent).replace(os.sep, "/")))
        .replace("@COLUMNS@", "\n".join(lines))
        .replace("@SYSTEMS@\n", "\n" if is_system else _template("corpus"))
    )
    return Scaffold(text, tuple(_notes(columns, is_system)))


def _refuse_unclear_answers(columns: Mapping[str, str], records: Path) -> None:
    """A question with an `answer` and nothing else: people or a system may have written it."""
    alone = "answer" in columns and not {"reference", "contexts", "system"} & set(columns)
    if alone and columns["answer"].casefold() == "answer":
        raise DataError(
            "is 'answer' gold, or what a system wrote?",
            file=records,
            allowed="the column named reference (gold) or response (of a system)",
        )


def guess_columns(present: Sequence[str]) -> dict[str, str]:
    """Say which column plays which part, by their names; case does not matter."""
    from ragbench.data.files.table import USUAL_NAMES

    by_fold = {column.casefold(): column for column in reversed(present)}
    found = {}
    for part, usual in USUAL_NAMES.items():
        for name in (*usual, *_OTHER_NAMES.get(part, ())):
            if name in by_fold:
                found[part] = by_fold[name]
                break
    return found


def _notes(columns: Mapping[str, str], is_system: bool) -> list[str]:
    notes = ["columns: " + ", ".join(f"{part} = {name}" for part, name in columns.items())]
    if "answer" in columns and "reference" not in columns:
        answer = columns["answer"]
        notes.append(
            f"'{answer}' is taken as what a system wrote; "
            f"where it is gold, write reference: {answer} instead of answer: {answer}"
        )
    if not is_system:
        notes.append("put the documents that answer the questions into dataset.corpus")
    return notes


def _template(name: str) -> str:
    return files("ragbench.config").joinpath(f"templates/{name}.yaml").read_text("utf-8")


def _scalar(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.casefold() not in _WORDS:
        return text
    return json.dumps(text.replace("${", "$${"), ensure_ascii=False)
