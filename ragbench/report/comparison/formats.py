"""`ragbench compare --format csv`, `markdown` and `latex`: all digits, a pull request, a paper.

The LaTeX tables need the package booktabs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragbench.data.runs.run_folder import to_csv
from ragbench.records.comparison import (
    ComparedRuns,
    ComparedSystem,
    Difference,
    MeasureComparison,
    MovedQueries,
)
from ragbench.report.comparison.base import DIFFERENCE_HEADS, Block, Cell, lay_out_comparison
from ragbench.report.comparison.table import has_moved, moved_cells, rankings_of
from ragbench.report.headline import outcome_of
from ragbench.report.markdown import escape, table_lines
from ragbench.report.runs.changes import changed_lines, moved_causes, moved_head
from ragbench.report.text import printable

COLUMNS = (
    *("measure", "system", "source", "baseline", "baseline_source", "mean", "baseline_mean"),
    *("difference", "low", "high", "p", "p_adjusted", "verdict", "n", "n_changed", "n_failed"),
    *("effect_size", "minimum_detectable", "direction"),
)
"""The header."""


def render_csv(comparison: ComparedRuns) -> str:
    """Write the differences as CSV; an empty cell where there is no value."""
    systems = {system.name: system for system in comparison.systems}
    return to_csv(
        COLUMNS,
        (
            _row(family, made, systems)
            for family in comparison.measures
            for made in family.comparisons
        ),
    )


def _row(
    family: MeasureComparison, made: Difference, systems: Mapping[str, ComparedSystem]
) -> list[str | float | None]:
    name = family.measure
    system, base = systems[made.system], systems[made.baseline]
    low, high = made.interval or (None, None)
    return [
        *(name, system.system, system.source, base.system, base.source),
        *(system.scores[name].mean, base.scores[name].mean),
        *(made.difference, low, high, made.p, made.p_adjusted),
        outcome_of(made, family.direction),
        *map(str, (made.n, made.n_changed, made.n_failed)),
        *(made.effect_size, made.minimum_detectable),
        family.direction,
    ]


def render_markdown(comparison: ComparedRuns) -> str:
    """Draw a comparison as GitHub-flavoured Markdown; letters stand in `<sup>`."""
    page = lay_out_comparison(comparison)
    blocks = [[escape(page.subject)], _listed(changed_lines(comparison))]
    blocks.append([escape(line) for line in page.silent])
    if page.gates:
        cells = [(gate.verdict, gate.gate, gate.system or "", gate.why) for gate in page.gates]
        rows = [[escape(printable(cell)) for cell in row] for row in cells]
        blocks.append(table_lines(["verdict", "gate", "system", "why"], rows))
    for block in page.blocks:
        blocks += [_markdown_scores(block), [f"- {escape(line)}" for line in block.counts]]
    if page.differences:
        rows = [[escape(cell) for cell in row] for row in page.differences]
        blocks.append(table_lines(DIFFERENCE_HEADS, rows, numbers=True))
    for moved in filter(has_moved, comparison.moved):
        blocks += _moved(moved)
    if causes := _listed(moved_causes(comparison)):
        blocks += [["<details>", "<summary>causes that changed</summary>"], causes, ["</details>"]]
    blocks.append([f"- {escape(sign)}: {escape(meaning)}" for sign, meaning in page.legend])
    blocks.append([f"- note: {escape(note)}" for note in page.notes])
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _listed(lines: Sequence[str]) -> list[str]:
    """Indented lines as a list in a list."""
    return [
        f"{line[: len(line) - len(line.lstrip())]}- {escape(line.lstrip())}"
        for line in lines
        if line
    ]


def _markdown_scores(block: Block) -> list[str]:
    rows = [
        [escape(f"{letter} {system}"), *map(_markdown_cell, cells)]
        for letter, system, cells in zip(block.letters, block.systems, block.cells, strict=True)
    ]
    return table_lines(["system", *map(escape, block.measures)], rows, numbers=True)


def _markdown_cell(cell: Cell) -> str:
    value = f"**{cell.value}**" if cell.best else cell.value
    marks = f"<sup>{''.join(cell.marks)}</sup>" if cell.marks else ""
    return f"{value}{marks} {escape(cell.interval)}".rstrip()


def _moved(moved: MovedQueries) -> list[list[str]]:
    """A folded table: the queries, and the documents of both rankings in one cell each."""
    heads = ["query", printable(moved.baseline), printable(moved.system), "difference"]
    rows = []
    for query in moved.queries:
        rows.append([escape(cell) for cell in moved_cells(query)])
        ranked = list(rankings_of(query))
        if ranked:
            first, second = ("<br>".join(map(escape, side)) for side in zip(*ranked, strict=True))
            rows.append(["", first, second, ""])
    return [
        ["<details>", f"<summary>{escape(moved_head(moved))}</summary>"],
        table_lines([escape(head) for head in heads], rows),
        ["</details>"],
    ]


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
    r"""Make a text show as it is in LaTeX.

    Example:
        >>> print(escape_latex("hit_rate@1 & 95 %"))
        hit\_rate@1 \& 95 \%
    """
    return "".join(_ESCAPES.get(sign, sign) for sign in text)


def render_latex(comparison: ComparedRuns) -> str:
    """Draw the scores as `table` environments with booktabs rules, one for rankings and answers.

    Superscript letters name the systems that a value is significantly better than; the best
    value of a measure is bold.
    """
    page = lay_out_comparison(comparison)
    legend = dict(page.legend)
    caption = [f"{page.subject}."]
    caption += [f"Superscripts: {text}." for sign, text in legend.items() if "letters" in sign]
    tables = [_latex_table(block, escape_latex(" ".join(caption))) for block in page.blocks]
    return "\n".join(["% needs \\usepackage{booktabs}", *tables])


def _latex_table(block: Block, caption: str) -> str:
    head = " & ".join(["", "System", *map(escape_latex, block.measures)])
    rows = [
        " & ".join([letter, escape_latex(system), *map(_latex_cell, cells)]) + r" \\"
        for letter, system, cells in zip(block.letters, block.systems, block.cells, strict=True)
    ]
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{caption}}}",
        rf"\begin{{tabular}}{{ll{'l' * len(block.measures)}}}",
        r"\toprule",
        rf"{head} \\",
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
        "",
    ]
    return "\n".join(lines)


def _latex_cell(cell: Cell) -> str:
    value = rf"\textbf{{{cell.value}}}" if cell.best else cell.value
    return value + (rf"$^{{{''.join(cell.marks)}}}$" if cell.marks else "")
