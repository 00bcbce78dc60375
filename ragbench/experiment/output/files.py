"""From the results of a run to the files of its run folder."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ragbench.comparison.summary import finite
from ragbench.comparison.systems import SystemScores
from ragbench.config.dump import dump_config
from ragbench.data.runs.query_metadata import QUERIES_FILE, format_query_metadata
from ragbench.data.runs.run_folder import (
    file_name,
    to_csv,
    to_json,
    to_jsonl,
    write_run_folder,
)
from ragbench.data.trec.trec_files import format_run
from ragbench.experiment.calls import Outcome
from ragbench.experiment.costs import format_costs, with_costs
from ragbench.experiment.gates import gate_run
from ragbench.experiment.output.manifest import make_manifest
from ragbench.experiment.output.summary import make_summary
from ragbench.experiment.records import Answers, Choices, Plan, Results
from ragbench.experiment.result import Experiment
from ragbench.report.ci import render_junit
from ragbench.report.html import render_html
from ragbench.report.markdown import render_markdown
from ragbench.score.base import ScoreColumn
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
        "costs.csv": format_costs(with_costs(results), [query.id for query in plan.queries]),
        "unscored.jsonl": to_jsonl(
            [*_unscored(plan, results.systems), *_unscored_samples(plan, results)]
        ),
        "comparisons.json": to_json(results.comparisons),
        "report.md": render_markdown(summary, results.comparisons),
        "report.html": render_html(summary, results.comparisons),
        "junit.xml": render_junit(summary),
    }
    metadata = format_query_metadata(plan.queries)
    if metadata is not None:
        contents[QUERIES_FILE] = redact(metadata, plan.config.environment)
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
            yield from _unscored_in(plan, system.name, name, column)


def _unscored_samples(plan: Plan, results: Results) -> Iterator[dict[str, Any]]:
    """The answers without a score, also those to queries that have one."""
    for system, scores in results.samples.items():
        for name, columns in scores.items():
            for sample, column in enumerate(columns):
                for row in _unscored_in(plan, system, name, column):
                    yield {**row, "sample": sample}


def _unscored_in(
    plan: Plan, system: str, name: str, column: ScoreColumn
) -> Iterator[dict[str, Any]]:
    for row in np.flatnonzero(column.causes != Cause.SCORED).tolist():
        cause = Cause(int(column.causes[row]))
        yield {
            "system": system,
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
    """The answers, those to one query together, numbered where there are several."""
    samples = answers.each()
    for row, query in enumerate(plan.queries):
        for number, sample in enumerate(samples):
            numbered = {"sample": number} if len(samples) > 1 else {}
            outcome = sample.outcomes[row]
            yield {"query_id": query.id, **numbered, **_predicted(outcome, plan)}


def _predicted(outcome: Outcome[Prediction], plan: Plan) -> dict[str, Any]:
    prediction = outcome.value
    if prediction is None:
        return {
            "answer": None,
            "contexts": None,
            "cause": outcome.cause.word,
            "detail": redact(outcome.detail, plan.config.environment),
        }
    contexts = prediction.contexts
    return {
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
