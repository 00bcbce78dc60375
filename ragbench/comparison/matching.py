"""Match scored systems, their measures and queries; refuse what may not be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from ragbench.comparison.systems import find_score
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.errors import DataError, OptionError
from ragbench.registry import PYTHON, nearest
from ragbench.signature import Signature
from ragbench.types import Cause

# Number of queries that an error names.
SHOWN = 3
# Number of queries that a note names; the record has all.
NAMED = 20

# Part of a query -> words of a message, and the part of a signature that covers all queries.
_PARTS = {
    "question": ("question text differs", "queries"),
    "judgements": ("judgements differ", "qrels"),
    "subtopics": ("subtopics differ", "subtopics"),
    "answers": ("gold answers differ", "gold"),
}


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


@dataclass(frozen=True, slots=True)
class SameQueries:
    """The differences between sources, query by query.

    Attributes:
        differing: Part -> the common queries in which it differs between any two sources.
        lines: The same in words, a line for each part and two sources.
        unknown: Sources whose questions are not known, where others are.
        compared: Parts of signatures whose queries were compared one by one, so that the whole may
            differ.
    """

    n_common: int
    differing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    compared: frozenset[str] = frozenset()

    @property
    def same(self) -> frozenset[str]:
        """Parts of signatures that are the same for every common query."""
        return self.compared - {_PARTS[part][1] for part in self.differing}

    @property
    def left_out(self) -> frozenset[str]:
        """The common queries that are not the same."""
        return frozenset(query for queries in self.differing.values() for query in queries)

    @property
    def refused(self) -> list[str]:
        """Reasons why nothing may be compared; empty if at least half of the queries may be."""
        n = len(self.left_out)
        if 2 * n <= self.n_common:
            return []
        rest = "nothing is" if n == self.n_common else f"only {self.n_common - n} are"
        why = f"{rest} left to compare: queries of the same id are not the same in these sources"
        return [*self.lines, why]

    def notes(self) -> Iterator[str]:
        """Yield notes on the queries that were left out, and on sources without questions."""
        for part, queries in self.differing.items():
            words = _PARTS[part][0].rpartition(" ")[0]  # without the verb
            yield (
                f"{len(queries)} of {self.n_common} common queries were left out, as their "
                f"{words} differ: {first_of(queries, NAMED)}"
            )
        for source in self.unknown:
            yield f"the questions of {source} are not known and were not compared"


def compare_queries(
    sources: Sequence[ScoredSystems],
    members: Sequence[tuple[ScoredSystems, SystemScores]],
    measures: Sequence[str],
    common: Sequence[str],
) -> SameQueries:
    """Compare the common queries of all sources, two sources at a time.

    Compares the questions, and the parts that the compared scores of both sources depend on by
    their signatures. `members` are the systems that are compared, each with its source.
    """
    differing: dict[str, dict[str, None]] = {}
    lines, unknown, not_compared = [], dict[str, None](), set[str]()
    signed = [_signatures(source, members, measures) for source in sources]
    for (one, mine), (other, theirs) in combinations(zip(sources, signed, strict=True), 2):
        for part, (words, whole) in _PARTS.items():
            both = [mine[name] + theirs[name] for name in mine.keys() & theirs.keys()]
            # every answer depends on its question, whether or not a signature says so
            if part != "question" and not any(
                all(signature.part(whole) is not None for signature in signatures)
                for signatures in both
            ):
                continue
            silent = [each.source for each in (one, other) if part not in each.fingerprints]
            if silent:
                not_compared.add(whole)
                if part == "question" and len(silent) == 1:
                    unknown |= dict.fromkeys(silent)
                continue
            here, there = one.fingerprints[part], other.fingerprints[part]
            queries = [query for query in common if here.get(query) != there.get(query)]
            if queries:
                differing.setdefault(part, {}).update(dict.fromkeys(queries))
                lines.append(
                    f"{words} in {len(queries)} of {len(common)} common queries of {one.source} "
                    f"and {other.source}: {first_of(queries, SHOWN)}"
                )
    return SameQueries(
        len(common),
        {part: tuple(q for q in common if q in queries) for part, queries in differing.items()},
        tuple(lines),
        tuple(unknown),
        frozenset(whole for _, whole in _PARTS.values()) - not_compared,
    )


def _signatures(
    source: ScoredSystems,
    members: Sequence[tuple[ScoredSystems, SystemScores]],
    measures: Sequence[str],
) -> dict[str, list[Signature]]:
    """Return the signatures of each compared measure that systems of a source have."""
    columns = [system.columns for origin, system in members if origin is source]
    having = {name: [c[name].signature for c in columns if name in c] for name in measures}
    return {name: signatures for name, signatures in having.items() if signatures}


def first_of(queries: Sequence[str], most: int) -> str:
    """Return the first ids of some queries as text, with dots where there are more."""
    return ", ".join(queries[:most]) + (", ..." if len(queries) > most else "")


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
