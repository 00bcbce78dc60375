"""Chapter on slices of the queries: scores and causes of each slice, and slices that got worse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, product

from ragbench.records.comparison import Comparisons, SliceDifference
from ragbench.records.summary import Summary
from ragbench.report import text as fmt
from ragbench.report.base import Chapter
from ragbench.report.causes import judged_scores
from ragbench.report.score_counts import Scores
from ragbench.report.sections import Group
from ragbench.report.table import (
    Table,
    TableCell,
    TableColumn,
    change,
    count,
    label,
    number,
    number_table,
    probability,
)
from ragbench.types.display import printable
from ragbench.types.lookups import group_by

# Rows of a table of slices in the terminal and on the page, for all systems together
_SLICE_ROWS, _PAGE_ROWS = 12, 400


def slice_tables(
    summary: Summary, groups: Mapping[Group, Scores], *, narrow: bool
) -> Iterator[Table]:
    """Yield a table for each field: a row per slice and system with its scores and causes."""
    systems = []
    for system in summary.systems:
        if system.causes_by and system.role != "control":
            systems.append(system)
    has_causes = len(judged_scores(systems)) < len(systems)
    firsts = []  # the first measure of each section
    for scores in groups.values():
        firsts += list(next(iter(scores.values())))[:1]
    measures = list(dict.fromkeys(firsts))
    for field in dict.fromkeys(chain.from_iterable(system.causes_by for system in systems)):
        # on a page of several runs, a system may lack the slices of others
        slices: dict[str, None] = {}
        for system in systems:
            slices |= dict.fromkeys(system.causes_by.get(field, {}))
        names = list(slices)
        # the last ones are the newest of a time
        last = names[-max(2, (_SLICE_ROWS if narrow else _PAGE_ROWS) // len(systems)) :]
        rows = []
        for name, system in product(last, systems):
            if (counts := system.causes_by.get(field, {}).get(name)) is None:
                continue
            by_measure = system.scores_by.get(field, {}).get(name, {})
            cells = [label(name), label(system.name)]
            for measure in measures:
                score = by_measure.get(measure)
                cells.append(
                    number(score.mean, score.interval) if score else TableCell(fmt.MISSING)
                )
            lost = [label(fmt.cause_sentence(counts))] if has_causes else []
            rows.append((*cells, *lost))
        cut = f", the last {len(last)} of {len(names)}" if len(last) < len(names) else ""
        columns = [TableColumn("slice"), TableColumn("system")]
        for measure in measures:
            columns.append(TableColumn(printable(measure), "number", breaks=True))
        if has_causes:
            columns.append(TableColumn("where answers are lost", "words", breaks=True))
        yield Table(tuple(columns), tuple(rows), f"by {printable(field)}{cut}")


# Slices in the report; comparisons.json has all of them.
MOST_ROWS = 10


def build_slices(comparisons: Comparisons, grids: tuple[Table, ...]) -> Chapter | None:
    """Return the chapter of the slices: their scores, and those that got worse.

    `grids` are the tables of the scores, which come first. Rows are sorted by p-value, at most 10;
    of equal p-values the largest loss comes first. A line per field has the number of slices, and
    the names of slices with too few queries for a test.
    """
    rows, lines = comparisons.slices, list[str]()
    worse = []
    for row in rows:
        if row.worse and row.difference is not None:
            worse.append(row)
    # equal p-values by the size of the loss
    worse.sort(key=lambda row: (row.p_adjusted or 0.0, -abs(row.difference or 0.0)))
    if len(worse) > MOST_ROWS:
        lines.append(f"{len(worse) - MOST_ROWS} more that got worse are in comparisons.json")
    for field, of_field in group_by(rows, lambda row: row.field).items():
        lines.append(_field_line(field, of_field))
    if rows:
        lines.append(
            f"'worse' is one-sided, with max-T over the slices of one field "
            f"({fmt.percent(comparisons.confidence or 0.95)}); the measures, systems and fields "
            "are not corrected for each other"
        )
    cells = []
    for row in worse[:MOST_ROWS]:
        names = map(label, (f"{row.field}: {row.slice}", row.system, row.measure))
        difference = change(row.difference or 0.0, row.interval)
        cells.append((*names, count(row.n), difference, probability(row.p_adjusted)))
    if cells:
        heads = ("slice", "system", "measure", "queries", "difference", "p")
        caption = "slices where a system got worse than its baseline"
        grids += (number_table(heads, cells, caption, n_names=3),)
    return Chapter("slices", (), tuple(lines), grids) if lines or grids else None


def _field_line(field: str, rows: Sequence[SliceDifference]) -> str:
    """Return a line on a field: the number of slices that got worse, 5 names of untested ones."""
    slices, tested, worse = dict[str, None](), set(), set()
    for row in rows:
        slices[row.slice] = None
        if row.worse is not None:
            tested.add(row.slice)
        if row.worse:
            worse.add(row.slice)
    untested = []
    for name in slices:
        if name not in tested:
            untested.append(printable(name))
    line = f"{printable(field)}: {fmt.counted(len(slices), 'slices')}, {len(worse) or 'none'} worse"
    if not untested:
        return line
    names = ", ".join(untested[:5]) + (", ..." if len(untested) > 5 else "")
    return f"{line}; not tested, too few queries (under 20): {names}"
