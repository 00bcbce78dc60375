"""`report.html`: tables, pictures and queries in one file that makes no request."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from ragbench.data.runs.query_view import QueryViews
from ragbench.files import naming_unwritable, write_atomically
from ragbench.pictures.svg import Picture, Scale
from ragbench.records.comparison import Comparisons
from ragbench.records.fixes import FixList
from ragbench.records.summary import Summary
from ragbench.report.base import Layout, MeasureColumn, Section
from ragbench.report.ci import worst_line
from ragbench.report.fixes import QuestionGroup, page_chapter, question_groups
from ragbench.report.layout import lay_out
from ragbench.report.lowest import lowest_chapter
from ragbench.report.noise import answer_texts, noise_chapter
from ragbench.report.page.data import PageData, pack_queries
from ragbench.report.page.front import Front, build_front
from ragbench.report.pictures import pictures, score_pictures
from ragbench.report.table import SIGNS
from ragbench.types.display import printable

if TYPE_CHECKING:
    from jinja2 import Template


def render_html(
    summary: Summary,
    comparisons: Comparisons,
    views: QueryViews | None = None,
    fixes: FixList | None = None,
    page: Layout | None = None,
    **limits: int,
) -> str:
    """Return the page of a run as HTML; the other arguments are those of `write_page`.

    `page` is the result of `lay_out`, or None. The page is the same for equal arguments.
    """
    page = page or lay_out(summary, comparisons)
    if views is not None:
        noise = noise_chapter(summary, comparisons, answer_texts(views))
        page = replace(page, lowest=lowest_chapter(views), noise=noise)
    groups: list[QuestionGroup] = []
    if fixes is not None:
        page, groups = replace(page, fixes=page_chapter(fixes)), [*question_groups(fixes)]
    # several runs have changes in place of one result
    is_one = page.runs is None
    front = build_front(summary, comparisons, page, views, fixes) if is_one else None
    data = None if views is None else pack_queries(views, _named_queries(page, front), **limits)
    of_scores = score_pictures(summary, comparisons)
    drawn = pictures(summary, comparisons, of_scores)
    firsts = _first_pictures(page, of_scores)
    return _render(page, drawn, data, front=front, groups=groups, views=views, firsts=firsts)


def write_brief(
    path: Path,
    summary: Summary,
    comparisons: Comparisons,
    views: QueryViews | None = None,
    fixes: FixList | None = None,
) -> None:
    """Write the top of the page of a run as a page that a browser prints on one sheet of A4.

    `views` and `fixes` are those of `write_page`.

    Raises:
        DataError: A file of the run folder is damaged.
        OSError: The page cannot be written.
    """
    page = lay_out(summary, comparisons)
    front = build_front(summary, comparisons, page, views, fixes)
    write_text(path, _render(page, [], front=front, brief=True))


def write_page(
    path: Path,
    summary: Summary,
    comparisons: Comparisons,
    views: QueryViews | None = None,
    fixes: FixList | None = None,
    **limits: int,
) -> None:
    """Write the page of a run.

    The page makes no request: its security policy allows only its own script and style, by their
    hashes. Every foreign text is escaped, or set as text by the script.

    Args:
        path: The HTML file.
        summary: The run.
        comparisons: The tests of the run.
        views: Views of the run folder for the queries; None writes a page without queries.
        fixes: Fix list of the run; None writes a page without it.
        limits: Limits of `pack_queries`.

    Raises:
        DataError: A file of the run folder is damaged.
        OSError: The page cannot be written.
    """
    write_text(path, render_html(summary, comparisons, views, fixes, page=None, **limits))


def write_runs_page(path: Path, page: Layout) -> None:
    """Write the page of an experiment over several collections, or of several runs.

    Raises:
        DataError: The page cannot be written.
    """
    with naming_unwritable(path):
        write_text(path, _render(page, []))


def write_text(path: Path, page: str) -> None:
    """Write a page atomically: a reader never sees half of it.

    Missing folders are created. Raises OSError if it cannot be written.
    """
    write_atomically(path, page_bytes(page))


def page_bytes(page: str) -> bytes:
    """Return a page in UTF-8; half surrogate pairs, which a model may send, become escapes."""
    return page.encode("utf-8", "backslashreplace")


def _render(
    page: Layout,
    drawn: Sequence[Picture],
    data: PageData | None = None,
    *,
    front: Front | None = None,
    groups: Sequence[QuestionGroup] = (),
    views: QueryViews | None = None,
    firsts: Collection[str] = (),
    brief: bool = False,
) -> str:
    """Return a page as HTML; the pictures named in `firsts` are shown without a click."""
    titles = []
    for picture in drawn:
        if picture.name.partition("-")[0] in _VIEWED:
            titles.append(picture)
    return render_page(
        "page",
        page=page,
        front=front,
        further=_further_sentences(page, front),
        data=data,
        brief=brief,
        packed=None if data is None else base64.b64encode(data.packed).decode(),
        pictures=drawn,
        first_pictures=[picture for picture in titles if picture.name in firsts],
        more_pictures=[picture for picture in titles if picture.name not in firsts],
        sections=[(section, table_parts(section)) for section in page.sections],
        groups=[_with_questions(group, views) for group in groups],
        signs=SIGNS,
        worst_line=worst_line,
    )


def _named_queries(page: Layout, front: Front | None) -> Iterator[str]:
    """Yield the ids of the queries that the results name outside the groups of the fix list."""
    for lost in () if front is None else front.questions:
        yield lost.query_id
    for gate in page.gates:
        for query in gate.worst_queries:
            yield query.query_id
    for chapter in (page.lowest, page.noise):
        for grid in () if chapter is None else chapter.grids:
            for name, *_ in grid.rows if grid.has_queries else ():
                yield name.text


def _further_sentences(page: Layout, front: Front | None) -> list[str]:
    """Return the results in words that the top of the page leaves out."""
    lead = () if front is None else front.lead
    # the top has the counts of gates
    n_counts = 1 if page.gates and front is not None else 0
    sentences = (*page.headlines[n_counts:], page.purchase_sentence)
    further_sentences = []
    for sentence in sentences:
        if sentence and sentence not in lead:
            further_sentences.append(sentence)
    return further_sentences


def _with_questions(
    group: QuestionGroup, views: QueryViews | None
) -> tuple[str, list[tuple[str, str]]]:
    """Return the title of a group, and the id and text of each of its questions."""
    questions = []
    for query in group.queries:
        text = "" if views is None else printable(views.question(query))
        questions.append((query, text or printable(query)))
    return group.title, questions


def _first_pictures(page: Layout, of_scores: Mapping[str, Sequence[Picture]]) -> set[str]:
    """Return the names of at most three pictures: the scores and differences of main measures."""
    if page.runs is not None:  # its trends come first
        return set()
    names = []
    for section in page.sections:
        for picture in of_scores.get(section.main, ()):
            names.append(picture.name)
    return set(names[:_FIRST_PICTURES])


def render_page(template: str, **values: object) -> str:
    """Return a page with its style, script and security policy.

    Args:
        template: Name of the assets: `page`, or `review`, whose style is added to that of `page`;
            `disagreements` has no style and script of its own.
        values: Values of the template; a missing one raises a jinja2.UndefinedError.
    """
    is_plain = template == "disagreements"
    names = ["page"] if is_plain else dict.fromkeys(["page", template])
    css = "".join(_asset(f"{name}.css") for name in names)
    script = "" if is_plain else _asset(f"{template}.js")
    policy = [
        "default-src 'none'",
        f"style-src '{_hash(css)}'",
        f"script-src '{_hash(script)}'",
        "base-uri 'none'",
        "form-action 'none'",
        # a second guard: the browser itself refuses to turn a text into markup
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
    return _template(template).render(css=css, script=script, policy="; ".join(policy), **values)


# first part of the names of pictures that have a view of their own
_VIEWED = ("intervals", "differences", "slices")
# pictures in that view without a click: with that of the causes the page has four
_FIRST_PICTURES = 3


@cache
def _asset(name: str) -> str:
    """Return the text of a file in `assets/`."""
    return (resources.files("ragbench.report.page") / "assets" / name).read_text("utf-8")


def _hash(text: str) -> str:
    """Return `sha256-` and the hash of a script or style in Base64, for a security policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _template(name: str) -> Template:
    """Return a compiled template; it escapes foreign texts, and a missing name is an error."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        optimized=False,  # a page is rendered once
    )
    environment.filters["breakable"] = _breakable
    return environment.from_string(_asset(f"{name}.html.j2"))


def _breakable(text: object) -> str:
    """Return a text as HTML in which a line may break after each `/`."""
    from jinja2.filters import do_forceescape, do_mark_safe

    return do_mark_safe(str(do_forceescape(str(text))).replace("/", "/<wbr>"))


# scores in one table; more go into further tables, so that all are visible on screen and paper
_COLUMNS = 8
Part = list[tuple[MeasureColumn, list[tuple[str, str] | None]]]


def table_parts(section: Section) -> list[Part]:
    """Return the columns of a section split into tables; each measure with its interval bars.

    A table is a list of (column, `interval_bars` of it). As few tables as hold at most 8 measures
    each, of nearly equal size: 9 measures give 5 and 4. In their order; [] without measures.
    """
    columns = [(measure, interval_bars(measure)) for measure in section.measures]
    tables = -(-len(columns) // _COLUMNS)
    # tables of equal size: no table with a single column
    size = -(-len(columns) // tables) if tables else 1
    return [columns[start : start + size] for start in range(0, len(columns), size)]


def interval_bars(measure: MeasureColumn) -> list[tuple[str, str] | None]:
    """Return for each system two SVG paths, of interval and mean, 100 wide; None without a mean.

    All systems share the axis, from the lowest mean or end of an interval to the highest. The
    result of a system is (path of the interval or '', path of the mean).
    """
    values = []
    for cell in measure.scores:
        if (mean := cell.mean) is not None:
            values.append(mean)
    for cell in measure.scores:
        values.extend(cell.ends or ())
    axis = Scale(min(values, default=0.0), max(values, default=0.0), 3, 97)

    def place(value: float) -> str:
        return f"{axis(value):.1f}".removesuffix(".0")

    bars: list[tuple[str, str] | None] = []
    for cell in measure.scores:
        line = "" if cell.ends is None else f"M{place(cell.ends[0])} 4H{place(cell.ends[1])}"
        bars.append(None if cell.mean is None else (line, f"M{place(cell.mean)} 0V8"))
    return bars
