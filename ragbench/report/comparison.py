"""Report of `ragbench compare`: scores with letters, differences, and queries that moved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from ragbench.records import comparison as records
from ragbench.report import headline, legend
from ragbench.report import text as fmt
from ragbench.report.base import ScoreCell, Section
from ragbench.report.causes import cause_tables
from ragbench.report.runs import changed_lines, moved_causes, moved_table
from ragbench.report.score_counts import count_lines
from ragbench.report.sections import score_column, score_table
from ragbench.report.table import (
    LETTERS,
    Block,
    Fold,
    Heading,
    Legend,
    Paragraph,
    Raw,
    SentenceList,
    Table,
    TableCell,
    TableColumn,
    TableReport,
    change,
    count,
    data_table,
    label,
    probability,
)
from ragbench.types.display import printable
from ragbench.types.lookups import index_by_name

_DIFFERENCES = (
    *(TableColumn("measure"), TableColumn("system"), TableColumn("against", breaks=True)),
    *(TableColumn("difference", "number", breaks=True), TableColumn("interval", "number")),
    *(TableColumn("p", "number", breaks=True), TableColumn("verdict")),
    *(TableColumn("n", "number", breaks=True), TableColumn("changed", "number")),
)
COLUMNS = (
    *("measure", "system", "source", "baseline", "baseline_source", "mean", "baseline_mean"),
    *("difference", "low", "high", "p", "p_adjusted", "verdict", "n", "n_changed", "n_failed"),
    *("effect_size", "minimum_detectable", "direction", "n_baseline", "mark", "baseline_mark"),
)


def describe_subject(comparison: records.ComparedRuns) -> str:
    """Return the names of the compared runs, and the number of queries of the comparison.

    With one source, it names that and its baseline. An unpaired comparison has a number of queries
    for each run.
    """
    base, *rivals = map(printable, comparison.sources)
    if comparison.unpaired:
        size, *sizes = map(str, comparison.unpaired.values())
        noun = "query" if sizes == ["1"] else "queries"
        queries = f"{fmt.listed(sizes)} {noun} against {size}"
        return f"{fmt.listed(rivals)} against {base}: {queries}, unpaired, as the questions differ"
    queries = fmt.counted(comparison.queries, "queries")
    # a query whose text, judgements or gold differ between runs is not comparable
    if differing := {*chain.from_iterable(comparison.differing.values())}:
        common = fmt.counted(comparison.queries + len(differing), "common queries")
        queries = f"{comparison.queries} of {common} (left out: {len(differing)} that differ)"
    if rivals:
        return f"{fmt.listed(rivals)} against {base}: {queries}, paired"
    return f"{base}: its systems against {printable(comparison.baseline)}: {queries}, paired"


def _sections(comparison: records.ComparedRuns) -> Iterator[Section]:
    """Yield a table for each set of systems that share measures, such as rankings and answers."""
    systems = index_by_name(comparison.systems)
    groups: dict[tuple[str, ...], list[records.MeasureComparison]] = {}
    for family in comparison.measures:
        # systems with other measures, such as retrievers and generators, get tables of their own
        group = []
        for name, system in systems.items():
            if family.measure in system.scores:
                group.append(name)
        groups.setdefault(tuple(group), []).append(family)
    for names, families in groups.items():
        scores, labels = {}, []
        for name in names:
            scores[name] = systems[name].scores
            labels.append(f"{systems[name].letter} {printable(name)}")
        columns, kinds = [], []
        for family in families:
            column = score_column(family.measure, scores, family)
            cells = []
            for name, cell in zip(names, column.scores, strict=True):
                beaten = (family.better_than or {}).get(name, ())
                letters = "".join(systems[rival].letter for rival in beaten)
                cells.append(replace(cell, letters=letters))
            columns.append(replace(column, scores=tuple(cells)))
            kinds.append(family.kind or "scores")
        yield Section(
            kind=families[0].kind or "retrieval",
            title=fmt.listed(list(dict.fromkeys(kinds))),
            labels=(),
            systems=tuple(labels),
            measures=tuple(columns),
            against="",
            counts=tuple(count_lines(scores, [family.measure for family in families])),
        )


def _differences(comparison: records.ComparedRuns) -> Table:
    """Return the table of differences, a row per comparison in the order of the measures."""
    rows = []
    for family in comparison.measures:
        for row in family.comparisons:
            cell = change(row.difference, row.interval)
            outcome = headline.outcome_of(row, family.direction)
            verdict = headline.verdict_of(row, family.direction)
            n = f"{row.n}, {row.n_baseline}" if comparison.unpaired else str(row.n)
            cells = (
                replace(cell, interval=""),
                TableCell(cell.interval),
                probability(row.p_adjusted),
                TableCell(verdict, verdict, tone=outcome),
                label(n),
                count(None if comparison.unpaired else row.n_changed),
            )
            rows.append((*map(label, (family.measure, row.system, row.baseline)), *cells))
    return Table(_DIFFERENCES, tuple(rows))


def _legend(comparison: records.ComparedRuns) -> Iterator[tuple[str, str]]:
    """Yield sign and meaning of the signs that occur in the tables."""
    confidence = fmt.percent(comparison.confidence or 0.95)
    cells: list[ScoreCell] = []
    for section in _sections(comparison):
        for measure in section.measures:
            cells += measure.scores
    yield from legend.mark_meanings(cells, comparison)
    if any(cell.letters for cell in cells):
        text = "surely better than the systems of these letters "
        yield LETTERS, f"{text}({legend.ALL_PAIRS}, {confidence})"
    pairs = comparison.pairs()
    if pairs:
        text = f"paired, over the n queries that both have, {confidence} interval"
        if comparison.unpaired:
            text = f"of two means over different questions, {confidence} interval; "
            text += "another mix of questions may explain it"
        if cluster := comparison.cluster:
            text += f"; queries with the same {printable(cluster)} are one unit"
        yield "difference", text
        yield "p", legend.p_meaning(comparison)
        yield legend.NOT_SHOWN
    if (corrected := legend.corrected(comparison)) is not None:
        yield corrected
    if any(pair.difference is None for pair in pairs):
        yield legend.NOT_COMPARED


def comparison_report(comparison: records.ComparedRuns) -> TableReport:
    """Return the report of a comparison: subject and changes, then the tables.

    Raises:
        KeyError: A compared system is not among the systems of the record, or lacks the score.
    """
    subject = describe_subject(comparison)
    blocks: list[Block] = [Paragraph((subject,)), SentenceList(tuple(changed_lines(comparison)))]
    blocks.append(Paragraph(tuple(headline.nothing_told(comparison.measures))))
    for section in _sections(comparison):
        blocks += [Heading(section.title), score_table(section)]
    if (differences := _differences(comparison)).rows:
        # in a paper, letters behind the scores tell which differences are sure
        in_papers = not legend.has_all_pairs(comparison)
        blocks.append(
            replace(differences, caption="differences", keeps_rows=True, in_papers=in_papers)
        )
    for number, table in enumerate(cause_tables(comparison.systems)):
        if not number:
            blocks.append(Heading("where answers are lost"))
        blocks.append(replace(table, in_papers=False))
    for moved in comparison.moved:
        # after the tables: the verdicts matter first
        if moved.queries:
            table = moved_table(moved, comparison)
            blocks.append(Fold(table.caption, (replace(table, caption=""),)))
    if causes := moved_causes(comparison):
        blocks.append(Fold("causes that changed", (SentenceList(tuple(causes)),)))
    blocks.append(Legend(tuple(_legend(comparison))))
    notes = fmt.labelled("note", map(printable, comparison.notes))
    blocks.append(SentenceList(notes))
    return TableReport(tuple(blocks), _rows(comparison), _caption(comparison))


def _caption(comparison: records.ComparedRuns) -> str:
    """Return the number of queries and the test, for captions: the sources may be paths."""
    if comparison.unpaired:
        counts = fmt.listed([*map(str, comparison.unpaired.values())])
        return f"{counts} queries, unpaired, as the questions differ"
    queries = f"{fmt.counted(comparison.queries, 'queries')}, paired"
    if not legend.has_all_pairs(comparison):
        return queries
    return f"{queries}; {legend.p_meaning(comparison)}"


def _rows(comparison: records.ComparedRuns) -> Table:
    """Return the differences for programs, a row per comparison, measure by measure."""
    systems = index_by_name(comparison.systems)
    rows: list[tuple[Raw, ...]] = []
    for family in comparison.measures:
        name, sure = family.measure, "tied" if family.sure_best is None else "best"
        marks = dict.fromkeys(family.tied_with_best, sure)
        for row in family.comparisons:
            system, base = systems[row.system], systems[row.baseline]
            rows.append(
                (
                    *(name, system.system, system.source, base.system, base.source),
                    *(system.scores[name].mean, base.scores[name].mean),
                    *(row.difference, *(row.interval or (None, None)), row.p, row.p_adjusted),
                    headline.outcome_of(row, family.direction),
                    *(row.n, row.n_changed, row.n_failed),
                    *(row.effect_size, row.minimum_detectable, family.direction),
                    row.n if row.n_baseline is None else row.n_baseline,
                    *(marks.get(row.system), marks.get(row.baseline)),
                )
            )
    return data_table(COLUMNS, rows)
