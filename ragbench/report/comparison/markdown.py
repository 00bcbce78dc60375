"""`ragbench compare --format markdown`: tables for a pull request."""

from __future__ import annotations

from ragbench.records.comparison import ComparedRuns, MovedQueries
from ragbench.report.comparison.base import DIFFERENCE_HEADS, Block, Cell, lay_out_comparison
from ragbench.report.comparison.table import has_moved, moved_cells, moved_head, rankings_of
from ragbench.report.digits import printable
from ragbench.report.markdown import escape, table_lines


def render_markdown(comparison: ComparedRuns) -> str:
    """Draw a comparison as GitHub-flavoured Markdown; letters stand in `<sup>`."""
    page = lay_out_comparison(comparison)
    blocks = [[escape(page.subject)]]
    if page.gates:
        cells = [(gate.verdict, gate.gate, gate.system or "", gate.why) for gate in page.gates]
        rows = [[escape(printable(cell)) for cell in row] for row in cells]
        blocks.append(table_lines(["verdict", "gate", "system", "why"], rows))
    for block in page.blocks:
        blocks += [_scores(block), [f"- {escape(line)}" for line in block.counts]]
    if page.differences:
        rows = [[escape(cell) for cell in row] for row in page.differences]
        blocks.append(table_lines(DIFFERENCE_HEADS, rows, numbers=True))
    for moved in filter(has_moved, comparison.moved):
        blocks += _moved(moved)
    blocks.append([f"- {escape(sign)}: {escape(meaning)}" for sign, meaning in page.legend])
    blocks.append([f"- note: {escape(note)}" for note in page.notes])
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _scores(block: Block) -> list[str]:
    rows = [
        [escape(f"{letter} {system}"), *map(_cell, cells)]
        for letter, system, cells in zip(block.letters, block.systems, block.cells, strict=True)
    ]
    return table_lines(["system", *map(escape, block.measures)], rows, numbers=True)


def _cell(cell: Cell) -> str:
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
