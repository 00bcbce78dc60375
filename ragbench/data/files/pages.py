"""Gold as file and page: the documents, or the passages of a system, that are of that page.

Readers of PDF files count pages from 0 (`metadata.page` of LangChain) or from 1, people from 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from ragbench.data.files.fields import counted
from ragbench.types import Document
from ragbench.types.lookups import pick

# Metadata keys in which LangChain, LlamaIndex and Haystack keep the file that a chunk comes from.
FILE_KEYS = ("source", "file_path", "file_name")
_PAGE_KEYS = ("page", "page_number")
# File name without folders and case, and number of the page.
Page = tuple[str, int]


def page_of(metadata: Mapping[str, Any]) -> Page | None:
    """Return the file and page that metadata name.

    Example:
        >>> page_of({"source": "docs/Rules.pdf", "page": 0}), page_of({"source": "a.pdf"})
        (('rules.pdf', 0), None)
    """
    file = next(filter(None, map(metadata.get, FILE_KEYS)), None)
    page = read_page(pick(metadata, *_PAGE_KEYS))
    return None if file is None or page is None else (file_name(str(file)), page)


def read_page(value: object) -> int | None:
    """Return the number of a page, also of a text or a whole float; None for another value."""
    if isinstance(value, str) and value.strip().removesuffix(".0").isdecimal():
        return int(value.strip().removesuffix(".0"))
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def file_name(path: str) -> str:
    """Return the name of a file without its folders, for comparison."""
    return PurePosixPath(path.replace("\\", "/").replace("%20", " ")).name.casefold()


def index_pages(documents: Iterable[Document]) -> dict[Page, list[str]]:
    """Return file and page -> ids of the documents of that page, in their order."""
    index = dict[Page, list[str]]()
    for document in documents:
        page = page_of(document.metadata)
        if page is not None:
            index.setdefault(page, []).append(document.id)
    return index


class GoldPages:
    """Documents of gold pages, whether the two sides count pages from 0 or from 1.

    It is created with the documents and all gold pages; `ids(page)` returns the documents of one,
    and `note` says how pages are counted.
    """

    def __init__(self, documents: Iterable[Document], gold: Sequence[Page]) -> None:
        self._index = index_pages(documents)
        # shift of the page numbers -> number of gold pages with documents
        shifts = {}
        for shift in (0, -1, 1):
            shifts[shift] = sum((file, page + shift) in self._index for file, page in gold)
        # where both fit, documents with a page 0 count from 0, and gold without one from 1
        first, first_gold = (min((n for _, n in pages), default=1) for pages in (self._index, gold))
        usual = min(first, 1) - min(first_gold, 1)
        self._shift = max((usual, *shifts), key=shifts.__getitem__)
        counted_from = {-1: "gold from 1, documents from 0", 0: "both alike", 1: "gold from 0"}
        n_met = f"{shifts[self._shift]} of {counted(len(gold), 'gold page')}"
        self.note = f"{n_met} found by file and page; pages are counted: "
        self.note += counted_from[self._shift] + (", documents from 1" if self._shift == 1 else "")

    def ids(self, page: Page) -> list[str]:
        """Return the ids of the documents of a gold page; an id of its own if there is none."""
        file, number = page
        return self._index.get((file, number + self._shift)) or [f"{file}#page={number}"]
