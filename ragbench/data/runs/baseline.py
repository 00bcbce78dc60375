r"""Baseline files: `ragbench.baseline/1`, the scores of a run per query, to be committed.

JSON with a line per score and a line per system and query, so that a diff shows what moved:

    "per_query": {
     "q1": [1, 0.63],
     "q2": ["no_relevant", "timeout"]
    }

A line has the scores in the order of `scores`; where there is no value it has the cause.
Where queries have several answers, `answers` says how many, and `unscored_answers` has a line for
each query that lacks the value of some, with how many and why.
`query_fingerprints` has a line per query too: what its question, judgements and gold answers were.

Equal scores give equal bytes: queries, systems and scores are sorted, and there is no time, run
id or version in it. A system without any score is left out. What queries cost is no such thing,
and stands there only where it is asked for: `cost_columns`, and `costs` with a line per query.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import inf, isfinite, isnan, nan
from pathlib import Path
from typing import Any

import numpy as np

from ragbench.data.runs.run_folder import COST_COLUMNS, read_record, to_json_line
from ragbench.data.runs.run_lines import PARTS, checked_fingerprints, fingerprint_rows
from ragbench.data.runs.run_scores import column_of
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.errors import DataError
from ragbench.files import write_file
from ragbench.records.codec import to_json
from ragbench.records.score import BaselineFile, BaselineScore, BaselineSystem, Kind
from ragbench.registry import nearest
from ragbench.types import Cause, CauseArray, FloatArray, IntArray, ScoreColumn

_CAUSES = {cause.word: cause for cause in Cause if cause is not Cause.SCORED}


def write_baseline(path: str | Path, scores: ScoredSystems, *, costs: bool = False) -> None:
    """Write a baseline file, whole or not at all; missing folders are made.

    With `costs` it has what each query cost, for gates with `max_increase`; these differ from run
    to run, and so do the bytes.
    """
    if not any(system.columns for system in scores.systems.values()) or not len(scores.query_ids):
        raise DataError("nothing was scored", file=path, allowed="a run with systems and queries")
    write_file(Path(path), format_baseline(scores, costs=costs))


def format_baseline(scores: ScoredSystems, *, costs: bool = False) -> str:
    """Return the text of a baseline file."""
    return f"{_laid_out(to_json(baseline_of(scores, costs=costs)), 4)}\n"


def _laid_out(value: Any, levels: int, indent: str = "") -> str:
    """Write JSON with a line for each entry of so many levels of objects."""
    if not levels or not isinstance(value, dict):
        return to_json_line(value)
    lines = [
        # what identifies the data is one line
        f"{indent} {to_json_line(key)}: "
        + _laid_out(each, 0 if not indent and key == "data" else levels - 1, f"{indent} ")
        for key, each in value.items()
    ]
    return "\n".join(["{", ",\n".join(lines), f"{indent}}}"])


def baseline_of(scores: ScoredSystems, *, costs: bool = False) -> BaselineFile:
    """Return scores as a baseline file has them."""
    prints = scores.fingerprints
    rows = np.array(sorted(range(len(scores.query_ids)), key=lambda i: scores.query_ids[i]))
    ids = [scores.query_ids[row] for row in rows]
    scored = (system for system in scores.systems.values() if system.columns)
    return BaselineFile(
        name=scores.name,
        baseline=scores.baseline,
        data=dict(sorted(scores.data.items())),
        queries=len(ids),
        query_parts=tuple(part for part in PARTS if part in prints),
        query_fingerprints={query: tuple(row) for query, row in fingerprint_rows(ids, prints)}
        if prints
        else {},
        systems={
            system.name: _system(system, rows, ids, costs)
            for system in sorted(scored, key=lambda system: system.name)
        },
    )


def _system(system: SystemScores, rows: IntArray, ids: list[str], costs: bool) -> BaselineSystem:
    columns = {name: column.take(rows) for name, column in sorted(system.columns.items())}
    cells = [_cells(column) for column in columns.values()]
    several = {
        name: column.answer_causes
        for name, column in columns.items()
        if column.answer_causes is not None
    }
    known = [system.costs[name][rows].tolist() for name in system.costs] if costs else []
    return BaselineSystem(
        retriever=system.retriever,
        generator=system.generator,
        scores={name: _head(column, system.kinds[name]) for name, column in columns.items()},
        per_query=dict(zip(ids, zip(*cells, strict=True), strict=True)),
        answers=next((causes.shape[1] for causes in several.values()), None),
        unscored_answers={
            query: lacking
            for row, query in enumerate(ids)
            if (lacking := _lacking({name: causes[row] for name, causes in several.items()}))
        },
        cost_columns=tuple(system.costs) if known else (),
        costs={
            query: tuple(None if isnan(cell) else cell for cell in line)
            for query, line in zip(ids, zip(*known, strict=True), strict=False)
        },
    )


def _lacking(answers: Mapping[str, CauseArray]) -> dict[str, dict[str, int]]:
    """Score -> cause -> how many answers to a query have no value, where some lack one."""
    counted = {name: Counter(causes.tolist()) for name, causes in answers.items()}
    return {
        name: {Cause(code).word: n for code, n in sorted(counts.items()) if code}
        for name, counts in counted.items()
        if set(counts) != {Cause.SCORED}
    }


def _head(column: ScoreColumn, kind: Kind) -> BaselineScore:
    return BaselineScore(
        mean=_bounded(column.mean),
        n=int(np.count_nonzero(column.causes == Cause.SCORED)),
        kind=kind,
        direction=column.direction,
        aggregate=column.aggregate,
        range=(_bounded(column.low), _bounded(column.high)),
        signature=str(column.signature),
    )


def _bounded(end: float) -> float | None:
    return float(end) if isfinite(end) else None


def _cells(column: ScoreColumn) -> Iterator[float | str]:
    for value, cause in zip(column.values.tolist(), column.causes.tolist(), strict=True):
        yield value if cause == Cause.SCORED else Cause(cause).word


def read_baseline(path: str | Path, source: str | None = None) -> ScoredSystems:
    """Read a baseline file strictly; `source` is how messages and tables name it."""
    record = read_record(Path(path), BaselineFile)
    names = list(record.systems)
    if not names:
        raise DataError("found no system", file=path, record="systems", allowed="at least one")
    query_ids = list(record.systems[names[0]].per_query)
    if record.queries != len(query_ids):
        found = f"{record.queries} queries, but {names[0]} has {len(query_ids)}"
        raise DataError(
            found, file=path, allowed="a line for every query: write the baseline again"
        )
    if record.query_fingerprints and list(record.query_fingerprints) != query_ids:
        found = "query_fingerprints: the queries are not those of the scores"
        raise DataError(found, file=path, allowed="one line per query, in order")
    return ScoredSystems(
        source or str(path),
        {name: _Reader(path, name, query_ids).read(record.systems[name]) for name in names},
        query_ids,
        record.baseline,
        record.data,
        fingerprints=checked_fingerprints(record.query_parts, record.query_fingerprints, path),
        name=record.name,
    )


class _Reader:
    """Reads what a file has of one system, and names the place of what is wrong."""

    def __init__(self, file: str | Path, name: str, query_ids: list[str]) -> None:
        self._file, self._name, self._query_ids = file, name, query_ids

    def read(self, system: BaselineSystem) -> SystemScores:
        """Return the columns and costs of the system."""
        if list(system.per_query) != self._query_ids:
            found, allowed = "the queries are not those of the first system", "one line per query"
            raise self._wrong("per_query", found, f"{allowed}, in order")
        if system.scores and not system.per_query:
            raise self._wrong("per_query", "there are scores, and no query", "one line per query")
        rows = [
            self._cells(query, line, len(system.scores)) for query, line in system.per_query.items()
        ]
        answers = self._answer_causes(system)
        columns = {
            name: self._column(name, head, list(cells), answers.get(name))
            for (name, head), cells in zip(
                system.scores.items(), zip(*rows, strict=True), strict=True
            )
        }
        return SystemScores(
            self._name,
            system.retriever,
            system.generator,
            columns,
            {name: head.kind for name, head in system.scores.items()},
            costs=self._costs(system),
        )

    def _wrong(
        self, place: str, found: str, allowed: str | None = None, near: str | None = None
    ) -> DataError:
        record = ".".join(filter(None, ["systems", self._name, place]))
        return DataError(found, file=self._file, record=record, allowed=allowed, nearest=near)

    def _cells(self, query: str, line: Sequence[Any], n: int) -> list[tuple[float, Cause]]:
        if len(line) != n:
            found = f"'{query}' has {len(line)} values"
            raise self._wrong("per_query", found, f"{n}: one for each of the scores")
        return [self._cell(query, cell) for cell in line]

    def _cell(self, query: str, cell: Any) -> tuple[float, Cause]:
        if _is_number(cell):
            return float(cell), Cause.SCORED
        if isinstance(cell, str) and cell in _CAUSES:
            return nan, _CAUSES[cell]
        near = nearest(cell, _CAUSES) if isinstance(cell, str) else None
        raise self._wrong("per_query", f"'{query}' has {cell!r}", "a number or a cause", near)

    def _answer_causes(self, system: BaselineSystem) -> dict[str, CauseArray]:
        """Score -> the cause of each answer, in no certain order, where queries have several."""
        n = system.answers
        if n is None and not system.unscored_answers:
            return {}
        if n is None or n < 2:
            raise self._wrong("", f"answers is {n}", "2 or more, with unscored_answers")
        of_answers = [name for name, head in system.scores.items() if head.kind != "retrieval"]
        found = {
            name: np.full((len(self._query_ids), n), Cause.SCORED, np.uint8) for name in of_answers
        }
        places = {query: row for row, query in enumerate(self._query_ids)}
        for query, by_score in system.unscored_answers.items():
            for name, counts in by_score.items():
                codes = _codes(counts, n)
                if query not in places or name not in found or codes is None:
                    allowed = f"a query, scores of answers, causes, and {n} answers at most"
                    shown = f"'{query}' has {{'{name}': {dict(counts)!r}}}"
                    raise self._wrong("unscored_answers", shown, allowed)
                found[name][places[query], : len(codes)] = codes
        return found

    def _costs(self, system: BaselineSystem) -> dict[str, FloatArray]:
        """What each query cost; most files do not say."""
        if not system.costs:
            return {}
        n = len(COST_COLUMNS)
        if list(system.costs) != self._query_ids:
            found = "the queries are not those of the scores"
            raise self._wrong("costs", found, "one line per query")
        if system.cost_columns != COST_COLUMNS:
            found = f"cost_columns is {list(system.cost_columns)!r}"
            raise self._wrong("", found, ", ".join(COST_COLUMNS))
        for query, line in system.costs.items():
            known = [cell for cell in line if cell is not None]
            if len(line) != n or not all(_is_number(cell) and 0 <= cell < inf for cell in known):
                allowed = f"{n} numbers from 0 on, or null"
                raise self._wrong("costs", f"'{query}' is {list(line)!r}", allowed)
        # None becomes NaN
        table = np.array(list(system.costs.values()), np.float64)
        return dict(zip(COST_COLUMNS, table.T, strict=True))

    def _column(
        self,
        name: str,
        head: BaselineScore,
        cells: list[tuple[float, Cause]],
        answer_causes: CauseArray | None,
    ) -> ScoreColumn:
        values = np.array([value for value, _ in cells], np.float64)
        causes = np.array([cause for _, cause in cells], np.uint8)
        column = column_of(name, head, values, causes, answer_causes)
        n_scored = int(np.count_nonzero(causes == Cause.SCORED))
        if n_scored != head.n or (head.mean is None and n_scored):
            found = f"n is {head.n}, but {n_scored} queries have a value"
            raise self._wrong(f"scores.{name}", found)
        mean = head.mean if head.aggregate == "mean" else None
        if mean is not None and not np.isclose(mean, column.mean, 1e-9, 0):
            found = f"mean is {mean!r}, but that of the queries is {column.mean!r}"
            raise self._wrong(f"scores.{name}", found)
        if answer_causes is not None:
            # a query has a value where one of its answers has
            has_value = (answer_causes == Cause.SCORED).any(axis=1)
            wrong = np.flatnonzero(has_value != (causes == Cause.SCORED))
            if len(wrong):
                lost = "no value" if has_value[wrong[0]] else "a value"
                found = f"'{self._query_ids[wrong[0]]}' has {lost} of '{name}'"
                allowed = "a value exactly where one of its answers has"
                raise self._wrong("unscored_answers", found, allowed)
        return column


def _codes(counts: Mapping[str, int], most: int) -> list[int] | None:
    """The causes of so many answers; None where these are no causes, or too many."""
    if not set(counts) <= set(_CAUSES) or min(counts.values(), default=1) < 1:
        return None
    if sum(counts.values()) > most:
        return None
    return [int(_CAUSES[word]) for word, count in counts.items() for _ in range(count)]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
