"""Match scored systems, their measures and queries; refuse what may not be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ragbench.comparison.same_queries import SHOWN, compare_queries, first_of
from ragbench.comparison.spelling import find_score
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.errors import DataError, OptionError
from ragbench.registry import PYTHON, nearest
from ragbench.types import Cause


@dataclass(frozen=True, slots=True)
class Met:
    """Sources that may be compared, over their common queries in one order.

    Attributes:
        sources: The first is what the others are compared with.
        measures: What all compared systems have, or what was asked for.
        groups: Name of a group -> for each source the system in it; None where a source has none.
        left_out: Source -> how many of its queries the others lack; empty where none.
        differing: `question`, `judgements`, `subtopics`, `answers` -> the queries that all have and
            that were left out, as it is not the same in all; empty where none.
        notes: What a reader should know, one sentence each.
    """

    sources: tuple[ScoredSystems, ...]
    measures: tuple[str, ...]
    groups: Mapping[str, tuple[str | None, ...]]
    left_out: Mapping[str, int] = field(default_factory=dict)
    differing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def meet(
    base: ScoredSystems,
    runs: Sequence[ScoredSystems],
    *,
    measures: Sequence[str] | None = None,
    intersect: bool = False,
    alone: bool = False,
) -> Met:
    """Match the systems of base and runs, and put their queries into one order.

    With `intersect` query sets may differ: the common queries are compared, the others counted.
    Common ones whose question, judgements or gold answers differ are left out by name; where most
    differ, nothing is compared.
    Without runs the systems of the base are compared with each other; `alone` keeps the systems
    that only one source has, which are compared with nothing. All that differs is in one error.
    """
    sources = (base, *runs)
    groups = keep_systems(sources) if alone or not runs else match_systems(base, runs)
    members = [
        (source, source.systems[name])
        for group in groups.values()
        for source, name in zip(sources, group, strict=True)
        if name is not None
    ]
    if len(members) < 2:
        only = ", ".join(system.name for _, system in members) or "nothing"
        raise DataError(
            f"only {only} to compare", file=base.source, allowed="a second run to compare it with"
        )
    chosen = choose_measures(members, measures)
    judged = [_judged(source, chosen) for source in sources]
    common = [query for query in judged[0] if all(query in rows for rows in judged[1:])]
    left_out = {
        source.source: len(rows) - len(common)
        for source, rows in zip(sources, judged, strict=True)
        if len(rows) > len(common)
    }
    if not common:
        raise DataError(_set_difference(sources, judged, "; nothing is common"))
    queries = compare_queries(sources, members, chosen, common)
    # fingerprints of all queries together move with the query set
    tolerated = queries.compared if left_out or intersect else queries.same
    problems = _other_signatures(members, chosen, tolerated)
    if intersect and (left_out or queries.left_out):
        problems += [
            f"{name} cannot be compared: it is of all queries together, and not all are common"
            for name in chosen
            if any(
                name in system.columns and system.columns[name].aggregate == "corpus"
                for _, system in members
            )
        ]
    if intersect and queries.refused:
        raise DataError("\n".join([*queries.refused, *problems]))
    if not intersect:
        sets = [_set_difference(sources, judged)] if left_out else []
        problems = [*sets, *queries.lines, *problems]
    if problems:
        raise DataError("\n".join([*dict.fromkeys(problems), *_advice(chosen, problems, measures)]))
    excluded = queries.left_out  # a property, computed once
    same = [query for query in common if query not in excluded]
    taken = tuple(
        source.take(np.array([rows[query] for query in same], np.int64))
        for source, rows in zip(sources, judged, strict=True)
    )
    notes = (*_notes(sources, groups, left_out), *queries.notes())
    return Met(taken, chosen, groups, left_out, queries.differing, notes)


def _judged(source: ScoredSystems, measures: Sequence[str]) -> dict[str, int]:
    """Query -> row, without those that no judgement is about: qrels do not list them."""
    columns = [
        system.columns[name]
        for system in source.systems.values()
        for name in measures
        if name in system.columns
    ]
    counts = np.zeros(len(source.query_ids), bool)
    for column in columns:
        counts |= column.causes != Cause.NO_JUDGEMENTS
    return {query: row for row, query in enumerate(source.query_ids) if counts[row]}


def _set_difference(
    sources: Sequence[ScoredSystems], judged: Sequence[Mapping[str, int]], end: str = ""
) -> str:
    lines = []
    for source, rows in zip(sources[1:], judged[1:], strict=True):
        for (here, mine), (there, theirs) in (
            ((sources[0], judged[0]), (source, rows)),
            ((source, rows), (sources[0], judged[0])),
        ):
            only = [query for query in mine if query not in theirs]
            if only:
                lines.append(
                    f"queries: {len(only)} of {len(mine)} in {here.source} are not in "
                    f"{there.source}: {first_of(only, SHOWN)}"
                )
    return "\n".join([*lines, f"the query sets differ{end}"])


def _other_signatures(
    members: Sequence[tuple[ScoredSystems, SystemScores]],
    measures: Sequence[str],
    tolerated: Collection[str],
) -> list[str]:
    problems = []
    for name in measures:
        having = [(source, s.columns[name]) for source, s in members if name in s.columns]
        base, first = having[0]
        # weights of tokens are counted over all references: they hold values of other queries
        of_all = {"gold"} if ("idf", "yes") in first.signature.parts else set[str]()
        for source, column in having[1:]:
            differing = [
                f"{part or 'the measure'} is {here or 'absent'} in {base.source} and "
                f"{there or 'absent'} in {source.source}"
                for part, here, there in first.signature.differences(column.signature)
                if part not in tolerated or part in of_all or None in (here, there)
            ]
            if differing:
                problems.append(f"{name} cannot be compared: {'; '.join(differing)}")
    return problems


def _advice(
    chosen: Sequence[str], problems: Sequence[str], measures: Sequence[str] | None
) -> list[str]:
    """Name the measures that can be compared, unless the user named some."""
    fine = [name for name in chosen if not any(p.startswith(f"{name} cannot") for p in problems)]
    # other questions are other ones by every measure
    of_all = ("queries:", "question text")
    if measures or not fine or any(problem.startswith(of_all) for problem in problems):
        return []
    return [f"the others can be: {' '.join(f'-m {name}' for name in fine)}"]


def _notes(
    sources: Sequence[ScoredSystems],
    groups: Mapping[str, tuple[str | None, ...]],
    left_out: Mapping[str, int],
) -> list[str]:
    """Return what a reader should know of how the sources were read and matched."""
    notes = [
        f"{source}: queries that the others lack, left out: {count}"
        for source, count in left_out.items()
    ]
    for source in sources:
        for counts in (s.counts for s in source.systems.values() if s.counts is not None):
            texts = {
                "judged queries that the run lacks": counts.missing,
                "repeated documents, each counted once at its best score": counts.duplicates,
            }
            notes += [f"{source.source}: {text}: {n}" for text, n in texts.items() if n]
    for place, source in enumerate(sources):
        matched = {group[place] for group in groups.values()}
        alone = [name for name in source.systems if name not in matched]
        if alone:
            notes.append(f"{source.source}: not compared, as no other has them: {', '.join(alone)}")
    return notes


def match_systems(
    base: ScoredSystems, runs: Sequence[ScoredSystems]
) -> dict[str, tuple[str | None, ...]]:
    """Match systems by name; where base and run have one system each, these two."""
    matches = []
    for run in runs:
        pairs = {name: name for name in base.systems if name in run.systems}
        if not pairs and len(base.systems) == len(run.systems) == 1:
            pairs = dict(zip(base.systems, run.systems, strict=True))
        if not pairs:
            raise DataError(
                f"no system in common: {', '.join(base.systems)} in {base.source}, "
                f"{', '.join(run.systems)} in {run.source}",
                allowed="systems of the same name, or one system each",
            )
        matches.append(pairs)
    matched = [name for name in base.systems if any(name in pairs for pairs in matches)]
    # runs have the order of their config, where baseline files are sorted
    first = next((source for source in (base, *runs) if source.summary is not None), base)
    order = list(first.systems)
    matched.sort(key=lambda name: order.index(name) if name in order else len(order))
    return {name: (name, *(pairs.get(name) for pairs in matches)) for name in matched}


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


def choose_measures(
    pairs: Sequence[tuple[ScoredSystems, SystemScores]], measures: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the measures to compare: some in any spelling, or all that several systems have."""
    ordered = sorted(pairs, key=lambda pair: pair[0].summary is None)  # as in `match_systems`
    having = Counter(name for _, system in ordered for name in system.columns)
    shared = [name for name, count in having.items() if count > 1]
    if measures:
        return tuple(dict.fromkeys(find_measure(name, shared, having) for name in measures))
    if not shared:
        listed = "; ".join(f"{', '.join(s.columns)} of {s.name} in {of.source}" for of, s in pairs)
        raise DataError(f"no measure in common: {listed}", allowed="-m with a common measure")
    return tuple(shared)


def find_measure(name: str, shared: Sequence[str], having: Collection[str] = ()) -> str:
    """Return the shared measure that a name means; `having` are those of any side.

    Example:
        >>> find_measure("nDCG@10", ["map", "ndcg@10"])
        'ndcg@10'
    """
    # code that a name stands for is not imported
    is_code = name.startswith(PYTHON) and name not in shared
    measure = None if is_code else find_score(name, shared)
    if measure is not None:
        return measure
    listed = ", ".join(shared) or "none is common"
    if name in having:
        raise DataError(f"only one side has '{name}'", allowed=listed)
    raise OptionError("measure", "", name, listed, nearest(name, shared))
