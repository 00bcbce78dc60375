"""Comparison of the systems of several runs, or of one, measure by measure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace

from msgspec import structs

from ragbench.comparison.compared_rows import (
    ComparedRow,
    compared_rows,
    unique_names,
)
from ragbench.comparison.differences import compare_systems, doubtful_intervals
from ragbench.comparison.matching import Matching
from ragbench.comparison.method import Method
from ragbench.comparison.pairs import PairedScores
from ragbench.comparison.same_queries import QUERY_PARTS
from ragbench.comparison.systems import summarize
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.records.comparison import (
    ComparedRuns,
    ComparedSystem,
    Difference,
    MeasureComparison,
)
from ragbench.records.summary import SystemSummary
from ragbench.stats.unpaired import FEWEST_WITHOUT_BOUND


def compare_sources(
    matching: Matching, method: Method, clusters: Sequence[str] | None = None
) -> ComparedRuns:
    """Compare each system of a run with its system of the base, measure by measure.

    With one source, each system is compared with the source's baseline. All pairs of rows by one
    measure are a family, corrected by step-down max-T, whose decisions letters and verdicts share.
    Unpaired sources have one of the comparisons alone, corrected by Holm's procedure.

    Args:
        matching: Sources over the same queries.
        method: Interval and family; the test is by sign flips.
        clusters: Cluster label of each query; None if queries are units.

    Returns:
        The comparison with its systems, in the order of `compared_rows`, and by measure in the
        order of the matching. Its `baseline` is the base; of one source its own baseline. Changes,
        moves and questions are empty: `add_changes` adds them. Unpaired sources have no
        `better_than`.

    Raises:
        OptionError: An option of the method is not allowed for these data, or `clusters` are not
            one label per query.
    """
    rows = compared_rows(matching)
    systems = [_as_experiment(row, matching) for row in rows]
    base, several = matching.sources[0], len(matching.sources) > 1
    # the retriever of a row is its source: that of the base is 0, see `_as_experiment`
    baseline = "0" if several else base.baseline
    is_paired = not matching.unpaired
    comparisons = compare_systems(
        systems,
        baseline,
        # letters rest on sign flips, so that the p-values beside them do, too
        replace(method, test="randomization"),
        clusters,
        every_pair=is_paired,
        unpaired=matching.unpaired,
        # `match_sources` compared the queries themselves
        tolerated=QUERY_PARTS,
        user_systems=[row.label for row in rows if _is_users(row, matching)],
    )
    measures = comparisons.measures
    if is_paired:
        measures = tuple(_with_failed(family, rows, matching) for family in measures)
    facts = {key: getattr(comparisons, key) for key in asdict(method)}
    names = unique_names(matching.names)
    sizes = [len(source.query_ids) for source in matching.sources]
    compared = [_summarize_row(row, matching, method, clusters) for row in rows]
    return ComparedRuns(
        baseline=base.source if several else base.baseline,
        **facts | ({} if is_paired else {"test": "unpaired", "resamples": None}),
        measures=measures,
        unpaired=dict(zip(names, sizes, strict=True)) if matching.unpaired else {},
        sources=tuple(matching.names),
        queries=len(base.query_ids),
        left_out=dict(matching.left_out),
        differing=dict(matching.differing),
        systems=tuple(compared),
        notes=(
            *_source_notes(matching.sources),
            *matching.notes,
            *_notes_on_few(measures),
            *doubtful_intervals(measures),
        ),
    )


def _summarize_row(
    row: ComparedRow, matching: Matching, method: Method, clusters: Sequence[str] | None
) -> ComparedSystem:
    """Return the scores of a row, and the causes of its lost answers if queries are unpaired."""
    scores = {}
    for name, column in row.scores.columns.items():
        scores[name] = summarize(column, confidence=method.confidence, clusters=clusters)
    summary = _system_summary(row, matching)
    return ComparedSystem(
        name=row.label,
        letter=row.letter,
        system=row.scores.name,
        source=matching.sources[row.source].source,
        retriever=row.scores.retriever,
        generator=row.scores.generator,
        scores=scores,
        causes={} if summary is None or not matching.unpaired else summary.causes,
        answers=None if summary is None else summary.answers,
    )


def _source_notes(sources: Sequence[ScoredSystems]) -> Iterator[str]:
    """Yield the notes of the sources, with their names; a note that all share comes without."""
    names: dict[str, list[str]] = {}
    for source in sources:
        for note in source.notes:
            names.setdefault(note, []).append(source.source)
    for note, owners in names.items():
        yield note if len(owners) == len(sources) else f"{', '.join(owners)}: {note}"


def _notes_on_few(measures: Sequence[MeasureComparison]) -> Iterator[str]:
    """Yield a note for each unpaired measure that has too few questions for a decision."""
    for family in measures:
        rows = family.comparisons
        if any(row.differs is False and row.p is None and row.n_baseline for row in rows):
            need = f"a score without a bound needs {FEWEST_WITHOUT_BOUND} of each system"
            yield f"{family.measure}: no difference shown: too few questions, {need}"


def _is_users(row: ComparedRow, matching: Matching) -> bool:
    """Return True if a row is a system of the user by the summary of its run."""
    summary = matching.sources[row.source].summary
    return summary is not None and row.scores.name in summary.user_systems


def _system_summary(row: ComparedRow, matching: Matching) -> SystemSummary | None:
    """Return the summary of the system of a row; None if its source is no run folder."""
    summary = matching.sources[row.source].summary
    return None if summary is None else summary.system(row.scores.name)


def _as_experiment(row: ComparedRow, matching: Matching) -> SystemScores:
    """Return the scores of a row as a system of one experiment with all rows."""
    # `compare_systems` pairs a system with that of the baseline retriever and the same generator:
    # the source stands for the retriever, the group for the generator, the label for the name.
    if len(matching.sources) == 1:
        return row.scores
    # apps and controls are compared with the same app or control of the base
    system = replace(row.scores, role="system", retriever=str(row.source), generator=row.group)
    return replace(system, name=row.label)


def _with_failed(
    family: MeasureComparison, rows: Sequence[ComparedRow], matching: Matching
) -> MeasureComparison:
    """Return the comparisons of a measure with the number of failed queries."""
    name, query_ids = family.measure, matching.sources[0].query_ids
    columns = {}
    for row in rows:
        if name in row.scores.columns:
            columns[row.label] = row.scores.columns[name]

    def with_failed(difference: Difference) -> Difference:
        """Return a difference with its number of failed queries."""
        system, baseline = columns[difference.system], columns[difference.baseline]
        n_failed = int(PairedScores(system, baseline, query_ids).failed.sum())
        return structs.replace(difference, n_failed=n_failed)

    return structs.replace(family, comparisons=tuple(map(with_failed, family.comparisons)))
