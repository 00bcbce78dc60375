"""Content of a report: tables and sentences that all formats share, before they are drawn.

Every text in these records is one printable line; a renderer escapes it for its format and adds
only layout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ragbench.records.gate import Decision
from ragbench.records.score import Kind, SystemScore
from ragbench.report.table import Table, TableCell

# Verdict of the comparison with the baseline; empty without a test.
Outcome = Literal["better", "worse", "not shown", "identical", "not compared", "baseline", ""]


@dataclass(frozen=True, slots=True)
class ScoreCell(TableCell):
    """Table cell with the score of a system by a measure.

    Attributes:
        score: Record of the score; None if the system has no such score.
    """

    score: SystemScore | None = None

    @property
    def mean(self) -> float | None:
        """Mean as a number; None if nothing was scored."""
        return self.value if isinstance(self.value, int | float) else None


# Words behind a verdict where only the correction for several comparisons stands between.
AFTER_CORRECTION = "after correction"


@dataclass(frozen=True, slots=True)
class DifferenceCell:
    """Table cell with the difference of a system from its baseline by a measure.

    Attributes:
        outcome: Verdict of the comparison: `better`, `worse`, `not shown`, `identical` or `not
            compared`; `baseline` for the baseline itself; empty without a test.
        value: Difference with its sign; `-` if it was not compared with its baseline; empty for a
            system without a baseline.
        interval: `[low, high]` with signs; empty without an interval.
        p: Adjusted p-value as text; `-` if a sequential test of a judge decides, which has no
            p-value; empty without a comparison.
        needs_correction: True if only the correction for several comparisons stands between.
    """

    outcome: Outcome = ""
    value: str = ""
    interval: str = ""
    p: str = ""
    needs_correction: bool = False

    @property
    def verdict(self) -> str:
        """Verdict as tables show it: the outcome, with the part of the correction."""
        return f"{self.outcome} {AFTER_CORRECTION}" if self.needs_correction else self.outcome

    @property
    def text(self) -> str:
        """Whole cell: `+0.044 [+0.023, +0.066], p 0.0006: better`; without a test, a part of it."""
        # without a test there is only a verdict such as "baseline", or the value
        if not self.p and not self.interval:
            return self.verdict or self.value
        numbers = " ".join(filter(None, [self.value, self.interval]))
        numbers += f", p {self.p}" if self.p else ""
        return numbers + (f": {self.verdict}" if self.verdict else "")


@dataclass(frozen=True, slots=True)
class MeasureColumn:
    """Column of a section: a measure with a cell for each system.

    Attributes:
        name: Name of the measure.
        title: Head of the column: the name with remarks such as `lower is better`.
        scores: Cell of each system, in the order of the section.
        differences: Difference of each system from its baseline, in the same order; empty if they
            are left out.
    """

    name: str
    title: str
    scores: tuple[ScoreCell, ...]
    differences: tuple[DifferenceCell, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """Table of the scores of one kind: systems are rows, measures are columns.

    Attributes:
        kind: Kind of the scores: retrieval, generation or judge.
        title: Heading of the table.
        labels: Sentences above the table: the judge of the scores, or of the passages.
        systems: Names of the systems.
        measures: Columns of the table.
        against: Head of the differences: `vs bm25`; empty if nothing is compared.
        counts: Lines with the numbers of scored, failed (by cause) and not applicable items, and
            the bounds of means with failed items.
        main: Name of the measure that the sentence on the section is about, else of its first one
            with a mean, else of its first one.
        is_silent: True if no measure of the section tells the systems apart.
    """

    kind: Kind
    title: str
    labels: tuple[str, ...]
    systems: tuple[str, ...]
    measures: tuple[MeasureColumn, ...]
    against: str
    counts: tuple[str, ...]
    main: str = ""
    is_silent: bool = False


@dataclass(frozen=True, slots=True)
class Chapter:
    """Part of a report with sentences and tables, such as preferences or changes between runs.

    Attributes:
        title: Heading.
        headlines: Results in words.
        labels: Sentences above the tables that explain them.
        grids: The tables.
    """

    title: str
    headlines: tuple[str, ...]
    labels: tuple[str, ...]
    grids: tuple[Table, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Content of a whole report, which the renderers of all formats draw; `lay_out` creates it.

    Attributes:
        name: Name of the experiment.
        subject: Data set, counts and baseline in one line.
        lead: Sentence on the best systems, the user's first, with numbers of right answers. It
            stands first; empty without scores, and on a page of several runs.
        silent: Sentences on measures that tell nothing, which `headlines` have too.
        lost: Sentence on the causes of the questions that the first system lost; empty without any.
        headlines: Results in words: counts of gate verdicts first, then a sentence per section.
        run_id: Id of the run; empty for a comparison of runs.
        gates: Decisions as printable texts, undecided ones first. `why` has the means, too; a gate
            that passed has no worst queries.
        sections: Tables of scores.
        slices: Scores and causes in each slice, and the slices that got worse; None without slices.
        runs: Changes between several runs; None for one run.
        preferences: A chapter for each pairwise rubric.
        audit: Audit of the test set; None if the run made none.
        fixes: Changes that stored rankings can price; None without judgements.
        lowest: Lowest answers by a judge; None where causes tell which answers are right.
        noise: Noise of repeated systems; None if nothing was repeated.
        noise_sentence: The noise of the first system of `lead`; empty without repeats.
        purchase_sentence: Purchases that narrow its interval; empty without repeats.
        legend: Sign and meaning of each sign in the tables.
        notes: Remarks of the run.
        warnings: Problems of the run.
        price: Latency, tokens and cost of the best systems and their baselines; empty if unknown.
        doubts: Reasons to distrust a number, besides the warnings: failed items, few queries, a
            judge without a certificate.
        details: Counts and bounds of the scores of each section, then time, tokens and cost unless
            all are unknown, then the signatures.
    """

    name: str
    subject: str
    headlines: tuple[str, ...]
    lead: str = ""
    lost: str = ""
    silent: tuple[str, ...] = ()
    run_id: str = ""
    gates: tuple[Decision, ...] = ()
    sections: tuple[Section, ...] = ()
    slices: Chapter | None = None
    runs: Chapter | None = None
    preferences: tuple[Chapter, ...] = ()
    audit: Chapter | None = None
    fixes: Chapter | None = None
    lowest: Chapter | None = None
    noise: Chapter | None = None
    noise_sentence: str = ""
    purchase_sentence: str = ""
    legend: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    price: str = ""
    doubts: tuple[str, ...] = ()
    details: tuple[Table, ...] = ()
