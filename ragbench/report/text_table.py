"""Tables of plain text: aligned columns; what is wider than a line goes into a further table."""

from __future__ import annotations

from collections.abc import Sequence

GAP = "  "
"""Between two columns."""


def align(columns: Sequence[Sequence[str]]) -> list[list[str]]:
    """Pad the cells of each column to one display width; wide characters count twice.

    Returns:
        The padded cells by row.
    """
    from rich.cells import cell_len

    padded = []
    for cells in columns:
        widest = max(map(cell_len, cells))
        padded.append([cell + " " * (widest - cell_len(cell)) for cell in cells])
    return [list(row) for row in zip(*padded, strict=True)]


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
        widths = [max(map(len, cells)) + len(GAP) for cells in [*blocks[-1], column]]
        if sum(widths) - len(GAP) > width and len(blocks[-1]) > len(start):
            blocks.append([*start])
        blocks[-1].append(column)
    return [line for block in blocks for line in ["", *draw(block)]][1:]


def draw(columns: Sequence[Sequence[str]]) -> list[str]:
    """Draw one table, its columns aligned."""
    return [GAP.join(row).rstrip() for row in align(columns)]
