"""Summary of a run: scores, causes, latency, tokens and cost of each system, and the budget."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

from ragbench.comparison.causes import SystemCauses
from ragbench.comparison.differences import doubtful_intervals
from ragbench.comparison.query_notes import ScoredRankings, relevance_notes
from ragbench.comparison.slices import Slicing
from ragbench.comparison.systems import baselines, summarize
from ragbench.config.schema import BudgetLimits
from ragbench.data.loaders.python import PASSED
from ragbench.data.runs.run_folder import COST_COLUMNS, Column, csv_tables
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.experiment.audit.audit import audit_test_set
from ragbench.experiment.calls import FileRankings, Outcome, values_of
from ragbench.experiment.noise import system_noise
from ragbench.experiment.plan.plan import method_of
from ragbench.experiment.plan.records import Noun, Plan
from ragbench.experiment.plan.scores import ONLY_REFUSALS
from ragbench.experiment.plan.systems import user_systems
from ragbench.experiment.records import Results, failed_answers, tokens_of
from ragbench.experiment.selection import sweep_notes
from ragbench.gates.cheapest import CostComparison, scored_by
from ragbench.llm import Budget, Connected
from ragbench.llm.failures import one_line
from ragbench.records import summary as records
from ragbench.records.causes import RIGHT, AnswerCause, Quantity, counted_cause
from ragbench.records.comparison import MeasureComparison, PreferredPair
from ragbench.records.score import JudgedBy, SystemScore
from ragbench.types import Cause, FloatArray, Prediction, ScoreColumn, Usage
from ragbench.types.display import printable
from ragbench.types.lookups import omit_none, take_items
from ragbench.types.records import add_usage


def make_summary(plan: Plan, results: Results, started: float) -> records.Summary:
    """Return the record of `summary.json` of a run that started at an epoch time, without gates.

    It is `complete` if no score has a larger share of failures than the config allows, and the
    budget left no items out. Systems are in the order of the tables. A run without systems is
    complete. With `audit`, errors of `audit_test_set` pass through.
    """
    systems = tuple(_summarize_systems(plan, results))
    pairs, preferences = list[PreferredPair](), list[records.PreferenceSummary]()
    for of_judge in results.preferences:
        pairs += of_judge.pairs
        preferences += of_judge.summaries()
    within = True
    for failed, n in _count_failures(systems, pairs, results):
        n_failed = sum(failed.values())
        # without failures there may be no values either: no share of 0 items
        if n_failed and n_failed / (n_failed + n) > plan.config.max_failed:
            within = False
    spending, judges = results.spending, {}
    for name, entry in plan.all_judges.items():
        model, label = entry.judge.model, entry.judge.label
        judges[name] = records.DeclaredJudge(type=entry.type, model=model, label=label)
    return records.Summary(
        name=plan.config.name,
        complete=within and not (spending is not None and spending.reached),
        dataset=_describe_dataset(plan),
        budget=spending,
        cost=results.cost,
        seed=plan.config.seed,
        confidence=plan.config.statistics.confidence,
        baseline=plan.baseline,
        user_systems=user_systems(plan),
        hits_read=plan.config.causes.read,
        cluster=None if plan.clusters is None else plan.config.statistics.cluster,
        judges=judges,
        skipped_judges=dict(plan.skipped_judges),
        unreachable=results.unreachable,
        fill=None if results.filled is None else results.filled.counts,
        systems=systems,
        preferences=tuple(preferences),
        audit=None if plan.config.audit is None else audit_test_set(plan.config, plan.collection),
        selected=plan.config.selected,
        folds=tuple(results.fold_choices),
        warnings=tuple(_warnings(plan, results, within, systems, pairs)),
        notes=(
            *sweep_notes(plan.config, results.fold_choices),
            *_relevance_notes(results),
            *doubtful_intervals(results.comparisons.measures),
            *results.notes,
        ),
        timing=records.Timing(
            run_id=new_run_id(started, Path(plan.config.output) / plan.config.name),
            systems={system.name: _timing(plan, results, system.name) for system in systems},
            cheapest=tuple(_cheapest_systems(plan, results)),
        ),
    )


def _relevance_notes(results: Results) -> list[str]:
    """Return notes on the queries without a relevant document in the means of rankings."""
    return relevance_notes(
        {s.name: ScoredRankings(tuple(s.columns.values()), s.counts) for s in results.systems}
    )


def new_run_id(started: float, home: Path) -> str:
    """Return a free name for the folder of a run in `home`: its start in UTC, four hex digits.

    `started` is in seconds since 1970.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(started))
    # Of 100 runs that start in one second, two draw the same digits in 7 of 100 cases.
    while (home / (name := f"{stamp}-{secrets.token_hex(2)}")).exists():
        pass
    return name


def _timing(plan: Plan, results: Results, name: str) -> records.SystemTiming:
    """Return latency and throughput of a system; without values if no latency is known."""
    # Latencies of stored items count too: they are those of the run that made the calls.
    system, outcomes = plan.system(name), outcomes_of(results, name)
    latencies = []
    for outcome in outcomes:
        if outcome.latency_ms is not None:
            latencies.append(outcome.latency_ms)
    if not latencies:
        return records.SystemTiming(latency_ms=records.Latency())
    total_ms, n = math.fsum(latencies), len(latencies)
    p50, p95 = (round(float(np.percentile(latencies, p)), 3) for p in (50, 95))
    # calls of the component that answers run side by side, as many as its config allows
    alone: Noun = "app" if system.type == "app" else "retriever"
    noun: Noun = "generator" if system.generator else alone
    component = plan.component(noun, system.generator or name)
    # a live object has no entry in the config, and is called once at a time
    n_parallel = min(1 if component is None else component.concurrency, n)
    return records.SystemTiming(
        latency_ms=records.Latency(p50=p50, p95=p95),
        queries_per_second=round(n_parallel * 1000 * n / total_ms, 3) if total_ms else None,
    )


def _cheapest_systems(plan: Plan, results: Results) -> Iterator[records.CheapestSystem]:
    """Yield the cheapest system that is not much worse, by the first measure of each kind."""
    systems = results.compared_systems
    first_of_kind = dict[str | None, MeasureComparison]()
    for family in results.comparisons.measures:
        if family.best:
            first_of_kind.setdefault(family.kind, family)
    for family in first_of_kind.values():
        scored, best = scored_by(family.measure, systems), family.best or ""
        method = method_of(plan.config)
        comparison = CostComparison(
            best, scored, family.measure, _CHEAPEST_WITHIN, method, plan.ids, plan.clusters
        )
        if (cheapest := comparison.cheapest()) is not None:
            yield cheapest


def _count_failures(
    systems: Sequence[records.SystemSummary], pairs: Sequence[PreferredPair], results: Results
) -> Iterator[tuple[Mapping[str, int], int]]:
    """Yield (failures by cause, number of items with a value) of each score of the run."""
    for system in systems:
        for score in system.scores.values():
            yield (score.failed, score.n)
    for pair in pairs:
        yield (pair.failed, pair.n)
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
    systems: Sequence[records.SystemSummary],
    pairs: Sequence[PreferredPair],
) -> Iterator[str]:
    """Yield sentences on what makes the numbers doubtful; a reached budget comes first."""
    if results.spending is not None and results.spending.reached:
        yield budget_warning(results.spending)
    yield from (*plan.warnings, *results.warnings)
    if not within:
        allowed = plan.config.max_failed
        share = f"more than {allowed:.3g} of the" if allowed else "some"
        yield (
            f"incomplete: {share} items of a score failed; means are over the others, "
            "see unscored.jsonl"
        )
        for name in results.unreachable:
            reason = f"no request was served by the server of {name}"
            yield f"{reason}: the same command sends them again"
        yield from _first_failures(results.systems, plan.config.path)
    scores: list[SystemScore | PreferredPair] = [*pairs]
    for system in systems:
        scores += system.scores.values()
    n_values, has_failures = 0, False
    for score in scores:
        n_values += score.n
        has_failures = has_failures or bool(score.failed)
    # traces have a warning of their own
    if not n_values and ONLY_REFUSALS not in plan.warnings:
        reason = "every item failed"
        if not has_failures:
            reason = (
                "no measure, metric or rubric applies to any query; without gold, a judge scores "
                "answers: metrics: {judge: {type: openai, model: gpt-4o-mini}}"
            )
        yield f"nothing was scored: {reason}"


def _describe_dataset(plan: Plan) -> records.Dataset:
    """Return name, type and sizes of the data set; sizes are None without corpus or judgements."""
    collection = plan.collection
    # the name is that of its folder or file, with the split if the config names one
    options = plan.config.dataset.options
    path = options.get("path") or options.get("answers") or options.get("qrels")
    kind = plan.config.dataset.type
    name = "data of Python" if kind == PASSED else kind
    if isinstance(path, (str, Path)):  # a list of files has no name of its own
        name = Path(path).stem
    split = options.get("split")

    return records.Dataset(
        name=(f"{name}/{split}" if isinstance(split, str) else name),
        type=kind,
        queries=len(plan.queries),
        documents=None if collection.documents is None else len(collection.documents),
        judgements=None if plan.qrels is None else len(plan.qrels),
        answers=sum(bool(collection.answers.get(query)) for query in plan.ids),
        notes=tuple(collection.notes),
    )


def _first_failures(systems: Sequence[SystemScores], config: Path | None) -> list[str]:
    """Return a sentence on the first failure of each system, each text once."""
    # A pair of retriever and generator often fails as its retriever does, with the same text.
    reasons = []
    for system in systems:
        failures = chain.from_iterable(map(_failure_texts, system.columns.values()))
        reason = one_line(next(failures, ""))
        is_elsewhere = config is not None and config.parent.resolve() != Path.cwd()
        # own code opens relative paths in the working directory
        if "FileNotFoundError" in reason and is_elsewhere:
            reason += f"; run the command in the folder of {printable(config)}"
        reasons.append(reason)
    return [f"{records.FIRST_TO_FAIL}{reason}" for reason in dict.fromkeys(reasons) if reason]


def _failure_texts(column: ScoreColumn) -> Iterator[str]:
    """Yield the text of each failure of a score, by query."""
    for row in sorted(column.details):
        if column.details[row] and Cause(int(column.causes[row])).failed:
            yield column.details[row]


def _summarize_systems(plan: Plan, results: Results) -> Iterator[records.SystemSummary]:
    """Yield the summary of each system, with the baseline of each of its scores."""
    by_score = baselines(results.systems, plan.baseline)
    for system in results.systems:
        baseline_of = {}
        for score in system.columns:
            baseline = by_score[score][system.name]
            baseline_of[score] = None if baseline is None else baseline.name
        # the baseline of the system is that of its first score; another score names its own, and
        # a system that is itself the baseline of that score names itself
        first = next(iter(baseline_of.values()), None)
        scores = {}
        for score, name in baseline_of.items():
            of_score = None if name == first else name or system.name
            scores[score] = _summarize_score(plan, results, system, score, of_score)
        yield _summarize_system(plan, results, system, scores, first)


def _summarize_system(
    plan: Plan,
    results: Results,
    system: SystemScores,
    scores: Mapping[str, SystemScore],
    baseline: str | None,
) -> records.SystemSummary:
    """Return the summary of a system: scores, causes, answers, tokens and cost."""
    answers, samples = results.answers.get(system.name), results.samples.get(system.name)
    outcomes = () if answers is None else answers.outcomes
    # of successful answers: failed calls have no usage here
    usage = add_usage(outcome.value.usage for outcome in outcomes if outcome.value is not None)
    uses = results.judge_uses.get(system.name, {})
    causes, planned = results.causes[system.name], plan.system(system.name)
    counts = None
    if answers and samples:
        failures = {}
        for name, columns in samples.items():
            failures[name] = failed_answers(columns)
        failed = {}
        for name, by_cause in failures.items():
            if by_cause:
                failed[name] = by_cause
        counts = records.AnswerCounts(
            per_query=answers.samples,
            asked=len(outcomes),
            failed=failed,
        )
    judging = {}
    for name, use in uses.items():
        judging[name] = use.summary()
    return records.SystemSummary(
        name=system.name,
        retriever=system.retriever,
        generator=system.generator,
        role=system.role,
        type=planned.type,
        # an app need not say what it retrieved
        ranking_of=planned.ranking_of if planned.ranking_of in results.rankings else None,
        baseline=baseline,
        scores=scores,
        counts=system.counts,
        causes=causes.counts(),
        right_unsupported=causes.unsupported(),
        unjudged=_unjudged(system, causes, samples or {}),
        cause_shares=causes.shares(plan.config.statistics.confidence, plan.clusters),
        causes_by=causes.by_slice(plan.slicings),
        scores_by={
            slicing.field: _score_slices(slicing, system, plan) for slicing in plan.slicings
        },
        reading=results.readings.get(system.name),
        answers=counts,
        tokens=tokens_of(usage),
        usd=usage.usd,
        judging=judging,
        noise=system_noise(plan, results, system.name, {n: s.interval for n, s in scores.items()}),
    )


def _unjudged(
    system: SystemScores, causes: SystemCauses, samples: Mapping[str, Sequence[ScoreColumn]]
) -> dict[AnswerCause, Quantity]:
    """Return cause -> number of the queries of a system without a value of `right` or `found`."""
    counts = [name for name in system.columns if counted_cause(name)]
    if not counts:
        return {}
    name = RIGHT if RIGHT in counts else counts[0]
    columns = samples.get(name, [system.columns[name]])
    return causes.count_open([np.isnan(column.values).tolist() for column in columns])


def _score_slices(
    slicing: Slicing, system: SystemScores, plan: Plan
) -> dict[str, dict[str, SystemScore]]:
    """Return slice -> score -> mean, interval and counts over the queries of the slice."""
    confidence = plan.config.statistics.confidence
    slices = {}
    for name, is_member in zip(slicing.names, slicing.members().T, strict=True):
        rows = np.flatnonzero(is_member)
        clusters = None if plan.clusters is None else take_items(plan.clusters, rows)
        scores = {}
        for score, column in system.columns.items():
            part = column.take(rows)
            scores[score] = summarize(part, confidence=confidence, clusters=clusters)
        slices[name] = scores
    return slices


def _summarize_score(
    plan: Plan, results: Results, system: SystemScores, name: str, baseline: str | None
) -> SystemScore:
    """Return mean, interval and counts of a score."""
    column = system.columns[name]
    confidence = plan.config.statistics.confidence
    kind, clusters = system.kinds[name], plan.clusters
    summary = summarize(column, confidence=confidence, clusters=clusters, kind=kind)
    score = structs.replace(summary, baseline=baseline)
    if results.filled is not None and column.signature.part("qrels") is not None:
        counts = results.filled.counts
        n_failed = sum(counts.failed.values())
        judged_by = JudgedBy(people=counts.people, model=counts.model, failed=n_failed)
        score = structs.replace(score, judged_by=judged_by)
    if score.kind != "judge":
        return score
    for judge, use in results.judge_uses[system.name].items():
        for rubric in plan.judges[judge].rubrics:
            if plan.judge_score(rubric.name, judge) == name:
                models, spread = "+".join(use.models), use.spreads.get(rubric.name)
                return structs.replace(score, judge=judge, model=models, spread=spread)
    return score


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


# Margin of the cheapest system, as a share of the range of the score
_CHEAPEST_WITHIN = 0.02
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


def total_cost(usages: Iterable[Usage | None]) -> records.CostTotal:
    """Return dollars and tokens of all usages; each is None if it is not known for one of them.

    Dollars have six decimals. Without usages both are 0.
    """
    total = add_usage(Usage() if usage is None else usage for usage in usages)
    has_tokens = total.input_tokens is not None and total.output_tokens is not None
    tokens = (total.input_tokens or 0) + (total.output_tokens or 0)
    usd = None if total.usd is None else round(total.usd, 6)
    return records.CostTotal(usd=usd, tokens=tokens if has_tokens else None)
