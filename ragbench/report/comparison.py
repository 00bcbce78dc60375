"""Output of `ragbench compare`: aligned text, CSV, Markdown, and LaTeX with booktabs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ragbench.data.runs.run_folder import to_csv
from ragbench.records import comparison as records
from ragbench.report import headline, legend
from ragbench.report import text as fmt
from ragbench.report.base import GATE_HEADS, SIGNS, Section
from ragbench.report.ci import gate_text
from ragbench.report.latex import LATEX_PACKAGES, section_tables
from ragbench.report.markdown import (
    escape,
    folded,
    join_blocks,
    list_lines,
    section_blocks,
    table_lines,
)
from ragbench.report.runs import changed_lines, moved_causes, moved_grid
from ragbench.report.sections import count_lines, score_column
from ragbench.report.terminal import score_tables
from ragbench.types.display import printable

DIFFERENCE_HEADS = (
    *("measure", "system", "against", "difference", "interval", "p", "verdict", "n", "changed"),
)

_LETTERS = "letters behind a value"

COLUMNS = (
    *("measure", "system", "source", "baseline", "baseline_source", "mean", "baseline_mean"),
    *("difference", "low", "high", "p", "p_adjusted", "verdict", "n", "n_changed", "n_failed"),
    *("effect_size", "minimum_detectable", "direction", "n_baseline"),
)


def gate_line(gate: records.ComparedGate) -> str:
    """Return a verdict in one line: `gate fail: map drop > 0.01 (dense): -0.2 [-0.3, -0.1] ...`."""
    return f"gate {gate.verdict}: {gate_text(gate, gate.why)}"


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
    if differing := {query for ids in comparison.differing.values() for query in ids}:
        common = fmt.counted(comparison.queries + len(differing), "common queries")
        queries = f"{comparison.queries} of {common} (left out: {len(differing)} that differ)"
    if rivals:
        return f"{fmt.listed(rivals)} against {base}: {queries}, paired"
    return f"{base}: its systems against {printable(comparison.baseline)}: {queries}, paired"


def _sections(comparison: records.ComparedRuns) -> Iterator[Section]:
    """Yield a table for each set of systems that share measures, such as rankings and answers.

    In the order of the measures.
    """
    systems = {system.name: system for system in comparison.systems}
    groups: dict[tuple[str, ...], list[records.MeasureComparison]] = {}
    for family in comparison.measures:
        # systems with other measures, such as retrievers and generators, get tables of their own
        group = tuple(name for name, s in systems.items() if family.measure in s.scores)
        groups.setdefault(group, []).append(family)
    for group, families in groups.items():
        scores = {name: systems[name].scores for name in group}
        columns = []
        for family in families:
            column = score_column(family.measure, scores, family)
            beaten = [(family.better_than or {}).get(name, ()) for name in group]
            letters = ("".join(systems[name].letter for name in names) for names in beaten)
            pairs = zip(column.scores, letters, strict=True)
            cells = tuple(replace(cell, letters=of_cell) for cell, of_cell in pairs)
            columns.append(replace(column, scores=cells))
        names = [family.measure for family in families]
        yield Section(
            kind=families[0].kind or "retrieval",
            title=fmt.listed(list(dict.fromkeys(family.kind or "scores" for family in families))),
            labels=(),
            systems=tuple(f"{systems[name].letter} {printable(name)}" for name in group),
            measures=tuple(columns),
            against="",
            counts=tuple(count_lines(scores, names)),
        )


def _differences(comparison: records.ComparedRuns) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each comparison, under `DIFFERENCE_HEADS`.

    In the order of the measures; nothing without comparisons.
    """
    for family in comparison.measures:
        for row in family.comparisons:
            change = (fmt.MISSING, "")
            if row.difference is not None:
                change = fmt.difference(row.difference, row.interval)
            p = fmt.probability(row.p_adjusted)
            verdict = (p, headline.verdict_of(row, family.direction))
            names = map(printable, (family.measure, row.system, row.baseline))
            unpaired = (f"{row.n}, {row.n_baseline}", fmt.MISSING)
            counts = unpaired if comparison.unpaired else (str(row.n), str(row.n_changed))
            yield (*names, *change, *verdict, *counts)


def _legend(comparison: records.ComparedRuns) -> Iterator[tuple[str, str]]:
    """Yield sign and meaning of the signs that occur in the tables."""
    confidence = fmt.percent(comparison.confidence or 0.95)
    cells = [c for section in _sections(comparison) for m in section.measures for c in m.scores]
    yield from legend.mark_meanings(cells, comparison)
    if any(cell.letters for cell in cells):
        text = "surely better than the systems of these letters "
        yield _LETTERS, f"{text}({legend.ALL_PAIRS}, {confidence})"
    if any(family.comparisons for family in comparison.measures):
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
    if any(c.difference is None for f in comparison.measures for c in f.comparisons):
        yield legend.NOT_COMPARED


def render_table(comparison: records.ComparedRuns, *, width: int = 100) -> str:
    """Return a comparison as aligned text: subject, changes and gates, then the tables.

    Measures that do not fit into `width`, the columns of the terminal, go into a further table. The
    text ends with a line end. Questions are cut at `width`.
    """
    lines = [describe_subject(comparison), *changed_lines(comparison)]
    lines += [
        *headline.nothing_told(comparison.measures),
        *map(gate_line, _sorted_gates(comparison)),
    ]
    for section in _sections(comparison):
        lines += ["", *score_tables(section, "system", width), *section.counts]
    if differences := list(_differences(comparison)):
        lines += ["", *fmt.draw(list(zip(DIFFERENCE_HEADS, *differences, strict=True)))]
    if lost := fmt.cause_lines(comparison.systems, width):
        lines += ["", "where answers are lost", *lost]
    for moved in comparison.moved:
        # after the tables: the verdicts matter first
        lines += fmt.grid_lines(moved_grid(moved, comparison), width) if moved.queries else []
    for line in moved_causes(comparison):
        lines.append(line[:width] if line.startswith("    ") else line)  # questions may be long
    lines += ["", *(f"{sign}: {meaning}" for sign, meaning in _legend(comparison))]
    lines += [f"note: {printable(note)}" for note in comparison.notes]
    return "\n".join(lines) + "\n"


def _sorted_gates(comparison: records.ComparedRuns) -> list[records.ComparedGate]:
    """Return the gates: undecided, failed, passed, each in their order; [] without gates."""
    order = ("undecided", "fail", "pass")
    return sorted(comparison.gates, key=lambda gate: order.index(gate.verdict))


def render_csv(comparison: records.ComparedRuns) -> str:
    """Return the differences as CSV with all digits, a row per comparison.

    Rows are in the order of the record, measure by measure. The header is `COLUMNS`; without
    comparisons it is all. A missing value is an empty cell. A text that a spreadsheet would run as
    a formula gets an apostrophe in front.

    Raises:
        KeyError: A compared system is not among the systems of the record, or lacks the score.
    """
    systems = {system.name: system for system in comparison.systems}
    rows: list[list[str | float | None]] = []
    for family in comparison.measures:
        name = family.measure
        for row in family.comparisons:
            system, base = systems[row.system], systems[row.baseline]
            rows.append(
                [
                    *(name, system.system, system.source, base.system, base.source),
                    *(system.scores[name].mean, base.scores[name].mean),
                    *(row.difference, *(row.interval or (None, None)), row.p, row.p_adjusted),
                    headline.outcome_of(row, family.direction),
                    *(None if n is None else str(n) for n in (row.n, row.n_changed, row.n_failed)),
                    *(row.effect_size, row.minimum_detectable, family.direction),
                    str(row.n if row.n_baseline is None else row.n_baseline),
                ]
            )
    return to_csv(COLUMNS, rows)


def render_markdown(comparison: records.ComparedRuns) -> str:
    """Return a comparison as GitHub-flavoured Markdown; letters are in `<sup>`.

    Moved queries and causes are folded. The text ends with a line end.
    """
    blocks = [[escape(describe_subject(comparison))], _nested(changed_lines(comparison))]
    blocks.append([escape(line) for line in headline.nothing_told(comparison.measures)])
    if gates := _sorted_gates(comparison):
        cells = [(gate.verdict, gate.gate, gate.system or "", gate.why) for gate in gates]
        blocks.append(table_lines(GATE_HEADS, [map(printable, row) for row in cells]))
    for section in _sections(comparison):
        blocks += section_blocks(section)
    if differences := list(_differences(comparison)):
        blocks.append(table_lines(DIFFERENCE_HEADS, differences, numbers=True))
    with_causes = [system for system in comparison.systems if system.causes]
    blocks.append(
        list_lines(f"{printable(s.name)}: {fmt.cause_sentence(s.causes)}" for s in with_causes)
    )
    for moved in comparison.moved:
        if moved.queries:
            grid = moved_grid(moved, comparison)
            blocks += folded(grid.caption, [table_lines(grid.heads, grid.rows)])
    if causes := _nested(moved_causes(comparison)):
        blocks += folded("causes that changed", [causes])
    signs = _legend(comparison)
    blocks.append([f"- {escape(sign)}: {escape(meaning)}" for sign, meaning in signs])
    blocks.append([f"- note: {escape(printable(note))}" for note in comparison.notes])
    return join_blocks(blocks)


def _nested(lines: Sequence[str]) -> list[str]:
    """Return indented lines as lines of nested Markdown lists, escaped, without empty lines."""
    cut = ((line, line.lstrip()) for line in lines if line)
    return [f"{line.removesuffix(text)}- {escape(text)}" for line, text in cut]


def render_latex(comparison: records.ComparedRuns) -> str:
    """Return the scores as LaTeX tables with booktabs rules, of at most 3 measures each.

    Superscript letters are the systems that a value is significantly better than; a value that is
    surely better than all others is bold. Without tables it is the comment on booktabs alone,
    without a line end.
    """
    caption = [f"{describe_subject(comparison)}."]
    signs = (SIGNS["tied"], _LETTERS)
    caption += [f"{sign}: {text}." for sign, text in _legend(comparison) if sign in signs]
    sections = _sections(comparison)
    tables = (table for of in sections for table in section_tables(of, " ".join(caption)))
    return "\n".join([LATEX_PACKAGES, *tables])
