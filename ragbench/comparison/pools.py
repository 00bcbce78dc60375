"""Filter for hits that are outside the pool of their query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from ragbench.comparison.passage_places import document_resolver
from ragbench.types import Document, ScoredDocument
from ragbench.types.documents import documents_by_id


class PoolFilter:
    """Filter for hits outside the pool of their query; `inside(pool)` returns its condition.

    A hit counts by its document. A hit that the corpus lacks counts as the document that its path,
    file name or title means.
    """

    def __init__(self, documents: Sequence[Document] | None) -> None:
        self._documents = documents or ()

    @cached_property
    def _ids(self) -> dict[str, Document]:
        return documents_by_id(self._documents)

    @cached_property
    def _document_of(self) -> Callable[[ScoredDocument], str | None]:
        return document_resolver(self._documents)

    def inside(self, pool: Sequence[str] | None) -> Callable[[ScoredDocument], bool] | None:
        """Return the condition for a hit of a query with this pool; None without a pool."""
        if pool is None:
            return None
        ids = frozenset(pool)

        def is_inside(hit: ScoredDocument) -> bool:
            """Return True for a hit whose document is in the pool."""
            name = hit.id if hit.document is None else hit.document
            if name in ids or name in self._ids or not self._documents:
                return name in ids
            return self._document_of(hit) in ids

        return is_inside
