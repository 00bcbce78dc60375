"""What a run will do: its queries, systems, scores and judges, resolved against the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragbench.comparison.method import Method
from ragbench.config.schema import ExperimentConfig
from ragbench.data.loaders.python import as_loader
from ragbench.errors import DataError
from ragbench.experiment.plan.checks import check_coverage, check_judgements
from ragbench.experiment.plan.components import build_app, build_generator
from ragbench.experiment.plan.groups import cluster_labels, slicings
from ragbench.experiment.plan.scores import (
    Fills,
    choose_answer_scores,
    choose_measures,
    fit_measures,
    plan_fill,
)
from ragbench.experiment.plan.systems import (
    build_retrievers,
    check_live_names,
    check_system_names,
    choose_baseline,
    cross,
    narrow,
    sample,
)
from ragbench.experiment.records import Choices, LiveComponents, Plan
from ragbench.experiment.stages.controls import control_pairs, without_stored
from ragbench.experiment.stages.scores import doubtful_samples
from ragbench.gates.decide import check_gate_names, read_gate_files
from ragbench.registry import PYTHON
from ragbench.score.judge.rubric import load_rubric
from ragbench.score.retrieval.notation import parse_measures
from ragbench.types import Collection, Qrels, Query


def load_collection(config: ExperimentConfig) -> Collection:
    """Read the data set that a config names.

    Raises:
        DataError: It is not what it should be; names file, line and record.
    """
    component = config.dataset
    loader: Any
    if component.type.startswith(PYTHON):
        loader = as_loader(component.cls, component.options)
    else:
        loader = component.cls(**component.options)
    collection: Collection = loader.load()
    return collection


def make_plan(
    config: ExperimentConfig, collection: Collection, choices: Choices, live: LiveComponents
) -> Plan:
    """Resolve defaults against the data, make the components, and refuse what cannot be done.

    Raises:
        DataError: A measure needs judgements that the data lack, or there is nothing to run.
        OptionError: `only` names nothing, or `limit` is below 1.
        AdapterError: A component cannot be made.
    """
    check_live_names(config, live)
    gate_files = read_gate_files(config.gates)
    queries, warnings = sample(collection.queries, choices.limit, config.seed)
    retrievers = [*config.retrievers, *live.retrievers]
    pairs = cross(config, retrievers, live)
    apps = [*config.apps, *live.apps]
    recorded = list(collection.given)
    retrievers, pairs, others = narrow(retrievers, pairs, [*apps, *recorded], choices.only)
    apps = [name for name in apps if name in others]
    given = [name for name in recorded if name in others]
    asked = [generator for _, generator in pairs]
    controls = control_pairs(config, collection, asked, live.generators)
    if not retrievers and not apps and not given:
        raise DataError(
            "there is no system to evaluate",
            file=config.path,
            allowed="a retriever, an app, or records with contexts or answers",
        )
    crossed = [f"{left}/{generator}" for left, generator in (*pairs, *controls)]
    check_system_names([*retrievers, *crossed, *apps, *given], config.path)
    has_answers = bool(pairs or apps) or any(
        row.answer is not None for name in given for row in collection.given[name]
    )
    metrics, judges, skipped = choose_answer_scores(
        config, collection, choices, has_answers=has_answers
    )
    fill, why_no_fill = plan_fill(config, choices, judges)
    warnings += [why_no_fill] if why_no_fill and (retrievers or apps) else []
    fills = Fills(fill is not None, why_no_fill)
    measures = choose_measures(config, collection, [*retrievers, *apps], fills)
    fill, remarks = fit_measures(fill, measures, config.metrics.retrieval.top_k)
    warnings += remarks
    qrels = _subset(collection.qrels, queries)
    if qrels is not None and collection.documents is not None and _reads_ids(measures):
        match = config.metrics.retrieval.match
        warnings += check_judgements(qrels, collection.documents, match, config.path)
    clusters, lacking = cluster_labels(config, queries)
    warnings += lacking
    slices = slicings(config, queries, qrels, collection.answers)
    warnings += [
        f"judge {name} was skipped: {why} (when: available)" for name, why in skipped.items()
    ]
    built = build_retrievers(config, collection, retrievers, live)
    generators = {
        name: build_generator(name, config.generators.get(name), live.generators.get(name))
        for name in dict.fromkeys(asked)
    }
    controls, uncontrolled = without_stored(controls, generators)
    warnings += uncontrolled
    stored = {f"retriever '{name}'": made.query_ids for name, made in built.items()}
    stored |= {f"generator '{name}'": made.query_ids for name, made in generators.items()}
    for owner, ids in stored.items():
        warnings += check_coverage(owner, ids, collection.queries, queries)
    for name, generator in generators.items():
        if name in config.generators:
            warnings += doubtful_samples(name, generator, config.generators[name].samples)
    plan = Plan(
        config=config,
        collection=collection,
        queries=queries,
        qrels=qrels,
        retrievers=built,
        systems=retrievers,
        generators=generators,
        pairs=pairs,
        apps={name: build_app(name, config.apps.get(name), live.apps.get(name)) for name in apps},
        controls=controls,
        given=given,
        measures=measures,
        metrics=metrics,
        judges=judges,
        skipped_judges=skipped,
        fill=fill,
        baseline=choose_baseline(config, list(collection.given), [*retrievers, *apps], given),
        clusters=clusters,
        slicings=slices,
        warnings=warnings,
        gate_files=gate_files,
    )
    if choices.judge and not choices.only:
        check_gate_names(config.gates, _scores(plan), plan.all_systems)
    return plan


def method_of(plan: Plan) -> Method:
    """Return how the systems of a run are compared, in tables and by gates."""
    chosen = plan.config.statistics
    return Method(
        confidence=chosen.confidence,
        resamples=chosen.resamples,
        seed=plan.config.seed,
        test=chosen.test,
        correction=chosen.correction,
        family=chosen.family,
        cluster=chosen.cluster,
    )


def _scores(plan: Plan) -> list[str]:
    """The names of all scores, those of skipped judges included."""
    skipped = {name: (plan.config.metrics.judges or {})[name] for name in plan.skipped_judges}
    rubrics = {
        **{name: judge.rubrics for name, judge in plan.judges.items()},
        **{name: [load_rubric(each) for each in block.rubrics] for name, block in skipped.items()},
    }
    return [
        *plan.measures,
        *(metric.name for metric in plan.metrics),
        *(
            plan.judge_score(each.name, judge)
            for judge, each_of in rubrics.items()
            for each in each_of
        ),
    ]


def _reads_ids(measures: Sequence[str]) -> bool:
    return any(measure.spec.reads != "passages" for measure in parse_measures(measures))


def _subset(qrels: Qrels | None, queries: Sequence[Query]) -> Qrels | None:
    if qrels is None:
        return None
    asked = {query.id for query in queries}
    if asked.issuperset(qrels.query_ids):
        return qrels
    return qrels.of_queries(asked)
