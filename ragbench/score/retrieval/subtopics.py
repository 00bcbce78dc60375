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
        nothing: Subtopics = frozenset()
        covers = {document: frozenset(topics) for document, topics in judged.items()}
        return cls(
            tuple(covers.get(document, nothing) for document in dict.fromkeys(retrieved)),
            tuple(
                covers[document] for document in sorted(covers, reverse=True) if covers[document]
            ),
        )

    @property
    def all(self) -> Subtopics:
        """Every subtopic that a document is relevant to."""
        return frozenset().union(*self.judged)
