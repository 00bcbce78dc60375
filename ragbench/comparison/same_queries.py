"""Compare the queries of several sources: texts, judgements and gold answers behind equal ids.

Ids alone say nothing: many collections number their queries from 1. Run folders and baseline files
hold a fingerprint of each part of each query, and run files those of their judgements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.signature import Signature

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
