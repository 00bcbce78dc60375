"""Picture of values with intervals, a row each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ragbench.pictures import svg
from ragbench.types.lookups import item_names

_ROW = 20.0  # height of a row in pixels


class Whisker(NamedTuple):
    """Row of a picture: a value with its interval.

    Attributes:
        name: Name at the left of the row.
        value: Position of the mark.
        ends: Ends of the interval; None without an interval.
        colour: Number of the series from 0, which sets colour and shape.
        label: Text for a pointer at the mark, and for screen readers.
    """

    name: str
    value: float
    ends: tuple[float, float] | None
    colour: int
    label: str


def interval_picture(
    file: str, title: str, head: str, whiskers: Sequence[Whisker], *, zero: bool = False
) -> svg.Picture:
    """Return a picture of values with intervals, a row each; `zero` adds a line at 0.

    `file` is the name of its file without an ending, `head` the text above the axis. Values and
    ends must be finite. Without whiskers the picture is an empty axis.
    """
    drawing, x0 = svg.Drawing(), svg.width_of(item_names(whiskers)) + 12
    bottom = 24 + _ROW * len(whiskers)
    values: list[float] = []
    for whisker in whiskers:
        values += (whisker.value, *(whisker.ends or ()))
    scale = svg.Scale.fit(values, x0, x0 + svg.PLOT, zero=zero)
    for tick, label in svg.axis_ticks(scale):
        drawing.rule(tick, 20, down=bottom - 20)
        drawing.text(tick, bottom + 14, label, anchor="middle", soft=True)
    if zero:
        drawing.rule(scale(0), 20, down=bottom - 20, strong=True)
    drawing.text(x0, 13, head)
    for row, whisker in enumerate(whiskers):
        y = 24 + _ROW * (row + 0.5)
        drawing.text(x0 - 8, y + 4, whisker.name, anchor="end")
        if whisker.ends is not None:
            low, high = map(scale, whisker.ends)
            drawing.line([(low, y), (high, y)], whisker.colour)
        drawing.mark(scale(whisker.value), y, whisker.colour, whisker.label)
    # enough for a screen reader
    words = "; ".join(whisker.label for whisker in whiskers[:40])
    return drawing.done(file, title, words, x0 + svg.PLOT + svg.MARGIN, bottom + 20)
