"""The queries that moved most between two systems, with the rankings of both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ragbench.comparison.across import Row, pairs_of
from ragbench.comparison.comparable import Met
from ragbench.comparison.paired_scores import PairedScores
from ragbench.data.trec.trec_files import read_run
from ragbench.types import Run

DEPTH = 5
"""How many documents of a ranking are shown."""


def moved_most(comparison: dict[str, Any], met: Met, measure: str, n: int) -> list[dict[str, Any]]:
    """Find, for each comparison of a measure, the queries that moved most, up and down.

    Args:
        comparison: What `compare_met` returned.
        met: What it was made from.
        measure: The measure that they moved on.
        n: How many queries of each comparison; those that moved less than others are left out.

    Returns:
        An entry for each comparison, JSON-ready: counts, and the queries, most moved first, with
        both scores and, where run files are at hand, the first documents of both rankings.
    """
    readers: dict[Path, Run] = {}
    found = []
    for system, base, pairs in pairs_of(comparison, met, measure):
        d = pairs.differences()
        rankings = [_ranking_file(row, met) for row in (system, base)]
        found.append(
            {
                "measure": measure,
                "system": system.label,
                "baseline": base.label,
                "up": int(np.count_nonzero(d > 0)),
                "down": int(np.count_nonzero(d < 0)),
                "same": int(np.count_nonzero(d == 0)),
                "queries": list(_queries(pairs, n, rankings, readers)),
            }
        )
    return found


def _ranking_file(row: Row, met: Met) -> Path | None:
    """The run file behind a row; answers rest on that of their retriever."""
    return met.sources[row.source].rankings.get(row.scores.retriever or "")


def _queries(
    pairs: PairedScores, n: int, files: list[Path | None], readers: dict[Path, Run]
) -> Iterator[dict[str, Any]]:
    d = np.nan_to_num(pairs.differences())
    order = np.argsort(-np.abs(d), kind="stable")[:n]
    for row in order[d[order] != 0].tolist():
        query = pairs.query_ids[row]
        first, second = (_top(file, query, readers) for file in files)
        yield {
            "query_id": query,
            "score": float(pairs.system.values[row]),
            "baseline_score": float(pairs.baseline.values[row]),
            "difference": float(pairs.system.values[row] - pairs.baseline.values[row]),
            **({} if first is None else {"ranking": first}),
            **({} if second is None else {"baseline_ranking": second}),
        }


def _top(file: Path | None, query: str, readers: dict[Path, Run]) -> list[str] | None:
    """The first documents of a query; None where no rankings are at hand."""
    if file is None:
        return None
    if file not in readers:
        readers[file] = read_run(file)
    return [document for document, _ in readers[file].ranking(query)[:DEPTH]]
