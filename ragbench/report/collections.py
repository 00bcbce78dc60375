"""An experiment over several collections: systems x collections with the macro mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ragbench.data.runs.run_folder import to_csv
from ragbench.records.collections import CollectionsSummary, MacroMeasure
from ragbench.report import text as fmt
from ragbench.report.base import Chapter, Grid, Layout
from ragbench.report.ci import gate_text
from ragbench.report.headline import verdict_of
from ragbench.report.latex import LATEX_COLUMNS, LATEX_PACKAGES, escape_latex, latex_table
from ragbench.report.markdown import render_chapter
from ragbench.types.display import printable

_METHOD = (
    "macro mean: each collection has the same weight; its interval is for other queries in these "
    "collections, not for other collections",
    "difference: of the macro means, over the queries that both systems have; p: stratified "
    "randomization test, signs flip per query within its collection, adjusted over the comparisons "
    "by one measure",
)
CSV_COLUMNS = (
    *("measure", "system", "collection", "mean", "low", "high"),
    *("baseline", "difference", "difference_low", "difference_high", "p", "p_adjusted"),
)


def lay_out_collections(summary: CollectionsSummary) -> Layout:
    """Return the content of the page of an experiment over several collections.

    Its tables are in the chapter `runs`; it has no sections.
    """
    subject = fmt.counted(len(summary.runs), "collections")
    name, run_id = printable(summary.name), printable(summary.run_id)
    chapter = _lay_out(summary)
    return Layout(name, subject, chapter.headlines, run_id=run_id, runs=chapter)


def _lay_out(summary: CollectionsSummary, *, brief: bool = False) -> Chapter:
    """Return the chapter of an experiment over several collections.

    Args:
        summary: The experiment.
        brief: Keep the table of the first measure of each kind only.
    """
    # reversed, since the last entry of a key stays: the first measure of a kind wins
    first = {measure.kind: measure for measure in reversed(summary.measures)}
    # a list over the measures, not the dict: the order of kinds would be reversed, too
    leading = [measure for measure in summary.measures if measure is first[measure.kind]]
    grids = tuple(_grid(measure, summary) for measure in (leading if brief else summary.measures))
    headlines = tuple(_headlines(summary, leading)) or ("nothing was scored on every collection",)
    names = fmt.listed([printable(run.name) for run in summary.runs])
    labels = (f"collections: {names}", *_METHOD, *(f"note: {note}" for note in summary.notes))
    return Chapter("systems over the collections", headlines, labels, grids)


def _headlines(summary: CollectionsSummary, measures: list[MacroMeasure]) -> Iterator[str]:
    """Yield gates that did not pass and incomplete runs, then the best system by each measure.

    A measure without a macro mean is left out.
    """
    # gates come before the best systems: a reader in CI looks for the reason of the exit code
    for run in summary.runs:
        for gate in run.gates:
            if gate.verdict != "pass":
                text = gate_text(gate, gate.why)
                yield f"gate {gate.verdict}: {printable(run.name)}: {text}"
        if not run.complete:
            yield printable(f"the run on {run.name} is incomplete")
    for measure in measures:
        means = {row.system: row.mean for row in measure.systems if row.mean is not None}
        if measure.unlike is not None:
            yield f"{measure.measure}: systems are not compared, {printable(measure.unlike)}"
        elif means:
            best = (max if measure.direction == "higher" else min)(means.values())
            names = [printable(name) for name, mean in means.items() if mean == best]
            has = "has" if len(names) == 1 else "have"
            mean = fmt.significant(best)
            yield f"{measure.measure}: {fmt.listed(names)} {has} the best macro mean, {mean}"


def _grid(measure: MacroMeasure, summary: CollectionsSummary) -> Grid:
    """Return the table of a measure: a row per system with its means and macro mean.

    If systems were compared, each has its difference, p and verdict too; the verdict of a baseline
    is `baseline`, and its other cells are empty.
    """
    names = [run.name for run in summary.runs]
    compared = {row.system: row for row in measure.comparisons}
    baselines = list(dict.fromkeys(row.baseline for row in measure.comparisons))
    # systems may have different baselines, and a head has room for one name
    against = printable(f"vs {baselines[0]}") if len(baselines) == 1 else "vs baseline"
    rows = []
    for row in measure.systems:
        cells = [printable(row.system), *(fmt.significant(row.means[name]) for name in names)]
        cells.append(fmt.with_interval(row.mean, row.interval))
        if (test := compared.get(row.system)) is not None:
            value, ends = fmt.MISSING, ""
            if test.difference is not None:
                value, ends = fmt.difference(test.difference, test.interval)
            verdict = verdict_of(test, measure.direction)
            cells += [f"{value} {ends}".rstrip(), fmt.probability(test.p_adjusted), verdict]
        # rows have as many cells as heads, also for the baseline, which is not compared with itself
        elif compared:
            cells += ["", "", "baseline" if row.system in baselines else ""]
        rows.append(tuple(cells))
    heads = [
        "system",
        *map(printable, names),
        "macro mean",
        *([against, "p", "verdict"] if compared else []),
    ]
    better = "" if measure.direction == "higher" else " (lower is better)"
    return Grid(f"{measure.measure}{better}", tuple(heads), tuple(rows))


def render_terminal(summary: CollectionsSummary, *, verbose: bool) -> str:
    """Return the tables as text; without `verbose` those of the first measure of each kind.

    The text ends with a line end.
    """
    chapter = _lay_out(summary, brief=not verbose)
    lines = [*chapter.headlines]
    for grid in chapter.grids:
        lines += fmt.grid_lines(grid)
    return "\n".join([*lines, "", *chapter.labels]) + "\n"


def render_markdown(summary: CollectionsSummary) -> str:
    """Return the tables of all measures as Markdown, with a line end at the end."""
    return render_chapter(printable(summary.name), _lay_out(summary))


def render_csv(summary: CollectionsSummary) -> str:
    """Return the scores as CSV with all digits: a row per measure, system and collection.

    The last row of a system has the macro mean; its collection is empty, and it alone has an
    interval and the difference.
    """
    rows: list[list[str | float | None]] = []
    for measure in summary.measures:
        compared = {row.system: row for row in measure.comparisons}
        for score in measure.systems:
            # intervals and tests of a collection are in its own run, and are not repeated here
            empty = [None] * (len(CSV_COLUMNS) - 4)
            rows += [
                [measure.measure, score.system, name, mean, *empty]
                for name, mean in score.means.items()
            ]
            test = compared.get(score.system)
            row = [measure.measure, score.system, None, score.mean, *(score.interval or [None] * 2)]
            if test is None:
                rows.append([*row, *[None] * 6])
            else:
                ends = test.interval or (None, None)
                row += [test.baseline, test.difference, *ends, test.p, test.p_adjusted]
                rows.append(row)
    return to_csv(CSV_COLUMNS, rows)


def render_latex(summary: CollectionsSummary) -> str:
    """Return LaTeX tables for each measure, with booktabs rules.

    A table has at most 3 columns of scores, which fit the page of the class `article` beside the
    systems. The comparison with the baseline is the last table of a measure.
    """
    about = f"{fmt.counted(len(summary.runs), 'collections')}, {summary.confidence:.0%} intervals."
    n_scores = len(summary.runs) + 1  # the macro mean stands behind the collections
    tables = []
    for grid in _lay_out(summary).grids:
        systems, *columns = zip(grid.heads, *grid.rows, strict=True)
        scores, tests = columns[:n_scores], columns[n_scores:]
        parts = [scores[n : n + LATEX_COLUMNS] for n in range(0, len(scores), LATEX_COLUMNS)]
        for part in [*parts, tests] if tests else parts:
            heads, *rows = zip(systems, *part, strict=True)
            cells = (map(escape_latex, row) for row in rows)
            tables.append(latex_table(heads, cells, f"{grid.caption}: {about}"))
    return "\n".join([LATEX_PACKAGES, *tables])


RENDERERS: Mapping[str, Callable[[CollectionsSummary], str]] = {
    "latex": render_latex,
    "csv": render_csv,
    "markdown": render_markdown,
}
