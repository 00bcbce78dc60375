"""Which scores a run has: the named ones, or all that the data allow."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.config.schema import ExperimentConfig
from ragbench.errors import DataError
from ragbench.experiment.choices import Choices
from ragbench.experiment.components import DEFAULT_JUDGE, PlannedJudge, build_judge, checked_metric
from ragbench.score.judge.rubric import DEFAULT_RUBRICS
from ragbench.score.retrieval.notation import parse_measures
from ragbench.score.text.base import Metric
from ragbench.score.text.notation import parse_metric
from ragbench.types import Collection

DEFAULT_MEASURES = (
    "ndcg@10",
    "recall@10",
    "mrr@10",
    "map",
    "hit_rate@1",
    "hit_rate@5",
    "precision@5",
    "f1@5",
)
"""Measures of a config that names none; the first one makes the headline. Those with k above
`top_k` are left out."""

DEFAULT_METRICS = ("rouge1", "rouge2", "rougeL", "bleu", "token_f1")
"""Metrics of a config that names none: all that need neither model nor extra, but exact match."""

_NEEDS_REFERENCE = frozenset({"correctness"})


def choose_measures(
    config: ExperimentConfig, collection: Collection, retrievers: Sequence[str]
) -> tuple[str, ...]:
    """The named measures, or the default ones that fit; without retrievers, none."""
    rules = config.metrics.retrieval
    if not retrievers:
        return ()
    if collection.qrels is None:
        if rules.measures:
            raise DataError(
                f"{rules.measures[0]} needs relevance judgements, and the data set has none",
                file=config.path,
                record="metrics.retrieval.measures",
                allowed="qrels in the data set (answer_hit@k and relevance judged by a model are "
                "not built yet in this version), or `measures: []`",
            )
        return ()
    if rules.measures is not None:
        return rules.measures
    return tuple(
        name
        for name in DEFAULT_MEASURES
        if all(m.k is None or m.k <= rules.top_k for m in parse_measures(name))
    )


def choose_answer_scores(
    config: ExperimentConfig, collection: Collection, choices: Choices, *, has_answers: bool
) -> tuple[tuple[Metric, ...], dict[str, PlannedJudge], dict[str, str]]:
    """Metrics and judges, the defaults being those that the data allow.

    Returns:
        Metrics, judges by name, and why judges are skipped that run only where they can.

    Raises:
        MissingExtra: A named metric needs a package that is not installed.
        ConfigError: A named metric has an option that cannot be met here.
    """
    if not has_answers:
        return (), {}, {}
    if config.metrics.generation is not None:
        metrics = tuple(map(checked_metric, config.metrics.generation))
    else:
        metrics = tuple(map(parse_metric, DEFAULT_METRICS)) if collection.answers else ()
    if not choices.judge:
        return metrics, {}, {}
    if config.metrics.judges is None:
        rubrics = [r for r in DEFAULT_RUBRICS if collection.answers or r not in _NEEDS_REFERENCE]
        return metrics, {DEFAULT_JUDGE: build_judge(None, rubrics)}, {}
    judges, skipped = {}, {}
    for name, block in config.metrics.judges.items():
        planned = build_judge(block, ())
        # a replay sends nothing, and so needs no key
        missing = None if choices.judge_replay else planned.missing_key
        if block.when == "available" and missing is not None:
            skipped[name] = f"{missing} is not set"
        else:
            judges[name] = planned
    return metrics, judges, skipped
