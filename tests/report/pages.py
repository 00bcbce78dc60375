"""The functions that draw pages, for results written as JSON has them."""

from __future__ import annotations

import functools
import json
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from msgspec import structs

from ragbench.records.codec import Record, from_json
from ragbench.records.comparison import Comparisons
from ragbench.records.gate import Decision
from ragbench.records.score import SystemScore
from ragbench.records.summary import Summary, SystemSummary
from ragbench.report import ci, layout, results, sections
from ragbench.report.formats.base import Screen
from ragbench.report.page import html
from ragbench.report.table import Table


def read(made: Any, value: Any) -> Any:
    """Read a record as a file would give it; what a test leaves out is empty."""
    return from_json(made, whole(made, json.loads(json.dumps(value))))


def whole(hint: Any, value: Any) -> Any:
    """Add the fields that have to be there, empty."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Summary and "timing" not in value:
        value = with_timing(value)
    if isinstance(hint, type) and issubclass(hint, Record):
        hints, needed = declared(hint)
        given = {key: whole(hints.get(key), each) for key, each in value.items()}
        if hint is SystemSummary:
            given = {**facts_of(given), **given}
        return {**{name: empty(hints[name]) for name in needed if name not in given}, **given}
    if isinstance(value, list) and origin is tuple:
        return [whole(inner[0], each) for each in value]
    if isinstance(value, dict) and len(inner) == 2:
        return {key: whole(inner[1], each) for key, each in value.items()}
    return value


def with_timing(summary: dict[str, Any]) -> dict[str, Any]:
    """Return a summary whose times stand in its block, where a test has them beside the scores."""
    names = ("latency_ms", "queries_per_second")
    run = {"run_id": summary["run_id"]} if "run_id" in summary else {}
    times = {
        system["name"]: {name: system[name] for name in names if name in system}
        for system in summary.get("systems", ())
    }
    return {**summary, "timing": {**run, "systems": times}}


def facts_of(system: dict[str, Any]) -> dict[str, Any]:
    """Return type and ranking of a system that a test names by its parts alone."""
    name, retriever, role = system["name"], system.get("retriever"), system.get("role")
    if role in ("app", "control"):
        return {"type": role, "ranking_of": name if role == "app" else None}
    alone = "recorded" if retriever is None else "retriever"
    kind = alone if system.get("generator") is None else "pair"
    return {"type": kind, "ranking_of": retriever or name}


def with_facts(summary: Summary, comparisons: Comparisons) -> Summary:
    """Return a summary with the kinds and baselines that its comparisons say."""
    grid = {(system.retriever, system.generator): system.name for system in summary.systems}
    families = {family.measure: family for family in comparisons.measures}
    against = {
        (difference.system, name): difference.baseline
        for name, family in families.items()
        for difference in family.comparisons
    }

    def filled(system: SystemSummary) -> SystemSummary:
        by_score = {name: against.get((system.name, name)) for name in system.scores}
        usual = grid.get((summary.baseline, system.generator))
        first = next(filter(None, by_score.values()), None if usual == system.name else usual)
        guess = "retrieval" if system.type == "retriever" else "generation"
        scores = {
            name: structs.replace(
                score,
                kind=score.kind
                or ("judge" if score.judge is not None else None)
                or (families[name].kind if name in families else None)
                or guess,
                baseline=None if by_score[name] == first else by_score[name],
            )
            for name, score in system.scores.items()
        }
        names = {each.name for each in summary.systems}
        return structs.replace(system, baseline=first if first in names else None, scores=scores)

    return structs.replace(summary, systems=tuple(map(filled, summary.systems)))


@functools.cache  # asked for each record that a test makes
def declared(made: type[Record]) -> tuple[dict[str, Any], list[str]]:
    """The types of a record's fields, and the names of those that have to be there."""
    needed = [each.name for each in structs.fields(made) if each.required]
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
    return with_facts(read(Summary, summary), compared), compared


def texts(table: Table) -> tuple[tuple[str, ...], ...]:
    """Return the cells of each row of a table as text."""
    return tuple(tuple(map(str, row)) for row in table.rows)


def lay_out(summary: Any, comparisons: Any, **options: Any) -> Any:
    return layout.lay_out(*records(summary, comparisons), **options)


def build_slices(comparisons: Any) -> Any:
    return layout.build_slices(read(Comparisons, comparisons), ())


def lay_out_preferences(summary: Any, comparisons: Any) -> Any:
    read_summary, compared = records(summary, comparisons)
    return [sections.lay_out_preference(entry, read_summary) for entry in compared.preferences]


def render_html(summary: Any, comparisons: Any) -> str:
    return html.render_html(*records(summary, comparisons))


def render_markdown(summary: Any, comparisons: Any) -> str:
    return results.render_markdown(*records(summary, comparisons))


def render_terminal(
    summary: Any, comparisons: Any, *, width: int = 100, color: bool = False, **options: Any
) -> str:
    screen = Screen(width, has_color=color)
    return results.render_terminal(*records(summary, comparisons), screen, **options)


def render_junit(summary: Any) -> str:
    return ci.render_junit(read(Summary, {"systems": [], **summary}))


def annotate(summary: Any, file: str | None) -> list[str]:
    return ci.annotate([read(Decision, gate) for gate in summary["gates"]], file)


def count_lines(scores: Any, measures: Any) -> list[str]:
    by_system = {
        name: {measure: read(SystemScore, score) for measure, score in own.items()}
        for name, own in scores.items()
    }
    return sections.count_lines(by_system, measures)
