"""Example configs of `ragbench init`: for a BEIR folder, or guessed from a file of records."""

from __future__ import annotations

import json
import os
import re
import statistics
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from ragbench.errors import DataError
from ragbench.registry import nearest

if TYPE_CHECKING:
    from ragbench.data.files.collection import Corpus
    from ragbench.data.files.columns import PartMap
    from ragbench.data.files.rows import Entry
    from ragbench.types import Collection

_PLAIN_SCALAR = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
# Words that a YAML parser of version 1.1 or 1.2 reads as a truth value or null
_YAML_WORDS = {"no", "null", "off", "on", "true", "false", "yes"}
_SAMPLED_ROWS = 50  # the keys of a JSONL file may differ from row to row

# In words: corpora with longer documents in the median get chunks of this size and overlap
_LONG_DOCUMENT, _CHUNK_SIZE, _CHUNK_OVERLAP = 300, 200, 40
# Part of a record -> its description in notes and in comments of the config
_PART_DESCRIPTIONS = {
    "answer": "what a system wrote",
    "reference": "the gold answer",
    "contexts": "what a system retrieved",
    "retrieved": "the ids of what a system retrieved, best first",
    "relevant": "the gold documents",
    "reference_contexts": "gold passages, found in the corpus by their words",
    "grades": "how relevant each gold document is",
}
# Part -> its column, or the columns that share it
_PartColumns = dict[str, str]


def scaffold_beir(file: Path) -> tuple[str, Sequence[str], str]:
    """Return (YAML for a folder `dataset` in the BEIR layout, note to fill it, next command).

    The note is a list of one, and the command is `validate`. Nothing is written or read but the
    template.
    """
    text = _template("beir").replace("@FILE@", str(file)).replace("@PATH@", "dataset")
    folder = file.parent / "dataset"
    text = text.replace("@APP@\n", _template("app"))
    return text, [f"put your data into {folder}, or change dataset.path"], "validate"


def scaffold_records(
    file: Path, records: Path, corpus: Path | None = None, chosen: PartMap | None = None
) -> tuple[str, Sequence[str], str]:
    """Return (YAML that reads a file of records, notes on columns and corpus, next command).

    The command is `run`, or `validate` if the user has to add the corpus first. An export of
    traces, told by its keys, gets a config of type `traces`. Columns are guessed from names and
    contents. With a corpus, the config retrieves from it; gold and corpus are compared at once, so
    that mistakes of the data are errors here.

    Args:
        file: Path of the config; the paths in it are relative to its folder.
        records: File with a row per question.
        corpus: Folder or file with the documents; None leaves a place for it in the config.
        chosen: Part -> column that the user gave, which is not guessed.

    Raises:
        DataError: No column has the question, the part of a column cannot be told, or the data are
            wrong.
        MissingExtra: A file needs a package that is not installed.
    """
    from ragbench.data.files.collection import read_corpus
    from ragbench.data.loaders.traces import read_export
    from ragbench.data.traces.spans import detect_format

    keys = next((entry.values for entry in read_export(records)), {})
    if not chosen and "question" not in keys and detect_format(keys) is not None:
        return _scaffold_traces(file, records, corpus)
    documents = None if corpus is None else read_corpus(corpus)
    columns, doubts = _guess_columns(records, documents, chosen or {})
    is_system = bool({"answer", "contexts", "retrieved"} & columns.keys())
    systems, match, notes = "" if is_system else _template("corpus"), "", list[str]()
    if corpus is not None and documents is not None:
        systems, match, notes = _systems_of_corpus(file, records, columns, corpus, documents)
    if {"retrieved", "relevant"} <= columns.keys():
        match = match or _template("ids")
    text = (
        _template("records")
        .replace("@FILE@", str(file))
        .replace("@PATH@", _scalar(_relative(records, file)))
        .replace("@COLUMNS@", "\n".join(_column_line(*pair) for pair in columns.items()))
        .replace("@SYSTEMS@\n", systems or "\n")
        .replace("@APP@\n", _template("app"))
        .replace("@MATCH@\n", match)
    )
    needs_corpus = not is_system and corpus is None
    command = "validate" if needs_corpus else "run"
    return text, [*_column_notes(columns, needs_corpus), *doubts, *notes], command


def _scaffold_traces(
    file: Path, traces: Path, corpus: Path | None
) -> tuple[str, Sequence[str], str]:
    """Return (YAML that reads an export of traces, notes on how they were read, next command).

    The config slices the questions by week if the traces have times.

    Raises:
        DataError: The file or the corpus cannot be read, or no trace is clear.
    """
    from ragbench.data.loaders.traces import Traces

    collection = Traces(path=traces, corpus=corpus).load()
    has_times = any("time" in query.metadata for query in collection.queries)
    paths = _scalar(_relative(traces, file))
    if corpus is not None:
        paths += f"\n  corpus: {_scalar(_relative(corpus, file))}"
    text = (
        _template("traces")
        .replace("@FILE@", str(file))
        .replace("@PATH@", paths)
        .replace("@SLICES@\n", _template("weeks") if has_times else "\n")
    )
    return text, [*collection.notes, *collection.warnings], "run"


def _guess_columns(
    records: Path, corpus: Corpus | None, user_columns: PartMap
) -> tuple[_PartColumns, list[str]]:
    """Return (part -> column, notes on other possible readings).

    Raises:
        DataError: The file cannot be read, a column of the user is missing, no column has the
            question, or the part of a column cannot be told.
        MissingExtra: A Parquet file without the extra `parquet`.
    """
    from ragbench.data.files.columns import with_paths
    from ragbench.data.files.gold import DocumentNames
    from ragbench.data.files.rows import read_rows
    from ragbench.data.loaders.questions import holds_ids, kept_rows, known_ids, map_columns

    rows = kept_rows(with_paths(list(read_rows(records, "records")), user_columns))
    names = None if corpus is None else DocumentNames(corpus.documents, corpus.folder)
    doubts: list[str] = []
    sample, resolved = map_columns(rows[:_SAMPLED_ROWS], user_columns, names, records, doubts)
    columns: _PartColumns = {**resolved}
    doubts += _remove_empty_gold(columns, rows, user_columns)
    present = dict.fromkeys(key for entry in sample for key in entry.values)
    free = [column for column in present if column not in columns.values()]
    if "relevant" not in columns:  # the cells decide: its name may be any
        id_columns = (column for column in free if holds_ids(sample, names, column))
        if (column := next(id_columns, None)) is not None:
            columns["relevant"] = column
    if "relevant" not in columns:
        doubts += [
            f"{n_known} of the {total} ids in column '{column}' are in the corpus; if they are the "
            f"gold documents, write relevant: {_scalar(column)}"
            for column in free
            for n_known, total in [known_ids(sample, names, column)]
            if n_known
        ]
    if not {"answer", "reference"} & set(user_columns):
        _settle_answer(columns, free, corpus is not None, records)
    # the doubt about a bare `answer` is settled now, or was an error
    doubts = [doubt for doubt in doubts if not doubt.startswith("cannot tell")]
    return columns, doubts


def _remove_empty_gold(
    columns: _PartColumns, rows: Sequence[Entry], user_columns: PartMap
) -> list[str]:
    """Remove guessed columns of gold that are empty in every row; return a note for each, or [].

    `columns` is changed. `user_columns` has the columns that the user named, which stay.
    """
    notes = []
    for part in ("relevant", "reference_contexts", "reference", "retrieved"):
        column = columns.get(part)
        if column is None or user_columns.get(part) is not None:
            continue
        if all(row.values.get(column) in (None, "", [], {}) for row in rows):
            del columns[part]
            notes.append(f"column '{column}' is empty in every row and is not used")
    return notes


def _settle_answer(
    columns: _PartColumns, free: Sequence[str], has_corpus: bool, records: Path
) -> None:
    """Decide whether a column `answer` is gold or generated, and change `columns` to match.

    It is gold if the records name gold documents, or if a corpus is to be searched and nothing was
    retrieved yet; it is generated beside a column `context`. Other names are left alone. `free` has
    the columns that are no part yet.

    Raises:
        DataError: Nothing tells whether the answers are gold.
    """
    is_decided = bool({"reference", "contexts", "retrieved", "system", "queries"} & set(columns))
    if columns.get("answer", "").strip().casefold() != "answer" or is_decided:
        return
    if has_corpus or {"relevant", "reference_contexts"} & set(columns):
        columns["reference"] = columns.pop("answer")
        return
    context = next((column for column in free if column.casefold() == "context"), None)
    if context is None:
        problem = "is the column 'answer' the gold answer, or what a system wrote?"
        allowed = "--column reference=answer (gold) or --column answer=answer (of a system)"
        raise DataError(problem, file=records, allowed=allowed)
    columns["contexts"] = context


def _systems_of_corpus(
    file: Path, records: Path, columns: _PartColumns, corpus: Path, documents: Corpus
) -> tuple[str, str, list[str]]:
    """Return (YAML of corpus and systems, the key `match` or '', notes).

    The YAML ends with a line `@APP@`, which the caller replaces; paths are relative to the folder
    of `file`, the config.

    Raises:
        DataError: The records cannot be read, or none of their gold documents is in the corpus.
    """
    from ragbench.data.loaders.records import Records

    collection = Records(path=records, columns=columns, corpus=corpus).load()
    lengths = [len(document.text.split()) for document in documents.documents]
    median = int(statistics.median(lengths)) if lengths else 0
    is_long = median > _LONG_DOCUMENT
    text = (
        _template("chunks" if is_long else "documents")
        .replace("@CORPUS@", _scalar(_relative(corpus, file)))
        .replace("@COUNT@", f"{len(lengths):,}")
        .replace("@WORDS@", f"{median:,}")
        .replace("@SIZE@", str(_CHUNK_SIZE))
        .replace("@OVERLAP@", str(_CHUNK_OVERLAP))
    )
    if collection.answers:
        text += _template("answers")
    # the first two, on rows and columns, repeat the notes on the guess
    notes = [*collection.notes[2:], *collection.warnings]
    if collection.qrels is None:
        notes.append("no gold documents: add a column with their ids, or with gold passages")
    match, match_notes = _match(collection, documents, str(columns.get("relevant")), records)
    cut = f", cut into chunks of {_CHUNK_SIZE} words" if is_long else ""
    notes.append("your own app or retriever comes next: see the lines with # in the config")
    notes.append(f"corpus: {len(lengths):,} documents, {median:,} words in the median{cut}")
    return text + "@APP@\n\n", match, [*notes, *match_notes]


def _match(
    collection: Collection, corpus: Corpus, column: str, records: Path
) -> tuple[str, list[str]]:
    """Return (key `match` or '', notes): gold ids are ids, or metadata values, of the corpus.

    The key is empty if some gold ids are ids of the corpus, or if there is no gold. `column` has
    the gold ids in `records`, for messages.

    Raises:
        DataError: No gold document is in the corpus.
    """
    judged = [] if collection.qrels is None else list(dict.fromkeys(collection.qrels.documents))
    if not judged:
        return "", []
    ids = {document.id for document in corpus.documents}
    missing = [name for name in judged if name not in ids]
    n_present = len(judged) - len(missing)
    if n_present:
        return "", [f"{n_present} of {len(judged)} gold documents are in the corpus"]
    for key in dict.fromkeys(key for document in corpus.documents for key in document.metadata):
        if {str(document.metadata.get(key)) for document in corpus.documents}.issuperset(judged):
            match = _template("match").replace("@KEY@", _scalar(f"metadata.{key}"))
            return match, [f"gold documents are named by metadata.{key} of the corpus"]
    raise DataError(
        f"none of the {len(judged)} gold documents of '{column}' is in the corpus, such as "
        f"'{missing[0]}'",
        file=collection.gold_places.get(missing[0], str(records)),
        allowed=f"ids such as '{min(ids, default='')}'",
        nearest=nearest(missing[0], sorted(ids)),
    )


def _column_notes(columns: _PartColumns, needs_corpus: bool) -> list[str]:
    """Return a note with all guessed columns, then notes on readings that the user may reverse.

    With `needs_corpus`, the last note asks for a corpus. Never empty.
    """
    parts = []
    for part, column in columns.items():
        names = column if isinstance(column, str) else " + ".join(column)
        description = f" ({_PART_DESCRIPTIONS[part]})" if part in _PART_DESCRIPTIONS else ""
        parts.append(f"{part} = {names}{description}")
    notes = [f"columns: {', '.join(parts)}"]
    if "answer" in columns and "reference" not in columns:
        answer = columns["answer"]
        notes.append(
            f"column '{answer}' is read as the answer of a system; "
            f"if it is the gold answer, write reference: {answer} instead of answer: {answer}"
        )
    if columns.get("reference", "").strip().casefold() == "answer":
        notes.append(
            "column 'answer' is read as the gold answer; if a system wrote it, write answer: answer"
        )
    if needs_corpus:
        notes.append("put the documents that answer the questions into dataset.corpus")
    return notes


def _column_line(part: str, column: str) -> str:
    """Return the line of the config for a part and its column, without a line end.

    It is indented by four spaces, and ends with a comment for a part that needs one.
    """
    comment = f"  # {_PART_DESCRIPTIONS[part]}" if part in _PART_DESCRIPTIONS else ""
    return f"    {part}: {_scalar(column)}{comment}"


def _relative(path: Path, file: Path) -> str:
    return os.path.relpath(path, file.parent).replace(os.sep, "/")


def _template(name: str) -> str:
    return files("ragbench.config").joinpath(f"templates/{name}.yaml").read_text("utf-8")


def _scalar(text: str) -> str:
    """Return a text as YAML reads it back: in quotes where it needs them, `${` escaped.

    JSON quotes are used.
    """
    if _PLAIN_SCALAR.fullmatch(text) and text.casefold() not in _YAML_WORDS:
        return text
    return json.dumps(text.replace("${", "$${"), ensure_ascii=False)
