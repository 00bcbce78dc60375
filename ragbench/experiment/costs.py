"""What each query cost a system: time, tokens, dollars."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ragbench.comparison.summary import finite
from ragbench.comparison.systems import SystemScores
from ragbench.data.run_folder import COST_COLUMNS, to_csv
from ragbench.experiment.calls import Outcome
from ragbench.experiment.records import Results
from ragbench.types import FloatArray, Prediction, Usage


def outcomes_of(results: Results, system: str) -> Sequence[Outcome[Any]]:
    """Return what came of the calls that a system's latency and usage are of; none of a file's."""
    answers, ranking = results.answers.get(system), results.rankings.get(system)
    if answers is not None:
        return answers.outcomes
    return [] if ranking is None else ranking.outcomes


def costs_of(outcomes: Sequence[Outcome[Any]], samples: int = 1) -> dict[str, FloatArray]:
    """Return each cost of all queries, NaN where it is not known.

    Times have three decimals, as files have them. What calls no model uses no tokens. A query that
    was answered several times took the mean of their times, and the tokens and dollars of all.

    Args:
        outcomes: One per query; of several samples all of the first one come first.
        samples: How often each query was answered.
    """
    if not outcomes:
        return {}
    rows = np.array([list(_costs(outcome)) for outcome in outcomes], np.float64)
    found = dict(zip(COST_COLUMNS, rows.T.reshape(len(COST_COLUMNS), samples, -1), strict=True))
    times = found.pop("latency_ms")
    known = ~np.isnan(times)
    total, n = np.where(known, times, 0.0).sum(axis=0), known.sum(axis=0)
    mean = np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0)
    return {"latency_ms": mean.round(3), **{name: each.sum(axis=0) for name, each in found.items()}}


def with_costs(results: Results) -> list[SystemScores]:
    """Return the systems of a run, each with what its queries cost."""
    return [replace(system, costs=_costs_of(results, system.name)) for system in results.systems]


def format_costs(systems: Sequence[SystemScores], query_ids: Sequence[str]) -> str:
    """Write `costs.csv`: a row for each system and query, an empty cell where not known."""
    rows = (
        [system.name, query, *(finite(system.costs[name][row]) for name in COST_COLUMNS)]
        for system in systems
        if system.costs
        for row, query in enumerate(query_ids)
    )
    return to_csv(["system", "query_id", *COST_COLUMNS], rows)


def _costs_of(results: Results, system: str) -> dict[str, FloatArray]:
    answers = results.answers.get(system)
    return costs_of(outcomes_of(results, system), 1 if answers is None else answers.samples)


def _costs(outcome: Outcome[Any]) -> Iterator[float]:
    yield math.nan if outcome.latency_ms is None else round(outcome.latency_ms, 3)
    value = outcome.value
    none_used = Usage() if value is None else Usage(0, 0, 0.0)
    usage = value.usage if isinstance(value, Prediction) else none_used
    for amount in (usage.input_tokens, usage.output_tokens, usage.usd):
        yield math.nan if amount is None else amount
