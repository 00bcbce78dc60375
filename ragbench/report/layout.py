"""From summary.json and comparisons.json to the neutral tables that every page draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ragbench.records.comparison import ComparedRuns, Comparisons, SliceDifference
from ragbench.records.gate import GateVerdict
from ragbench.records.score import SystemScore
from ragbench.records.summary import (
    Dataset,
    Latency,
    Summary,
    SystemSummary,
    SystemType,
    Timing,
    Tokens,
)
from ragbench.report.base import Gate, Layout, Section, Slices
from ragbench.report.ci import why_of
from ragbench.report.headline import headline, legend, nothing_told
from ragbench.report.runs import lay_out_changes
from ragbench.report.sections import Group, Scores, baselines_of, build_section, lay_out_preferences
from ragbench.report.text import (
    MISSING,
    causes,
    counted,
    difference,
    listed,
    percent,
    printable,
    probability,
    significant,
)

_GATES_FIRST = {"undecided": 0, "fail": 1}
_NOUNS: Mapping[SystemType, str] = {
    "retriever": "retrievers",
    "pair": "pairs",
    "app": "apps",
    "control": "controls",
    "recorded": "systems",
}
_INCOMPLETE = "the run is incomplete"


def lay_out(summary: Summary, comparisons: Comparisons, *, narrow: bool = False) -> Layout:
    """Decide what stands on a page; `narrow` leaves out all differences but the first of a section.

    Sections are in the order retrieval, generation, one for each judge; in them systems and
    measures in the order of the summary.
    """
    families = {family.measure: family for family in comparisons.measures}
    groups = _group(summary.systems)
    sections = [build_section(group, scores, summary, families) for group, scores in groups.items()]
    if narrow:
        sections = [_narrowed(section) for section in sections]
    gates = [_gate(gate) for gate in summary.gates]
    # the run itself says why; a summary of somebody else's may not
    said = any("incomplete" in warning for warning in summary.warnings)
    incomplete = () if summary.complete or said else (_INCOMPLETE,)
    preferences = lay_out_preferences(summary, comparisons)
    results = [
        *_headlines(summary, groups, sections, comparisons),
        *(line for preference in preferences for line in preference.headlines),
    ]
    runs = lay_out_changes(comparisons) if isinstance(comparisons, ComparedRuns) else None
    answers = [system.answers for system in summary.systems if system.answers is not None]
    several_answers = any(each.per_query > 1 for each in answers)
    if comparisons.confidence is None:
        comparisons = replace(comparisons, confidence=summary.confidence)
    return Layout(
        name=printable(summary.name),
        run_id=printable(summary.run_id),
        subject=_subject(summary),
        headlines=(
            *_gate_counts(gates),
            *(() if runs is None else runs.headlines),
            *(results or ["nothing was scored"]),
        ),
        gates=tuple(sorted(gates, key=lambda gate: _GATES_FIRST.get(gate.verdict, 2))),
        sections=tuple(sections),
        slices=build_slices(comparisons),
        runs=runs,
        preferences=tuple(preferences),
        legend=tuple(legend(sections, comparisons, several_answers)),
        notes=_lines(() if summary.dataset is None else summary.dataset.notes, summary.notes),
        # what the headlines say is not said again
        warnings=tuple(w for w in _lines(incomplete, summary.warnings) if w not in results),
        price=_price(summary, comparisons),
        doubts=tuple(_doubts(summary)),
        costs=tuple(_costs(summary.systems, summary.timing)),
        signatures=tuple(_signatures(summary.systems)),
    )


def _narrowed(section: Section) -> Section:
    first, *others = section.measures
    return replace(section, measures=(first, *(replace(each, differences=()) for each in others)))


def _group(systems: Sequence[SystemSummary]) -> dict[Group, dict[str, dict[str, SystemScore]]]:
    groups: dict[Group, dict[str, dict[str, SystemScore]]] = {}
    for system in systems:
        for measure, score in system.scores.items():
            group = (score.kind or "generation", score.judge or "")
            groups.setdefault(group, {}).setdefault(system.name, {})[measure] = score
    order = ["retrieval", "generation", "judge"]
    return dict(sorted(groups.items(), key=lambda item: order.index(item[0][0])))


def _headlines(
    summary: Summary,
    groups: Mapping[Group, Scores],
    sections: Sequence[Section],
    comparisons: Comparisons,
) -> list[str]:
    """Write one sentence for the first measure of each section; a judge is named with it.

    Measures that tell nothing come before all others, with the reason; the sentence of a section is
    about its first measure that tells something.
    """
    families = {family.measure: family for family in comparisons.measures}
    corrected = comparisons.correction != "none"
    sentences = nothing_told(comparisons.measures)
    silent = {family.measure for family in comparisons.measures if family.tells_nothing}
    for scores, section in zip(groups.values(), sections, strict=True):
        names = dict.fromkeys(name for by_name in scores.values() for name in by_name)
        by_name = {n: {s: own[n] for s, own in scores.items() if n in own} for n in names}
        valued = (n for n, own in by_name.items() if any(s.mean is not None for s in own.values()))
        telling = [name for name in valued if name not in silent]
        if not telling and silent.intersection(names):
            continue
        first = next(iter(telling), next(iter(names)))
        text = headline(
            first,
            by_name[first],
            families.get(first),
            baselines_of(summary, scores),
            summary.confidence,
            corrected=corrected,
        )
        sentences.append("; ".join([text, *section.labels]))
    return sentences


def _subject(summary: Summary) -> str:
    """Describe data, systems and baseline: `example/test, 66 queries, 3 retrievers, ...`."""
    dataset = summary.dataset or Dataset()
    parts = [printable(dataset.name)] if dataset.name else []
    nouns = ("queries", "documents", "judgements")
    sizes = zip((dataset.queries, dataset.documents, dataset.judgements), nouns, strict=True)
    parts += [counted(size, noun) for size, noun in sizes if size is not None]
    types = Counter(system.type for system in summary.systems)
    parts += [counted(types[type_], noun) for type_, noun in _NOUNS.items() if types[type_]]
    if summary.baseline:
        parts.append(f"baseline {printable(summary.baseline)}")
    return ", ".join(parts)


def _gate(gate: GateVerdict) -> Gate:
    worst = () if gate.verdict == "pass" else gate.worst_queries
    return Gate(
        verdict=printable(gate.verdict),
        gate=printable(gate.gate),
        system=printable(gate.system or ""),
        why=printable(why_of(gate)),
        worst=tuple(
            (
                printable(each.query_id),
                f"{printable(each.question)} "
                f"{'' if each.baseline is None else f'{significant(each.baseline)} -> '}"
                f"{significant(each.score)}".strip(),
            )
            for each in worst
        ),
    )


def _gate_counts(gates: Sequence[Gate]) -> list[str]:
    """Count the verdicts in one sentence, what needs a reader first; none without gates."""
    counts = Counter(gate.verdict for gate in gates)
    words = {"undecided": "undecided", "fail": "failed", "pass": "passed"}
    parts = [f"{counts[verdict]} {word}" for verdict, word in words.items() if counts[verdict]]
    return [f"gates: {', '.join(parts)}"] if parts else []


def _price(summary: Summary, comparisons: Comparisons) -> str:
    """Say what the best system of each kind of score takes, and what its baseline does."""
    bests: dict[str, None] = {}
    kinds = {name: score.kind for each in summary.systems for name, score in each.scores.items()}
    for kind in dict.fromkeys(kinds.values()):
        families = (f for f in comparisons.measures if kinds.get(f.measure) == kind and f.best)
        best = next(families, None)
        system = None if best is None or best.best is None else summary.system(best.best)
        if system is not None:
            bests |= dict.fromkeys(filter(None, (system.name, system.baseline)))
    found = (_taken(system, summary.timing) for system in summary.systems if system.name in bests)
    return "; ".join(filter(None, found))


def _taken(system: SystemSummary, timing: Timing) -> str:
    latency, tokens = timing.of(system.name).latency_ms or Latency(), system.tokens or Tokens()
    parts = []
    if latency.p50 is not None:
        parts.append(f"{significant(latency.p50)} ms a query (median)")
    if tokens.input:
        parts.append(f"{tokens.input:,} tokens sent, {tokens.output or 0:,} received")
    if system.usd:
        parts.append(f"{significant(system.usd)} USD")
    return f"{printable(system.name)}: {', '.join(parts)}" if parts else ""


_FEW_QUERIES = 50
_MOST_DOUBTS = 6


def _doubts(summary: Summary) -> Iterator[str]:
    failed = [
        f"{score.n_failed} of {score.n_failed + score.n} failed: {printable(name)} of "
        f"{printable(system.name)}{causes(score.failed.items())}"
        for system in summary.systems
        for name, score in system.scores.items()
        if score.n_failed
    ]
    yield from failed[:_MOST_DOUBTS]
    if len(failed) > _MOST_DOUBTS:
        yield f"{len(failed) - _MOST_DOUBTS} more scores have failed items"
    scored = [score.n for system in summary.systems for score in system.scores.values()]
    if scored and max(scored) < _FEW_QUERIES:
        yield f"{counted(max(scored), 'queries')}: small differences cannot be seen with so few"
    certified = any("certificate" in gate.gate and gate.verdict == "pass" for gate in summary.gates)
    judges = {s.judge for each in summary.systems for s in each.scores.values() if s.judge}
    if judges and not certified:
        names = listed([*map(printable, sorted(judges))])
        yield (
            f"no certificate says how far judge {names} agrees with people: compare its scores, "
            "but do not read them as shares of right answers (ragbench calibrate)"
        )


def _costs(systems: Sequence[SystemSummary], timing: Timing) -> list[tuple[str, ...]]:
    rows = []
    for system in systems:
        times, tokens = timing.of(system.name), system.tokens or Tokens()
        latency = times.latency_ms or Latency()
        taken = map(significant, (latency.p50, latency.p95, times.queries_per_second))
        counts = (tokens.input, tokens.output)
        texts = (MISSING if count is None else str(count) for count in counts)
        rows.append((printable(system.name), *taken, *texts, significant(system.usd)))
    return rows if any(cell != MISSING for row in rows for cell in row[1:]) else []


def _lines(*sources: Sequence[str]) -> tuple[str, ...]:
    """Join lists of sentences; one that stands in several of them is said once."""
    return tuple(dict.fromkeys(printable(line) for source in sources for line in source))


def _signatures(systems: Sequence[SystemSummary]) -> list[tuple[str, str]]:
    found: dict[str, dict[str, list[str]]] = {}
    for system in systems:
        for measure, score in system.scores.items():
            if score.signature:
                owners = found.setdefault(measure, {}).setdefault(score.signature, [])
                owners.append(printable(system.name))
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


def build_slices(comparisons: Comparisons) -> Slices | None:
    """Decide what a page says of the slices; None where none were asked for.

    Those that got worse are in the table, the surest first. What was tested, and what had too few
    queries for it, is said in a line per field.
    """
    rows = comparisons.slices
    if not rows:
        return None
    worse = [row for row in rows if row.worse and row.difference is not None]
    worse.sort(key=lambda row: (row.p_adjusted or 0.0, -abs(row.difference or 0.0)))
    confidence = percent(comparisons.confidence or 0.95)
    lines = [_field_line(field, rows) for field in dict.fromkeys(row.field for row in rows)]
    if len(worse) > MOST_ROWS:
        lines.insert(0, f"{len(worse) - MOST_ROWS} more that got worse are in comparisons.json")
    lines.append(
        f"'worse' is one-sided, with max-T over the slices of one field ({confidence}); the "
        "measures, systems and fields are not corrected for each other"
    )
    cells = [
        (
            f"{printable(row.field)}: {printable(row.slice)}",
            *map(printable, (row.system, row.measure)),
            str(row.n),
            " ".join(difference(row.difference or 0.0, row.interval)).rstrip(),
            probability(row.p_adjusted),
        )
        for row in worse[:MOST_ROWS]
    ]
    return Slices(tuple(cells), tuple(lines))


def _field_line(field: str, rows: Sequence[SliceDifference]) -> str:
    own = [row for row in rows if row.field == field]
    slices = list(dict.fromkeys(row.slice for row in own))
    tested = {row.slice for row in own if row.worse is not None}
    worse = {row.slice for row in own if row.worse}
    untested = [printable(name) for name in slices if name not in tested]
    line = f"{printable(field)}: {counted(len(slices), 'slices')}, {len(worse) or 'none'} worse"
    if not untested:
        return line
    shown = ", ".join(untested[:5]) + (", ..." if len(untested) > 5 else "")
    return f"{line}; not tested, too few queries (under 20): {shown}"
