"""Scores per query of a run folder: its systems, their columns, and fingerprints of the data."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from pathlib import Path

import numpy as np

from ragbench.data.runs import run_folder
from ragbench.data.runs.run_lines import FINGERPRINTS_FILE, ranking_files, read_fingerprints
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.errors import DataError
from ragbench.records.manifest import UnscoredRow
from ragbench.records.score import BaselineScore, SystemScore
from ragbench.records.summary import SystemSummary
from ragbench.registry import shown
from ragbench.signature import Signature
from ragbench.types import Cause, CauseArray, FloatArray, ScoreColumn

QUERIES = "queries"
# Parts of a data set that scores depend on; not the corpus: systems may search different ones.
IDENTIFYING = (QUERIES, "qrels", "answers")


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
        {part: fingerprints[part] for part in IDENTIFYING if part in fingerprints},
        ranking_files(folder, summary),
        metadata if metadata.is_file() else None,
        summary,
        read_fingerprints(folder / FINGERPRINTS_FILE),
        folder,
        summary.name,
    )


class _ScoreReader:
    """Reader of the scores and costs of each system in a run folder.

    Attributes:
        query_ids: Queries, in the order of the first system.
    """

    def __init__(self, folder: Path) -> None:
        self._file, self._unscored_file = folder / "per_query.csv", folder / "unscored.jsonl"
        self._cells = run_folder.read_per_query(self._file)
        # (system, score, query id) -> cause of a missing value
        self._causes: dict[tuple[str, str, str], Cause] = {}
        # the same -> sample -> cause, where a query has several answers
        self._of_answers: dict[tuple[str, str, str], dict[int, Cause]] = {}
        self._read_unscored()
        self._costs_file = folder / "costs.csv"
        self._all_costs = run_folder.read_per_query(self._costs_file)
        # all systems have the same queries, which `system` checks
        self.query_ids = list(next(iter(self._cells.values()), {}))

    def _read_unscored(self) -> None:
        """Read the causes of missing values; raise a `DataError` for an unknown cause.

        The file must exist; it is empty if all was scored. Fills `_causes` and `_of_answers`.
        """
        path, words = self._unscored_file, {cause.word: cause for cause in Cause}
        allowed = f"system, query_id, measure and a cause: {', '.join(words)}"
        for number, row in run_folder.read_records(path, UnscoredRow, allowed):
            key = (row.system, row.measure, row.query_id)
            if row.cause not in words:
                problem = f"not a cause: {shown(row.cause)}"
                raise DataError(problem, file=path, line=number, allowed=allowed)
            if row.sample is None:
                self._causes[key] = words[row.cause]
            else:  # one of several answers; the query has a line of its own
                self._of_answers.setdefault(key, {})[row.sample] = words[row.cause]

    def system(self, system: SystemSummary) -> SystemScores:
        """Return the columns and costs of a system.

        Raises:
            DataError: A query or a cause is missing, or the queries differ from those of other
                systems.
        """
        rows = self._cells.get(system.name, {})
        if list(rows) != self.query_ids:
            fault = f"system '{system.name}' has {len(rows)} queries, others {len(self.query_ids)}"
            allowed = "a row for every system and query, in one order"
            raise DataError(fault, file=self._file, allowed=allowed)
        return SystemScores(
            system.name,
            system.retriever,
            system.generator,
            {name: self._score(system, name, rows) for name in system.scores},
            {name: score.kind or "generation" for name, score in system.scores.items()},
            costs=self._costs(system.name),
            role=system.role,
        )

    def _costs(self, system: str) -> dict[str, FloatArray]:
        """Return cost column -> value of each query, NaN if unknown; empty without costs.

        Raises a `DataError` for other queries or columns than those of the scores.
        """
        if (rows := self._all_costs.get(system)) is None:
            return {}
        has_columns = all(tuple(row) == run_folder.COST_COLUMNS for row in rows.values())
        if list(rows) != self.query_ids or not has_columns:
            allowed = f"a row for each query of per_query.csv: {', '.join(run_folder.COST_COLUMNS)}"
            raise DataError("other queries or columns", file=self._costs_file, allowed=allowed)
        # None becomes NaN
        table = np.array([list(row.values()) for row in rows.values()], np.float64)
        return dict(zip(run_folder.COST_COLUMNS, table.T, strict=True))

    def _score(
        self, system: SystemSummary, name: str, rows: Mapping[str, Mapping[str, float | None]]
    ) -> ScoreColumn:
        """Return a score column; a `DataError` if a query has neither value nor cause."""
        values, codes = [], []
        for query, row in rows.items():
            if name not in row:
                raise DataError(f"no column '{name}'", file=self._file)
            scored, key = row[name] is not None, (system.name, name, query)
            values.append(row[name])
            codes.append(Cause.SCORED if scored else self._causes.get(key))
            if codes[-1] is None:
                problem = f"query '{query}' has no '{name}' in system '{system.name}', and no cause"
                allowed = "a value here, or a line in unscored.jsonl"
                raise DataError(problem, file=self._file, allowed=allowed)
        causes = np.array(codes, np.uint8)
        of_answers = self._answer_causes(system, name)
        return column_of(
            name, system.scores[name], np.array(values, np.float64), causes, of_answers
        )

    def _answer_causes(self, system: SystemSummary, name: str) -> CauseArray | None:
        """Return the causes of a score, of shape (queries, answers).

        None if queries have one answer, and for scores of rankings. Raises a `DataError` for the
        number of a sample beyond the answers.
        """
        if system.answers is None or system.scores[name].kind == "retrieval":
            return None
        samples = system.answers.per_query
        causes = np.full((len(self.query_ids), samples), Cause.SCORED, np.uint8)
        for row, query in enumerate(self.query_ids):
            unscored = self._of_answers.get((system.name, name, query), {})
            for sample, cause in unscored.items():
                if not 0 <= sample < samples:
                    problem = f"sample {sample} of query '{query}' in system '{system.name}'"
                    allowed = f"0 to {samples - 1}"
                    raise DataError(problem, file=self._unscored_file, allowed=allowed)
                causes[row, sample] = cause
        return causes


def column_of(
    name: str,
    head: SystemScore | BaselineScore,
    values: FloatArray,
    causes: CauseArray,
    answer_causes: CauseArray | None,
) -> ScoreColumn:
    """Return the column of a score; an open end of its range is an infinity.

    Args:
        name: Name of the score.
        head: Signature, direction, range and mean of the score in the file.
        values: Value of each query, NaN without one.
        causes: Cause of each query.
        answer_causes: Causes of shape (queries, answers); None if queries have one answer.

    Raises:
        ValueError: The signature in the file cannot be parsed.
    """
    low, high = head.range
    return ScoreColumn(
        name,
        values,
        causes,
        Signature.parse(head.signature),
        head.direction,
        -inf if low is None else float(low),
        inf if high is None else float(high),
        head.aggregate,
        # a corpus score cannot be computed from the values of its queries
        head.mean if head.aggregate == "corpus" else None,
        answer_causes=answer_causes,
    )
