"""`ragbench gate`: run the head, compare it with a base, decide, and find what got worse."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ragbench.comparison.compare_runs import add_changes, compare_sources, paired_rows
from ragbench.comparison.matching import Matching, match_sources
from ragbench.comparison.method import Method
from ragbench.comparison.pairs import PairedScores
from ragbench.comparison.systems import find_score
from ragbench.config.schema import ExperimentConfig
from ragbench.data.runs.query_view import QueryViews
from ragbench.data.runs.run_folder import file_name, read_manifest
from ragbench.data.runs.run_lines import Lines, RankingFile, read_answers
from ragbench.data.runs.scored_systems import ScoredSystems
from ragbench.errors import DataError
from ragbench.experiment.gates import decide_finished, method_of_run, scored_without_controls
from ragbench.experiment.plan.groups import common_clusters
from ragbench.experiment.runner import run_experiment
from ragbench.gates.base import Gate
from ragbench.gates.drop import Change, NotWorse
from ragbench.records.manifest import Choices
from ragbench.report.gate import ChangedScore, GateReview, MovedQuestion
from ragbench.report.progress import Progress

_WORST, _BEST = 5, 3  # questions that are shown


def run_gate(
    config: ExperimentConfig, base: ScoredSystems, choices: Choices, progress: Progress
) -> GateReview:
    """Run the head, compare it with the base on the common, unchanged questions, and decide.

    Gates against a baseline file are decided against the base. Without gates, the default decision
    is taken on the first measure of rankings and the first score of answers of every system. Gates
    on judges that were skipped are left out. Other errors are those of `run_experiment`.

    Args:
        config: Config of the head.
        base: Scores of the base.
        choices: Options of the command line.
        progress: Display of the progress.

    Raises:
        DataError: Base and head have no system, score or question in common, or a file of a run
            cannot be read.
        ConfigError: A gate names what the base lacks.
    """
    experiment = run_experiment(replace(config, gates=()), choices=choices, progress=progress)
    head = replace(scored_without_controls(experiment.path), source="head")
    comparable = list(_comparable(base, head))
    gates = [_against_base(gate) for gate in config.gates]
    skipped = [gate.text for gate in gates if _lacks_judge(gate, head)]
    gates = [gate for gate in gates if not _lacks_judge(gate, head)]
    measures = [m for gate in gates if gate.score and (m := find_score(gate.score, comparable))]
    measures = list(dict.fromkeys(measures)) or _first_scores(head, comparable)
    if not config.gates:
        gates = [NotWorse(measure=measure) for measure in measures]
    matching = match_sources(base, [head], measures=measures, intersect=True, least_same=0)
    method = method_of_run(head)
    clusters = None if method.cluster is None else common_clusters(method.cluster, matching)
    compared = add_changes(compare_sources(matching, method, clusters), matching)
    rows = [
        (_changed_score(measure, system.scores.name, pairs, method), system, baseline, pairs)
        for measure in matching.measures
        for system, baseline, pairs in paired_rows(compared, matching, measure, clusters)
    ]
    if not rows:
        raise DataError("no system and score in common with the head", file=base.source)
    # the worst first: sure losses, then all others by their mean
    rows.sort(
        key=lambda row: (row[0].decision.verdict != "fail", float(np.nan_to_num(row[0].gain)))
    )
    score, system, baseline, pairs = rows[0]
    names = (baseline.scores.name, system.scores.name)
    is_ranking = system.scores.kinds[score.measure] == "retrieval"
    questions = _Questions(matching, names, of_rankings=is_ranking)
    gains = np.nan_to_num(pairs.gains)
    order = np.argsort(gains, kind="stable").tolist()
    corpora = [
        None if source.folder is None else read_manifest(source.folder).data.get("corpus")
        for source in matching.sources
    ]
    return GateReview(
        base=base.source,
        n=len(matching.sources[0].query_ids),
        scores=[score for score, *_ in rows],
        worst=[questions.moved(pairs, row) for row in order[:_WORST] if gains[row] < 0],
        best=[questions.moved(pairs, row) for row in order[: -_BEST - 1 : -1] if gains[row] > 0],
        changes=matching.changes[1],
        same_corpus=None if None in corpora else corpora[0] == corpora[1],
        compared=compared,
        decisions=decide_finished(head, gates, base),
        skipped=skipped,
        skipped_judges=experiment.record.skipped_judges,
        complete=experiment.record.complete,
        is_same=_is_same(base, head, matching.sources[0].query_ids),
    )


def _comparable(base: ScoredSystems, head: ScoredSystems) -> Iterator[str]:
    """Yield the scores that a system of both has by one definition, in the order of the head.

    Sums over the queries are left out.
    """
    columns = {name: c for system in head.systems.values() for name, c in system.columns.items()}
    names = {name for system in base.systems.values() for name in system.columns}
    for name, column in columns.items():
        if column.aggregate == "sum" or name not in names:
            continue
        try:
            match_sources(base, [head], measures=[name], intersect=True, least_same=0)
        except DataError:  # another judge, or a new score: the changes of the config say so
            continue
        yield name


def _first_scores(head: ScoredSystems, comparable: Sequence[str]) -> list[str]:
    """Return the first score of rankings and the first score of answers; [] without any."""
    kinds = {name: kind for system in head.systems.values() for name, kind in system.kinds.items()}
    of_rankings = [name for name in comparable if kinds[name] == "retrieval"]
    of_answers = [name for name in comparable if kinds[name] != "retrieval"]
    return [*of_rankings[:1], *of_answers[:1]]


def _against_base(gate: Gate) -> Gate:
    """Return a gate against a baseline file as a gate against the base; others as they are."""
    if isinstance(gate, Change) and gate.file is not None:
        return replace(gate, against=None, file=None)
    return gate


def _lacks_judge(gate: Gate, head: ScoredSystems) -> bool:
    """Return True if a gate is about a judge, or a score that is missing, and one was skipped."""
    if head.summary is None or not head.summary.skipped_judges:
        return False
    names = {name for system in head.systems.values() for name in system.columns}
    has_score = gate.score is None or find_score(gate.score, list(names)) is not None
    return gate.of == "judge" or not has_score


def _changed_score(measure: str, system: str, pairs: PairedScores, method: Method) -> ChangedScore:
    """Return the change of a score of a system since the base."""
    gains = pairs.gains
    return ChangedScore(
        measure=measure,
        system=system,
        decision=NotWorse(measure=measure).decide_pairs(pairs, method),
        n_worse=int((gains < 0).sum()),
        n_better=int((gains > 0).sum()),
        n_same=int((gains == 0).sum()),
        gain=math.nan if np.isnan(gains).all() else float(np.nanmean(gains)),
    )


class _Questions:
    """Reader of the questions of base and head, and of the results of one system for them."""

    def __init__(self, matching: Matching, names: tuple[str, str], *, of_rankings: bool) -> None:
        """Open both run folders; `names` are those of the system in base and head."""
        self._views = [
            None if source.folder is None else QueryViews(source.folder)
            for source in matching.sources
        ]
        self._names, self._of_rankings = names, of_rankings

    def moved(self, pairs: PairedScores, row: int) -> MovedQuestion:
        """Return the question in a row of paired scores, with the results of both sides."""
        query = pairs.query_ids[row]
        views = [None if view is None else view[query] for view in self._views]
        sides = [
            None if view is None else view.system(name)
            for view, name in zip(views, self._names, strict=True)
        ]
        head = views[1]
        return MovedQuestion(
            query_id=query,
            question="" if head is None else head.question,
            baseline_score=float(pairs.baseline.values[row]),
            score=float(pairs.system.values[row]),
            gold=[d.id for d in head.gold] if head is not None and self._of_rankings else [],
            rankings=[None if side is None else [h.id for h in side.ranking] for side in sides],
            answers=[
                None if side is None or not side.answers else side.answers[0].answer
                for side in sides
            ],
        )


def _is_same(base: ScoredSystems, head: ScoredSystems, query_ids: Sequence[str]) -> bool:
    """Return True if all systems rank the same documents and give the same answers.

    False if a system is new or removed, or if the base has no run folder.
    """
    systems = {name for name, system in base.systems.items() if system.role != "control"}
    if base.folder is None or head.folder is None or systems != head.systems.keys():
        return False
    return all(
        _documents(base, name, query_ids) == _documents(head, name, query_ids)
        and _answers(base.folder, name, query_ids) == _answers(head.folder, name, query_ids)
        for name in head.systems
    )


def _documents(
    source: ScoredSystems, system: str, query_ids: Sequence[str]
) -> list[list[str]] | None:
    """Return the documents of each query, best first; None if the system has no ranking."""
    file = source.rankings.get(system)
    if file is None:
        return None
    ranking = RankingFile(file)
    return [[document for document, _ in ranking.hits(query)] for query in query_ids]


def _answers(folder: Path, system: str, query_ids: Sequence[str]) -> list[list[str | None]]:
    """Return the answers to each query, one per sample; None for a failed answer."""
    lines = Lines(folder / "predictions" / f"{file_name(system)}.jsonl")
    return [[view.answer for view in read_answers(lines, query)] for query in query_ids]
