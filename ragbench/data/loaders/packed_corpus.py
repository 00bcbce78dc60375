"""Large corpora, kept packed in the cache: files that are unchanged are not parsed again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from ragbench.data import files
from ragbench.data.loaders.base import document_digest
from ragbench.errors import DataError
from ragbench.json_yaml import load_json
from ragbench.signature import fingerprint
from ragbench.store.arrays import WORTH_KEEPING, Arrays, ArrayStore, ArrayWriter
from ragbench.types import Document
from ragbench.types.packed_documents import (
    Content,
    ContentHash,
    PackedDocuments,
    packed_bytes,
)

_FORMAT = "1"
_AT_ONCE = 4096  # documents between two writes


class CorpusReader:
    """A loader of corpus files that can keep what it has read."""

    arrays: ArrayStore | None = None
    """Where large corpora are kept; set before `load`. None keeps nothing."""

    def packed(
        self, sources: Sequence[Path], read: Callable[[], Iterable[Document]]
    ) -> Sequence[Document]:
        """Return the documents of some files: mapped where they are kept, else in memory.

        Every byte of the files is hashed each time (1.4 GB/s), so that no change is missed,
        whatever times and sizes say; only then is what was kept of them taken.
        """
        if self.arrays is None or not all(source.is_file() for source in sources):
            return list(read())
        before = _states(sources)
        if sum(size for size, *_ in before) < WORTH_KEEPING:
            return list(read())
        names = [source.name for source in sources]
        key = fingerprint([_FORMAT, *_code(type(self)), *names, *map(_digest, sources)], 32)

        def write(writer: ArrayWriter) -> None:
            _pack(read(), writer)
            if _states(sources) != before:
                raise DataError("was changed while it was read", file=sources[0])

        try:
            kept = self.arrays.kept("corpus", ", ".join(names)[:200], key, write)
        except _Unpackable:
            kept = None
        return list(read()) if kept is None else _unpacked(kept)


class _Unpackable(Exception):
    """A document whose metadata JSON does not hold."""


def _pack(documents: Iterable[Document], writer: ArrayWriter) -> None:
    import numpy as np

    def packed() -> Iterator[Document]:
        for document in documents:
            taken.add(document)
            digests.append(document_digest(document).encode())
            if not document.full_text.strip():
                empty.append(document.id)
            yield document

    taken, digests, empty = ContentHash(), list[bytes](), list[str]()
    stream, ends = packed(), {"ids": 0, "parts": 0}
    with (
        writer.growing("ids") as ids,
        writer.growing("ids_ends") as ids_ends,
        writer.growing("parts") as parts,
        writer.growing("parts_ends") as parts_ends,
    ):
        grown = {"ids": (ids, ids_ends), "parts": (parts, parts_ends)}
        while block := list(islice(stream, _AT_ONCE)):
            texts = {
                "ids": [document.id for document in block],
                "parts": [part for document in block for part in _parts(document)],
            }
            for name, (data, places) in grown.items():
                joined, lengths = packed_bytes(texts[name])
                data.append(np.frombuffer(joined, np.uint8))
                places.append(ends[name] + np.cumsum(lengths, dtype=np.int64))
                ends[name] += len(joined)
    content, whole = taken.content(), fingerprint(sorted(digests))
    writer.add_texts("facts", [content.key, str(content.size), whole, *empty])


def _unpacked(kept: Arrays) -> PackedDocuments:
    key, size, whole, *empty = kept.texts("facts")
    content = Content(key, int(size))
    return PackedDocuments(kept.texts("ids"), kept.texts("parts"), content, whole, empty)


def _parts(document: Document) -> tuple[str, str, str]:
    return document.title, document.text, _json(document.metadata)


def _json(metadata: Mapping[str, object]) -> str:
    """The metadata as JSON that is read as just the same."""
    if not metadata:
        return ""
    try:
        text = json.dumps(metadata, allow_nan=False)
        if load_json(text) == metadata:
            return text
    except (TypeError, ValueError):
        pass
    raise _Unpackable


def _states(sources: Sequence[Path]) -> list[tuple[int, int, int]]:
    stats = [source.stat() for source in sources]
    return [(stat.st_size, stat.st_mtime_ns, stat.st_ino) for stat in stats]


def _digest(source: Path) -> bytes:
    with source.open("rb") as stream:
        digest = hashlib.sha256()
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.digest()


def _code(loader: type) -> list[bytes]:
    """The code that reads: what it made of a file once need not be what it makes now."""
    folder = Path(files.__file__).parent
    own = Path(__file__).parent / f"{loader.__module__.rpartition('.')[2]}.py"
    modules = [*sorted(folder.glob("*.py")), own]
    return [path.read_bytes() for path in modules if path.is_file()]
