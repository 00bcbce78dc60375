"""What the retrievers of other libraries share: one question at a time, and the ids of hits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from ragbench.adapters.hits import HitReader
from ragbench.errors import AdapterError
from ragbench.registry import shown
from ragbench.retrieve.base import Retriever
from ragbench.types import Query, ScoredDocument


class ForeignRetriever(Retriever, ABC):
    """Asks each question of an object of another library and reads the list that comes back.

    The order of the list is the ranking. The object is made by the factory; from Python, `client`
    is one that exists. An adapter says how the object is asked, and what one of
    its hits holds. Without an `id_field` in the metadata, the library's own ids count.
    """

    is_opaque = True
    asks_one_by_one = True
    allowed_answer: ClassVar[str]
    """What an answer must be, for messages."""

    def __init__(self, id_field: str | None) -> None:
        self._hits = HitReader(id_field)

    @property
    def notes(self) -> list[str]:
        """Where ids are not what they were asked to be."""
        return self._hits.notes

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Ask each question."""
        return [self._read(self._ask(query.text, top_k)) for query in queries]

    @abstractmethod
    def _ask(self, question: str, top_k: int) -> Any:
        """Return the hits, best first, as the library has them."""

    @abstractmethod
    def _hit(self, hit: Any, position: int) -> ScoredDocument:
        """Read one hit; `position` is for messages."""

    def _read(self, answer: Any) -> list[ScoredDocument]:
        if isinstance(answer, (str, bytes)) or not isinstance(answer, Iterable):
            raise self._odd(answer)
        return [self._hit(hit, position) for position, hit in enumerate(answer, start=1)]

    def _odd(self, answer: Any) -> AdapterError:
        return AdapterError(f"found {shown(answer)}, allowed: {self.allowed_answer}")
