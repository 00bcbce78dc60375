"""Summarize a run: the scores of each system, and their time, tokens and dollars."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ragbench.comparison.systems import baselines, summarize
from ragbench.config.schema import BudgetLimits
from ragbench.data.runs.run_folder import COST_COLUMNS, Column, csv_tables
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.experiment.calls import FileRankings, Outcome
from ragbench.experiment.plan.records import Noun, Plan
from ragbench.experiment.records import Results, failed_answers
from ragbench.llm import Budget
from ragbench.llm.failures import shortened
from ragbench.records.comparison import PreferredPair
from ragbench.records.score import JudgedBy, SystemScore
from ragbench.records.summary import (
    AnswerCounts,
    CostTotal,
    Dataset,
    DeclaredJudge,
    Latency,
    Spending,
    Summary,
    SystemSummary,
    SystemTiming,
    Timing,
    TokenCounts,
)
from ragbench.types import Cause, FloatArray, Prediction, Usage
from ragbench.types.records import add_usage

N = TypeVar("N", int, float)


def make_summary(plan: Plan, results: Results, run_id: str) -> Summary:
    """Return what `summary.json` holds, without the gates."""
    systems = tuple(_systems(plan, results))
    pairs = [pair for each in results.preferences for e in each.entries for pair in e.comparisons]
    allowed = plan.config.max_failed
    counts = [(sum(failed.values()), n) for failed, n in _counts(systems, pairs, results)]
    within = all(not n_failed or n_failed / (n_failed + n) <= allowed for n_failed, n in counts)
    spending = results.spending
    return Summary(
        name=plan.config.name,
        complete=within and not (spending is not None and spending.reached),
        dataset=_dataset(plan),
        budget=spending,
        seed=plan.config.seed,
        confidence=plan.config.statistics.confidence,
        baseline=plan.baseline,
        cluster=None if plan.clusters is None else plan.config.statistics.cluster,
        judges={
            name: DeclaredJudge(type=each.type, model=each.judge.model, label=each.judge.label)
            for name, each in plan.all_judges.items()
        },
        skipped_judges=dict(plan.skipped_judges),
        fill=None if results.filled is None else results.filled.counts,
        systems=systems,
        preferences=tuple(entry for each in results.preferences for entry in each.summaries()),
        warnings=tuple(_warnings(plan, results, within, systems, pairs)),
        notes=tuple(results.notes),
        timing=Timing(
            run_id=run_id,
            systems={system.name: _timing(plan, results, system.name) for system in systems},
        ),
    )


def _timing(plan: Plan, results: Results, name: str) -> SystemTiming:
    """Return how fast a system was, by what its calls took, also where they were made earlier."""
    system, outcomes = plan.system(name), outcomes_of(results, name)
    latencies = [o.latency_ms for o in outcomes if o.latency_ms is not None]
    if not latencies:
        return SystemTiming(latency_ms=Latency())
    total_ms, n = sum(latencies), len(latencies)
    p50, p95 = (round(float(np.percentile(latencies, p)), 3) for p in (50, 95))
    # as many calls at once as the config allows of the component that answers
    alone: Noun = "app" if system.type == "app" else "retriever"
    noun: Noun = "generator" if system.generator else alone
    component = plan.component(noun, system.generator or name)
    at_once = min(1 if component is None else component.concurrency, n)
    return SystemTiming(
        latency_ms=Latency(p50=p50, p95=p95),
        queries_per_second=round(at_once * 1000 * n / total_ms, 3) if total_ms else None,
    )


def _counts(
    systems: Sequence[SystemSummary], pairs: Sequence[PreferredPair], results: Results
) -> Iterator[tuple[Mapping[str, int], int]]:
    """What failed, by cause, beside how much did not: of all that a run scores."""
    for system in systems:
        yield from ((score.failed, score.n) for score in system.scores.values())
    yield from ((pair.failed, pair.n) for pair in pairs)
    for scores in results.samples.values():
        for columns in scores.values():
            scored = sum(int((column.causes == Cause.SCORED).sum()) for column in columns)
            yield failed_answers(columns), scored
    if results.filled is not None:
        yield results.filled.counts.failed, results.filled.counts.model


def _warnings(
    plan: Plan,
    results: Results,
    within: bool,
    systems: Sequence[SystemSummary],
    pairs: Sequence[PreferredPair],
) -> Iterator[str]:
    """What makes the numbers doubtful, what was not done for its price first."""
    if results.spending is not None and results.spending.reached:
        yield budget_warning(results.spending)
    yield from (*plan.warnings, *results.warnings)
    if not within:
        allowed = plan.config.max_failed
        many = f"more than {allowed:.3g} of the" if allowed else "some"
        yield (
            f"incomplete: {many} items of a score failed; means are over the others, "
            "see unscored.jsonl"
        )
        yield from _first_failures(results.systems)
    scores = [score for system in systems for score in system.scores.values()]
    counts = [*((s.n, s.failed) for s in scores), *((p.n, p.failed) for p in pairs)]
    if not any(n for n, _ in counts):
        failed = any(failed for _, failed in counts)
        why = "every item failed" if failed else "no measure, metric or rubric applies to any query"
        yield f"nothing was scored: {why}"


def _dataset(plan: Plan) -> Dataset:
    collection = plan.collection
    # the data set's folder or file, with its split where it has a named one
    options = plan.config.dataset.options
    path = options.get("path") or options.get("qrels")
    name = Path(path).stem if path is not None else plan.config.dataset.type
    split = options.get("split")

    return Dataset(
        name=(f"{name}/{split}" if isinstance(split, str) else name),
        type=plan.config.dataset.type,
        queries=len(plan.queries),
        documents=None if collection.documents is None else len(collection.documents),
        judgements=None if plan.qrels is None else len(plan.qrels),
        answers=sum(bool(collection.answers.get(query)) for query in plan.ids),
        notes=tuple(collection.notes),
    )


def _first_failures(systems: Sequence[SystemScores]) -> list[str]:
    """Why the first failed item of each system did; a pair repeats what its retriever says."""
    found = []
    for system in systems:
        details = (
            column.details[row]
            for column in system.columns.values()
            for row in sorted(column.details)
            if column.details[row] and Cause(int(column.causes[row])).failed
        )
        found.append(shortened(next(details, "")))
    return [f"the first to fail: {text}" for text in dict.fromkeys(found) if text]


def _systems(plan: Plan, results: Results) -> Iterator[SystemSummary]:
    """Every system with its scores, and with what it is compared with by each of them."""
    against = baselines(results.systems, plan.baseline)
    for system in results.systems:
        other = {name: against[name][system.name] for name in system.columns}
        names = {name: None if each is None else each.name for name, each in other.items()}
        usual = next(iter(names.values()), None)
        scores = {
            # its own name where only this score has it for a baseline
            name: _score(plan, results, system, name, None if own == usual else own or system.name)
            for name, own in names.items()
        }
        yield _system(plan, results, system, scores, usual)


def _system(
    plan: Plan,
    results: Results,
    system: SystemScores,
    scores: Mapping[str, SystemScore],
    baseline: str | None,
) -> SystemSummary:
    answers, samples = results.answers.get(system.name), results.samples.get(system.name)
    outcomes = () if answers is None else answers.outcomes
    usage = [outcome.value.usage for outcome in outcomes if outcome.value is not None]
    uses = results.judge_uses.get(system.name, {})
    causes, planned = results.causes[system.name], plan.system(system.name)
    return SystemSummary(
        name=system.name,
        retriever=system.retriever,
        generator=system.generator,
        role=system.role,
        type=planned.type,
        ranking_of=planned.ranking_of if planned.ranking_of in results.rankings else None,
        baseline=baseline,
        scores=scores,
        counts=system.counts,
        causes=causes.counts(),
        cause_shares=causes.shares(plan.config.statistics.confidence, plan.clusters),
        causes_by=causes.by_slice(plan.slicings),
        answers=AnswerCounts(
            per_query=answers.samples,
            asked=len(outcomes),
            failed={name: counts for name, of in samples.items() if (counts := failed_answers(of))},
        )
        if answers and samples
        else None,
        tokens=TokenCounts(
            input=_total([u.input_tokens for u in usage], 0),
            output=_total([u.output_tokens for u in usage], 0),
            reasoning=sum(u.reasoning_tokens for u in usage),
        ),
        usd=_total([u.usd for u in usage], 0.0),
        judging={name: use.summary() for name, use in uses.items()},
    )


def _score(
    plan: Plan, results: Results, system: SystemScores, name: str, baseline: str | None
) -> SystemScore:
    """Return a score with its judge, or with the counts of judgements by people and model."""
    column = system.columns[name]
    confidence = plan.config.statistics.confidence
    kind, clusters = system.kinds[name], plan.clusters
    summary = summarize(column, confidence=confidence, clusters=clusters, kind=kind)
    score = replace(summary, baseline=baseline)
    if results.filled is not None and column.signature.part("qrels") is not None:
        counts = results.filled.counts
        n_failed = sum(counts.failed.values())
        judged_by = JudgedBy(people=counts.people, model=counts.model, failed=n_failed)
        score = replace(score, judged_by=judged_by)
    if score.kind != "judge":
        return score
    for judge, use in results.judge_uses[system.name].items():
        for rubric in plan.judges[judge].rubrics:
            if plan.judge_score(rubric.name, judge) == name:
                models, spread = "+".join(use.models), use.spreads.get(rubric.name)
                return replace(score, judge=judge, model=models, spread=spread)
    return score


def _total(values: Sequence[N | None], start: N) -> N | None:
    """Return the sum; None where a part of it is not known, 0 where nothing was used."""
    amounts = [value for value in values if value is not None]
    return None if len(amounts) < len(values) else sum(amounts, start)


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


def costs_of(results: Results, system: str) -> dict[str, FloatArray]:
    """Return each cost of all queries of a system, NaN where it is not known.

    Times have three decimals, as files have them. What calls no model uses no tokens. A query that
    was answered several times took the mean of their times, and the tokens and dollars of all.
    """
    outcomes, answers = outcomes_of(results, system), results.answers.get(system)
    if not outcomes:
        return {}
    samples = 1 if answers is None else answers.samples
    values = np.fromiter(chain.from_iterable(map(_costs, outcomes)), np.float64)
    rows = values.reshape(len(outcomes), -1)
    if answers is None:
        rows = rows.repeat(len(results.rankings[system].outcomes) // len(rows), axis=0)
    # all queries of the first sample stand before those of the next
    times, *spent = rows.T.reshape(len(COST_COLUMNS), samples, -1)
    known = ~np.isnan(times)
    total, n = np.where(known, times, 0.0).sum(axis=0), known.sum(axis=0)
    mean = np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0)
    costs = [mean.round(3), *(amounts.sum(axis=0) for amounts in spent)]
    return dict(zip(COST_COLUMNS, costs, strict=True))


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
        spent=CostTotal(usd=round(budget.spent_usd, 6), tokens=budget.spent_tokens),
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
    parts = [] if cost.usd is None else [f"{cost.usd:.4g} USD"]
    parts += [] if cost.tokens is None else [f"{cost.tokens:,} tokens"]
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


def total_cost(costs: Iterable[Usage | None]) -> CostTotal:
    """Return dollars and tokens together; None where a part of them is not known."""
    found = list(costs)
    if any(cost is None for cost in found):
        return CostTotal(usd=None, tokens=None)
    total = add_usage(cost for cost in found if cost is not None)
    known = total.input_tokens is not None and total.output_tokens is not None
    tokens = (total.input_tokens or 0) + (total.output_tokens or 0)
    usd = None if total.usd is None else round(total.usd, 6)
    return CostTotal(usd=usd, tokens=tokens if known else None)
