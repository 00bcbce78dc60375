"""Stage items in a cache: JSON values by the stage, a key of its inputs, and the item."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragbench.json_yaml import DEEPEST, load_json
from ragbench.store.database import CACHE_FILE, Store
from ragbench.store.sqlite_file import DamagedCache

# A power cut loses at most the items of the last second; a kill loses none.
_SYNC_S = 1.0


class StageItems:
    """The items of one stage under one key, such as the answers of a generator to some prompts."""

    def __init__(self, store: Store, stage: str, key: str, label: str) -> None:
        self.stage, self.key = stage, key
        self._store, self._label = store, label
        self._has_label = False
        self._synced = time.monotonic()

    def __contains__(self, item: str) -> bool:
        return bool(self._store.stored(self.stage, self.key, [item]))

    def get(self, item: str) -> Any:
        """Return the value of an item; None if it is not stored, or damaged."""
        blob = self._store.get(self.stage, self.key, item)
        if blob is None:
            return None
        self._note_use()
        try:
            return load_json(blob.decode(), deepest=2 * DEEPEST)  # values of others stand in it
        except ValueError:  # a row of somebody else with a right checksum
            self.refuse(item)
            return None

    def put(self, item: str, value: Any) -> None:
        """Store an item before this returns; it is on disk within a second."""
        blob = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()
        now = time.monotonic()
        durable = now - self._synced >= _SYNC_S
        self._store.put(self.stage, self.key, {item: blob}, durable=durable)
        if durable:
            self._synced = now
        self._note_use()

    def refuse(self, item: str) -> None:
        """Remove an item whose value has another shape than its stage reads; it is made again."""
        text = f"{self._store.path}: {self.stage} {item} has another shape; it is made again"
        warnings.warn(DamagedCache(text), stacklevel=3)
        if self._store.writable:
            self._store.remove(self.stage, self.key, [item])

    def _note_use(self) -> None:
        if not self._has_label and self._store.writable:
            self._store.note_use(self.stage, self.key, self._label)
        self._has_label = True


class StageStore:
    """The items of all stages in a cache folder; further folders `also` are only read."""

    def __init__(self, folder: Path, also: Sequence[Path] = ()) -> None:
        self.folder = folder
        self._store = Store(folder / CACHE_FILE, [other / CACHE_FILE for other in also])
        self._items: dict[tuple[str, str], StageItems] = {}

    def items(self, stage: str, label: str, key: str) -> StageItems:
        """Return the items of a stage's key; `label` is what `ragbench cache` shows."""
        if (stage, key) not in self._items:
            self._items[stage, key] = StageItems(self._store, stage, key, label)
        return self._items[stage, key]

    def close(self) -> None:
        """Close the files."""
        self._store.close()
