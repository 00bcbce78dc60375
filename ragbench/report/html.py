"""`report.html`: the same tables as one offline file, with drawings of the intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import cache
from typing import TYPE_CHECKING

from ragbench.records.comparison import Comparisons
from ragbench.records.summary import Summary
from ragbench.report.base import COST_HEADS, SIGNS, SLICE_HEADS, Measure, Section
from ragbench.report.layout import lay_out
from ragbench.report.text import significant

if TYPE_CHECKING:
    from jinja2 import Template


def render_html(summary: Summary, comparisons: Comparisons) -> str:
    """Draw the results as one page that loads nothing: no script, no font, no picture.

    Every foreign text is escaped; a content security policy in its head forbids the browser any
    request.
    """
    page = lay_out(summary, comparisons)
    return _template().render(
        page=page,
        sections=[(section, charts(section)) for section in page.sections],
        signs=SIGNS,
        costs=[astuple(cost) for cost in page.costs],
        cost_heads=COST_HEADS,
        slice_heads=SLICE_HEADS,
    )


@cache
def _template() -> Template:
    """Compile the template once; a foreign text is escaped, a missing name is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("ragbench.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("report.html.j2")


_ROW = 18  # pixels; the line height of the names in the template
_PLOT, _MARGIN = 220, 6  # pixels
_LONGEST = 26  # characters of a name; the table beside the drawing has all of them


@dataclass(frozen=True, slots=True)
class Chart:
    """One measure's drawing in pixels: a row for each system on a common axis, paths of SVG."""

    title: str
    width: int
    height: int
    names: str
    """The systems, a line each, as high as a row."""
    grid: str
    lines: str
    dots: str
    """The means; each is a line of no length with round ends."""
    best: str
    axis: tuple[tuple[int, str, str], ...]
    """Position, alignment and text of the numbers under the drawing."""


def charts(section: Section) -> list[Chart]:
    """Draw every measure of a section that has a value."""
    return [
        _chart(section.systems, measure)
        for measure in section.measures
        if any(cell.mean is not None for cell in measure.scores)
    ]


def _chart(systems: Sequence[str], measure: Measure) -> Chart:
    low, high = _axis(measure)
    bottom = _ROW * len(systems)

    def place(value: float) -> str:
        # Halves before the subtraction: the span of two huge numbers would overflow.
        span = high / 2 - low / 2
        share = (value / 2 - low / 2) / span if span else 0.5  # half of the least float is 0
        return f"{_MARGIN + share * _PLOT:.1f}".removesuffix(".0")

    lines: list[str] = []
    dots: list[str] = []
    best: list[str] = []
    for row, cell in enumerate(measure.scores):
        y = row * _ROW + _ROW // 2
        if cell.ends is not None:
            lines.append(f"M{place(cell.ends[0])} {y}H{place(cell.ends[1])}")
        if cell.mean is not None:
            (best if cell.mark == "best" else dots).append(f"M{place(cell.mean)} {y}h0")
    return Chart(
        title=measure.title,
        width=_PLOT + 2 * _MARGIN,
        height=bottom + _ROW,
        names="\n".join(map(_shortened, systems)),
        grid="".join(f"M{_MARGIN + _PLOT * part // 4} 0V{bottom}" for part in range(5)),
        lines="".join(lines),
        dots="".join(dots),
        best="".join(best),
        axis=(
            (_MARGIN, "start", significant(low)),
            (_MARGIN + _PLOT, "end", significant(high)),
        ),
    )


def _axis(measure: Measure) -> tuple[float, float]:
    """Return 0..1 where everything lies in it, so that measures compare; else the data's range.

    The range of one value alone begins or ends at 0.
    """
    values = [cell.mean for cell in measure.scores if cell.mean is not None]
    values += [end for cell in measure.scores if cell.ends is not None for end in cell.ends]
    low, high = min(values), max(values)
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    if low == high:
        return min(low, 0.0), max(high, 0.0)
    return low, high


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
