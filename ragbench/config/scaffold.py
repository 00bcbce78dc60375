"""Example configs of `ragbench init`: for a BEIR folder, or guessed from a file of records."""

from __future__ import annotations

import json
import os
import re
import statistics
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from ragbench.errors import DataError
from ragbench.registry import nearest
from ragbench.types.documents import record_ids

if TYPE_CHECKING:
    from ragbench.data.files.collection import Corpus
    from ragbench.data.files.column_contents import ColumnContents
    from ragbench.data.files.columns import PartMap
    from ragbench.data.files.published_rows import Published
    from ragbench.data.files.rows import Entry
    from ragbench.data.loaders.records import TableLoader
    from ragbench.types import Collection

_PLAIN_SCALAR = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
# Words that a YAML parser of version 1.1 or 1.2 reads as a truth value or null
_YAML_WORDS = {"no", "null", "off", "on", "true", "false", "yes"}
_SAMPLED_ROWS = 50  # the keys of a JSONL file may differ from row to row

# In words: corpora with longer documents in the median get chunks of this size and overlap
_FURTHER_PARTS = ("reference", "relevant", "reference_contexts", "contexts", "answer")
_MOST_EXAMPLES = 3  # columns without a part in a note
_LONG_DOCUMENT, _CHUNK_SIZE, _CHUNK_OVERLAP = 300, 200, 40
# Part of a record -> its description in notes and in comments of the config
_PART_DESCRIPTIONS = {
    "answer": "what a system wrote",
    "reference": "the gold answer",
    "contexts": "what a system retrieved",
    "retrieved": "the ids of what a system retrieved, best first",
    "relevant": "the gold documents",
    "excluded": "documents that do not count",
    "pool": "the documents that may be retrieved for the question",
    "forbidden": "what must never come up",
    "reference_contexts": "gold passages, found in the corpus by their words",
    "page": "the page of the gold document",
    "grades": "how relevant each gold document is",
}
# Parts that scores compare answers and rankings with
_GOLD_PARTS = frozenset(
    {"relevant", "reference", "reference_contexts", "reference_spans", "expected_tool_calls"}
)
# starts of the notes of a data set on its columns
_COLUMN_NOTES = ("columns: ", "further columns")
# Part -> its column, or the columns that share it
_PartColumns = dict[str, str]


def scaffold_beir(file: Path) -> tuple[str, Sequence[str], str]:
    """Return (YAML for a folder `dataset` in the BEIR layout, note to fill it, next command).

    The note is a list of one, and the command is `validate`.
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
    traces and answers of TREC RAG, told by their keys, get a config of their type. Columns are
    guessed from names and contents. With a corpus, the config retrieves from it; gold and corpus
    are compared at once, so that mistakes of the data are errors here.

    Args:
        file: Path of the config; the paths in it are relative to its folder.
        records: File with a row per question, or a folder in a published layout.
        corpus: Folder or file with the documents; None leaves a place for it in the config.
        chosen: Part -> column that the user gave, which is not guessed.

    Raises:
        DataError: No column has the question, the part of a column cannot be told, or the data are
            wrong.
        MissingExtra: A file needs a package that is not installed.
    """
    from ragbench.data.files.answer_judgements import are_track_answers
    from ragbench.data.files.pools import pool_corpus
    from ragbench.data.files.published_rows import read_published
    from ragbench.data.files.tables import find_table
    from ragbench.data.loaders.beir import is_beir

    if os.path.isdir(records) and is_beir(records):
        return _scaffold_found_beir(file, records)
    source = _find_source(records)
    corpus = corpus or (find_table(records, "corpus") if os.path.isdir(records) else None)
    entries = list(source.rows())
    if are_track_answers(entries):
        return _scaffold_track(file, source.path)
    published = read_published(entries, chosen or {})
    if not published.notes and not chosen and _are_traces(source.path):
        return _scaffold_traces(file, source.path, corpus)
    if published.columns.keys() >= {"id", "answer", "retrieved"} and not chosen:
        return _scaffold_by_id(file, source.path, published)
    user_columns, documents = published.mapping(chosen or {}), None
    if corpus is None:
        is_form = bool(published.notes)
        documents = pool_corpus(published.entries, user_columns, is_published=is_form)
    if published.documents and corpus is None and documents is None:
        corpus = source.path  # the passages stand beside the questions
    return _scaffold_table(file, source, corpus, published, chosen or {}, documents)


def _scaffold_table(
    file: Path,
    source: _Source,
    corpus: Path | None,
    published: Published,
    chosen: PartMap,
    documents: Corpus | None,
) -> tuple[str, Sequence[str], str]:
    """Return (YAML that reads a table of questions, notes on columns and corpus, next command)."""
    from ragbench.data.files.collection import read_corpus

    user_columns = published.mapping(chosen)
    if corpus is not None:
        documents = read_corpus(corpus)
    columns, doubts = _guess_columns(published.entries, source.path, documents, user_columns)
    is_system = not columns.keys().isdisjoint({"answer", "contexts", "retrieved"})
    systems, match, notes = "" if is_system else _template("corpus"), "", list[str]()
    if documents is not None:
        systems, match, notes = _systems_of_corpus(file, source, columns, corpus, documents)
    if columns.keys() >= {"retrieved", "relevant"}:
        match = match or _template("ids")
    if published.needs_all and _has_several(published.entries, columns.get("relevant")):
        match += _template("need")
    lines = []
    for part, column in columns.items():
        comment = f"  # {_PART_DESCRIPTIONS[part]}" if part in _PART_DESCRIPTIONS else ""
        lines.append(f"    {part}: {_scalar(column)}{comment}")
    text = (
        _template("records")
        .replace("@FILE@", str(file))
        .replace("@TYPE@", source.type)
        .replace("@PATH@", source.lines(file))
        .replace("@COLUMNS@", "\n".join(lines))
        .replace("@SYSTEMS@\n", systems or "\n")
        .replace("@APP@\n", _template("app"))
        .replace("@MATCH@\n", match)
    )
    needs_corpus = not is_system and documents is None
    # beside passages, an answer is that of a system; alone it may be gold
    is_answered = "answer" in published.columns or columns.keys() >= {"answer", "contexts"}
    needs_judge = is_answered and _GOLD_PARTS.isdisjoint(columns)
    if needs_judge:
        text = text.partition("# Left out, `metrics`")[0] + _template("judged")
        notes.append("no gold: a judge scores the answers; set its key or name another model")
    command = "validate" if needs_corpus or needs_judge else "run"
    notes = [*_column_notes(columns, needs_corpus, published), *doubts, *published.notes, *notes]
    return text, list(dict.fromkeys(notes)), command


def _has_several(entries: Sequence[Entry], column: str | None) -> bool:
    """Return True if a row has a list of several gold documents."""
    cells = [entry.values.get(column) for entry in entries] if column is not None else []
    return any(isinstance(cell, list) and len(cell) > 1 for cell in cells)


def _scaffold_by_id(file: Path, path: Path, published: Published) -> tuple[str, Sequence[str], str]:
    """Return (YAML that reads answers by query id, notes on the missing files, next command)."""
    text = _template("by_id").replace("@FILE@", str(file))
    paths = _scalar(_relative(path, file))
    answers = f"{len(published.entries):,} answers by query id, without questions"
    place = "put judgements and questions into dataset.qrels and dataset.topics"
    return text.replace("@PATH@", paths), [*published.notes, f"{answers}: {place}"], "validate"


@dataclass(frozen=True, slots=True)
class _Source:
    """Table of questions as a config names it: a file, or a split of a folder."""

    path: Path
    split: str | None = None  # of a folder with several tables

    @property
    def type(self) -> str:
        """Type of the loader in the config."""
        return "records" if self.split is None else "huggingface"

    def rows(self) -> Iterator[Entry]:
        """Return an iterator over the rows; raise as `read_table` does."""
        from ragbench.data.files.tables import read_table

        return read_table(self.path, "records", self.split)

    def loader(self, columns: PartMap, corpus: Path | None) -> TableLoader:
        """Return the loader that the config names."""
        from ragbench.data.loaders.records import HuggingFace, Records

        if self.split is None:
            return Records(path=self.path, columns=columns, corpus=corpus)
        path = str(self.path)
        return HuggingFace(path=path, split=self.split, columns=columns, corpus=corpus)

    def lines(self, file: Path) -> str:
        """Return the value of `path`, and the key `split` on a line of its own if there is one."""
        path = _scalar(_relative(self.path, file))
        return path if self.split is None else f"{path}\n  split: {_scalar(self.split)}"


def _find_source(records: Path) -> _Source:
    """Return the table of questions at a path: of a folder `qa`, or the split to score."""
    from ragbench.data.files.tables import find_table, find_tables, usual_split

    if not os.path.isdir(records):
        return _Source(records)
    if (table := find_table(records, "qa")) is not None:
        return _Source(table)
    tables = {name: files for name, files in find_tables(records).items() if name != "corpus"}
    split = usual_split(tables)
    if split is None or (len(tables) == 1 and tables[split][0] == records):
        return _Source(records)  # one table, or an error that names them all
    files = tables[split]
    return _Source(files[0]) if len(files) == 1 else _Source(records, split)


def _are_traces(path: Path) -> bool:
    """Return True for an export of traces, told by the keys of its first object."""
    from ragbench.data.loaders.traces import read_export
    from ragbench.data.traces.spans import detect_format

    if os.path.isdir(path):
        return False
    keys = next((entry.values for entry in read_export(path)), {})
    return "question" not in keys and detect_format(keys) is not None


def _scaffold_found_beir(file: Path, folder: Path) -> tuple[str, Sequence[str], str]:
    """Return (YAML for a folder in the layout of BEIR, notes on its sizes, next command)."""
    from ragbench.data.files.tables import usual_split
    from ragbench.data.loaders.beir import Beir

    splits = dict.fromkeys(Beir(path=folder).splits(), ())
    split = usual_split(splits) or next(iter(splits), "test")
    collection = Beir(path=folder, split=split).load()
    text = (
        _template("beir")
        .replace("@FILE@", str(file))
        .replace("path: @PATH@, split: test", f"path: @PATH@, split: {_scalar(split)}")
        .replace("@PATH@", _scalar(_relative(folder, file)))
        .replace("@APP@\n", _template("app"))
    )
    sizes = f"{len(collection.queries):,} queries of the split {split}"
    command = "validate" if collection.documents is None else "run"
    return text, [sizes, *collection.notes, *collection.warnings], command


def _scaffold_traces(
    file: Path, traces: Path, corpus: Path | None
) -> tuple[str, Sequence[str], str]:
    """Return (YAML that reads an export of traces, notes on how they were read, next command)."""
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


def _scaffold_track(file: Path, answers: Path) -> tuple[str, Sequence[str], str]:
    """Return (YAML that reads answers of TREC RAG, notes on how they were read, next command)."""
    from ragbench.data.loaders.trec_rag import TrecRag

    collection = TrecRag(answers=answers).load()
    text = (
        _template("trec_rag")
        .replace("@FILE@", str(file))
        .replace("@PATH@", _scalar(_relative(answers, file)))
    )
    return text, [f"runs: {', '.join(collection.recorded_answers)}", *collection.notes], "run"


def _guess_columns(
    entries: Sequence[Entry], records: Path, corpus: Corpus | None, user_columns: PartMap
) -> tuple[_PartColumns, list[str]]:
    """Return (part -> column, notes on other possible readings); `records` is for messages."""
    from ragbench.data.files.column_contents import ColumnContents
    from ragbench.data.files.columns import with_paths
    from ragbench.data.files.gold import DocumentNames
    from ragbench.data.files.pages import index_pages
    from ragbench.data.loaders.questions import kept_rows, map_columns

    rows = kept_rows(with_paths(entries, user_columns))
    names = None if corpus is None else DocumentNames(corpus.documents, corpus.folder)
    doubts: list[str] = []
    sample, resolved = map_columns(rows[:_SAMPLED_ROWS], user_columns, names, records, doubts)
    columns: _PartColumns = {**resolved}
    doubts += _remove_empty_gold(columns, rows, user_columns)
    has_pages = corpus is not None and bool(index_pages(corpus.documents))
    if "page" in columns and "page" not in user_columns and not has_pages:
        del columns["page"]
    present: dict[str, None] = {}
    for entry in sample:
        present |= dict.fromkeys(entry.values)
    free = []
    for column in present:
        if column not in columns.values():
            free.append(column)
    contents = ColumnContents(sample, names)
    if "relevant" not in columns:  # the cells decide: its name may be any
        doubts += _guess_gold(columns, free, contents)
    if not {"answer", "reference"} & set(user_columns):
        _settle_answer(columns, free, corpus is not None, records)
    free = [column for column in free if column not in columns.values()]
    doubts += _unread_notes(free, contents, columns)
    # the doubt about a bare `answer` is settled now, or was an error
    doubts = [doubt for doubt in doubts if not doubt.startswith("cannot tell")]
    return columns, doubts


def _guess_gold(columns: _PartColumns, free: Sequence[str], contents: ColumnContents) -> list[str]:
    """Add the column whose cells are ids of the corpus; without one, return notes on candidates."""
    for column in free:
        if contents.holds_ids(column):
            columns["relevant"] = column
            return []
    notes = []
    for column in free:
        n_known, total = contents.share_known(column)
        if n_known:
            notes.append(
                f"{n_known} of the {total} ids in column '{column}' are in the corpus; if they are "
                f"the gold documents, write relevant: {_scalar(column)}"
            )
    return notes


def _unread_notes(
    columns: Sequence[str], contents: ColumnContents, used_parts: Container[str]
) -> list[str]:
    """Return a note on filled columns that hold no part; it suggests a free part for one."""
    from ragbench.questions.base import is_of_questions

    unread = []
    for column in columns:
        if not is_of_questions(column, columns) and not contents.is_empty(column):
            unread.append(column)
    if not unread:
        return []
    examples = []
    for column in unread[:_MOST_EXAMPLES]:
        examples.append(f"{column} (such as {contents.example(column)})")
    more = [f"{len(unread) - _MOST_EXAMPLES} more"] if len(unread) > _MOST_EXAMPLES else []
    listed = ", ".join([*examples, *more])
    note = f"not recognised, kept as metadata: {listed}"
    for column in unread:
        if part := contents.likely_part(column, used_parts):
            return [f"{note}; if one is a part, --column {part}={_scalar(column)}"]
    free_parts = [part for part in _FURTHER_PARTS if part not in used_parts]
    if not free_parts:
        return [note]
    choice = f"PART={_scalar(unread[0])} (PART: {', '.join(free_parts)})"
    return [f"{note}; if one is a part, --column {choice}"]


def _remove_empty_gold(
    columns: _PartColumns, rows: Sequence[Entry], user_columns: PartMap
) -> list[str]:
    """Remove guessed columns of gold that are empty in every row; return a note for each, or []."""
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
    """Decide whether a column `answer` is gold or generated, and change `columns` to match."""
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
    file: Path, source: _Source, columns: _PartColumns, corpus: Path | None, documents: Corpus
) -> tuple[str, str, list[str]]:
    """Return (YAML of corpus and systems, the key `match` or '', notes)."""
    # without a path of the corpus, its documents stand in the rows
    collection = source.loader(columns, corpus).load()
    lengths = [len(document.text.split()) for document in documents.documents]
    median = int(statistics.median(lengths)) if lengths else 0
    is_long = median > _LONG_DOCUMENT
    text = (
        _template("chunks" if is_long else "documents")
        .replace("  corpus: @CORPUS@\n", "" if corpus is None else "  corpus: @CORPUS@\n")
        .replace("@CORPUS@", "" if corpus is None else _scalar(_relative(corpus, file)))
        .replace("@COUNT@", f"{len(lengths):,}")
        .replace("@WORDS@", f"{median:,}")
        .replace("@SIZE@", str(_CHUNK_SIZE))
        .replace("@OVERLAP@", str(_CHUNK_OVERLAP))
    )
    if collection.answers:
        text += _template("answers")
    # the notes on columns repeat those on the guess
    notes = []
    for note in collection.notes:
        if not note.startswith(_COLUMN_NOTES):
            notes.append(note)
    notes += collection.warnings
    if collection.qrels is None:
        notes.append("no gold documents: add a column with their ids, or with gold passages")
    match, match_notes = _match(collection, documents, str(columns.get("relevant")), source.path)
    cut = f", cut into chunks of {_CHUNK_SIZE} words" if is_long else ""
    notes.append("your own app or retriever comes next: see the lines with # in the config")
    notes.append(f"corpus: {len(lengths):,} documents, {median:,} words in the median{cut}")
    return text + "@APP@\n\n", match, [*notes, *match_notes]


def _match(
    collection: Collection, corpus: Corpus, column: str, records: Path
) -> tuple[str, list[str]]:
    """Return (key `match` or '', notes): gold ids are ids, or metadata values, of the corpus."""
    judged = [] if collection.qrels is None else list(dict.fromkeys(collection.qrels.documents))
    if not judged:
        return "", []
    ids = set(record_ids(corpus.documents))
    missing = []
    for name in judged:
        if name not in ids:
            missing.append(name)
    n_present = len(judged) - len(missing)
    if n_present:
        return "", [f"{n_present} of {len(judged)} gold documents are in the corpus"]
    values_by_key: dict[str, set[str]] = {}
    for document in corpus.documents:
        for key, value in document.metadata.items():
            values_by_key.setdefault(key, set()).add(str(value))
    for key, values in values_by_key.items():
        if values.issuperset(judged):
            match = _template("match").replace("@KEY@", _scalar(f"metadata.{key}"))
            return match, [f"gold documents are named by metadata.{key} of the corpus"]
    raise DataError(
        f"none of the {len(judged)} gold documents of '{column}' is in the corpus, such as "
        f"'{missing[0]}'",
        file=collection.gold_places.get(missing[0], str(records)),
        allowed=f"ids such as '{min(ids, default='')}'",
        nearest=nearest(missing[0], sorted(ids)),
    )


def _column_notes(columns: _PartColumns, needs_corpus: bool, published: Published) -> list[str]:
    """Return a note with all guessed columns, then notes on readings that the user may reverse."""
    parts = []
    for part, column in columns.items():
        names = column if isinstance(column, str) else " + ".join(column)
        description = f" ({_PART_DESCRIPTIONS[part]})" if part in _PART_DESCRIPTIONS else ""
        parts.append(f"{part} = {names}{description}")
    notes = [f"columns: {', '.join(parts)}"]
    is_known = "answer" in published.columns
    if "answer" in columns and "reference" not in columns and not is_known:
        answer = columns["answer"]
        notes.append(
            f"column '{answer}' is read as the answer of a system; "
            f"if it is the gold answer, write reference: {answer} instead of answer: {answer}"
        )
    is_known = "reference" in published.columns
    if columns.get("reference", "").strip().casefold() == "answer" and not is_known:
        notes.append(
            "column 'answer' is read as the gold answer; if a system wrote it, write answer: answer"
        )
    if needs_corpus:
        ids = f", with the ids in '{columns['relevant']}'" if "relevant" in columns else ""
        notes.append(f"put the documents that answer the questions into dataset.corpus{ids}")
    return notes


def _relative(path: Path, file: Path) -> str:
    """Return a path relative to the folder of a file, with `/`."""
    return os.path.relpath(path, file.parent).replace(os.sep, "/")


def _template(name: str) -> str:
    return files("ragbench.config").joinpath(f"templates/{name}.yaml").read_text("utf-8")


def _scalar(text: str) -> str:
    """Return a text as YAML reads it back: in quotes where it needs them, `${` escaped."""
    if _PLAIN_SCALAR.fullmatch(text) and text.casefold() not in _YAML_WORDS:
        return text
    return json.dumps(text.replace("${", "$${"), ensure_ascii=False)
