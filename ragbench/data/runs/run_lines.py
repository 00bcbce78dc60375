"""Lines of a run folder by query: JSON Lines, rankings, `causes.csv` and `fingerprints.csv`.

The fingerprints of a whole data set tell that two differ; those of the queries tell in which.
"""

from __future__ import annotations

import functools
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec
import numpy as np

from ragbench.data.files.fields import is_marked_unanswerable
from ragbench.data.runs import run_folder
from ragbench.errors import DataError
from ragbench.json_yaml import load_json
from ragbench.records.causes import CAUSES, NOT_LOST, AnswerCause, CauseRow, Loss
from ragbench.records.codec import from_line
from ragbench.records.manifest import (
    AnswerRow,
    FailedCall,
    FailedPrediction,
    PredictionRow,
    TextRow,
)
from ragbench.records.summary import Summary
from ragbench.registry import quote
from ragbench.signature import fingerprint, fingerprint_json
from ragbench.types import Cause, Collection, FloatArray, Qrels, Query, ToolCall
from ragbench.types.columnar import QueryFingerprints
from ragbench.types.forbidden import forbidden_fingerprints
from ragbench.types.json_fields import Record
from ragbench.types.lookups import index_positions, map_values, omit_empty, select_keys
from ragbench.types.records import nuggets_fingerprint
from ragbench.types.spans import spans_fingerprint

CAUSES_FILE = "causes.csv"
_COLUMNS = ("system", "query_id", "cause", "why", "unsupported")
_SAMPLE = "sample"  # column of the number of a repetition, if any system is repeated
R = TypeVar("R", bound=Record)
# The cause of each text in the file
_CAUSE_OF: Mapping[str, AnswerCause] = {cause: cause for cause in CAUSES}
FINGERPRINTS_FILE = "fingerprints.csv"
# Parts of a query that have a fingerprint, in the order of the columns.
PARTS = (
    *("question", "judgements", "subtopics", "answers", "spans", "tool_calls"),
    *("forbidden", "pool", "nuggets"),
)


class Lines:
    """Index of a JSON Lines file by the id in each line; a missing file has no lines.

    It is created with the path and the key of the id, and reads the file once. It raises DataError
    if the file or an id is missing or wrong. Iteration yields the ids; `read(record_type, id)`
    returns the lines of an id as records, [] for an unknown one. The object is false without lines.
    A line takes two numbers of memory, however long it is. The file stays open between reads.
    """

    def __init__(self, path: Path, key: str = "query_id") -> None:
        """Read the file once, and store the offset of each line under the id in its field `key`.

        Raises:
            DataError: The file cannot be read, or a line is no JSON with that field.
        """
        self.path = path
        # id -> number of its last line; line -> its offset, and the previous line of the same id
        # (0: none). A list of lines for each id would take four times the memory
        self._last: dict[str, int] = {}
        self._offsets, self._previous = array("q"), array("q")
        self._stream: IO[bytes] | None = None
        try:
            with path.open("rb") as stream:
                offset = 0
                for number, line in enumerate(stream, start=1):
                    name = _id_in(line, key, path, number)
                    self._offsets.append(offset)
                    self._previous.append(self._last.get(name, 0))
                    self._last[name] = number
                    offset += len(line)
        except FileNotFoundError:
            pass  # not every run has every file
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}", file=path) from error
        except ValueError as error:  # a name with a NUL character
            problem = "no file can have this name of a system: summary.json is damaged"
            raise DataError(problem, file=path, allowed="the run folder as it was") from error

    def __iter__(self) -> Iterator[str]:
        """Iterate over the distinct ids, in the order of their first lines."""
        return iter(self._last)

    def __contains__(self, key: object) -> bool:
        return key in self._last

    def __bool__(self) -> bool:
        return bool(self._last)

    def close(self) -> None:
        """Close the file; the next read opens it again."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def __del__(self) -> None:
        self.close()

    def texts(self, key: str) -> Iterator[tuple[bytes, int]]:
        """Yield the text and the number of each line of an id, in the order of the file.

        An unknown id yields nothing.
        """
        numbers, number = list[int](), self._last.get(key, 0)
        while number:
            numbers.append(number)
            number = self._previous[number - 1]
        for number in reversed(numbers):
            if self._stream is None:
                self._stream = self.path.open("rb")
            self._stream.seek(self._offsets[number - 1])
            yield self._stream.readline(), number

    def read(self, record_type: type[R], key: str) -> list[R]:
        """Return the lines of an id as records, in the order of the file.

        An unknown id has []. Raises DataError for a wrong line.
        """
        file, lines = self.path, self.texts(key)
        return [from_line(record_type, text, file=file, line=number) for text, number in lines]


def _id_in(line: bytes, key: str, path: Path, number: int) -> str:
    """Return the id in a line; raise a `DataError` if the line is no JSON with that key."""
    try:
        return str(getattr(_decoder(key).decode(line), key))
    except (msgspec.MsgspecError, RecursionError):
        pass  # a number as the id, or a mistake that `load_json` names
    try:
        return str(load_json(line)[key])
    except (ValueError, KeyError, TypeError) as error:
        text = quote(line.decode("utf-8", "backslashreplace").rstrip())
        reason = f"no JSON ({error})" if isinstance(error, ValueError) else f"no '{key}' in it"
        problem = f"not a line that a run writes, {reason}: {text}"
        allowed = "the file as it was written: copy the run folder again, or run again"
        raise DataError(problem, file=path, line=number, allowed=allowed) from error


@functools.cache
def _decoder(key: str) -> msgspec.json.Decoder[Any]:
    """Return a decoder that reads one text of an object, and skips the other keys."""
    return msgspec.json.Decoder(msgspec.defstruct("IdOfLine", [(key, str)]))


class Texts:
    """Stored texts of documents for one query; false if no texts are stored at all.

    `texts(system, document)` returns the row with the text as the system retrieved it, else that
    common to all systems, or None. The system may be None. A damaged line is a DataError.
    """

    def __init__(self, lines: Lines, query: str) -> None:
        """Prepare for a query; the lines of a document are read when it is asked for."""
        self._lines, self._query = lines, query
        self._read: dict[str, list[TextRow]] = {}

    def __bool__(self) -> bool:
        return bool(self._lines)

    def __call__(self, system: str | None, name: str) -> TextRow | None:
        """Return the text of a document as a system retrieved it, or the one of all systems."""
        if not self._lines:
            return None
        if name not in self._read:  # systems retrieve much the same documents
            self._read[name] = self._lines.read(TextRow, name)
        rows = self._read[name]
        common = None
        for row in rows:
            if (row.system, row.query_id) == (system, self._query):
                return row
            if row.system is None and common is None:
                common = row
        return common


def read_answers(lines: Lines, query: str) -> Iterator[AnswerRow]:
    """Yield the answers of a system to a query, also failed ones; nothing for an unknown id.

    They are in the order of the file. Raises a `DataError` for a line of another form.
    """
    for text, line in lines.texts(query):
        call = from_line(FailedCall, text, file=lines.path, line=line)
        is_failed = call.cause != Cause.SCORED.word
        record_type: type[AnswerRow] = FailedPrediction if is_failed else PredictionRow
        yield from_line(record_type, text, file=lines.path, line=line)


def ranking_files(folder: Path, summary: Summary) -> dict[str, Path]:
    """Return system -> run file of its ranking, if it is there; a system without one is absent."""
    files = {}
    for system in summary.systems:
        if system.ranking_of is not None:
            name = f"{run_folder.file_name(system.ranking_of)}.trec"
            files[system.name] = folder / "rankings" / name
    return {name: file for name, file in files.items() if file.is_file()}


def read_columns(path: Path, query_ids: Sequence[str]) -> dict[str, dict[str, FloatArray]]:
    """Read `per_query.csv` as system -> score -> value of each query, NaN without a value.

    Queries without a row are NaN.

    Args:
        path: The file.
        query_ids: Queries in the order of the values; rows of other queries are ignored.

    Raises:
        DataError: The file is missing or damaged.
    """
    columns: dict[str, dict[str, FloatArray]] = {}
    row_of = index_positions(query_ids)
    for system, table in run_folder.read_tables(path).items():
        if table.query_ids == query_ids:
            columns[system] = table.columns
            continue
        rows = np.array([row_of.get(query, -1) for query in table.query_ids], np.int64)
        columns[system] = {}
        for name, values in table.columns.items():
            columns[system][name] = np.full(len(row_of), np.nan)
            columns[system][name][rows[rows >= 0]] = values[rows >= 0]
    return columns


def read_latency(path: Path) -> dict[str, dict[str, float]]:
    """Return the times in `costs.csv` as system -> query -> milliseconds, unknown ones left out.

    A system without a known time is absent. Raises DataError if the file is missing or damaged.
    """
    times: dict[str, dict[str, float]] = {}
    for system, table in run_folder.read_tables(path).items():
        latency_ms = table.columns.get(run_folder.COST_COLUMNS[0], np.full(0, np.nan))
        rows = np.flatnonzero(~np.isnan(latency_ms)).tolist()
        if rows:
            times[system] = {table.query_ids[row]: float(latency_ms[row]) for row in rows}
    return times


def format_causes(
    causes: Mapping[str, Sequence[Sequence[Loss]]], query_ids: Sequence[str]
) -> Iterator[str]:
    """Yield the text of `causes.csv`; texts that a spreadsheet would run get an apostrophe.

    A run with a repeated system has a further column `sample`, the number of the repetition.

    Args:
        causes: System -> for each repetition, cause and reason for each query.
        query_ids: The queries, in the order of the causes.

    Raises:
        ValueError: A system has fewer causes than there are queries; further ones are left out.

    Example:
        >>> from ragbench.records.causes import Loss
        >>> causes = {"bm25": [[Loss("found", "gold d1 at rank 1")]]}
        >>> print(*format_causes(causes, ["=q1"]), sep="", end="")
        system,query_id,cause,why,unsupported
        bm25,'=q1,found,gold d1 at rank 1,
    """
    is_repeated = any(len(repeats) > 1 for repeats in causes.values())
    tables = []
    for system, repeats in causes.items():
        for number, losses in enumerate(repeats):
            sample = str(number) if len(repeats) > 1 else ""
            table = _cause_columns(system, query_ids, losses)
            tables.append([*table, sample] if is_repeated else table)
    columns = (*_COLUMNS, _SAMPLE) if is_repeated else _COLUMNS
    return run_folder.csv_tables(columns, len(query_ids), tables)


def _cause_columns(
    system: str, query_ids: Sequence[str], lost: Sequence[Loss]
) -> list[str | Sequence[str]]:
    causes, reasons, unsupported = [], [], []
    for cause in lost:
        causes.append(cause.cause)
        reasons.append(cause.why)
        unsupported.append("yes" if cause.unsupported else "")
    return [system, query_ids, causes, reasons, unsupported]


def shown_row(rows: Sequence[CauseRow]) -> CauseRow:
    """Return the row of the repetition that is shown of a query: the first lost one, or the first.

    Raises:
        IndexError: There are no rows.
    """
    for row in rows:
        if row.cause not in NOT_LOST:
            return row
    return rows[0]


def read_causes(path: Path) -> dict[str, dict[str, CauseRow]]:
    """Read `causes.csv` as system -> query -> the row of its shown repetition (`shown_row`).

    Errors are those of `read_cause_rows`.
    """
    causes = {}
    for system, rows in read_cause_rows(path).items():
        causes[system] = map_values(shown_row, rows)
    return causes


def read_cause_rows(path: Path) -> dict[str, dict[str, tuple[CauseRow, ...]]]:
    """Read `causes.csv` as system -> query -> the row of each repetition.

    All are in the order of the file. A file with a header alone, and an empty one, give {}.

    Raises:
        DataError: The file is missing, or a row has another form or cause; names the line.
    """
    causes: dict[str, dict[str, tuple[CauseRow, ...]]] = {}
    columns: tuple[str, ...] = _COLUMNS
    for number, cells in enumerate(run_folder.csv_rows(path), start=1):
        if number == 1 and tuple(cells) in (_COLUMNS, (*_COLUMNS, _SAMPLE)):
            columns = tuple(cells)
            continue
        if number == 1 or len(cells) != len(columns) or not _is_cause_row(cells):
            allowed = f"{', '.join(columns)}; a cause is one of {', '.join(CAUSES)}"
            raise DataError(quote(",".join(cells)), file=path, line=number, allowed=allowed)
        system, query, cause, why, unsupported, *sample = cells
        row = CauseRow(
            system=system,
            query_id=query,
            cause=_CAUSE_OF[cause],
            why=why,
            unsupported=unsupported == "yes",
            sample=int(sample[0]) if sample and sample[0] else None,
        )
        rows = causes.setdefault(system, {})
        # without a number it is the only row of its query: the last one counts
        rows[query] = (row,) if row.sample is None else (*rows.get(query, ()), row)
    return causes


def _is_cause_row(cells: Sequence[str]) -> bool:
    """Return True if a row has a cause, and a number of a repetition or none."""
    sample = "".join(cells[len(_COLUMNS) :])
    return cells[2] in CAUSES and (not sample or (sample.isdecimal() and sample.isascii()))


def fingerprint_queries(
    queries: Sequence[Query], collection: Collection, qrels: Qrels | None
) -> QueryFingerprints:
    """Return part -> query -> fingerprint, for the parts that a data set has.

    Parts are those of `PARTS`; a query without a part is absent, and so are other queries. A query
    that its metadata mark as one without an answer has other `answers` than without the mark.
    Fingerprints have 12 hexadecimal digits. A part that the data set lacks is absent.

    Args:
        queries: Queries that are scored.
        collection: Data set with their gold answers, gold spans and gold tool calls.
        qrels: Judgements by which they are scored; those of the data set do not count.

    Example:
        >>> queries = [Query("q1", "Who?"), Query("q2", "Why?")]
        >>> gold = Collection(queries, answers={"q1": ["the cat"]})
        >>> prints = fingerprint_queries(queries, gold, None)
        >>> {part: [*queries] for part, queries in prints.items()}
        {'question': ['q1', 'q2'], 'answers': ['q1']}
    """
    questions, pools, marks = dict[str, str](), dict[str, str](), list[str]()
    # one pass: the queries of large data sets stay in their file
    for query in queries:
        questions[query.id] = _question_fingerprint(query)
        if query.pool is not None:
            pools[query.id] = fingerprint(sorted(query.pool))
        if is_marked_unanswerable(query.metadata):
            marks.append(query.id)
    ids, parts = questions.keys(), {"question": questions}
    for part, prints in ({} if qrels is None else qrels.query_fingerprints()).items():
        parts[part] = select_keys(prints, ids)
    answers = select_keys(collection.answers, ids)
    spans = select_keys(omit_empty(collection.gold_spans), ids)
    calls = select_keys(collection.expected_tool_calls, ids)
    gold_parts = {
        "answers": answer_fingerprints(answers, marks),
        "spans": map_values(spans_fingerprint, spans),
        "tool_calls": map_values(_calls_fingerprint, calls),
        "forbidden": forbidden_fingerprints(collection.forbidden, ids),
        "pool": pools,
        "nuggets": map_values(nuggets_fingerprint, select_keys(collection.nuggets, ids)),
    }
    # no empty column for a part that the data set lacks
    return parts | omit_empty(gold_parts)


def _question_fingerprint(query: Query) -> str:
    """Return the fingerprint of a question with its earlier turns."""
    return fingerprint([query.text, *(fingerprint_json(turn.to_dict()) for turn in query.turns)])


def _calls_fingerprint(calls: Sequence[ToolCall]) -> str:
    """Return the fingerprint of gold tool calls in their order; no right call has one too."""
    return fingerprint_json([call.to_dict() for call in calls])


def answer_fingerprints(
    answers: Mapping[str, Sequence[str]], unanswerable: Iterable[str] = ()
) -> dict[str, str]:
    """Return query -> fingerprint of its gold answers, in any order of these.

    Queries with an empty list are absent, unless they are `unanswerable`, which gives each of these
    queries another fingerprint than its gold answers alone.
    """
    prints = {}
    for query, gold in answers.items():
        if gold:
            prints[query] = fingerprint(sorted(gold))
    for query in unanswerable:
        prints[query] = fingerprint(["unanswerable", *sorted(answers.get(query, ()))])
    return prints


def format_fingerprints(query_ids: Sequence[str], prints: QueryFingerprints) -> Iterator[str]:
    """Yield the lines of `fingerprints.csv`, the header first; a cell is empty without the part.

    `prints` is part -> query -> fingerprint; its parts are the columns behind `query_id`.
    """
    return run_folder.csv_lines(
        ["query_id", *_columns(prints)],
        ([query, *row] for query, row in fingerprint_rows(query_ids, prints)),
    )


def fingerprint_rows(
    query_ids: Iterable[str], prints: QueryFingerprints
) -> Iterator[tuple[str, list[str | None]]]:
    """Yield (query, its fingerprint by each part), None where it lacks the part.

    The order is that of `query_ids`; parts are those of `prints`, in the order of `PARTS`.
    """
    columns = [prints[part] for part in _columns(prints)]
    for query in query_ids:
        yield query, [column.get(query) for column in columns]


def _columns(prints: QueryFingerprints) -> list[str]:
    """Return the parts in `prints`, in the order of `PARTS`, which is that of the columns."""
    parts = []
    for part in PARTS:
        if part in prints:
            parts.append(part)
    return parts


def read_fingerprints(path: Path) -> QueryFingerprints:
    """Read `fingerprints.csv` as part -> query -> fingerprint.

    Raises:
        DataError: The file is missing or empty, or a row or column is wrong.
    """
    head, *rows = [*run_folder.csv_rows(path)] or [[]]
    if head[:1] != ["query_id"]:
        raise DataError(f"columns: {', '.join(head)}", file=path, allowed="query_id first")
    table = {}
    for query, *cells in filter(None, rows):
        table[query] = [cell or None for cell in cells]
    return checked_fingerprints(head[1:], table, path)


def checked_fingerprints(
    parts: Sequence[str], table: Mapping[str, Sequence[str | None]], file: str | Path
) -> QueryFingerprints:
    """Return a table of fingerprints as part -> query -> fingerprint, without empty cells.

    A part without any fingerprint stays, with an empty mapping.

    Args:
        parts: Part of each column.
        table: Query -> its cells.
        file: For messages.

    Raises:
        DataError: A part is unknown or repeated, or a row has another number of cells.
    """
    wrong = []
    for query, row in table.items():
        if len(row) != len(parts):
            wrong.append(query)
    if wrong or len({*parts} & {*PARTS}) < len(parts):
        place = f"cells of query '{wrong[0]}'" if wrong else f"parts {', '.join(parts)}"
        allowed = f"one cell for each of {', '.join(PARTS)}"
        raise DataError(f"fingerprints with the {place}", file=file, allowed=allowed)
    fingerprints = {}
    for column, part in enumerate(parts):
        fingerprints[part] = dict[str, str]()
        for query, row in table.items():
            if cell := row[column]:
                fingerprints[part][query] = cell
    return fingerprints
