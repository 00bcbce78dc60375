"""The neutral tables of a comparison, before anyone decides how they look."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ragbench.records.comparison import ComparedGate, ComparedRuns, MeasureComparison
from ragbench.report.headline import nothing_told, outcome_of
from ragbench.report.legend import NOT_COMPARED, interval_and_p, p_meaning
from ragbench.report.sections import Scores, count_lines
from ragbench.report.text import (
    MISSING,
    counted,
    difference,
    interval,
    listed,
    percent,
    printable,
    probability,
    significant,
)

DIFFERENCE_HEADS = (
    *("measure", "system", "against", "difference", "interval", "p", "verdict", "n", "changed"),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One system's value by one measure."""

    value: str
    """Three significant digits; `-` where nothing was scored."""
    marks: tuple[str, ...] = ()
    """Letters of the systems that it is significantly better than."""
    interval: str = ""
    """`[low, high]`; empty where there is none."""
    best: bool = False
    """Whether no other of its measure is better."""


@dataclass(frozen=True, slots=True)
class Block:
    """Systems (rows) with the same measures (columns): the rankings, or the answers."""

    letters: tuple[str, ...]
    """One for each system."""
    systems: tuple[str, ...]
    measures: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]
    """A row of cells for each system."""
    counts: tuple[str, ...]
    """How many items were scored, failed and not applicable."""


@dataclass(frozen=True, slots=True)
class Page:
    """A whole comparison as text."""

    subject: str
    """What was compared with what, over how many queries."""
    silent: tuple[str, ...]
    """Which measures tell nothing, and why."""
    gates: tuple[ComparedGate, ...]
    """The verdicts, undecided ones first."""
    blocks: tuple[Block, ...]
    differences: tuple[tuple[str, ...], ...]
    """Rows under `DIFFERENCE_HEADS`."""
    legend: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


def lay_out_comparison(comparison: ComparedRuns) -> Page:
    """Turn a comparison into tables of text, one printable line a cell."""
    order = ("undecided", "fail", "pass")
    gates = sorted(comparison.gates, key=lambda gate: order.index(gate.verdict))
    return Page(
        subject=_subject(comparison),
        silent=tuple(nothing_told(comparison.measures)),
        gates=tuple(gates),
        blocks=tuple(_blocks(comparison)),
        differences=tuple(_differences(comparison)),
        legend=tuple(_legend(comparison)),
        notes=tuple(printable(note) for note in comparison.notes),
    )


def gate_line(gate: ComparedGate) -> str:
    """Write a verdict in one line: `gate fail: map drop > 0.01 (dense): -0.2 [-0.3, -0.1] ...`."""
    system = f" ({printable(gate.system)})" if gate.system else ""
    return f"gate {gate.verdict}: {printable(gate.gate)}{system}: {printable(gate.why)}"


def _subject(comparison: ComparedRuns) -> str:
    base, *others = map(printable, comparison.sources)
    queries = counted(comparison.queries, "queries")
    differing = {query for each in comparison.differing.values() for query in each}
    if differing:
        common = counted(comparison.queries + len(differing), "common queries")
        queries = f"{comparison.queries} of {common} (left out, as they differ: {len(differing)})"
    if others:
        return f"{listed(others)} against {base}: {queries}, paired"
    return f"{base}: its systems against {printable(comparison.baseline)}: {queries}, paired"


def _blocks(comparison: ComparedRuns) -> Iterator[Block]:
    systems = {system.name: system for system in comparison.systems}
    groups: dict[tuple[str, ...], list[MeasureComparison]] = {}
    for family in comparison.measures:
        having = [name for name, s in systems.items() if family.measure in s.scores]
        groups.setdefault(tuple(having), []).append(family)
    letters = {name: system.letter for name, system in systems.items()}
    for names, families in groups.items():
        measures = [family.measure for family in families]
        scores = {name: systems[name].scores for name in names}
        yield Block(
            letters=tuple(letters[name] for name in names),
            systems=tuple(map(printable, names)),
            measures=tuple(_title(family) for family in families),
            cells=tuple(
                tuple(_cell(scores, name, family, letters) for family in families) for name in names
            ),
            counts=tuple(count_lines(scores, measures)),
        )


def _title(family: MeasureComparison) -> str:
    lower = " (lower is better)" if family.direction == "lower" else ""
    return printable(family.measure) + lower


def _cell(scores: Scores, name: str, family: MeasureComparison, letters: Mapping[str, str]) -> Cell:
    measure = family.measure
    score = scores[name][measure]
    if score.mean is None:
        return Cell(MISSING)
    best = None if family.best is None else scores.get(family.best, {}).get(measure)
    better = family.better_than or {}
    return Cell(
        value=significant(score.mean),
        marks=tuple(letters[other] for other in better.get(name, ())),
        interval=interval(score.interval),
        best=best is not None and score.mean == best.mean,  # several where they are equal
    )


def _differences(comparison: ComparedRuns) -> Iterator[tuple[str, ...]]:
    for family in comparison.measures:
        for made in family.comparisons:
            names = (family.measure, made.system, made.baseline)
            value, ends = (
                (MISSING, "")
                if made.difference is None
                else difference(made.difference, made.interval)
            )
            outcome = outcome_of(made, family.direction)
            counts = (str(made.n), str(made.n_changed))
            p = probability(made.p_adjusted)
            yield (*map(printable, names), value, ends, p, outcome, *counts)


def _legend(comparison: ComparedRuns) -> Iterator[tuple[str, str]]:
    confidence = percent(comparison.confidence or 0.95)
    if any(any((family.better_than or {}).values()) for family in comparison.measures):
        text = "significantly better than the systems of these letters "
        yield "letters behind a value", f"{text}(max-T test over all pairs, {confidence})"
    if any(family.comparisons for family in comparison.measures):
        text = f"paired difference over the n queries that both have, {confidence} interval"
        if cluster := comparison.cluster:
            text += f"; queries with the same {printable(cluster)} are one unit"
        yield "difference", text
        yield "p", p_meaning(comparison)
        corrected = comparison.correction != "none"
        yield from interval_and_p(comparison.measures, corrected=corrected)
        yield "undecided", "no difference was shown, which is not equality"
    made = [c for family in comparison.measures for c in family.comparisons]
    if any(c.difference is None for c in made):
        yield NOT_COMPARED
