"""From the results of a run to the files of its run folder."""

from __future__ import annotations

import platform
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path

import numpy as np

from ragbench import __version__
from ragbench.comparison.summary import finite
from ragbench.comparison.systems import SystemScores
from ragbench.config.dump import dump_config
from ragbench.data.runs.query_fingerprints import (
    FINGERPRINTS_FILE,
    fingerprint_queries,
    format_fingerprints,
)
from ragbench.data.runs.run_folder import (
    QUERIES_FILE,
    file_name,
    format_query_metadata,
    to_csv,
    to_json,
    to_jsonl,
    write_run_folder,
)
from ragbench.data.trec.trec_files import format_run
from ragbench.experiment.calls import Outcome
from ragbench.experiment.costs import format_costs, with_costs
from ragbench.experiment.gates import gate_run
from ragbench.experiment.output.summary import make_summary
from ragbench.experiment.plan.records import Choices, Noun, Plan, Repetition
from ragbench.experiment.records import Answers, Results
from ragbench.experiment.result import Experiment
from ragbench.records import codec
from ragbench.records.codec import Record, cleaned
from ragbench.records.manifest import (
    FailedPrediction,
    Manifest,
    Passage,
    PredictionRow,
    StageWork,
    UnscoredRow,
    UsageRow,
    VerdictRow,
)
from ragbench.redaction import redactor
from ragbench.report.ci import render_junit
from ragbench.report.html import render_html
from ragbench.report.markdown import render_markdown
from ragbench.score.base import ScoreColumn
from ragbench.types import Cause, Prediction

_PACKAGES = ("numpy", "bm25s", "nltk", "sacrebleu", "PyYAML")
"""Packages whose version may move a number."""


def make_manifest(plan: Plan, results: Results, choices: Choices, started: float) -> Manifest:
    """Return versions, data fingerprints, signatures, seeds and timings; never a secret."""
    filled, work = results.filled, results.work
    named: tuple[tuple[Noun, Iterable[str]], ...]
    named = (("retriever", plan.retrievers), ("generator", plan.generators), ("app", plan.apps))
    components = {name: plan.component(noun, name) for noun, names in named for name in names}
    return Manifest(
        ragbench=__version__,
        python=platform.python_version(),
        platform=f"{sys.platform} {platform.machine()}",
        packages={name: _version(name) for name in _PACKAGES},
        seed=plan.config.seed,
        choices=asdict(choices),
        live=tuple(sorted(name for name, component in components.items() if component is None)),
        versions={
            name: component.version
            for name, component in components.items()
            if component is not None and component.version is not None
        },
        environment=plan.config.environment,
        data=dict(plan.collection.fingerprints),
        queries=len(plan.queries),
        signatures={
            name: str(column.signature)
            for system in results.systems
            for name, column in system.columns.items()
        },
        judging={
            system: {name: use.manifest() for name, use in uses.items()}
            for system, uses in results.judge_uses.items()
        },
        judging_passages=None if filled is None else filled.use.manifest(),
        judging_pairs={each.judge: each.use.manifest() for each in results.preferences},
        started=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        # never below 0: a clock may be set back in the meantime
        seconds=max(0.0, round(time.time() - started, 3)),
        stages={name: round(each.seconds, 4) for name, each in work.items()},
        work={name: StageWork(items=each.items, stored=each.stored) for name, each in work.items()},
    )


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def write_run(
    plan: Plan,
    results: Results,
    choices: Choices,
    started: float,
    repetition: Repetition | None = None,
) -> Experiment:
    """Write the run folder, whole or not at all, and return the experiment."""
    # the random part keeps runs of the same second apart
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(started))
    run_id = f"{stamp}-{secrets.token_hex(2)}"
    experiment = Path(plan.config.output) / plan.config.name
    home = experiment if repetition is None else repetition.runs

    # the one door through which every text goes that somebody else wrote
    clean = redactor(plan.config.secrets)
    summary = cleaned(gate_run(plan, results, make_summary(plan, results, run_id)), clean)
    manifest = cleaned(make_manifest(plan, results, choices, started), clean)
    if repetition is not None:
        manifest = replace(manifest, reproduces=repetition.of)
    contents = {
        "config.yaml": dump_config(plan.config, home / run_id),
        "manifest.json": to_json(codec.to_json(manifest)),
        "summary.json": to_json(codec.to_json(summary)),
        "per_query.csv": _per_query(plan, results.systems),
        "costs.csv": format_costs(with_costs(results), [query.id for query in plan.queries]),
        FINGERPRINTS_FILE: _fingerprints(plan, results),
        "unscored.jsonl": _lines(_unscored(plan, results), clean),
        "comparisons.json": to_json(codec.to_json(results.comparisons)),
        "report.md": render_markdown(summary, results.comparisons),
        "report.html": render_html(summary, results.comparisons),
        "junit.xml": render_junit(summary),
    }
    if (metadata := format_query_metadata(plan.queries)) is not None:
        contents[QUERIES_FILE] = clean(metadata)
    for name, ranking in results.rankings.items():
        contents[f"rankings/{file_name(name)}.trec"] = format_run(ranking.run)
        if ranking.unmatched is not None:
            contents[f"passages/{file_name(name)}.trec"] = format_run(ranking.unmatched)
    for name, answers in results.answers.items():
        lines = _lines(_predictions(plan, answers), clean)
        contents[f"predictions/{file_name(name)}.jsonl"] = lines
    for path, rows in _judgements(plan, results):
        contents[f"judgements/{path}.jsonl"] = _lines(rows, clean)
    folder = write_run_folder(home, run_id, contents, is_latest=repetition is None)
    return Experiment(folder, summary, results.comparisons)


def _lines(rows: Iterable[Record], clean: Callable[[str], str]) -> str:
    return to_jsonl(codec.to_json(cleaned(row, clean)) for row in rows)


def _judgements(plan: Plan, results: Results) -> Iterator[tuple[str, list[VerdictRow]]]:
    """The verdicts by file: on answers, on pairs of systems, and on passages."""
    for name, rows in results.judgements.items():
        yield file_name(name), rows
    for preferences in results.preferences:
        yield f"pairs/{file_name(preferences.judge)}", preferences.rows
    if results.filled is not None and plan.fill is not None:
        yield f"passages/{file_name(plan.fill.name)}", results.filled.rows


def _per_query(plan: Plan, systems: Sequence[SystemScores]) -> str:
    names = list(dict.fromkeys(name for system in systems for name in system.columns))
    rows = (
        [system.name, query.id, *(_cell(system, name, row) for name in names)]
        for system in systems
        for row, query in enumerate(plan.queries)
    )
    return to_csv(["system", "query_id", *names], rows)


def _fingerprints(plan: Plan, results: Results) -> str:
    """What each query was: its text, the judgements that scored it, and its gold answers."""
    qrels = plan.qrels if results.filled is None else results.filled.qrels
    prints = fingerprint_queries(plan.queries, qrels, plan.collection.answers)
    return format_fingerprints([query.id for query in plan.queries], prints)


def _cell(system: SystemScores, name: str, row: int) -> float | None:
    column = system.columns.get(name)
    return None if column is None else finite(column.values[row])


def _unscored(plan: Plan, results: Results) -> Iterator[UnscoredRow]:
    """The queries without a score, and the answers without one, also of queries that have one."""
    for system in results.systems:
        for name, column in system.columns.items():
            yield from _unscored_in(plan, system.name, name, column)
    for answered, scores in results.samples.items():
        for name, columns in scores.items():
            for sample, column in enumerate(columns):
                yield from _unscored_in(plan, answered, name, column, sample)


def _unscored_in(
    plan: Plan, system: str, name: str, column: ScoreColumn, sample: int | None = None
) -> Iterator[UnscoredRow]:
    for row in np.flatnonzero(column.causes != Cause.SCORED).tolist():
        cause = Cause(int(column.causes[row]))
        yield UnscoredRow(
            system=system,
            query_id=plan.queries[row].id,
            measure=name,
            status=cause.status,
            cause=cause.word,
            detail=column.details.get(row, ""),
            sample=sample,
        )


def _predictions(plan: Plan, answers: Answers) -> Iterator[PredictionRow | FailedPrediction]:
    """The answers, those to one query together, numbered where there are several."""
    samples = answers.each()
    for row, query in enumerate(plan.queries):
        for number, sample in enumerate(samples):
            numbered = number if len(samples) > 1 else None
            yield _predicted(query.id, numbered, sample.outcomes[row])


def _predicted(
    query_id: str, sample: int | None, outcome: Outcome[Prediction]
) -> PredictionRow | FailedPrediction:
    prediction = outcome.value
    if prediction is None:
        cause, detail = outcome.cause.word, outcome.detail
        return FailedPrediction(query_id=query_id, sample=sample, cause=cause, detail=detail)
    contexts = prediction.contexts
    return PredictionRow(
        query_id=query_id,
        sample=sample,
        answer=prediction.answer,
        contexts=None
        if contexts is None
        else tuple(Passage(id=c.id, title=c.title, text=c.text) for c in contexts),
        queries=tuple(prediction.queries or ()),
        usage=UsageRow.of(prediction.usage),
        latency_ms=None if outcome.latency_ms is None else round(outcome.latency_ms, 3),
    )
