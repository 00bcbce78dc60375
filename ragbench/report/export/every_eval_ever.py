"""Scores of a system in the format Every Eval Ever, version 0.3.0.

The format (https://github.com/evaleval/every_eval_ever) has a file per system.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from ragbench.data.runs.query_view import QueryViews
from ragbench.data.runs.run_folder import file_name, read_manifest
from ragbench.data.traces.spans import read_time
from ragbench.files import write_file
from ragbench.records.manifest import Manifest
from ragbench.records.score import SystemScore
from ragbench.records.summary import Dataset, Judging, Summary, SystemSummary
from ragbench.score.base import add_option

_VERSION = "0.3.0"
FILE = "every_eval_ever.json"
_UNKNOWN = "unknown"
# Values that the format requires of each model, and that no run folder has.
_MODEL_DETAILS = {"deployment_type": _UNKNOWN, "model_availability": _UNKNOWN}
# Queries in which the prompts of judges are looked up.
_QUERIES = 50

Entry = dict[str, Any]


def write_records(run: Path, output: Path | None = None) -> list[Path]:
    """Write a file per system of a run, and return the paths in the order of the summary.

    The file of a run with one system is `output`. With several systems, the name of each stands
    before the suffix: `scores--bm25.json`. Existing files are replaced; a second call writes the
    same bytes.

    Args:
        run: A run folder, or the folder of an experiment (the newest run).
        output: A file; None takes `every_eval_ever.json` in the run folder.

    Raises:
        DataError: There is no run, its files are damaged, or a file cannot be written.
    """
    with closing(QueryViews(run, bare=True)) as views:
        output = views.folder / FILE if output is None else output
        manifest, prompts = read_manifest(views.folder), _judge_prompts(views)
        summary, paths = views.summary, []
        for system in summary.systems:
            end = f"--{file_name(system.name)}" if len(summary.systems) > 1 else ""
            paths.append(output.with_name(f"{output.stem}{end}{output.suffix}"))
            entry = _evaluation(summary, system, manifest, prompts)
            write_file(paths[-1], json.dumps(entry, indent=1, allow_nan=False) + "\n")
    return paths


def _judge_prompts(views: QueryViews) -> Mapping[str, str]:
    """Return judge score -> prompt: system and user messages in which `[[1]]` stands for a text.

    A score is absent if its judge sent no prompt for the first 50 queries, as a classifier.
    """
    prompts: dict[str, str] = {}
    for view in islice(views, _QUERIES):
        for row in (row for system in view.systems for row in system.verdicts if row.prompts):
            forms = (views.prompts[form] for form in dict.fromkeys(p.form for p in row.prompts))
            text = "\n\n".join(part for form in forms for part in (form.system, form.user) if part)
            prompts.setdefault(row.rubric, text)
            prompts.setdefault(add_option(row.rubric, "judge", row.judge), text)
    return prompts


def _evaluation(
    summary: Summary, system: SystemSummary, manifest: Manifest, prompts: Mapping[str, str]
) -> Entry:
    """Return the JSON object of the file of a system.

    Scores without a mean are left out, as the format needs one. `prompts` is score -> prompt of its
    judge; a score without one is missing.
    """
    time = read_time(manifest.started)
    started = "0" if time is None else str(int(time.timestamp()))
    name = file_name(system.name)
    evaluation_id = f"{summary.name}/{name}/{started}"
    dataset = summary.dataset or Dataset()
    source = {
        "dataset_name": dataset.name or summary.name,
        "source_type": "other",
        "additional_details": _texts(
            queries=dataset.queries,
            documents=dataset.documents,
            **{f"fingerprint_{part}": text for part, text in manifest.data.items()},
        ),
    }
    results = [
        {
            "evaluation_result_id": f"{evaluation_id}/{score_name}",
            "evaluation_name": f"{score_name} on {source['dataset_name']}",
            "source_data": source,
            "evaluation_timestamp": started,
            "metric_config": _metric(
                score_name, score, prompts.get(score_name), system.judging.get(score.judge or "")
            ),
            "score_details": _details(score, summary.confidence),
        }
        for score_name, score in system.scores.items()
        if score.mean is not None
    ]
    model = _model(system.name, f"{_UNKNOWN}/{name}")
    model["additional_details"] |= _texts(
        retriever=system.retriever, generator=system.generator, type=system.type
    )
    return {
        "schema_version": _VERSION,
        "evaluation_id": evaluation_id,
        "evaluation_timestamp": started,
        # the format asks for the time of this file: that of the run keeps the id of the evaluation
        "retrieved_timestamp": started,
        "source_metadata": {
            "source_name": summary.name,
            "source_type": "evaluation_run",
            "source_organization_name": _UNKNOWN,
            "evaluator_relationship": "other",
            "additional_details": _texts(run_id=summary.run_id, complete=summary.complete),
        },
        "eval_library": {"name": "ragbench", "version": manifest.ragbench or _UNKNOWN},
        "model_info": model,
        "evaluation_results": results,
    }


def _texts(**values: object) -> dict[str, str]:
    """Return the values as texts, as the format has them; None is left out."""
    return {key: str(value) for key, value in values.items() if value is not None}


def _model(name: str, model_id: str) -> Entry:
    """Return the description of a model, of which no run folder has more than the name."""
    return {"name": name, "id": model_id, "additional_details": dict(_MODEL_DETAILS)}


def _metric(name: str, score: SystemScore, prompt: str | None, judging: Judging | None) -> Entry:
    """Return the description of a score; one of a judge with a prompt has `llm_scoring`.

    `judging` has the names of the judge's models; without it a jury is one model.
    """
    low, high = (None, None) if score.aggregate == "sum" else score.range
    metric: Entry = {
        "metric_id": name,
        "metric_name": name,
        "metric_kind": re.split(r"[@(.]", name)[0],
        "lower_is_better": score.direction == "lower",
        "score_type": "continuous",
        "min_score": "-Infinity" if low is None else low,
        "max_score": "Infinity" if high is None else high,
        "additional_details": _texts(
            signature=score.signature,
            aggregate=score.aggregate,
            judge=score.judge,
            judge_model=score.model,
        ),
    }
    if cutoff := re.search(r"@(\d+)$", name):
        metric["metric_parameters"] = {"k": int(cutoff[1])}
    if prompt is not None:
        # `score.model` joins the models of a jury by `+`, which a name may hold too
        models = judging.models if judging else (score.model or score.judge or _UNKNOWN,)
        judges = [{"model_info": _model(model, model)} for model in models]
        metric["llm_scoring"] = {"judges": judges, "input_prompt": prompt}
    return metric


def _details(score: SystemScore, confidence: float) -> Entry:
    """Return `score` (the mean), `details` (counts as texts) and `uncertainty` (n, interval).

    Without both ends there is no interval.
    """
    uncertainty: Entry = {"num_samples": score.n}
    low, high = score.interval or (None, None)
    if low is not None and high is not None:
        ends = {"lower": low, "upper": high, "confidence_level": confidence}
        uncertainty["confidence_interval"] = ends
    failed = {f"failed_{cause}": n for cause, n in score.failed.items()}
    bounds = dict(zip(("bound_low", "bound_high"), score.bounds or (), strict=False))
    counts = _texts(n=score.n, not_applicable=score.not_applicable, **failed, **bounds)
    return {"score": score.mean, "details": counts, "uncertainty": uncertainty}
