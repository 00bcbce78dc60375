"""A corpus as bytes in a few arrays, each document decoded when it is asked for."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, overload

from ragbench.json_yaml import load_json
from ragbench.types.records import Document, Query

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_AT_ONCE = 1024
T = TypeVar("T")


class _Packed(Sequence[T]):
    """What is decoded in blocks."""

    __slots__ = ()

    @abstractmethod
    def _between(self, start: int, stop: int) -> list[T]: ...

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            return self._between(start, stop)[::step] if step > 0 else list(self)[index]
        # a range counts from the end and raises IndexError as a list does
        row = range(len(self))[index]
        return self._between(row, row + 1)[0]

    def __iter__(self) -> Iterator[T]:
        for start in range(0, len(self), _AT_ONCE):
            yield from self[start : start + _AT_ONCE]


@dataclass(frozen=True, slots=True)
class PackedTexts(_Packed[str]):
    """Texts one behind the other in UTF-8, and where each ends."""

    data: NDArray[np.uint8]
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends)

    def _between(self, start: int, stop: int) -> list[str]:
        first = int(self.ends[start - 1]) if start else 0
        ends = [end - first for end in self.ends[start:stop].tolist()]
        data = self.data[first : first + ends[-1]].tobytes() if ends else b""
        starts = [0, *ends[:-1]]
        # decoded at once: a character is a byte, so that the ends of bytes are those of characters
        if data.isascii():
            text = data.decode("ascii")
            return [text[a:b] for a, b in zip(starts, ends, strict=False)]
        return [decoded(data[a:b]) for a, b in zip(starts, ends, strict=False)]


def encoded(text: str) -> bytes:
    """Return a text in UTF-8; halves of surrogate pairs are kept."""
    return text.encode("utf-8", "surrogatepass")


def decoded(data: bytes) -> str:
    """Return what `encoded` got."""
    return data.decode("utf-8", "surrogatepass")


def packed_bytes(texts: Iterable[str]) -> tuple[bytes, list[int]]:
    """Return texts one behind the other, and how long each is."""
    pieces = list(map(encoded, texts))
    return b"".join(pieces), list(map(len, pieces))


@dataclass(frozen=True)
class PackedDocuments(_Packed[Document]):
    """Documents that lie in arrays, such as mapped ones; what is in memory are their ids.

    Attributes:
        parts: Title, text, and metadata in JSON, of each document in turn.
        fingerprint: That of a data set's corpus, whatever the order of its documents.
        empty: The ids of documents with neither title nor text.
    """

    packed_ids: PackedTexts
    parts: PackedTexts
    content: Content
    fingerprint: str
    empty: Sequence[str]

    def __len__(self) -> int:
        return len(self.packed_ids)

    def _between(self, start: int, stop: int) -> list[Document]:
        parts = self.parts[3 * start : 3 * stop]
        each = zip(self.ids[start:stop], parts[::3], parts[1::3], parts[2::3], strict=True)
        return [
            Document(name, text, title, load_json(metadata) if metadata else {})
            for name, title, text, metadata in each
        ]

    @cached_property
    def ids(self) -> list[str]:
        """The ids, in order."""
        return list(self.packed_ids)

    @cached_property
    def by_id(self) -> DocumentsById:
        """The documents by id."""
        return DocumentsById(self)


def by_id_of(documents: Sequence[Document]) -> Mapping[str, Document]:
    """Return documents by id; no packed one is decoded."""
    if isinstance(documents, PackedDocuments):
        return documents.by_id
    return {document.id: document for document in documents}


class DocumentsById(Mapping[str, Document]):
    """Packed documents by id."""

    def __init__(self, documents: PackedDocuments) -> None:
        self._documents = documents
        self._rows = {name: row for row, name in enumerate(documents.ids)}

    def __getitem__(self, name: str) -> Document:
        return self._documents[self._rows[name]]

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


@dataclass(frozen=True, slots=True)
class Content:
    """What an index of some documents depends on.

    Attributes:
        key: A hash of ids, titles and texts, in their order.
        size: Bytes of all texts.
    """

    key: str
    size: int


class ContentHash:
    """Takes documents one by one and tells their `Content`."""

    def __init__(self) -> None:
        self._digest, self._size = hashlib.sha256(), 0

    def add(self, document: Document) -> None:
        """Take the next document, as it goes into an index."""
        name, text = encoded(document.id), encoded(document.full_text)
        # the lengths first, so that no two documents run together to the same bytes
        self._digest.update(b"%d %d %s%s" % (len(name), len(text), name, text))
        self._size += len(text)

    def content(self) -> Content:
        """Return what was taken."""
        return Content(self._digest.hexdigest()[:32], self._size)


def content_of(documents: Sequence[Document]) -> Content:
    """Return what an index of documents depends on; at hand where they are packed."""
    if isinstance(documents, PackedDocuments):
        return documents.content
    taken = ContentHash()
    for document in documents:
        taken.add(document)
    return taken.content()


def ids_of(records: Sequence[Document] | Sequence[Query]) -> Sequence[str]:
    """Return the ids of documents or queries, in order; what lies elsewhere has them at hand."""
    known: Sequence[str] | None = getattr(records, "ids", None)
    return [record.id for record in records] if known is None else known
