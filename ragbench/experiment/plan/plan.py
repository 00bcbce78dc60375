"""What a run will do: its queries, systems, scores and judges, resolved against the data."""

from __future__ import annotations

import re
from collections import abc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace

from ragbench.comparison.method import IntervalsAndTests, Method
from ragbench.config.schema import ExperimentConfig, Match
from ragbench.data.loaders.base import CorpusReader
from ragbench.data.loaders.python import as_loader
from ragbench.errors import DataError
from ragbench.experiment.plan.components import build_app, build_generator
from ragbench.experiment.plan.groups import cluster_labels, document_id, slicings
from ragbench.experiment.plan.records import LiveComponents, Plan, System
from ragbench.experiment.plan.scores import choose_scores
from ragbench.experiment.plan.systems import (
    build_retrievers,
    check_live_names,
    choose_baseline,
    choose_systems,
    complete_systems,
    names_of,
    never_compared,
    sample,
)
from ragbench.files import cache_folder
from ragbench.gates.base import check_names, read_baselines
from ragbench.generate.base import Generator
from ragbench.records.manifest import Choices
from ragbench.registry import PYTHON, nearest
from ragbench.retrieve.base import Retriever
from ragbench.score.judge.rubric import load_rubric
from ragbench.score.retrieval.notation import parse_measures
from ragbench.store.arrays import ArrayStore
from ragbench.types import Collection, Qrels, Query
from ragbench.types.packed_documents import ids_of

_NEAREST_LIMIT = 50_000  # looking for the nearest of more ids would take seconds
_SHOWN = 3
_LACKING = {
    "id": "are not in the corpus",
    "document": "have no passage in the corpus",
    "text": "have no text in the corpus",
}


def load_collection(config: ExperimentConfig, *, keep: bool = False) -> Collection:
    """Read the data set that a config names; a large corpus is kept, or found, in the cache."""
    cls, options = config.dataset.cls, config.dataset.options
    is_own = config.dataset.type.startswith(PYTHON)
    loader = as_loader(cls, options) if is_own else cls(**options)
    if isinstance(loader, CorpusReader):
        loader.arrays = ArrayStore(cache_folder(config.cache), config.cache_also, writes=keep)
    collection: Collection = loader.load()
    return collection


def make_plan(
    config: ExperimentConfig,
    collection: Collection,
    choices: Choices,
    live: LiveComponents,
    *,
    calls: bool = True,
) -> Plan:
    """Resolve defaults against the data, make the components, and refuse what cannot be done.

    Without `calls`, nothing that is not ours is called: components that are made by code of the
    user's get something that stands for them, which cannot be run.
    """
    config = _matching_texts(config, collection)
    check_live_names(config, live)
    gate_baselines = read_baselines(config.gates)
    queries, sampled = sample(collection.queries, choices.limit, config.seed)
    systems = choose_systems(config, collection, choices.only, live)
    scores = choose_scores(config, collection, choices, systems, calls=calls)
    qrels, asked = collection.qrels, frozenset(ids_of(queries))
    if qrels is not None and not asked.issuperset(qrels.query_ids):
        qrels = qrels.of_queries(asked)
    warnings = [*collection.warnings, *sampled, *scores.warnings]
    warnings += _check_judgements(config, collection, qrels, scores.measures)
    clusters, lacking = cluster_labels(config, queries)
    warnings += [*lacking, *map(_literal_secret, config.literal_secrets)]
    retrievers = build_retrievers(config, collection, systems, live, calls=calls)
    entries, passed = config.generators, live.generators
    generators = {
        name: build_generator(name, entries.get(name), passed.get(name), calls=calls)
        for name in dict.fromkeys(str(s.generator) for s in systems if s.type == "pair")
    }
    warnings += _doubtful_generators(config, generators, systems)
    warnings += _check_coverage("retriever", retrievers, collection.queries, queries)
    warnings += _check_coverage("generator", generators, collection.queries, queries)
    baseline = choose_baseline(config, collection, systems)
    apps = {
        name: build_app(name, config.apps.get(name), live.apps.get(name), calls=calls)
        for name in names_of(systems, "app")
    }
    plan = Plan(
        config=config,
        choices=choices,
        collection=collection,
        queries=queries,
        qrels=qrels,
        retrievers=retrievers,
        systems=complete_systems(systems, generators, scores.recorded_rankings, baseline),
        generators=generators,
        apps=apps,
        measures=scores.measures,
        metrics=scores.metrics,
        judges=scores.judges,
        skipped_judges=scores.skipped,
        fill=scores.fill,
        baseline=baseline,
        clusters=clusters,
        slicings=slicings(config, queries, qrels, collection.answers),
        warnings=warnings,
        gate_baselines=gate_baselines,
    )
    if choices.judge and not choices.only:
        answering = [each.name for each in plan.answering_systems if each.type != "control"]
        check_names(config.gates, _scores(plan), [*plan.scored_retrievers, *answering])
    return plan


def _matching_texts(config: ExperimentConfig, collection: Collection) -> ExperimentConfig:
    """Match by words where the judgements are of passages that have no ids of a corpus."""
    rules = config.metrics.retrieval
    if not collection.gold_passages or rules.match.level != "id":
        return config
    rules = replace(rules, match=Match(level="text"))
    return replace(config, metrics=replace(config.metrics, retrieval=rules))


def _doubtful_generators(
    config: ExperimentConfig, generators: Mapping[str, Generator], systems: Sequence[System]
) -> Iterator[str]:
    """Warn, before anything is paid for, of answers that may all be the same."""
    for name in dict.fromkeys(str(s.generator) for s in systems if s.control is not None):
        if generators[name].is_stored:
            yield (
                f"generator '{name}' has no controls: its answers are stored, whatever passages "
                "it gets"
            )
    yield from never_compared(systems)
    for name, component in config.generators.items():
        if component.samples > 1 and name in generators and generators[name].temperature == 0:
            yield (
                f"generator '{name}': samples is {component.samples} at temperature 0, where most "
                "servers give the same answer each time; set the temperature that is used, such as "
                "0.7"
            )


def _literal_secret(place: str) -> str:
    keys = [key.strip('"') for key in place.split(".")]
    last = next((key for key in reversed(keys) if not key.isdigit()), "")
    name = re.sub(r"\W+", "_", last).strip("_").upper()
    return (
        f"{place} holds a secret that stands in the config itself: write ${{{name or 'SECRET'}}} "
        "there and set that variable; no file keeps the secret, and reproduce needs it"
    )


def method_of(plan: Plan) -> Method:
    """Return how the systems of a run are compared, in tables and by gates."""
    chosen = plan.config.statistics
    shared = {each.name: getattr(chosen, each.name) for each in fields(IntervalsAndTests)}
    return Method(**shared, seed=plan.config.seed, cluster=chosen.cluster)


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


def _check_coverage(
    noun: str,
    components: Mapping[str, Retriever] | Mapping[str, Generator],
    every: Sequence[Query],
    asked: Sequence[Query],
) -> Iterator[str]:
    """Warn where a component has results stored for some of the queries only.

    What it has are ids, or texts of questions; nothing for any query of the data set is an error.
    """
    for name, component in components.items():
        stored = component.query_ids
        if stored is None:  # it answers any query
            continue
        if not any(query.id in stored or query.text in stored for query in every):
            example = min(stored, default="nothing")
            raise DataError(
                f"{noun} '{name}' has none of the {len(every)} queries of the data set; it has "
                f"'{example}'",
                allowed=f"queries such as '{every[0].id}'",
            )
        absent = sum(query.id not in stored and query.text not in stored for query in asked)
        if absent:
            yield f"{noun} '{name}' has nothing for {absent} of {len(asked)} queries"


def _check_judgements(
    config: ExperimentConfig, collection: Collection, qrels: Qrels | None, measures: Sequence[str]
) -> list[str]:
    """Warn of judgements that no document can meet, where a measure reads them.

    Where none can be met, it is an error.
    """
    read = any(measure.spec.reads != "passages" for measure in parse_measures(measures))
    if qrels is None or collection.documents is None or not read:
        return []
    match, places = config.metrics.retrieval.match, collection.gold_places
    documents = collection.documents
    known: set[str]
    if match.level == "id":
        known = set(ids_of(documents))
    elif match.level == "text":
        known = {document.id for document in documents if document.full_text.strip()}
    else:
        places_of = (document_id(document, match) for document in documents)
        known = {name for name in places_of if name is not None}
        if not known:  # only the retrievers say what a passage is of
            return []
    judged = dict.fromkeys(qrels.documents)
    missing = [document for document in judged if document not in known]
    if not missing:
        return []
    close = nearest(missing[0], sorted(known)) if len(known) <= _NEAREST_LIMIT else None
    lacking = _LACKING[match.level]
    place = f" ({places[missing[0]]})" if missing[0] in places else ""
    if len(missing) == len(judged):
        raise DataError(
            f"all {len(judged)} judged documents {lacking}, such as '{missing[0]}'{place}",
            file=config.path,
            record="metrics.retrieval.match",
            allowed=_allowed(known, match),
            nearest=close,
        )
    example = f"'{missing[0]}'{place}" + (f" (did you mean '{close}'?)" if close else "")
    if len(missing) > 1 and places:
        example += "".join(f", '{name}'" for name in missing[1:_SHOWN])
    return [
        f"{len(missing)} of {len(judged)} judged documents {lacking}, such as {example}; no system "
        "can find them: the judgements look stale"
    ]


def _allowed(known: abc.Collection[str], match: Match) -> str:
    example = min(known, default="")
    if match.level != "id":
        return f"ids of documents, such as '{example}'"
    how = 'match: {level: document, separator: "#"} where the corpus has parts of documents'
    return f"ids of the corpus, such as '{example}'; or {how}"
