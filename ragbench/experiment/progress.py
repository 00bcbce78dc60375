"""What a run tells about how far it is; `ragbench.report.progress` shows it to people."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Stage(Protocol):
    """The progress of one stage."""

    def advance(self, n: int = 1) -> None:
        """Tell that n more items are done."""
        ...


class Progress(Protocol):
    """Something that shows how far a run is."""

    def stage(self, name: str, total: int, unit: str = "queries") -> AbstractContextManager[Stage]:
        """Open a stage of `total` items, counted in `unit`."""
        ...


class _NoStage:
    def advance(self, n: int = 1) -> None:
        """Show nothing."""


class Silent:
    """Progress that shows nothing."""

    def stage(self, name: str, total: int, unit: str = "queries") -> AbstractContextManager[Stage]:
        """Open a stage that shows nothing."""
        return nullcontext(_NoStage())
