"""Stage items in a cache: lines of JSON by stage, key of the inputs, and item."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from pathlib import Path

from ragbench.store.database import CACHE_FILE, Store
from ragbench.store.sqlite_file import DamagedCache

# A power cut loses at most the items of the last second, a kill none; syncing each item is slow.
_SYNC_S = 1.0


class StageItems:
    """Items of one stage and key, such as the answers of one generator to its prompts.

    `StageStore.items` makes it. `put` stores a line of JSON. `item in items` is True if the item is
    stored, damaged or not; `get` returns None for a missing or damaged item. A file that cannot be
    used raises a DataError.

    Args:
        store: Store of the cache folder.
        stage: Name of the stage.
        key: Hash of all inputs of the items.
        label: Name of the component or data, which `ragbench cache` shows.
    """

    def __init__(self, store: Store, stage: str, key: str, label: str) -> None:
        self.stage, self.key = stage, key
        self._store, self._label = store, label
        self._has_label = False
        self._synced = time.monotonic()

    def __contains__(self, item: str) -> bool:
        return self._store.holds(self.stage, self.key, item)

    @property
    def writable(self) -> bool:
        """True if items can be stored; False for a read-only file."""
        return self._store.writable

    def get(self, item: str) -> bytes | None:
        """Return the line of an item; None if it is not stored, or damaged.

        It raises a DataError if the first file cannot be read; a further one is left out with a
        warning. The first line read or stored records the time of use.
        """
        line = self._store.get(self.stage, self.key, item)
        if line is not None:
            self._note_use()
        return line

    def put(self, item: str, line: bytes) -> None:
        """Store the line of an item, in place of an earlier one; it survives a kill at once.

        It survives a power cut once an item is stored a second or more after the last such item.

        Raises:
            DataError: The file cannot be written.
        """
        time_s = time.monotonic()
        durable = time_s - self._synced >= _SYNC_S
        label = None if self._has_label else self._label
        self._store.put(self.stage, self.key, {item: line}, durable=durable, label=label)
        self._has_label = True
        if durable:
            self._synced = time_s

    def refuse(self, item: str) -> None:
        """Remove an item whose value its stage cannot read, so that it is computed again; warn.

        In a read-only file the item stays. An item that is not stored gives the warning too.
        """
        text = f"{self._store.path}: {self.stage} {item} has another shape; it is made again"
        warnings.warn(DamagedCache(text), stacklevel=3)
        if self._store.writable:
            self._store.remove(self.stage, self.key, [item])

    def _note_use(self) -> None:
        if not self._has_label and self._store.writable:
            self._store.note_use(self.stage, self.key, self._label)
        self._has_label = True


class StageStore:
    """Items of all stages in a cache folder; the further folders `also` are only read.

    `items` returns those of one stage and key. The files are opened when an item is read or stored;
    `close` closes them.
    """

    def __init__(self, folder: Path, also: Sequence[Path] = ()) -> None:
        self.folder = folder
        self._store = Store(folder / CACHE_FILE, [other / CACHE_FILE for other in also])
        self._items: dict[tuple[str, str], StageItems] = {}

    def items(self, stage: str, label: str, key: str) -> StageItems:
        """Return the items of a stage and key; `ragbench cache` shows the label.

        The same stage and key give the same object, with its first label.
        """
        if (stage, key) not in self._items:
            self._items[stage, key] = StageItems(self._store, stage, key, label)
        return self._items[stage, key]

    def close(self) -> None:
        """Close the files.

        A later use of items opens them again.
        """
        self._store.close()
