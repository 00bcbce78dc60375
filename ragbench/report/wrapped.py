"""Tables of plain text that are wider than a line: what does not fit goes into a further one."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.report.table import align

_GAP = "  "


def side_by_side(
    start: Sequence[Sequence[str]], columns: Sequence[Sequence[str]], width: int
) -> list[str]:
    """Draw columns beside each other, in as many tables as they need.

    Args:
        start: The columns that every table begins with; the first cell of a column is its head.
        columns: The others, in order.
        width: Columns of text that a table may take; one that is wider stands alone.

    Returns:
        Lines; an empty one between two tables.

    Example:
        >>> side_by_side([["run", "a"]], [["map", "0.5"], ["ndcg@10", "0.6"]], width=12)
        ['run  map', 'a    0.5', '', 'run  ndcg@10', 'a    0.6']
    """
    blocks = [[*start]]
    for column in columns:
        widths = [max(map(len, cells)) + len(_GAP) for cells in [*blocks[-1], column]]
        if sum(widths) - len(_GAP) > width and len(blocks[-1]) > len(start):
            blocks.append([*start])
        blocks[-1].append(column)
    return [line for block in blocks for line in ["", *draw(block)]][1:]


def draw(columns: Sequence[Sequence[str]]) -> list[str]:
    """Draw one table, its columns aligned."""
    return [_GAP.join(row).rstrip() for row in align(columns)]
