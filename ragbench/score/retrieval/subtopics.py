"""What diversity measures look at: which subtopics of its query each document covers."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass

Subtopics = frozenset[Hashable]


@dataclass(frozen=True, slots=True)
class RankedSubtopics:
    """The subtopics of one query, as its ranking and its judgements cover them."""

    retrieved: tuple[Subtopics, ...]
    """Rank -> the subtopics that the document there covers; none where it is not relevant."""
    judged: tuple[Subtopics, ...]
    """What each relevant document covers, retrieved or not; documents by id, the largest first."""

    @classmethod
    def of(
        cls, retrieved: Iterable[str], judged: Mapping[str, Collection[Hashable]]
    ) -> RankedSubtopics:
        """Join a ranking with judgements.

        Args:
            retrieved: Document ids, best first; one that occurs again counts at its first place.
            judged: Document id -> the subtopics that it is relevant to.

        Example:
            >>> ranked = RankedSubtopics.of(["d2", "d9"], {"d1": {"a"}, "d2": {"a", "b"}})
            >>> [sorted(covered) for covered in ranked.retrieved]
            [['a', 'b'], []]
        """
        return cls.at_ranks(dict(enumerate(dict.fromkeys(retrieved), 1)), judged)

    @classmethod
    def at_ranks(
        cls, retrieved: Mapping[int, str], judged: Mapping[str, Collection[Hashable]]
    ) -> RankedSubtopics:
        """Join judgements with the documents whose ranks are known; the others cover nothing.

        Args:
            retrieved: Rank, from 1, -> document id.
            judged: Document id -> the subtopics that it is relevant to.
        """
        covers = {document: frozenset(topics) for document, topics in judged.items()}
        by_rank: list[Subtopics] = [frozenset()] * max(retrieved, default=0)
        for rank, document in retrieved.items():
            by_rank[rank - 1] = covers.get(document, frozenset())
        falling = sorted(covers, reverse=True)
        return cls(tuple(by_rank), tuple(covers[doc] for doc in falling if covers[doc]))

    @property
    def all(self) -> Subtopics:
        """Every subtopic that a document is relevant to."""
        return frozenset().union(*self.judged)
