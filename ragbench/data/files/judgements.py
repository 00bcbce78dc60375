"""Judgements from files, with their lines: TREC qrels, BEIR's table with a header, and nuggets.

Nuggets are JSON lines as the TREC RAG track and AutoNuggetizer write them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from ragbench.data.files.lines import (
    Source,
    WholeLines,
    opened,
    read_lines,
    reader,
    source_name,
    wrong_columns,
)
from ragbench.data.files.rows import ID_ALLOWED, Entry, id_problem, read_jsonl
from ragbench.data.files.trec_text import read_integers, separators
from ragbench.errors import DataError
from ragbench.registry import nearest, shown
from ragbench.types import IntArray, Qrels
from ragbench.types.byte_ids import ByteIds, TextIds, joined_bytes, keep_freed_memory, query_keys
from ragbench.types.checks import LARGEST_GRADE
from ragbench.types.records import ASSIGNMENTS, IMPORTANCES, Nugget
from ragbench.types.rows import Repeats

_INTEGER = re.compile(rb"[+-]?[0-9]+")
_TREC = "query iteration document grade"
_BEIR = "query-id corpus-id score"
_NEAREST_LIMIT = 50_000  # looking for the nearest of more ids would take seconds
_SHOWN = 5
_CHUNK_BYTES = 1 << 20
_ROWS_AT_ONCE = 1 << 15
_KEYS = ("text", "importance", "assignment")
_WORDS = {"importance": IMPORTANCES, "assignment": ASSIGNMENTS}


@dataclass(slots=True)
class Judgements:
    """Grades by query and document, and where each was read.

    Attributes:
        grades: Query -> document -> grade.
        folded: Judgements of a pair under a further subtopic; the best grade of a pair counts.
        topics: (query, document, subtopic) -> grade; empty where the file has no subtopics.
    """

    file: str
    grades: dict[str, dict[str, int]] = field(default_factory=dict)
    lines: dict[tuple[str, str], int] = field(default_factory=dict)
    folded: int = 0
    topics: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def qrels(self) -> Qrels:
        """Return the grades as qrels, with their subtopics where there are any."""
        qrels = Qrels.from_dict(self.grades)
        if not self.topics:
            return qrels
        nested: dict[str, dict[str, dict[str, int]]] = {}
        for (query, document, topic), grade in self.topics.items():
            nested.setdefault(query, {}).setdefault(document, {})[topic] = grade
        return replace(qrels, subtopics=nested)

    def notes(self) -> list[str]:
        """Say what a reader of the scores should know about the judgements."""
        notes = []
        if self.folded:
            what = "judgements of a pair under a further subtopic, of which the best grade counts"
            notes.append(f"{what}: {self.folded}")
        negative = sum(grade < 0 for judged in self.grades.values() for grade in judged.values())
        if negative:
            notes.append(f"judgements with a negative grade, which gain nothing: {negative}")
        return notes

    def require_queries(self, known: Iterable[str], where: str) -> None:
        """Raise a `DataError` if a judged query is not known."""
        known = set(known)
        missing = {q: next(iter(docs)) for q, docs in self.grades.items() if q not in known}
        first = [(self.lines[query, doc], query) for query, doc in missing.items()]
        if first:
            raise dangling(self.file, first, known, where)


def dangling(
    file: str, missing: Iterable[tuple[int, str]], known: set[str], where: str
) -> DataError:
    """Return the error for queries that are not there: the first with its line, then some more."""
    first: dict[str, int] = {}
    for line, name in sorted(missing):
        first.setdefault(name, line)
    (name, line), *others = first.items()
    found = f"query '{name}' is not in {where}"
    if others:
        shown = ", ".join(f"'{other}' (line {at})" for other, at in others[: _SHOWN - 1])
        rest = len(others) - _SHOWN + 1
        found += f"; {len(others)} more: {shown}{f' and {rest} others' if rest > 0 else ''}"
    close = nearest(name, sorted(known)) if len(known) <= _NEAREST_LIMIT else None
    return DataError(found, file=file, line=line, nearest=close)


def merge_judgements(parts: Sequence[Judgements]) -> Judgements:
    """Return the judgements of several files as one; a pair must have one grade in all of them."""
    if len(parts) == 1:
        return parts[0]
    merged = Judgements(", ".join(part.file for part in parts))
    for part in parts:
        merged.folded += part.folded
        for (query, document), line in part.lines.items():
            grade = part.grades[query][document]
            before = merged.grades.setdefault(query, {}).setdefault(document, grade)
            if before != grade:
                what = f"document '{document}' of query '{query}' has grade {grade} here"
                found = f"{what} and {before} in another split"
                raise DataError(found, file=part.file, line=line)
            merged.lines.setdefault((query, document), line)
        merged.topics.update(part.topics)
    return merged


def read_judgements(source: Source, *, beir: bool = False) -> Judgements:
    """Read TREC qrels, or the BEIR table, which its header `query-id corpus-id score` tells.

    TREC: `query iteration document grade` between any white space; ids are bytes, and those that
    are not UTF-8 come back as such when written; a line that starts with '#' is a comment; an
    iteration that changes within the file is the subtopic of TREC's diversity tasks. BEIR: tabs,
    UTF-8, an optional column `subtopic`; with `beir` the header may be missing. Blank lines are
    skipped.
    """
    found = Judgements(source_name(source))
    topics: dict[tuple[str, str, bytes], int] = {}
    header = False
    for number, line in read_lines(source):
        if not line.strip() or (not beir and line.startswith(b"#")):
            continue
        if not found.lines and not header and line.split()[:3] == _BEIR.encode().split():
            beir = header = True
            continue
        split = _beir_fields if beir else _trec_fields
        query, document, grade, subtopic = split(line, found.file, number)
        _add(found, (query, document), _grade(grade, found.file, number), number)
        if (query, document, subtopic) in topics:
            first = found.lines[query, document]
            what = (
                f"document '{document}' of query '{query}' is judged twice, first at line {first}"
            )
            raise DataError(what, file=found.file, line=number)
        topics[query, document, subtopic] = int(grade)
    if not found.lines:
        raise DataError("no judgements", file=found.file, allowed=_BEIR if beir else _TREC)
    # the iteration of TREC qrels that never changes names no subtopic
    if beir or len({topic for _, _, topic in topics}) > 1:
        found.topics = {(q, d, trec_id(t)): grade for (q, d, t), grade in topics.items() if t}
    return found


def _add(found: Judgements, pair: tuple[str, str], grade: int, line: int) -> None:
    query, document = pair
    judged = found.grades.setdefault(query, {})
    if document in judged:
        found.folded += 1
        judged[document] = max(judged[document], grade)
    else:
        judged[document] = grade
        found.lines[pair] = line


def _trec_fields(line: bytes, file: str, number: int) -> tuple[str, str, bytes, bytes]:
    fields = line.split()
    if len(fields) != 4:
        raise wrong_columns(fields, line, "4", _TREC, file, number)
    query, subtopic, document, grade = fields
    return trec_id(query), trec_id(document), grade, subtopic


def _beir_fields(line: bytes, file: str, number: int) -> tuple[str, str, bytes, bytes]:
    fields = [part.strip() for part in line.rstrip(b"\r\n").split(b"\t")]
    if len(fields) not in (3, 4):
        expected = "3 between tabs, or 4 with a subtopic"
        raise wrong_columns(fields, line, expected, _BEIR, file, number)
    query, document = _utf8_ids(fields[:2], file, number)
    return query, document, fields[2], b"".join(fields[3:])


def _utf8_ids(fields: Iterable[bytes], file: str, number: int) -> Iterator[str]:
    """Decode ids that stand beside JSON files, whose text is UTF-8."""
    for raw, column in zip(fields, _BEIR.split(), strict=False):
        try:
            name = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"bad UTF-8 in {column}: {raw!r}", file=file, line=number) from error
        if why := id_problem(name):
            raise DataError(f"{column} {why}: {name!r}", file=file, line=number, allowed=ID_ALLOWED)
        yield name


def _grade(text: bytes, file: str, number: int) -> int:
    if not _INTEGER.fullmatch(text) or len(text) > 20 or abs(int(text)) > LARGEST_GRADE:
        shown = text[:40].decode("utf-8", "backslashreplace")
        allowed = f"an integer from {-LARGEST_GRADE} to {LARGEST_GRADE}"
        raise DataError(f"grade '{shown}'", file=file, line=number, allowed=allowed)
    return int(text)


def trec_id(raw: bytes) -> str:
    """Decode an id whose bytes may be anything; encoding with `surrogateescape` gives them back."""
    return raw.decode("utf-8", "surrogateescape")


def read_nuggets(path: Path) -> dict[str, tuple[Nugget, ...]]:
    """Read query id -> nuggets.

    A line has `qid` (or `query_id`), `query` for people, and `nuggets`: a list of `text`,
    `importance` (vital or okay) and, in files about answers, `assignment`. A file of assignments
    has a line for each answer to a query: their nuggets must be the same ones.

    Raises:
        DataError: Something is not of this form; names the line and the nugget.
    """
    found: dict[str, tuple[Nugget, ...]] = {}
    for entry in read_jsonl(path):
        query = entry.id("query_id" if "query_id" in entry.values else "qid")
        listed = entry.field("nuggets")
        if not isinstance(listed, list):
            raise entry.error(f"'nuggets' is {shown(listed)}", allowed="a list of nuggets")
        nuggets = tuple(_nugget(entry, n, each) for n, each in enumerate(listed, start=1))
        texts = [nugget.text for nugget in nuggets]
        if repeated := next((text for text in texts if texts.count(text) > 1), None):
            raise entry.error(f"nugget {shown(repeated)} comes twice", allowed="each nugget once")
        before = found.setdefault(query, nuggets)
        if [nugget[:2] for nugget in before] != [nugget[:2] for nugget in nuggets]:
            allowed = "one list of nuggets for each query"
            raise entry.error(
                f"query '{query}' has other nuggets on an earlier line", allowed=allowed
            )
    return found


def _nugget(entry: Entry, number: int, value: object) -> Nugget:
    if not isinstance(value, dict):
        allowed = '{"text": "...", "importance": "vital"}'
        raise entry.error(f"nugget {number} is {shown(value)}", allowed=allowed)
    for key in _KEYS[:2]:
        if key not in value:
            near = nearest(key, value)
            raise entry.error(
                f"nugget {number} has no '{key}'", allowed=", ".join(_KEYS), near=near
            )
    text = value["text"]
    if not isinstance(text, str) or not text.strip():
        raise entry.error(f"nugget {number}: text is {shown(text)}", allowed="a text")
    for key, words in _WORDS.items():
        if (given := value.get(key)) is not None and given not in words:
            close = nearest(given, words) if isinstance(given, str) else None
            found = f"nugget {number}: {key} is {shown(given)}"
            raise entry.error(found, allowed=", ".join(words), near=close)
    if value["importance"] is None:
        raise entry.error(f"nugget {number}: importance is null", allowed=", ".join(IMPORTANCES))
    return Nugget(text, value["importance"], value.get("assignment"))


def read_regular_qrels(path: str | os.PathLike[str]) -> Qrels | None:
    """Read TREC qrels with one space or tab between four columns; some 0.2 s a million lines.

    None where anything is not regular, where a pair is judged twice, and where the second column
    changes: what reads line by line can tell what it is, and whether it is wrong.
    """
    keep_freed_memory()
    columns = _Columns()
    try:
        with opened(path, os.fspath(path)) as stream:
            lines = WholeLines(reader(stream), os.fspath(path))
            while not lines.at_end:
                if not columns.add(b"".join(lines.pieces(_CHUNK_BYTES))):
                    return None
    except DataError:
        return None
    return columns.qrels()


class _Columns:
    """The columns of qrels, chunk by chunk."""

    def __init__(self) -> None:
        self._query_ids: list[str] = []
        self._starts: list[int] = []
        self._documents: list[TextIds] = []
        self._grades: list[IntArray] = []
        self._n_rows = 0
        self._iteration = b""

    def add(self, text: bytes) -> bool:
        """Add whole lines; return whether they are regular."""
        if not text:
            return True
        if b"\r" in text:
            text = text.replace(b"\r\n", b"\n")
        data = joined_bytes([text])
        table = separators(data, data[: len(text)] <= ord(" "), 4)
        if table is None:
            return False
        starts = np.concatenate((np.zeros(1, np.int64), table[:-1, -1] + 1))
        grades = read_integers(data, table[:, 2] + 1, table[:, 3])
        if grades is None or (data[starts] == ord("#")).any():
            return False
        second = table[:, 0] + 1
        iterations = ByteIds(data, second, table[:, 1] - second)
        self._iteration = self._iteration or iterations[0]
        # where it changes, it may name subtopics
        if iterations[0] != self._iteration or iterations.differ_from_last().any():
            return False
        self._add_queries(ByteIds(data, starts, table[:, 0] - starts))
        first = table[:, 1] + 1
        self._documents.append(TextIds.of(ByteIds(data, first, table[:, 2] - first)))
        self._grades.append(grades)
        self._n_rows += len(grades)
        return True

    def _add_queries(self, ids: ByteIds) -> None:
        """Note where queries start; the first may be the last one of the chunk before."""
        first = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(ids.differ_from_last()) + 1))
        names = TextIds.of(ids.take(first))[:]
        n_old = int(self._query_ids[-1:] == names[:1])
        self._query_ids += names[n_old:]
        self._starts += (first[n_old:] + self._n_rows).tolist()

    def qrels(self) -> Qrels | None:
        """Return what was added; None where a query or a pair came up again."""
        if not self._n_rows or len(set(self._query_ids)) < len(self._query_ids):
            return None
        starts = np.array([*self._starts, self._n_rows], np.int64)
        documents, grades = TextIds.joined(self._documents), np.concatenate(self._grades)
        qrels = Qrels(tuple(self._query_ids), starts, documents, grades)
        hashes, repeats = qrels.document_hashes, Repeats()
        # some whole queries at a time, whose table stays in the cache of a core
        cuts = np.searchsorted(starts, np.arange(0, self._n_rows, _ROWS_AT_ONCE)).tolist()
        for first, end in pairwise([*cuts, len(starts) - 1]):
            query = np.repeat(np.arange(end - first), np.diff(starts[first : end + 1]))
            if len(repeats.suspects(query_keys(hashes[starts[first] : starts[end]], query))):
                return None
        return qrels
