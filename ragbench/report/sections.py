"""Sections of a report: scores of one kind by system and measure, and preferences of judges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from ragbench.records.comparison import Difference, MeasureComparison, PreferredPair
from ragbench.records.comparison import Preference as Ranked
from ragbench.records.score import Kind, SystemScore
from ragbench.records.summary import DeclaredJudge, FillCounts, PreferredSystem, Summary
from ragbench.report import text as fmt
from ragbench.report.base import Chapter, DifferenceCell, MeasureColumn, ScoreCell, Section
from ragbench.report.headline import outcome_of
from ragbench.report.table import (
    Mark,
    Table,
    TableCell,
    TableColumn,
    count,
    label,
    number,
    number_table,
    probability,
)
from ragbench.types.display import printable

# System -> measure -> its score.
Scores = Mapping[str, Mapping[str, SystemScore]]
# Key of a section: its kind, and the name of the judge if the kind is `judge`.
Group = tuple[Kind, str]

_RANKING = ("system", "rank", "strength", "win rate", "wins", "ties", "losses", "failed", "n/a")
_PAIRS = ("pair", "win rate", "wins", "ties", "losses", "failed", "n/a", "bounds", "p", "verdict")
_METHOD = (
    "each pair in both orders, disagreement is a tie; win rate: wins and half the ties; strength: "
    "log-odds against the average of the systems (Bradley-Terry)"
)


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
    names = list(dict.fromkeys(measure for by_measure in scores.values() for measure in by_measure))
    # judged answers may have other baselines than rankings
    baselines = baselines_of(summary, scores)
    measures = tuple(_measure(name, scores, families.get(name), baselines) for name in names)
    is_compared = any(cell.outcome or cell.p for m in measures for cell in m.differences)
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
        systems=tuple(printable(system) for system in scores),
        measures=measures,
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
    comparisons = {} if family is None else {(c.system, c.baseline): c for c in family.comparisons}
    column, differences = score_column(name, scores, family), []
    for system, by_measure in scores.items():
        if (baseline := baselines[system]) is not None:
            comparison = comparisons.get((system, baseline))
            # all scores of a measure share the direction
            direction = next(s[name].direction for s in scores.values() if name in s)
            differences.append(_difference_cell(comparison, direction))
        else:
            is_baseline = name in by_measure and comparisons
            differences.append(DifferenceCell("baseline" if is_baseline else ""))
    return replace(column, differences=tuple(differences))


def score_column(name: str, scores: Scores, family: MeasureComparison | None) -> MeasureColumn:
    """Return the column of a measure without differences.

    Its title has remarks on an aggregate other than the mean, and that lower is better. No value is
    marked if fewer than two systems have a mean. Raises IndexError if no system has the score.
    """
    present = []
    for by_measure in scores.values():
        if name in by_measure:
            present.append(by_measure[name])
    # a single system is neither best nor tied
    has_rivals = sum(score.mean is not None for score in present) > 1
    # all scores of a measure share aggregate and direction
    first = present[0]
    remarks = [] if first.aggregate == "mean" else [first.aggregate.replace("_", " ")]
    remarks += ["lower is better"] if first.direction == "lower" else []
    cells = (
        score_cell(system, by_measure.get(name), family if has_rivals else None)
        for system, by_measure in scores.items()
    )
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
            reported.append(score.model)
    models = list(dict.fromkeys(printable(model) for model in reported if model))
    # a server may not report its model
    if not models and declared.model:
        models = [printable(declared.model)]
    text = f"judged by {fmt.listed(models) or printable(judge) or 'an unnamed judge'}"
    return text + (f": {printable(declared.label)}" if declared.label else "")


def count_lines(scores: Scores, measures: Sequence[str]) -> list[str]:
    """Return lines with the numbers of scored, failed and not applicable items, with causes.

    Scores with the same counts and causes share a line, the most frequent counts first. The other
    lines name their scores, with the bounds of means that failed items or answers leave open.
    """
    # equal counts are stated once, however many scores have them: counts -> (measure, system)
    groups: dict[str, list[tuple[str, str]]] = {}
    for measure, system in product(measures, scores):
        if (score := scores[system].get(measure)) is not None:
            causes = fmt.causes((cause, n) for cause, n in score.failed.items() if n)
            counts = f"{score.n} scored, {score.n_failed} failed{causes}"
            counts += f", {fmt.not_applicable(score)}"
            groups.setdefault(counts, []).append((measure, system))
    if not groups:
        return []
    usual = max(groups, key=lambda counts: len(groups[counts]))
    # with several answers per query, some may fail without a failed query
    bounded = []
    for measure, name in groups[usual]:
        if _bounds(scores[name][measure]):
            bounded.append((measure, name))
    lines = []
    if len(bounded) < len(groups[usual]):
        lines = [f"{usual} in every score but these:" if len(groups) > 1 else usual]
    for counts, places in groups.items():
        listed = bounded if counts == usual else places
        lines += [f"{counts}: {_where(listed, scores)}"] if listed else []
    return lines


def _bounds(score: SystemScore) -> str:
    """Return the bounds of a mean in words, with a blank and brackets around them."""
    bounds = fmt.ends_of(score.bounds)
    if bounds is None or bounds == (score.mean, score.mean):
        return ""
    low, high = map(fmt.significant, bounds)
    return f" (mean from {low} to {high}, had all been scored)"


def _where(places: Sequence[tuple[str, str]], scores: Scores) -> str:
    """Return measures with systems and bounds; a measure of all systems alone names none."""
    by_measure: dict[str, list[str]] = {}
    for measure, system in places:
        text = printable(system) + _bounds(scores[system][measure])
        by_measure.setdefault(measure, []).append(text)
    everywhere = {}
    for measure in by_measure:
        everywhere[measure] = [printable(system) for system in scores if measure in scores[system]]
    return ", ".join(
        printable(measure) + ("" if names == everywhere[measure] else f" of {', '.join(names)}")
        for measure, names in by_measure.items()
    )


def lay_out_preference(entry: Ranked, summary: Summary) -> Chapter:
    """Return the chapter of a pairwise rubric: the ranking of the systems, and their pairs."""
    confidence, baseline = fmt.percent(summary.confidence), printable(entry.baseline)
    declared = summary.judges.get(entry.judge) or DeclaredJudge()
    judged = f"judged by {printable(entry.model)}"
    judged += f": {printable(declared.label)}" if declared.label else ""
    scope = f"each against {baseline}" if entry.baseline else "every two systems"
    pairs = f"pairs, with {confidence} intervals; p: Holm over {len(entry.comparisons)}"
    grids = (
        number_table(_RANKING, _ranking_rows(entry.systems), "ranking"),
        number_table(_PAIRS, map(_pair_row, entry.comparisons), pairs),
    )
    return Chapter(
        title=f"preference (judge {printable(entry.judge)}): {printable(entry.rubric)}",
        headlines=(f"{_headline(entry, confidence)}; {judged}",),
        labels=(judged, f"{scope}, {_METHOD}", *map(printable, entry.notes)),
        grids=grids,
    )


def _headline(entry: Ranked, confidence: str) -> str:
    """Return the sentence on the system that ranks first, and which systems it beats."""
    name = printable(entry.name)
    first = []
    for system in entry.systems:
        if system.rank == 1:
            first.append(system)
    if not first:
        return f"no system has a rank by {name}"
    if len(first) > 1:
        return f"{fmt.listed([printable(system.system) for system in first])} rank equal by {name}"
    best = first[0].system
    beaten = []
    for pair in entry.comparisons:
        if pair.preferred == best:
            beaten.append(printable(pair.other if pair.system == best else pair.system))
    # the first rank alone shows no preference
    text = f"{printable(best)} ranks first by {name}, win rate {fmt.significant(first[0].win_rate)}"
    if not beaten:
        return f"{text}; that it is preferred to any other system was not shown"
    return f"{text}; preferred to {fmt.listed(beaten)} ({confidence} confidence)"


def _ranking_rows(systems: Sequence[PreferredSystem]) -> Iterator[tuple[TableCell, ...]]:
    """Yield a row per system, the strongest first; systems without a rank come last."""
    for system in sorted(systems, key=lambda s: (s.rank is None, s.rank or 0)):
        yield (
            label(system.system),
            count(system.rank),
            number(system.strength, system.interval),
            number(system.win_rate),
            *_counts(system),
        )


def _pair_row(pair: PreferredPair) -> tuple[TableCell, ...]:
    """Return the cells of a pair of systems, under `_PAIRS`."""
    # no value for a pair whose verdicts all failed
    verdict = fmt.MISSING if pair.win_rate is None else "not shown"
    if pair.preferred is not None:
        verdict = "preferred" if pair.preferred == pair.system else "the other is preferred"
    return (
        label(f"{pair.system} over {pair.other}"),
        number(pair.win_rate, pair.interval),
        *_counts(pair),
        label(fmt.interval(pair.bounds) or fmt.MISSING),
        probability(pair.p_adjusted),
        label(verdict),
    )


def _counts(entry: PreferredPair | PreferredSystem) -> tuple[TableCell, ...]:
    """Return wins, ties, losses, failed and not applicable verdicts."""
    failed = f"{entry.n_failed}{fmt.causes(entry.failed.items())}"
    return (
        *map(count, (entry.wins, entry.ties, entry.losses)),
        label(failed),
        count(entry.not_applicable),
    )


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
