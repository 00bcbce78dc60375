"""Whether queries of the same id are the same: their texts, judgements and gold answers.

Ids alone say nothing: many collections number their queries from 1. Each query that two sources
have is compared with the other one by fingerprints of its own. Where a source has none, equal
fingerprints of a whole part say that it is the same for every query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.signature import Signature

SHOWN = 3
"""How many queries an error names."""
NAMED = 20
"""How many queries a note names; the record has all."""


@dataclass(frozen=True, slots=True)
class _Part:
    """What a query has that its scores depend on."""

    words: str
    """As messages call it."""
    signed: str
    """The part of a signature with the fingerprint of the whole."""
    of_data: str | None
    """The fingerprint of the whole among those of a data set."""
    in_order: bool = False
    """Whether the part of a signature depends on the order of the queries."""


_PARTS = {
    "question": _Part("question text", "queries", "queries", in_order=True),
    "judgements": _Part("judgements", "qrels", "qrels"),
    "subtopics": _Part("subtopics", "subtopics", None),
    "answers": _Part("gold answers", "gold", "answers", in_order=True),
}
MOVING = tuple(part.signed for part in _PARTS.values())
"""Parts of a signature that move with the set of queries."""


@dataclass(frozen=True, slots=True)
class SameQueries:
    """What was found where sources were compared, query by query."""

    n_common: int
    differing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Part -> the common queries in which it differs between any two sources."""
    lines: tuple[str, ...] = ()
    """The same in words, a line for each part and two sources."""
    unchecked: tuple[str, ...] = ()
    """What differs as a whole and cannot be compared by query, and why not."""
    unknown: tuple[str, ...] = ()
    """The sources whose questions are not known."""
    same: frozenset[str] = frozenset()
    """Parts of signatures that may differ as a whole, for the order of the queries: by query they
    are the same in all sources."""

    @property
    def left_out(self) -> frozenset[str]:
        """The common queries that are not the same."""
        return frozenset(query for queries in self.differing.values() for query in queries)

    @property
    def refused(self) -> list[str]:
        """Why nothing may be compared; empty where the queries that are the same may be."""
        n = len(self.left_out)
        if 2 * n <= self.n_common:
            return [*self.unchecked]
        rest = "nothing is" if n == self.n_common else f"only {self.n_common - n} are"
        why = f"{rest} left to compare: queries of the same id are not the same in these sources"
        return [*self.unchecked, *self.lines, why]

    def notes(self) -> Iterator[str]:
        """Yield what a reader of the comparison of the others should know."""
        for part, queries in self.differing.items():
            yield (
                f"{len(queries)} of {self.n_common} common queries were left out, as their "
                f"{_PARTS[part].words} differ: {_named(queries, NAMED)}"
            )
        for source in self.unknown:
            yield f"the questions of {source} are not known and were not compared"


def hold_together(
    sources: Sequence[ScoredSystems],
    members: Sequence[tuple[ScoredSystems, SystemScores]],
    measures: Sequence[str],
    common: Sequence[str],
) -> SameQueries:
    """Hold the common queries of all sources against each other, two sources at a time.

    Looks at the questions, and at what the compared scores of both sources depend on by their
    signatures. `members` are the systems that are compared, each with its source.
    """
    differing: dict[str, dict[str, None]] = {}
    lines, unchecked, unknown = [], [], dict[str, None]()
    not_same = {part.signed for part in _PARTS.values() if not part.in_order}
    signed = [_signatures(source, members, measures) for source in sources]
    for (one, mine), (other, theirs) in combinations(zip(sources, signed, strict=True), 2):
        pair = _Pair(one, other, mine, theirs)
        for name, part in _PARTS.items():
            if not pair.depend_on(part):
                continue
            if name in one.fingerprints and name in other.fingerprints:
                prints = one.fingerprints[name], other.fingerprints[name]
                queries = [q for q in common if prints[0].get(q) != prints[1].get(q)]
                if queries:
                    not_same.add(part.signed)
                    differing.setdefault(name, {}).update(dict.fromkeys(queries))
                    lines.append(
                        f"{part.words} differ{'s' if name == 'question' else ''} in "
                        f"{len(queries)} of {len(common)} common queries of {one.source} and "
                        f"{other.source}: {_named(queries, SHOWN)}"
                    )
                continue
            not_same.add(part.signed)
            if pair.is_same(part):
                continue
            if name == "question" and (silent := pair.without_questions()):
                # the same judgements or gold answers, by ids, speak for the same queries
                if len(silent) == 1 or not pair.is_same_but_for_questions():
                    unknown |= dict.fromkeys(silent)
            else:
                unchecked.append(_unchecked(name, part, (one, other)))
    return SameQueries(
        len(common),
        {part: tuple(q for q in common if q in found) for part, found in differing.items()},
        tuple(lines),
        tuple(dict.fromkeys(unchecked)),
        tuple(unknown),
        frozenset(MOVING) - not_same,
    )


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two sources, with the signatures of what is compared of each."""

    one: ScoredSystems
    other: ScoredSystems
    mine: Mapping[str, Sequence[Signature]]
    theirs: Mapping[str, Sequence[Signature]]

    def is_same(self, part: _Part) -> bool:
        """Whether fingerprints of the whole are equal, and so those of every query."""
        known = [each.data.get(part.of_data or "") for each in (self.one, self.other)]
        values = list(self._values(part))
        # judgements that a model filled in are not those of the data set
        of_data = not any(value and "(" in value for both in values for value in both)
        if of_data and None not in known and (known[0] == known[1] or part.signed == "gold"):
            # the gold answers in a signature are in the order of the records, without their ids
            return known[0] == known[1]
        stated = [both for both in values if None not in both]
        return bool(stated) and all(len(both) == 1 for both in stated)

    def depend_on(self, part: _Part) -> bool:
        """Whether a score depends on it in both sources; every answer depends on its question."""
        return part.of_data == "queries" or any(None not in both for both in self._values(part))

    def without_questions(self) -> list[str]:
        """The sources that do not say what was asked."""
        return [
            each.source
            for each in (self.one, self.other)
            if "question" not in each.fingerprints and "queries" not in each.data
        ]

    def is_same_but_for_questions(self) -> bool:
        """Whether all that the scores depend on besides the questions is the same as a whole."""
        others = [part for part in _PARTS.values() if part.of_data != "queries"]
        relevant = [part for part in others if self.depend_on(part)]
        return bool(relevant) and all(map(self.is_same, relevant))

    def _values(self, part: _Part) -> Iterator[set[str | None]]:
        """For each measure of both, what their signatures say of the whole part."""
        for measure in self.mine.keys() & self.theirs.keys():
            signatures = (*self.mine[measure], *self.theirs[measure])
            yield {signature.part(part.signed) for signature in signatures}


def _signatures(
    source: ScoredSystems,
    members: Sequence[tuple[ScoredSystems, SystemScores]],
    measures: Sequence[str],
) -> dict[str, list[Signature]]:
    own = [system.columns for of, system in members if of is source]
    having = {name: [each[name].signature for each in own if name in each] for name in measures}
    return {name: signatures for name, signatures in having.items() if signatures}


def _unchecked(name: str, part: _Part, sources: Iterable[ScoredSystems]) -> str:
    silent = [each.source for each in sources if name not in each.fingerprints]
    verb = "has" if len(silent) == 1 else "have"
    return (
        f"{part.words} of the common queries may differ, and cannot be checked: "
        f"{' and '.join(silent)} {verb} no fingerprint of each query; run the experiment again "
        "with this version (and write the baseline file again)"
    )


def _named(queries: Sequence[str], most: int) -> str:
    return ", ".join(queries[:most]) + (", ..." if len(queries) > most else "")
