"""Ids and texts of records, and the hash of a corpus."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragbench.types.records import Document, Query, ScoredDocument


def record_ids(records: Iterable[Document | ScoredDocument | Query]) -> list[str]:
    """Return the ids of documents, hits or queries."""
    return [record.id for record in records]


def full_texts(documents: Iterable[Document]) -> list[str]:
    """Return the texts of documents, each with its title."""
    return [document.full_text for document in documents]


@dataclass(frozen=True, slots=True)
class Content:
    """Hash and size of the documents of an index, which is rebuilt when the hash changes.

    Attributes:
        key: Hash of ids and full texts in their order.
        size: Bytes of all full texts in UTF-8.
    """

    key: str
    size: int


def hash_documents(documents: Sequence[Document]) -> Content:
    """Return hash (32 hexadecimal digits) and size of the full texts of documents in their order.

    Metadata do not count. A lone surrogate counts as three bytes.
    """
    digest, size = hashlib.sha256(), 0
    for document in documents:
        name = document.id.encode("utf-8", "surrogatepass")
        text = document.full_text.encode("utf-8", "surrogatepass")
        # The lengths come first, so that no two sequences of documents give the same bytes.
        digest.update(b"%d %d %s%s" % (len(name), len(text), name, text))
        size += len(text)
    return Content(digest.hexdigest()[:32], size)
