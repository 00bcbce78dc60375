"""Corpus as bytes in a few arrays; a document is decoded when it is read."""

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

_ROWS_PER_BLOCK = 1024  # decoding one row at a time would cost a call per row
T = TypeVar("T")


class _Packed(Sequence[T]):
    """Sequence whose items are decoded in blocks when they are read.

    A subclass has a length and `_between(start, stop)`, which returns a list of items. Indexing
    gives an item, a slice a list; IndexError beyond the items.
    """

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
        # A range counts negative rows from the end and raises IndexError, as a list does.
        row = range(len(self))[index]
        return self._between(row, row + 1)[0]

    def __iter__(self) -> Iterator[T]:
        for start in range(0, len(self), _ROWS_PER_BLOCK):
            yield from self[start : start + _ROWS_PER_BLOCK]


@dataclass(frozen=True, slots=True)
class PackedTexts(_Packed[str]):
    """Texts in one buffer of UTF-8, decoded when they are read.

    Indexing decodes a text, a slice a list. Raises IndexError beyond the texts.

    Attributes:
        data: Bytes of all texts, one after the other.
        ends: Shape (n,): position after the last byte of each text.
    """

    data: NDArray[np.uint8]
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends)

    def _between(self, start: int, stop: int) -> list[str]:
        first = int(self.ends[start - 1]) if start else 0
        ends = [end - first for end in self.ends[start:stop].tolist()]
        data = self.data[first : first + ends[-1]].tobytes() if ends else b""
        starts = [0, *ends[:-1]]
        # In ASCII a character is a byte, so byte positions cut the decoded text too.
        if data.isascii():
            text = data.decode("ascii")
            return [text[a:b] for a, b in zip(starts, ends, strict=False)]
        pieces = (data[a:b] for a, b in zip(starts, ends, strict=False))
        return [piece.decode("utf-8", "surrogatepass") for piece in pieces]


def encode_text(text: str) -> bytes:
    """Return a text as UTF-8; a lone surrogate becomes three bytes instead of an error."""
    return text.encode("utf-8", "surrogatepass")


def packed_bytes(texts: Iterable[str]) -> tuple[bytes, list[int]]:
    """Return (texts as one piece of UTF-8, number of bytes of each); (b'', []) without texts."""
    pieces = list(map(encode_text, texts))
    return b"".join(pieces), list(map(len, pieces))


@dataclass(frozen=True)
class PackedDocuments(_Packed[Document]):
    """Corpus in arrays, which may be mapped from disk; documents are decoded when they are read.

    Loaders make it for large corpora; ids are held in memory once they are read. Indexing decodes a
    document, a slice a list. Raises IndexError beyond the documents.

    Attributes:
        packed_ids: Ids of the n documents.
        parts: Texts in threes for each document: title, text, and metadata as JSON.
        content: Hash and size of the corpus, which an index depends on.
        fingerprint: Content hash that does not depend on the order of the documents.
        empty: Ids of documents with neither title nor text.
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
        rows = zip(self.ids[start:stop], parts[::3], parts[1::3], parts[2::3], strict=True)
        return [
            Document(name, text, title, load_json(metadata) if metadata else {})
            for name, title, text, metadata in rows
        ]

    @cached_property
    def ids(self) -> list[str]:
        """Document ids in order, decoded once."""
        return list(self.packed_ids)

    @cached_property
    def by_id(self) -> DocumentsById:
        """Documents by id, decoded when they are read; a KeyError for an unknown id."""
        return DocumentsById(self)


def documents_by_id(documents: Sequence[Document]) -> Mapping[str, Document]:
    """Return {id: document}; of equal ids the last counts. Packed documents are decoded when read.

    No documents give an empty mapping.
    """
    if isinstance(documents, PackedDocuments):
        return documents.by_id
    return {document.id: document for document in documents}


class DocumentsById(Mapping[str, Document]):
    """Mapping from id to packed document, which is decoded when read; a KeyError if unknown."""

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
    """Hash and size of the documents of an index, which is rebuilt when the hash changes.

    Attributes:
        key: Hash of ids and full texts in their order.
        size: Bytes of all full texts in UTF-8.
    """

    key: str
    size: int


class ContentHash:
    """Hash of documents that are added one by one; `content` returns the result."""

    def __init__(self) -> None:
        self._digest, self._size = hashlib.sha256(), 0

    def add(self, document: Document) -> None:
        """Add the next document by its id and full text; the order matters, metadata do not."""
        name, text = encode_text(document.id), encode_text(document.full_text)
        # The lengths come first, so that no two sequences of documents give the same bytes.
        self._digest.update(b"%d %d %s%s" % (len(name), len(text), name, text))
        self._size += len(text)

    def content(self) -> Content:
        """Return hash (32 hexadecimal digits) and size of the full texts of the documents added."""
        return Content(self._digest.hexdigest()[:32], self._size)


def hash_documents(documents: Sequence[Document]) -> Content:
    """Return hash and size of documents in their order; stored ones for packed documents."""
    if isinstance(documents, PackedDocuments):
        return documents.content
    content_hash = ContentHash()
    for document in documents:
        content_hash.add(document)
    return content_hash.content()


def record_ids(records: Sequence[Document] | Sequence[Query]) -> Sequence[str]:
    """Return the ids of documents or queries in order; [] without records."""
    # Packed documents and queries on disk have `ids`: reading them would decode every record.
    ids: Sequence[str] | None = getattr(records, "ids", None)
    return [record.id for record in records] if ids is None else ids
