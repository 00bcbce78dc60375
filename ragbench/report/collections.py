"""An experiment over several collections: systems x collections with the macro mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from ragbench.records.collections import CollectionsSummary, MacroMeasure, MacroScore
from ragbench.report import text as fmt
from ragbench.report.base import Chapter, Layout
from ragbench.report.ci import gate_text
from ragbench.report.headline import outcome_of, verdict_of
from ragbench.report.legend import mark_legend
from ragbench.report.results import chapter_report
from ragbench.report.table import (
    Block,
    Legend,
    Mark,
    Paragraph,
    Raw,
    Table,
    TableCell,
    TableColumn,
    TableReport,
    change,
    data_table,
    label,
    number,
    probability,
)
from ragbench.types.display import printable

_METHOD = (
    "macro mean: each collection has the same weight; its interval is for other queries in these "
    "collections, not for other collections",
    "difference: of the macro means, over the queries that both systems have; p: stratified "
    "randomization test, signs flip per query within its collection, adjusted over the comparisons "
    "by one measure",
)
# the method, on one screen of a run
_BRIEF_METHOD = (
    "macro mean: all collections weigh the same; verdicts are of one test over all their queries"
)
COLUMNS = (
    *("measure", "system", "collection", "mean", "low", "high"),
    *("baseline", "difference", "difference_low", "difference_high", "p", "p_adjusted"),
    *("mark", "verdict"),
)


def lay_out_collections(summary: CollectionsSummary) -> Layout:
    """Return the content of a page over several collections; its tables are in `runs`."""
    subject = fmt.counted(len(summary.runs), "collections")
    name, run_id = printable(summary.name), printable(summary.run_id)
    chapter = _lay_out(summary)
    signs = _legend(chapter.grids).entries
    return Layout(name, subject, chapter.headlines, run_id=run_id, runs=chapter, legend=signs)


def _lay_out(summary: CollectionsSummary, *, brief: bool = False) -> Chapter:
    """Return the chapter of an experiment over several collections."""
    first_of_kind: dict[str, MacroMeasure] = {}
    for measure in summary.measures:
        first_of_kind.setdefault(measure.kind, measure)
    leading = list(first_of_kind.values())
    names = [run.name for run in summary.runs]
    tables = []
    for measure in leading if brief else summary.measures:
        tables.append(_table(measure, names))
    headlines = tuple(_headlines(summary, leading)) or ("nothing was scored on every collection",)
    collections = f"collections: {fmt.listed([*map(printable, names)])}"
    labels = (collections, *_METHOD, *fmt.labelled("note", summary.notes))
    return Chapter("systems over the collections", headlines, labels, tuple(tables))


def _headlines(summary: CollectionsSummary, measures: list[MacroMeasure]) -> Iterator[str]:
    """Yield gates that did not pass and incomplete runs, then the best system by each measure."""
    # gates come before the best systems: a reader in CI looks for the reason of the exit code
    for run in summary.runs:
        for gate in run.gates:
            if gate.verdict != "pass":
                text = gate_text(gate, gate.why)
                yield f"gate {gate.verdict}: {printable(run.name)}: {text}"
        if not run.complete:
            yield printable(f"the run on {run.name} is incomplete")
    for measure in measures:
        means = {}
        for row in measure.systems:
            if row.mean is not None:
                means[row.system] = row.mean
        if measure.unlike is not None:
            yield f"{measure.measure}: systems are not compared, {printable(measure.unlike)}"
        elif means:
            best = (max if measure.direction == "higher" else min)(means.values())
            names = [printable(name) for name, mean in means.items() if mean == best]
            has = "has" if len(names) == 1 else "have"
            mean = fmt.significant(best)
            yield f"{measure.measure}: {fmt.listed(names)} {has} the best macro mean, {mean}"


def _mark(system: str, tied: Sequence[str]) -> Mark:
    """Return the mark of a system among those that are tied with the best one."""
    if system not in tied:
        return ""
    return "best" if len(tied) == 1 else "tied"


def _cells(measure: MacroMeasure, score: MacroScore, names: Sequence[str]) -> Iterator[TableCell]:
    """Yield the means of a system on the collections and their macro mean, with their marks."""
    for name in names:
        cell = number(score.means[name], score.intervals.get(name))
        yield replace(cell, mark=_mark(score.system, measure.tied.get(name, ())))
    cell = number(score.mean, score.interval)
    yield replace(cell, mark=_mark(score.system, measure.tied_with_best))


def _table(measure: MacroMeasure, names: Sequence[str]) -> Table:
    """Return the table of a measure: a row per system with its means and macro mean."""
    baselines = list(dict.fromkeys(row.baseline for row in measure.comparisons))
    rows = []
    for score in measure.systems:
        cells = [label(score.system), *_cells(measure, score, names)]
        if (test := measure.comparison_of(score.system)) is not None:
            verdict = verdict_of(test, measure.direction)
            cells += [change(test.difference, test.interval), probability(test.p_adjusted)]
            cells.append(TableCell(verdict, verdict, tone=outcome_of(test, measure.direction)))
        # rows have as many cells as heads, also for the baseline, which is not compared with itself
        elif measure.comparisons:
            word = "baseline" if score.system in baselines else ""
            cells += [TableCell(), TableCell(), label(word)]
        rows.append(tuple(cells))
    columns = [TableColumn("system")]
    for name in (*names, "macro mean"):
        columns.append(TableColumn(printable(name), "number", breaks=True))
    if measure.comparisons:
        # systems may have different baselines, and a head has room for one name
        against = printable(f"vs {baselines[0]}") if len(baselines) == 1 else "vs baseline"
        columns += [TableColumn(against, "number", breaks=True), TableColumn("p", "number")]
        columns.append(TableColumn("verdict"))
    better = "" if measure.direction == "higher" else " (lower is better)"
    return Table(tuple(columns), tuple(rows), f"{measure.measure}{better}")


def run_report(summary: CollectionsSummary, *, verbose: bool) -> TableReport:
    """Return the tables that a run prints; a brief one has the first measure of each kind."""
    chapter = _lay_out(summary, brief=not verbose)
    if not verbose:
        # words tell the verdicts, and the signs need a legend
        tables = []
        for table in chapter.grids:
            tables.append(table.with_cells(lambda cell: replace(cell, mark="")))
        ending = Paragraph((_BRIEF_METHOD, *fmt.labelled("note", summary.notes)))
        return TableReport((Paragraph(chapter.headlines), *tables, ending), _rows(summary))
    blocks: list[Block] = [Paragraph(chapter.headlines), *chapter.grids]
    blocks += [_legend(chapter.grids), Paragraph(chapter.labels, is_apart=True)]
    return TableReport(tuple(blocks), _rows(summary))


def collections_report(summary: CollectionsSummary) -> TableReport:
    """Return the tables of all measures, after the best system by each."""
    chapter = _lay_out(summary)
    report = chapter_report(printable(summary.name), chapter, _rows(summary))
    n_runs = fmt.counted(len(summary.runs), "collections")
    subject = f"{n_runs}, {fmt.percent(summary.confidence)} intervals"
    return replace(report, blocks=(*report.blocks, _legend(chapter.grids)), subject=subject)


def _legend(tables: Sequence[Table]) -> Legend:
    """Return the meaning of the marks in the tables; without entries if there are no marks."""
    marks = set()
    for table in tables:
        for cell in chain.from_iterable(table.rows):
            marks.add(cell.mark)
    return Legend(tuple(mark_legend(marks)))


def _rows(summary: CollectionsSummary) -> Table:
    """Return the scores for programs: a row per measure, system and collection."""
    rows: list[tuple[Raw, ...]] = []
    for measure in summary.measures:
        # the last row of a system has the macro mean, and it alone the difference
        for score in measure.systems:
            start = (measure.measure, score.system)
            for name, mean in score.means.items():
                ends = score.intervals.get(name) or (None, None)
                mark = _mark(score.system, measure.tied.get(name, ())) or None
                # tests on a collection are in its own run, and are not repeated here
                rows.append((*start, name, mean, *ends, *[None] * 6, mark, None))
            row = (*start, None, score.mean, *(score.interval or (None, None)))
            mark = _mark(score.system, measure.tied_with_best) or None
            if (test := measure.comparison_of(score.system)) is None:
                rows.append((*row, *[None] * 6, mark, None))
                continue
            ends = test.interval or (None, None)
            verdict = outcome_of(test, measure.direction)
            numbers = (test.difference, *ends, test.p, test.p_adjusted)
            rows.append((*row, test.baseline, *numbers, mark, verdict))
    return data_table(COLUMNS, rows)
