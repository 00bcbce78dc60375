"""Content, pruning and checks of a cache folder, for `ragbench cache`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

from ragbench.errors import DataError
from ragbench.store import arrays
from ragbench.store.database import CACHE_FILE, REPLIES_FILE, CacheEntry, Store

# Order of the kinds in lists, as a run creates them; other kinds come last.
_KINDS = (
    *("index", "matrix"),
    *("retrieve", "generate", "score", "judge", "compare", "embed", "replies"),
)


def stored_in(folder: Path) -> list[CacheEntry]:
    """Return the entries of a cache folder by kind, the last used first; a missing folder has none.

    Kinds are in the order in which a run creates them, then other kinds by name.

    Raises:
        DataError: The folder cannot be read, or a folder of arrays is a link.
    """
    try:
        entries = [*_array_folders(folder)]
        for name in (CACHE_FILE, REPLIES_FILE):
            with closing(Store(folder / name)) as store:
                entries += store.entries()
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=folder) from error

    def order(entry: CacheEntry) -> tuple[int, str, float, Path]:
        rank = _KINDS.index(entry.kind) if entry.kind in _KINDS else len(_KINDS)
        return rank, entry.kind, -entry.used_at, entry.path

    return sorted(entries, key=order)


def verify(folder: Path) -> Iterator[tuple[Path, int, str]]:
    """Yield (path, number of damaged items, description) of a cache folder; nothing is changed.

    The path is a folder of arrays or a file of rows. The description is `<kind> of <label>`, or
    `damaged pages` for rows that SQLite cannot read; for a file that cannot be used at all, it is
    the reason, with number 1. A whole or missing folder gives nothing. It raises a DataError if a
    folder of arrays is a link, and OSError if one cannot be read.
    """
    for entry in _array_folders(folder):
        if damaged := arrays.problems(entry.path):
            yield entry.path, len(damaged), f"{entry.kind} of {entry.label}"
    for name in (CACHE_FILE, REPLIES_FILE):
        with closing(Store(folder / name, read_only=True)) as store:
            labels: dict[tuple[str, str | None], str] = {}
            try:
                damage = store.damage()
                with suppress(DataError):  # a damaged file may have no readable labels
                    labels = {(e.kind, e.key): e.label for e in store.entries()}
            except DataError as error:
                yield store.path, 1, error.problem.found
                continue
        for (kind, key), n in damage.items():
            label = labels.get((kind, key), "?")
            yield store.path, n, f"{kind} of {label}" if kind else "damaged pages"


def to_prune(
    entries: Sequence[CacheEntry],
    *,
    older_than_days: float | None = None,
    keep_bytes: float | None = None,
) -> list[CacheEntry]:
    """Return the entries to remove by age, then the longest unused ones above a total size.

    The entries by age keep their order; those by size follow, the longest unused first. Entries of
    kind `replies` are never removed, and their size does not count. Without both limits, the list
    is empty.

    Args:
        entries: Entries of the cache folder.
        older_than_days: Age of the last use; None removes none by age.
        keep_bytes: Total size of the entries that stay; None removes none by size.
    """
    # Replies were paid for, so only `ragbench cache clear` removes them.
    pruned: list[CacheEntry] = []
    recent: list[CacheEntry] = []
    oldest = 0.0 if older_than_days is None else time.time() - 86_400 * older_than_days
    for entry in entries:
        if entry.kind != "replies":
            (pruned if entry.used_at < oldest else recent).append(entry)
    if keep_bytes is not None:
        size = sum(entry.size for entry in recent)
        for entry in sorted(recent, key=lambda entry: entry.used_at):
            if size <= keep_bytes:
                break
            pruned.append(entry)
            size -= entry.size
    return pruned


def remove(entries: Sequence[CacheEntry]) -> int:
    """Remove entries and return the sum of their sizes in bytes.

    An earlier entry stays removed if a later one fails.

    Raises:
        DataError: A folder or file cannot be changed.
    """
    rows: dict[Path, list[CacheEntry]] = {}
    for entry in entries:
        if entry.key is not None:
            rows.setdefault(entry.path, []).append(entry)
            continue
        try:
            arrays.discard(entry.path)
        except OSError as error:
            raise DataError(f"cannot be removed: {error.strerror}", file=entry.path) from error
    for path, removed in rows.items():
        with closing(Store(path)) as store:
            store.remove_entries(removed)
    return sum(entry.size for entry in entries)


def _array_folders(folder: Path) -> Iterator[CacheEntry]:
    """Yield the entries of all folders of arrays."""
    for about in (folder / arrays.FOLDER).glob(f"*/*/{arrays.ABOUT}"):
        path, used = about.parent, about.stat().st_mtime
        if path.parent.name in _KINDS and not path.name.startswith("."):
            arrays.array_path(folder, path.parent.name, path.name)  # refuses links
            size = sum(file.lstat().st_size for file in path.iterdir())
            yield CacheEntry(path, path.parent.name, None, arrays.read_label(path), size, used)
