"""The functions that draw pages, for results written as JSON has them."""

from __future__ import annotations

import functools
import json
from dataclasses import MISSING, fields
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from ragbench.records.codec import Record, from_json
from ragbench.records.comparison import Comparisons, MeasureComparison, fill_facts
from ragbench.records.gate import GateVerdict
from ragbench.records.score import SystemScore
from ragbench.records.summary import Summary
from ragbench.report import ci, headline, layout, markdown, sections, terminal
from ragbench.report.page import html


def read(made: Any, value: Any) -> Any:
    """Read a record as a file would give it; what a test leaves out is empty."""
    return from_json(made, whole(made, json.loads(json.dumps(value))))


def whole(hint: Any, value: Any) -> Any:
    """Add the fields that have to be there, empty."""
    origin, inner = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and issubclass(hint, Record):
        hints, needed = declared(hint)
        given = {key: whole(hints.get(key), each) for key, each in value.items()}
        known = hint.renewed(given)
        return {**{name: empty(hints[name]) for name in needed if name not in known}, **given}
    if isinstance(value, list) and origin is tuple:
        return [whole(inner[0], each) for each in value]
    if isinstance(value, dict) and len(inner) == 2:
        return {key: whole(inner[1], each) for key, each in value.items()}
    return value


@functools.cache  # asked for each record that a test makes
def declared(made: type[Record]) -> tuple[dict[str, Any], list[str]]:
    """The types of a record's fields, and the names of those that have to be there."""
    needed = [
        each.name
        for each in fields(made)
        if each.default is MISSING and each.default_factory is MISSING
    ]
    return get_type_hints(made, include_extras=True), needed


def empty(hint: Any) -> Any:
    """The emptiest value of a type."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return empty(inner[0])
    if type(None) in inner:
        return None
    if origin is Literal:
        return inner[0]
    if origin is tuple:
        return [] if inner[-1] is ... else [None, None]
    return {} if inner else hint()


def records(summary: Any, comparisons: Any) -> tuple[Summary, Comparisons]:
    """Return a summary and its comparisons, the kinds and baselines filled in."""
    compared = read(Comparisons, comparisons)
    return fill_facts(read(Summary, summary), compared), compared


def lay_out(summary: Any, comparisons: Any, **options: Any) -> Any:
    return layout.lay_out(*records(summary, comparisons), **options)


def build_slices(comparisons: Any) -> Any:
    return layout.build_slices(read(Comparisons, comparisons))


def lay_out_preferences(summary: Any, comparisons: Any) -> Any:
    return sections.lay_out_preferences(*records(summary, comparisons))


def render_html(summary: Any, comparisons: Any) -> str:
    return html.render_html(*records(summary, comparisons))


def render_markdown(summary: Any, comparisons: Any) -> str:
    return markdown.render_markdown(*records(summary, comparisons))


def render_terminal(summary: Any, comparisons: Any, **options: Any) -> str:
    return terminal.render_terminal(*records(summary, comparisons), **options)


def render_junit(summary: Any) -> str:
    return ci.render_junit(read(Summary, {"systems": [], **summary}))


def annotate(summary: Any, file: str | None) -> list[str]:
    return ci.annotate([read(GateVerdict, gate) for gate in summary["gates"]], file)


def write_headline(measure: str, scores: Any, family: Any, baselines: Any) -> str:
    read_scores = {name: read(SystemScore, score) for name, score in scores.items()}
    found = read(MeasureComparison, family) if family else None
    return headline.headline(measure, read_scores, found, baselines)


def count_lines(scores: Any, measures: Any) -> list[str]:
    by_system = {
        name: {measure: read(SystemScore, score) for measure, score in own.items()}
        for name, own in scores.items()
    }
    return sections.count_lines(by_system, measures)
