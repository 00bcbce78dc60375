"""Which systems are compared with which, and by which measures."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ragbench.comparison.scored import ScoredSystems
from ragbench.comparison.systems import SystemScores
from ragbench.errors import DataError, OptionError
from ragbench.registry import nearest
from ragbench.score.retrieval.notation import parse_measure


def match_systems(
    base: ScoredSystems, runs: Sequence[ScoredSystems]
) -> dict[str, tuple[str | None, ...]]:
    """Match systems by name; where base and run have one system each, these two.

    Raises:
        DataError: A run has no system that the base has; lists both.
    """
    matches = [_matches(base, run) for run in runs]
    wanted = [name for name in base.systems if any(name in found for found in matches)]
    order = list(in_order([base, *runs])[0].systems)
    wanted.sort(key=lambda name: order.index(name) if name in order else len(order))
    return {name: (name, *(found.get(name) for found in matches)) for name in wanted}


def keep_systems(sources: Sequence[ScoredSystems]) -> dict[str, tuple[str | None, ...]]:
    """Match systems by name, those of a single source as well; one system each meet."""
    if all(len(source.systems) == 1 for source in sources):
        alone = [next(iter(source.systems)) for source in sources]
        return {alone[0]: tuple(alone)}
    names = dict.fromkeys(name for source in sources for name in source.systems)
    return {
        name: tuple(name if name in source.systems else None for source in sources)
        for name in names
    }


def in_order(sources: Sequence[ScoredSystems]) -> list[ScoredSystems]:
    """Put runs first: they have the order of their config, where baseline files are sorted."""
    return sorted(sources, key=lambda source: not source.facts)


def _matches(base: ScoredSystems, run: ScoredSystems) -> dict[str, str]:
    """System of the base -> the system of the run that it is compared with."""
    common = {name: name for name in base.systems if name in run.systems}
    if common:
        return common
    if len(base.systems) == len(run.systems) == 1:
        return {next(iter(base.systems)): next(iter(run.systems))}
    raise DataError(
        f"no system in common: {', '.join(base.systems)} in {base.source}, "
        f"{', '.join(run.systems)} in {run.source}",
        allowed="systems of the same name, or one system each",
    )


def choose_measures(
    pairs: Sequence[tuple[ScoredSystems, SystemScores]], asked: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the measures to compare: those asked for, or all that more than one system has.

    Args:
        pairs: The source of a system, and the system, for all that are compared.
        asked: Names as the user wrote them; another spelling of a measure finds it too.

    Raises:
        OptionError: A measure that nobody has.
        DataError: No measure in common.
    """
    having: dict[str, int] = {}
    for _, system in sorted(pairs, key=lambda pair: not pair[0].facts):  # see `in_order`
        for name in system.columns:
            having[name] = having.get(name, 0) + 1
    shared = [name for name, count in having.items() if count > 1]
    if not asked:
        if not shared:
            listed = "; ".join(
                f"{', '.join(s.columns)} of {s.name} in {of.source}" for of, s in pairs
            )
            raise DataError(f"no measure in common: {listed}", allowed="-m with a common measure")
        return tuple(shared)
    return tuple(dict.fromkeys(find_measure(name, shared, having) for name in asked))


def find_measure(name: str, shared: Sequence[str], having: Collection[str] = ()) -> str:
    """Find a measure among those that are shared, however it is spelt.

    Args:
        name: As the user wrote it.
        shared: Measures that more than one system has.
        having: Measures that any system has.

    Raises:
        DataError: Only one side has it.
        OptionError: Nobody has it.

    Example:
        >>> find_measure("nDCG@10", ["map", "ndcg@10"])
        'ndcg@10'
    """
    if name in shared:
        return name
    known = {_canonical(each): each for each in shared}
    if (canonical := _canonical(name)) in known:
        return known[canonical]
    listed = ", ".join(shared) or "none is common"
    if name in having:
        raise DataError(f"only one side has '{name}'", allowed=listed)
    raise OptionError("measure", "", name, listed, nearest(name, shared))


def _canonical(name: str) -> str:
    """Our name of a retrieval measure however it is spelt; other names as they are."""
    try:
        return parse_measure(name).name
    except OptionError:
        return name
