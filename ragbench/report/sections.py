"""Sections of a report: scores of one kind by system and measure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

from ragbench.records.comparison import Difference, MeasureComparison
from ragbench.records.score import Kind, SystemScore
from ragbench.records.summary import DeclaredJudge, FillCounts, Summary
from ragbench.report import text as fmt
from ragbench.report.base import DifferenceCell, MeasureColumn, ScoreCell, Section
from ragbench.report.headline import outcome_of
from ragbench.report.score_counts import Scores, count_lines
from ragbench.report.table import (
    Mark,
    Table,
    TableCell,
    TableColumn,
    label,
)
from ragbench.types.display import printable

# Key of a section: its kind, and the name of the judge if the kind is `judge`.
Group = tuple[Kind, str]


def build_section(
    group: Group,
    scores: Scores,
    summary: Summary,
    families: Mapping[str, MeasureComparison],
) -> Section:
    """Return the table of one kind of scores; systems and measures in the order of `scores`.

    Args:
        group: Kind of the scores and name of the judge.
        scores: System -> measure -> score.
        summary: The run, for baselines and labels of judges.
        families: Measure -> comparisons by it; a measure without tests is missing.

    Raises:
        KeyError: A system of `scores` is not in the summary.
    """
    kind, judge = group
    names = list(dict.fromkeys(chain.from_iterable(scores.values())))
    # judged answers may have other baselines than rankings
    baselines = baselines_of(summary, scores)
    measures, is_compared = [], False
    for name in names:
        measure = _measure(name, scores, families.get(name), baselines)
        is_compared |= any(cell.outcome or cell.p for cell in measure.differences)
        measures.append(measure)
    # a generator on the baseline is named after it: `bm25/gpt`
    # None: systems without a baseline do not matter
    usual = (None, summary.baseline)
    is_usual = all(n in usual or n.startswith(f"{summary.baseline}/") for n in baselines.values())
    against = f"vs {printable(summary.baseline)}" if is_usual else "vs baseline"
    labels = [_judge_label(judge, scores, summary)] if kind == "judge" else []
    if kind == "retrieval" and summary.fill:
        labels = [_fill_label(summary.fill)]
    return Section(
        kind=kind,
        title=f"judge {printable(judge)}".rstrip() if kind == "judge" else kind,
        labels=tuple(labels),
        systems=tuple(map(printable, scores)),
        measures=tuple(measures),
        against=against if is_compared else "",
        counts=tuple(count_lines(scores, names)),
        main=printable(names[0]),
    )


def baselines_of(summary: Summary, scores: Scores) -> dict[str, str | None]:
    """Return the baseline of each system of a section, by its first score.

    A system without one, such as the baseline itself, has None. A system that the summary lacks is
    absent.
    """
    baselines = {}
    for system in summary.systems:
        if system.name in scores:
            first = next(iter(scores[system.name]), "")
            baselines[system.name] = system.baseline_by(first)
    return baselines


def _measure(
    name: str,
    scores: Scores,
    family: MeasureComparison | None,
    baselines: Mapping[str, str | None],
) -> MeasureColumn:
    """Return the column of a measure with the differences from the baselines."""
    column, differences = score_column(name, scores, family), []
    for system, by_measure in scores.items():
        if (baseline := baselines[system]) is not None:
            comparison = None if family is None else family.comparison_of(system, baseline)
            differences.append(_difference_cell(comparison, _of_measure(name, scores)[0].direction))
        else:
            is_baseline = name in by_measure and family is not None and family.comparisons
            differences.append(DifferenceCell("baseline" if is_baseline else ""))
    return replace(column, differences=tuple(differences))


def _of_measure(name: str, scores: Scores) -> list[SystemScore]:
    """Return the scores of the systems by a measure; they share aggregate and direction."""
    by_name = []
    for by_measure in scores.values():
        if name in by_measure:
            by_name.append(by_measure[name])
    return by_name


def score_column(name: str, scores: Scores, family: MeasureComparison | None) -> MeasureColumn:
    """Return the column of a measure without differences.

    Its title has remarks on an aggregate other than the mean, and that lower is better. No value is
    marked if fewer than two systems have a mean. Raises IndexError if no system has the score.
    """
    present = _of_measure(name, scores)
    # a single system is neither best nor tied
    has_rivals = sum(score.mean is not None for score in present) > 1
    first = present[0]
    remarks = [] if first.aggregate == "mean" else [first.aggregate.replace("_", " ")]
    remarks += ["lower is better"] if first.direction == "lower" else []
    cells = []
    for system, by_measure in scores.items():
        cells.append(score_cell(system, by_measure.get(name), family if has_rivals else None))
    title = printable(name) + (f" ({', '.join(remarks)})" if remarks else "")
    return MeasureColumn(printable(name), title, tuple(cells), ())


def score_cell(
    system: str, score: SystemScore | None, family: MeasureComparison | None
) -> ScoreCell:
    """Return the cell of a score with its mark in a family of comparisons.

    The best one is marked as `best` if it is surely better than all others, else `tied`, like those
    that are not shown to be worse. `-` without a score or mean; no mark without a family.
    """
    if score is None or score.mean is None:
        return ScoreCell(fmt.MISSING, score=score)
    mark: Mark = ""
    if family is not None and system in family.tied_with_best:
        # the best mean alone shows nothing
        mark = "best" if system == family.sure_best else "tied"
    return ScoreCell(
        fmt.significant(score.mean),
        score.mean,
        fmt.interval(score.interval),
        fmt.ends_of(score.interval),
        mark,
        score=score,
    )


def _difference_cell(comparison: Difference | None, direction: str) -> DifferenceCell:
    """Return the cell of a comparison; its value is `-` without one or without a difference."""
    if comparison is None:
        return DifferenceCell(value=fmt.MISSING)
    outcome = outcome_of(comparison, direction)
    if comparison.difference is None:
        return DifferenceCell(outcome, fmt.MISSING)
    value, ends = fmt.difference(comparison.difference, comparison.interval)
    p = fmt.probability(comparison.p_adjusted)
    return DifferenceCell(outcome, value, ends, p, comparison.needs_correction)


def _fill_label(fill: FillCounts) -> str:
    """Return the counts of relevance judgements of a pool of query and passage as a sentence."""
    counts = [
        f"{fill.people} judged by people",
        f"{fill.model} by {printable(fill.model_name)} ({printable(fill.rubric)})",
        f"{sum(fill.failed.values())} failed{fmt.causes(fill.failed.items())}",
    ]
    if fill.without_text:
        counts.append(f"{fill.without_text} without text")
    pool = f"{fill.pairs} pairs of query and passage in the best {fill.depth} of any retriever"
    return f"{pool}: {', '.join(counts)}"


def _judge_label(judge: str, scores: Scores, summary: Summary) -> str:
    """Return the models of a judge, by the names that they report, and its label as one text."""
    declared = summary.judges.get(judge) or DeclaredJudge()
    reported = []
    for by_measure in scores.values():
        for score in by_measure.values():
            reported.append(printable(score.model or ""))
    models = list(dict.fromkeys(filter(None, reported)))
    # a server may not report its model
    if not models and declared.model:
        models = [printable(declared.model)]
    text = f"judged by {fmt.listed(models) or printable(judge) or 'an unnamed judge'}"
    return text + (f": {printable(declared.label)}" if declared.label else "")


def score_table(section: Section, head: str = "system") -> Table:
    """Return the table of a section: systems are rows, and each measure may break.

    If the section compares, each measure has its differences to the right. `head` is the head of
    the column with the systems.
    """
    columns, cells = [TableColumn(head)], [list(map(label, section.systems))]
    for measure in section.measures:
        columns.append(TableColumn(measure.title, "number", breaks=True))
        cells.append([*measure.scores])
        if measure.differences and section.against:
            columns += [
                TableColumn(section.against, "number"),
                TableColumn("p", "number"),
                TableColumn("verdict"),
            ]
            values, p_values, verdicts = [], [], []
            for cell in measure.differences:
                values.append(TableCell(cell.value, interval=cell.interval))
                p_values.append(TableCell(cell.p))
                verdicts.append(TableCell(cell.verdict, tone=cell.outcome))
            cells += [values, p_values, verdicts]
    rows = tuple(zip(*cells, strict=True))
    return Table(tuple(columns), rows, notes=section.counts)


def difference_table(section: Section) -> Table:
    """Return the differences of a section, with interval, p and verdict in each cell."""
    columns = [TableColumn(section.against)]
    cells = [list(map(label, section.systems))]
    for measure in section.measures:
        columns.append(TableColumn(measure.title, "number", breaks=True))
        cells.append([TableCell(cell.text) for cell in measure.differences])
    return Table(tuple(columns), tuple(zip(*cells, strict=True)))
