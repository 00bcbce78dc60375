r"""`ragbench compare --format latex`: a table for a paper; needs `\usepackage{booktabs}`."""

from __future__ import annotations

from ragbench.records.comparison import ComparedRuns
from ragbench.report.comparison.base import Block, Cell, lay_out_comparison

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


def escape(text: str) -> str:
    r"""Make a text show as it is in LaTeX.

    Example:
        >>> print(escape("hit_rate@1 & 95 %"))
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
    tables = [_table(block, escape(" ".join(caption))) for block in page.blocks]
    return "\n".join(["% needs \\usepackage{booktabs}", *tables])


def _table(block: Block, caption: str) -> str:
    head = " & ".join(["", "System", *map(escape, block.measures)])
    rows = [
        " & ".join([letter, escape(system), *map(_cell, cells)]) + r" \\"
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


def _cell(cell: Cell) -> str:
    value = rf"\textbf{{{cell.value}}}" if cell.best else cell.value
    return value + (rf"$^{{{''.join(cell.marks)}}}$" if cell.marks else "")
