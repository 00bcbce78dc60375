"""Output of `ragbench compare`: aligned text, CSV, Markdown, and LaTeX with booktabs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from ragbench.data.runs.run_folder import to_csv
from ragbench.records import comparison as records
from ragbench.report import headline
from ragbench.report import text as fmt
from ragbench.report.base import GATE_HEADS
from ragbench.report.markdown import Markdown, escape, folded, join_blocks, list_lines, table_lines
from ragbench.report.runs import changed_lines, moved_causes, moved_head
from ragbench.report.sections import count_lines
from ragbench.types.display import printable

DIFFERENCE_HEADS = (
    *("measure", "system", "against", "difference", "interval", "p", "verdict", "n", "changed"),
)

# letters behind a value as superscripts
_SUPERSCRIPTS = str.maketrans(
    "abcdefghijklmnoprstuvwxyz0123456789", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ⁰¹²³⁴⁵⁶⁷⁸⁹"
)
_NO_RANKING = "(ranking not stored)"
_EMPTY_RANKING = "(nothing retrieved)"
# First line of tables in LaTeX.
LATEX_PACKAGES = "% needs \\usepackage{booktabs}"
# Columns of a mean and an interval that fit a page of the class `article` beside the systems.
LATEX_COLUMNS = 3

COLUMNS = (
    *("measure", "system", "source", "baseline", "baseline_source", "mean", "baseline_mean"),
    *("difference", "low", "high", "p", "p_adjusted", "verdict", "n", "n_changed", "n_failed"),
    *("effect_size", "minimum_detectable", "direction", "n_baseline"),
)


@dataclass(frozen=True, slots=True)
class LetteredCell:
    """Table cell with the mean of a system by a measure.

    Attributes:
        value: Mean with three significant digits; `-` if nothing was scored.
        letters: Letters of the systems that it is significantly better than.
        interval: `[low, high]`; empty without an interval.
        best: True for the best mean of the measure.
    """

    value: str
    letters: str = ""
    interval: str = ""
    best: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """Table of systems (rows) that have the same measures (columns).

    Attributes:
        letters: Letter of each system.
        systems: Name of each system.
        measures: Heads of the columns.
        cells: Cells of each system, one per measure.
        counts: Lines with the numbers of scored and failed items.
    """

    letters: tuple[str, ...]
    systems: tuple[str, ...]
    measures: tuple[str, ...]
    cells: tuple[tuple[LetteredCell, ...], ...]
    counts: tuple[str, ...]

    def rows(self) -> Iterator[tuple[str, str, tuple[LetteredCell, ...]]]:
        """Return letter, name and cells of each system.

        In the order of the block.
        """
        return zip(self.letters, self.systems, self.cells, strict=True)


def gate_line(gate: records.ComparedGate) -> str:
    """Return a verdict in one line: `gate fail: map drop > 0.01 (dense): -0.2 [-0.3, -0.1] ...`."""
    system = f" ({printable(gate.system)})" if gate.system else ""
    return f"gate {gate.verdict}: {printable(gate.gate)}{system}: {printable(gate.why)}"


def describe_subject(comparison: records.ComparedRuns) -> str:
    """Return the names of the compared runs, and the number of queries of the comparison.

    With one source, it names that and its baseline. An unpaired comparison has a number of queries
    for each run.
    """
    base, *rivals = map(printable, comparison.sources)
    if comparison.unpaired:
        size, *sizes = map(str, comparison.unpaired.values())
        queries = f"{fmt.listed(sizes)} queries against {size}"
        return f"{fmt.listed(rivals)} against {base}: {queries}, unpaired, as the questions differ"
    queries = fmt.counted(comparison.queries, "queries")
    # a query whose text, judgements or gold differ between runs is not comparable
    if differing := {query for ids in comparison.differing.values() for query in ids}:
        common = fmt.counted(comparison.queries + len(differing), "common queries")
        queries = f"{comparison.queries} of {common} (left out: {len(differing)} that differ)"
    if rivals:
        return f"{fmt.listed(rivals)} against {base}: {queries}, paired"
    return f"{base}: its systems against {printable(comparison.baseline)}: {queries}, paired"


def _blocks(comparison: records.ComparedRuns) -> Iterator[Block]:
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
        lower = [" (lower is better)" if f.direction == "lower" else "" for f in families]
        names = [family.measure for family in families]
        yield Block(
            letters=tuple(systems[name].letter for name in group),
            systems=tuple(map(printable, group)),
            measures=tuple(printable(n) + text for n, text in zip(names, lower, strict=True)),
            cells=tuple(
                tuple(_cell(systems, name, family) for family in families) for name in group
            ),
            counts=tuple(count_lines({name: systems[name].scores for name in group}, names)),
        )


def _cell(
    systems: Mapping[str, records.ComparedSystem], name: str, family: records.MeasureComparison
) -> LetteredCell:
    """Return the cell of a system by a measure; `-` without a mean.

    The best mean is marked for all systems with an equal one.
    """
    score = systems[name].scores[family.measure]
    if score.mean is None:
        return LetteredCell(fmt.MISSING)
    # by value, so that systems that tie with the best are bold as well
    best = None if family.best is None else systems[family.best].scores.get(family.measure)
    beaten = (family.better_than or {}).get(name, ())
    return LetteredCell(
        value=fmt.significant(score.mean),
        letters="".join(systems[system].letter for system in beaten),
        interval=fmt.interval(score.interval),
        best=best is not None and score.mean == best.mean,  # several systems may be equal
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
            verdict = (fmt.probability(row.p_adjusted), headline.outcome_of(row, family.direction))
            names = map(printable, (family.measure, row.system, row.baseline))
            unpaired = (f"{row.n}, {row.n_baseline}", fmt.MISSING)
            counts = unpaired if comparison.unpaired else (str(row.n), str(row.n_changed))
            yield (*names, *change, *verdict, *counts)


def _legend(comparison: records.ComparedRuns) -> Iterator[tuple[str, str]]:
    """Yield sign and meaning of the signs that occur in the tables."""
    confidence = fmt.percent(comparison.confidence or 0.95)
    if any(any((family.better_than or {}).values()) for family in comparison.measures):
        text = "surely better than the systems of these letters "
        yield "letters behind a value", f"{text}(max-T test over all pairs, {confidence})"
    if any(family.comparisons for family in comparison.measures):
        text = f"paired, over the n queries that both have, {confidence} interval"
        if comparison.unpaired:
            text = f"of two means over different questions, {confidence} interval; "
            text += "another mix of questions may explain it"
        if cluster := comparison.cluster:
            text += f"; queries with the same {printable(cluster)} are one unit"
        yield "difference", text
        yield "p", headline.p_meaning(comparison)
        yield headline.NOT_SHOWN
    if any(c.difference is None for f in comparison.measures for c in f.comparisons):
        yield headline.NOT_COMPARED


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
    for block in _blocks(comparison):
        groups = []
        for title, *cells in zip(block.measures, *block.cells, strict=True):
            values = [cell.value + cell.letters.translate(_SUPERSCRIPTS) for cell in cells]
            groups.append([[title, *fmt.with_intervals(values, [cell.interval for cell in cells])]])
        start = [["", *block.letters], ["system", *block.systems]]
        lines += ["", *fmt.side_by_side(start, groups, width), *block.counts]
    if differences := list(_differences(comparison)):
        lines += ["", *fmt.draw(list(zip(DIFFERENCE_HEADS, *differences, strict=True)))]
    if lost := fmt.cause_lines(comparison.systems, width):
        lines += ["", "where answers are lost", *lost]
    for moved in comparison.moved:
        # after the tables: the verdicts matter first
        lines += _moved(moved, width)
    for line in moved_causes(comparison):
        lines.append(line[:width] if line.startswith("    ") else line)  # questions may be long
    lines += ["", *(f"{sign}: {meaning}" for sign, meaning in _legend(comparison))]
    lines += [f"note: {printable(note)}" for note in comparison.notes]
    return "\n".join(lines) + "\n"


def _sorted_gates(comparison: records.ComparedRuns) -> list[records.ComparedGate]:
    """Return the gates: undecided, failed, passed, each in their order; [] without gates."""
    order = ("undecided", "fail", "pass")
    return sorted(comparison.gates, key=lambda gate: order.index(gate.verdict))


def moved_cells(query: records.MovedQuery) -> tuple[str, str, str, str]:
    """Return (id, baseline score, score, signed difference) of a moved query as text."""
    scores = (fmt.significant(query.baseline_score), fmt.significant(query.score))
    return (printable(query.query_id), *scores, fmt.difference(query.difference, None)[0])


def paired_rankings(query: records.MovedQuery) -> Iterator[tuple[str, str]]:
    """Yield for each rank the documents of baseline and system; nothing if neither is stored.

    The shorter ranking is filled up with empty texts; a missing or empty one has a remark.
    """
    rankings = (query.baseline_ranking, query.ranking)
    # of two baseline files no ranking is known
    if rankings == (None, None):
        return
    sides = [(_NO_RANKING,) if side is None else side or (_EMPTY_RANKING,) for side in rankings]
    for first, second in zip_longest(*sides, fillvalue=""):
        yield printable(first), printable(second)


def _moved(moved: records.MovedQueries, width: int) -> list[str]:
    """Return lines on the queries that moved, with questions and both rankings; empty for none."""
    if not moved.queries:
        return []
    heads = ("query", printable(moved.baseline), printable(moved.system), "difference")
    # drawn as one table, so that the rows align; then details go between them
    head, *rows = fmt.draw(list(zip(heads, *map(moved_cells, moved.queries), strict=True)))
    lines = ["", moved_head(moved), head]
    for row, query in zip(rows, moved.queries, strict=True):
        lines.append(row)
        if query.question:
            lines.append(f"      {printable(query.question)}"[:width])
        ranked = list(paired_rankings(query))
        # at most half of the width, so that both rankings fit
        column = min(max((len(first) for first, _ in ranked), default=0), (width - 8) // 2)
        lines += [
            f"{rank:>5} {first:{column}} | {second}".rstrip()
            for rank, (first, second) in enumerate(ranked, start=1)
        ]
    return lines


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
    for block in _blocks(comparison):
        rows = [
            [f"{letter} {system}", *map(_markdown_cell, cells)]
            for letter, system, cells in block.rows()
        ]
        blocks.append(table_lines(["system", *block.measures], rows, numbers=True))
        blocks.append(list_lines(block.counts))
    if differences := list(_differences(comparison)):
        blocks.append(table_lines(DIFFERENCE_HEADS, differences, numbers=True))
    with_causes = [system for system in comparison.systems if system.causes]
    blocks.append(
        list_lines(f"{printable(s.name)}: {fmt.cause_sentence(s.causes)}" for s in with_causes)
    )
    for moved in comparison.moved:
        if moved.queries:
            blocks += folded(moved_head(moved), [_moved_table(moved)])
    if causes := _nested(moved_causes(comparison)):
        blocks += folded("causes that changed", [causes])
    legend = _legend(comparison)
    blocks.append([f"- {escape(sign)}: {escape(meaning)}" for sign, meaning in legend])
    blocks.append([f"- note: {escape(printable(note))}" for note in comparison.notes])
    return join_blocks(blocks)


def _nested(lines: Sequence[str]) -> list[str]:
    """Return indented lines as nested lists of Markdown; empty lines are left out."""
    cut = ((line, line.lstrip()) for line in lines if line)
    return [f"{line.removesuffix(text)}- {escape(text)}" for line, text in cut]


def _markdown_cell(cell: LetteredCell) -> str:
    """Return a cell as Markdown: the best value bold, letters raised."""
    value = f"**{cell.value}**" if cell.best else cell.value
    letters = f"<sup>{cell.letters}</sup>" if cell.letters else ""
    return Markdown(f"{value}{letters} {escape(cell.interval)}".rstrip())


def _moved_table(moved: records.MovedQueries) -> list[str]:
    """Return a table of the queries that moved; all documents of a ranking are in one cell."""
    rows: list[Sequence[str]] = []
    for query in moved.queries:
        rows.append(moved_cells(query))
        columns = zip(*paired_rankings(query), strict=True)
        # line breaks in a cell are HTML: Markdown has none
        if cells := [Markdown("<br>".join(map(escape, column))) for column in columns]:
            rows.append(["", *cells, ""])
    names = map(printable, (moved.baseline, moved.system))
    return table_lines(["query", *names, "difference"], rows)


# in one pass over the text, so that no escape is escaped again
_ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def escape_latex(text: str) -> str:
    r"""Return a text with escapes, so that LaTeX shows it literally.

    Line ends stay.

    Example:
        >>> print(escape_latex("hit_rate@1 & 95 %"))
        hit\_rate@1 \& 95 \%
    """
    return "".join(_ESCAPES.get(sign, sign) for sign in text)


def render_latex(comparison: records.ComparedRuns) -> str:
    """Return the scores as LaTeX tables with booktabs rules, one for each `Block`.

    Superscript letters are the systems that a value is significantly better than; the best value of
    a measure is bold. Without tables it is the comment on booktabs alone.
    """
    caption = [f"{describe_subject(comparison)}."]
    caption += [f"Superscripts: {text}." for sign, text in _legend(comparison) if "letters" in sign]
    tables = [
        latex_table(
            ["", "System", *block.measures],
            (
                [letter, escape_latex(system), *map(_latex_cell, cells)]
                for letter, system, cells in block.rows()
            ),
            " ".join(caption),
        )
        for block in _blocks(comparison)
    ]
    return "\n".join([LATEX_PACKAGES, *tables])


def latex_table(heads: Sequence[str], rows: Iterable[Iterable[str]], caption: str) -> str:
    """Return a `table` environment; `heads` and `caption` are escaped here, cells are LaTeX."""
    lines = [
        *(r"\begin{table}", r"\centering", rf"\caption{{{escape_latex(caption)}}}"),
        rf"\begin{{tabular}}{{{'l' * len(heads)}}}",
        *(r"\toprule", rf"{' & '.join(map(escape_latex, heads))} \\", r"\midrule"),
        *(rf"{' & '.join(row)} \\" for row in rows),
        *(r"\bottomrule", r"\end{tabular}", r"\end{table}", ""),
    ]
    return "\n".join(lines)


def _latex_cell(cell: LetteredCell) -> str:
    """Return a cell as LaTeX: the best value bold, letters raised."""
    value = rf"\textbf{{{cell.value}}}" if cell.best else cell.value
    return value + (rf"$^{{{cell.letters}}}$" if cell.letters else "")
