"""Scores of a run as metrics of MLflow: an MLflow run per system."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ragbench.data.runs.run_folder import read_manifest, read_summary, resolve_run_folder
from ragbench.data.traces.spans import read_time
from ragbench.errors import ExportError, MissingExtra
from ragbench.records.manifest import Manifest
from ragbench.records.score import SystemScore
from ragbench.records.summary import Dataset, Summary, SystemSummary
from ragbench.secrets import mask_secrets
from ragbench.signature import fingerprint

# Files of the run folder that each MLflow run gets, if they exist and are no links.
_ARTEFACTS = ("summary.json", "manifest.json", "config.yaml", "report.html", "report.md")
# Limits of MLflow: metrics and tags of a request, characters of a metric name and of a tag.
_METRICS, _TAGS, _NAME, _TAG = 1000, 100, 200, 5000


def log_runs(run: str | Path) -> Iterator[str]:
    """Log an MLflow run for each system of a run, and yield a line on each.

    The MLflow experiment has the name of the ragbench experiment, and is created if it is missing.
    MLflow reads the variables of the store itself, such as `MLFLOW_TRACKING_URI`. A metric has the
    name of `metric_names` for the mean, and below it `/low`, `/high` (ends of the interval), `/n`,
    `/failed` and `/not_applicable`; a mean or an end that is not defined is left out. Tags have the
    signature of each score. A run that cannot be finished is marked as failed. Nothing is logged,
    and no error raised, before the first line is read. The variables `MLFLOW_DISABLE_TELEMETRY` and
    `MLFLOW_HTTP_REQUEST_MAX_RETRIES` are set in this process, unless they have a value.

    Args:
        run: A run folder, or the folder of an experiment (the newest run).

    Raises:
        DataError: There is no run, or its files are damaged.
        ExportError: The store of MLflow cannot be reached, or refuses the results.
        MissingExtra: MLflow, or a package that its store needs, is not installed.
    """
    folder = resolve_run_folder(Path(run))
    summary, manifest = read_summary(folder), read_manifest(folder)
    # nothing but the results is sent, and a server that is away is given up after some seconds
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    try:
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient

        client = MlflowClient()
        entity = client.get_experiment_by_name(summary.name)  # None if it is missing
        experiment = (
            client.create_experiment(summary.name) if entity is None else entity.experiment_id
        )
        names = metric_names(summary.score_names())
        for system in summary.systems:
            yield _log_system(client, experiment, folder, summary, system, manifest, names)
    except ImportError as error:
        # a store may need another package, such as sqlalchemy
        package = (error.name or "mlflow").partition(".")[0]
        advice = f"pip install {package}"
        raise MissingExtra("report --to mlflow", package, advice=advice) from error
    except (MlflowException, OSError) as error:
        reason = mask_secrets(" ".join(str(error).split()))
        unreachable = "Max retries exceeded" in reason or isinstance(error, ConnectionError)
        raise ExportError(
            f"MLflow refused the results: {reason}", unreachable=unreachable
        ) from error


def metric_names(scores: Iterable[str]) -> dict[str, str]:
    """Return score -> its name in MLflow, where letters, digits, `_`, `-` and `.` are allowed.

    `@` becomes `_at_`, other signs in a row one `_`, and a `_` at an end is left out. Names that
    would be equal without regard to case, those without a letter or digit, and those of more than
    200 characters end in a hash of the score.

    Example:
        >>> metric_names(["ndcg@10", "rbp(p=0.8)"])
        {'ndcg@10': 'ndcg_at_10', 'rbp(p=0.8)': 'rbp_p_0.8'}
        >>> list(metric_names(["mine(a)", "mine[a]"]).values())
        ['mine_a_f54a5f', 'mine_a_1d3b10']
    """
    plain = {}
    for score in scores:
        plain[score] = re.sub(r"[^\w.-]+", "_", score.replace("@", "_at_")).strip("_")
    counts, names = Counter(name.casefold() for name in plain.values()), {}
    for score, name in plain.items():
        is_odd = len(name) > _NAME or not name.strip("._-")
        is_unclear = is_odd or counts[name.casefold()] > 1
        end = f"_{fingerprint([score])[:6]}" if is_unclear else ""
        names[score] = name[:_NAME] + end
    return names


def _log_system(
    client: Any,
    experiment: str,
    folder: Path,
    summary: Summary,
    system: SystemSummary,
    manifest: Manifest,
    names: Mapping[str, str],
) -> str:
    """Log an MLflow run of a system, and return a line with its name and id."""
    from mlflow.entities import Metric, Param, RunTag

    started = read_time(manifest.started)
    start = None if started is None else int(started.timestamp() * 1000)
    run_id = client.create_run(experiment, start_time=start, run_name=system.name).info.run_id
    status, end = "FAILED", None
    try:
        metrics = []
        for name, score in system.scores.items():
            for suffix, value in _values(score):
                metrics.append(Metric(f"{names[name]}{suffix}", float(value), start or 0, 0))
        texts = _tags(summary, system, manifest, names)
        tags = []
        for key, text in texts:
            if text:
                tags.append(RunTag(key, text[:_TAG]))
        dataset = summary.dataset or Dataset()
        facts = {
            "retriever": system.retriever,
            "generator": system.generator,
            "dataset": dataset.name or None,
            "queries": dataset.queries,
            "seed": summary.seed,
        }
        params = []
        for key, fact in facts.items():
            if fact is not None:
                params.append(Param(key, str(fact)))
        client.log_batch(run_id, params=params)
        for place in range(0, len(metrics), _METRICS):
            client.log_batch(run_id, metrics=metrics[place : place + _METRICS])
        for place in range(0, len(tags), _TAGS):
            client.log_batch(run_id, tags=tags[place : place + _TAGS])
        for file in _ARTEFACTS:
            # a link in the place of a page may lead to any file
            if (folder / file).is_file() and not (folder / file).is_symlink():
                client.log_artifact(run_id, str(folder / file))
        status = "FINISHED"
        end = None if start is None else start + int(manifest.seconds * 1000)
    finally:
        client.set_terminated(run_id, status, end)
    return f"{system.name}: run {run_id} of experiment {summary.name}"


def _values(score: SystemScore) -> Iterator[tuple[str, float]]:
    """Yield (end of the metric name, value) of a score, without values that are not defined."""
    low, high = score.interval or (None, None)
    numbers = {"": score.mean, "/low": low, "/high": high, "/n": score.n}
    numbers |= {"/failed": score.n_failed, "/not_applicable": score.not_applicable}
    for suffix, value in numbers.items():
        if value is not None:
            yield (suffix, value)


def _tags(
    summary: Summary, system: SystemSummary, manifest: Manifest, names: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the tags of the MLflow run of a system, some of them empty."""
    yield "ragbench.run_id", summary.run_id
    yield "ragbench.version", manifest.ragbench
    yield "ragbench.complete", str(summary.complete).lower()
    yield "ragbench.system_type", system.type
    yield "ragbench.confidence", str(summary.confidence)
    yield "ragbench.gates", ", ".join(f"{gate.gate}: {gate.verdict}" for gate in summary.gates)
    yield "mlflow.source.git.commit", manifest.commit or ""
    for name, score in system.scores.items():
        yield f"ragbench.score.{names[name]}", name
        yield f"ragbench.signature.{names[name]}", score.signature
