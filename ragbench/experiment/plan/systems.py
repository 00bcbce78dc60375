"""Systems of a run: retrievers, their pairs with generators, controls, apps, and their names."""

from __future__ import annotations

import re
from collections import abc
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, product

from ragbench.comparison.systems import baseline_of
from ragbench.config.components import is_opaque, unscored_combinations
from ragbench.config.schema import Sweep
from ragbench.data.runs.run_folder import unfit_names
from ragbench.errors import DataError, OptionError
from ragbench.experiment.plan.components import build
from ragbench.experiment.plan.records import Plan, PlanInputs, System
from ragbench.generate.base import Generator
from ragbench.records.summary import SystemType
from ragbench.registry import PYTHON, check_allowed
from ragbench.retrieve.base import Retriever
from ragbench.retrieve.cross_validated import CrossValidated
from ragbench.types.lookups import take_items


def names_of(systems: Sequence[System], *types: SystemType) -> list[str]:
    """Return the names of the systems of these types, in order."""
    return [system.name for system in systems if system.type in types]


def user_systems(plan: Plan) -> tuple[str, ...]:
    """Return the names of the user's systems, in the order of the tables.

    They are apps, retrievers that are code or a service of the user, alone and with each generator,
    and recorded systems; () without any.
    """
    retrievers = set()
    for name in plan.scored_retrievers:
        if _is_users(plan, name):
            retrievers.add(name)
    of_users = set(names_of(plan.systems, "app", "recorded"))
    of_users |= {s.name for s in plan.systems if s.type != "control" and s.retriever in retrievers}
    return tuple(system.name for system in plan.systems if system.name in of_users)


def _is_users(plan: Plan, retriever: str) -> bool:
    """Return True for a live object, `python:` code, or a class with `is_opaque`."""
    component, sources = plan.component("retriever", retriever), plan.retrievers[retriever].sources
    if isinstance(plan.retrievers[retriever], CrossValidated):
        return any(_is_users(plan, source) for source in sources)
    # a live object has no entry in the config
    return component is None or component.type.startswith(PYTHON) or is_opaque(component.cls)


def narrow(systems: Sequence[System], only: Sequence[str]) -> list[System]:
    """Return the systems that `only` names, and the retrievers that their pairs read.

    A retriever stands for all its pairs, a generator likewise; a retriever and a generator stand
    for the pair of the two. All systems if `only` is empty. The order is that of `systems`;
    controls are not narrowed here.

    Raises:
        OptionError: A name is no retriever, generator, pair, app or recorded system.
    """
    if not only:
        return list(systems)
    retrievers = names_of(systems, "retriever")
    generators = list(dict.fromkeys(str(s.generator) for s in systems if s.type == "pair"))
    allowed = [*retrievers, *generators, *names_of(systems, "pair", "app", "recorded")]
    check_allowed("run", "only", only, allowed)
    lefts, rights = set(only) & set(retrievers), set(only) & set(generators)

    def is_chosen(system: System) -> bool:
        if system.name in only or system.type != "pair":
            return system.name in only
        left_fits = not lefts or system.retriever in lefts
        return bool(lefts or rights) and left_fits and (not rights or system.generator in rights)

    names, selected = set(), []
    for system in filter(is_chosen, systems):
        # a pair needs the ranking of its retriever, which is scored as well
        names |= {system.name, system.retriever}
    for system in systems:
        if system.name in names:
            selected.append(system)
    return selected


# A name of letters, digits, "_", "." and "-" with at least one other than ".".
_NAME = re.compile(r"\.*[A-Za-z0-9_-][A-Za-z0-9_.-]*")


def expand_only(only: Sequence[str], sweeps: Mapping[str, Sweep]) -> tuple[str, ...]:
    """Return the names of `only`, with the combinations of a sweep in place of its name.

    A sweep whose combination was chosen has that one alone; `tuned/gpt` names pairs.
    """
    names = []
    for name in only:
        retriever, slash, generator = name.partition("/")
        members = sweeps[retriever].members if retriever in sweeps else (retriever,)
        for member in members:
            names.append(f"{member}{slash}{generator}")
    return tuple(names)


def check_live_names(inputs: PlanInputs) -> None:
    """Check the names of components that a caller passed as objects.

    Raises:
        OptionError: They are no mapping, or a name is not valid or stands in the config as well.
    """
    for noun in ("retrievers", "generators", "apps"):
        entries, passed = getattr(inputs.config, noun), getattr(inputs.live, noun)
        if not isinstance(passed, Mapping):
            raise OptionError("run_experiment", noun, passed, "a mapping from names to objects")
        for name in passed:
            if name in entries:
                raise OptionError("run_experiment", noun, name, "a name that the config lacks")
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise OptionError("run_experiment", noun, name, "names of A-Z a-z 0-9 _ . -")


def build_retrievers(inputs: PlanInputs, systems: Sequence[System]) -> dict[str, Retriever]:
    """Create the retrievers of the systems, and those that they read, by name.

    Retrievers of systems come first, in their order; none is indexed yet.

    Args:
        inputs: Entries and objects of retrievers, and the documents that they index.
        systems: Systems whose type is "retriever" are created.

    Raises:
        DataError: A retriever searches a corpus, and the data set has none.
        ConfigError: A built-in component refuses an option.
        AdapterError: Code of the user fails, or returns no retriever.
        OptionError: The user's class or function lacks an option.
        MissingExtra: A retriever needs a package that is not installed.
    """
    built: dict[str, Retriever] = {}
    # sources may have sources themselves, and several retrievers may share one
    waiting = names_of(systems, "retriever")
    for name in waiting:  # a retriever over others appends these to the list
        if name in built:
            continue
        component, live = inputs.parts("retriever", name)
        built[name] = build("retriever", name, component, live, calls=inputs.calls)
        waiting += built[name].sources
        if inputs.collection.documents is None and built[name].indexes:
            raise inputs.error(
                f"retriever '{name}' searches a corpus, and the data set has none",
                f"retrievers.{name}",
                "a data set with documents (corpus: in the YAML, documents= in Python), or "
                "a retriever that brings its own",
            )
    for name, retriever in built.items():
        sources = take_items(built, retriever.sources)
        if isinstance(retriever, CrossValidated):
            retriever.ranks_by_score = all(source.ranks_by_score for source in sources)
        if retriever.borrows and any(isinstance(source, CrossValidated) for source in sources):
            problem = f"'{name}' searches the index of a retriever that differs between folds"
            raise inputs.error(problem, f"retrievers.{name}", "a source without folds")
    return built


def choose_systems(inputs: PlanInputs) -> list[System]:
    """Pair retrievers with generators, and return the systems that `only` names.

    They get rankings and baselines in `complete_systems`.

    Raises:
        DataError: There is no system, a control cannot be made, a name fits no file, or two names
            share one.
        OptionError: `only` names no system.
    """
    config, live = inputs.config, inputs.live
    # every retriever with every generator, or with those that the generator names
    sources = {name: component.retrievers for name, component in config.generators.items()}
    sources |= dict.fromkeys(live.generators)
    systems: list[System] = []
    unscored = unscored_combinations(config.retrievers)
    only = {name.partition("/")[0] for name in inputs.choices.only}
    for name in (*config.retrievers, *live.retrievers):
        if name in unscored and name not in only:
            continue
        systems.append(System(name, name, None, type="retriever", ranking_of=name))
        for generator, retrievers in sources.items():
            if retrievers is None or name in retrievers:
                pair = f"{name}/{generator}"
                systems.append(System(pair, name, generator, type="pair", ranking_of=name))
    apps = [*config.apps, *live.apps]
    for n in apps:
        systems.append(System(n, None, None, type="app", role="app", ranking_of=n))
    for name in inputs.collection.recorded_answers:
        systems.append(System(name, None, None, type="recorded"))
    systems = narrow(systems, inputs.choices.only)
    generators = []
    for system in systems:
        if system.type == "pair":
            generators.append(str(system.generator))
    controls = []
    for word, generator in control_pairs(inputs, generators):
        name = f"{word}/{generator}"
        control = System(name, word, generator, type="control", role="control", control=word)
        controls.append(control)
    if not systems:
        allowed = "a retriever, an app, or records with contexts or answers"
        raise inputs.error("there is no system to evaluate", "", allowed)
    # tables show controls below the pairs that they are compared with
    n_retrieving = sum(system.retriever is not None for system in systems)
    systems[n_retrieving:n_retrieving] = controls
    # each system has a file of its own, where one would hide the other
    types: list[SystemType] = ["retriever", "pair", "control", "app", "recorded"]
    names = [*chain.from_iterable(names_of(systems, type_) for type_ in types)]
    for _, problem, allowed in unfit_names(names):
        # names of recorded systems stand in the records
        where = f"{allowed}, in the config or in the records"
        raise DataError(f"systems: {problem}", file=config.path, allowed=where)
    return systems


def complete_systems(
    systems: Sequence[System],
    generators: Mapping[str, Generator],
    rankings: abc.Collection[str],
    baseline: str | None,
) -> list[System]:
    """Return the systems of a run, each with the one that it is compared with.

    A generator whose answers are stored has no controls: it answers the same from any passages.
    Recorded systems of `rankings` get their ranking. The order stays.

    Args:
        systems: The systems that `choose_systems` returned.
        generators: The generators of their pairs and controls by name.
        rankings: Names of the recorded systems whose contexts are scored as rankings.
        baseline: Name of the baseline retriever, app or recorded system.

    Raises:
        KeyError: The generator of a control is not in `generators`.
    """
    by_name = {}
    for system in systems:
        if system.control is not None and generators[str(system.generator)].is_stored:
            continue
        if system.name in rankings:
            system = replace(system, ranking_of=system.name)
        by_name[system.name] = system
    complete = []
    for system in by_name.values():
        other = baseline_of(system, by_name, baseline)
        complete.append(replace(system, baseline=None if other is None else other.name))
    return complete


def choose_baseline(inputs: PlanInputs, systems: Sequence[System]) -> str:
    """Return the name of the baseline: the one of the config, else the first retriever or app.

    Without any retriever and app, it is a recorded system. A retriever or app of the config that
    does not run is replaced by the first candidate, and so is a recorded system beside retrievers
    or apps.

    Raises:
        OptionError: The config names a pair or an unknown system.
        IndexError: There is no system.
    """
    # recorded systems are the baseline only of a run that has nothing else
    candidates = names_of(systems, "retriever", "app") or names_of(systems, "recorded")
    config, recorded = inputs.config, inputs.collection.recorded_answers
    name = config.statistics.baseline
    if name is not None:
        allowed = dict.fromkeys((*config.retrievers, *config.apps, *candidates, *recorded))
        for combination in unscored_combinations(config.retrievers).difference(candidates):
            del allowed[combination]
        check_allowed("statistics", "baseline", [name], [*allowed])
    return name if name in candidates else candidates[0]


def n_distractors(control: str | None) -> int:
    """Return the number of distractors of a control; 0 for a control without, and for None.

    Raises ValueError for `distractors` without a number.

    Example:
        >>> n_distractors("distractors=3"), n_distractors("no_context")
        (3, 0)
    """
    name, _, count = (control or "").partition("=")
    return int(count) if name == "distractors" else 0


def control_pairs(inputs: PlanInputs, generators: Sequence[str]) -> list[tuple[str, str]]:
    """Return (control, generator) pairs, generator by generator; [] without controls.

    Args:
        inputs: Controls and generators; `gold_context` and distractors need qrels and documents.
        generators: Names of the generators that run, which may repeat.

    Raises:
        DataError: There are controls and no generator, or the data lack gold passages.
    """
    config, collection = inputs.config, inputs.collection
    if config.controls and not (config.generators or inputs.live.generators):
        problem = "there is no generator that could be given other passages"
        allowed = "a generator, or no controls; an app retrieves for itself"
        raise inputs.error(problem, "controls", allowed)
    of_gold = []
    for name in config.controls:
        if name == "gold_context" or n_distractors(name):
            of_gold.append(name)
    if of_gold and not (collection.qrels and collection.documents):
        lacks = "relevance judgements and a corpus, and the data set has none"
        allowed = "no_context, shuffled_context, injection"
        raise inputs.error(f"{of_gold[0]} needs {lacks}", "controls", allowed)
    pairs = product(dict.fromkeys(generators), config.controls)
    return [(control, generator) for generator, control in pairs]
