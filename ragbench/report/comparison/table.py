"""`ragbench compare --format table`: for people, aligned text with superscript letters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragbench.records.comparison import ComparedRuns, MovedQueries, MovedQuery
from ragbench.report.comparison.base import (
    DIFFERENCE_HEADS,
    Block,
    Cell,
    gate_line,
    lay_out_comparison,
)
from ragbench.report.runs.changes import changed_lines, moved_causes, moved_head
from ragbench.report.text import difference, draw, printable, side_by_side, significant

_RAISED = str.maketrans(
    "abcdefghijklmnoprstuvwxyz0123456789", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ⁰¹²³⁴⁵⁶⁷⁸⁹"
)
_NO_RANKING = "(no ranking at hand)"
_NOTHING = "(nothing retrieved)"


def raised(letters: Sequence[str]) -> str:
    """Write letters as superscripts.

    Example:
        >>> print(raised(["a", "b", "c1"]))
        ᵃᵇᶜ¹
    """
    return "".join(letters).translate(_RAISED)


def render_table(comparison: ComparedRuns, *, width: int = 100) -> str:
    """Draw a comparison as aligned text; measures that do not fit go into a further table below."""
    page = lay_out_comparison(comparison)
    lines = [page.subject, *changed_lines(comparison), *page.silent, *map(gate_line, page.gates)]
    for block in page.blocks:
        lines += ["", *_scores(block, width), *block.counts]
    if page.differences:
        lines += ["", *draw(list(zip(DIFFERENCE_HEADS, *page.differences, strict=True)))]
    for moved in filter(has_moved, comparison.moved):
        lines += ["", *_moved(moved, width)]
    for line in moved_causes(comparison):
        lines.append(line[:width] if line.startswith("    ") else line)  # questions may be long
    lines += ["", *(f"{sign}: {meaning}" for sign, meaning in page.legend)]
    lines += [f"note: {note}" for note in page.notes]
    return "\n".join(lines) + "\n"


def _scores(block: Block, width: int) -> list[str]:
    start = [["", *block.letters], ["system", *block.systems]]
    columns = [
        [title, *_column([row[place] for row in block.cells])]
        for place, title in enumerate(block.measures)
    ]
    return side_by_side(start, columns, width)


def _column(cells: Sequence[Cell]) -> list[str]:
    """Values with their letters, padded so that intervals line up."""
    values = [cell.value + raised(cell.marks) for cell in cells]
    longest = max(map(len, values))
    return [
        f"{value:{longest}} {cell.interval}".rstrip()
        for value, cell in zip(values, cells, strict=True)
    ]


def has_moved(moved: MovedQueries) -> bool:
    """Whether there is anything to show of a comparison."""
    return bool(moved.queries)


def moved_cells(query: MovedQuery) -> tuple[str, str, str, str]:
    """Write one moved query: id, score of the baseline, of the system, difference."""
    scores = (significant(query.baseline_score), significant(query.score))
    return (printable(query.query_id), *scores, difference(query.difference, None)[0])


def rankings_of(query: MovedQuery) -> Iterator[tuple[str, str]]:
    """Yield the two rankings rank by rank, the baseline's first; nothing where there is none."""
    rankings = (query.baseline_ranking, query.ranking)
    if rankings == (None, None):
        return
    sides = [(_NO_RANKING,) if each is None else each or (_NOTHING,) for each in rankings]
    for place in range(max(map(len, sides))):
        first, second = (printable(side[place]) if place < len(side) else "" for side in sides)
        yield first, second


def _moved(moved: MovedQueries, width: int) -> list[str]:
    queries = moved.queries
    heads = ("query", printable(moved.baseline), printable(moved.system), "difference")
    rows = draw(list(zip(heads, *map(moved_cells, queries), strict=True)))
    lines = [moved_head(moved), rows[0]]
    half = (width - 8) // 2
    for line, query in zip(rows[1:], queries, strict=True):
        lines.append(line)
        if query.question:
            lines.append(f"      {printable(query.question)}"[:width])
        ranked = list(rankings_of(query))
        longest = max((len(first) for first, _ in ranked), default=0)
        lines += [
            f"{rank:>5} {first:{min(longest, half)}} | {second}".rstrip()
            for rank, (first, second) in enumerate(ranked, start=1)
        ]
    return lines
