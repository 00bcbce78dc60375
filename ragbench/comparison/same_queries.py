"""Compare the common queries of several sources, part by part: question, judgements, gold."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations

from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.signature import Signature

# Number of queries that an error names.
IN_ERROR = 3
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
                    f"and {other.source}: {list_ids(queries, IN_ERROR)}"
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


def measures_without(
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
