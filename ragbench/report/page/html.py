"""`report.html`: the tables, the pictures and every query in one file that loads nothing."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from ragbench.data.runs.query_view import QueryViews
from ragbench.files import write_atomically
from ragbench.records.comparison import Comparisons
from ragbench.records.summary import Summary
from ragbench.report.base import COST_HEADS, SIGNS, SLICE_HEADS, Layout, Measure, Section
from ragbench.report.layout import lay_out
from ragbench.report.page.data import PageData, pack_queries
from ragbench.report.pictures.draw import pictures, query_picture
from ragbench.report.pictures.svg import Picture, Scale
from ragbench.report.text import interval

if TYPE_CHECKING:
    from jinja2 import Template


def render_html(summary: Summary, comparisons: Comparisons, data: PageData | None = None) -> str:
    """Draw the results as one page, with the queries that were packed for it, if any."""
    return _render(lay_out(summary, comparisons), pictures(summary, comparisons), data)


def write_page(
    path: Path,
    summary: Summary,
    comparisons: Comparisons,
    run: Path | None = None,
    **limits: int,
) -> None:
    """Write the page, with the queries of a run folder if there is one.

    The page loads nothing: its security policy allows the script that it holds, by its hash, and
    no request. Every foreign text is escaped, or set as text by the script. `limits` are those of
    `pack_queries`.
    """
    data = None if run is None else pack_queries(QueryViews(run, bare=True), **limits)
    _write(path, render_html(summary, comparisons, data))


def all_pictures(summary: Summary, comparisons: Comparisons, run: Path) -> list[Picture]:
    """Draw the pictures of a run folder, each system's differences by query included."""
    views, drawn = QueryViews(run, bare=True), pictures(summary, comparisons)
    for family in comparisons.measures:
        for row in family.comparisons:
            names = (row.system, row.baseline)
            values, base = (views.columns.get(name, {}).get(family.measure) for name in names)
            if values is None or base is None:
                continue
            both = zip(views.ids, values.tolist(), base.tolist(), strict=True)
            pairs = [(query, a, b) for query, a, b in both if not math.isnan(a + b)]
            if pairs:
                lower = family.direction == "lower"
                drawn.append(query_picture(family.measure, *names, pairs, lower=lower))
    return drawn


def write_runs_page(path: Path, page: Layout, trends: Sequence[Picture]) -> None:
    """Write a page of a list of runs, with the pictures of how their scores went on."""
    _write(path, _render(page, trends))


def _write(path: Path, page: str) -> None:
    # half characters, as a model may send them, as escapes: UTF-8 has none
    write_atomically(path, page.encode("utf-8", "backslashreplace"))


def _render(page: Layout, drawn: Sequence[Picture], data: PageData | None = None) -> str:
    css, script = _asset("page.css"), _asset("page.js")
    policy = [
        "default-src 'none'",
        f"style-src '{_hash(css)}'",
        f"script-src '{_hash(script)}'",
        "base-uri 'none'",
        "form-action 'none'",
        # the browser itself refuses to make markup of a text
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
    # causes and trends stand with the results
    groups: dict[str, list[Picture]] = {}
    for picture in drawn:
        if (title := _GROUPS.get(picture.name.partition("-")[0])) is not None:
            groups.setdefault(title, []).append(picture)
    return _template().render(
        page=page,
        data=data,
        packed=None if data is None else base64.b64encode(data.packed).decode(),
        pictures=drawn,
        groups=groups,
        css=css,
        script=script,
        policy="; ".join(policy),
        sections=[(section, table_parts(section)) for section in page.sections],
        signs=SIGNS,
        interval=interval,
        cost_heads=COST_HEADS,
        slice_heads=SLICE_HEADS,
    )


# start of a picture's name -> the heading that it stands under
_GROUPS = {
    "intervals": "scores, and differences from the baseline, with their intervals",
    "differences": "scores, and differences from the baseline, with their intervals",
    "slices": "slices of the queries",
}


@cache
def _asset(name: str) -> str:
    return (resources.files("ragbench.report.page") / "assets" / name).read_text("utf-8")


def _hash(text: str) -> str:
    """What a security policy calls an inline script or style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _template() -> Template:
    """Compile the template once; a foreign text is escaped, a missing name is an error."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.from_string(_asset("page.html.j2"))


# scores of a table; more stand in further ones, so that none is out of sight or off the paper
_COLUMNS = 8
Part = list[tuple[Measure, list[tuple[str, str] | None]]]


def table_parts(section: Section) -> list[Part]:
    """Split the scores of a section into tables, each score with the bars of its systems."""
    columns = [(measure, interval_bars(measure)) for measure in section.measures]
    tables = -(-len(columns) // _COLUMNS)
    size = -(-len(columns) // tables) if tables else 1  # as many in each, and none alone
    return [columns[start : start + size] for start in range(0, len(columns), size)]


def interval_bars(measure: Measure) -> list[tuple[str, str] | None]:
    """Draw each system's interval and mean as two paths, 0 to 100 wide, on an axis that fits.

    All systems of a score share the axis, from the lowest end to the highest.
    """
    values = [cell.mean for cell in measure.scores if cell.mean is not None]
    values += [end for cell in measure.scores for end in cell.ends or ()]
    axis = Scale(min(values, default=0.0), max(values, default=0.0), 3, 97)

    def place(value: float) -> str:
        return f"{axis(value):.1f}".removesuffix(".0")

    bars: list[tuple[str, str] | None] = []
    for cell in measure.scores:
        line = "" if cell.ends is None else f"M{place(cell.ends[0])} 4H{place(cell.ends[1])}"
        bars.append(None if cell.mean is None else (line, f"M{place(cell.mean)} 0V8"))
    return bars
