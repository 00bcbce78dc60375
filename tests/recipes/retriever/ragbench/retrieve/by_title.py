"""Every document in the order of its title: `type: by_title`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from ragbench.registry import Option
from ragbench.types import Document, Query, ScoredDocument


class ByTitle:
    """Rank documents by their titles, whatever the query."""

    def __init__(
        self,
        *,
        descending: Annotated[bool, Option("Whether the last title comes first.")] = False,
    ) -> None:
        self._descending = descending
        self._titles: dict[str, str] = {}

    def index(self, corpus: Sequence[Document]) -> None:
        """Read the titles."""
        self._titles = {document.id: document.title for document in corpus}

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return the same documents for every query."""
        ids = sorted(self._titles, key=self._titles.__getitem__, reverse=self._descending)
        return [[ScoredDocument(document) for document in ids[:top_k]] for _ in queries]
