"""First screen of `ragbench compare`: what is sure, the main measures, and causes that changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from ragbench.records.causes import RIGHT
from ragbench.records.comparison import ComparedRuns, Difference, MeasureComparison
from ragbench.records.score import SystemScore
from ragbench.report import text as fmt
from ragbench.report.comparison import COLUMNS, describe_subject
from ragbench.report.formats import fit_screen
from ragbench.report.formats.base import Screen
from ragbench.report.headline import nothing_told, outcome_of, verdict_of
from ragbench.report.runs import changed_lines, flows_of_answers
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

# Shorter and shorter screens: rows of the table, sure differences, changes of the config, and
# systems whose causes changed.
_CUTS = (
    *((99, 5, 5, 5), (12, 5, 3, 3), (8, 5, 3, 2), (8, 3, 2, 2), (5, 3, 2, 2), (5, 2, 2, 1)),
    *((3, 2, 2, 1), (2, 1, 2, 1), (2, 1, 2, 0), (1, 1, 0, 0)),
)
# systems that are named as not shown to be worse than the best one
_MOST_NAMES = 2


def screen_report(
    comparison: ComparedRuns, screen: Screen, *, has_all_measures: bool = False
) -> TableReport:
    """Return the best system, sure differences, a table of measures, and changed causes.

    `has_all_measures` shows all measures in the table; else it has one of each kind.
    """
    chosen = _first_measures(comparison)
    if has_all_measures:
        chosen = tuple(family.measure for family in comparison.measures)
    return fit_screen(map(partial(_report, comparison, chosen), _CUTS), screen)


def best_sentence(comparison: ComparedRuns) -> str:
    """Return the best of three or more systems, by the first measure of answers; '' without one.

    Example: best by right: a (runs/new) with 0.359; not shown to be worse: b (runs/new)
    """
    for family in sorted(comparison.measures, key=_order):
        scores = {}
        for system in comparison.systems:
            if family.measure in system.scores:
                scores[system.name] = system.scores[family.measure]
        if family.best is None or len(scores) < 3:
            continue
        rivals = [printable(name) for name in family.tied_with_best if name != family.best]
        ending = "surely better than all others"
        if rivals:
            n_more = len(rivals) - _MOST_NAMES
            names = [*rivals[:_MOST_NAMES], *([f"{n_more} more"] if n_more > 0 else [])]
            ending = f"not shown to be worse: {fmt.listed(names)}"
        mean = fmt.significant(scores[family.best].mean)
        return (
            f"best by {printable(family.measure)}: {printable(family.best)} with {mean}; {ending}"
        )
    return ""


def _order(family: MeasureComparison) -> tuple[bool, bool]:
    """Return a key that sorts `right` first, then other measures of answers."""
    return family.measure != RIGHT, family.kind != "generation"


def _report(
    comparison: ComparedRuns, chosen: Sequence[str], cut: tuple[int, int, int, int]
) -> TableReport:
    """Return a screen with a number of rows, sure differences, changes and systems."""
    n_rows, n_sure, n_changes, n_flows = cut
    head = filter(None, (best_sentence(comparison), describe_subject(comparison)))
    changes = _first(list(changed_lines(comparison)), n_changes, "more lines on changes")
    blocks: list[Block] = [Paragraph((*head, *changes))]
    # equal scores beside failures are not the same result
    ending = " where none failed" if _failed_line(comparison) else ""
    sentences = [f"{sentence}{ending}" for sentence in nothing_told(comparison.measures)]
    blocks.append(Paragraph((*sentences, *_sure_lines(comparison, n_sure))))
    if (table := _main_table(comparison, chosen)).rows:
        blocks.append(replace(table, most=n_rows, more="pairs: --verbose"))
    lines = list[str]()
    flows = list(flows_of_answers(comparison)) if len(comparison.runs) > 1 else []
    for flow in flows[:n_flows]:
        lines.append(fmt.flow_lines(flow)[0])
        lines.append(f"  {fmt.listed_queries(flow.moved_queries(), comparison.questions)}")
    if n_more := len(flows[n_flows:]):
        lines.append(f"causes of {fmt.counted(n_more, 'more systems')} changed: --verbose")
    blocks.append(Paragraph(tuple(lines), is_apart=True))
    notes = fmt.labelled("note", map(printable, comparison.notes))
    blocks.append(Paragraph((*_closing_lines(comparison, chosen), *notes)))
    return TableReport(tuple(blocks), data_table(COLUMNS, ()))


def _first(lines: Sequence[str], most: int, noun: str) -> list[str]:
    """Return the first lines, and a line with the number of the others."""
    n_more = len(lines[most:])
    return [*lines[:most], *([f"and {fmt.counted(n_more, noun)}: --verbose"] if n_more else [])]


def _pairs(comparison: ComparedRuns) -> Iterator[tuple[MeasureComparison, Difference]]:
    """Yield the comparisons of each measure with the difference of each pair of systems."""
    for family in comparison.measures:
        for pair in family.comparisons:
            yield family, pair


def _sure_lines(comparison: ComparedRuns, most: int) -> list[str]:
    """Return lines on the first sure differences, losses first, or one line without any."""
    lines: dict[str, list[str]] = {"worse": [], "better": []}
    for family, pair in _pairs(comparison):
        verdict = verdict_of(pair, family.direction)
        if verdict in lines:
            difference, ends = fmt.difference(pair.difference or 0.0, pair.interval)
            name, measure = printable(pair.system), printable(family.measure)
            lines[verdict].append(f"surely {verdict}: {name}, {measure} {difference} {ends}")
    of_all = [*lines["worse"], *lines["better"]]
    return _first(of_all, most, "more sure differences") or ["no difference is sure"]


def _main_table(comparison: ComparedRuns, chosen: Sequence[str]) -> Table:
    """Return some measures, a row for each pair whose values differ."""
    systems = index_by_name(comparison.systems)
    means = ("before", "after") if len(comparison.sources) > 1 else ("baseline", "value")
    columns = [TableColumn("measure"), TableColumn("system")]
    for head in (*means, "difference"):
        columns.append(TableColumn(head, "number"))
    rows = []
    for family, pair in _pairs(comparison):
        outcome, verdict = outcome_of(pair, family.direction), verdict_of(pair, family.direction)
        if family.measure not in chosen or outcome == "identical":
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
    return Table((*columns, TableColumn("")), tuple(rows))


def _mean(score: SystemScore, n_common: int) -> TableCell:
    """Return a mean, with its number of queries if the difference is over other ones."""
    cell = number(score.mean)
    return cell if score.n == n_common else replace(cell, text=f"{cell.text} (n {score.n})")


def _failed_line(comparison: ComparedRuns) -> str:
    """Return the failed items of each system, or answers of repeats, in its measure with most."""
    failures = []
    for system in comparison.systems:
        answers, items = system.answers, ""
        by_measure = [score.failed for score in system.scores.values()]
        if answers is not None:
            by_measure = [answers.failed.get(name, {}) for name in system.scores]
            items = f"{answers.asked} answers of "
        worst = max(by_measure, key=lambda failed: sum(failed.values()), default={})
        if n := sum(worst.values()):
            failures.append((n, f"{items}{printable(system.name)}{fmt.causes(worst.items())}"))
    return fmt.failed_line(failures)


def _first_measures(comparison: ComparedRuns) -> tuple[str, ...]:
    """Return the measure of each kind of score that the table has: `right`, else the first one."""
    first: dict[str, str] = {}
    for family in comparison.measures:
        if family.measure == RIGHT:
            first[family.kind or ""] = family.measure
        first.setdefault(family.kind or "", family.measure)
    return tuple(first.values())


def _closing_lines(comparison: ComparedRuns, chosen: Sequence[str]) -> Iterator[str]:
    """Yield the number of scores that the table leaves out, and the option that shows them."""
    failed = _failed_line(comparison)
    if failed:
        yield failed
    outcomes = [outcome_of(pair, "higher") for _, pair in _pairs(comparison)]
    words = {"identical": "identical where none failed" if failed else "identical"}
    for outcome in ("identical", "not compared"):
        if n := outcomes.count(outcome):
            yield f"{words.get(outcome, outcome)}: {n} of {len(outcomes)} pairs of scores"
    if "not shown" in outcomes:
        yield "a difference without a word may be chance"
    n_measures = len(comparison.measures) - len({*chosen})
    more = f"{fmt.counted(n_measures, 'more measures')} and " if n_measures > 0 else ""
    yield f"more with --verbose: {more}the moved questions"
