"""`metrics: {verify: true}`: the scores of a run by the packages that define them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ragbench.config import ExperimentConfig
    from ragbench.experiment.result import Experiment
    from ragbench.score.base import ScoreColumn
    from ragbench.types import Collection


def verify_experiment(config: ExperimentConfig, experiment: Experiment) -> int:
    """Compare the scores of a run with those of the reference packages.

    Returns:
        The exit code: 1 where a difference is more than rounding.
    """
    from ragbench.experiment.load import load_collection

    collection = load_collection(config)
    codes = [_verify_rankings(config, experiment, collection)]
    for system in experiment.summary["systems"]:
        name = system["name"]
        path = experiment.path / "predictions" / f"{name.replace('/', '--')}.jsonl"
        columns = _columns(system, experiment.per_query[name])
        if path.is_file() and columns:
            lines = path.read_text(encoding="utf-8").splitlines()
            samples: dict[int, dict[str, str | None]] = {}
            for row in map(json.loads, lines):
                samples.setdefault(row.get("sample", 0), {})[row["query_id"]] = row["answer"]
            codes.append(_verify_answers(name, [*samples.values()], columns, collection))
    return max(codes)


def _columns(
    system: Mapping[str, Any], values: Mapping[str, Mapping[str, float]]
) -> dict[str, ScoreColumn]:
    """The metrics of a system, as its run folder has them."""
    import numpy as np

    from ragbench.errors import RagbenchError
    from ragbench.score.base import ScoreColumn
    from ragbench.score.text.notation import parse_metric
    from ragbench.signature import Signature

    found = {}
    for name, score in system["scores"].items():
        if "judge" in score:
            continue
        try:
            parse_metric(name)
        except RagbenchError:  # a measure of rankings
            continue
        column = np.array(list(values[name].values()), dtype=np.float64)
        causes = np.where(np.isnan(column), 1, 0).astype(np.uint8)
        total = score["mean"] if score["aggregate"] == "corpus" else None
        signature = Signature.parse(score["signature"])
        found[name] = ScoreColumn(name, column, causes, signature, total=total)
    return found


def _verify_answers(
    system: str,
    samples: Sequence[Mapping[str, str | None]],
    columns: Mapping[str, ScoreColumn],
    collection: Collection,
) -> int:
    from ragbench.cli.verify_texts import verify_texts
    from ragbench.comparison.evaluate import Evaluation
    from ragbench.data.files.pairs import Pairs

    ids = list(samples[0])
    gold = [list(collection.answers.get(query, ())) for query in ids]
    click.echo(f"verify: {system}", err=True)
    pairs = [Pairs(ids, [answers[query] for query in ids], gold) for answers in samples]
    return verify_texts(pairs, Evaluation(ids, columns, {}))


def _verify_rankings(
    config: ExperimentConfig, experiment: Experiment, collection: Collection
) -> int:
    from ragbench.cli.verify_runs import verify_runs
    from ragbench.comparison.evaluate import Evaluation
    from ragbench.report.scores.base import Scored
    from ragbench.score.retrieval.notation import parse_measures
    from ragbench.score.retrieval.score_run import Rules

    rules, names = config.metrics.retrieval, _measures(experiment)
    if collection.qrels is None or not names:
        return 0
    if rules.fill is not None:
        click.echo("verify: rankings are not checked: a model filled the judgements", err=True)
        return 0
    asked = {
        query
        for scores in experiment.per_query.values()
        for values in scores.values()
        for query in values
    }
    qrels = collection.qrels.of_queries(asked & set(collection.qrels.query_ids))
    nothing = Evaluation((), {}, {})
    systems = [
        Scored(path.stem, str(path), nothing)
        for path in sorted((experiment.path / "rankings").glob("*.trec"))
    ]
    chosen = Rules(rules.ties, 9, rules.missing, rules.no_relevant)
    measures = {measure.written: measure for measure in parse_measures(names)}
    return verify_runs(qrels, systems, measures, 1, chosen)


def _measures(experiment: Experiment) -> list[str]:
    """The measures of rankings that any system has."""
    from ragbench.errors import RagbenchError
    from ragbench.score.retrieval.notation import parse_measures

    names = dict.fromkeys(n for system in experiment.summary["systems"] for n in system["scores"])
    found = []
    for name in names:
        try:
            [measure] = parse_measures([name])
        except RagbenchError:
            continue
        if measure.spec.reads == "grades":
            found.append(name)
    return found
