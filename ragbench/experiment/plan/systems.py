"""The systems of a run: what is chosen, what is paired with what, what they may be called."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragbench.config.schema import ExperimentConfig
from ragbench.data.runs.run_folder import file_name
from ragbench.errors import DataError, OptionError
from ragbench.experiment.plan.components import build_retriever
from ragbench.registry import nearest
from ragbench.retrieve.base import Retriever
from ragbench.signature import fingerprint
from ragbench.types import Collection, Query

if TYPE_CHECKING:
    from ragbench.experiment.records import LiveComponents


def sample(queries: list[Query], limit: int | None, seed: int) -> tuple[list[Query], list[str]]:
    """A random sample that depends on the seed and the ids alone, in the order of the file."""
    if limit is None or limit >= len(queries):
        return queries, []
    if limit < 1:
        raise OptionError("run", "limit", limit, "an integer >= 1")
    by_chance = sorted(queries, key=lambda query: fingerprint([str(seed), query.id]))
    chosen = {query.id for query in by_chance[:limit]}
    warning = f"a random sample of {limit} of {len(queries)} queries (--limit, seed {seed})"
    return [query for query in queries if query.id in chosen], [warning]


def narrow(
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


_NAME = re.compile(r"[A-Za-z0-9_.-]*[A-Za-z0-9_-][A-Za-z0-9_.-]*")


def check_live_names(config: ExperimentConfig, live: LiveComponents) -> None:
    """Refuse objects whose names are none, or are taken by the config.

    Raises:
        OptionError: Names the first one.
    """
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


def check_system_names(names: Sequence[str], path: Path | None) -> None:
    """Refuse two systems of one name, or of one file name: one would hide the other.

    Raises:
        DataError: Names both.
    """
    files: dict[str, str] = {}
    for name in names:
        file = file_name(name)
        if (other := files.setdefault(file, name)) != name or names.count(name) > 1:
            raise DataError(
                f"the systems '{other}' and '{name}' would write the same file '{file}'",
                file=path,
                allowed="another name for one of them",
            )


def build_retrievers(
    config: ExperimentConfig,
    collection: Collection,
    names: Sequence[str],
    live: LiveComponents,
) -> dict[str, Retriever]:
    """Make the retrievers, and those that they read; one that indexes needs documents.

    Raises:
        DataError: There are no documents to index.
        AdapterError: One cannot be made.
    """
    built: dict[str, Retriever] = {}
    waiting = [*names]
    for name in waiting:  # grows while it is read
        if name in built:
            continue
        built[name] = build_retriever(name, config.retrievers.get(name), live.retrievers.get(name))
        waiting += built[name].sources
        if collection.documents is None and built[name].indexes:
            raise DataError(
                f"retriever '{name}' searches a corpus, and the data set has none",
                file=config.path,
                record=f"retrievers.{name}",
                allowed="a data set with documents, or a retriever that brings its own",
            )
    return built


def cross(
    config: ExperimentConfig, retrievers: Sequence[str], live: LiveComponents
) -> list[tuple[str, str]]:
    """Pair every retriever with every generator, or with those that the generator names."""
    pairs = []
    for retriever in retrievers:
        for name, component in config.generators.items():
            if component.retrievers is None or retriever in component.retrievers:
                pairs.append((retriever, name))
        pairs += [(retriever, name) for name in live.generators]
    return pairs


def choose_baseline(
    config: ExperimentConfig,
    recorded: Sequence[str],
    retrievers: Sequence[str],
    given: Sequence[str],
) -> str | None:
    """Return the named one where it runs, else the first of the config, or of the records.

    Raises:
        OptionError: It names nothing.
    """
    candidates = [*retrievers] or [*given]
    named, known = config.statistics.baseline, [*config.retrievers, *candidates, *recorded]
    if named is not None and named not in known:
        allowed, close = ", ".join(dict.fromkeys(known)), nearest(named, known)
        raise OptionError("statistics", "baseline", named, allowed, close)
    return named if named in candidates else candidates[0]
