"""What queries and runs cost: time, tokens, dollars, and what is left of a budget."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from ragbench.config.schema import BudgetLimits
from ragbench.data.runs.run_folder import COST_COLUMNS, Column, csv_tables
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.experiment.calls import FileRankings, Outcome
from ragbench.experiment.plan.records import Plan
from ragbench.experiment.records import Results
from ragbench.llm import Budget
from ragbench.records.summary import Cost, Spending
from ragbench.types import Cause, FloatArray, Prediction, Usage
from ragbench.types.records import add_usage


def outcomes_of(results: Results, system: str) -> Sequence[Outcome[Any]]:
    """Return what came of the calls that a system's latency and usage are of.

    Of a file it is one for all queries: one is like the other.
    """
    answers, ranking = results.answers.get(system), results.rankings.get(system)
    if answers is not None:
        return answers.outcomes
    if ranking is None:
        return []
    return ranking.outcomes[:1] if isinstance(ranking.outcomes, FileRankings) else ranking.outcomes


def _costs_of(results: Results, system: str) -> dict[str, FloatArray]:
    """Each cost of all queries of a system, NaN where it is not known.

    Times have three decimals, as files have them. What calls no model uses no tokens. A query that
    was answered several times took the mean of their times, and the tokens and dollars of all.
    """
    outcomes, answers = outcomes_of(results, system), results.answers.get(system)
    if not outcomes:
        return {}
    samples = 1 if answers is None else answers.samples
    each = np.fromiter(chain.from_iterable(map(_costs, outcomes)), np.float64)
    rows = each.reshape(len(outcomes), -1)
    if answers is None:
        rows = rows.repeat(len(results.rankings[system].outcomes) // len(rows), axis=0)
    # all queries of the first sample stand before those of the next
    times, *spent = rows.T.reshape(len(COST_COLUMNS), samples, -1)
    known = ~np.isnan(times)
    total, n = np.where(known, times, 0.0).sum(axis=0), known.sum(axis=0)
    mean = np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0)
    costs = [mean.round(3), *(each.sum(axis=0) for each in spent)]
    return dict(zip(COST_COLUMNS, costs, strict=True))


def with_costs(results: Results) -> list[SystemScores]:
    """Return the systems of a run, each with what its queries cost."""
    return [replace(system, costs=_costs_of(results, system.name)) for system in results.systems]


def format_costs(systems: Sequence[SystemScores], query_ids: Sequence[str]) -> Iterator[str]:
    """Yield the text of `costs.csv`, a line for each system and query; empty: not known."""
    tables: Iterable[list[Column]] = (
        [each.name, query_ids, *(each.costs[name] for name in COST_COLUMNS)]
        for each in systems
        if each.costs
    )
    return csv_tables(["system", "query_id", *COST_COLUMNS], len(query_ids), tables)


def _costs(outcome: Outcome[Any]) -> Iterator[float]:
    yield math.nan if outcome.latency_ms is None else round(outcome.latency_ms, 3)
    value = outcome.value
    none_used = Usage() if value is None else Usage(0, 0, 0.0)
    usage = value.usage if isinstance(value, Prediction) else none_used
    for amount in (usage.input_tokens, usage.output_tokens, usage.usd):
        yield math.nan if amount is None else amount


_OVER = Cause.OVER_BUDGET.word


def spending_of(plan: Plan, results: Results, budget: Budget) -> Spending | None:
    """Return the `budget` of a summary; None for a run without one.

    What finishing costs is estimated: per item what the finished ones of the same kind took, on
    average; None where none is finished, or where a price is not known.
    """
    limits = plan.config.budget
    if limits == BudgetLimits():
        return None
    left_out = [(name, left, cost) for name, left, cost in _left_out(plan, results) if left]
    known = {"usd": limits.usd, "tokens": limits.tokens, "minutes": limits.minutes}
    return Spending(
        limits={key: value for key, value in known.items() if value is not None},
        spent=Cost(usd=round(budget.spent_usd, 6), tokens=budget.spent_tokens),
        reached=bool(left_out),
        missing={name: left for name, left, _ in left_out},
        to_finish=total_cost(cost for *_, cost in left_out),
    )


def _left_out(plan: Plan, results: Results) -> Iterator[tuple[str, int, Usage | None]]:
    """What the budget may have cut short, how many items of it are missing, and their usage."""
    for system, answers in results.answers.items():
        left = sum(outcome.cause is Cause.OVER_BUDGET for outcome in answers.outcomes)
        done = [o.value.usage for o in answers.outcomes if o.value is not None]
        yield f"generate {system}", left, scale_usage(done, left)
    for system, judged in results.judgements.items():
        for judge in plan.judges:
            cut, done, finished = set[tuple[str, int]](), list[Usage](), set[tuple[str, int]]()
            for row in chain.from_iterable(judged):
                if row.judge != judge:
                    continue
                if row.cause == _OVER:
                    cut.add(row.answer)
                else:
                    done.append(row.usage)
                    finished.add(row.answer)
            # an answer has a row for each rubric: the answers are counted, and all rows paid
            usage = scale_usage(done, len(cut), len(finished))
            yield f"judge {system} ({judge})", len(cut), usage
    if (filled := results.filled) is not None:
        left = filled.counts.failed.get(_OVER, 0)
        yield "judge passages", left, scale_usage([filled.use.usage], left, filled.counts.model)
    for each in results.preferences:
        pairs = [pair for entry in each.entries for pair in entry.comparisons]
        left, n = sum(pair.failed.get(_OVER, 0) for pair in pairs), sum(pair.n for pair in pairs)
        yield f"judge pairs ({each.judge})", left, scale_usage([each.use.usage], left, n)
    for name, ranking in results.rankings.items():
        left = sum(outcome.cause is Cause.OVER_BUDGET for outcome in ranking.outcomes)
        yield f"retrieve {name}", left, Usage(0, 0, 0.0)


def budget_warning(spending: Spending) -> str:
    """Say that the budget was reached, what is missing, and what finishing would cost."""
    missing = sum(spending.missing.values())
    first = max(spending.missing, key=lambda name: spending.missing[name])
    cost = spending.to_finish
    parts = []
    if cost.usd is not None:
        parts.append(f"{cost.usd:.4g} USD")
    if cost.tokens is not None:
        parts.append(f"{cost.tokens:,} tokens")
    more = f"finishing takes about {' and '.join(parts)}" if parts else "its cost is not known"
    return (
        f"the budget was reached: {missing} items are left out, most of them in {first}; the "
        f"others are a random sample; {more}: raise the budget and run the same command"
    )


def scale_usage(done: Iterable[Usage], left: int, finished: int | None = None) -> Usage | None:
    """What `left` further items take, going by the finished ones; None where there is none."""
    found = list(done)
    count = len(found) if finished is None else finished
    if not count:
        return None
    total = add_usage(found)
    factor = left / count
    sent, received, usd = total.input_tokens, total.output_tokens, total.usd
    return Usage(
        None if sent is None else round(sent * factor),
        None if received is None else round(received * factor),
        None if usd is None else usd * factor,
    )


def total_cost(costs: Iterable[Usage | None]) -> Cost:
    """Return dollars and tokens together; None where a part of them is not known."""
    found = list(costs)
    if any(cost is None for cost in found):
        return Cost(usd=None, tokens=None)
    total = add_usage(cost for cost in found if cost is not None)
    known = total.input_tokens is not None and total.output_tokens is not None
    tokens = (total.input_tokens or 0) + (total.output_tokens or 0)
    usd = None if total.usd is None else round(total.usd, 6)
    return Cost(usd=usd, tokens=tokens if known else None)
