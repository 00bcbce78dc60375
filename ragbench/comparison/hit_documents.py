"""Documents of a corpus that hits are of, and the filter for pools of documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from pathlib import PurePosixPath

from ragbench.data.files.gold import DocumentNames
from ragbench.data.files.pages import FILE_KEYS, index_pages, page_of
from ragbench.types import Document, ScoredDocument
from ragbench.types.lookups import index_by_id


def document_resolver(corpus: Sequence[Document]) -> Callable[[ScoredDocument], str | None]:
    """Return a function from a hit to the id of its document; None if unknown or ambiguous.

    A hit that names its document keeps it. The id of the hit, and the file that its metadata name,
    are read as gold ids are: as a path, a file name with or without its ending, or a title, if
    exactly one document has it. In a corpus of pages, the file and page of the metadata name the
    first document of that page.
    """
    names, pages = DocumentNames(corpus), index_pages(corpus)

    # the same documents come back for many queries, and a path may need several look-ups
    @cache
    def resolve(text: str) -> str | None:
        """Return the id of the document that a text names."""
        steps = text.replace("\\", "/").split("/")
        # a path may begin anywhere above the corpus; only a text with an ending is surely a path
        starts = range(len(steps) if PurePosixPath(steps[-1]).suffix else 1)
        for start in starts:
            if ids := names.resolve("/".join(steps[start:])):
                # an ambiguous name ends the search: a shorter end of the path is less certain still
                return ids[0] if len(ids) == 1 else None
        return None

    def document_of_hit(hit: ScoredDocument) -> str | None:
        """Return the id of the document of a hit."""
        if hit.document is not None:
            return hit.document
        # the id comes first: several documents may come from one file
        texts = (hit.id, *(str(hit.metadata[key]) for key in FILE_KEYS if key in hit.metadata))
        page = page_of(hit.metadata)
        if page in pages and hit.id not in names.ids:
            return pages[page][0]
        return next(filter(None, map(resolve, texts)), None)

    return document_of_hit


class PoolFilter:
    """Filter for hits outside the pool of their query; `inside(pool)` returns its condition.

    A hit counts by its document. A hit that the corpus lacks counts as the document that its path,
    file name or title means.
    """

    def __init__(self, documents: Sequence[Document] | None) -> None:
        self._documents = documents or ()

    @cached_property
    def _ids(self) -> dict[str, Document]:
        return index_by_id(self._documents)

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
