"""Parses the text of run files and qrels, whole lines at a time: quickly where it is regular."""

from __future__ import annotations

import os
from dataclasses import dataclass
from io import BytesIO

import numpy as np
from numpy.typing import NDArray

from ragbench.data.files.judgements import wrong_columns
from ragbench.data.files.lines import WholeLines, nul_byte, opened, reader
from ragbench.data.trec.decimals import read_decimals, read_integers, read_number
from ragbench.errors import DataError
from ragbench.types import IntArray, Qrels
from ragbench.types.byte_ids import ByteArray, ByteIds, HashArray, TextIds, joined_bytes, query_keys
from ragbench.types.rows import HitBlock

_SPACE, _TAB, _NEWLINE = (ord(character) for character in " \t\n")

Positions = NDArray[np.int64]
COLUMNS = "query Q0 document rank score tag"
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class ParsedText:
    """Lines of a run, as columns and with their place in the text."""

    block: HitBlock
    """The hits; a query whose lines are apart is there more than once."""
    lines: Positions
    """Shape (n + 1,): where each line starts."""
    tag: bytes
    """The last field of the last line; empty where there is none."""

    def text_from(self, query: int) -> bytes:
        """Return the text from the lines of a query on."""
        start, end = int(self.lines[self.block.starts[query]]), int(self.lines[-1])
        return self.block.documents.data[start:end].tobytes()


def parse_regular(text: list[bytes]) -> ParsedText | None:
    """Parse whole lines of six fields with one space or tab between them.

    None where a line is not like that, is a comment, or has a score that is no number. Some 0.1 s a
    million lines; memory is some 6 times the text.
    """
    data = joined_bytes(text)
    n_bytes = len(data) - 8
    table = separators(data, data[:n_bytes] <= _SPACE, 6)
    if table is None:
        return None
    lines = _line_starts(table)
    parsed = _columns(data, table, lines)
    if parsed is None or any(query.startswith(b"#") for query in parsed.block.query_ids):
        return None
    return parsed


def parse_written(text: list[bytes]) -> ParsedText:
    """Parse lines that `rewritten` left or that are regular; ids may hold control characters."""
    data = joined_bytes(text)
    body = data[: len(data) - 8]
    white = (body == _SPACE) | (body == _NEWLINE) | (body == _TAB)
    table = np.flatnonzero(white).reshape(-1, 6)
    parsed = _columns(data, table, _line_starts(table))
    if parsed is None:
        raise AssertionError("a score that could be read before cannot be read now")
    return parsed


def rewritten(text: bytes, name: str, first_line: int) -> tuple[bytes, int, bool]:
    """Check lines one by one, and write the hits among them in the regular form.

    Returned with how many lines were read, and whether one of them is a comment.
    """
    hits, comment, number = [], False, first_line - 1
    for number, line in enumerate(BytesIO(text), first_line):
        if b"\0" in line:
            raise nul_byte(line, name, number)
        fields = hit_fields(line, name, number)
        if fields:
            hit_score(fields[4], name, number)
            hits.append(b" ".join(fields[:6]) + b"\n")
        comment = comment or line.startswith(b"#")
    return b"".join(hits), number - first_line + 1, comment


def separators(data: ByteArray, white: NDArray[np.bool_], columns: int) -> Positions | None:
    """Arrange the white space of a text by lines; None where its lines are not regular.

    `white` says which bytes are white space or control characters.
    """
    # runs of white space leave empty fields
    if not len(white) or white[0] or (white[1:] & white[:-1]).any():
        return None
    found = np.flatnonzero(white)
    table = found.reshape(-1, columns) if len(found) % columns == 0 else None
    if table is None or not (data[table[:, -1]] == _NEWLINE).all():
        return None
    body = data[: len(white)]
    between = np.count_nonzero(body == _SPACE)
    if between + len(table) < len(found):
        between += np.count_nonzero(body == _TAB)
    # what is neither is a line end within a line, or a control character
    return table if between + len(table) == len(found) else None


def _line_starts(table: Positions) -> Positions:
    return np.concatenate((np.zeros(1, np.int64), table[:, -1] + 1))


def _columns(data: ByteArray, table: Positions, lines: Positions) -> ParsedText | None:
    # a copy, since a column of the table is slower to walk through, and it is done often
    scores = read_decimals(data, table[:, 3] + 1, table[:, 4].copy())
    if scores is None:
        return None
    queries = ByteIds(data, lines[:-1], table[:, 0] - lines[:-1])
    changes = np.flatnonzero(queries.differ_from_last()) + 1
    first = np.concatenate((np.zeros(min(1, len(queries)), np.int64), changes))
    starts = np.append(first, len(scores))
    ids = [queries[row] for row in first.tolist()]
    document_starts = table[:, 1] + 1
    documents = ByteIds(data, document_starts, table[:, 2] - document_starts)
    tag = data[table[-1, 4] + 1 : table[-1, 5]].tobytes() if len(table) else b""
    return ParsedText(HitBlock(ids, starts, documents, scores), lines, tag)


def hit_fields(line: bytes, name: str, number: int) -> list[bytes]:
    """Return the fields of a line; none where it is blank or a comment."""
    if line.startswith(b"#"):
        return []
    fields = line.split()
    if fields and len(fields) < 6:
        raise wrong_columns(fields, line, "6", COLUMNS, name, number)
    return fields


def hit_score(text: bytes, name: str, number: int) -> float:
    """Return the score of a hit; inf and -inf are scores."""
    score = read_number(text)
    if score is None:
        shown = text[:40].decode("utf-8", "backslashreplace")
        allowed = "a number, inf, -inf"
        raise DataError(f"score '{shown}'", file=name, line=number, allowed=allowed)
    return score


def no_rankings(name: str) -> DataError:
    """Return the error for a file of blank lines."""
    return DataError("no rankings, only blank lines", file=name, allowed=COLUMNS)


def read_regular_qrels(path: str | os.PathLike[str]) -> Qrels | None:
    """Read TREC qrels with one space or tab between four columns; some 0.2 s a million lines.

    None where anything is not regular, where a pair is judged twice, and where the second column
    changes: what reads line by line can tell what it is, and whether it is wrong.
    """
    columns = _Columns()
    try:
        with opened(path, os.fspath(path)) as stream:
            lines = WholeLines(reader(stream), os.fspath(path))
            while not lines.at_end:
                if not columns.add(lines.read(_CHUNK_BYTES)):
                    return None
    except DataError:
        return None
    return columns.qrels()


class _Columns:
    """The columns of qrels, chunk by chunk."""

    def __init__(self) -> None:
        self._query_ids: list[bytes] = []
        self._starts: list[int] = []
        self._documents: list[TextIds] = []
        self._grades: list[IntArray] = []
        self._keys: list[HashArray] = []
        self._n_rows = 0
        self._iteration = b""

    def add(self, text: bytes) -> bool:
        """Add whole lines; return whether they are regular."""
        if not text:
            return True
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
        if not self._same_iteration(ByteIds(data, second, table[:, 1] - second)):
            return False
        query = self._add_queries(ByteIds(data, starts, table[:, 0] - starts))
        first = table[:, 1] + 1
        ids = ByteIds(data, first, table[:, 2] - first)
        self._keys.append(query_keys(ids.hashes(), query))
        self._documents.append(TextIds.of(ids))
        self._grades.append(grades)
        self._n_rows += len(grades)
        return True

    def _same_iteration(self, ids: ByteIds) -> bool:
        """Whether the second column is the same everywhere; else it may name subtopics."""
        self._iteration = self._iteration or ids[0]
        return ids[0] == self._iteration and not ids.differ_from_last().any()

    def _add_queries(self, ids: ByteIds) -> NDArray[np.int64]:
        """Note where queries start; return the number of each row's query."""
        new = np.concatenate(([ids[0] != (self._query_ids or [b""])[-1]], ids.differ_from_last()))
        first = np.flatnonzero(new)
        before = len(self._query_ids) - 1
        self._query_ids += [ids[row] for row in first.tolist()]
        self._starts += (first + self._n_rows).tolist()
        return before + np.cumsum(new)

    def qrels(self) -> Qrels | None:
        """Return what was added; None where a query or a pair came up again."""
        if not self._n_rows or len(set(self._query_ids)) < len(self._query_ids):
            return None
        keys = np.sort(np.concatenate(self._keys))
        if (keys[1:] == keys[:-1]).any():
            return None
        return Qrels(
            tuple(query.decode("utf-8", "surrogateescape") for query in self._query_ids),
            np.array([*self._starts, self._n_rows], np.int64),
            TextIds.joined(self._documents),
            np.concatenate(self._grades),
        )
