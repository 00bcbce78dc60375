"""Configs to start from: `ragbench init`, also from a file of records."""

from __future__ import annotations

import json
import os
import re
import statistics
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from ragbench.errors import DataError
from ragbench.registry import nearest

if TYPE_CHECKING:
    from ragbench.data.files.collection import Corpus
    from ragbench.data.files.columns import Named
    from ragbench.data.files.rows import Entry
    from ragbench.types import Collection

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_WORDS = {"no", "null", "off", "on", "true", "false", "yes"}
_SNIFFED = 50  # rows; the keys of a JSONL file may differ from row to row

# Words: documents above the first are cut into chunks of the second, which overlap by the third
_LONG, _CHUNK, _OVERLAP = 300, 200, 40
_MEANING = {
    "answer": "what a system wrote",
    "reference": "the gold answer",
    "contexts": "what a system retrieved",
    "relevant": "the gold documents",
    "reference_contexts": "gold passages, found in the corpus by their words",
    "grades": "how relevant each gold document is",
}


def scaffold_beir(file: Path) -> tuple[str, Sequence[str]]:
    """Return a config for a folder in the BEIR layout, and notes: the user fills that folder."""
    text = _template("beir").replace("@FILE@", str(file)).replace("@PATH@", "dataset")
    folder = file.parent / "dataset"
    return text, [f"put your data into {folder}, or change dataset.path"]


def scaffold_records(
    file: Path, records: Path, corpus: Path | None = None, named: Named | None = None
) -> tuple[str, Sequence[str]]:
    """Return a config that reads a file of records, its columns guessed from names and contents.

    Beside it come notes: what the user must know or do. What `named` says, part -> column, is not
    guessed. With a corpus, the config retrieves from it; what the columns and the corpus say of
    each other is read at once, so that mistakes of the data are errors here.

    Raises:
        DataError: No column has the question, what an answer is cannot be told, or the data are
            wrong.
    """
    from ragbench.data.files.collection import read_corpus

    read = None if corpus is None else read_corpus(corpus)
    columns, doubts = _guessed(records, read, named or {})
    lines = [_column_line(part, column) for part, column in columns.items()]
    is_system = "answer" in columns or "contexts" in columns
    systems, match, notes = "" if is_system else _template("corpus"), "", list[str]()
    if corpus is not None and read is not None:
        systems, match, notes = _with_corpus(file, records, columns, corpus, read)
    text = (
        _template("records")
        .replace("@FILE@", str(file))
        .replace("@PATH@", _scalar(_relative(records, file)))
        .replace("@COLUMNS@", "\n".join(lines))
        .replace("@SYSTEMS@\n", systems or "\n")
        .replace("@MATCH@\n", match)
    )
    ask_for_corpus = not is_system and corpus is None
    return text, [*_notes(columns, ask_for_corpus), *doubts, *notes]


def _guessed(
    records: Path, corpus: Corpus | None, given: Named
) -> tuple[dict[str, str | list[str]], list[str]]:
    """Part -> its column or columns, and what else could be meant."""
    from ragbench.data.files.columns import (
        join_columns,
        resolve_columns,
        several_columns,
        with_paths,
    )
    from ragbench.data.files.gold import DocumentNames
    from ragbench.data.files.rows import read_rows
    from ragbench.data.loaders.questions import holds_ids, known_ids

    whole = with_paths(list(read_rows(records, "records")), given)
    rows = whole[:_SNIFFED]
    names = None if corpus is None else DocumentNames(corpus.documents, corpus.folder)
    present = list(dict.fromkeys(key for row in rows for key in row.values))
    several = several_columns(present, given, lambda column: holds_ids(rows, names, column))
    entries, named = join_columns(rows, several)
    present = list(dict.fromkeys(key for entry in entries for key in entry.values))
    doubts: list[str] = []
    found: dict[str, str | list[str]] = {
        **resolve_columns(
            present, named, records, lambda column: holds_ids(entries, names, column), doubts
        )
    }
    doubts += _left_empty(found, whole, {**several, **given})
    free = [column for column in present if column not in found.values()]
    if "relevant" not in found:  # whatever a column is called, what stands in it are documents
        holding = (column for column in free if holds_ids(entries, names, column))
        if (column := next(holding, None)) is not None:
            found["relevant"] = column
    if "relevant" not in found:
        doubts += [
            f"'{column}' holds {total} ids, of which the corpus knows {known}: where these are "
            f"gold, write relevant: {_scalar(column)}"
            for column in free
            for known, total in [known_ids(entries, names, column)]
            if known
        ]
    if not {"answer", "reference"} & set(given):
        _settle_answer(found, free, corpus is not None, records)
    doubts = [doubt for doubt in doubts if not doubt.startswith("cannot tell")]
    for part, names_of in several.items():
        if names_of is not None and part in found:
            found[part] = names_of if isinstance(names_of, str) else list(names_of)
    return found, doubts


def _left_empty(
    found: dict[str, str | list[str]], rows: Sequence[Entry], several: Named
) -> list[str]:
    """Leave out the columns of gold that no row fills, and say so."""
    said = []
    for part in ("relevant", "reference_contexts", "reference"):
        column = found.get(part)
        if column is None or several.get(part) is not None:
            continue
        if all(row.values.get(str(column)) in (None, "", [], {}) for row in rows):
            del found[part]
            said.append(f"'{column}' is empty in every row")
    return said


def _settle_answer(
    found: dict[str, str | list[str]], free: Sequence[str], searched: bool, records: Path
) -> None:
    """Say of a bare `answer` whether it is gold: people wrote it where they named gold documents.

    So they did where a corpus is to be searched and nothing was retrieved yet; without any of
    that, it cannot be told.
    """
    others = {"reference", "contexts", "system", "queries"} & set(found)
    if str(found.get("answer", "")).strip().casefold() != "answer" or others:
        return
    if searched or {"relevant", "reference_contexts"} & set(found):
        found["reference"] = found.pop("answer")
        return
    context = next((column for column in free if column.casefold() == "context"), None)
    if context is None:
        allowed = "--column reference=answer (gold) or --column answer=answer (of a system)"
        raise DataError("is 'answer' gold, or what a system wrote?", file=records, allowed=allowed)
    found["contexts"] = context


def _with_corpus(
    file: Path, records: Path, columns: Mapping[str, str | list[str]], corpus: Path, read: Corpus
) -> tuple[str, str, list[str]]:
    """The key `corpus` with the systems, what is a hit where that is not the id, and notes."""
    from ragbench.data.loaders.records import Records

    collection = Records(path=records, columns=dict(columns), corpus=corpus).load()
    lengths = [len(document.text.split()) for document in read.documents]
    middle = int(statistics.median(lengths)) if lengths else 0
    systems = "chunks" if middle > _LONG else "documents"
    text = (
        _template(systems)
        .replace("@CORPUS@", _scalar(_relative(corpus, file)))
        .replace("@COUNT@", f"{len(lengths):,}")
        .replace("@WORDS@", f"{middle:,}")
        .replace("@SIZE@", str(_CHUNK))
        .replace("@OVERLAP@", str(_OVERLAP))
    )
    if collection.answers:
        text += _template("answers")
    notes = [*collection.notes[2:], *collection.warnings]
    if collection.qrels is None:
        notes.append("no gold documents: add a column with their ids, or with gold passages")
    match, said = _match(collection, read, str(columns.get("relevant")), records)
    notes.append(
        f"corpus: {len(lengths):,} documents, {middle:,} words in the median"
        + (f", cut into chunks of {_CHUNK} words" if systems == "chunks" else "")
    )
    return text + "\n", match, [*notes, *said]


def _match(
    collection: Collection, read: Corpus, column: str, records: Path
) -> tuple[str, list[str]]:
    """Return the key `match` and notes: gold ids are ids, or metadata values, of the corpus."""
    judged = [] if collection.qrels is None else list(dict.fromkeys(collection.qrels.documents))
    known = {document.id for document in read.documents}
    missing = [name for name in judged if name not in known]
    if not judged or len(missing) < len(judged):
        said = [f"{len(judged) - len(missing)} of {len(judged)} gold documents are in the corpus"]
        return "", said if judged else []
    keys = dict.fromkeys(key for document in read.documents for key in document.metadata)
    for key in keys:
        if {str(document.metadata.get(key)) for document in read.documents}.issuperset(judged):
            match = _template("match").replace("@KEY@", _scalar(f"metadata.{key}"))
            return match, [f"gold documents are named by metadata.{key} of the corpus"]
    place = collection.gold_places.get(missing[0], str(records))
    raise DataError(
        f"none of the {len(judged)} gold documents of '{column}' is in the corpus, such as "
        f"'{missing[0]}'",
        file=place,
        allowed=f"ids such as '{min(known, default='')}'",
        nearest=nearest(missing[0], sorted(known)),
    )


def _notes(columns: Mapping[str, str | list[str]], ask_for_corpus: bool) -> list[str]:
    shown = {
        part: name if isinstance(name, str) else " + ".join(name) for part, name in columns.items()
    }
    said = {part: f" ({_MEANING[part]})" if part in _MEANING else "" for part in columns}
    listed = ", ".join(f"{part} = {name}{said[part]}" for part, name in shown.items())
    notes = [f"columns: {listed}"]
    if "answer" in columns and "reference" not in columns:
        answer = columns["answer"]
        notes.append(
            f"'{answer}' is taken as what a system wrote; "
            f"where it is gold, write reference: {answer} instead of answer: {answer}"
        )
    if str(columns.get("reference")).strip().casefold() == "answer":
        notes.append("'answer' is taken as gold; where a system wrote it, write answer: answer")
    if ask_for_corpus:
        notes.append("put the documents that answer the questions into dataset.corpus")
    return notes


def _column_line(part: str, column: str | list[str]) -> str:
    names = [column] if isinstance(column, str) else column
    written = ", ".join(map(_scalar, names))
    if not isinstance(column, str):
        written = f"[{written}]"
    line = f"    {part}: {written}"
    return f"{line}  # {_MEANING[part]}" if part in _MEANING else line


def _relative(path: Path, file: Path) -> str:
    return os.path.relpath(path, file.parent).replace(os.sep, "/")


def _template(name: str) -> str:
    return files("ragbench.config").joinpath(f"templates/{name}.yaml").read_text("utf-8")


def _scalar(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.casefold() not in _WORDS:
        return text
    return json.dumps(text.replace("${", "$${"), ensure_ascii=False)
