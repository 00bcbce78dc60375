"""Latency, tokens and dollars of the systems, and what a run paid for its models."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np

from ragbench.data.runs.run_folder import COST_COLUMNS, Column, csv_tables
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.experiment.calls import FileRankings, Outcome
from ragbench.experiment.plan.records import Plan
from ragbench.experiment.records import Results
from ragbench.llm import Connected
from ragbench.records import summary as records
from ragbench.types import FloatArray, Prediction, Usage
from ragbench.types.lookups import take_items
from ragbench.types.records import add_usage


def outcomes_of(results: Results, system: str) -> Sequence[Outcome[Any]]:
    """Return the outcomes of a system's calls: those of its answers, else of its ranking.

    They are in the order of the queries, sample by sample. A ranking that was read from a file has
    one outcome for all queries, as no call was made for any. A system with neither answers nor
    ranking has [].
    """
    answers, ranking = results.answers.get(system), results.rankings.get(system)
    if answers is not None:
        return answers.outcomes
    if ranking is None:
        return []
    return ranking.outcomes[:1] if isinstance(ranking.outcomes, FileRankings) else ranking.outcomes


def costs_of(results: Results, system: str) -> dict[str, FloatArray]:
    """Return cost column -> value of each query of a system; {} without outcomes.

    Latencies have three decimals, as in files. A query with several answers has the mean of their
    latencies, and the sum of their tokens and dollars. NaN stands for a cost that is not known;
    rankings use no tokens. Columns are `latency_ms`, `tokens.input`, `tokens.output` and `usd`.
    """
    outcomes, answers = outcomes_of(results, system), results.answers.get(system)
    if not outcomes:
        return {}
    samples = 1 if answers is None else answers.samples
    values = np.fromiter(chain.from_iterable(map(_costs, outcomes)), np.float64)
    rows = values.reshape(len(outcomes), -1)
    if answers is None:
        # the one outcome of a run file stands for all its queries
        rows = rows.repeat(len(results.rankings[system].outcomes) // len(rows), axis=0)
    # all queries of the first sample stand before those of the next
    times, *spent = rows.T.reshape(len(COST_COLUMNS), samples, -1)
    has_time = ~np.isnan(times)
    total, n = np.where(has_time, times, 0.0).sum(axis=0), has_time.sum(axis=0)
    # np.nanmean would warn of queries without any latency
    mean = np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0)
    costs = [mean.round(3), *(amounts.sum(axis=0) for amounts in spent)]
    return dict(zip(COST_COLUMNS, costs, strict=True))


def format_costs(systems: Sequence[SystemScores], query_ids: Sequence[str]) -> Iterator[str]:
    """Yield the text of `costs.csv` in parts: a line for each system with costs and each query.

    A cost that is not known is an empty cell. The header comes first; without systems it is the
    only line.
    """
    tables: list[list[Column]] = []
    for system in systems:
        if system.costs:
            costs = take_items(system.costs, COST_COLUMNS)
            tables.append([system.name, query_ids, *costs])
    return csv_tables(["system", "query_id", *COST_COLUMNS], len(query_ids), tables)


def _costs(outcome: Outcome[Any]) -> Iterator[float]:
    """Yield latency, input tokens, output tokens and dollars of an outcome; NaN if not known."""
    yield math.nan if outcome.latency_ms is None else round(outcome.latency_ms, 3)
    value = outcome.value
    # a failed call may have been paid all the same; a ranking uses no model
    unknown_or_zero = Usage() if value is None else Usage(0, 0, 0.0)
    usage = value.usage if isinstance(value, Prediction) else unknown_or_zero
    for amount in (usage.input_tokens, usage.output_tokens, usage.usd):
        yield math.nan if amount is None else amount


def run_cost(plan: Plan, payments: Mapping[str, Fraction]) -> records.RunCost | None:
    """Return the dollars that a run paid for each component; None without calls of models.

    A model without a known price makes the cost of its component unknown, also where all its
    replies were stored. Dollars have six decimals.

    Args:
        plan: Plan of the run.
        payments: Component, as `judge openai` -> US dollars, as far as known.

    Raises:
        DataError: A file of prices cannot be read.
    """
    if not payments:
        return None
    missing_prices = unpriced_models(plan)
    by: dict[str, float | None] = {}
    unpriced: dict[str, str] = {}
    for name, paid in payments.items():
        models = missing_prices.get(name, {})
        by[name] = None if models else round(float(paid), 6)
        for model, entry in models.items():
            if entry:
                unpriced[model] = entry
    is_priced = None not in by.values()
    usd = round(float(sum(payments.values(), Fraction())), 6) if is_priced else None
    return records.RunCost(usd=usd, by=by, unpriced=unpriced)


def unpriced_models(plan: Plan) -> dict[str, dict[str, str]]:
    """Return component -> model without a known price -> file and key to write a price.

    Components are named as in `RunCost`. The file and key are empty for a server on this machine,
    whose tokens nobody sells, unless a file of prices is named. Raises DataError if a file of
    prices cannot be read.
    """
    components: dict[str, object] = {}
    for name, generator in plan.generators.items():
        components[f"generator {name}"] = generator
    for name, planned in plan.all_judges.items():
        components[f"judge {name}"] = planned.judge
    unpriced = {}
    for name, component in components.items():
        if isinstance(component, Connected) and (models := component.unpriced()):
            is_free = component.is_on_this_machine and component.load_prices().file is None
            unpriced[name] = dict.fromkeys(models, "") if is_free else models
    return unpriced


def total_cost(usages: Iterable[Usage | None]) -> records.CostTotal:
    """Return dollars and tokens of all usages; each is None if it is not known for one of them.

    Dollars have six decimals. Without usages both are 0.
    """
    total = add_usage(Usage() if usage is None else usage for usage in usages)
    has_tokens = total.input_tokens is not None and total.output_tokens is not None
    tokens = (total.input_tokens or 0) + (total.output_tokens or 0)
    usd = None if total.usd is None else round(total.usd, 6)
    return records.CostTotal(usd=usd, tokens=tokens if has_tokens else None)
