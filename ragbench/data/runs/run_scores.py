"""Scores per query of a run, from its folder or from a baseline file, `ragbench.baseline/1`.

A baseline file is committed: JSON with a line per score and a line per system and query, so that a
diff shows what moved:

    "per_query": {
     "q1": [1, 0.63],
     "q2": ["no_relevant", "timeout"]
    }

A line has the scores in the order of `scores`, and the cause in the place of a missing value. Where
queries have several answers, `answers` has their number, and `unscored_answers` a line for each
query of which some answers lack a value, with number and cause. `query_fingerprints` has a line per
query with the fingerprints of its question, judgements, gold answers, gold spans and gold tool
calls.

Equal scores give equal bytes: queries, systems and scores are sorted, and the file has no time, run
id or version. A system without any score is left out. Costs differ between runs with equal scores,
and are left out too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

from ragbench.data.runs import run_folder, run_lines
from ragbench.data.runs.run_folder import read_record, to_json_line
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.errors import DataError
from ragbench.files import write_file
from ragbench.records.codec import from_lines, to_json
from ragbench.records.columns import CAUSES_BY_WORD, bounded, column_of
from ragbench.records.manifest import UnscoredRow
from ragbench.records.score import BaselineFile, BaselineScore, BaselineSystem, Kind
from ragbench.records.summary import SystemSummary
from ragbench.registry import quote
from ragbench.types import Cause, CauseArray, FloatArray, IntArray, ScoreColumn
from ragbench.types.display import counted
from ragbench.types.lookups import index_positions, select_in_order, take_items

QUERIES = "queries"
# Parts of a data set that scores depend on; not the corpus: systems may search different ones.
IDENTIFYING = (QUERIES, "qrels", "answers", "spans")


def read_run_scores(path: str | Path, source: str | None = None) -> ScoredSystems:
    """Return the scores of a run folder, or of the newest run in an experiment's folder.

    Systems are in the order of the summary, queries in that of `per_query.csv`. A run without
    queries has empty columns.

    Args:
        path: The folder.
        source: Name of the run in messages and tables; None takes the path.

    Raises:
        DataError: There is no run, or its files are damaged or do not fit to each other.
    """
    folder = run_folder.resolve_run_folder(Path(path))
    summary, metadata = run_folder.read_summary(folder), folder / run_folder.QUERIES_FILE
    fingerprints = run_folder.read_manifest(folder).data
    reader = _ScoreReader(folder)
    return ScoredSystems(
        source or str(path),
        {system.name: reader.system(system) for system in summary.systems},
        reader.query_ids,
        summary.baseline,
        select_in_order(fingerprints, IDENTIFYING),
        run_lines.ranking_files(folder, summary),
        metadata if metadata.is_file() else None,
        summary,
        run_lines.read_fingerprints(folder / run_lines.FINGERPRINTS_FILE),
        folder,
        summary.name,
    )


class _ScoreReader:
    """Reader of the scores and costs of each system in a run folder."""

    # a file that is missing or damaged raises DataError, as do rows that do not fit to each other

    def __init__(self, folder: Path) -> None:
        self._file, self._unscored_file = folder / "per_query.csv", folder / "unscored.jsonl"
        self._tables = run_folder.read_tables(self._file)
        # (system, score) -> query id -> cause of a missing value
        self._causes: defaultdict[tuple[str, str], dict[str, Cause]] = defaultdict(dict)
        # (system, score) -> (query id, sample) -> cause, where a query has several answers
        self._of_answers: defaultdict[tuple[str, str], dict[tuple[str, int], Cause]]
        self._of_answers = defaultdict(dict)
        # (system, score) -> lines of failed repetitions of a judge, where others have a score
        self._of_repeats: defaultdict[tuple[str, str], list[tuple[int, UnscoredRow]]]
        self._of_repeats = defaultdict(list)
        self._read_unscored()
        self._costs_file = folder / "costs.csv"
        self._all_costs = run_folder.read_tables(self._costs_file)
        # all systems have the same queries, which `system` checks
        tables = self._tables.values()
        self.query_ids = next((table.query_ids for table in tables), list[str]())

    def _read_unscored(self) -> None:
        """Read the causes of missing values into `_causes` and `_of_answers`."""
        # the file is empty, not missing, if all was scored
        path, words = self._unscored_file, {cause.word: cause for cause in Cause}
        allowed = f"system, query_id, measure and a cause: {', '.join(words)}"
        for number, row in from_lines(path, UnscoredRow, allowed):
            key = (row.system, row.measure)
            if row.cause not in words:
                problem = f"not a cause: {quote(row.cause)}"
                raise DataError(problem, file=path, line=number, allowed=allowed)
            if row.repeat is not None:
                self._of_repeats[key].append((number, row))
            elif row.sample is None:
                self._causes[key][row.query_id] = words[row.cause]
            else:  # one of several answers; the query has a line of its own
                self._of_answers[key][row.query_id, row.sample] = words[row.cause]

    def system(self, system: SystemSummary) -> SystemScores:
        """Return the columns and costs of a system."""
        table = self._tables.get(system.name, run_folder.SystemTable([], {}))
        if table.query_ids != self.query_ids:
            n, n_others = len(table.query_ids), len(self.query_ids)
            fault = f"system '{system.name}' has {n} queries, others {n_others}"
            allowed = "a row for every system and query, in one order"
            raise DataError(fault, file=self._file, allowed=allowed)
        columns, kinds = {}, {}
        for name, score in system.scores.items():
            columns[name] = self._score(system, name, table.columns)
            kinds[name] = score.kind or "generation"
        return SystemScores(
            system.name,
            system.retriever,
            system.generator,
            columns,
            kinds,
            counts=system.counts,
            costs=self._costs(system.name),
            role=system.role,
        )

    def _costs(self, system: str) -> dict[str, FloatArray]:
        """Return cost column -> value of each query, NaN if unknown; empty without costs."""
        if (table := self._all_costs.get(system)) is None:
            return {}
        has_columns = tuple(table.columns) == run_folder.COST_COLUMNS
        if table.query_ids != self.query_ids or not has_columns:
            allowed = f"a row for each query of per_query.csv: {', '.join(run_folder.COST_COLUMNS)}"
            raise DataError("other queries or columns", file=self._costs_file, allowed=allowed)
        return table.columns

    def _score(
        self, system: SystemSummary, name: str, columns: Mapping[str, FloatArray]
    ) -> ScoreColumn:
        """Return a score column; raise `DataError` if a query has neither value nor cause."""
        if name not in columns and self.query_ids:
            allowed = "the file as the run wrote it: summary.json has this score"
            raise DataError(f"no column '{name}'", file=self._file, allowed=allowed)
        values = columns.get(name, np.zeros(0))
        causes = np.full(len(values), Cause.SCORED, np.uint8)
        unscored = self._causes[system.name, name]
        for row in np.flatnonzero(np.isnan(values)).tolist():
            query = self.query_ids[row]
            if query not in unscored:
                problem = f"query '{query}' has no '{name}' in system '{system.name}', and no cause"
                allowed = "a value here, or a line in unscored.jsonl"
                raise DataError(problem, file=self._file, allowed=allowed)
            causes[row] = unscored[query]
        of_answers = self._answer_causes(system, name)
        if repeats := self._of_repeats[system.name, name]:
            of_answers = self._with_repeats(of_answers, causes, repeats)
        return column_of(name, system.scores[name], values, causes, of_answers)

    def _answer_causes(self, system: SystemSummary, name: str) -> CauseArray | None:
        """Return the causes of a score, of shape (queries, answers)."""
        if system.answers is None or system.scores[name].kind == "retrieval":
            return None
        samples = system.answers.per_query
        causes = np.full((len(self.query_ids), samples), Cause.SCORED, np.uint8)
        row_of = index_positions(self.query_ids)
        for (query, sample), cause in self._of_answers[system.name, name].items():
            if query in row_of and not 0 <= sample < samples:
                problem = f"sample {sample} of query '{query}' in system '{system.name}'"
                allowed = f"0 to {samples - 1}"
                raise DataError(problem, file=self._unscored_file, allowed=allowed)
            if query in row_of:
                causes[row_of[query], sample] = cause
        return causes

    def _with_repeats(
        self,
        of_answers: CauseArray | None,
        causes: CauseArray,
        repeats: Sequence[tuple[int, UnscoredRow]],
    ) -> CauseArray:
        """Return the causes of the repetitions of a judge, of shape (queries, repetitions)."""
        whole = causes[:, None] if of_answers is None else of_answers
        n = repeats[0][1].repeats or 1
        table: CauseArray = np.repeat(whole[:, :, None], n, axis=2)
        row_of = index_positions(self.query_ids)
        for line, row in repeats:
            place = (row.sample or 0, row.repeat or 0)
            try:
                table[row_of[row.query_id]][place] = CAUSES_BY_WORD[row.cause]
            except LookupError as error:
                problem = "a query, sample or repeat that the run does not have"
                allowed = "the file as the run wrote it"
                raise DataError(
                    problem, file=self._unscored_file, line=line, allowed=allowed
                ) from error
        return table.reshape(len(table), -1)


def write_baseline(path: str | Path, scores: ScoredSystems) -> None:
    """Write a baseline file, whole or not at all; missing folders are created.

    Args:
        path: The file.
        scores: The systems of a run.

    Raises:
        DataError: No system has a score, there is no query, or the file cannot be written.
    """
    if not any(system.columns for system in scores.systems.values()) or not len(scores.query_ids):
        allowed = "a run with a score; its questions need gold documents or gold answers"
        raise DataError("nothing was scored", file=scores.source, allowed=allowed)
    write_file(Path(path), format_baseline(scores))


def format_baseline(scores: ScoredSystems) -> str:
    """Return the text of a baseline file, JSON with a line end; see `write_baseline`.

    Nothing is checked: without scores it has no system.
    """
    return f"{_format_json(to_json(baseline_of(scores)), 4)}\n"


def _format_json(value: Any, levels: int, indent: str = "") -> str:
    """Return JSON with a line for each entry, down to `levels` of nested objects."""
    # deeper objects, lists and the top key `data` are one line
    if not levels or not isinstance(value, dict):
        return to_json_line(value)
    lines = []
    for key, item in value.items():
        # the fingerprints of the data are one line
        deeper = 0 if not indent and key == "data" else levels - 1
        text = _format_json(item, deeper, f"{indent} ")
        lines.append(f"{indent} {to_json_line(key)}: {text}")
    return "\n".join(["{", ",\n".join(lines), f"{indent}}}"])


def baseline_of(scores: ScoredSystems) -> BaselineFile:
    """Return scores as the record of a baseline file, sorted by query, system and score.

    Systems without scores are left out. Without systems `systems` is empty.
    """
    prints = scores.fingerprints
    # by id: equal scores give equal bytes, whatever the order of the data set
    order = sorted(range(len(scores.query_ids)), key=lambda i: scores.query_ids[i])
    rows = np.array(order, np.int64)  # without queries, NumPy would make an array of floats
    ids = take_items(scores.query_ids, rows)
    scored = (system for system in scores.systems.values() if system.columns)
    parts = []
    for part in run_lines.PARTS:
        if part in prints:
            parts.append(part)
    systems = {}
    for system in sorted(scored, key=lambda system: system.name):
        systems[system.name] = _system(system, rows, ids)
    fingerprints = {}
    if prints:
        for query, cells in run_lines.fingerprint_rows(ids, prints):
            fingerprints[query] = tuple(cells)
    return BaselineFile(
        name=scores.name,
        baseline=scores.baseline,
        data=dict(sorted(scores.data.items())),
        queries=len(ids),
        query_parts=tuple(parts),
        query_fingerprints=fingerprints,
        systems=systems,
    )


def _system(system: SystemScores, rows: IntArray, ids: list[str]) -> BaselineSystem:
    """Return the record of a system; `rows` are the rows of its columns for `ids`."""
    heads, cells, of_answers = {}, [], {}
    for name, whole_column in sorted(system.columns.items()):
        column = whole_column.take(rows)
        heads[name] = _head(column, system.kinds[name])
        cells.append(_cells(column))
        if column.answer_causes is not None:
            of_answers[name] = column.answer_causes
    answers, heads = _with_numbers(system, heads)
    unscored_answers = {}
    for row, query in enumerate(ids):
        counts = _count_unscored({name: causes[row] for name, causes in of_answers.items()})
        if counts:
            unscored_answers[query] = counts
    return BaselineSystem(
        retriever=system.retriever,
        generator=system.generator,
        scores=heads,
        per_query=dict(zip(ids, zip(*cells, strict=True), strict=True)),
        answers=answers,
        unscored_answers=unscored_answers,
    )


def _with_numbers(
    system: SystemScores, heads: Mapping[str, BaselineScore]
) -> tuple[int | None, dict[str, BaselineScore]]:
    """Return the number of answers of a system, and its scores with numbers of their own."""
    numbers = {}
    for name, column in system.columns.items():
        if column.answer_causes is not None:
            numbers[name] = column.answer_causes.shape[1]
        elif system.kinds[name] != "retrieval":
            numbers[name] = 1
    least = min(numbers.values(), default=1)
    numbered = {}
    for name, head in heads.items():
        n = numbers.get(name, least)
        numbered[name] = head if n == least else structs.replace(head, answers=n)
    return (least if least > 1 else None), numbered


def _count_unscored(answers: Mapping[str, CauseArray]) -> dict[str, dict[str, int]]:
    """Return score -> word of a cause -> number of answers to a query without a value."""
    unscored = {}
    for name, causes in answers.items():
        counts = Counter(causes.tolist())
        if set(counts) != {Cause.SCORED}:
            words = {}
            for code, n in sorted(counts.items()):
                if code:
                    words[Cause(code).word] = n
            unscored[name] = words
    return unscored


def _head(column: ScoreColumn, kind: Kind) -> BaselineScore:
    """Return the description of a score column; its mean is None if no query has a value."""
    return BaselineScore(
        mean=bounded(column.mean),
        n=int(np.count_nonzero(column.causes == Cause.SCORED)),
        kind=kind,
        direction=column.direction,
        aggregate=column.aggregate,
        range=(bounded(column.low), bounded(column.high)),
        signature=str(column.signature),
    )


def _cells(column: ScoreColumn) -> Iterator[float | str]:
    """Yield the value of each query, or the word of its cause, in the order of the column."""
    for value, cause in zip(column.values.tolist(), column.causes.tolist(), strict=True):
        yield value if cause == Cause.SCORED else Cause(cause).word


def read_baseline(path: str | Path, source: str | None = None) -> ScoredSystems:
    """Return the systems of a baseline file, checked strictly, in the order of the file.

    Args:
        path: The file.
        source: Name of the file in messages and tables; None takes the path.

    Raises:
        DataError: The file cannot be read, is of another version, or contradicts itself.
    """
    record = read_record(Path(path), BaselineFile)
    names = list(record.systems)
    # all systems must have the queries of the first one, in its order
    query_ids = list(record.systems[names[0]].per_query) if names else []
    if not query_ids or record.queries != len(query_ids):
        problem = f"{record.queries} queries, but the first system has {len(query_ids)}"
        allowed = "systems with a line for every query: write the baseline again"
        raise DataError(problem, file=path, record="systems", allowed=allowed)
    if record.query_fingerprints and list(record.query_fingerprints) != query_ids:
        problem = "query_fingerprints: the queries are not those of the scores"
        raise DataError(problem, file=path, allowed="one line per query, in order")
    return ScoredSystems(
        source or str(path),
        {name: _BaselineReader(path, name, query_ids).read(record.systems[name]) for name in names},
        query_ids,
        record.baseline,
        record.data,
        fingerprints=run_lines.checked_fingerprints(
            record.query_parts, record.query_fingerprints, path
        ),
        name=record.name,
    )


class _BaselineReader:
    """Reader of one system of a baseline file; its DataErrors name the place."""

    def __init__(self, file: str | Path, name: str, query_ids: list[str]) -> None:
        self._file, self._name, self._query_ids = file, name, query_ids

    def read(self, system: BaselineSystem) -> SystemScores:
        """Return the columns of the system."""
        if list(system.per_query) != self._query_ids:
            problem, allowed = "the queries are not those of the first system", "one line per query"
            raise self._error("per_query", problem, f"{allowed}, in order")
        rows = []
        for query, line in system.per_query.items():
            rows.append(self._cells(query, line, len(system.scores)))
        answers = self._answer_causes(system)
        columns, kinds = {}, {}
        for (name, head), cells in zip(system.scores.items(), zip(*rows, strict=True), strict=True):
            columns[name] = self._column(name, head, list(cells), answers.get(name))
            kinds[name] = head.kind
        return SystemScores(
            self._name,
            system.retriever,
            system.generator,
            columns,
            kinds,
        )

    def _error(self, place: str, problem: str, allowed: str | None = None) -> DataError:
        """Return, not raise, the error for a place within the system, such as `scores.map`."""
        record = f"systems.{self._name}.{place}"
        return DataError(problem, file=self._file, record=record, allowed=allowed)

    def _cells(self, query: str, line: Sequence[Any], n: int) -> list[tuple[float, Cause]]:
        """Return (value, cause) of each score in the line of a query."""
        if len(line) != n:
            problem = f"'{query}' has {counted(len(line), 'values')}"
            raise self._error("per_query", problem, f"{n}: one for each of the scores")
        return [self._cell(query, cell) for cell in line]

    def _cell(self, query: str, cell: Any) -> tuple[float, Cause]:
        """Return a number as (value, scored), a word as (NaN, cause)."""
        if type(cell) in (int, float):  # not bool
            return float(cell), Cause.SCORED
        if isinstance(cell, str) and cell in CAUSES_BY_WORD:
            return nan, CAUSES_BY_WORD[cell]
        raise self._error("per_query", f"'{query}' has {cell!r}", "a number or a cause")

    def _answer_causes(self, system: BaselineSystem) -> dict[str, CauseArray]:
        """Return score -> causes of shape (queries, answers); empty if queries have one answer."""
        # the file counts the causes of a query: their order among its answers is not stored
        causes, numbers = dict[str, CauseArray](), dict[str, int]()
        for name, head in system.scores.items():
            n = head.answers or system.answers or 1
            # rankings have one score per query, however many answers were sampled
            if n > 1 and head.kind != "retrieval":
                causes[name] = np.full((len(self._query_ids), n), Cause.SCORED, np.uint8)
                numbers[name] = n
        if not causes:
            return {}
        places = index_positions(self._query_ids)
        for query, by_score in system.unscored_answers.items():
            for name, counts in by_score.items():
                try:
                    codes = list[Cause]()
                    for word, count in counts.items():
                        codes += [CAUSES_BY_WORD[word]] * count
                    # the file does not store which answers lack a value: the order is arbitrary
                    causes[name][places[query], : len(codes)] = codes
                except (KeyError, ValueError) as error:
                    most = numbers.get(name, 1)
                    allowed = f"a query, scores of answers, causes, and {most} answers at most"
                    problem = f"'{query}' has {{'{name}': {dict(counts)!r}}}"
                    raise self._error("unscored_answers", problem, allowed) from error
        return causes

    def _column(
        self,
        name: str,
        head: BaselineScore,
        cells: list[tuple[float, Cause]],
        answer_causes: CauseArray | None,
    ) -> ScoreColumn:
        """Return the column of a score; raise a `DataError` if count or mean in the file differ."""
        # the mean may differ by 1e-9 of its size
        values = np.array([value for value, _ in cells], np.float64)
        causes = np.array([cause for _, cause in cells], np.uint8)
        column = column_of(name, head, values, causes, answer_causes)
        n_scored = int(np.count_nonzero(causes == Cause.SCORED))
        if n_scored != head.n or (head.mean is None and n_scored):
            problem = f"n is {head.n}, but {n_scored} queries have a value"
            raise self._error(f"scores.{name}", problem)
        mean = head.mean if head.aggregate == "mean" else None
        # not bit-equal: NumPy may sum in another order on another machine
        if mean is not None and not np.isclose(mean, column.mean, 1e-9, 0):
            problem = f"mean is {mean!r}, but that of the queries is {column.mean!r}"
            raise self._error(f"scores.{name}", problem)
        return column
