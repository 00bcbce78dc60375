"""From the results of a run to the files of its run folder."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ragbench.comparison.summary import ScoreSummary, finite, summarize
from ragbench.comparison.systems import SystemScores
from ragbench.config import dump_config
from ragbench.data.run_folder import (
    SUMMARY_SCHEMA,
    file_name,
    to_csv,
    to_json,
    to_jsonl,
    write_run_folder,
)
from ragbench.data.trec_files import format_run
from ragbench.experiment.calls import Outcome
from ragbench.experiment.choices import Choices
from ragbench.experiment.fill import Filled
from ragbench.experiment.fill_plan import PlannedFill
from ragbench.experiment.gates import gate_run
from ragbench.experiment.generation import Answers
from ragbench.experiment.manifest import make_manifest
from ragbench.experiment.plan import Plan
from ragbench.experiment.result import Experiment
from ragbench.experiment.results import Results
from ragbench.experiment.spending import budget_warning
from ragbench.report.html import render_html
from ragbench.report.junit import render_junit
from ragbench.report.markdown import render_markdown
from ragbench.secrets import redact
from ragbench.types import Cause, Prediction


def write_run(plan: Plan, results: Results, choices: Choices, started: float) -> Experiment:
    """Write the run folder, whole or not at all, and return the experiment.

    Raises:
        DataError: The folder cannot be written.
    """
    # the random part keeps runs of the same second apart
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(started))
    run_id = f"{stamp}-{secrets.token_hex(2)}"
    summary = gate_run(plan, results, make_summary(plan, results, run_id))
    contents = {
        "config.yaml": dump_config(
            plan.config, Path(plan.config.output) / plan.config.name / run_id
        ),
        "manifest.json": to_json(make_manifest(plan, results, choices, started)),
        "summary.json": to_json(summary),
        "per_query.csv": _per_query(plan, results.systems),
        "unscored.jsonl": to_jsonl(_unscored(plan, results.systems)),
        "comparisons.json": to_json(results.comparisons),
        "report.md": render_markdown(summary, results.comparisons),
        "report.html": render_html(summary, results.comparisons),
        "junit.xml": render_junit(summary),
    }
    for name, ranking in results.rankings.items():
        contents[f"rankings/{file_name(name)}.trec"] = format_run(ranking.run)
        if ranking.unmatched is not None:
            contents[f"passages/{file_name(name)}.trec"] = format_run(ranking.unmatched)
    for name, answers in results.answers.items():
        contents[f"predictions/{file_name(name)}.jsonl"] = to_jsonl(_predictions(plan, answers))
    for name, rows in results.judgements.items():
        contents[f"judgements/{file_name(name)}.jsonl"] = to_jsonl(
            _without_secrets(plan, row) for row in rows
        )
    for preferences in results.preferences:
        contents[f"judgements/pairs/{file_name(preferences.judge)}.jsonl"] = to_jsonl(
            _without_secrets(plan, row) for row in preferences.rows
        )
    if results.filled is not None and plan.fill is not None:
        contents[f"judgements/passages/{file_name(plan.fill.name)}.jsonl"] = to_jsonl(
            _without_secrets(plan, row) for row in results.filled.rows
        )
    folder = write_run_folder(Path(plan.config.output), plan.config.name, run_id, contents)
    return Experiment(folder, summary, results.comparisons)


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
    if not any([*(score.n for score in of_systems), *(pair["n"] for pair in of_pairs)]):
        warnings.append("nothing was scored: no measure, metric or rubric applies to any query")
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
    answers = results.answers.get(system.name)
    ranking = results.rankings.get(system.name)
    uses = results.judge_uses.get(system.name, {})
    outcomes: Sequence[Outcome[Any]] = (
        answers.outcomes if answers is not None else ranking.outcomes if ranking is not None else []
    )
    usage = [o.value.usage for o in outcomes if isinstance(o.value, Prediction)]
    return {
        "name": system.name,
        "retriever": system.retriever,
        "generator": system.generator,
        "scores": {
            name: {
                **score.to_dict(),
                **_judge_of(plan, results, system, name),
                **_judged_by(results, system, name),
            }
            for name, score in summaries.items()
        },
        **({"counts": dict(system.counts)} if system.counts else {}),
        "latency_ms": _latency([o.latency_ms for o in outcomes if o.latency_ms is not None]),
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


def _latency(values: Sequence[float]) -> dict[str, float | None]:
    if not values:
        return {"p50": None, "p95": None}
    return {f"p{p}": round(float(np.percentile(values, p)), 3) for p in (50, 95)}


def _total(values: Sequence[float | None], start: float = 0) -> float | None:
    """The sum; None where a part of it is unknown, 0 where nothing was used."""
    known = [value for value in values if value is not None]
    return None if len(known) < len(values) else sum(known, start)


def _per_query(plan: Plan, systems: Sequence[SystemScores]) -> str:
    names = list(dict.fromkeys(name for system in systems for name in system.columns))
    rows = (
        [system.name, query.id, *(_cell(system, name, row) for name in names)]
        for system in systems
        for row, query in enumerate(plan.queries)
    )
    return to_csv(["system", "query_id", *names], rows)


def _cell(system: SystemScores, name: str, row: int) -> float | None:
    column = system.columns.get(name)
    return None if column is None else finite(column.values[row])


def _unscored(plan: Plan, systems: Sequence[SystemScores]) -> Iterator[dict[str, Any]]:
    for system in systems:
        for name, column in system.columns.items():
            for row in np.flatnonzero(column.causes != Cause.SCORED).tolist():
                cause = Cause(int(column.causes[row]))
                yield {
                    "system": system.name,
                    "query_id": plan.queries[row].id,
                    "measure": name,
                    "status": cause.status,
                    "cause": cause.word,
                    "detail": redact(column.details.get(row, ""), plan.config.environment),
                }


def _without_secrets(plan: Plan, row: dict[str, Any]) -> dict[str, Any]:
    """A verdict whose reasoning may be the text of an error."""
    texts = {key: redact(row[key], plan.config.environment) for key in ("reasoning", "raw")}
    return {**row, **texts}


def _predictions(plan: Plan, answers: Answers) -> Iterator[dict[str, Any]]:
    for query, outcome in zip(plan.queries, answers.outcomes, strict=True):
        prediction = outcome.value
        if prediction is None:
            yield {
                "query_id": query.id,
                "answer": None,
                "contexts": None,
                "cause": outcome.cause.word,
                "detail": redact(outcome.detail, plan.config.environment),
            }
            continue
        contexts = prediction.contexts
        yield {
            "query_id": query.id,
            "answer": prediction.answer,
            "contexts": None
            if contexts is None
            else [{"id": c.id, "title": c.title, "text": c.text} for c in contexts],
            **({"queries": prediction.queries} if prediction.queries else {}),
            "usage": {
                "input_tokens": prediction.usage.input_tokens,
                "output_tokens": prediction.usage.output_tokens,
                "usd": prediction.usage.usd,
            },
            "latency_ms": None if outcome.latency_ms is None else round(outcome.latency_ms, 3),
        }
