"""What a run will do: its queries, systems, scores and judges, resolved against the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragbench.config.schema import Component, ExperimentConfig
from ragbench.errors import DataError, OptionError
from ragbench.experiment.choices import Choices, narrow, sample
from ragbench.experiment.components import PlannedJudge, build_generator, build_retriever
from ragbench.experiment.defaults import choose_answer_scores, choose_measures
from ragbench.retrieve.base import Indexing
from ragbench.types import Collection, Qrels, Query


@dataclass(frozen=True, slots=True)
class LiveComponents:
    """Objects that a caller passes instead of naming them in the YAML."""

    retrievers: Mapping[str, Any] = field(default_factory=dict)
    generators: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is fixed before the first query is asked."""

    config: ExperimentConfig
    collection: Collection
    queries: list[Query]
    """The queries that are asked, after `limit`, in the order of the file."""
    qrels: Qrels | None
    """The judgements of those queries."""
    retrievers: dict[str, Any]
    """Name -> retriever, ready but without an index."""
    generators: dict[str, Any]
    """Name -> generator, ready."""
    pairs: list[tuple[str, str]]
    """(retriever, generator) in the order of the config."""
    components: dict[str, Component]
    """Name -> what the config says of a retriever or generator; live ones are absent."""
    given: list[str]
    """Systems that the records came with."""
    measures: tuple[str, ...]
    metrics: tuple[str, ...]
    judges: dict[str, PlannedJudge]
    """Name -> judge with its rubrics, ready."""
    baseline: str | None
    """The retriever that others are compared with."""
    warnings: list[str]
    """What the reader must know before believing the numbers."""


def make_plan(
    config: ExperimentConfig, collection: Collection, choices: Choices, live: LiveComponents
) -> Plan:
    """Resolve defaults against the data, make the components, and refuse what cannot be done.

    Raises:
        DataError: A measure needs judgements that the data lack, or there is nothing to run.
        OptionError: `only` names nothing, or `limit` is below 1.
        AdapterError: A component cannot be made.
    """
    _refuse_taken_names(config, live)
    queries, warnings = sample(collection.queries, choices.limit, config.seed)
    retrievers = [*config.retrievers, *live.retrievers]
    pairs = _pairs(config, retrievers, live)
    retrievers, pairs, given = narrow(retrievers, pairs, list(collection.given), choices.only)
    if not retrievers and not given:
        raise DataError(
            "there is no system to evaluate",
            file=config.path,
            allowed="a retriever, or records with contexts or answers",
        )
    has_answers = bool(pairs) or any(
        row.answer is not None for name in given for row in collection.given[name]
    )
    measures = choose_measures(config, collection, retrievers)
    metrics, judges = choose_answer_scores(
        config, collection, judge=choices.judge, has_answers=has_answers
    )
    return Plan(
        config=config,
        collection=collection,
        queries=queries,
        qrels=_subset(collection.qrels, queries),
        retrievers=_build_retrievers(config, collection, retrievers, live),
        generators={
            name: build_generator(name, config.generators.get(name), live.generators.get(name))
            for name in dict.fromkeys(generator for _, generator in pairs)
        },
        pairs=pairs,
        components={**config.retrievers, **config.generators},
        given=given,
        measures=measures,
        metrics=metrics,
        judges=judges,
        baseline=_baseline(config, retrievers),
        warnings=warnings,
    )


def _refuse_taken_names(config: ExperimentConfig, live: LiveComponents) -> None:
    for noun, named, passed in (
        ("retrievers", config.retrievers, live.retrievers),
        ("generators", config.generators, live.generators),
    ):
        if taken := [name for name in passed if name in named]:
            raise OptionError("run_experiment", noun, taken[0], "a name that the config lacks")


def _build_retrievers(
    config: ExperimentConfig,
    collection: Collection,
    names: Sequence[str],
    live: LiveComponents,
) -> dict[str, Any]:
    """Make the retrievers; one that indexes needs documents."""
    built = {}
    for name in names:
        built[name] = build_retriever(name, config.retrievers.get(name), live.retrievers.get(name))
        if collection.documents is None and isinstance(built[name], Indexing):
            raise DataError(
                f"retriever '{name}' searches a corpus, and the data set has none",
                file=config.path,
                record=f"retrievers.{name}",
                allowed="a data set with documents, or a retriever that brings its own",
            )
    return built


def _subset(qrels: Qrels | None, queries: Sequence[Query]) -> Qrels | None:
    if qrels is None:
        return None
    asked = {query.id for query in queries}
    if asked.issuperset(qrels.query_ids):
        return qrels
    return Qrels.from_dict({q: docs for q, docs in qrels.to_dict().items() if q in asked})


def _pairs(
    config: ExperimentConfig, retrievers: Sequence[str], live: LiveComponents
) -> list[tuple[str, str]]:
    """Every retriever with every generator, or with those retrievers that the generator names."""
    pairs = []
    for retriever in retrievers:
        for name, component in config.generators.items():
            if component.retrievers is None or retriever in component.retrievers:
                pairs.append((retriever, name))
        pairs += [(retriever, name) for name in live.generators]
    return pairs


def _baseline(config: ExperimentConfig, retrievers: Sequence[str]) -> str | None:
    """The named one where it runs, else the first of the config."""
    named = config.statistics.baseline
    if named in retrievers:
        return named
    return retrievers[0] if retrievers else None
