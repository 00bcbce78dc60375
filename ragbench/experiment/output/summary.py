"""From the results of a run to `summary.json`: every system with what it scored and took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ragbench.comparison.summary import ScoreSummary, summarize
from ragbench.comparison.systems import SystemScores
from ragbench.data.runs.run_folder import (
    SUMMARY_SCHEMA,
)
from ragbench.experiment.costs import budget_warning, outcomes_of
from ragbench.experiment.records import Filled, Plan, PlannedFill, Results
from ragbench.experiment.stages.columns import answers_facts, failed_answers
from ragbench.llm.failures import shortened
from ragbench.secrets import redact
from ragbench.types import Cause, Prediction


def make_summary(plan: Plan, results: Results, run_id: str) -> dict[str, Any]:
    """Return the mapping of `summary.json`."""
    confidence = plan.config.statistics.confidence
    summaries = {
        system.name: {
            name: summarize(column, confidence=confidence, clusters=plan.clusters)
            for name, column in system.columns.items()
        }
        for system in results.systems
    }
    limit = plan.config.max_failed
    preferred = [entry for each in results.preferences for entry in each.entries]
    of_systems = [score for scores in summaries.values() for score in scores.values()]
    filled = results.filled
    of_pairs = [pair for entry in preferred for pair in entry["comparisons"]]
    complete = within = all(
        _failed_share(failed, n) <= limit
        for failed, n in [
            *((score.failed, score.n) for score in of_systems),
            *((pair["failed"], pair["n"]) for pair in of_pairs),
            *_answers_of(results),
            *((each.counts["failed"], each.counts["model"]) for each in filter(None, [filled])),
        ]
    )
    warnings = [*plan.warnings, *results.warnings]
    spending = results.spending
    if spending is not None and spending["reached"]:
        complete = False
        warnings.insert(0, budget_warning(spending))
    if not within:
        warnings.append(
            f"incomplete: more than {limit:.3g} of the items of a score failed; means are over the "
            "others, see unscored.jsonl"
        )
        warnings += _first_failures(results.systems)
    if not any([*(score.n for score in of_systems), *(pair["n"] for pair in of_pairs)]):
        failed = any(score.failed for score in of_systems) or any(p["failed"] for p in of_pairs)
        why = "every item failed" if failed else "no measure, metric or rubric applies to any query"
        warnings.append(f"nothing was scored: {why}")
    collection = plan.collection
    return {
        "schema": SUMMARY_SCHEMA,
        "name": plan.config.name,
        "run_id": run_id,
        "complete": complete,
        "dataset": {
            "name": redact(_dataset_name(plan), plan.config.environment),
            "type": plan.config.dataset.type,
            "queries": len(plan.queries),
            "documents": None if collection.documents is None else len(collection.documents),
            "judgements": None if plan.qrels is None else len(plan.qrels),
            "answers": sum(bool(collection.answers.get(query.id)) for query in plan.queries),
            "notes": list(collection.notes),
        },
        **({} if spending is None else {"budget": spending}),
        "seed": plan.config.seed,
        "confidence": confidence,
        "baseline": plan.baseline,
        **({"cluster": plan.config.statistics.cluster} if plan.clusters is not None else {}),
        "judges": {
            name: {"type": judge.type, "model": judge.judge.model, "label": judge.judge.label}
            for name, judge in plan.asked_judges.items()
        },
        **({"skipped_judges": dict(plan.skipped_judges)} if plan.skipped_judges else {}),
        **(
            {"early_stopping": {name: each.to_dict() for name, each in results.early.items()}}
            if results.early
            else {}
        ),
        **({"fill": _fill(plan.fill, filled)} if plan.fill and filled else {}),
        "systems": [
            _system(plan, results, system, summaries[system.name]) for system in results.systems
        ],
        **(
            {"preferences": [entry for each in results.preferences for entry in each.summaries()]}
            if preferred
            else {}
        ),
        "gates": [],
        "warnings": [redact(warning, plan.config.environment) for warning in warnings],
        "notes": [redact(note, plan.config.environment) for note in results.notes],
    }


def _answers_of(results: Results) -> Iterator[tuple[Mapping[str, int], int]]:
    """Failed and scored answers where queries have several: a query hides those that failed."""
    for scores in results.samples.values():
        for columns in scores.values():
            scored = sum(int((column.causes == Cause.SCORED).sum()) for column in columns)
            yield failed_answers(columns), scored


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


def _dataset_name(plan: Plan) -> str:
    """The data set's folder or file, with its split where it has a named one."""
    options = plan.config.dataset.options
    path = options.get("path") or options.get("qrels")
    name = Path(path).stem if path is not None else plan.config.dataset.type
    split = options.get("split")
    return f"{name}/{split}" if isinstance(split, str) else name


def _system(
    plan: Plan, results: Results, system: SystemScores, summaries: Mapping[str, ScoreSummary]
) -> dict[str, Any]:
    uses = results.judge_uses.get(system.name, {})
    answers, samples = results.answers.get(system.name), results.samples.get(system.name)
    outcomes = outcomes_of(results, system.name)
    usage = [o.value.usage for o in outcomes if isinstance(o.value, Prediction)]
    latencies = [o.latency_ms for o in outcomes if o.latency_ms is not None]
    return {
        "name": system.name,
        "retriever": system.retriever,
        "generator": system.generator,
        **({} if system.role == "system" else {"role": system.role}),
        "scores": {
            name: {
                **score.to_dict(),
                **_judge_of(plan, results, system, name),
                **_judged_by(results, system, name),
            }
            for name, score in summaries.items()
        },
        **({"counts": dict(system.counts)} if system.counts else {}),
        **({"answers": answers_facts(answers, samples)} if answers and samples else {}),
        "latency_ms": _latency(latencies),
        "queries_per_second": _throughput(latencies, _concurrency(plan, system)),
        "tokens": {
            "input": _total([u.input_tokens for u in usage]),
            "output": _total([u.output_tokens for u in usage]),
        },
        "usd": _total([u.usd for u in usage], start=0.0),
        **({"judging": {name: use.summary() for name, use in uses.items()}} if uses else {}),
    }


def _judge_of(plan: Plan, results: Results, system: SystemScores, score: str) -> dict[str, Any]:
    """The judge behind a score, where there is one: it stands beside every number of it."""
    if system.kinds[score] != "judge":
        return {}
    for name, use in results.judge_uses[system.name].items():
        for rubric in plan.judges[name].rubrics:
            if plan.judge_score(rubric.name, name) == score:
                found = {"judge": name, "model": "+".join(use.models)}
                spread = use.spreads.get(rubric.name)
                return found if spread is None else {**found, "spread": spread}
    return {}


def _judged_by(results: Results, system: SystemScores, score: str) -> dict[str, Any]:
    """Whose judgements a score of rankings rests on, where a model made some."""
    parts = dict(system.columns[score].signature.parts)
    if results.filled is None or "qrels" not in parts:
        return {}
    return {"judged_by": results.filled.by}


def _fill(fill: PlannedFill, filled: Filled) -> dict[str, Any]:
    """Who graded passages beside people, how many, and what it took."""
    return {
        "judge": fill.name,
        "model_name": "+".join(filled.models),
        "rubric": fill.rubric.name,
        "depth": fill.rules.depth,
        **filled.counts,
        "judging": filled.use.summary(),
    }


def _concurrency(plan: Plan, system: SystemScores) -> int:
    """How many calls to what answers for a system are under way at once."""
    if system.generator is not None:
        component = plan.component("generator", system.generator)
    elif system.role == "app":
        component = plan.component("app", system.name)
    else:
        component = plan.component("retriever", system.name)
    return 1 if component is None else component.concurrency


def _throughput(latencies: Sequence[float], concurrency: int) -> float | None:
    """Queries a second, by what the calls took, also where they were made earlier."""
    total = sum(latencies)
    if not total:
        return None
    return round(min(concurrency, len(latencies)) * 1000 * len(latencies) / total, 3)


def _latency(values: Sequence[float]) -> dict[str, float | None]:
    if not values:
        return {"p50": None, "p95": None}
    return {f"p{p}": round(float(np.percentile(values, p)), 3) for p in (50, 95)}


def _total(values: Sequence[float | None], start: float = 0) -> float | None:
    """The sum; None where a part of it is unknown, 0 where nothing was used."""
    known = [value for value in values if value is not None]
    return None if len(known) < len(values) else sum(known, start)
