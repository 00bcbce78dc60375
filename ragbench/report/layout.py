"""From summary.json and comparisons.json to the neutral tables that every page draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from typing import Any

from ragbench.report.base import Cost, Gate, Layout, Section, SliceRow, Slices
from ragbench.report.digits import (
    MISSING,
    counted,
    difference,
    percent,
    printable,
    probability,
    significant,
)
from ragbench.report.headline import headline
from ragbench.report.legend import answered_again, legend
from ragbench.report.preferences import lay_out_preferences
from ragbench.report.sections import Group, build_section, find_baselines

Json = Mapping[str, Any]

_GATES_FIRST = {"undecided": 0, "fail": 1}
_INCOMPLETE = "the run is incomplete"


def lay_out(summary: Json, comparisons: Json, *, narrow: bool = False) -> Layout:
    """Decide what stands on a page.

    Args:
        summary: The content of summary.json. Only `name` and `systems` have to be there.
        comparisons: The content of comparisons.json; an empty mapping leaves out what it says.
        narrow: Leave out the differences of all measures but the first of each section.

    Returns:
        Sections in the order retrieval, generation, one for each judge; in them systems and
        measures in the order of the summary.
    """
    families = {family["measure"]: family for family in comparisons.get("measures") or ()}
    groups = _group(summary["systems"], families)
    sections = [build_section(group, scores, summary, families) for group, scores in groups.items()]
    if narrow:
        sections = [_narrowed(section) for section in sections]
    dataset = summary.get("dataset") or {}
    gates = [_gate(gate) for gate in summary.get("gates") or ()]
    # the run itself says why; a summary of somebody else's may not
    said = any("incomplete" in str(warning) for warning in summary.get("warnings") or ())
    incomplete = [] if summary.get("complete", True) or said else [_INCOMPLETE]
    preferences = lay_out_preferences(summary, comparisons)
    results = [
        *_headlines(summary, groups, sections, families),
        *(preference.headline for preference in preferences),
    ]
    return Layout(
        name=printable(summary["name"]),
        run_id=printable(summary.get("run_id") or ""),
        subject=_subject(summary),
        headlines=(*_gate_counts(gates), *(results or ["nothing was scored"])),
        gates=tuple(sorted(gates, key=lambda gate: _GATES_FIRST.get(gate.verdict, 2))),
        sections=tuple(sections),
        slices=build_slices(comparisons),
        preferences=tuple(preferences),
        legend=tuple(
            legend(sections, {**_confidence(summary), **comparisons}, answered_again(summary))
        ),
        notes=_lines(dataset.get("notes"), summary.get("notes")),
        warnings=_lines(incomplete, summary.get("warnings")),
        costs=tuple(_costs(summary["systems"])),
        signatures=tuple(_signatures(summary["systems"])),
    )


def _narrowed(section: Section) -> Section:
    first, *others = section.measures
    return replace(
        section, measures=(first, *(replace(measure, differences=()) for measure in others))
    )


def _group(
    systems: Sequence[Json], families: Mapping[str, Json]
) -> dict[Group, dict[str, dict[str, Json]]]:
    """Sort the scores by section: group -> system -> measure -> score."""
    groups: dict[Group, dict[str, dict[str, Json]]] = {}
    for system in systems:
        for measure, score in (system.get("scores") or {}).items():
            group = _group_of(system, score, families.get(measure, {}))
            groups.setdefault(group, {}).setdefault(system["name"], {})[measure] = score
    order = ["retrieval", "generation", "judge"]
    return dict(sorted(groups.items(), key=lambda item: order.index(item[0][0])))


def _group_of(system: Json, score: Json, family: Json) -> Group:
    if score.get("judge") is not None:
        return "judge", str(score["judge"])
    kind = family.get("kind")
    if kind == "judge":
        return "judge", ""
    if kind in ("retrieval", "generation"):
        return kind, ""
    return ("retrieval" if system.get("generator") is None else "generation"), ""


def _headlines(
    summary: Json,
    groups: Mapping[Group, Mapping[str, Mapping[str, Json]]],
    sections: Sequence[Section],
    families: Mapping[str, Json],
) -> list[str]:
    """Write one sentence for the first measure of each section; a judge is named with it."""
    confidence = float(_confidence(summary)["confidence"])
    sentences = []
    for scores, section in zip(groups.values(), sections, strict=True):
        names = dict.fromkeys(name for by_name in scores.values() for name in by_name)
        valued = (n for n in names if any(_has_value(s.get(n)) for s in scores.values()))
        first = next(valued, next(iter(names)))
        column = {system: s[first] for system, s in scores.items() if first in s}
        baselines = find_baselines(summary, scores, families, [first])
        text = headline(first, column, families.get(first, {}), baselines, confidence)
        sentences.append("; ".join([text, *section.labels]))
    return sentences


def _has_value(score: Json | None) -> bool:
    return score is not None and score.get("mean") is not None


def _confidence(summary: Json) -> dict[str, Any]:
    return {"confidence": summary.get("confidence", 0.95)}


def _subject(summary: Json) -> str:
    """Describe data, systems and baseline: `example/test, 66 queries, 3 retrievers, ...`."""
    dataset, asked = summary.get("dataset") or {}, (summary.get("counts") or {}).get("queries")
    total = dataset.get("queries", asked)
    parts = [printable(dataset["name"])] if dataset.get("name") else []
    if total is not None:
        limited = f"{asked} of " if asked is not None and asked != total else ""
        parts.append(limited + counted(total, "queries"))
    for key in ("documents", "judgements"):
        if dataset.get(key) is not None:
            parts.append(counted(dataset[key], key))
    parts += _system_counts(summary["systems"])
    if summary.get("baseline"):
        parts.append(f"baseline {printable(summary['baseline'])}")
    return ", ".join(parts)


def _system_counts(systems: Sequence[Json]) -> list[str]:
    """Count retrievers, pairs, apps, controls, and systems that the records came with."""
    kinds = Counter(
        f"{system['role']}s"
        if "role" in system
        else "systems"
        if system.get("retriever") is None
        else "retrievers"
        if system.get("generator") is None
        else "pairs"
        for system in systems
    )
    order = ("retrievers", "pairs", "apps", "controls", "systems")
    return [counted(kinds[kind], kind) for kind in order if kinds[kind]]


def _gate(gate: Json) -> Gate:
    words = (printable(gate.get(key) or "") for key in ("verdict", "gate", "system", "why"))
    return Gate(*words)


def _gate_counts(gates: Sequence[Gate]) -> list[str]:
    """Count the verdicts in one sentence, what needs a reader first; none without gates."""
    counts = Counter(gate.verdict for gate in gates)
    words = {"fail": "failed", "undecided": "undecided", "pass": "passed"}
    parts = [f"{counts[verdict]} {word}" for verdict, word in words.items() if counts[verdict]]
    return [f"gates: {', '.join(parts)}"] if parts else []


def _costs(systems: Sequence[Json]) -> list[Cost]:
    rows = []
    for system in systems:
        latency, tokens = system.get("latency_ms") or {}, system.get("tokens") or {}
        rows.append(
            Cost(
                printable(system["name"]),
                significant(latency.get("p50")),
                significant(latency.get("p95")),
                significant(system.get("queries_per_second")),
                _whole(tokens.get("input")),
                _whole(tokens.get("output")),
                significant(system.get("usd")),
            )
        )
    known = [row for row in rows if any(cell != MISSING for cell in astuple(row)[1:])]
    return rows if known else []


def _whole(count: int | None) -> str:
    return MISSING if count is None else str(count)


def _lines(*sources: Sequence[Any] | None) -> tuple[str, ...]:
    """Join lists of sentences; one that stands in several of them is said once."""
    return tuple(dict.fromkeys(printable(line) for source in sources for line in source or ()))


def _signatures(systems: Sequence[Json]) -> list[tuple[str, str]]:
    """List each measure's signature once, or by system where the systems' differ."""
    found: dict[str, dict[str, list[str]]] = {}
    for system in systems:
        for measure, score in (system.get("scores") or {}).items():
            if score.get("signature"):
                owners = found.setdefault(measure, {}).setdefault(str(score["signature"]), [])
                owners.append(printable(system["name"]))
    return [
        (
            printable(measure) + (f" of {', '.join(owners)}" if len(by_text) > 1 else ""),
            printable(text),
        )
        for measure, by_text in found.items()
        for text, owners in by_text.items()
    ]


MOST_ROWS = 10
"""Rows of a page; the file has them all."""


def build_slices(comparisons: Json) -> Slices | None:
    """Decide what a page says of the slices; None where none were asked for.

    Those that got worse are in the table, the surest first. What was tested, and what had too few
    queries for it, is said in a line per field.
    """
    rows = comparisons.get("slices") or ()
    if not rows:
        return None
    found = (row for row in rows if row.get("worse") and row.get("difference") is not None)
    worse = sorted(found, key=_sureness)
    confidence = percent(comparisons.get("confidence", 0.95))
    lines = [_field_line(field, rows) for field in dict.fromkeys(row["field"] for row in rows)]
    if len(worse) > MOST_ROWS:
        lines.insert(0, f"{len(worse) - MOST_ROWS} more that got worse are in comparisons.json")
    lines.append(
        f"'worse' is one-sided, with max-T over the slices of one field ({confidence}); the "
        "measures, systems and fields are not corrected for each other"
    )
    return Slices(tuple(map(_row, worse[:MOST_ROWS])), tuple(lines))


def _sureness(row: Json) -> tuple[float, float]:
    return (row.get("p_adjusted") or 0.0, -abs(row.get("difference") or 0.0))


def _row(row: Json) -> SliceRow:
    value, ends = difference(row["difference"], row.get("interval"))
    return SliceRow(
        slice=f"{printable(row['field'])}: {printable(row['slice'])}",
        system=printable(row["system"]),
        measure=printable(row["measure"]),
        queries=str(row.get("n") or 0),
        difference=f"{value} {ends}".rstrip(),
        p=probability(row.get("p_adjusted")),
    )


def _field_line(field: str, rows: Sequence[Json]) -> str:
    """Say how many slices of a field there are, how many were tested, and how many got worse."""
    own = [row for row in rows if row["field"] == field]
    slices = list(dict.fromkeys(str(row["slice"]) for row in own))
    tested = {str(row["slice"]) for row in own if row.get("worse") is not None}
    worse = {str(row["slice"]) for row in own if row.get("worse")}
    untested = [printable(name) for name in slices if name not in tested]
    line = f"{printable(field)}: {counted(len(slices), 'slices')}, {_none(len(worse))} worse"
    if not untested:
        return line
    shown = ", ".join(untested[:5]) + (", ..." if len(untested) > 5 else "")
    return f"{line}; not tested, too few queries (under 20): {shown}"


def _none(count: int) -> str:
    return str(count) if count else "none"
