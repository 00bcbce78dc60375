"""Drawings as SVG text: axes, and marks that differ in shape as well as in colour.

A picture on a page uses the colours of the page by class; a picture in a file contains them, for
light and dark mode. Every foreign text is escaped. Positions are pixels.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from ragbench.errors import OptionError
from ragbench.files import write_file
from ragbench.types.display import display_width, printable

# Colours that most colour-blind people can distinguish, by Okabe and Ito (2008), and two more.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195", "#666666")
SHAPES = 4
DASHES = ("", "6 3", "2 3", "8 3 2 3")
_FONT = 7.0  # mean width in pixels of a character of 12 pixels
_LONGEST = 34  # display width of a name; a wide character counts 2
_LONGEST_REPR = 400
MARGIN = 18.0  # free pixels beside a plot
PLOT = 300.0  # width of a plot in pixels

# Style of a picture in a file; a page has its own.
STYLE = (
    "svg.picture{font:12px system-ui,sans-serif;color:#1c2430;background:#fff}"
    ".picture text{fill:currentColor}.picture .soft{fill:#5a6675}"
    ".picture .on-dark{fill:#fff}.picture .on-light{fill:#000}.picture .on-text{fill:#fff}"
    ".picture .grid{stroke:#d8dee5;fill:none}.picture .axis{stroke:#5a6675;fill:none}"
    "@media(prefers-color-scheme:dark){svg.picture{color:#e4e9ef;background:#12161c}"
    ".picture .soft{fill:#a3afbd}.picture .grid{stroke:#364150}.picture .axis{stroke:#a3afbd}"
    ".picture .on-text{fill:#12161c}}"
)


@dataclass(frozen=True, slots=True, repr=False)
class Picture:
    """Finished picture, which a notebook shows; `Drawing.done` creates it.

    `save` writes it as a file, `svg` returns an SVG element, and `image` HTML.

    Attributes:
        name: Name of its file, without an ending.
        title: Title of the picture.
        words: Content of the picture in words, for screen readers.
        body: SVG elements.
        width: Width in pixels.
        height: Height in pixels.
    """

    name: str
    title: str
    words: str
    body: str
    width: float
    height: float

    def __repr__(self) -> str:
        words = (
            self.words if len(self.words) <= _LONGEST_REPR else f"{self.words[:_LONGEST_REPR]}..."
        )
        return f"<Picture of {self.title}: {words}>"

    def _repr_svg_(self) -> str:
        return self.svg(alone=True)

    def save(self, path: str | Path) -> None:
        """Write the picture to a file `.svg`.

        Raises:
            OptionError: The path has another ending.
            DataError: The file cannot be written.
        """
        file = Path(path)
        if file.suffix != ".svg":
            raise OptionError("picture", "path", file.suffix, ".svg")
        write_file(file, self.file())

    def file(self) -> bytes:
        """Return the bytes of an SVG file that stands alone."""
        return self.svg(alone=True).encode("utf-8", "backslashreplace")

    def svg(self, *, alone: bool = False) -> str:
        """Return the SVG element; with `alone` as a complete file, with style and namespace.

        The file has no XML declaration, so it is UTF-8. Foreign texts are escaped.
        """
        style = f"<style>{STYLE}</style>" if alone else ""
        space = ' xmlns="http://www.w3.org/2000/svg"' if alone else ""
        w, h = f"{self.width:g}", f"{self.height:g}"
        size = f'width="{w}" height="{h}" viewBox="0 0 {w} {h}"'
        about = f'class="picture" role="img" aria-label="{self._label}"'
        return f"<svg{space} {about} {size}>{style}{self.body}</svg>"

    def image(self) -> str:
        """Return an HTML image with its title, for a notebook, whose styles it does not change.

        The picture is a data URL, so that nothing is loaded.
        """
        data = base64.b64encode(self.file()).decode()
        image = f'<img alt="{self._label}" src="data:image/svg+xml;base64,{data}">'
        return f"<p>{escaped(self.title)}<br>{image}</p>"

    @property
    def _label(self) -> str:
        """Description of the picture for readers that speak."""
        return escaped(f"{self.title}: {self.words}")


@dataclass(slots=True)
class Drawing:
    """Unfinished picture, to which its methods add marks; `done` returns the finished one.

    `Drawing()` is empty. Places and lengths are pixels from the upper left corner. `colour` is the
    number of a series from 0, but a CSS colour in `bar`.

    Attributes:
        parts: SVG elements in the order of drawing; later ones cover earlier ones.
    """

    parts: list[str] = field(default_factory=list)

    def text(
        self, x: float, y: float, text: str, *, anchor: str = "start", soft: bool = False
    ) -> None:
        """Write a line of text, cut to a width of 34 characters.

        `anchor` is the part of the line at x: start, middle or end; `soft` text is paler.
        """
        kind = ' class="soft"' if soft else ""
        align = "" if anchor == "start" else f' text-anchor="{anchor}"'
        label = escaped(shortened(text))
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}"{align}{kind}>{label}</text>')

    def line(self, points: Sequence[tuple[float, float]], colour: int, *, width: float = 2) -> None:
        """Join points by a line in colour and dashes of a series; fewer than two draw nothing."""
        if len(points) < 2:
            return
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        dash = DASHES[colour // len(COLOURS) % len(DASHES)]
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        stroke = f'stroke="{colour_of(colour)}" stroke-width="{width:g}"{dashes}'
        self.parts.append(f'<path fill="none" {stroke} d="M{path}"/>')

    def rule(
        self, x: float, y: float, *, down: float = 0, right: float = 0, strong: bool = False
    ) -> None:
        """Draw a line of the grid, or with `strong` an axis: `down` or `right` is its length."""
        kind = "axis" if strong else "grid"
        step = f"v{down:.1f}" if down else f"h{right:.1f}"
        self.parts.append(f'<path class="{kind}" d="M{x:.1f} {y:.1f}{step}"/>')

    def mark(self, x: float, y: float, colour: int, label: str, *, size: float = 5) -> None:
        """Draw a point in the shape and colour of a series, with a label for a pointer at it."""
        s = size
        shape = (
            f"M{x - s:.1f} {y:.1f}a{s} {s} 0 1 0 {2 * s} 0a{s} {s} 0 1 0 {-2 * s} 0",
            f"M{x - s:.1f} {y - s:.1f}h{2 * s}v{2 * s}h{-2 * s}z",
            f"M{x:.1f} {y - s:.1f}L{x + s:.1f} {y + s:.1f}H{x - s:.1f}z",
            f"M{x:.1f} {y - s:.1f}L{x + s:.1f} {y:.1f}L{x:.1f} {y + s:.1f}L{x - s:.1f} {y:.1f}z",
        )[
            (colour + colour // len(COLOURS)) % SHAPES
        ]  # the ninth series has the colour of the first, but another shape
        fill = colour_of(colour)
        self.parts.append(f'<path fill="{fill}" d="{shape}"><title>{escaped(label)}</title></path>')

    def bar(
        self, x: float, y: float, width: float, height: float, colour: str, label: str, **data: str
    ) -> None:
        """Draw a filled rectangle in a CSS colour, with a label for a pointer at it.

        `data` becomes attributes `data-NAME`, which the script of the page reads.
        """
        more = "".join(f' data-{name}="{escaped(value)}"' for name, value in data.items())
        place = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"'
        self.parts.append(
            f'<rect {place} fill="{colour}"{more}><title>{escaped(label)}</title></rect>'
        )

    def count(self, x: float, y: float, count: str, on: str) -> None:
        """Write a number on a bar; `on` is the shade of the bar: `dark`, `light` or `text`."""
        self.parts.append(f'<text class="on-{on}" x="{x:.1f}" y="{y:.1f}">{count}</text>')

    def done(self, name: str, title: str, words: str, width: float, height: float) -> Picture:
        """Return the finished picture; for the arguments see `Picture`."""
        return Picture(name, printable(title), printable(words), "".join(self.parts), width, height)


@dataclass(frozen=True, slots=True)
class Scale:
    """Axis that maps values to pixels: `scale(value)` is the pixel, also beyond the ends.

    `Scale.fit` returns the scale of some values.

    Attributes:
        low: Smallest value.
        high: Largest value.
        start: Pixel of the smallest value.
        end: Pixel of the largest value.
    """

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def fit(cls, values: Sequence[float], start: float, end: float, *, zero: bool = False) -> Scale:
        """Return a scale from the smallest to the largest finite value; `zero` includes 0.

        `start` and `end` are the pixels of its ends. Without values the scale is from 0 to 1; a
        single value is in its middle.
        """
        finite = [value for value in values if math.isfinite(value)] + ([0.0] if zero else [])
        low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
        if low == high:
            half = (abs(low) or 1.0) / 2
            ends = (low - half, high + half)
            low, high = ends if all(map(math.isfinite, ends)) else sorted((low / 2, low))
        return cls(low, high, start, end)

    def __call__(self, value: float) -> float:
        """Return the pixel of a value; the middle if the scale has no length."""
        # halves before the subtraction: the span of two huge numbers would overflow
        span = self.high / 2 - self.low / 2
        share = (value / 2 - self.low / 2) / span if span else 0.5
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return round values on the axis, at steps of 1, 2 or 5 times a power of ten.

        Ascending, within the axis; the smallest value alone if the axis is too short or too long
        for steps.
        """
        span = self.high - self.low
        rough = span / 4
        if not math.isfinite(span) or rough < 1e-300:  # too large or too small for distinct ticks
            return [self.low]
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(unit * m for m in (1, 2, 5, 10) if unit * m >= rough * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        count = int((self.high - first * step) / step + 1e-9) + 1
        return [(first + i) * step for i in range(max(count, 0))]


def axis_ticks(scale: Scale) -> list[tuple[float, str]]:
    """Return pixel and label of each tick of an axis."""
    ticks = []
    for tick in scale.ticks():
        ticks.append((scale(tick), f"{tick:.3g}"))
    return ticks


def axis_left(drawing: Drawing, scale: Scale, x0: float, right: float) -> None:
    """Draw the grid and the numbers of a vertical axis at pixel `x0`; the grid ends at `right`."""
    for tick, label in axis_ticks(scale):
        drawing.rule(x0, tick, right=right - x0)
        drawing.text(x0 - 5, tick + 4, label, anchor="end", soft=True)


def draw_legend(
    drawing: Drawing, names: Sequence[str], right: float, bottom: float
) -> tuple[float, float]:
    """Draw the names of the series beside a plot; return width and height of the picture.

    `right` and `bottom` are the ends of the plot in pixels. Without names only its size counts.
    """
    x, y = right + 18, 36.0
    for colour, name in enumerate(names):
        drawing.mark(x + 5, y - 4, colour, name)
        drawing.text(x + 16, y, name)
        y += 17
    return x + 22 + width_of(names), max(bottom, y)


def escaped(text: str) -> str:
    """Return a foreign text escaped for XML, on one line, without invisible characters."""
    return escape(printable(text))


def colour_of(number: int) -> str:
    """Return the CSS colour of the series with a number from 0; colours repeat after the last."""
    return COLOURS[number % len(COLOURS)]


def shortened(text: str) -> str:
    """Return a text on one line, cut with `…` to a width of 34."""
    line = printable(text)
    if display_width(line) <= _LONGEST:
        return line
    start = line[: _LONGEST - 1]
    while display_width(start) >= _LONGEST:  # wide characters
        start = start[:-1]
    return f"{start}…"


def width_of(names: Sequence[str]) -> float:
    """Return the approximate width in pixels of the longest name, as cut by `shortened`; else 0."""
    return _FONT * max((display_width(shortened(name)) for name in names), default=0)


def slug(name: str) -> str:
    """Return a file name of ASCII letters, digits and `-`, at most 40 characters.

    Other characters become `-`, and none is at an end. It may be '', and two names may give one.
    """
    return "".join(ch if ch.isalnum() and ch.isascii() else "-" for ch in printable(name))[
        :40
    ].strip("-")
