"""Content of one A4 page: `ragbench report RUN --brief`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from ragbench.records.comparison import Comparisons
from ragbench.records.summary import Summary, SystemSummary
from ragbench.report.base import Layout
from ragbench.report.headline import lead_measure, leading_systems
from ragbench.report.layout import lay_out
from ragbench.report.text import counted

# What one sheet holds: systems, tables, measures of a table, sentences of a list, gates, and
# characters of a sentence
_SYSTEMS, _TABLES, _MEASURES, _SENTENCES, _GATES, _LONGEST = 5, 3, 2, 3, 4, 300


def lay_out_brief(summary: Summary, comparisons: Comparisons) -> tuple[Layout, Summary]:
    """Return the content of a page that fits on one sheet, and the run with its systems only.

    The sheet has the first sentences, doubts and gates, of which passed ones are the last, and the
    first two measures of three tables for five systems: that of the first sentence, the best ones
    and their baselines before the others. Lists that are cut say how much is left out.
    """
    page, systems = lay_out(summary, comparisons), _choose_systems(summary, comparisons)
    short_run = structs.replace(summary, systems=tuple(systems))
    tables = lay_out(short_run, comparisons)
    n_more = len(summary.systems) - len(systems)
    text = f"{counted(n_more, 'systems')}; see the whole page"
    gates = []
    for gate in page.gates[:_GATES]:
        gates.append(structs.replace(gate, worst_queries=()))
    short_page = replace(
        page,
        headlines=_cut(page.headlines),
        gates=tuple(gates),
        sections=tuple(
            replace(section, counts=(), labels=(), measures=section.measures[:_MEASURES])
            for section in tables.sections[:_TABLES]
        ),
        legend=(*tables.legend, *([("left out", text)] if n_more else ())),
        warnings=(),
        doubts=_cut([*page.warnings, *page.doubts]),
        slices=None,
        details=(),
        preferences=(),
        notes=(),
    )
    return short_page, short_run


def _cut(sentences: Sequence[str]) -> tuple[str, ...]:
    """Return the first 3 sentences with 300 characters at most, and the number of the others."""
    lines = []
    for sentence in sentences:
        lines.append(sentence if len(sentence) <= _LONGEST else f"{sentence[: _LONGEST - 3]}...")
    n_more = len(lines) - _SENTENCES
    return (*lines[:_SENTENCES], *([f"and {n_more} more"] if n_more > 0 else ()))


def _choose_systems(summary: Summary, comparisons: Comparisons) -> list[SystemSummary]:
    """Return at most 5 systems in the order of the tables: the important ones, then the first."""
    by_name = {system.name: system for system in summary.systems}
    measure = lead_measure(summary, comparisons)
    firsts = [] if measure is None else leading_systems(measure, summary)
    bests = [family.best for family in comparisons.measures]
    important = [*(system.name for system in firsts), *bests, summary.baseline]
    important += [by_name[name].baseline for name in important if name in by_name]
    names = []
    for name in dict.fromkeys([*important, *by_name]):
        if name in by_name:
            names.append(name)
    systems = []
    for system in summary.systems:
        if system.name in names[:_SYSTEMS]:
            systems.append(system)
    return systems
