"""`report.html`: the tables, the pictures and every query in one file that loads nothing."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from itertools import accumulate
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ragbench.data.runs.query_view import QueryViews
from ragbench.files import write_atomically, written_whole
from ragbench.records.comparison import Comparisons
from ragbench.records.summary import Summary
from ragbench.report.base import COST_HEADS, SIGNS, SLICE_HEADS, Layout, Measure, Section
from ragbench.report.layout import lay_out
from ragbench.report.page.pack import Packed, add_to_curves, write_data
from ragbench.report.page.rankings import NOT_AT_HAND, AtHand, read_rankings
from ragbench.report.pictures.charts import Curves
from ragbench.report.pictures.draw import difference_picture, pictures
from ragbench.report.pictures.svg import Picture

if TYPE_CHECKING:
    from jinja2 import Template

MAILED = 12_000_000
"""Bytes of data that a page holds; in base64 and mailed this is 21 MB, where 25 MB is usual."""
_TRIPLES = 3 << 16
Shown = tuple[Picture, str]
"""A picture with its element."""
_DATA = "<!--data-->"


def render_html(summary: Summary, comparisons: Comparisons) -> str:
    """Draw the results as one page without its queries."""
    drawn = pictures(summary, comparisons, Curves(), {})
    return _drawn(lay_out(summary, comparisons), drawn)


def write_page(
    path: Path,
    summary: Summary,
    comparisons: Comparisons,
    run: Path | QueryViews | None = None,
    *,
    mailed: int = MAILED,
    at_hand: AtHand = NOT_AT_HAND,
) -> None:
    """Write the page, with the queries of a run folder, or of one that is open, if there is one.

    The page loads nothing: its security policy allows the script that it holds, by its hash, and
    no request. Every foreign text is escaped, or set as text by the script. Queries are packed
    part by part, so that memory does not grow with their texts. Beyond `mailed` bytes of them, the
    others are in a file beside the page, `report.data`, which a reader chooses to see them.
    Rankings that are `at_hand` are not parsed.
    """
    beside = path.with_suffix(".data")
    views = QueryViews(run, bare=True) if isinstance(run, Path) else run
    curves, values, packed = Curves(), dict[str, dict[str, list[float | None]]](), None
    if views is not None:
        head = {**_head(summary), "file": beside.name}
        packed, curves = write_data(beside, views, head, at_hand)
        values = judged_values(summary, views)
        views.close()  # some systems rename no folder with an open file in it
    drawn = pictures(summary, comparisons, curves, values)
    frame = _drawn(lay_out(summary, comparisons), drawn, asks=views is not None)
    before, _, after = frame.partition(_DATA)
    with written_whole(path) as page:
        # half characters, as a model may send them, as escapes: UTF-8 has none
        page.write(before.encode("utf-8", "backslashreplace"))
        if packed is not None:
            with beside.open("rb") as parts:
                page.writelines(_scripts(packed, parts, mailed))
            if sum(packed.sizes) <= mailed:
                beside.unlink()
        page.write(after.encode("utf-8", "backslashreplace"))


def all_pictures(summary: Summary, comparisons: Comparisons, run: Path) -> list[Picture]:
    """Draw the pictures of a run folder, each system's differences by query included."""
    views, curves = QueryViews(run, bare=True), Curves()
    judged, rankings, _ = read_rankings(views)
    add_to_curves(curves, rankings, judged)
    found = pictures(summary, comparisons, curves, judged_values(summary, views))
    for family in comparisons.measures:
        for made in family.comparisons:
            names = (made.system, made.baseline)
            own, other = (views.columns.get(name, {}).get(family.measure) for name in names)
            if own is None or other is None:
                continue
            both = zip(views.ids, own.tolist(), other.tolist(), strict=True)
            pairs = [(q, a, b) for q, a, b in both if not math.isnan(a + b)]
            if pairs:
                lower = family.direction == "lower"
                found.append(difference_picture(family.measure, *names, pairs, lower=lower))
    return found


def judged_values(summary: Summary, views: QueryViews) -> dict[str, dict[str, list[float | None]]]:
    """Return system -> score of a judge -> the value of each query."""
    return {
        system.name: {
            name: [None if math.isnan(each) else each for each in own[name].tolist()]
            for name, score in system.scores.items()
            if score.judge is not None and name in own
        }
        for system in summary.systems
        if (own := views.columns.get(system.name)) is not None
    }


def _head(summary: Summary) -> dict[str, object]:
    """What the script knows of the systems and scores."""
    scores = {name: score for system in summary.systems for name, score in system.scores.items()}
    return {
        "systems": [
            {
                "name": system.name,
                "role": system.role,
                "baseline": system.baseline,
                "retriever": system.retriever,
                "answers": any(score.kind != "retrieval" for score in system.scores.values()),
            }
            for system in summary.systems
        ],
        "scores": [
            {"name": name, "kind": score.kind, "lower": score.direction == "lower"}
            for name, score in scores.items()
        ],
    }


def _scripts(packed: Packed, parts: IO[bytes], mailed: int) -> Iterator[bytes]:
    """The index and the parts that the page holds, as blocks of data that no browser runs."""
    within = sum(total <= mailed for total in accumulate(packed.sizes))
    start, size = packed.index
    parts.seek(start)
    yield from _block(f'id="index" data-parts="{within}"', parts, size)
    parts.seek(0)
    for number, size in enumerate(packed.sizes[:within]):
        yield from _block(f'id="part-{number}"', parts, size)


def _block(name: str, data: IO[bytes], size: int) -> Iterator[bytes]:
    yield f'<script type="application/octet-stream" {name}>'.encode()
    # by threes, which are four letters
    yield from (
        base64.b64encode(data.read(min(_TRIPLES, size - at))) for at in range(0, size, _TRIPLES)
    )
    yield b"</script>\n"


def write_runs_page(path: Path, page: Layout, trends: Sequence[Picture]) -> None:
    """Write a page of a list of runs, with the pictures of how their scores went on."""
    write_atomically(path, _drawn(page, trends).encode("utf-8", "backslashreplace"))


def _drawn(page: Layout, drawn: Sequence[Picture], *, asks: bool = False) -> str:
    """The page without the data of its queries; whether it `asks` for these."""
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
    shown = [(picture, picture.shown()) for picture in drawn]
    return _template().render(
        page=page,
        asks=asks,
        pictures=shown,
        drawn=_grouped(shown),
        css=css,
        script=script,
        policy="; ".join(policy),
        sections=[(section, table_parts(section)) for section in page.sections],
        signs=SIGNS,
        cost_heads=COST_HEADS,
        slice_heads=SLICE_HEADS,
    )


_GROUPS = {
    "intervals-": "scores with their intervals",
    "-over-k": "over the length of the ranking",
    "precision-recall": "over the length of the ranking",
    "-against-": "quality against time and cost",
    "spread-": "judges",
    "agreement-": "judges",
    "controls-": "controls: what other passages would give",
    "slices-": "slices of the queries",
    "causes-": "queries that changed their cause",
}
"""Part of a picture's name -> the heading that it stands under."""


def _grouped(shown: Sequence[Shown]) -> list[tuple[str, list[Shown]]]:
    """Put the pictures under headings; causes and trends stand with what they are about."""
    found: dict[str, list[Shown]] = {title: [] for title in _GROUPS.values()}
    for picture, element in shown:
        title = next((title for part, title in _GROUPS.items() if part in picture.name), None)
        if title is not None:
            found[title].append((picture, element))
    return [(title, own) for title, own in found.items() if own]


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


_COLUMNS = 8
"""Scores of a table; more stand in further ones, so that none is out of sight or off the paper."""
Part = list[tuple[Measure, list[tuple[str, str] | None]]]


def table_parts(section: Section) -> list[Part]:
    """Split the scores of a section into tables, each score with the bars of its systems."""
    columns = [(measure, interval_bars(measure)) for measure in section.measures]
    tables = -(-len(columns) // _COLUMNS)
    each = -(-len(columns) // tables) if tables else 1  # as many in each, and none alone
    return [columns[start : start + each] for start in range(0, len(columns), each)]


def interval_bars(measure: Measure) -> list[tuple[str, str] | None]:
    """Draw each system's interval and mean as two paths, 0 to 100 wide, on an axis that fits.

    All systems of a score share the axis, from the lowest end to the highest.
    """
    known = [cell.mean for cell in measure.scores if cell.mean is not None]
    known += [end for cell in measure.scores if cell.ends is not None for end in cell.ends]
    if not known:
        return [None] * len(measure.scores)
    low, high = min(known), max(known)

    def place(value: float) -> str:
        # halves before the subtraction: the span of two huge numbers would overflow
        span = high / 2 - low / 2
        share = (value / 2 - low / 2) / span if span else 0.5  # half of the least float is 0
        return f"{3 + 94 * share:.1f}".removesuffix(".0")

    bars: list[tuple[str, str] | None] = []
    for cell in measure.scores:
        if cell.mean is None:
            bars.append(None)
            continue
        line = f"M{place(cell.ends[0])} 4H{place(cell.ends[1])}" if cell.ends is not None else ""
        bars.append((line, f"M{place(cell.mean)} 0V8"))
    return bars
