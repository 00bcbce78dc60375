"""The care of a cache folder: what is in it, what may go, whether it is whole."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ragbench.errors import DataError
from ragbench.json_yaml import load_json
from ragbench.store import arrays
from ragbench.store.database import open_shared
from ragbench.store.items import FORMAT, SUFFIX, read_lines
from ragbench.store.replies import REPLIES, REPLIES_FILE
from ragbench.store.vectors import VECTORS, VECTORS_FILE

_DATABASES = {
    REPLIES_FILE: (REPLIES, "replies", "replies of models"),
    VECTORS_FILE: (VECTORS, "embed", "vectors of texts"),
}
"""File name -> what it is for SQLite, its kind, and what it is about."""

_ORDER = (
    *("corpus", "index", "matrix"),
    *("retrieve", "generate", "score", "judge", "compare", "embed", "replies"),
)
"""In which order kinds of files are shown: as a run makes them. Others, as a newer version may
have left them, come last."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One file of the cache, or a folder of arrays."""

    path: Path
    kind: str
    of: str
    """What it is about, as its first line says."""
    size: int
    """Bytes, of the files that belong to it too."""
    used_at: float
    """Seconds since 1970 when it was last of use."""


def stored_in(folder: Path) -> list[Stored]:
    """Return the files of a cache folder, stage by stage, the newest first."""
    try:
        found = [*_array_folders(folder), *_stage_files(folder), *_databases(folder)]
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=folder) from error

    def turn(each: Stored) -> tuple[int, str, float, Path]:
        known = _ORDER.index(each.kind) if each.kind in _ORDER else len(_ORDER)
        return known, each.kind, -each.used_at, each.path

    return sorted(found, key=turn)


def verify(stored: Stored) -> int:
    """Return how many items of a file are damaged; they would be made again."""
    if stored.path.is_dir():
        return len(arrays.problems(stored.path) or ())
    database = _DATABASES.get(stored.path.name)
    if database is None:
        return sum(item is None for item in read_lines(stored.path))
    with open_shared(stored.path, database[0], thorough=True) as file:
        return sum(1 for _ in file.damaged()) + file.lost


def to_prune(
    found: list[Stored], *, older_than_days: float | None = None, keep_bytes: int | None = None
) -> list[Stored]:
    """Return what goes: what was of no use for so long, then the longest unused above a size.

    Replies were paid for: they go neither by age nor by size, only by `clear`.
    """
    stages = [each for each in found if each.kind != "replies"]
    gone: list[Stored] = []
    if older_than_days is not None:
        limit = time.time() - 86_400 * older_than_days
        gone = [each for each in stages if each.used_at < limit]
    if keep_bytes is not None:
        left = sorted((s for s in stages if s not in gone), key=lambda each: each.used_at)
        size = sum(each.size for each in left)
        for each in left:
            if size <= keep_bytes:
                break
            gone.append(each)
            size -= each.size
    return gone


def remove(stored: list[Stored]) -> int:
    """Remove files and return the bytes that are free."""
    freed = 0
    for each in stored:
        try:
            if each.path.is_dir():
                arrays.discard(each.path)
            else:
                for path in _with_its_own(each.path):
                    path.unlink(missing_ok=True)
        except OSError as error:
            raise DataError(f"cannot be removed: {error.strerror}", file=each.path) from error
        freed += each.size
    return freed


def _array_folders(folder: Path) -> Iterator[Stored]:
    for about in (folder / arrays.FOLDER).glob(f"*/*/{arrays.ABOUT}"):
        path, used = about.parent, about.stat().st_mtime
        if path.parent.name in _ORDER and not path.name.startswith("."):
            size = sum(file.stat().st_size for file in path.iterdir())
            yield Stored(path, path.parent.name, arrays.about_what(path), size, used)


def _stage_files(folder: Path) -> Iterator[Stored]:
    for path in (folder / "stages").glob(f"*/*{SUFFIX}"):
        kind, of = path.parent.name, _about(path)
        if kind in _ORDER or of != "?":  # a file of somebody else is none of ours
            stat = path.stat()
            yield Stored(path, kind, of, stat.st_size, stat.st_mtime)


def _databases(folder: Path) -> Iterator[Stored]:
    for name, (_, kind, of) in _DATABASES.items():
        path = folder / name
        if path.is_file():
            stats = [own.stat() for own in _with_its_own(path) if own.exists()]
            size, used = sum(s.st_size for s in stats), max(s.st_mtime for s in stats)
            yield Stored(path, kind, of, size, used)


def _with_its_own(path: Path) -> list[Path]:
    """A file with those that are kept beside it; the file itself goes last."""
    if path.name not in _DATABASES:
        return [path]
    claims = path.with_name(f".{path.name}.claims")
    return [
        claims,
        *(path.with_name(f"{path.name}{end}") for end in ("-journal", "-wal", "-shm", "")),
    ]


def _about(path: Path) -> str:
    """What the first line of a file of a stage says that it is of; `?` where it cannot be read."""
    with path.open("rb") as stream:
        head = stream.readline(10_000).decode("utf-8", "replace")
    if not head.startswith(f"{FORMAT} "):
        return "?"
    try:
        return str(load_json(head.removeprefix(f"{FORMAT} "))["of"])
    except (ValueError, KeyError, TypeError):
        return "?"
