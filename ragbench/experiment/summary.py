"""Summary of a run: scores, causes, latency, tokens and cost of each system, and the budget."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from msgspec import structs

from ragbench.comparison.causes import SystemCauses
from ragbench.comparison.differences import doubtful_intervals
from ragbench.comparison.query_notes import ScoredRankings, relevance_notes
from ragbench.comparison.slices import Slicing
from ragbench.comparison.systems import baselines, summarize
from ragbench.data.loaders.python import PASSED
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.experiment.audit.audit import audit_test_set
from ragbench.experiment.costs import outcomes_of
from ragbench.experiment.noise import system_noise
from ragbench.experiment.plan.plan import method_of
from ragbench.experiment.plan.records import Noun, Plan
from ragbench.experiment.plan.systems import user_systems
from ragbench.experiment.records import Results, failed_answers, tokens_of
from ragbench.experiment.selection import sweep_notes
from ragbench.experiment.summary_warnings import count_failures, summary_warnings
from ragbench.gates.cheapest import CostComparison, scored_by
from ragbench.records import summary as records
from ragbench.records.causes import RIGHT, AnswerCause, Quantity, counted_cause
from ragbench.records.comparison import MeasureComparison, PreferredPair
from ragbench.records.score import JudgedBy, SystemScore
from ragbench.types import ScoreColumn
from ragbench.types.lookups import take_items
from ragbench.types.records import add_usage

# Margin of the cheapest system, as a share of the range of the score
_CHEAPEST_WITHIN = 0.02


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
    for failed, n in count_failures(systems, pairs, results):
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
        warnings=tuple(summary_warnings(plan, results, within, systems, pairs)),
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
    p50, p95 = (round(ms, 3) for ms in np.percentile(latencies, (50, 95)).tolist())
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
