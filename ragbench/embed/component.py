"""What retrievers and rerankers share: a place for what they compute, workers, notes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragbench.embed.base import Encodings
from ragbench.executors.base import Executor
from ragbench.registry import Configured


class SearchComponent(Configured):
    """The part of the protocol of a retriever that a reranker has, too.

    Attributes:
        is_opaque: Whether its code or data cannot be seen from here, so that a call gets a time
            limit, and a new run asks it again unless its entry has a `version`.
        definition: Moves where its output does for a reason outside its module.
        packages: Names of distributions whose version may move its output.
        asks_one_by_one: Whether a batch saves it nothing, so that queries are timed one by one.
        cache_folder: Where it may keep what it computes; set before `load`.
        cache_also: Folders of other runs, in which it may look for that; set before `load`.
        computes: Whether its models may compute on the workers of `executor`.
        executor: Workers that compute what its models compute; set before `load`. None: it does
            itself.
    """

    is_opaque: bool = False
    definition: int = 1
    packages: tuple[str, ...] = ()
    asks_one_by_one: bool = False
    cache_folder: Path | None = None
    cache_also: Sequence[Path] = ()
    computes: bool = False
    executor: Executor | None = None

    @property
    def encodings(self) -> Encodings | None:
        """Return the number of texts that were encoded so far; None without an encoder."""
        return None

    @property
    def notes(self) -> Sequence[str]:
        """Return remarks on documents, queries or hits; read after the last query."""
        return ()

    def load(self) -> None:
        """Get ready; an error here ends the run, instead of failing each query."""

    def load_inner(self, inner: SearchComponent) -> None:
        """Load a component that does the work of this one, with its folders and workers."""
        inner.cache_folder, inner.cache_also = self.cache_folder, self.cache_also
        inner.executor = self.executor
        inner.load()
