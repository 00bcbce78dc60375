"""Component: the part of the protocol that retrievers and rerankers share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragbench.executors.base import Executor
from ragbench.registry import Configured


class SearchComponent(Configured):
    """Base class of retrievers and rerankers, with a default for every part.

    Attributes:
        is_opaque: True if ragbench cannot see its code or data. A call then has a time limit, and a
            new run calls it again unless its entry has a `version`.
        definition: Number to increase when its output changes for a reason outside its module.
        packages: Names of distributions whose version may change its output.
        asks_one_by_one: True if a batch is not faster than single queries; queries are then timed
            one by one.
        cache_folder: Folder for stored vectors and indexes; set before `load`. None is the default
            cache, or none at all.
        cache_also: Cache folders that are only read; set before `load`.
        executor: Workers that run its models; set before `load`. None runs them in this process.
    """

    is_opaque: bool = False
    definition: int = 1
    packages: tuple[str, ...] = ()
    asks_one_by_one: bool = False
    cache_folder: Path | None = None
    cache_also: Sequence[Path] = ()
    executor: Executor | None = None

    @property
    def notes(self) -> Sequence[str]:
        """Remarks on documents, queries or hits; read after the last query."""
        return ()

    def check(self) -> None:
        """Raise `MissingExtra` if a package is not installed; loads nothing."""

    def load(self) -> None:
        """Load models; an error here ends the run, instead of failing each query."""

    def load_inner(self, inner: SearchComponent) -> None:
        """Load a wrapped component with the cache folders and workers of this one."""
        inner.cache_folder, inner.cache_also = self.cache_folder, self.cache_also
        inner.executor = self.executor
        inner.load()
