"""The neutral tables: what every page shows, before anyone decides how it looks.

All text in these records is one printable line each; a renderer escapes it for its own format
and adds nothing to it but layout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ragbench.records.score import Kind, SystemScore

Mark = Literal["best", "tied", ""]
"""Whether a value is the best of its measure, cannot be told from it, or neither."""
Outcome = Literal["better", "worse", "undecided", "identical", "not compared", "baseline", ""]
"""What a comparison with the baseline says; empty where there is none."""

SIGNS: dict[Mark, str] = {"best": "*", "tied": "=", "": ""}
"""The character that stands behind a marked value, on every page."""


@dataclass(frozen=True, slots=True)
class ScoreCell:
    """One system's value by one measure."""

    value: str
    """Three significant digits; `-` where nothing was scored."""
    interval: str = ""
    """`[low, high]`; empty where there is none."""
    mark: Mark = ""
    mean: float | None = None
    ends: tuple[float, float] | None = None
    score: SystemScore | None = None
    """The record behind the text; None where the system has no such score."""

    @property
    def text(self) -> str:
        """The whole cell: `0.446 * [0.412, 0.480]`."""
        return " ".join(filter(None, [self.value, SIGNS[self.mark], self.interval]))


@dataclass(frozen=True, slots=True)
class DifferenceCell:
    """One system's difference from its baseline by one measure."""

    outcome: Outcome = ""
    value: str = ""
    """Signed; `-` where there is no comparison."""
    interval: str = ""
    """`[low, high]` with signs."""
    p: str = ""
    """The adjusted p value; `-` where no test decides, but a judge's looks."""

    @property
    def text(self) -> str:
        """The whole cell: `+0.044 [+0.023, +0.066], p 0.0006: better`."""
        if not self.p:
            return self.outcome or self.value
        numbers = " ".join(filter(None, [self.value, self.interval]))
        return f"{numbers}, p {self.p}" + (f": {self.outcome}" if self.outcome else "")


@dataclass(frozen=True, slots=True)
class Measure:
    """One column of a section: an entry for each of its systems."""

    name: str
    title: str
    """The column's head: the name, and what a reader would get wrong otherwise."""
    scores: tuple[ScoreCell, ...]
    differences: tuple[DifferenceCell, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """The systems (rows) and measures (columns) of one kind."""

    kind: Kind
    title: str
    labels: tuple[str, ...]
    """Which judge gave the numbers, or who judged the passages."""
    systems: tuple[str, ...]
    measures: tuple[Measure, ...]
    against: str
    """Head of the differences: `vs bm25`; empty where nothing is compared."""
    counts: tuple[str, ...]
    """How many items were scored, failed (by cause) and not applicable; bounds of the failed."""


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate and its verdict."""

    verdict: str
    gate: str
    system: str
    why: str
    worst: tuple[tuple[str, str], ...] = ()
    """Where it did not pass: the id and the question of the worst, with their scores."""


GATE_HEADS = ("verdict", "gate", "system", "why")
COST_HEADS = ("system", "p50 ms", "p95 ms", "queries/s", "input tokens", "output tokens", "usd")
SLICE_HEADS = ("slice", "system", "measure", "queries", "difference", "p")


@dataclass(frozen=True, slots=True)
class Slices:
    """The slices that got worse, and what was tested, field by field."""

    rows: tuple[tuple[str, ...], ...]
    """Cells under `SLICE_HEADS`."""
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of text."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: bool = False
    """True where the cells are words, which stand left, not numbers."""


@dataclass(frozen=True, slots=True)
class Chapter:
    """A part of a page that is text and tables of text: what a judge prefers, what runs changed."""

    title: str
    headlines: tuple[str, ...]
    labels: tuple[str, ...]
    """Sentences that have to be read with the tables."""
    grids: tuple[Grid, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """A whole page."""

    name: str
    subject: str
    """Data set, counts and baseline in one line."""
    headlines: tuple[str, ...]
    """The results in words, one sentence for each section; where there are gates, these first."""
    run_id: str = ""
    gates: tuple[Gate, ...] = ()
    """Undecided gates first."""
    sections: tuple[Section, ...] = ()
    slices: Slices | None = None
    runs: Chapter | None = None
    """Changes between several runs; None for one run."""
    preferences: tuple[Chapter, ...] = ()
    legend: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    price: str = ""
    """What the best systems take, beside what they are compared with; empty where it is unknown."""
    doubts: tuple[str, ...] = ()
    """What of the numbers not to trust, beyond the warnings: failed items, few queries, a judge
    whom no certificate vouches for."""
    costs: tuple[tuple[str, ...], ...] = ()
    """Cells under `COST_HEADS`, `-` where a value is unknown; empty where all are."""
    signatures: tuple[tuple[str, str], ...] = ()
    """What each number depends on: measure (with the system where systems differ), signature."""
