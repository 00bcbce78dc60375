"""From the results of a run to `summary.json`: every system with what it scored and took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from ragbench.comparison.systems import baselines, summarize
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.experiment.costs import budget_warning, outcomes_of
from ragbench.experiment.plan.records import Noun, Plan, PlannedFill, System
from ragbench.experiment.records import Answers, Filled, Results, failed_answers
from ragbench.llm.failures import shortened
from ragbench.records.comparison import PreferredPair
from ragbench.records.score import SystemScore
from ragbench.records.summary import (
    AnswerCounts,
    Dataset,
    Fill,
    Judge,
    Latency,
    Summary,
    SystemSummary,
    SystemTiming,
    Timing,
    Tokens,
)
from ragbench.types import Cause, ScoreColumn

N = TypeVar("N", int, float)


def make_summary(plan: Plan, results: Results, run_id: str) -> Summary:
    """Return what `summary.json` holds, without the gates."""
    systems = tuple(_systems(plan, results))
    pairs = [pair for each in results.preferences for e in each.entries for pair in e.comparisons]
    within = all(
        _failed_share(failed, n) <= plan.config.max_failed
        for failed, n in _counts(systems, pairs, results)
    )
    spending, filled = results.spending, results.filled
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
            name: Judge(type=each.type, model=each.judge.model, label=each.judge.label)
            for name, each in plan.asked_judges.items()
        },
        skipped_judges=dict(plan.skipped_judges),
        fill=None if plan.fill is None or filled is None else _fill(plan.fill, filled),
        systems=systems,
        preferences=tuple(entry for each in results.preferences for entry in each.summaries()),
        warnings=tuple(_warnings(plan, results, within, systems, pairs)),
        notes=tuple(results.notes),
        timing=Timing(
            run_id=run_id,
            systems={each.name: _timing(plan, results, each) for each in results.systems},
        ),
    )


def _timing(plan: Plan, results: Results, system: SystemScores) -> SystemTiming:
    """How fast a system was, by what its calls took, also where they were made earlier."""
    outcomes = outcomes_of(results, system.name)
    latencies = [o.latency_ms for o in outcomes if o.latency_ms is not None]
    return SystemTiming(
        latency_ms=_latency(latencies),
        queries_per_second=_throughput(latencies, _concurrency(plan, plan.system(system.name))),
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


def _failed_share(causes: Mapping[str, int], n: int) -> float:
    failed = sum(causes.values())
    return failed / (failed + n) if failed else 0.0


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
        answers=_answers(answers, samples) if answers and samples else None,
        tokens=Tokens(
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
    """One score, with the judge behind it, or whose judgements it rests on."""
    column = system.columns[name]
    confidence = plan.config.statistics.confidence
    kind, clusters = system.kinds[name], plan.clusters
    summary = summarize(column, confidence=confidence, clusters=clusters, kind=kind)
    found = replace(summary, baseline=baseline)
    if results.filled is not None and column.signature.part("qrels") is not None:
        found = replace(found, judged_by=results.filled.by)
    if found.kind != "judge":
        return found
    for judge, use in results.judge_uses[system.name].items():
        for rubric in plan.judges[judge].rubrics:
            if plan.judge_score(rubric.name, judge) == name:
                models, spread = "+".join(use.models), use.spreads.get(rubric.name)
                return replace(found, judge=judge, model=models, spread=spread)
    return found


def _answers(answers: Answers, scores: Mapping[str, Sequence[ScoreColumn]]) -> AnswerCounts:
    failed = {name: failed_answers(columns) for name, columns in scores.items()}
    return AnswerCounts(
        per_query=answers.samples,
        asked=len(answers.outcomes),
        failed={name: causes for name, causes in failed.items() if causes},
    )


def _fill(fill: PlannedFill, filled: Filled) -> Fill:
    return Fill(
        judge=fill.name,
        model_name="+".join(filled.models),
        rubric=fill.rubric.name,
        depth=fill.rules.depth,
        **asdict(filled.counts),
        judging=filled.use.summary(),
    )


def _concurrency(plan: Plan, system: System) -> int:
    """How many calls to what answers for a system are under way at once."""
    alone: Noun = "app" if system.type == "app" else "retriever"
    component = plan.component(
        "generator" if system.generator else alone, system.generator or system.name
    )
    return 1 if component is None else component.concurrency


def _throughput(latencies: Sequence[float], concurrency: int) -> float | None:
    total = sum(latencies)
    if not total:
        return None
    return round(min(concurrency, len(latencies)) * 1000 * len(latencies) / total, 3)


def _latency(values: Sequence[float]) -> Latency:
    if not values:
        return Latency()
    p50, p95 = (round(float(np.percentile(values, p)), 3) for p in (50, 95))
    return Latency(p50=p50, p95=p95)


def _total(values: Sequence[N | None], start: N) -> N | None:
    """The sum; None where a part of it is unknown, 0 where nothing was used."""
    known = [value for value in values if value is not None]
    return None if len(known) < len(values) else sum(known, start)
