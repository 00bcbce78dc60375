"""Match the systems, measures and queries of several sources; refuse those that differ.

Equal query ids say nothing: many collections number their queries from 1. Run folders and baseline
files hold a fingerprint of each part of each query, and run files those of their judgements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from itertools import chain, combinations

import numpy as np

from ragbench.comparison.query_notes import ScoredRankings, reading_notes, relevance_notes
from ragbench.comparison.signatures import explain_unlike
from ragbench.comparison.systems import find_score, nearest_score
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.errors import DataError, OptionError
from ragbench.registry import PYTHON
from ragbench.signature import Signature
from ragbench.types import Cause
from ragbench.types.lookups import omit_empty

# Number of queries that an error names.
_IN_ERROR = 3
# Number of queries that a note names; the record has all.
_IN_NOTE = 20

# Part of a query -> words of a message, and the part of a signature that covers all queries.
_PARTS = {
    "question": ("question text differs", "queries"),
    "judgements": ("judgements differ", "qrels"),
    "subtopics": ("subtopics differ", "subtopics"),
    "answers": ("gold answers differ", "gold"),
    "spans": ("gold spans differ", "spans"),
    "tool_calls": ("gold tool calls differ", "tool_calls"),
    "forbidden": ("forbidden documents differ", "forbidden"),
    "pool": ("pools differ", "pool"),
    "nuggets": ("nuggets differ", "nuggets"),
}


# Parts of signatures that move with the queries
QUERY_PARTS = frozenset(whole for _, whole in _PARTS.values())


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
    _refuse(problems, _not_of_parts(members, chosen, queries.differing), measures)
    excluded = queries.left_out  # a property that builds a set: once, not for each query
    same = []
    for query in common:
        if query not in excluded:
            same.append(query)
    if runs:
        same.sort()
    aligned = []
    for source, rows in zip(sources, judged, strict=True):
        aligned.append(source.take(np.array([rows[query] for query in same], np.int64)))
    notes = (*_notes(sources, chosen, groups, left_out), *queries.notes())
    changes = tuple(_query_changes(judged[0], rows, excluded) for rows in judged)
    differing = queries.differing
    return Matching(tuple(aligned), chosen, groups, left_out, differing, notes, changes=changes)


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
                    f"{other.source}: {list_ids(only, _IN_ERROR)}"
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
            signatures = [s.columns[name].signature for s in (first, system)]
            why = explain_unlike([*zip(places, signatures, strict=True)], tolerated)
            if why:
                problems.append(f"{name} cannot be compared: {why}")
    return problems


def _not_of_parts(
    members: Sequence[tuple[ScoredSystems, SystemScores]],
    measures: Sequence[str],
    parts: Collection[str],
) -> list[str]:
    """Return the measures that depend on none of some parts of a query, by all signatures."""
    wholes, dependent = {_PARTS[part][1] for part in parts}, set[str]()
    for _, system in members:
        for name, column in system.columns.items():
            if wholes & dict(column.signature.parts).keys():
                dependent.add(name)
    names = []
    for name in measures:
        if name not in dependent:
            names.append(name)
    return names


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
        advice = [f"the others can be: {' '.join(f'-m {name}' for name in fine)}"]
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
            columns = [system.columns[name] for name in measures if name in system.columns]
            if system.counts is not None and source.summary is None:
                texts = reading_notes(columns, system.counts, _HINTS)
                for text, n in texts.items():
                    notes.append(f"{source.source}: {text}: {n}")
            name = system.name if len(sources) == 1 else f"{source.source}, {system.name}"
            rankings[name] = ScoredRankings(columns, system.counts)
    return notes + relevance_notes(rankings)


@dataclass(frozen=True, slots=True)
class SameQueries:
    """Result of comparing the common queries of all sources, part by part.

    `compare_queries` returns it. `refused` gives the reasons against a comparison, and `notes` the
    sentences for one. Parts are those of `Matching.differing`.

    Attributes:
        n_common: Number of queries that all sources have.
        differing: Part -> common queries in which it differs between any two sources.
        lines: Differences in words, a line for each part and pair of sources that differ in it.
        unknown: Sources whose question texts are not known, although those of others are.
        compared: Parts of signatures that were compared query by query, so that fingerprints of
            all queries together may differ.
    """

    n_common: int
    differing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    compared: frozenset[str] = frozenset()

    @property
    def left_out(self) -> frozenset[str]:
        """Common queries that differ in any part."""
        return frozenset(chain.from_iterable(self.differing.values()))

    def refused(self, least_same: float) -> list[str]:
        """Return reasons why nothing may be compared; [] if enough of the queries are the same.

        Otherwise the lines of the differences and, last, the number of queries that are left.
        `least_same` is a share of the common queries; one has to be the same in any case.
        """
        n_same = self.n_common - len(self.left_out)
        if n_same and n_same >= least_same * self.n_common:
            return []
        count = f"only {n_same} are" if n_same else "nothing is"
        reason = (
            f"{count} left to compare: queries of the same id are not the same in these sources"
        )
        return [*self.lines, reason]

    def notes(self) -> Iterator[str]:
        """Yield notes on the queries that were left out, and on sources without questions."""
        for part, queries in self.differing.items():
            words = _PARTS[part][0].rpartition(" ")[0]  # without the verb
            yield (
                f"{len(queries)} of {self.n_common} common queries were left out, as their "
                f"{words} differ: {list_ids(queries, _IN_NOTE)}"
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

    Args:
        sources: Sources with the fingerprints of their queries, as far as these are known.
        members: Compared systems, each with its source.
        measures: Compared measures. A part other than the question counts if the scores of both
            sources depend on it by their signatures.
        common: Ids of the common queries.

    Returns:
        The differing queries by part, in the order of `common`. A part of which one source has no
        fingerprints counts as not compared; a part that no score depends on counts as the same.
    """
    differing: dict[str, set[str]] = {}
    lines, unknown, not_compared = [], dict[str, None](), set[str]()
    signatures_of = [_signatures_by_measure(source, members, measures) for source in sources]
    for (one, mine), (other, theirs) in combinations(zip(sources, signatures_of, strict=True), 2):
        for part, (words, whole) in _PARTS.items():
            # every answer depends on its question, whether or not a signature says so
            if part != "question" and not _both_depend(whole, mine, theirs):
                continue
            without = []
            for side in (one, other):
                if part not in side.fingerprints:
                    without.append(side.source)
            if without:
                not_compared.add(whole)
                # two run files never have questions: no note, as nothing could be compared
                if part == "question" and len(without) == 1:
                    unknown |= dict.fromkeys(without)
                continue
            prints, other_prints = one.fingerprints[part], other.fingerprints[part]
            queries = []
            for query in common:
                if prints.get(query) != other_prints.get(query):
                    queries.append(query)
            if queries:
                differing.setdefault(part, set()).update(queries)
                lines.append(
                    f"{words} in {len(queries)} of {len(common)} common queries of {one.source} "
                    f"and {other.source}: {list_ids(queries, _IN_ERROR)}"
                )
    in_order = {}
    for part, names in differing.items():
        in_order[part] = tuple(q for q in common if q in names)
    compared = QUERY_PARTS - not_compared
    return SameQueries(len(common), in_order, tuple(lines), tuple(unknown), compared)


def _signatures_by_measure(
    source: ScoredSystems,
    members: Sequence[tuple[ScoredSystems, SystemScores]],
    measures: Sequence[str],
) -> dict[str, list[Signature]]:
    """Return measure -> its signatures in the compared systems of a source, at least one."""
    signatures: dict[str, list[Signature]] = {}
    for origin, system in members:
        for name, column in system.columns.items():
            if origin is source and name in measures:
                signatures.setdefault(name, []).append(column.signature)
    return signatures


def _both_depend(
    whole: str, one: Mapping[str, list[Signature]], other: Mapping[str, list[Signature]]
) -> bool:
    """Return True if all signatures of a measure of both sources have the part `whole`."""
    for name in one.keys() & other.keys():
        if all(signature.part(whole) is not None for signature in one[name] + other[name]):
            return True
    return False


def list_ids(queries: Sequence[str], most: int) -> str:
    """Return the first `most` ids of queries as text, with dots if there are more.

    The ids are joined by commas, as `q1, q2, ...`; no ids give an empty text.
    """
    return ", ".join(queries[:most]) + (", ..." if len(queries) > most else "")


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
        alone = [next(iter(source.systems)) for source in sources]
        return {alone[0]: tuple(alone)}
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
    shared = []
    for name, count in counts.items():
        if count > 1:
            shared.append(name)
    if measures:
        return tuple(dict.fromkeys(find_measure(name, shared, counts) for name in measures))
    if not shared:
        listed = "; ".join(f"{', '.join(s.columns)} of {s.name} in {of.source}" for of, s in pairs)
        raise DataError(f"no measure in common: {listed}", allowed="systems that share a measure")
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
