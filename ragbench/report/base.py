"""The neutral tables: what every page shows, before anyone decides how it looks.

All text in these records is one printable line each; a renderer escapes it for its own format
and adds nothing to it but layout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ragbench.records.score import Kind, SystemScore

# Whether a value is the best of its measure, cannot be told from it, or neither.
Mark = Literal["best", "tied", ""]
# What a comparison with the baseline says; empty where there is none.
Outcome = Literal["better", "worse", "undecided", "identical", "not compared", "baseline", ""]

# The character that stands behind a marked value, on every page.
SIGNS: dict[Mark, str] = {"best": "*", "tied": "=", "": ""}


@dataclass(frozen=True, slots=True)
class ScoreCell:
    """One system's value by one measure.

    Attributes:
        value: Three significant digits; `-` where nothing was scored.
        interval: `[low, high]`; empty where there is none.
        score: The record behind the text; None where the system has no such score.
    """

    value: str
    interval: str = ""
    mark: Mark = ""
    mean: float | None = None
    ends: tuple[float, float] | None = None
    score: SystemScore | None = None

    @property
    def text(self) -> str:
        """The whole cell: `0.446 * [0.412, 0.480]`."""
        return " ".join(filter(None, [self.value, SIGNS[self.mark], self.interval]))


@dataclass(frozen=True, slots=True)
class DifferenceCell:
    """One system's difference from its baseline by one measure.

    Attributes:
        value: Signed; `-` where there is no comparison.
        interval: `[low, high]` with signs.
        p: The adjusted p value; `-` where no test decides, but a judge's looks.
    """

    outcome: Outcome = ""
    value: str = ""
    interval: str = ""
    p: str = ""

    @property
    def text(self) -> str:
        """The whole cell: `+0.044 [+0.023, +0.066], p 0.0006: better`."""
        if not self.p:
            return self.outcome or self.value
        numbers = " ".join(filter(None, [self.value, self.interval]))
        return f"{numbers}, p {self.p}" + (f": {self.outcome}" if self.outcome else "")


@dataclass(frozen=True, slots=True)
class Measure:
    """One column of a section: an entry for each of its systems.

    Attributes:
        title: The column's head: the name, and what a reader would get wrong otherwise.
    """

    name: str
    title: str
    scores: tuple[ScoreCell, ...]
    differences: tuple[DifferenceCell, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """The systems (rows) and measures (columns) of one kind.

    Attributes:
        labels: Which judge gave the numbers, or who judged the passages.
        against: Head of the differences: `vs bm25`; empty where nothing is compared.
        counts: How many items were scored, failed (by cause) and not applicable; bounds of the
            failed.
    """

    kind: Kind
    title: str
    labels: tuple[str, ...]
    systems: tuple[str, ...]
    measures: tuple[Measure, ...]
    against: str
    counts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate and its verdict.

    Attributes:
        worst: Where it did not pass: the id and the question of the worst, with their scores.
    """

    verdict: str
    gate: str
    system: str
    why: str
    worst: tuple[tuple[str, str], ...] = ()


GATE_HEADS = ("verdict", "gate", "system", "why")
COST_HEADS = ("system", "p50 ms", "p95 ms", "queries/s", "input tokens", "output tokens", "usd")
SLICE_HEADS = ("slice", "system", "measure", "queries", "difference", "p")


@dataclass(frozen=True, slots=True)
class Slices:
    """The slices that got worse, and what was tested, field by field.

    Attributes:
        rows: Cells under `SLICE_HEADS`.
    """

    rows: tuple[tuple[str, ...], ...]
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of text.

    Attributes:
        words: True where the cells are words, which stand left, not numbers.
    """

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: bool = False


@dataclass(frozen=True, slots=True)
class Chapter:
    """A part of a page that is text and tables of text: what a judge prefers, what runs changed.

    Attributes:
        labels: Sentences that have to be read with the tables.
    """

    title: str
    headlines: tuple[str, ...]
    labels: tuple[str, ...]
    grids: tuple[Grid, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """A whole page.

    Attributes:
        subject: Data set, counts and baseline in one line.
        headlines: The results in words, one sentence for each section; where there are gates, these
            first.
        gates: Undecided gates first.
        runs: Changes between several runs; None for one run.
        price: What the best systems take, beside what they are compared with; empty where it is
            unknown.
        doubts: What of the numbers not to trust, beyond the warnings: failed items, few queries, a
            judge whom no certificate vouches for.
        costs: Cells under `COST_HEADS`, `-` where a value is unknown; empty where all are.
        signatures: What each number depends on: measure (with the system where systems differ),
            signature.
    """

    name: str
    subject: str
    headlines: tuple[str, ...]
    run_id: str = ""
    gates: tuple[Gate, ...] = ()
    sections: tuple[Section, ...] = ()
    slices: Slices | None = None
    runs: Chapter | None = None
    preferences: tuple[Chapter, ...] = ()
    legend: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    price: str = ""
    doubts: tuple[str, ...] = ()
    costs: tuple[tuple[str, ...], ...] = ()
    signatures: tuple[tuple[str, str], ...] = ()
