"""Spending of a run with a budget: costs so far, missing items, and the cost to finish."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from ragbench.config.schema import BudgetLimits
from ragbench.experiment.calls import Outcome, values_of
from ragbench.experiment.costs import total_cost
from ragbench.experiment.plan.records import Plan
from ragbench.experiment.records import Results
from ragbench.llm import Budget
from ragbench.records import summary as records
from ragbench.types import Cause, Usage
from ragbench.types.lookups import omit_none
from ragbench.types.records import add_usage

_OVER_BUDGET = Cause.OVER_BUDGET.word


def spending_of(plan: Plan, results: Results, budget: Budget) -> records.Spending | None:
    """Return limits, costs so far and missing items of a run; None for a run without a budget.

    The cost to finish is an estimate: the missing items cost as much on average as the finished
    ones of the same kind. Its dollars and tokens are None if no item of a kind is finished; dollars
    also if a price is not known. Kinds without missing items are left out; amounts are in USD,
    tokens and minutes.
    """
    limits = plan.config.budget
    if limits == BudgetLimits():
        return None
    missing, usages = dict[str, int](), []
    for name, n_missing, usage in _left_out(plan, results):
        if n_missing:
            missing[name] = n_missing
            usages.append(usage)
    usd = round(budget.spent_usd, 6) if budget.is_cost_known else None
    return records.Spending(
        limits=omit_none(asdict(limits)),
        spent=records.CostTotal(usd=usd, tokens=budget.spent_tokens),
        reached=bool(missing),
        missing=missing,
        to_finish=total_cost(usages),
    )


def _left_out(plan: Plan, results: Results) -> Iterator[tuple[str, int, Usage | None]]:
    """Yield name, number of items left out by the budget, and their likely usage, for each kind."""
    for system, answers in results.answers.items():
        n_missing = _count_over_budget(answers.outcomes)
        used = [answer.usage for answer in values_of(answers.outcomes)]
        yield f"generate {system}", n_missing, scale_usage(used, n_missing)
    for system, verdicts in results.judgements.items():
        for judge in plan.judges:
            cut, used, finished = set[tuple[str, int]](), list[Usage](), set[tuple[str, int]]()
            for row in verdicts.get(judge, ()):
                if row.cause == _OVER_BUDGET:
                    cut.add(row.answer)
                else:
                    used.append(row.usage)
                    finished.add(row.answer)
            # an answer has a row for each rubric: answers are counted, and the usage of all rows
            usage = scale_usage(used, len(cut), len(finished))
            yield f"judge {system} ({judge})", len(cut), usage
    if (filled := results.filled) is not None:
        n_missing, n = filled.counts.failed.get(_OVER_BUDGET, 0), filled.counts.model
        yield "judge passages", n_missing, scale_usage([filled.use.usage], n_missing, n)
    for preferences in results.preferences:
        n_missing = n = 0
        for pair in preferences.pairs:
            n_missing += pair.failed.get(_OVER_BUDGET, 0)
            n += pair.n
        usage = scale_usage([preferences.use.usage], n_missing, n)
        yield f"judge pairs ({preferences.judge})", n_missing, usage
    for name, ranking in results.rankings.items():
        yield f"retrieve {name}", _count_over_budget(ranking.outcomes), Usage(0, 0, 0.0)


def _count_over_budget(outcomes: Iterable[Outcome[Any]]) -> int:
    """Return the number of outcomes that the budget left out."""
    return sum(outcome.cause is Cause.OVER_BUDGET for outcome in outcomes)


def budget_warning(spending: records.Spending) -> str:
    """Return the warning of a reached budget: the missing items, and the cost to finish.

    `spending` has at least one kind of missing items.

    Raises:
        ValueError: Nothing is missing.
    """
    n_missing = sum(spending.missing.values())
    first = max(spending.missing, key=lambda name: spending.missing[name])
    cost = spending.to_finish
    parts = [] if cost.usd is None else [f"{cost.usd:.4g} USD"]
    parts += [] if cost.tokens is None else [f"{cost.tokens:,} tokens"]
    more = f"finishing takes about {' and '.join(parts)}" if parts else "its cost is not known"
    # random: stages work through the queries in an order drawn from the seed and their ids
    sample = "the others are a random sample"
    # time is spent on components without tokens, too
    if "minutes" not in spending.limits and not (spending.spent.usd or spending.spent.tokens):
        sample = "no call fitted into it"
    return (
        f"the budget was reached: {n_missing} items are left out, most of them in {first}; "
        f"{sample}; {more}: raise the budget and run the same command"
    )


def scale_usage(used: Sequence[Usage], n_missing: int, n: int | None = None) -> Usage | None:
    """Return the likely usage of `n_missing` items, in proportion to that of finished ones.

    Args:
        used: Usage of the finished items, in one part or several.
        n_missing: Number of items to estimate.
        n: Number of finished items; None if each has one part in `used`.

    Returns:
        Tokens and dollars, each None if it is not known for one part; None if `n` is 0.
    """
    n = len(used) if n is None else n
    if not n:
        return None
    total, factor = add_usage(used), n_missing / n
    input_tokens, output_tokens, usd = total.input_tokens, total.output_tokens, total.usd
    return Usage(
        None if input_tokens is None else round(input_tokens * factor),
        None if output_tokens is None else round(output_tokens * factor),
        None if usd is None else usd * factor,
    )
