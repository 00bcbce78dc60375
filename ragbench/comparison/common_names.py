"""Systems and measures that several sources have, matched by their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import chain

from ragbench.comparison.systems import find_score, nearest_score
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.errors import DataError, OptionError
from ragbench.registry import PYTHON


def match_systems(
    base: ScoredSystems, runs: Sequence[ScoredSystems]
) -> dict[str, tuple[str | None, ...]]:
    """Match the systems of a base and of runs by name; systems of one source alone are left out.

    If base and run have one system each, these are matched whatever their names. The keys are the
    names in the base, in the order of the first source with a summary (a run folder), else of the
    base; a value has the name in the base and then in each run, None where a run lacks the system.
    Without runs it is empty.

    Raises:
        DataError: A run has no system in common with the base.
    """
    matches = []
    matched = set[str]()
    for run in runs:
        pairs = {}
        for name in base.systems:
            if name in run.systems:
                pairs[name] = name
        if not pairs and len(base.systems) == len(run.systems) == 1:
            pairs = dict(zip(base.systems, run.systems, strict=True))
        if not pairs:
            raise DataError(
                f"no system in common: {', '.join(base.systems)} in {base.source}, "
                f"{', '.join(run.systems)} in {run.source}",
                allowed="systems of the same name, or one system each",
            )
        matches.append(pairs)
        matched.update(pairs)
    # the order of a config is one that users chose; baseline files are sorted by name
    first = next((source for source in (base, *runs) if source.summary is not None), base)
    order = list(first.systems)
    names = []
    for name in base.systems:
        if name in matched:
            names.append(name)
    names.sort(key=lambda name: order.index(name) if name in order else len(order))
    systems = {}
    for name in names:
        systems[name] = (name, *(pairs.get(name) for pairs in matches))
    return systems


def match_all_systems(sources: Sequence[ScoredSystems]) -> dict[str, tuple[str | None, ...]]:
    """Match systems by name, with those that only one source has.

    If each source has one system, these are matched whatever their names, under that of the first
    source. The keys keep the order of the sources and their systems; a value has a name for each
    source, None where it lacks the system.
    """
    if all(len(source.systems) == 1 for source in sources):
        alone = tuple(chain.from_iterable(source.systems for source in sources))
        return {alone[0]: alone}
    groups: dict[str, tuple[str | None, ...]] = {}
    for name in chain.from_iterable(source.systems for source in sources):
        groups[name] = tuple(name if name in source.systems else None for source in sources)
    return groups


def choose_measures(
    pairs: Sequence[tuple[ScoredSystems, SystemScores]], measures: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the measures to compare: `measures` in any spelling, or all that several systems have.

    `pairs` are the compared systems, each with its source. Names come without repeats: the measures
    of the user in their order, else those of the systems. An empty `measures` counts as None.

    Raises:
        DataError: No measure is common, or only one system has a measure of `measures`.
        OptionError: No system has a measure of that name.
    """
    ordered = sorted(pairs, key=lambda pair: pair[0].summary is None)  # as in `match_systems`
    counts = Counter(chain.from_iterable(system.columns for _, system in ordered))
    shared = [name for name, count in counts.items() if count > 1]
    if measures:
        return tuple(dict.fromkeys(find_measure(name, shared, counts) for name in measures))
    if not shared:
        listed = []
        for source, system in pairs:
            listed.append(f"{', '.join(system.columns)} of {system.name} in {source.source}")
        problem = f"no measure in common: {'; '.join(listed)}"
        raise DataError(problem, allowed="systems that share a measure")
    return tuple(shared)


def find_measure(name: str, shared: Sequence[str], measures: Collection[str] = ()) -> str:
    """Return the shared measure that a name means in any spelling.

    An equal name comes first, else the first shared one that means the same. A name `python:...` is
    found by equal text only.

    Args:
        name: Name as the user wrote it.
        shared: Measures that several systems have.
        measures: Measures that any system has.

    Raises:
        DataError: Only one system has the measure, in this spelling.
        OptionError: No system has it in this spelling, and it means no shared one.

    Example:
        >>> find_measure("nDCG@10", ["map", "ndcg@10"])
        'ndcg@10'
    """
    # a name `python:...` stands for code of the user, which is not imported to compare spellings
    is_code = name.startswith(PYTHON) and name not in shared
    measure = None if is_code else find_score(name, shared)
    if measure is not None:
        return measure
    listed = ", ".join(shared) or "none is common"
    if name in measures:
        raise DataError(f"only one of the runs has '{name}'", allowed=listed)
    raise OptionError("measure", "", name, listed, nearest_score(name, shared))
