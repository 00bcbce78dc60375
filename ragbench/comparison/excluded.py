"""Hits that do not count for their question, which are dropped before rankings are scored."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, TypeVar

from ragbench.comparison.id_pairs import IdPairs, QuestionIds, pair_ids
from ragbench.types.records import EXCLUDED_NOTE

Hit = TypeVar("Hit")
_EXCLUDED = "excluded"


class HitNames(NamedTuple):
    """Id of a hit, and the id of the document that it is of."""

    id: str
    document: str


class ExcludedHits(NamedTuple):
    """Excluded hits of each question, and ids of another spelling.

    Attributes:
        marks: True for each excluded hit, by question.
        pairs: Excluded ids and hits of another spelling; only one-to-one pairs are excluded.
    """

    marks: Sequence[Sequence[bool]]
    pairs: IdPairs

    def keep(self, row: int, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits of a question that count."""
        pairs = zip(hits, self.marks[row], strict=True)
        remaining = []
        for hit, is_excluded in pairs:
            if not is_excluded:
                remaining.append(hit)
        return remaining

    def notes(self) -> list[str]:
        """Return notes on the number of excluded hits, and on those of another spelling."""
        total = sum(map(sum, self.marks))
        count = [EXCLUDED_NOTE.format(total)] if total else []
        return [*count, *self.pairs.notes(_EXCLUDED)]

    def warnings(self) -> list[str]:
        """Return a warning on hits that may be excluded documents in another spelling."""
        return self.pairs.warnings(_EXCLUDED)


def find_excluded(
    rankings: Sequence[Sequence[HitNames]],
    excluded: Sequence[Collection[str]],
    corpus: Collection[str],
    *,
    by_rule: bool = False,
) -> ExcludedHits:
    """Return the hits that are excluded for their question, by the rule of gold ids.

    Args:
        rankings: Names of the hits of each question.
        excluded: Ids that do not count, for each question.
        corpus: Ids of all documents, with a quick test of membership; empty without a corpus.
        by_rule: True if a rule of the config names documents: then ids of another spelling are
            told alone.

    Example:
        >>> rankings = [[HitNames("07", "07"), HitNames("9#1", "9"), HitNames("8", "8")]]
        >>> find_excluded(rankings, [["7", "9"]], ()).marks
        [[True, True, False]]
    """
    questions = []
    for hits, names in zip(rankings, excluded, strict=True):
        # a hit that is excluded by its own id has no other spelling to look for
        spelled = {hit.id if hit.id in names else hit.document for hit in hits}
        questions.append(QuestionIds(dict.fromkeys(names, 1), spelled))
    pairs = pair_ids(questions, corpus)
    pairs = pairs.told_alone() if by_rule else pairs
    id_of_hit, marks = pairs.gold_of_hit, []
    for hits, names in zip(rankings, excluded, strict=True):
        marks.append([_is_excluded(hit, names, id_of_hit) for hit in hits])
    return ExcludedHits(marks, pairs)


def _is_excluded(hit: HitNames, names: Collection[str], id_of_hit: dict[str, str]) -> bool:
    """Return True if the id or the document of a hit is excluded."""
    return hit.id in names or hit.document in names or id_of_hit.get(hit.document) in names
