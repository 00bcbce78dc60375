"""Judgements from files: TREC qrels, the qrels table of BEIR, and nuggets.

`read_judgements` reads line by line and keeps the line of each judgement for messages;
`read_uniform_qrels` reads plain TREC qrels by columns, much faster. Nuggets are JSON lines as the
TREC RAG track and AutoNuggetizer write them.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from pathlib import Path

import numpy as np

from ragbench.data.files import lines
from ragbench.data.files.rows import ID_ALLOWED, Entry, id_problem, read_jsonl
from ragbench.data.files.run_forms import is_json, read_nested
from ragbench.data.files.trec_text import read_integers, separators
from ragbench.errors import DataError
from ragbench.registry import nearest, quote
from ragbench.types import IntArray, Qrels, tables
from ragbench.types.byte_ids import ByteIds, TextIds, joined_bytes, keep_freed_memory, query_keys
from ragbench.types.checks import LARGEST_GRADE
from ragbench.types.json_fields import Record
from ragbench.types.records import Nugget
from ragbench.types.rows import repeated_rows

_INTEGER = re.compile(rb"[+-]?[0-9]+")
_DECIMAL = re.compile(rb"-?\d{1,20}\.\d{0,20}")
_TREC = "query iteration document grade"
_BEIR = "query-id corpus-id score"
# to look for the nearest of more ids would take seconds
_NEAREST_LIMIT = 50_000
_LISTED = 5
_CHUNK_BYTES = 1 << 20
_ROWS_AT_ONCE = 1 << 15


@dataclass(slots=True)
class QrelsTable:
    """Grades of one qrels file by query and document, with the line of each judgement.

    `read_judgements` makes it; queries and documents are in the order of the file. `qrels()`
    returns the grades as `Qrels`, `notes()` sentences for the user; `require_queries` raises a
    DataError if a judged query is none of some ids.

    Attributes:
        file: Name of the file, for messages.
        grades: Query -> document -> grade.
        lines: (query, document) -> line of its first judgement.
        folded: Number of judgements of a pair beyond its first, under further subtopics; the best
            grade of a pair counts.
        topics: (query, document, subtopic) -> grade; empty where the file has no subtopics.
    """

    file: str
    grades: dict[str, dict[str, int]] = field(default_factory=dict)
    lines: dict[tuple[str, str], int] = field(default_factory=dict)
    folded: int = 0
    topics: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def qrels(self) -> Qrels:
        """Return the grades as `Qrels` in the file's order, with subtopics if it has any."""
        qrels = Qrels.from_dict(self.grades)
        if not self.topics:
            return qrels
        nested: dict[str, dict[str, dict[str, int]]] = {}
        for (query, document, topic), grade in self.topics.items():
            nested.setdefault(query, {}).setdefault(document, {})[topic] = grade
        return replace(qrels, subtopics=nested)

    def notes(self) -> list[str]:
        """Return a note on folded and one on negative judgements."""
        notes = []
        if self.folded:
            note = "judgements that repeat a pair under another subtopic, whose best grade counts"
            notes.append(f"{note}: {self.folded}")
        negative = sum(grade < 0 for judged in self.grades.values() for grade in judged.values())
        if negative:
            notes.append(
                f"judgements with a negative grade, which count as not relevant: {negative}"
            )
        return notes

    def require_queries(self, query_ids: Iterable[str], where: str) -> None:
        """Check that all judged queries are among `query_ids`.

        Without judgements there is nothing to check.

        Raises:
            DataError: A judged query is missing; names its line, the nearest id and further missing
                queries. `where` names the file with the queries.
        """
        query_ids = set(query_ids)
        missing = []
        for query, grades in self.grades.items():
            if query not in query_ids:
                missing.append((self.lines[query, next(iter(grades))], query))
        if missing:
            raise unknown_query(self.file, missing, query_ids, where)


def unknown_query(
    file: str, missing: Iterable[tuple[int, str]], query_ids: set[str], where: str
) -> DataError:
    """Return the error for queries of a file that are not in the data set, with the first line.

    It lists up to 4 further queries, and the nearest id if there are at most 50,000 queries.

    Args:
        file: File that names the queries, such as qrels or gold answers.
        missing: (line, query) of every missing query; at least one.
        query_ids: Queries of the data set, to suggest the nearest one.
        where: File with the queries of the data set.
    """
    first_lines: dict[str, int] = {}
    for line, name in sorted(missing):
        first_lines.setdefault(name, line)
    (name, line), *further = first_lines.items()
    problem = f"query '{name}' is not in {where}"
    if further:
        places = ", ".join(f"'{query}' (line {n})" for query, n in further[: _LISTED - 1])
        n_unlisted = len(further) - _LISTED + 1
        problem += f"; {len(further)} more missing: {places}"
        problem += f" and {n_unlisted} others" if n_unlisted > 0 else ""
    close = nearest(name, sorted(query_ids)) if len(query_ids) <= _NEAREST_LIMIT else None
    return DataError(problem, file=file, line=line, nearest=close)


def merge_judgements(files: Sequence[QrelsTable]) -> QrelsTable:
    """Return the judgements of several files, such as all splits, as one; one file as it is.

    A pair in several files keeps its first line.

    Raises:
        DataError: Two files grade one pair of query and document differently.
    """
    if len(files) == 1:
        return files[0]
    merged = QrelsTable(", ".join(file.file for file in files))
    for file in files:
        merged.folded += file.folded
        for (query, document), line in file.lines.items():
            grade = file.grades[query][document]
            first_grade = merged.grades.setdefault(query, {}).setdefault(document, grade)
            if first_grade != grade:
                pair = f"document '{document}' of query '{query}'"
                problem = f"{pair} has grade {grade} here and {first_grade} in another split"
                raise DataError(problem, file=file.file, line=line)
            merged.lines.setdefault((query, document), line)
        merged.topics.update(file.topics)
    return merged


def read_judgements(source: lines.Source, *, beir: bool = False) -> QrelsTable:
    """Read TREC qrels, or the qrels table of BEIR, and remember the line of each judgement.

    A file .json has the grades of ranx and BEIR, {query: {document: grade}}; their line is 1.

    A header `query-id corpus-id score`, in lower case, before the first judgement tells a BEIR
    table.

    A line of TREC is `query iteration document grade` between any white space. Bytes of an id that
    are not UTF-8 become surrogates (`surrogateescape`). A line that starts with '#' is a comment.
    An iteration that changes within the file is the subtopic of TREC's diversity tasks.

    BEIR: columns between tabs, in UTF-8, with an optional column `subtopic`; with `beir` the header
    may be missing. Blank lines are skipped in both.

    Raises:
        DataError: The file cannot be read, a line is wrong, or a pair is judged twice; the message
            has the line.
    """
    judgements = QrelsTable(lines.source_name(source))
    if is_json(source):
        return _nested_judgements(judgements, Path(judgements.file))
    topics: dict[tuple[str, str, bytes], int] = {}
    has_header = False
    for number, line in lines.read_lines(source):
        if not line.strip() or (not beir and line.startswith(b"#")):
            continue
        if not judgements.lines and not has_header and line.split()[:3] == _BEIR.encode().split():
            beir = has_header = True
            continue
        # only now: the header may just have shown that this is a BEIR table
        read_fields = _beir_fields if beir else _trec_fields
        query, document, grade, subtopic = read_fields(line, judgements.file, number)
        _add(judgements, (query, document), _grade(grade, judgements.file, number), number)
        if (query, document, subtopic) in topics:
            first_line = judgements.lines[query, document]
            pair = f"document '{document}' of query '{query}'"
            problem = f"{pair} is judged twice, first at line {first_line}"
            raise DataError(problem, file=judgements.file, line=number)
        topics[query, document, subtopic] = int(grade)
    if not judgements.lines:
        allowed = f"lines with {_BEIR if beir else _TREC}"
        raise DataError("no judgements", file=judgements.file, allowed=allowed)
    # the iteration of TREC qrels that never changes names no subtopic
    if beir or len({topic for _, _, topic in topics}) > 1:
        judgements.topics = {(q, d, trec_id(t)): grade for (q, d, t), grade in topics.items() if t}
    return judgements


def judgements_of_rows(entries: Iterable[Entry], file: str) -> QrelsTable:
    """Return the judgements of a table with the columns `query-id`, `corpus-id` and `score`.

    Other usual names of these columns are read, too. A row counts as a line of the file.

    Raises:
        DataError: The table cannot be read, a row is wrong, or a pair is judged twice; the message
            has the row.
        MissingExtra: A Parquet file without the extra `parquet`.
    """
    judgements = QrelsTable(file)
    for number, entry in enumerate(entries, start=1):
        keys = [_column(entry, names) for names in (tables.QUERY, tables.DOCUMENT, tables.GRADE)]
        pair = entry.id(keys[0]), entry.id(keys[1])
        grade = _grade(_digits(entry.field(keys[2])), file, entry.line or number)
        if pair in judgements.lines:
            problem = f"document '{pair[1]}' of query '{pair[0]}' is judged twice"
            raise entry.error(f"{problem}, first at line {judgements.lines[pair]}")
        _add(judgements, pair, grade, entry.line or number)
    return judgements


def _column(entry: Entry, names: Sequence[str]) -> str:
    """Return the first of some columns that a row has; raise a `DataError` without one."""
    column = next(iter(tables.columns_named([*entry.values], names)), None)
    if column is None:
        present = ", ".join(entry.values) or "none"
        raise entry.error(f"no column of judgements (columns: {present})", allowed=", ".join(names))
    return column


def _nested_judgements(judgements: QrelsTable, path: Path) -> QrelsTable:
    """Add the grades of a JSON file; raise a `DataError` for another form or a wrong grade."""
    for query, row in read_nested(path).items():
        for document, number in row.items():
            grade = _grade(_digits(number), judgements.file, 1)
            _add(judgements, (query, document), grade, 1)
    if not judgements.lines:
        raise DataError("no judgements", file=path, allowed="{query id: {document id: grade}}")
    return judgements


def _digits(value: object) -> bytes:
    """Return the text of a grade; a whole float becomes an integer."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).encode()


def _add(judgements: QrelsTable, pair: tuple[str, str], grade: int, line: int) -> None:
    """Add a judgement; of a pair with several, the first line and the best grade stay."""
    query, document = pair
    grades = judgements.grades.setdefault(query, {})
    if document in grades:
        judgements.folded += 1
        grades[document] = max(grades[document], grade)
    else:
        grades[document] = grade
        judgements.lines[pair] = line


def _trec_fields(line: bytes, file: str, number: int) -> tuple[str, str, bytes, bytes]:
    """Return (query, document, grade, subtopic) of a line; the last two as bytes."""
    fields = line.split()
    if len(fields) != 4:
        raise lines.wrong_columns(fields, line, "4", _TREC, file, number)
    query, subtopic, document, grade = fields
    return trec_id(query), trec_id(document), grade, subtopic


def _beir_fields(line: bytes, file: str, number: int) -> tuple[str, str, bytes, bytes]:
    """Return (query, document, grade, subtopic) of a line; the last two as bytes."""
    fields = [cell.strip() for cell in line.rstrip(b"\r\n").split(b"\t")]
    if len(fields) not in (3, 4):
        expected = "3 between tabs, or 4 with a subtopic"
        raise lines.wrong_columns(fields, line, expected, _BEIR, file, number)
    query, document = _utf8_ids(fields[:2], file, number)
    return query, document, fields[2], b"".join(fields[3:])


def _utf8_ids(fields: Iterable[bytes], file: str, number: int) -> Iterator[str]:
    """Yield ids as text."""
    for raw, column in zip(fields, _BEIR.split(), strict=False):
        try:
            name = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"bad UTF-8 in {column}: {raw!r}", file=file, line=number) from error
        if why := id_problem(name):
            raise DataError(f"{column} {why}: {name!r}", file=file, line=number, allowed=ID_ALLOWED)
        yield name


def _grade(text: bytes, file: str, number: int) -> int:
    """Return the grade; raise a `DataError` if it is no integer or its size exceeds the limit."""
    # int() refuses more than 4,300 digits with an error of its own
    if not _INTEGER.fullmatch(text) or len(text) > 20 or abs(int(text)) > LARGEST_GRADE:
        quote = text[:40].decode("utf-8", "backslashreplace")
        allowed = f"an integer from {-LARGEST_GRADE} to {LARGEST_GRADE}"
        if _DECIMAL.fullmatch(text):
            grade = float(text)
            of_all = f"{10 * grade:.0f}, and 10 times all other grades"
            allowed += f"; write {int(grade) if grade.is_integer() else of_all}"
        raise DataError(f"grade '{quote}'", file=file, line=number, allowed=allowed)
    return int(text)


def trec_id(raw: bytes) -> str:
    """Decode an id; `surrogateescape` keeps bytes that are not UTF-8, for encoding them back."""
    return raw.decode("utf-8", "surrogateescape")


# Keys of a topic: those of nuggets and of the TREC RAG track.
_TOPIC_KEYS = ("query_id", "qid", "topic_id", "narrative_id")


def topic_of(entry: Entry, usual: str = "qid") -> str:
    """Return the id of the topic of a line, under any key of TREC RAG.

    Raises a DataError that names the key `usual` if there is none.
    """
    return entry.id(next((key for key in _TOPIC_KEYS if key in entry.values), usual))


def read_nuggets(path: Path) -> dict[str, tuple[Nugget, ...]]:
    """Read the nuggets of each query from JSON lines, as query id -> nuggets.

    A line has `qid` (or `query_id`), `query` for people, and `nuggets`: a list of objects with
    `text`, `importance` (`vital` or `okay`) and, in files about answers, `assignment`. A file of
    assignments has a line for each answer to a query; all lines of a query must have the same
    nuggets. Of several lines of a query, the nuggets of the first line count; their assignments are
    those of that line. Queries are in the order of the file. An empty list of nuggets gives ().

    Raises:
        DataError: The file cannot be read, a nugget is wrong or repeated, or two lines of a query
            differ.
    """
    nuggets_by_query: dict[str, tuple[Nugget, ...]] = {}
    for _, query, nuggets in read_nugget_lines([path]):
        nuggets_by_query.setdefault(query, nuggets)
    return nuggets_by_query


def read_nugget_lines(paths: Iterable[Path]) -> Iterator[tuple[Entry, str, tuple[Nugget, ...]]]:
    """Yield (line, query id, nuggets) of each line of nuggets, as `read_nuggets` reads them.

    All lines of a query, also in several files, have the same nuggets; else a DataError.
    """
    facts_by_query: dict[str, list[tuple[str, str]]] = {}
    for entry in chain.from_iterable(map(read_jsonl, paths)):
        query = topic_of(entry)
        nuggets = entry.as_record(NuggetLine).nuggets
        # without the assignment, which differs from answer to answer
        facts: list[tuple[str, str]] = [(nugget.text, nugget.importance) for nugget in nuggets]
        for text, n in Counter(text.strip() for text, _ in facts).items():
            if not text or n > 1:
                problem = f"nugget {quote(text)} is empty or repeated"
                raise entry.error(problem, allowed="each nugget once, as text")
        if facts != facts_by_query.setdefault(query, facts):
            allowed = "the same nuggets, in the same order, on every line of a query"
            problem = f"query '{query}' has other nuggets on an earlier line"
            raise entry.error(problem, allowed=allowed)
        yield entry, query, nuggets


class NuggetLine(Record):
    """Nuggets in a line of a file of nuggets, without the id and the text of its query.

    `entry.as_record(NuggetLine)` reads it, or raises a DataError for nuggets of another form.
    """

    nuggets: tuple[Nugget, ...]


def read_uniform_qrels(path: str | os.PathLike[str]) -> Qrels | None:
    """Read TREC qrels with one space or tab between four columns, some 0.2 s a million lines.

    No error is raised for the file: return None if it cannot be read, is empty, or has any other
    form: a pair judged twice, a comment, another number of columns, a grade that is no short
    integer, or a second column that changes. `read_judgements` then reads it line by line, and says
    what is wrong where something is.
    """
    keep_freed_memory()
    columns = _QrelsColumns()
    try:
        with lines.opened(path, os.fspath(path)) as stream:
            text = lines.WholeLines(lines.reader(stream), os.fspath(path))
            while not text.at_end:
                if not columns.add(b"".join(text.pieces(_CHUNK_BYTES))):
                    return None
    except DataError:
        return None
    return columns.qrels()


class _QrelsColumns:
    """Columns of TREC qrels: `add` fills them chunk by chunk, `qrels` returns the whole."""

    def __init__(self) -> None:
        self._query_ids: list[str] = []
        self._starts: list[int] = []
        self._documents: list[TextIds] = []
        self._grades: list[IntArray] = []
        self._n_rows = 0
        self._iteration = b""

    def add(self, text: bytes) -> bool:
        """Add whole lines; return False unless all have the uniform form."""
        if not text:
            return True
        # the separators below are single bytes; a lone \r stays, and fails as white space
        if b"\r" in text:
            text = text.replace(b"\r\n", b"\n")
        data = joined_bytes([text])
        table = separators(data, data[: len(text)] <= ord(" "), 4)
        if table is None:
            return False
        starts = np.concatenate((np.zeros(1, np.int64), table[:-1, -1] + 1))
        grades = read_integers(data, table[:, 2] + 1, table[:, 3])
        # a line that starts with # may be a comment of four words
        if grades is None or (data[starts] == ord("#")).any():
            return False
        iteration_starts = table[:, 0] + 1
        iterations = ByteIds(data, iteration_starts, table[:, 1] - iteration_starts)
        self._iteration = self._iteration or iterations[0]
        # an iteration that changes may be the subtopic of a diversity task
        if iterations[0] != self._iteration or iterations.differ_from_last().any():
            return False
        self._add_queries(ByteIds(data, starts, table[:, 0] - starts))
        first = table[:, 1] + 1
        self._documents.append(TextIds.of(ByteIds(data, first, table[:, 2] - first)))
        self._grades.append(grades)
        self._n_rows += len(grades)
        return True

    def _add_queries(self, ids: ByteIds) -> None:
        """Add each query with its first row; the first may continue that of the last chunk."""
        rows = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(ids.differ_from_last()) + 1))
        names = TextIds.of(ids.take(rows))[:]
        n_continued = int(self._query_ids[-1:] == names[:1])
        self._query_ids += names[n_continued:]
        self._starts += (rows[n_continued:] + self._n_rows).tolist()

    def qrels(self) -> Qrels | None:
        """Return the qrels; None without any, or where a query or a judged pair comes again."""
        if not self._n_rows or len(set(self._query_ids)) < len(self._query_ids):
            return None
        starts = np.array([*self._starts, self._n_rows], np.int64)
        documents, grades = TextIds.joined(self._documents), np.concatenate(self._grades)
        qrels = Qrels(tuple(self._query_ids), starts, documents, grades)
        hashes = qrels.document_hashes
        # whole queries, few at a time, so that their keys stay in the cache of a core
        cuts = np.searchsorted(starts, np.arange(0, self._n_rows, _ROWS_AT_ONCE)).tolist()
        for start, end in pairwise([*cuts, len(starts) - 1]):
            query = np.repeat(np.arange(end - start), np.diff(starts[start : end + 1]))
            if len(repeated_rows(query_keys(hashes[starts[start] : starts[end]], query))):
                return None
        return qrels
