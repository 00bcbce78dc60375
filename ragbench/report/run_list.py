"""List of runs that `ragbench runs` prints, with the trends of their systems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ragbench.data.runs.run_list import RunEntry
from ragbench.report import text as fmt
from ragbench.report.formats import fit_screen
from ragbench.report.formats.base import Screen
from ragbench.report.runs import first_texts
from ragbench.report.table import (
    Block,
    Paragraph,
    Raw,
    Table,
    TableCell,
    TableColumn,
    TableReport,
    data_table,
    label,
    number,
)
from ragbench.report.trends import trends_of
from ragbench.types.display import printable

_LIST = (
    *(TableColumn("started"), TableColumn("name", breaks=True), TableColumn("run")),
    *(TableColumn("best", breaks=True), TableColumn("score", "number")),
    *(TableColumn("commit", breaks=True), TableColumn("changed since previous run", "words")),
)
LIST_COLUMNS = (
    *("run", "name", "started", "complete", "queries", "system", "score", "mean", "low", "high"),
    *("commit", "changed", "problem"),
)
_LISTED_CHANGES = 3  # of a run


def runs_report(entries: Sequence[RunEntry], folder: Path) -> TableReport:
    """Return the list of runs, unreadable runs and trends.

    `entries` are runs below `folder`, oldest first.
    """
    rows, problems, data_rows = [], [], []
    for entry in entries:
        data_rows.append(_data_row(entry, folder))
        if entry.problem is None:
            rows.append(_list_row(entry, folder))
        else:
            problem = printable(f"{place_of(entry, folder)}: {entry.problem}")
            problems.append(f"not a whole run: {problem}")
    blocks: list[Block] = []
    if rows:
        blocks.append(Table(_LIST, tuple(rows), keeps_rows=True))
    blocks.append(Paragraph(tuple(problems)))
    for trends in trends_of(entries):
        blocks.append(trends.table())
    return TableReport(tuple(blocks), data_table(LIST_COLUMNS, data_rows))


# Shorter and shorter screens: numbers of runs, of trends, and of systems in a trend.
_CUTS = ((20, 3, 5), (15, 3, 3), (10, 2, 3), (6, 2, 2), (4, 1, 2), (3, 1, 1), (2, 1, 1), (1, 0, 0))


def runs_screen(entries: Sequence[RunEntry], folder: Path, screen: Screen) -> TableReport:
    """Return the newest runs and trends on one screen of a terminal."""
    return fit_screen((_brief_runs(entries, folder, *cut) for cut in _CUTS), screen)


def _brief_runs(
    entries: Sequence[RunEntry], folder: Path, n_runs: int, n_trends: int, n_systems: int
) -> TableReport:
    """Return the newest runs and the trends of the newest experiments, without intervals."""
    has_commit = any(entry.commit for entry in entries)
    rows, problems = [], []
    for entry in entries[-n_runs:]:
        if entry.problem is not None:
            problems.append(
                f"not a whole run: {printable(place_of(entry, folder))}: {printable(entry.problem)}"
            )
            continue
        _, _, place, best, score, commit, changed = _list_row(entry, folder)
        commits = (commit,) if has_commit else ()
        rows.append((place, best, TableCell(score.text), *commits, changed))
    columns = [TableColumn("run"), TableColumn("best"), TableColumn("score", "number")]
    columns += [TableColumn("commit")] if has_commit else []
    table = Table((*columns, TableColumn("changed", "words")), tuple(rows))
    blocks: list[Block] = [table] if rows else []
    blocks.append(Paragraph(tuple(problems)))
    trends = trends_of(entries)
    for trend in trends[len(trends) - n_trends :]:
        blocks.append(replace(trend.table(), most=n_systems, more="more with --verbose"))
    counts = {"earlier runs": len(entries) - n_runs, "trends": len(trends) - n_trends}
    more = []
    for noun, n in counts.items():
        if n > 0:
            more.append(fmt.counted(n, noun))
    if more:
        blocks.append(Paragraph((f"more with --verbose: {fmt.listed(more)}",)))
    return TableReport(tuple(blocks), data_table((), ()))


def _list_row(entry: RunEntry, folder: Path) -> tuple[TableCell, ...]:
    """Return the cells of a readable run, under `_LIST`."""
    place = place_of(entry, folder) + ("" if entry.complete else " (incomplete)")
    score = TableCell("nothing scored")
    if entry.value is not None:
        value = number(entry.value.mean, entry.value.interval)
        score = replace(value, text=f"{printable(entry.score)} {value.text}")
    # ten characters of a commit are enough to find it
    best, commit = entry.system or fmt.MISSING, (entry.commit or fmt.MISSING)[:10]
    unchanged = "the first run" if entry.is_first else "nothing"
    changed = first_texts(entry.changed, _LISTED_CHANGES) or unchanged
    names = map(label, (entry.started, entry.name, place, best))
    return (*names, score, *map(label, (commit, changed)))


def _data_row(entry: RunEntry, folder: Path) -> tuple[Raw, ...]:
    """Return the values of a run, under `LIST_COLUMNS`; of an unreadable run most are missing."""
    place = place_of(entry, folder)
    if entry.problem is not None:
        return (place, *[None] * (len(LIST_COLUMNS) - 2), entry.problem)
    mean = None if entry.value is None else entry.value.mean
    interval = None if entry.value is None else entry.value.interval
    return (
        *(place, entry.name, entry.started, entry.complete, entry.queries),
        *(entry.system, entry.score, mean, *(interval or (None, None))),
        *(entry.commit, "; ".join(entry.changed) or None, None),
    )


def place_of(entry: RunEntry, folder: Path) -> str:
    """Return the path of a run relative to the listed folder; its name if it is that folder.

    Raises:
        ValueError: The run is not below the folder.
    """
    relative = entry.path.relative_to(folder)
    return str(relative) if relative.parts else entry.path.name
