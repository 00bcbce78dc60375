"""Making a plan: queries, systems, scores and judges of a config, resolved against the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from ragbench.comparison.method import Method
from ragbench.config.schema import ExperimentConfig, Match
from ragbench.data.loaders.python import as_loader
from ragbench.errors import ConfigError, DataError
from ragbench.experiment.plan.components import (
    build,
    check_startup,
    require_method,
)
from ragbench.experiment.plan.queries import (
    choose_queries,
    cluster_labels,
    config_slicings,
    coverage_warnings,
    document_id,
    fold_labels,
)
from ragbench.experiment.plan.records import LiveComponents, Plan, PlanInputs, System
from ragbench.experiment.plan.scores import (
    DEFAULT_MEASURES,
    check_deciding_measure,
    choose_answer_scores,
    choose_scores,
    fit_measures,
    plan_fill,
)
from ragbench.experiment.plan.systems import (
    build_retrievers,
    check_live_names,
    choose_baseline,
    choose_systems,
    complete_systems,
    expand_only,
    names_of,
)
from ragbench.gates.base import check_names, read_baselines
from ragbench.generate.base import App, Generator
from ragbench.records.causes import LEAK_READ
from ragbench.records.manifest import Choices
from ragbench.registry import PYTHON
from ragbench.retrieve.base import Retriever
from ragbench.retrieve.cross_validated import CrossValidated
from ragbench.score.judge.rubric import load_rubric
from ragbench.score.retrieval.notation import measures_of_ids, parse_measures
from ragbench.types import Collection, Document, Qrels
from ragbench.types.documents import record_ids
from ragbench.types.lookups import item_names

# Level of `match` -> what is wrong with judged documents that no hit can match.
_NOT_IN_CORPUS = {
    "id": "are not in the corpus",
    "document": "have no passage in the corpus",
    "text": "have no text in the corpus",
}


def load_collection(config: ExperimentConfig) -> Collection:
    """Load the data set that a config names.

    Raises:
        DataError: A file is missing or malformed, an id refers to nothing, or the config has
            several data sets.
        AdapterError: The user's loader fails.
        MissingExtra: The loader or a file needs a package that is not installed.
        OptionError: The loader refuses an option.
    """
    check_single(config)
    cls, options = config.dataset.cls, config.dataset.options
    is_own = config.dataset.type.startswith(PYTHON)
    loader = as_loader(cls, options, config.dataset.type) if is_own else cls(**options)
    collection: Collection = loader.load()
    return collection


def check_single(config: ExperimentConfig) -> None:
    """Check that a config has one data set.

    Raises:
        DataError: It has several, by `datasets`.
    """
    if config.collections:
        problem = f"several data sets ({', '.join(config.collections)}) where one is read"
        allowed = "a config with `dataset`; `datasets` is for ragbench run, plan and validate"
        raise DataError(problem, file=config.path, record="datasets", allowed=allowed)


def make_plan(
    config: ExperimentConfig,
    collection: Collection,
    choices: Choices,
    live: LiveComponents,
    *,
    calls: bool = True,
) -> Plan:
    """Resolve a config against the data, create its components, and return the plan.

    Args:
        config: Config of the experiment.
        collection: Data set.
        choices: Options of the command line, such as `--only`.
        live: Components that a caller passed as objects.
        calls: False, for `validate` and `plan`, calls no code of the user: its components are
            replaced by ones that cannot run.

    Raises:
        ConfigError: A component or a gate refuses an option or a name.
        DataError: The data lack what a component or measure needs, names clash, or a baseline
            cannot be read.
        OptionError: `only`, `limit` or the baseline names nothing that runs, a judge cannot apply a
            rubric, or the user's class lacks an option.
        AdapterError: Code of the user fails, or returns no component.
        MissingExtra: A component needs a package that is not installed.
    """
    config = _matching_texts(config, collection)
    selection_warnings = _selection_warnings(config, choices)
    choices = structs.replace(choices, only=expand_only(choices.only, config.sweeps))
    inputs = PlanInputs(config, collection, choices, live, calls)
    check_live_names(inputs)
    gate_baselines = read_baselines(config.gates)
    queries, sampled = choose_queries(collection, choices, config.seed)
    systems = choose_systems(inputs)
    scores = choose_scores(inputs, systems)
    qrels, query_ids = collection.qrels, frozenset(record_ids(queries))
    if qrels is not None and not query_ids.issuperset(qrels.query_ids):
        qrels = qrels.of_queries(query_ids)
    warnings = [*collection.warnings, *sampled, *scores.warnings]
    warnings += _judgement_warnings(inputs, qrels, scores.measures)
    warnings += _lost_span_warning(collection, scores.measures)
    warnings += selection_warnings
    clusters, cluster_warnings = cluster_labels(config, queries)
    warnings += [*cluster_warnings, *map(_secret_warning, config.literal_secrets)]
    retrievers = build_retrievers(inputs, systems)
    generators = _build_generators(inputs, systems)
    warnings += _generator_warnings(config, generators, systems)
    warnings += coverage_warnings("retriever", retrievers, collection.queries, queries)
    warnings += coverage_warnings("generator", generators, collection.queries, queries)
    baseline = choose_baseline(inputs, systems)
    _check_folds(inputs, retrievers, fold_labels(queries, clusters))
    plan = Plan(
        config=config,
        choices=choices,
        collection=collection,
        queries=queries,
        qrels=qrels,
        retrievers=retrievers,
        systems=complete_systems(systems, generators, scores.recorded_rankings, baseline),
        generators=generators,
        apps=_build_apps(inputs, systems),
        measures=scores.measures,
        metrics=scores.metrics,
        judges=scores.judges,
        skipped_judges=scores.skipped,
        fill=scores.fill,
        baseline=baseline,
        clusters=clusters,
        slicings=config_slicings(config, queries, qrels, collection.answers),
        warnings=warnings,
        gate_baselines=gate_baselines,
    )
    _check_repeats(plan)
    _check_pass_metrics(plan)
    if choices.judge and not choices.only:
        answering = item_names(plan.answering_without_controls)
        check_names(config.gates, _score_names(plan), [*plan.scored_retrievers, *answering])
    return plan


def _check_folds(
    inputs: PlanInputs, retrievers: Mapping[str, Retriever], labels: Sequence[str]
) -> None:
    """Raise a DataError for more folds than labels of queries, or a measure that data lack."""
    for name, retriever in retrievers.items():
        if not isinstance(retriever, CrossValidated):
            continue
        place, n = f"retrievers.{name}.select", len(set(labels))
        if retriever.folds > n:
            units = "queries" if n == len(labels) else "groups of queries"
            allowed = f"folds: 2 to {n}" if n > 1 else "two queries or more"
            raise inputs.error(f"{retriever.folds} folds of {n} {units}", place, allowed)
        check_deciding_measure(inputs, retriever.measure, place)


def _check_repeats(plan: Plan) -> None:
    """Raise a ConfigError for a repeated retriever with sources of another number of repeats."""
    # Its rankings would share those of the sources, and not vary as runs of the whole retrieval do.
    for name, retriever in plan.retrievers.items():
        component, repeat = plan.component("retriever", name), plan.repeat("retriever", name)
        for source in retriever.sources:
            n = plan.n_rankings(source)
            if component is not None and repeat > 1 and n not in (1, repeat):
                allowed = f"{n}, as of its source '{source}'"
                path = f"retrievers.{name}.repeat"
                problem = component.place.problem(f"found {repeat}", path, allowed)
                raise ConfigError([problem], component.place.file or "the config")


def _check_pass_metrics(plan: Plan) -> None:
    """Raise a ConfigError for `pass^k` or `pass@k` with more repetitions than any system has."""
    most = max((plan.n_answers(system) for system in plan.answering_systems), default=1)
    problems, place = [], None
    for entry in plan.pass_metrics():
        k, rule = int(entry.metric.options["k"]), entry.metric.base[: len("pass^")]
        if k > most:
            allowed = f"{rule}1 to {rule}{most}: an answer is repeated {most} times at most"
            if most == 1:
                allowed = f"{rule}1; or repeat: {k} of an app or a generator"
            path, place = f"metrics.generation.{entry.row}", entry.place
            problems.append(place.problem(f"found {entry.metric.name}", path, allowed))
    if problems and place is not None:
        raise ConfigError(problems, place.file or "the config")


def check_without_data(config: ExperimentConfig, choices: Choices) -> None:
    """Check the components of a config whose data set only a run can load.

    No code of the user is called. Problems that depend on the data stay unknown. Without a
    retriever and an app in the config, only the loader is checked.

    Args:
        config: Config of the experiment.
        choices: Options of the command line; systems that `only` leaves out are not checked.

    Raises:
        ConfigError: A key is missing, or a component refuses an option.
        AdapterError: The class of the loader or of a component lacks its methods; or a server is
            missing.
        MissingExtra: A component, metric or judge needs a package that is not installed.
        DataError: Two systems share a name or file, or the model of a component cannot be loaded.
        OptionError: `only` names no system, a rubric is unknown, or a judge cannot apply it.
    """
    require_method(config.dataset, "loader")
    if not (config.retrievers or config.apps):
        return  # all systems are in the data
    choices = structs.replace(choices, only=expand_only(choices.only, config.sweeps))
    entries = {**config.retrievers, **config.generators, **config.apps}
    recorded = []
    for name in choices.only:
        if name.partition("/")[0] not in entries:
            recorded.append(name)
    inputs = PlanInputs(config, _unknown_data(recorded), choices, calls=False)
    systems = choose_systems(inputs)
    answering = bool(names_of(systems, "pair", "app"))
    _, judges, _ = choose_answer_scores(inputs, has_answers=answering)
    rules = config.metrics.retrieval
    fill, _ = plan_fill(config, choices, judges, calls=False)
    fill, _ = fit_measures(fill, rules.measures or DEFAULT_MEASURES, rules.top_k)
    if fill is not None:
        judges = {**judges, fill.name: fill.judge}
    retrievers = build_retrievers(inputs, systems)
    generators = _build_generators(inputs, systems)
    for name in names_of(systems, "app"):
        build("app", name, config.apps[name], None, calls=False)
    check_startup(config, retrievers, generators, judges)


def check_only(config: ExperimentConfig, choices: Choices, live: LiveComponents) -> None:
    """Raise an OptionError if `only` names no system of the config; data are not read."""
    only = expand_only(choices.only, config.sweeps)
    choose_systems(PlanInputs(config, _unknown_data(), structs.replace(choices, only=only), live))


def _unknown_data(recorded: Sequence[str] = ()) -> Collection:
    """Return data that have all that data may have, so that nothing is refused for its absence."""
    return Collection(
        queries=[],
        documents=[Document("unknown", "unknown")],
        qrels=Qrels.from_dict({"unknown": {"unknown": 1}}),
        expected_tool_calls={"unknown": ()},
        recorded_answers=dict.fromkeys(recorded, ()),
    )


def _build_generators(inputs: PlanInputs, systems: Sequence[System]) -> dict[str, Generator]:
    """Create the generators of the pairs by name, in the order of the pairs; {} without pairs."""
    generators: dict[str, Generator] = {}
    for system in systems:
        name = str(system.generator)
        if system.type == "pair" and name not in generators:
            component, live = inputs.parts("generator", name)
            generators[name] = build("generator", name, component, live, calls=inputs.calls)
    return generators


def _build_apps(inputs: PlanInputs, systems: Sequence[System]) -> dict[str, App]:
    """Create the apps of the systems by name, in their order; {} without apps."""
    apps = {}
    for name in names_of(systems, "app"):
        apps[name] = build("app", name, *inputs.parts("app", name), calls=inputs.calls)
    return apps


def _selection_warnings(config: ExperimentConfig, choices: Choices) -> list[str]:
    """Return a warning for each sweep whose combination a run with these choices would choose."""
    warnings = []
    for name, sweep in config.sweeps.items():
        select = sweep.select
        if select is not None and sweep.is_open and (not choices.only or name in choices.only):
            warnings.append(
                f"a run chooses one of the {len(sweep.members)} combinations of '{name}' on "
                f"'{select.on}', by {select.measure}, and has that one alone"
            )
    return warnings


def _matching_texts(config: ExperimentConfig, collection: Collection) -> ExperimentConfig:
    """Return the config, with matching by text if gold passages stand in no corpus."""
    rules = config.metrics.retrieval
    if not collection.gold_passages or rules.match.level != "id":
        return config
    rules = replace(rules, match=Match(level="text"))
    return replace(config, metrics=replace(config.metrics, retrieval=rules))


def _generator_warnings(
    config: ExperimentConfig, generators: Mapping[str, Generator], systems: Sequence[System]
) -> Iterator[str]:
    """Yield a warning for each generator whose controls or repeats tell nothing."""
    for name in dict.fromkeys(str(s.generator) for s in systems if s.control is not None):
        if generators[name].is_stored:
            yield (
                f"generator '{name}' has no controls: its answers are stored, whatever passages "
                "it gets"
            )
    for name, component in config.generators.items():
        if component.repeat > 1 and name in generators and generators[name].temperature == 0:
            yield (
                f"generator '{name}': repeat is {component.repeat} at temperature 0, where most "
                "servers give the same answer each time; set the temperature that is used, such as "
                "0.7"
            )


def _secret_warning(place: str) -> str:
    """Return the warning on a secret in the config itself, at the dotted path `place`."""
    return (
        f"{place} holds a secret that stands in the config itself: write ${{NAME}} there and set "
        "that variable; no file keeps the secret, and reproduce needs it"
    )


def method_of(config: ExperimentConfig) -> Method:
    """Return the intervals, tests and clusters that tables and gates of a run compare by."""
    return Method.from_options(config.statistics, seed=config.seed)


def _score_names(plan: Plan) -> list[str]:
    """Return the names of all scores of a run, those of skipped judges included."""
    rubrics = {name: judge.rubrics for name, judge in plan.judges.items()}
    for name in plan.skipped_judges:
        block = (plan.config.metrics.judges or {})[name]
        rubrics[name] = [load_rubric(rubric) for rubric in block.rubrics]
    judge_scores = []
    for judge, group in rubrics.items():
        judge_scores += [plan.judge_score(rubric.name, judge) for rubric in group]
    # `right` is a score of every system that answers
    names = item_names(plan.metrics)
    for entry in plan.pass_metrics():
        names.append(entry.metric.name)
    leaks = [LEAK_READ] if plan.collection.forbidden else []
    return [*plan.measures, "right", *leaks, *names, *judge_scores]


def _lost_span_warning(collection: Collection, measures: Sequence[str]) -> list[str]:
    """Return a list with one warning if gold spans stand in no document, and are read; else []."""
    lost = []
    for query, spans in collection.gold_spans.items():
        if not spans:
            lost.append(query)
    if not lost or all(measure.spec.reads != "spans" for measure in parse_measures(measures)):
        return []
    return [
        f"{len(lost)} of {len(collection.gold_spans)} questions have a gold span or quote that "
        f"stands in no document as it is written, such as '{lost[0]}': measures of spans have no "
        "value for them (no_gold_span)"
    ]


def _judgement_warnings(
    inputs: PlanInputs, qrels: Qrels | None, measures: Sequence[str]
) -> list[str]:
    """Return a list with one warning if judged documents are not in the corpus, else []."""
    collection, match = inputs.collection, inputs.config.metrics.retrieval.match
    if qrels is None or collection.documents is None or not measures_of_ids(measures):
        return []
    documents = collection.documents
    corpus_ids: set[str]
    if match.level == "id":
        corpus_ids = set(record_ids(documents))
    elif match.level == "text":
        corpus_ids = {document.id for document in documents if document.full_text.strip()}
    else:
        places_of = (document_id(document, match) for document in documents)
        corpus_ids = {name for name in places_of if name is not None}
        if not corpus_ids:  # the hits alone have the metadata of their documents
            return []
    judged = dict.fromkeys(qrels.documents)  # in their order: the same example in every run
    missing = [document for document in judged if document not in corpus_ids]
    if not missing:
        return []
    problem = f"{_NOT_IN_CORPUS[match.level]}, such as '{missing[0]}'"
    if (place := collection.gold_places.get(missing[0])) is not None:
        problem += f" ({place})"
    if len(missing) == len(judged):
        allowed = f"ids of the corpus, such as '{min(corpus_ids, default='')}'; or match: {{level: "
        allowed += 'document, separator: "#"} where the corpus has parts of documents'
        problem = f"all {len(judged)} judged documents {problem}"
        raise inputs.error(problem, "metrics.retrieval.match", allowed)
    return [
        f"{len(missing)} of {len(judged)} judged documents {problem}; no system can find them: the "
        "judgements look stale"
    ]
