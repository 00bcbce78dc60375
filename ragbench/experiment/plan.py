"""What a run will do: its queries, systems, scores and judges, resolved against the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragbench.config.schema import Component, ExperimentConfig
from ragbench.errors import DataError, OptionError
from ragbench.experiment.components import (
    DEFAULT_JUDGE,
    PlannedJudge,
    build_generator,
    build_judge,
    build_retriever,
)
from ragbench.registry import nearest
from ragbench.score.retrieval.notation import parse_measures
from ragbench.signature import fingerprint
from ragbench.types import Collection, Qrels, Query

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
_DEFAULT_RUBRICS = ("faithfulness", "answer_relevancy", "correctness")


@dataclass(frozen=True, slots=True)
class Choices:
    """What the caller narrows a run to."""

    limit: int | None = None
    """A seeded sample of this many queries."""
    only: tuple[str, ...] = ()
    """Names of retrievers, generators or pairs; empty means all."""
    judge: bool = True
    """Whether judges are asked."""


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
    for noun, named, passed in (
        ("retrievers", config.retrievers, live.retrievers),
        ("generators", config.generators, live.generators),
    ):
        if twice := [name for name in passed if name in named]:
            raise OptionError("run_experiment", noun, twice[0], "a name that the config lacks")
    queries, warnings = _sample(collection.queries, choices.limit, config.seed)
    retrievers = [*config.retrievers, *live.retrievers]
    pairs = _pairs(config, retrievers, live)
    retrievers, pairs, given = _narrow(retrievers, pairs, list(collection.given), choices.only)
    if not retrievers and not given:
        raise DataError(
            "there is no system to evaluate",
            file=config.path,
            allowed="a retriever, or records with contexts or answers",
        )
    has_answers = bool(pairs) or any(
        row.answer is not None for name in given for row in collection.given[name]
    )
    measures = _measures(config, collection, retrievers)
    metrics, judges = _answer_scores(config, collection, choices, has_answers)
    return Plan(
        config=config,
        collection=collection,
        queries=queries,
        qrels=_subset(collection.qrels, queries),
        retrievers={
            name: build_retriever(name, config.retrievers.get(name), live.retrievers.get(name))
            for name in retrievers
        },
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


def _sample(queries: list[Query], limit: int | None, seed: int) -> tuple[list[Query], list[str]]:
    """A random sample that depends on the seed and the ids alone, in the order of the file."""
    if limit is None or limit >= len(queries):
        return queries, []
    if limit < 1:
        raise OptionError("run", "limit", limit, "an integer >= 1")
    by_chance = sorted(queries, key=lambda query: fingerprint([str(seed), query.id]))
    chosen = {query.id for query in by_chance[:limit]}
    warning = f"a random sample of {limit} of {len(queries)} queries (--limit, seed {seed})"
    return [query for query in queries if query.id in chosen], [warning]


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


def _narrow(
    retrievers: list[str], pairs: list[tuple[str, str]], given: list[str], only: Sequence[str]
) -> tuple[list[str], list[tuple[str, str]], list[str]]:
    """Keep what `only` names; a generator keeps all its retrievers, a pair its own."""
    if not only:
        return retrievers, pairs, given
    generators = dict.fromkeys(generator for _, generator in pairs)
    allowed = [*retrievers, *generators, *(f"{r}/{g}" for r, g in pairs), *given]
    for name in only:
        if name not in allowed:
            raise OptionError("run", "only", name, ", ".join(allowed), nearest(name, allowed))
    some_retrievers = {name for name in only if name in retrievers}
    some_generators = {name for name in only if name in generators}

    def wanted(retriever: str, generator: str) -> bool:
        if f"{retriever}/{generator}" in only:
            return True
        if not some_retrievers and not some_generators:
            return False
        return (not some_retrievers or retriever in some_retrievers) and (
            not some_generators or generator in some_generators
        )

    kept = [pair for pair in pairs if wanted(*pair)]
    asked = [r for r in retrievers if r in only or any(r == left for left, _ in kept)]
    return asked, kept, [name for name in given if name in only]


def _measures(
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


def _answer_scores(
    config: ExperimentConfig, collection: Collection, choices: Choices, has_answers: bool
) -> tuple[tuple[str, ...], dict[str, PlannedJudge]]:
    """Metrics and judges, the defaults being those that the data allow."""
    if not has_answers:
        return (), {}
    metrics = config.metrics.generation
    if metrics is None:
        metrics = DEFAULT_METRICS if collection.answers else ()
    if not choices.judge:
        return metrics, {}
    if config.metrics.judges is None:
        rubrics = [r for r in _DEFAULT_RUBRICS if collection.answers or r not in _NEEDS_REFERENCE]
        return metrics, {DEFAULT_JUDGE: build_judge(None, rubrics)}
    judges = {name: build_judge(block, ()) for name, block in config.metrics.judges.items()}
    return metrics, judges


def _baseline(config: ExperimentConfig, retrievers: Sequence[str]) -> str | None:
    """The named one where it runs, else the first of the config."""
    named = config.statistics.baseline
    if named in retrievers:
        return named
    return retrievers[0] if retrievers else None
