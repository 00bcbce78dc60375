"""Several runs as one: their summaries and comparisons, for one page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

from msgspec import structs

from ragbench.comparison.compare_runs import compare_sources
from ragbench.comparison.compared_rows import compared_rows, short_names
from ragbench.comparison.matching import Matching, match_sources
from ragbench.comparison.method import Method
from ragbench.comparison.moved_queries import moved_most
from ragbench.comparison.run_changes import add_changes
from ragbench.comparison.sources import read_scored
from ragbench.data.runs.scored_systems import ScoredSystems
from ragbench.errors import DataError
from ragbench.experiment.plan.compared_clusters import common_clusters, shared_cluster
from ragbench.records.comparison import Comparisons, MovedQueries, no_comparisons
from ragbench.records.gate import Decision
from ragbench.records.summary import DeclaredJudge, Summary, SystemSummary

# Number of moved queries of each comparison on a page.
_MOVED = 5
# Start of a warning on a page of runs that may not be compared.
REFUSED = "not compared: "


def side_by_side(runs: Sequence[Path]) -> tuple[Summary, Comparisons]:
    """Return the joined summary of several runs, and their comparisons with the first."""
    names = short_names([str(run) for run in runs])
    sources = [read_scored(run) for run in runs]
    summaries = []
    for source in sources:
        if source.summary is not None:
            summaries.append(source.summary)
    if len(summaries) < len(sources):
        raise DataError("a page is of runs", file=runs[0], allowed="run folders")
    try:
        matching = match_sources(sources[0], sources[1:], alone=True)
    except DataError as refused:
        joined = join_summaries(summaries, names, _label_systems(sources, names))
        lines = tuple(f"{REFUSED}{line}" for line in str(refused).splitlines())
        joined = structs.replace(joined, warnings=(*lines, *joined.warnings))
        return _compared_with(joined, no_comparisons()), no_comparisons()
    cluster = shared_cluster(sources)
    clusters = None if cluster is None else common_clusters(cluster, matching)
    method = Method(confidence=summaries[0].confidence, cluster=cluster)
    compared = add_changes(compare_sources(matching, method, clusters), matching)
    moved: list[MovedQueries] = []
    for family in compared.firsts:
        moved += moved_most(compared, matching, family.measure, _MOVED)
    compared = structs.replace(compared, moved=tuple(moved))
    joined = join_summaries(summaries, names, _label_systems(sources, names, matching))
    joined = structs.replace(joined, notes=(*compared.notes, *joined.notes))
    return _compared_with(joined, compared), compared


def _compared_with(summary: Summary, comparisons: Comparisons) -> Summary:
    """Return the summary with the baselines of these comparisons, which are of the first run."""
    baselines = {}
    for family in comparisons.measures:
        for difference in family.comparisons:
            baselines[difference.system, family.measure] = difference.baseline

    def renew(system: SystemSummary) -> SystemSummary:
        by_score = {}
        for name in system.scores:
            by_score[name] = baselines.get((system.name, name))
        first = next(filter(None, by_score.values()), None)
        scores = {}
        for name, score in system.scores.items():
            baseline = None if by_score[name] == first else by_score[name]
            scores[name] = structs.replace(score, baseline=baseline)
        return structs.replace(system, baseline=first, scores=scores)

    return structs.replace(summary, systems=tuple(map(renew, summary.systems)))


def _label_systems(
    sources: Sequence[ScoredSystems], names: Sequence[str], matching: Matching | None = None
) -> Callable[[int, str], str]:
    """Return a function from the position of a run and a system's name to its label."""
    n_runs = Counter(chain.from_iterable(source.systems for source in sources))
    labels = {}
    for place, source in enumerate(sources):
        for name in source.systems:
            labels[place, name] = name if n_runs[name] == 1 else f"{name} ({names[place]})"
    # the labels of the comparison, so that the page finds the differences
    for row in compared_rows(matching) if matching else ():
        labels[row.source, row.scores.name] = row.label
    return lambda run, system: labels.get((run, system), system)


def join_summaries(
    summaries: Sequence[Summary], names: Sequence[str], label: Callable[[int, str], str]
) -> Summary:
    """Return a summary with the systems, gates, warnings and notes of several runs.

    Systems are in the order of their first run, those of one name together. Dataset is None if the
    runs have different ones; the level is 0.95 if theirs differ. It is complete if all runs are.

    Args:
        summaries: Summaries of the runs, at least one; the first is the base of the others.
        names: Name of each run, in front of its warnings and notes.
        label: Function from the position of a run and a system's name to its label.

    Raises:
        IndexError: There is no summary.
    """
    first = summaries[0]
    systems: dict[str, list[SystemSummary]] = {}
    user_systems, judges, gates = list[str](), dict[str, DeclaredJudge](), list[Decision]()
    warnings, notes = list[str](), list[str]()
    for run, (name, summary) in enumerate(zip(names, summaries, strict=True)):
        for system in summary.systems:
            labelled = structs.replace(system, name=label(run, system.name))
            # systems of the same name stand in neighbouring rows
            systems.setdefault(system.name, []).append(labelled)
        user_systems += [label(run, system_name) for system_name in summary.user_systems]
        judges |= summary.judges
        for gate in summary.gates:
            system_name = gate.system
            renamed = None if system_name is None else label(run, system_name)
            gates.append(structs.replace(gate, system=renamed))
        for line in summary.warnings:
            warnings.append(f"{name}: {line}")
        for line in summary.notes:
            notes.append(f"{name}: {line}")
    for name, summary in zip(names, summaries, strict=True):
        if summary.fill is not None:
            # readers must not take judgements of a model for judgements of people
            by_model = f"{summary.fill.model} judgements are by {summary.fill.model_name}"
            warnings.append(f"{name}: {by_model}")
        if summary.preferences:
            notes.append(f"{name}: preferences of judges are on the page of this run alone")
    is_complete = same_data = same_level = True
    for summary in summaries:
        is_complete = is_complete and summary.complete
        same_data = same_data and summary.dataset == first.dataset
        same_level = same_level and summary.confidence == first.confidence
    return Summary(
        name=" and ".join(names),
        complete=is_complete,
        dataset=first.dataset if same_data else None,
        confidence=first.confidence if same_level else 0.95,
        # a page marks the baseline by its name: names of systems have no blanks
        baseline=f"run {names[0]}",
        user_systems=tuple(user_systems),
        judges=judges,
        systems=tuple(chain.from_iterable(systems.values())),
        gates=tuple(gates),
        warnings=tuple(warnings),
        notes=tuple(notes),
    )
