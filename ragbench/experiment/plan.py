"""What a run will do: its queries, systems, scores and judges, resolved against the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from ragbench.comparison.paired import Method
from ragbench.comparison.slices import Slicing
from ragbench.config.schema import DEFAULT_PASSAGES, Component, Control, ExperimentConfig
from ragbench.errors import DataError
from ragbench.experiment.choices import Choices, narrow, sample
from ragbench.experiment.components import PlannedJudge, build_app, build_generator
from ragbench.experiment.controls import control_pairs, without_stored
from ragbench.experiment.coverage import check_coverage
from ragbench.experiment.defaults import Fills, choose_answer_scores, choose_measures
from ragbench.experiment.fill_plan import PlannedFill, fit_measures, plan_fill
from ragbench.experiment.query_groups import cluster_labels, slicings
from ragbench.experiment.sampled import doubtful_samples
from ragbench.experiment.stale import check_judgements
from ragbench.experiment.systems import (
    build_retrievers,
    check_live_names,
    check_system_names,
    choose_baseline,
    cross,
)
from ragbench.gates.base import GateFiles
from ragbench.gates.decide import check_gate_names, read_gate_files
from ragbench.generate.base import App
from ragbench.score.judge.rubric import load_rubric
from ragbench.score.retrieval.notation import parse_measures
from ragbench.score.text.base import Metric
from ragbench.types import Collection, Document, Qrels, Query

Noun = Literal["retriever", "generator", "app"]


@dataclass(frozen=True, slots=True)
class LiveComponents:
    """Objects that a caller passes instead of naming them in the YAML."""

    retrievers: Mapping[str, Any] = field(default_factory=dict)
    generators: Mapping[str, Any] = field(default_factory=dict)
    apps: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """Everything that is fixed before the first query is asked."""

    config: ExperimentConfig
    collection: Collection
    queries: list[Query]
    """The queries that are asked, after `limit`, in the order of the file."""
    qrels: Qrels | None
    """The judgements of those queries."""
    retrievers: dict[str, Any]
    """Name -> retriever, ready but without an index; also those that others only read."""
    systems: list[str]
    """The retrievers that are scored, in the order of the config."""
    generators: dict[str, Any]
    """Name -> generator, ready."""
    pairs: list[tuple[str, str]]
    """(retriever, generator) in the order of the config."""
    apps: dict[str, App]
    """Name -> app, ready."""
    controls: list[tuple[Control, str]]
    """What generators answer from besides, with the generator."""
    given: list[str]
    """Systems that the records came with."""
    measures: tuple[str, ...]
    metrics: tuple[Metric, ...]
    judges: dict[str, PlannedJudge]
    """Name -> judge with its rubrics, ready."""
    skipped_judges: dict[str, str]
    """Name -> why a judge that runs only where it can does not run."""
    fill: PlannedFill | None
    """What grades passages that people have not judged; None where nothing does."""
    baseline: str | None
    """The retriever that others are compared with."""
    clusters: list[str] | None
    """The cluster of each query; None where each stands for itself."""
    slicings: list[Slicing]
    """The slices of the queries, field by field."""
    warnings: list[str]
    """What the reader must know before believing the numbers."""
    gate_files: GateFiles
    """What the gates refer to."""

    @property
    def all_systems(self) -> list[str]:
        """The names of all systems: retrievers, pairs, apps, and what the records came with."""
        pairs = (f"{retriever}/{generator}" for retriever, generator in self.pairs)
        return [*self.systems, *pairs, *self.apps, *self.given]

    def component(self, noun: Noun, name: str) -> Component | None:
        """Return what the config says of a retriever, generator or app; None for a live one."""
        config = self.config
        blocks = {"retriever": config.retrievers, "generator": config.generators}
        return {**blocks, "app": config.apps}[noun].get(name)

    def passages(self, generator: str) -> int:
        """Return how many passages a generator gets."""
        component = self.component("generator", generator)
        return DEFAULT_PASSAGES if component is None else component.passages

    def samples(self, generator: str | None) -> int:
        """Return how often each query is answered; once where no generator of the config does."""
        component = None if generator is None else self.component("generator", generator)
        return 1 if component is None else component.samples

    @cached_property
    def corpus(self) -> dict[str, Document]:
        """The documents by id; empty where there are none."""
        return {document.id: document for document in self.collection.documents or ()}

    @property
    def asked_judges(self) -> dict[str, PlannedJudge]:
        """Every judge of the run: of answers, and of passages."""
        return self.judges | ({} if self.fill is None else {self.fill.name: self.fill.judge})

    def judge_score(self, rubric: str, judge: str) -> str:
        """Return the name of a judge's score: with the judge where the config has several.

        A judge that is skipped counts, so that names do not depend on whether its key is set.
        """
        several = len(self.judges) + len(self.skipped_judges) > 1
        return f"{rubric}(judge={judge})" if several else rubric


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
    for noun, components in (("retriever", built), ("generator", generators)):
        for name, component in components.items():
            warnings += check_coverage(f"{noun} '{name}'", component, collection.queries, queries)
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
