"""Scores per query as files hold them: systems, their scores, and what identifies the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, nan
from pathlib import Path

import numpy as np

from ragbench.data.runs.run_folder import (
    COST_COLUMNS,
    read_manifest,
    read_per_query,
    read_summary,
    resolve_run_folder,
)
from ragbench.data.runs.run_lines import FINGERPRINTS_FILE, read_fingerprints
from ragbench.errors import DataError
from ragbench.json_yaml import load_json
from ragbench.records.codec import from_json
from ragbench.records.manifest import UnscoredRow
from ragbench.records.score import Aggregate, Early, Kind, SystemScore
from ragbench.records.summary import Summary, SystemSummary
from ragbench.registry import shown
from ragbench.types import Cause, CauseArray, Direction, FloatArray
from ragbench.types.columnar import QueryFingerprints


@dataclass(frozen=True, slots=True)
class StoredScore:
    """One score of one system, a value or a cause for every query."""

    kind: Kind
    direction: Direction
    aggregate: Aggregate
    low: float
    """The smallest possible value of one query; -inf where unbounded."""
    high: float
    """The largest possible value of one query; inf where unbounded."""
    mean: float | None
    signature: str
    values: FloatArray
    """Shape (n,), in the order of the query ids; NaN where there is no value."""
    causes: CauseArray
    """Shape (n,); `Cause.SCORED` exactly where there is a value."""
    early: Early | None = None
    """How far a judge that may stop early went; None for all others."""
    answer_causes: CauseArray | None = None
    """Shape (n, samples): the cause of each answer where queries have several, else None."""


@dataclass(frozen=True, slots=True)
class StoredSystem:
    """One system and its scores."""

    name: str
    """`bm25`, `bm25/extractive`, `given`."""
    retriever: str | None
    generator: str | None
    scores: Mapping[str, StoredScore]
    costs: Mapping[str, FloatArray] = field(default_factory=dict)
    """`latency_ms`, `tokens.input`, ... -> of each query, NaN where not known; empty where no file
    has them."""


@dataclass(frozen=True, slots=True)
class StoredScores:
    """All systems of one experiment over the same queries."""

    name: str
    baseline: str | None
    """The system that the experiment compared the others with."""
    data: Mapping[str, str]
    """Part of the data set -> fingerprint: `queries`, `qrels`, `answers`; empty where unknown."""
    query_ids: Sequence[str]
    """The queries, in the order of all values."""
    systems: Sequence[StoredSystem]
    summary: Summary | None = None
    fingerprints: QueryFingerprints = field(default_factory=dict)
    """What each query was; empty where an older version wrote the file."""


QUERIES = "queries"
IDENTIFYING = (QUERIES, "qrels", "answers")
"""Parts of a data set that scores depend on; systems may search different corpora."""

Table = Mapping[str, Mapping[str, Mapping[str, float | None]]]
"""System -> query id -> column -> its cell."""


@dataclass(frozen=True, slots=True)
class Unscored:
    """Why there is no value."""

    causes: dict[tuple[str, str, str], Cause] = field(default_factory=dict)
    """(system, score, query id) -> why the query has none."""
    of_answers: dict[tuple[str, str, str], dict[int, Cause]] = field(default_factory=dict)
    """The same -> which of its several answers have none, and why."""


def read_run_scores(path: str | Path) -> StoredScores:
    """Read a run folder, or the newest run in the folder of an experiment."""
    folder = resolve_run_folder(Path(path))
    summary = read_summary(folder)
    fingerprints = read_manifest(folder).data
    cells = read_per_query(folder / "per_query.csv")
    unscored = _read_unscored(folder / "unscored.jsonl")
    costs_file = folder / "costs.csv"  # older versions did not write it
    costs = read_per_query(costs_file) if costs_file.is_file() else {}
    data = {part: fingerprints[part] for part in IDENTIFYING if part in fingerprints}
    query_ids = list(next(iter(cells.values()), {}))
    systems = [
        replace(
            _system(each, query_ids, cells, unscored, folder / "per_query.csv"),
            costs=_costs(costs.get(each.name), query_ids, costs_file),
        )
        for each in summary.systems
    ]
    prints = read_fingerprints(folder / FINGERPRINTS_FILE)
    return StoredScores(summary.name, summary.baseline, data, query_ids, systems, summary, prints)


def _costs(
    rows: Mapping[str, Mapping[str, float | None]] | None, query_ids: Sequence[str], file: Path
) -> dict[str, FloatArray]:
    """One system's columns, in the order of the queries; none of what has no costs."""
    if rows is None:
        return {}
    if list(rows) != list(query_ids) or any(tuple(row) != COST_COLUMNS for row in rows.values()):
        allowed = f"a row for each query of per_query.csv: {', '.join(COST_COLUMNS)}"
        raise DataError("other queries or columns", file=file, allowed=allowed)
    found = [[nan if cell is None else cell for cell in row.values()] for row in rows.values()]
    return dict(zip(COST_COLUMNS, np.array(found, np.float64).T, strict=True))


def _read_unscored(path: Path) -> Unscored:
    """Read why values are missing; a run that scored everything has an empty file."""
    words = {cause.word: cause for cause in Cause}
    found = Unscored()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise DataError("no such file", file=path, allowed="a whole run folder") from error
    except UnicodeDecodeError as error:
        raise DataError("not UTF-8", file=path, allowed="a file of ragbench run") from error
    for number, line in enumerate(lines, start=1):
        try:
            row = from_json(UnscoredRow, load_json(line))
            key = (row.system, row.measure, row.query_id)
            if row.sample is None:
                found.causes[key] = words[row.cause]
            else:  # one of several answers; the query has a line of its own
                found.of_answers.setdefault(key, {})[row.sample] = words[row.cause]
        except (ValueError, KeyError, DataError) as error:
            allowed = f"system, query_id, measure and a cause: {', '.join(words)}"
            raise DataError(
                f"not a line that a run writes: {shown(line)}",
                file=path,
                line=number,
                allowed=allowed,
            ) from error
    return found


def _system(
    system: SystemSummary, query_ids: Sequence[str], cells: Table, unscored: Unscored, file: Path
) -> StoredSystem:
    rows = cells.get(system.name, {})
    if list(rows) != list(query_ids):
        found = f"system '{system.name}' has {len(rows)} queries, others {len(query_ids)}"
        allowed = "a row for every system and query, in one order"
        raise DataError(found, file=file, allowed=allowed)
    scores = {
        name: replace(
            _score(system.name, name, score, rows, unscored.causes, file),
            answer_causes=_answer_causes(system, name, query_ids, unscored, file),
        )
        for name, score in system.scores.items()
    }
    return StoredSystem(system.name, system.retriever, system.generator, scores)


def _score(
    system: str,
    name: str,
    score: SystemScore,
    rows: Mapping[str, Mapping[str, float | None]],
    causes: Mapping[tuple[str, str, str], Cause],
    file: Path,
) -> StoredScore:
    if score.range is None:
        raise DataError(
            f"'{name}' has no 'range'",
            file=file.with_name("summary.json"),
            allowed="a run of this version: run the experiment again",
        )
    values, codes = [], []
    for query, row in rows.items():
        if name not in row:
            raise DataError(f"no column '{name}'", file=file)
        value = row[name]
        values.append(nan if value is None else value)
        codes.append(Cause.SCORED if value is not None else causes.get((system, name, query)))
        if codes[-1] is None:
            found = f"query '{query}' has no '{name}' in system '{system}', and no cause"
            allowed = "a value here, or a line in unscored.jsonl"
            raise DataError(found, file=file, allowed=allowed)
    low, high = score.range
    return StoredScore(
        kind=score.kind or "generation",
        direction=score.direction,
        aggregate=score.aggregate,
        low=-inf if low is None else low,
        high=inf if high is None else high,
        mean=score.mean,
        signature=score.signature,
        values=np.array(values, np.float64),
        causes=np.array(codes, np.uint8),
        early=score.early,
    )


def _answer_causes(
    system: SystemSummary, name: str, query_ids: Sequence[str], unscored: Unscored, file: Path
) -> CauseArray | None:
    """The cause of each answer; None where a query has one, and of what is no score of answers."""
    if system.answers is None or system.scores[name].kind == "retrieval":
        return None
    samples = system.answers.per_query
    found = np.full((len(query_ids), samples), Cause.SCORED, np.uint8)
    for row, query in enumerate(query_ids):
        for sample, cause in unscored.of_answers.get((system.name, name, query), {}).items():
            if not 0 <= sample < samples:
                wrong = f"sample {sample} of query '{query}' in system '{system.name}'"
                place = file.with_name("unscored.jsonl")
                raise DataError(wrong, file=place, allowed=f"0 to {samples - 1}")
            found[row, sample] = cause
    return found
