"""The systems of a run: what is chosen, what is paired with what, what they may be called."""

from __future__ import annotations

import re
from collections import abc
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, replace

from ragbench.comparison.systems import baseline_of
from ragbench.config.schema import Control, ExperimentConfig
from ragbench.data.runs.run_folder import unfit_names
from ragbench.errors import DataError, OptionError
from ragbench.experiment.plan.components import build_retriever
from ragbench.experiment.plan.records import LiveComponents, System
from ragbench.generate.base import Generator
from ragbench.registry import check_allowed
from ragbench.retrieve.base import Retriever
from ragbench.signature import fingerprint
from ragbench.types import Collection, Query
from ragbench.types.packed_documents import ids_of


def sample(
    queries: Sequence[Query], limit: int | None, seed: int
) -> tuple[Sequence[Query], list[str]]:
    """A random sample that depends on the seed and the ids alone, in the order of the file."""
    if limit is None or limit >= len(queries):
        return queries, []
    if limit < 1:
        raise OptionError("run", "limit", limit, "an integer >= 1")
    by_chance = sorted(ids_of(queries), key=lambda name: fingerprint([str(seed), name]))
    warning = f"a random sample of {limit} of {len(queries)} queries (--limit, seed {seed})"
    sample = frozenset(by_chance[:limit])
    return [query for query in queries if query.id in sample], [warning]


def narrow(
    retrievers: list[str], pairs: list[tuple[str, str]], given: list[str], only: Sequence[str]
) -> tuple[list[str], list[tuple[str, str]], list[str]]:
    """Keep what `only` names; a generator keeps all its retrievers, a pair its own."""
    if not only:
        return retrievers, pairs, given
    generators = dict.fromkeys(generator for _, generator in pairs)
    allowed = [*retrievers, *generators, *(f"{r}/{g}" for r, g in pairs), *given]
    check_allowed("run", "only", only, allowed)
    lefts, rights = set(only) & set(retrievers), set(only) & set(generators)

    def wanted(left: str, right: str) -> bool:
        if f"{left}/{right}" in only:
            return True
        named = lefts or rights
        return bool(named) and left in (lefts or retrievers) and right in (rights or generators)

    kept = [pair for pair in pairs if wanted(*pair)]
    asked = [r for r in retrievers if r in only or any(r == left for left, _ in kept)]
    return asked, kept, [name for name in given if name in only]


_NAME = re.compile(r"[A-Za-z0-9_.-]*[A-Za-z0-9_-][A-Za-z0-9_.-]*")


def check_live_names(config: ExperimentConfig, live: LiveComponents) -> None:
    """Refuse objects whose names are none, or are taken by the config."""
    for noun, named, passed in (
        ("retrievers", config.retrievers, live.retrievers),
        ("generators", config.generators, live.generators),
        ("apps", config.apps, live.apps),
    ):
        if not isinstance(passed, Mapping):
            raise OptionError("run_experiment", noun, passed, "a mapping from names to objects")
        for name in passed:
            if name in named:
                raise OptionError("run_experiment", noun, name, "a name that the config lacks")
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise OptionError("run_experiment", noun, name, "names of A-Z a-z 0-9 _ . -")


def build_retrievers(
    config: ExperimentConfig,
    collection: Collection,
    names: Sequence[str],
    live: LiveComponents,
    *,
    calls: bool = True,
) -> dict[str, Retriever]:
    """Make the retrievers, and those that they read; one that indexes needs documents."""
    built: dict[str, Retriever] = {}
    waiting = [*names]
    for name in waiting:  # grows while it is read
        if name in built:
            continue
        component, passed = config.retrievers.get(name), live.retrievers.get(name)
        built[name] = build_retriever(name, component, passed, calls=calls)
        waiting += built[name].sources
        if collection.documents is None and built[name].indexes:
            raise DataError(
                f"retriever '{name}' searches a corpus, and the data set has none",
                file=config.path,
                record=f"retrievers.{name}",
                allowed="a data set with documents, or a retriever that brings its own",
            )
    return built


@dataclass(frozen=True, slots=True)
class ChosenSystems:
    """What is run, by name, before anything is made.

    Attributes:
        pairs: (retriever, generator).
        controls: (what it answers from besides, generator).
    """

    retrievers: list[str]
    pairs: list[tuple[str, str]]
    controls: list[tuple[Control, str]]
    apps: list[str]
    recorded: list[str]

    def systems(
        self,
        generators: Mapping[str, Generator],
        ranked: abc.Collection[str],
        baseline: str | None,
    ) -> list[System]:
        """Return what is scored, in the order of the tables, with what it is compared with.

        A generator whose answers are stored has no controls. `ranked` are the records that are
        rankings.
        """
        systems = []
        for left in self.retrievers:
            systems.append(System(left, left, None, type="retriever", ranking_of=left))
            systems += [
                System(f"{left}/{right}", left, right, type="pair", ranking_of=left)
                for retriever, right in self.pairs
                if retriever == left
            ]
        for c, right in self.controls:
            if generators[right].is_stored:
                continue
            name = f"{c}/{right}"
            systems.append(System(name, c, right, type="control", role="control", control=c))
        for name in self.apps:
            systems.append(System(name, None, None, type="app", role="app", ranking_of=name))
        for name in self.recorded:
            ranking = name if name in ranked else None
            systems.append(System(name, None, None, type="recorded", ranking_of=ranking))
        by_name = {system.name: system for system in systems}
        return [
            replace(system, baseline=None if other is None else other.name)
            for system in systems
            for other in (baseline_of(system, by_name, baseline),)
        ]


def choose_systems(
    config: ExperimentConfig, collection: Collection, only: Sequence[str], live: LiveComponents
) -> ChosenSystems:
    """Pair retrievers with generators, and keep what `only` names."""
    retrievers = [*config.retrievers, *live.retrievers]
    # every retriever with every generator, or with those that the generator names
    sources = {name: component.retrievers for name, component in config.generators.items()}
    sources |= dict.fromkeys(live.generators)
    pairs = [
        (retriever, name)
        for retriever in retrievers
        for name, chosen in sources.items()
        if chosen is None or retriever in chosen
    ]
    apps, recorded = [*config.apps, *live.apps], list(collection.given)
    retrievers, pairs, others = narrow(retrievers, pairs, [*apps, *recorded], only)
    apps, recorded = ([name for name in each if name in others] for each in (apps, recorded))
    asked = [generator for _, generator in pairs]
    controls = control_pairs(config, collection, asked, live.generators)
    if not retrievers and not apps and not recorded:
        raise DataError(
            "there is no system to evaluate",
            file=config.path,
            allowed="a retriever, an app, or records with contexts or answers",
        )
    crossed = [f"{left}/{right}" for left, right in (*pairs, *controls)]
    # one would hide the other, where each cannot have a file of its own
    for _, found, allowed in unfit_names([*retrievers, *crossed, *apps, *recorded]):
        raise DataError(f"systems: {found}", file=config.path, allowed=allowed)
    return ChosenSystems(retrievers, pairs, controls, apps, recorded)


def never_compared(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Say where pairs differ in both parts, so that no comparison could tell which is better.

    Example:
        >>> len(never_compared([("a", "x"), ("b", "y")])), never_compared([("a", "x"), ("a", "y")])
        (1, [])
    """
    retrievers: dict[str, list[str]] = {}
    for retriever, generator in pairs:
        retrievers.setdefault(generator, []).append(retriever)
    alone = {name: each[0] for name, each in retrievers.items() if len(each) == 1}
    if len(set(alone.values())) < 2:
        return []
    shown = " and ".join(f"{retriever}/{name}" for name, retriever in alone.items())
    return [
        f"{shown} are not compared with each other: pairs are compared where they share their "
        "generator; whole chains that retrieve by themselves are compared under apps:"
    ]


def choose_baseline(
    config: ExperimentConfig, collection: Collection, chosen: ChosenSystems
) -> str | None:
    """Return the named one where it runs, else the first of the config, or of the records."""
    candidates = [*chosen.retrievers, *chosen.apps] or chosen.recorded
    named = config.statistics.baseline
    known = [*config.retrievers, *candidates, *collection.given]
    if named is not None:
        check_allowed("statistics", "baseline", [named], known)
    return named if named in candidates else candidates[0]


def control_pairs(
    config: ExperimentConfig, collection: Collection, generators: Sequence[str], live: Sized = ()
) -> list[tuple[Control, str]]:
    """Return each control with each generator that is asked."""
    if config.controls and not (config.generators or live):
        raise DataError(
            "there is no generator that could be given other passages",
            file=config.path,
            record="controls",
            allowed="a generator, or no controls; an app retrieves for itself",
        )
    if "gold_context" in config.controls and not (collection.qrels and collection.documents):
        raise DataError(
            "gold_context needs relevance judgements and a corpus, and the data set has none",
            file=config.path,
            record="controls",
            allowed="no_context, shuffled_context",
        )
    names = dict.fromkeys(generators)
    return [(control, generator) for generator in names for control in config.controls]
