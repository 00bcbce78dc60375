"""Layout of a report: from a summary and its comparisons to the tables of `report.base`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import chain

from msgspec import structs

from ragbench.records import summary as records
from ragbench.records.causes import EQUAL_TEXT, RIGHT
from ragbench.records.comparison import (
    ComparedRuns,
    Comparisons,
    MeasureComparison,
)
from ragbench.records.gate import Decision, Verdict
from ragbench.records.score import SystemScore
from ragbench.records.summary import Latency, Summary, SystemSummary, TokenCounts
from ragbench.report import text as fmt
from ragbench.report.audit import audit_chapter
from ragbench.report.base import Layout, ScoreCell, Section
from ragbench.report.ci import gate_counts, why_of
from ragbench.report.headline import (
    cheapest_sentence,
    headline,
    lead,
    lead_measure,
    lost_sentence,
    nothing_told,
)
from ragbench.report.legend import legend
from ragbench.report.noise import noise_chapter, noise_sentence, purchase_sentence
from ragbench.report.preferences import lay_out_preference
from ragbench.report.runs import lay_out_changes
from ragbench.report.score_counts import Scores
from ragbench.report.sections import Group, build_section
from ragbench.report.slices import build_slices, slice_tables
from ragbench.report.table import (
    Table,
    TableCell,
    count,
    label,
    number,
    number_table,
    word_table,
)
from ragbench.types.display import printable

# Verdict of a gate -> the word after a count; verdicts that need a decision come first.
_VERDICTS: Mapping[Verdict, str] = {"undecided": "undecided", "fail": "failed", "pass": "passed"}
# type of a system -> plural noun in the subject line
_NOUNS: Mapping[records.SystemType, str] = {
    "retriever": "retrievers",
    "pair": "pairs",
    "app": "apps",
    "control": "controls",
    "recorded": "systems",
}


def lay_out(summary: Summary, comparisons: Comparisons, *, narrow: bool = False) -> Layout:
    """Return the content of a report.

    Sections have the order retrieval, generation, then one for each judge; systems and measures
    have the order of the summary. Foreign texts are made printable. A run without scores has the
    headline 'nothing was scored'.

    Args:
        summary: The run.
        comparisons: The tests of the run, or of several runs.
        narrow: Keep the last slices of a field only, for a terminal.
    """
    # files of other programs may have no confidence: then that of the run applies
    if comparisons.confidence is None:
        comparisons = structs.replace(comparisons, confidence=summary.confidence)
    families = comparisons.by_measure()
    silent = {family.measure for family in comparisons.measures if family.tells_nothing}
    groups = _group(summary.systems)
    sections = _sections(groups, summary, families, silent)
    gates = sorted(summary.gates, key=lambda gate: list(_VERDICTS).index(gate.verdict))
    runs = lay_out_changes(comparisons) if isinstance(comparisons, ComparedRuns) else None
    of_lead = lead_measure(summary, comparisons) if runs is None else None
    results = nothing_told(comparisons.measures)
    results += _headlines(summary, groups, sections, comparisons, of_lead, silent)
    preferences = []
    for entry in comparisons.preferences:
        preferences.append(lay_out_preference(entry, summary))
        results += preferences[-1].headlines
    results += _cheapest(summary, groups, silent)
    warnings = _lines(_incomplete(summary), summary.warnings)
    return Layout(
        name=printable(summary.name),
        run_id=printable(summary.run_id),
        subject=_subject(summary),
        lead=lead(summary, comparisons) if runs is None else "",
        lost=lost_sentence(summary, comparisons) if runs is None else "",
        silent=tuple(nothing_told(comparisons.measures)),
        headlines=(
            *filter(None, [gate_counts(gates, _VERDICTS)]),
            *(() if runs is None else runs.headlines),
            *(results or ([] if of_lead else ["nothing was scored"])),
        ),
        gates=tuple(map(_gate, gates)),
        sections=tuple(sections),
        slices=build_slices(comparisons, tuple(slice_tables(summary, groups, narrow=narrow))),
        runs=runs,
        preferences=tuple(preferences),
        audit=None if summary.audit is None else audit_chapter(summary.audit),
        noise=noise_chapter(summary, comparisons),
        noise_sentence=noise_sentence(of_lead, summary),
        purchase_sentence=purchase_sentence(of_lead, summary),
        legend=tuple(legend(sections, comparisons, _has_several_answers(summary))),
        notes=_lines(() if summary.dataset is None else summary.dataset.notes, summary.notes),
        # a headline is not repeated as a warning
        warnings=tuple(warning for warning in warnings if warning not in results),
        price=_price(summary, comparisons),
        doubts=tuple(_doubts(summary)),
        details=tuple(_details(summary, sections)) if sections else (),
    )


def _sections(
    groups: Mapping[Group, Scores],
    summary: Summary,
    families: Mapping[str, MeasureComparison],
    silent: Set[str],
) -> list[Section]:
    """Return a section for each group of measures, with its main measure."""
    sections = []
    for group, scores in groups.items():
        section = build_section(group, scores, summary, families)
        telling = _telling_measure(scores, silent)
        main = telling or (_scored(scores) or _names(scores))[0]
        sections.append(replace(section, main=printable(main), is_silent=telling is None))
    return sections


def _incomplete(summary: Summary) -> tuple[str, ...]:
    """Return a warning that the run is incomplete, if no warning of the run says so."""
    # a run has a warning with the reason; a summary from another program may not
    is_explained = any("incomplete" in warning for warning in summary.warnings)
    return () if summary.complete or is_explained else ("the run is incomplete",)


def _has_several_answers(summary: Summary) -> bool:
    """Return True if a system has several answers to a query."""
    for system in summary.systems:
        if system.answers is not None and system.answers.per_query > 1:
            return True
    return False


def _group(systems: Sequence[SystemSummary]) -> dict[Group, dict[str, dict[str, SystemScore]]]:
    """Return the scores of each section: kind and judge -> system -> measure -> score."""
    groups: dict[Group, dict[str, dict[str, SystemScore]]] = {}
    for system in systems:
        scores = dict(system.scores)
        if (score := system.score(EQUAL_TEXT)) is not None:
            scores = {EQUAL_TEXT: score, **scores}
        for measure, score in scores.items():
            group = (score.kind or "generation", score.judge or "")
            groups.setdefault(group, {}).setdefault(system.name, {})[measure] = score
    # along the pipeline
    order = ["retrieval", "generation", "judge"]
    return dict(sorted(groups.items(), key=lambda item: order.index(item[0][0])))


def _headlines(
    summary: Summary,
    groups: Mapping[Group, Scores],
    sections: Sequence[Section],
    comparisons: Comparisons,
    first: str | None,
    silent: Set[str],
) -> list[str]:
    """Return a sentence per section, on its first measure with a mean that tells something."""
    sentences = list[str]()
    for scores, section in zip(groups.values(), sections, strict=True):
        measure = _telling_measure(scores, silent)
        if measure is None:
            continue
        if measure == first == EQUAL_TEXT:  # then the same hits of each
            measure = next((name for name in _scored(scores) if name != first), measure)
        # the first sentence of the report has been on this measure
        text = [] if measure == first else [headline(measure, summary, comparisons)]
        sentences += filter(None, ["; ".join([*text, *section.labels])])
    return sentences


def _cheapest(summary: Summary, groups: Mapping[Group, Scores], silent: Set[str]) -> Iterator[str]:
    """Yield a sentence on the cheapest system of each section, by the measure of its sentence."""
    for scores in groups.values():
        measure = _telling_measure(scores, silent)
        for cheapest in summary.timing.cheapest:
            if measure is not None and cheapest.measure == measure:
                yield cheapest_sentence(cheapest, _column(scores, measure))


def _column(scores: Scores, measure: str) -> dict[str, SystemScore]:
    """Return the scores of the systems by one measure."""
    return {system: of[measure] for system, of in scores.items() if measure in of}


def _telling_measure(scores: Scores, silent: Set[str]) -> str | None:
    """Return the measure of the sentence on a section: `right`, else the first one that tells."""
    scored = _scored(scores)
    if RIGHT in scored:
        return RIGHT
    telling = []
    for name in scored:
        if name not in silent:
            telling.append(name)
    names = _names(scores)
    if telling or silent.isdisjoint(names):
        return (telling or names)[0]
    return None


def _names(scores: Scores) -> list[str]:
    """Return all measures of a section in their order."""
    return list(dict.fromkeys(chain.from_iterable(scores.values())))


def _scored(scores: Scores) -> list[str]:
    """Return the measures by which a system of a section has a mean."""
    scored = []
    for name in _names(scores):
        if any(score.mean is not None for score in _column(scores, name).values()):
            scored.append(name)
    return scored


def _subject(summary: Summary) -> str:
    """Return data set, systems and baseline: `example/test, 66 queries, 3 retrievers, ...`."""
    dataset = summary.dataset or records.Dataset()
    parts = [printable(dataset.name)] if dataset.name else []
    nouns = ("queries", "documents", "judgements")
    sizes = zip((dataset.queries, dataset.documents, dataset.judgements), nouns, strict=True)
    for size, noun in sizes:
        if size is not None:
            parts.append(fmt.counted(size, noun))
    types = Counter(system.type for system in summary.systems)
    for type_, noun in _NOUNS.items():
        if types[type_]:
            parts.append(fmt.counted(types[type_], noun))
    if summary.baseline:
        parts.append(f"baseline {printable(summary.baseline)}")
    return ", ".join(parts)


def _gate(gate: Decision) -> Decision:
    """Return a decision with printable texts, and with its worst queries if it did not pass."""
    text, system, why = map(printable, (gate.gate, gate.system or "", why_of(gate)))
    worst = () if gate.verdict == "pass" else gate.worst_queries
    return structs.replace(gate, gate=text, system=system, why=why, worst_queries=worst)


def _price(summary: Summary, comparisons: Comparisons) -> str:
    """Return latency, tokens and cost of the best system of each kind and of its baseline."""
    kinds = {}
    for system in summary.systems:
        for name, score in system.scores.items():
            kinds[name] = score.kind
    best_of: dict[str | None, str] = {}
    for family in comparisons.measures:
        if family.best and family.measure in kinds:
            # the first measure of a kind decides
            best_of.setdefault(kinds[family.measure], family.best)
    bests = set(best_of.values())
    names = bests | {system.baseline for system in summary.systems if system.name in bests}
    prices = []
    for system in summary.systems:
        latency = summary.timing.of(system.name).latency_ms or Latency()
        tokens, parts = system.tokens or TokenCounts(), []
        if latency.p50 is not None:
            parts.append(f"{fmt.significant(latency.p50)} ms a query (median)")
        if tokens.input:
            parts.append(f"{tokens.input:,} tokens sent, {tokens.output or 0:,} received")
        if system.usd:
            parts.append(f"{fmt.significant(system.usd)} USD")
        if parts and system.name in names:
            prices.append(f"{printable(system.name)}: {', '.join(parts)}")
    return "; ".join(prices)


# below, only large differences are significant
_FEW_QUERIES = 50


def _doubts(summary: Summary) -> Iterator[str]:
    """Yield reasons to distrust the scores: failed items, findings, few queries, no certificate."""
    if summary.audit is not None and summary.audit.findings:
        yield f"test set: {fmt.counted(len(summary.audit.findings), 'findings')} of the audit"
    scores: list[SystemScore] = []
    for system in summary.systems:
        scores += system.scores.values()
    most = max((score.n for score in scores), default=_FEW_QUERIES)
    if most < _FEW_QUERIES:
        yield f"{fmt.counted(most, 'queries')}: too few to show small differences"
    # a gate on the certificate is the only sign of one in a summary
    certified = any("certificate" in gate.gate and gate.verdict == "pass" for gate in summary.gates)
    judges = sorted({score.judge for score in scores if score.judge})
    if judges and not certified:
        names = fmt.listed([*map(printable, judges)])
        yield (
            f"judge {names} has no certificate of its agreement with people: compare its scores, "
            "but do not read them as shares of right answers"
        )
    # last, as there may be many
    for system in summary.systems:
        for name, score in system.scores.items():
            if score.n_failed:
                count = f"{score.n_failed} of {score.n_failed + score.n} failed"
                causes = fmt.causes(score.failed.items())
                yield f"{count}: {printable(name)} of {printable(system.name)}{causes}"


def _details(summary: Summary, sections: Sequence[Section]) -> Iterator[Table]:
    """Yield the tables of counts and bounds, of time, tokens and cost, and of signatures."""
    for section in sections:
        names, columns = ["system"], [map(label, section.systems)]
        for measure in section.measures:
            names.append(measure.name)
            columns.append(map(_count_cell, measure.scores))
        counts = "scored / failed / not applicable, and the bounds of the mean where some failed"
        rows = zip(*columns, strict=True)
        yield number_table(names, rows, f"{section.title}: {counts}")
    costs, has_costs = [], False
    for system in summary.systems:
        times, tokens = summary.timing.of(system.name), system.tokens or TokenCounts()
        latency = times.latency_ms or Latency()
        speeds = map(number, (latency.p50, latency.p95, times.queries_per_second))
        sizes = map(count, (tokens.input, tokens.output))
        cells = (*speeds, *sizes, number(system.usd))
        costs.append((label(system.name), *cells))
        has_costs |= any(cell.value is not None for cell in cells)
    # run files have no times, tokens and cost: then there is no table
    if has_costs:
        heads = ("p50 ms", "p95 ms", "queries/s", "input tokens", "output tokens", "usd")
        yield number_table(("system", *heads), costs, "time, tokens and money")
    signatures = tuple(_signatures(summary.systems))
    if signatures:
        caption = "signatures: what each number depends on; only equal ones are compared"
        yield word_table(("measure", "signature"), signatures, caption)


def _count_cell(cell: ScoreCell) -> TableCell:
    """Return scored / failed / not applicable items: `57 / 3 / 6 [0.769, 0.820]`."""
    if (score := cell.score) is None:
        return TableCell(fmt.MISSING)
    bounds = fmt.interval(score.bounds) or fmt.MISSING if score.n_failed else ""
    return TableCell(f"{score.n} / {score.n_failed} / {score.not_applicable}", interval=bounds)


def _lines(*sources: Sequence[str]) -> tuple[str, ...]:
    """Join lists of sentences without repetitions."""
    return tuple(dict.fromkeys(map(printable, chain.from_iterable(sources))))


def _signatures(systems: Sequence[SystemSummary]) -> Iterator[tuple[str, str]]:
    """Yield (measure, signature), or if the signatures of a measure differ (`map of a, b`, ...)."""
    owners: dict[str, dict[str, list[str]]] = {}
    for system in systems:
        for measure, score in system.scores.items():
            if score.signature:
                by_text = owners.setdefault(measure, {})
                by_text.setdefault(score.signature, []).append(printable(system.name))
    for measure, by_text in owners.items():
        for text, names in by_text.items():
            of = f" of {', '.join(names)}" if len(by_text) > 1 else ""
            yield printable(measure) + of, printable(text)
