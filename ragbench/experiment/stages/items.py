"""Items of stages: those that are stored are read, the others are made, stored and counted."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ragbench.experiment.progress import Progress, Stage
from ragbench.experiment.records import Work
from ragbench.llm import Replies
from ragbench.store.items import StageFile, StageStore
from ragbench.types import Cause

Value = TypeVar("Value")
Keep = Callable[[int, Value], None]
"""Told an item's position and what was made of it."""


@dataclass(kw_only=True)
class Items:
    """Makes each item once and stores it.

    What is stored under an item's key is taken as it is. Items that failed are stored as well, and
    made again only with `retry_failed`, once in a run.
    """

    store: StageStore
    """Where items are stored."""
    progress: Progress
    """Shown what is being made."""
    retry_failed: bool = False
    """Whether items that failed are made again."""
    replies: Replies | None = None
    """The replies of models, where any are asked."""
    dry: bool = False
    """Whether nothing is made: what is missing is counted and stays None."""
    work: dict[str, Work] = field(default_factory=dict)
    """Stage -> how much of it was made."""
    _retried: set[tuple[Path, str]] = field(default_factory=set)

    @contextmanager
    def timed(self, name: str, total: int, unit: str = "queries") -> Iterator[Stage]:
        """Show and time what a stage makes."""
        start = time.perf_counter()
        with self.progress.stage(name, total, unit) as stage:
            yield stage
        self.work.setdefault(name, Work(total, 0)).seconds += time.perf_counter() - start

    def fill(
        self,
        title: str,
        file: StageFile,
        keys: Sequence[str | None],
        read: Callable[[Mapping[str, Any]], Value],
        write: Callable[[Value], dict[str, Any]],
        make: Callable[[Sequence[int], Keep[Value]], None],
        rows: Collection[int] | None = None,
    ) -> list[Any]:
        """Read the items that a file has and make the others.

        Args:
            title: The stage, for its counts.
            file: Where its items are.
            keys: Per row the item's key; None for a row that is not asked.
            read: From what is stored to a value.
            write: From a value to what is stored.
            make: Makes the values of some rows, and tells each as soon as it is there.
            rows: Only these are made; None makes all.

        Returns:
            Per row its value; None for a row that is not asked.
        """
        found: list[Any] = [None] * len(keys)
        for row, key in enumerate(keys):
            if key is not None and key in file:
                kept = file.get(key)
                if not (_failed(kept) and self.may_retry(file, key)):
                    found[row] = read(kept)
        missing = [row for row, key in enumerate(keys) if key is not None and found[row] is None]
        asked = sum(key is not None for key in keys)
        self.work.setdefault(title, Work(asked, asked - len(missing)))
        if rows is not None:
            chosen = set(rows)
            missing = [row for row in missing if row in chosen]
        if missing and not self.dry:

            def keep(row: int, value: Value) -> None:
                stored = write(value)
                key = keys[row]
                if key is not None and stored.get("cause") != Cause.OVER_BUDGET.word:
                    file.put(key, stored)
                    self.retried(file, key)
                # as it would be read: a run that was resumed differs in nothing
                found[row] = read(stored)

            # what is stored of them has failed: its replies are of no use
            again = [row for row in missing if (keys[row] or "") in file]
            for asked_again, rows_of in ((False, set(missing) - set(again)), (True, set(again))):
                if rows_of:
                    with self.asking(again=asked_again):
                        make([row for row in missing if row in rows_of], keep)
        return found

    def may_retry(self, file: StageFile, key: str) -> bool:
        """Tell whether an item that failed is to be made again: at most once in a run."""
        return self.retry_failed and (file.path, key) not in self._retried

    def retried(self, file: StageFile, key: str) -> None:
        """Note that an item was made in this run."""
        self._retried.add((file.path, key))

    def asking(self, *, again: bool) -> AbstractContextManager[None]:
        """Ask models as ever, or again: without the replies that are stored."""
        if again and self.replies is not None and not self.replies.replay:
            return self.replies.asking_again()
        return nullcontext()


def _failed(stored: Mapping[str, Any]) -> bool:
    return "cause" in stored and Cause[stored["cause"].upper()].failed
