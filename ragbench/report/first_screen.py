"""First screen of a run: the result in words, one table, lost questions, and what to do next."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from ragbench.records.summary import Summary
from ragbench.report import text as fmt
from ragbench.report.base import DifferenceCell, Layout, MeasureColumn, ScoreCell, Section
from ragbench.report.formats.base import Screen
from ragbench.report.formats.terminal import draw_table
from ragbench.report.headline import SURE
from ragbench.report.table import Table, TableCell, TableColumn, label
from ragbench.types.display import printable

# Sentences on further measures; the page and `--verbose` have all.
_MOST_SENTENCES = 2
# Head of a column of differences: `vs bm25`; a longer name stands in the row of the baseline.
_VERSUS = "vs "
_LONGEST_BASELINE = 24
# Head of the column of the text that a system reads for a question.
READ_HEAD = "characters read"
# characters of the name of a row on a terminal
_LONGEST_NAME = 30


def result_sentences(page: Layout, most: int = _MOST_SENTENCES) -> list[str]:
    """Return the first result, its noise, the counts of gates, and further results.

    These are `most`, and each that is sure; one reason why measures tell nothing follows. Fewer
    than two are without that reason, and without counts of gates if a gate did not pass, which has
    a line of its own.
    """
    n_counts = 1 if page.gates else 0
    results = []
    for line in page.headlines[n_counts:]:
        if line not in page.silent:
            results.append(line)
    first, further = results[:most], results[most:]
    sure = []
    for line in further:
        if any(word in line for word in SURE):
            sure.append(line)
    leads = filter(None, (page.lead, page.noise_sentence, page.purchase_sentence))
    is_brief = most < _MOST_SENTENCES
    has_counts = not is_brief or all(gate.verdict == "pass" for gate in page.gates)
    counts = page.headlines[:n_counts] if has_counts else ()
    return [*leads, *counts, *first, *sure, *(() if is_brief else page.silent[:1])]


def main_table(page: Layout, summary: Summary, screen: Screen) -> Table | None:
    """Return the table of the two main measures with their differences; None without a score.

    Intervals that do not fit the width are left out, those of the second measure first.
    """
    numbers = _main_numbers(page)
    if not numbers:
        return None
    systems = _systems(numbers, summary)
    readings = [_characters(names[0], summary) for names in systems]
    longest = _LONGEST_NAME if screen.is_terminal else sys.maxsize
    for n_intervals in (2, 1):
        table = _table(numbers, systems, readings, n_intervals, longest)
        if "" not in draw_table(table, screen):  # an empty line begins a further table
            return table
    return _table(numbers, systems, readings, 0, longest)


def footnote(table: Table | None, confidence: float) -> str:
    """Return the line on the intervals and differences of a table; empty without both."""
    if table is None:
        return ""
    parts = []
    if any(cell.interval for row in table.rows for cell in row):
        parts.append(f"[low, high]: {fmt.percent(confidence)} interval")
    if any(head.startswith(_VERSUS) for head in table.heads):
        parts.append("a difference without a word may be chance")
    return "; ".join(parts)


def next_commands(summary: Summary, run: str) -> list[str]:
    """Return the commands that show lost questions, and changes if the run has a ranking."""
    commands = [f"ragbench explain {run}"]
    if any(system.ranking_of is not None for system in summary.systems):
        commands.append(f"ragbench fix {run}")
    return commands


@dataclass(frozen=True, slots=True)
class _Number:
    """Main measure of a section, whose scores and differences are columns of the table."""

    section: Section
    column: MeasureColumn

    @property
    def differences(self) -> Sequence[DifferenceCell]:
        """Differences from the baselines; empty if nothing is compared."""
        return self.column.differences if self.section.against else ()

    def place(self, names: Sequence[str]) -> int | None:
        """Return the row of the first of some systems in the section; None without any."""
        rows = (self.section.systems.index(name) for name in names if name in self.section.systems)
        return next(rows, None)


def _main_numbers(page: Layout) -> list[_Number]:
    """Return the main measures of two sections, answers first, or two measures of a single one."""
    # a section that tells nothing comes last
    sections = sorted(page.sections, key=lambda s: (s.is_silent, s.kind != "generation"))
    numbers = []
    for section in sections[:2]:
        column = next(column for column in section.measures if column.name == section.main)
        numbers.append(_Number(section, column))
    if len(numbers) == 1:
        # a single section has room for its next measure
        further = (c for c in sections[0].measures if c.name != sections[0].main)
        numbers += [_Number(sections[0], column) for column in further][:1]
    return numbers


def _systems(numbers: Sequence[_Number], summary: Summary) -> list[tuple[str, ...]]:
    """Return the names under which each row has its numbers: its own, then its retriever's."""
    # controls have no row; the numbers of a retriever stand in the row of its pair, if it has one
    rows = []
    for system in summary.systems:
        parts = [system.name] if system.retriever is None else [system.name, system.retriever]
        names = dict.fromkeys(map(printable, parts))
        is_scored = any(number.place([printable(system.name)]) is not None for number in numbers)
        if is_scored and system.role != "control":
            rows.append(tuple(names))
    of_pairs = {retriever for _, *further in rows for retriever in further}
    return [names for names in rows if names[0] not in of_pairs]


def _characters(name: str, summary: Summary) -> float | None:
    """Return the characters that a system reads for a question; None if no report needs them."""
    for system in summary.systems:
        if printable(system.name) == name and system.reading is not None:
            return system.reading.characters
    return None


def _table(
    numbers: Sequence[_Number],
    systems: Sequence[tuple[str, ...]],
    readings: Sequence[float | None],
    n: int,
    longest: int,
) -> Table:
    """Return the table of all systems; the first `n` measures have intervals."""
    names = [names[0] for names in systems]
    short_names = [_short(name, longest) for name in names]
    if len({*short_names}) < len({*names}):  # two cut names are equal
        short_names = names
    columns, cells = [TableColumn("")], [[*map(label, short_names)]]
    for position, number in enumerate(numbers):
        columns.append(TableColumn(number.column.title, "number", breaks=True))
        places = [number.place(names) for names in systems]
        cells.append([_score(number.column.scores, p, position < n) for p in places])
        if number.differences:
            against = number.section.against
            if len(against) > len(_VERSUS) + _LONGEST_BASELINE:
                against = f"{_VERSUS}baseline"
            columns.append(TableColumn(against, "number"))
            cells.append([_difference(number.differences, place) for place in places])
    if any(readings):
        columns.append(TableColumn(READ_HEAD, "number", breaks=True))
        cells.append([TableCell(f"{n:,.0f}" if n else fmt.MISSING, n) for n in readings])
    return Table(tuple(columns), tuple(zip(*cells, strict=True)))


def _short(name: str, longest: int) -> str:
    """Return a name with `...` in place of its middle, if it is too long."""
    n_end = (longest - 3) // 2
    return name if len(name) <= longest else f"{name[:n_end]}...{name[-n_end:]}"


def _score(scores: Sequence[ScoreCell], place: int | None, has_interval: bool) -> TableCell:
    """Return the mean in a row, with its interval or without; `-` without a row."""
    if place is None:
        return TableCell(fmt.MISSING)
    cell = scores[place]
    return TableCell(cell.text, cell.value, cell.interval if has_interval else "")


def _difference(cells: Sequence[DifferenceCell], place: int | None) -> TableCell:
    """Return the difference in a row, with its verdict if there is one: `-0.128 worse`."""
    if place is None:
        return TableCell()
    cell = cells[place]
    if cell.outcome in ("baseline", "identical"):
        return TableCell(cell.outcome)
    is_sure = cell.outcome in ("better", "worse") and not cell.needs_correction
    return TableCell(f"{cell.value} {cell.outcome}" if is_sure else cell.value, tone=cell.outcome)
