"""`report.html`: the same tables as one offline file, with drawings of the intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from functools import cache
from typing import TYPE_CHECKING, Any

from ragbench.report.base import COST_HEADS, SIGNS, SLICE_HEADS
from ragbench.report.layout import lay_out
from ragbench.report.whiskers import charts

if TYPE_CHECKING:
    from jinja2 import Template

Json = Mapping[str, Any]


def render_html(summary: Json, comparisons: Json) -> str:
    """Draw the results as one page that loads nothing: no script, no font, no picture.

    Args:
        summary: The content of summary.json.
        comparisons: The content of comparisons.json.

    Returns:
        HTML in which every foreign text is escaped. A content security policy in its head
        forbids the browser any request.
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
