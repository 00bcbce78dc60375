"""First screen of `ragbench compare`: what is sure, the main measures, and causes that changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from ragbench.records.comparison import ComparedRuns, Difference, MeasureComparison
from ragbench.records.score import SystemScore
from ragbench.report import text as fmt
from ragbench.report.comparison import COLUMNS, describe_subject
from ragbench.report.formats import fit_screen
from ragbench.report.formats.base import Screen
from ragbench.report.headline import nothing_told, outcome_of, verdict_of
from ragbench.report.runs import changed_lines
from ragbench.report.table import (
    Block,
    Paragraph,
    Table,
    TableCell,
    TableColumn,
    TableReport,
    change,
    data_table,
    label,
    number,
)
from ragbench.types.display import printable
from ragbench.types.lookups import index_by_name

# Sure differences, and queries of a cause that changed, that have a line.
_MOST_LINES = 5


# Shorter and shorter screens: rows of the table.
_CUTS = (None, 12, 8, 5, 3)


def screen_report(comparison: ComparedRuns, screen: Screen) -> TableReport:
    """Return the sure differences, a table of one measure of each kind, and changed causes.

    Rows for programs are those of the whole report, which `--verbose` prints.
    """
    return fit_screen(map(partial(_report, comparison), _CUTS), screen)


def _report(comparison: ComparedRuns, most: int | None) -> TableReport:
    """Return a screen with a number of rows in the table; None for all."""
    blocks: list[Block] = [Paragraph((describe_subject(comparison), *changed_lines(comparison)))]
    blocks.append(Paragraph((*nothing_told(comparison.measures), *_sure_lines(comparison))))
    if (table := _main_table(comparison)).rows:
        blocks.append(replace(table, most=most, more="pairs: --verbose"))
    blocks.append(Paragraph(tuple(_cause_lines(comparison)), is_apart=True))
    notes = fmt.labelled("note", map(printable, comparison.notes))
    blocks.append(Paragraph((*_closing_lines(comparison), *notes)))
    return TableReport(tuple(blocks), data_table(COLUMNS, ()))


def _pairs(comparison: ComparedRuns) -> Iterator[tuple[MeasureComparison, Difference]]:
    """Yield the comparisons of each measure with the difference of each pair of systems."""
    for family in comparison.measures:
        for pair in family.comparisons:
            yield family, pair


def _sure_lines(comparison: ComparedRuns) -> Iterator[str]:
    """Yield a line for each sure difference, losses first, or one line if no difference is sure."""
    lines: dict[str, list[str]] = {"worse": [], "better": []}
    for family, pair in _pairs(comparison):
        verdict = verdict_of(pair, family.direction)
        if verdict in lines:
            difference, ends = fmt.difference(pair.difference or 0.0, pair.interval)
            name, measure = printable(pair.system), printable(family.measure)
            lines[verdict].append(f"surely {verdict}: {name}, {measure} {difference} {ends}")
    of_all = [*lines["worse"], *lines["better"]]
    yield from of_all[:_MOST_LINES] or ["no difference is sure"]
    if len(of_all) > _MOST_LINES:
        yield f"and {fmt.counted(len(of_all) - _MOST_LINES, 'more sure differences')}"


def _main_table(comparison: ComparedRuns) -> Table:
    """Return the first measure of each kind, a row for each pair whose values differ."""
    systems = index_by_name(comparison.systems)
    means = ("before", "after") if len(comparison.sources) > 1 else ("baseline", "value")
    heads = (
        *(TableColumn("measure"), TableColumn("system")),
        *(TableColumn(head, "number") for head in (*means, "difference")),
        TableColumn(""),
    )
    first = _first_measures(comparison)
    rows = []
    for family, pair in _pairs(comparison):
        outcome, verdict = outcome_of(pair, family.direction), verdict_of(pair, family.direction)
        is_shown = first.get(family.kind or "") == family.measure
        if not is_shown or outcome == "identical":
            continue
        rows.append(
            (
                *(label(family.measure), label(systems[pair.system].system)),
                _mean(systems[pair.baseline].scores[family.measure], pair.n),
                _mean(systems[pair.system].scores[family.measure], pair.n),
                change(pair.difference, pair.interval),
                TableCell("" if verdict == "not shown" else verdict, tone=outcome),
            )
        )
    return Table(heads, tuple(rows))


def _mean(score: SystemScore, n_common: int) -> TableCell:
    """Return a mean, with its number of queries if the difference is over other ones."""
    cell = number(score.mean)
    return cell if score.n == n_common else replace(cell, text=f"{cell.text} (n {score.n})")


def _failed_line(comparison: ComparedRuns) -> str:
    """Return the failed items of each system, in its measure with most; '' if none failed."""
    parts = []
    for system in comparison.systems:
        scores = system.scores.values()
        worst = max(scores, key=lambda score: score.n_failed, default=None)
        if worst is not None and worst.n_failed:
            causes = fmt.causes(worst.failed.items())
            parts.append(f"{worst.n_failed} of {printable(system.name)}{causes}")
    return f"failed: {', '.join(parts)}" if parts else ""


def _first_measures(comparison: ComparedRuns) -> Mapping[str, str]:
    """Return kind of score -> its measure in the table: `right`, else the first one."""
    first: dict[str, str] = {}
    for family in comparison.measures:
        if family.measure == "right":
            first[family.kind or ""] = family.measure
        first.setdefault(family.kind or "", family.measure)
    return first


def _cause_lines(comparison: ComparedRuns) -> Iterator[str]:
    """Yield a line for each system on answers that became right or wrong, with their queries."""
    for flow in comparison.causes if len(comparison.runs) > 1 else ():
        if not flow.moves:
            continue
        yield fmt.flow_lines(flow)[0]
        queries = dict.fromkeys(query for move in flow.moves for query in move.queries)
        yield f"  {fmt.listed_queries(list(queries), comparison.questions)}"


def _closing_lines(comparison: ComparedRuns) -> Iterator[str]:
    """Yield the number of scores that the table leaves out, and the option that shows them."""
    if failed := _failed_line(comparison):
        yield failed
    pairs = [pair for _, pair in _pairs(comparison)]
    outcomes = [outcome_of(pair, "higher") for pair in pairs]
    for outcome in ("identical", "not compared"):
        if n := outcomes.count(outcome):
            yield f"{outcome}: {n} of {len(pairs)} pairs of scores"
    if any(outcome == "not shown" for outcome in outcomes):
        yield "a difference without a word may be chance"
    n_measures = len(comparison.measures) - len(set(_first_measures(comparison).values()))
    yield f"{fmt.counted(n_measures, 'measures')} more, and the moved questions: --verbose"
