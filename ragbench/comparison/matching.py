"""Match the systems, measures and queries of several sources; refuse those that differ.

Equal query ids say nothing: many collections number their queries from 1. Run folders and baseline
files hold a fingerprint of each part of each query, and run files those of their judgements.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Sized
from dataclasses import dataclass, field

import numpy as np

from ragbench.comparison.common_names import choose_measures, match_all_systems, match_systems
from ragbench.comparison.query_notes import ScoredRankings, reading_notes, relevance_notes
from ragbench.comparison.same_queries import (
    IN_ERROR,
    QUERY_PARTS,
    compare_queries,
    list_ids,
    measures_without,
)
from ragbench.comparison.signatures import explain_unlike
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.errors import DataError
from ragbench.types import Cause
from ragbench.types.lookups import omit_empty, select_in_order

# Rule for judged queries that a run lacks -> the option of a comparison without them.
_HINTS = {"zero": " (--intersect leaves them out)"}


# A gate needs this share of the queries of its baseline, unchanged
LEAST_COMMON = 0.8


@dataclass(frozen=True, slots=True)
class QueryChanges:
    """Queries of a run that its base lacks or has in another form, and queries that it lacks.

    `match_sources` returns one for each source, in `Matching.changes`. `counts` says it in words,
    and is empty without changes.

    Attributes:
        n_base: Number of queries of the base.
        edited: Common queries whose text, judgements or gold differ between any two compared
            sources, in the order of the base.
        new: Queries that the base lacks, in the order of the run.
        removed: Queries of the base that the run lacks, in the order of the base.
    """

    n_base: int
    edited: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Word -> its queries: `edited`, `new` and `removed`, without empty groups."""
        groups = {"edited": self.edited, "new": self.new, "removed": self.removed}
        return omit_empty(groups)

    @property
    def counts(self) -> str:
        """Numbers above 0 in words, such as `1 edited, 1 new`; empty without changes."""
        return ", ".join(f"{len(queries)} {word}" for word, queries in self.groups.items())


@dataclass(frozen=True, slots=True)
class Matching:
    """Sources that may be compared, cut to their common queries in one order unless unpaired.

    `match_sources` returns it.

    Attributes:
        sources: Scored systems; the first source is the base of the others.
        measures: Measures to compare: those that several systems have, or those of the caller.
        groups: Name in the base -> name of the system of each source in it, in the order of the
            sources; None if a source has none.
        left_out: Name of a source -> number of its judged queries that another source lacks; only
            sources with some.
        differing: Part of a query (`question`, `judgements`, `subtopics`, `answers`, `spans`,
            `tool_calls`, `forbidden`, `pool`, `nuggets`) -> common queries that were left out
            because the part differs between sources.
        notes: Sentences for the reader of the numbers.
        unpaired: True if each source keeps its own queries.
        changes: Query changes of each source since the base, in the order of the sources, the base
            included; empty if unpaired.
    """

    sources: tuple[ScoredSystems, ...]
    measures: tuple[str, ...]
    groups: Mapping[str, tuple[str | None, ...]]
    left_out: Mapping[str, int] = field(default_factory=dict)
    differing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unpaired: bool = False
    changes: tuple[QueryChanges, ...] = ()

    @property
    def names(self) -> list[str]:
        """Names of the sources, in their order."""
        return [source.source for source in self.sources]


def match_sources(
    base: ScoredSystems,
    runs: Sequence[ScoredSystems],
    *,
    measures: Sequence[str] | None = None,
    intersect: bool = False,
    alone: bool = False,
    unpaired: bool = False,
    least_same: float = 0.5,
) -> Matching:
    """Match the systems of a base and of runs, and put their queries into the order of their ids.

    Tests and bootstraps draw by row: the order of the ids gives the same numbers, whatever the
    order of the rows in the sources. A single source keeps its order.

    Args:
        base: Source that the runs are compared with; without runs, its systems are compared with
            each other.
        runs: Further sources.
        measures: Names of measures in any spelling; None and an empty list take all that several
            systems have.
        intersect: Compare the common queries if the query sets differ. Common queries whose text,
            judgements or gold answers differ are left out too, unless these are most of them.
        alone: Keep systems that only one source has.
        unpaired: Keep the queries of each source, which are other ones; parts of signatures that
            move with the queries, such as judgements, may differ.
        least_same: With `intersect`, the smallest share of common queries that have to be the same
            in all sources; one has to be in any case.

    Returns:
        The sources, over the same queries in one order; unpaired, each over its own.

    Raises:
        DataError: Queries or signatures differ, all differences at once, or nothing is common.
        OptionError: No system has a measure of that name.
    """
    sources = (base, *runs)
    groups = match_all_systems(sources) if alone or not runs else match_systems(base, runs)
    members = _members(sources, groups)
    chosen = choose_measures(members, measures)
    if unpaired:
        _refuse(_other_signatures(members, chosen, QUERY_PARTS), chosen, measures)
        notes = tuple(_notes(sources, chosen, groups, {}))
        return Matching(sources, chosen, groups, notes=notes, unpaired=True)
    judged = [_judged(source, chosen) for source in sources]
    common = []
    for query in judged[0]:
        if all(query in rows for rows in judged[1:]):
            common.append(query)
    if not common:
        raise DataError(_set_difference(sources, judged, "; nothing is common"))
    left_out = _count_left_out(sources, judged, len(common))
    queries = compare_queries(sources, members, chosen, common)
    # the queries say which of them differ, the fingerprint of all queries only that some do
    problems = _other_signatures(members, chosen, queries.compared)
    if intersect:
        if left_out or queries.left_out:
            problems += _corpus_problems(members, chosen)
        if refused := queries.refused(least_same):
            raise DataError("\n".join([*refused, *problems]))
    else:
        sets = [_set_difference(sources, judged)] if left_out else []
        problems = [*sets, *queries.lines, *problems]
    _refuse(problems, measures_without(members, chosen, queries.differing), measures)
    excluded = queries.left_out  # a property that builds a set: once, not for each query
    same = []
    for query in common:
        if query not in excluded:
            same.append(query)
    if runs:
        same.sort()
    aligned, changes = [], []
    for source, rows in zip(sources, judged, strict=True):
        aligned.append(source.take(np.array([rows[query] for query in same], np.int64)))
        changes.append(_query_changes(judged[0], rows, excluded))
    return Matching(
        tuple(aligned),
        chosen,
        groups,
        left_out,
        queries.differing,
        (*_notes(sources, chosen, groups, left_out), *queries.notes()),
        changes=tuple(changes),
    )


def _count_left_out(
    sources: Sequence[ScoredSystems], judged: Sequence[Sized], n_common: int
) -> dict[str, int]:
    """Return source -> number of its judged queries that are not common, if it has some."""
    counts = {}
    for source, queries in zip(sources, judged, strict=True):
        if len(queries) > n_common:
            counts[source.source] = len(queries) - n_common
    return counts


def _members(
    sources: Sequence[ScoredSystems], groups: Mapping[str, tuple[str | None, ...]]
) -> list[tuple[ScoredSystems, SystemScores]]:
    """Return the matched systems, each with its source; raise DataError for fewer than two."""
    members = []
    for group in groups.values():
        for source, name in zip(sources, group, strict=True):
            if name is not None:
                members.append((source, source.systems[name]))
    if len(members) < 2:
        problem = "no system to compare"
        if members:
            problem = f"one system alone, '{members[0][1].name}', and nothing to compare it with"
        allowed = "a second run: ragbench compare BASE RUN; or a run with two systems"
        raise DataError(problem, file=sources[0].source, allowed=allowed)
    return members


def _query_changes(
    base: Collection[str], run: Collection[str], edited: Collection[str]
) -> QueryChanges:
    """Return the changes from the queries of a base to those of a run, each in its order."""
    return QueryChanges(
        len(base),
        tuple(query for query in base if query in edited),
        tuple(query for query in run if query not in base),
        tuple(query for query in base if query not in run),
    )


def _judged(source: ScoredSystems, measures: Sequence[str]) -> dict[str, int]:
    """Return query -> row for the queries with judgements; others are no part of the query set."""
    # A source of a run file has the queries of its qrels alone, so that those without judgements
    # would make query sets differ.
    counts = np.zeros(len(source.query_ids), bool)
    for system in source.systems.values():
        for name, column in system.columns.items():
            if name in measures:
                counts |= column.causes != Cause.NO_JUDGEMENTS
    row_of = {}
    for row, query in enumerate(source.query_ids):
        if counts[row]:
            row_of[query] = row
    return row_of


def _set_difference(
    sources: Sequence[ScoredSystems], judged: Sequence[Mapping[str, int]], end: str = ""
) -> str:
    """Return the lines of an error: the queries that the base or a run has alone, in numbers."""
    lines = []
    base = (sources[0], judged[0])
    for run in zip(sources[1:], judged[1:], strict=True):
        for (source, queries), (other, other_queries) in ((base, run), (run, base)):
            only = []
            for query in queries:
                if query not in other_queries:
                    only.append(query)
            if only:
                lines.append(
                    f"queries: {len(only)} of {len(queries)} in {source.source} are not in "
                    f"{other.source}: {list_ids(only, IN_ERROR)}"
                )
    return "\n".join([*lines, f"the query sets differ{end}"])


def _other_signatures(
    members: Sequence[tuple[ScoredSystems, SystemScores]],
    measures: Sequence[str],
    tolerated: Collection[str],
) -> list[str]:
    """Return a line for each measure and system whose signature differs from the first one."""
    problems = []
    for name in measures:
        scored = []
        for source, system in members:
            if name in system.columns:
                scored.append((source, system))
        base, first = scored[0]
        for source, system in scored[1:]:
            places = [f"in {base.source}", f"in {source.source}"]
            # in one run, the system tells more than the run
            if source.source == base.source:
                places = [f"of {first.name}", f"of {system.name}"]
            signatures = first.columns[name].signature, system.columns[name].signature
            why = explain_unlike([*zip(places, signatures, strict=True)], tolerated)
            if why:
                problems.append(f"{name} cannot be compared: {why}")
    return problems


def _corpus_problems(
    members: Sequence[tuple[ScoredSystems, SystemScores]], measures: Sequence[str]
) -> list[str]:
    """Return a problem for each measure that is one number of all queries, such as corpus BLEU."""
    of_corpus = set()
    for _, system in members:
        for name, column in system.columns.items():
            if column.aggregate == "corpus":
                of_corpus.add(name)
    reason = "it is of all queries together, and not all are common"
    queries = []
    for name in measures:
        if name in of_corpus:
            queries.append(f"{name} cannot be compared: {reason}")
    return queries


def _refuse(
    problems: Sequence[str], candidates: Sequence[str], measures: Sequence[str] | None
) -> None:
    """Raise a DataError with all problems, and with the measures that can be compared."""
    fine = []
    for name in candidates:
        if not any(problem.startswith(f"{name} cannot") for problem in problems):
            fine.append(name)
    # these problems concern every measure
    of_all = ("queries:", "question text")
    if measures or not fine or any(problem.startswith(of_all) for problem in problems):
        advice = []
    else:
        advice = [f"the others can be: -m {' -m '.join(fine)}"]
    if problems:
        raise DataError("\n".join([*dict.fromkeys(problems), *advice]))


def _notes(
    sources: Sequence[ScoredSystems],
    measures: Sequence[str],
    groups: Mapping[str, tuple[str | None, ...]],
    left_out: Mapping[str, int],
) -> list[str]:
    """Return notes on queries and systems that were left out, and on queries that count as 0."""
    notes = []
    for name, count in left_out.items():
        notes.append(f"{name}: queries that the others lack, left out: {count}")
    notes += _query_notes(sources, measures)
    for place, source in enumerate(sources):
        matched = {group[place] for group in groups.values()}
        alone = []
        for name in source.systems:
            if name not in matched:
                alone.append(name)
        if alone:
            notes.append(f"{source.source}: not compared, as no other has them: {', '.join(alone)}")
    return notes


def _query_notes(sources: Sequence[ScoredSystems], measures: Sequence[str]) -> list[str]:
    """Return notes on the queries that the means of some measures count as 0, or leave out."""
    notes, rankings = [], {}
    for source in sources:
        for system in source.systems.values():
            columns = list(select_in_order(system.columns, measures).values())
            if system.counts is not None and source.summary is None:
                texts = reading_notes(columns, system.counts, _HINTS)
                for text, n in texts.items():
                    notes.append(f"{source.source}: {text}: {n}")
            name = system.name if len(sources) == 1 else f"{source.source}, {system.name}"
            rankings[name] = ScoredRankings(columns, system.counts)
    return notes + relevance_notes(rankings)
