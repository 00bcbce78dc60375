"""Drawings as SVG text: axes that fit, marks that differ in shape as in colour, words as words.

A picture on a page takes the page's colours by class; one in a file brings them along, light and
dark. Every foreign text is escaped. Positions are pixels.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from ragbench.report.text import display_width, printable

# Told apart by most who do not see all colours: those of Okabe and Ito, 2008, and two more.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195", "#666666")
SHAPES = 4
DASHES = ("", "6 3", "2 3", "8 3 2 3")
_FONT = 7.0  # pixels that a character of 12 pixels takes, about
_LONGEST = 34  # columns, of which a wide character takes two
# Pixels that are free beside a plot.
MARGIN = 18.0

# What a file brings along; a page has its own.
STYLE = (
    "svg.picture{font:12px system-ui,sans-serif;color:#1c2430;background:#fff}"
    ".picture text{fill:currentColor}.picture .soft{fill:#5a6675}"
    ".picture .on-dark{fill:#fff}.picture .on-light{fill:#000}.picture .on-text{fill:#fff}"
    ".picture .grid{stroke:#d8dee5;fill:none}.picture .axis{stroke:#5a6675;fill:none}"
    "@media(prefers-color-scheme:dark){svg.picture{color:#e4e9ef;background:#12161c}"
    ".picture .soft{fill:#a3afbd}.picture .grid{stroke:#364150}.picture .axis{stroke:#a3afbd}"
    ".picture .on-text{fill:#12161c}}"
)


@dataclass(frozen=True, slots=True)
class Picture:
    """A finished drawing.

    Attributes:
        name: The name of its file, without an ending.
        words: The picture in words, for readers who do not see it.
    """

    name: str
    title: str
    words: str
    body: str
    width: float
    height: float

    def svg(self, *, alone: bool = False) -> str:
        """Return the element; `alone` as the text of a file of its own."""
        style = f"<style>{STYLE}</style>" if alone else ""
        space = ' xmlns="http://www.w3.org/2000/svg"' if alone else ""
        w, h = f"{self.width:g}", f"{self.height:g}"
        size = f'width="{w}" height="{h}" viewBox="0 0 {w} {h}"'
        about = f'class="picture" role="img" aria-label="{self._label}"'
        return f"<svg{space} {about} {size}>{style}{self.body}</svg>"

    def image(self) -> str:
        """Return an image with its title, for a notebook: no style of it reaches the page."""
        file = self.svg(alone=True).encode("utf-8", "backslashreplace")
        data = base64.b64encode(file).decode()
        image = f'<img alt="{self._label}" src="data:image/svg+xml;base64,{data}">'
        return f"<p>{escaped(self.title)}<br>{image}</p>"

    @property
    def _label(self) -> str:
        return escaped(f"{self.title}: {self.words}")


@dataclass(slots=True)
class Drawing:
    """Marks on a plane, in the order in which they are drawn."""

    parts: list[str] = field(default_factory=list)

    def text(self, x: float, y: float, text: str, *, at: str = "start", soft: bool = False) -> None:
        """Write a line; `at` is which end of it lies at x."""
        kind = ' class="soft"' if soft else ""
        anchor = "" if at == "start" else f' text-anchor="{at}"'
        shown = escaped(shortened(text))
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}"{anchor}{kind}>{shown}</text>')

    def line(self, points: Sequence[tuple[float, float]], colour: int, *, width: float = 2) -> None:
        """Join points, if there are several, in the colour and dashes of a series."""
        if len(points) < 2:
            return
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        dash = DASHES[colour // len(COLOURS) % len(DASHES)]
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        shown = f'stroke="{colour_of(colour)}" stroke-width="{width:g}"{dashes}'
        self.parts.append(f'<path fill="none" {shown} d="M{path}"/>')

    def rule(
        self, x: float, y: float, *, down: float = 0, right: float = 0, strong: bool = False
    ) -> None:
        """Draw a straight line of the grid, or an axis."""
        kind = "axis" if strong else "grid"
        step = f"v{down:.1f}" if down else f"h{right:.1f}"
        self.parts.append(f'<path class="{kind}" d="M{x:.1f} {y:.1f}{step}"/>')

    def mark(self, x: float, y: float, colour: int, label: str, *, size: float = 5) -> None:
        """Draw a point in the shape and colour of a series, with words for who points at it."""
        s = size
        shape = (
            f"M{x - s:.1f} {y:.1f}a{s} {s} 0 1 0 {2 * s} 0a{s} {s} 0 1 0 {-2 * s} 0",
            f"M{x - s:.1f} {y - s:.1f}h{2 * s}v{2 * s}h{-2 * s}z",
            f"M{x:.1f} {y - s:.1f}L{x + s:.1f} {y + s:.1f}H{x - s:.1f}z",
            f"M{x:.1f} {y - s:.1f}L{x + s:.1f} {y:.1f}L{x:.1f} {y + s:.1f}L{x - s:.1f} {y:.1f}z",
        )[(colour + colour // len(COLOURS)) % SHAPES]  # the ninth has the colour of the first alone
        fill = colour_of(colour)
        self.parts.append(f'<path fill="{fill}" d="{shape}"><title>{escaped(label)}</title></path>')

    def bar(
        self, x: float, y: float, width: float, height: float, colour: str, label: str, **data: str
    ) -> None:
        """Draw a filled rectangle; `data` is what the script of a page reads of it."""
        more = "".join(f' data-{name}="{escaped(value)}"' for name, value in data.items())
        place = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"'
        self.parts.append(
            f'<rect {place} fill="{colour}"{more}><title>{escaped(label)}</title></rect>'
        )

    def count(self, x: float, y: float, count: int, on: str) -> None:
        """Write a number on a bar: of a `dark` or `light` colour, or of that of the `text`."""
        self.parts.append(f'<text class="on-{on}" x="{x:.1f}" y="{y:.1f}">{count}</text>')

    def done(self, name: str, title: str, words: str, width: float, height: float) -> Picture:
        """Return the picture."""
        return Picture(name, printable(title), printable(words), "".join(self.parts), width, height)


@dataclass(frozen=True, slots=True)
class Scale:
    """Values to pixels, on an axis that fits the values."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def fit(cls, values: Sequence[float], start: float, end: float, *, zero: bool = False) -> Scale:
        """Return a scale from the least to the greatest value; with `zero`, 0 lies on it."""
        known = [value for value in values if math.isfinite(value)] + ([0.0] if zero else [])
        low, high = (min(known), max(known)) if known else (0.0, 1.0)
        if low == high:
            half = (abs(low) or 1.0) / 2
            ends = (low - half, high + half)
            low, high = ends if all(map(math.isfinite, ends)) else sorted((low / 2, low))
        return cls(low, high, start, end)

    def __call__(self, value: float) -> float:
        """Return where a value lies."""
        # halves before the subtraction: the span of two huge numbers would overflow
        span = self.high / 2 - self.low / 2
        share = (value / 2 - self.low / 2) / span if span else 0.5
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return round values on the axis: 1, 2 or 5 times a power of ten apart."""
        span = self.high - self.low
        rough = span / 4
        if not math.isfinite(span) or rough < 1e-300:  # no step can be told from another
            return [self.low]
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(unit * m for m in (1, 2, 5, 10) if unit * m >= rough * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        count = int((self.high - first * step) / step + 1e-9) + 1
        return [(first + i) * step for i in range(max(count, 0))]


def axis_ticks(scale: Scale) -> list[tuple[float, str]]:
    """Return place and label of each tick of an axis."""
    return [(scale(tick), f"{tick:.3g}") for tick in scale.ticks()]


def axis_left(drawing: Drawing, scale: Scale, left: float, right: float) -> None:
    """Draw the grid and the numbers of a vertical axis."""
    for tick, label in axis_ticks(scale):
        drawing.rule(left, tick, right=right - left)
        drawing.text(left - 5, tick + 4, label, at="end", soft=True)


def draw_legend(
    drawing: Drawing, names: Sequence[str], right: float, bottom: float
) -> tuple[float, float]:
    """Name the series beside a plot; return width and height of the whole picture."""
    x, y = right + 18, 36.0
    for colour, name in enumerate(names):
        drawing.mark(x + 5, y - 4, colour, name)
        drawing.text(x + 16, y, name)
        y += 17
    return x + 22 + width_of(names), max(bottom, y)


def escaped(text: str) -> str:
    """Return a foreign text as XML takes it: on one line, what is invisible shown as escapes."""
    return escape(printable(text))


def colour_of(number: int) -> str:
    """Return the colour of a series."""
    return COLOURS[number % len(COLOURS)]


def shortened(text: str) -> str:
    """Return a line that fits beside a plot."""
    line = printable(text)
    if display_width(line) <= _LONGEST:
        return line
    kept = line[: _LONGEST - 1]
    while display_width(kept) >= _LONGEST:
        kept = kept[:-1]
    return f"{kept}…"


def width_of(names: Sequence[str]) -> float:
    """Return about how wide the longest of some names is; wide characters count twice."""
    return _FONT * max((display_width(shortened(name)) for name in names), default=0)


def slug(name: str) -> str:
    """Return a name that every file system takes."""
    return "".join(ch if ch.isalnum() and ch.isascii() else "-" for ch in printable(name))[
        :40
    ].strip("-")
