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
from ragbench.report import ci, junit, layout, results, score_counts, slices
from ragbench.report.formats.base import Screen
from ragbench.report.page import html
from ragbench.report.preferences import lay_out_preference
from ragbench.report.table import Table


def read(kind: Any, value: Any) -> Any:
    """Read a record as a file would give it; what a test leaves out is empty."""
    # through text, so that a test cannot pass what a file does not hold
    return from_json(kind, whole(kind, json.loads(json.dumps(value))))


def whole(hint: Any, value: Any) -> Any:
    """Add the fields that have to be there, empty."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return whole(inner[0], value)
    # times stand in a block of their own, so that all else of a run is the same each time
    if hint is Summary and "timing" not in value:
        value = with_timing(value)
    if isinstance(hint, type) and issubclass(hint, Record):
        hints, needed = declared(hint)
        values = {key: whole(hints.get(key), part) for key, part in value.items()}
        if hint is SystemSummary:
            values = {**facts_of(values), **values}
        return {**{name: empty(hints[name]) for name in needed if name not in values}, **values}
    if isinstance(value, list) and origin is tuple:
        return [whole(inner[0], part) for part in value]
    if isinstance(value, dict) and len(inner) == 2:
        return {key: whole(inner[1], part) for key, part in value.items()}
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
        # a pair is compared with the baseline retriever under its own generator
        usual = grid.get((summary.baseline, system.generator))
        first = next(filter(None, by_score.values()), None if usual == system.name else usual)
        # a score without kind, judge and comparison: most tests name it by its system alone
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
        names = {entry.name for entry in summary.systems}
        return structs.replace(system, baseline=first if first in names else None, scores=scores)

    return structs.replace(summary, systems=tuple(map(filled, summary.systems)))


@functools.cache  # asked for each record that a test makes
def declared(kind: type[Record]) -> tuple[dict[str, Any], list[str]]:
    """The types of a record's fields, and the names of those that have to be there."""
    needed = [field.name for field in structs.fields(kind) if field.required]
    return get_type_hints(kind, include_extras=True), needed


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
    return slices.build_slices(read(Comparisons, comparisons), ())


def lay_out_preferences(summary: Any, comparisons: Any) -> Any:
    read_summary, compared = records(summary, comparisons)
    return [lay_out_preference(entry, read_summary) for entry in compared.preferences]


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
    return junit.render_junit(read(Summary, {"systems": [], **summary}))


def annotate(summary: Any, file: str | None) -> list[str]:
    return ci.annotate([read(Decision, gate) for gate in summary["gates"]], file)


def count_lines(scores: Any, measures: Any) -> list[str]:
    by_system = {
        name: {measure: read(SystemScore, score) for measure, score in by_measure.items()}
        for name, by_measure in scores.items()
    }
    return score_counts.count_lines(by_system, measures)
