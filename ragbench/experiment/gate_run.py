"""`ragbench gate`: run the head, compare it with a base, decide, and find what got worse."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np

from ragbench.comparison.compare_runs import ComparedRow, add_changes, compare_sources, paired_rows
from ragbench.comparison.matching import Matching, match_sources
from ragbench.comparison.method import Method
from ragbench.comparison.pairs import PairedScores, scores_of, worst_queries
from ragbench.comparison.systems import find_score
from ragbench.config.schema import ExperimentConfig
from ragbench.data.runs.query_view import QueryViews
from ragbench.data.runs.run_folder import file_name, read_manifest
from ragbench.data.runs.run_lines import Lines, read_answers
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.errors import DataError, OptionError
from ragbench.experiment.gates import gated_run, method_of_run, scored_without_controls
from ragbench.experiment.plan.groups import common_clusters
from ragbench.experiment.runner import run_experiment
from ragbench.experiment.selection import choose_combinations
from ragbench.gates.base import Gate, decide_gates
from ragbench.gates.drop import NotWorse, PairGate
from ragbench.records.causes import gated_score
from ragbench.records.comparison import ComparedRuns
from ragbench.records.gate import Decision, WorseQuery
from ragbench.records.manifest import Choices, FailedPrediction
from ragbench.records.score import Kind
from ragbench.records.summary import Summary
from ragbench.report.gate import ChangedScore, GateReview, first_lines, question_line
from ragbench.report.progress import Progress
from ragbench.types import ScoreColumn

_BEST = 3  # questions that gained and are shown


def run_first(
    config: ExperimentConfig, base: str, choices: Choices, progress: Progress
) -> tuple[Summary, list[str]]:
    """Run a head whose base lacks the config, and return its summary and the lines of a review.

    No gate is decided: its scores are those that later pull requests are compared with. Errors are
    those of `run_experiment`.
    """
    config = choose_combinations(config, choices, partial(run_experiment, progress=progress))
    experiment = run_experiment(replace(config, gates=()), choices=choices, progress=progress)
    return experiment.record, list(first_lines(experiment.record, experiment.compared, base))


def run_gate(
    config: ExperimentConfig, base: ScoredSystems, choices: Choices, progress: Progress
) -> GateReview:
    """Run the head, compare it with the base on the common, unchanged questions, and decide.

    Gates against a baseline file are decided against the base. Without gates, the default decision
    is taken on the first measure of rankings, besides `found`, and on `right` or else the first
    score of answers of every system. Gates on judges that were skipped are left out. Other errors
    are those of `run_experiment`.

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
    config = choose_combinations(config, choices, partial(run_experiment, progress=progress))
    experiment = run_experiment(replace(config, gates=()), choices=choices, progress=progress)
    head = replace(scored_without_controls(experiment.path), source="head")
    base = _with_choices_of(base, head)
    comparable = list(_comparable(base, head))
    skipped_judges = experiment.record.skipped_judges
    if not choices.judge:
        skipped_judges = dict.fromkeys(config.metrics.judges or {}, "not asked (--no-judge)")
    gates, skipped = list[Gate](), list[Gate]()
    for gate in map(_against_base, config.gates):
        is_skipped = bool(skipped_judges) and _lacks_judge(gate, head)
        (skipped if is_skipped else gates).append(gate)
    measures = _gated_scores(gates, comparable) or _first_scores(head, comparable)
    if not config.gates:
        gates = [NotWorse(measure=measure) for measure in measures]
    matching = match_sources(base, [head], measures=measures, intersect=True, least_same=0)
    method = method_of_run(head).of_runs()
    clusters = None if method.cluster is None else common_clusters(method.cluster, matching)
    compared = add_changes(compare_sources(matching, method, clusters), matching)
    rows = []
    for measure in matching.measures:
        for system, baseline, pairs in paired_rows(compared, matching, measure, clusters):
            decision = _decide(measure, system, baseline, pairs, compared, method)
            score = ChangedScore(measure, system.scores.name, decision, pairs.gains)
            rows.append((score, system, baseline, pairs))
    if not rows:
        problem = "no system and score in common with this checkout"
        allowed = "a base with a system and a measure of this config"
        raise DataError(problem, file=base.source, allowed=allowed)
    # the worst first: losses that fail, then sure changes, right answers, and others by their mean
    rows.sort(key=lambda row: row[0].order)
    _, system, baseline, pairs = rows[0]
    views = [(QueryViews(experiment.path), system.scores.name)]
    if base.folder is not None:
        views.insert(0, (QueryViews(base.folder), baseline.scores.name))
    return GateReview(
        scores=[score for score, *_ in rows],
        worst=[question_line(views, query) for query in worst_queries(pairs)],
        best=[question_line(views, query) for query in _best_queries(pairs)],
        changes=matching.changes[1],
        same_corpus=_is_same_corpus(matching.sources),
        compared=compared,
        decisions=decide_gates(gates, gated_run(head, gates, base)),
        skipped=[gate.text for gate in skipped],
        skipped_judges=skipped_judges,
        summary=experiment.record,
        is_same=_is_same(matching, comparable),
    )


def _gated_scores(gates: Sequence[Gate], comparable: Sequence[str]) -> list[str]:
    """Return the comparable scores that gates refer to, without repeats."""
    scores = (find_score(gate.score, comparable) for gate in gates if gate.score)
    return list(dict.fromkeys(score for score in scores if score))


def _best_queries(pairs: PairedScores) -> list[WorseQuery]:
    """Return the queries that gained most, the largest gain first."""
    gains = np.nan_to_num(pairs.gains)
    last = np.argsort(gains, kind="stable")[: -_BEST - 1 : -1]
    return [scores_of(pairs, row) for row in last[gains[last] > 0].tolist()]


def _is_same_corpus(sources: Sequence[ScoredSystems]) -> bool | None:
    """Return True if the corpora of all sources are equal; None if one of them is unknown."""
    corpora = set()
    for source in sources:
        data = {} if source.folder is None else read_manifest(source.folder).data
        corpora.add(data.get("corpus"))
    return None if None in corpora else len(corpora) == 1


def _decide(
    measure: str,
    system: ComparedRow,
    baseline: ComparedRow,
    pairs: PairedScores,
    compared: ComparedRuns,
    method: Method,
) -> Decision:
    """Return the default decision on a pair of rows, by the decision that a comparison prints."""
    family = compared.measure(measure)
    decision = None if family is None else family.between(system.label, baseline.label)
    return NotWorse(measure=measure).decide_pairs(replace(pairs, decision=decision), method)


def _with_choices_of(base: ScoredSystems, head: ScoredSystems) -> ScoredSystems:
    """Return the base with its choice of each sweep, and its pairs, under the names of the head."""
    # The winner of a sweep is compared with the winner in the base, whatever combinations they are.
    if base.summary is None or head.summary is None:
        return base
    chosen = {choice.sweep: choice.system for choice in head.summary.selected}
    names = {choice.system: chosen.get(choice.sweep) for choice in base.summary.selected}
    systems = {}
    for name, system in base.systems.items():
        retriever, slash, generator = name.partition("/")
        head_name = f"{names.get(retriever) or retriever}{slash}{generator}"
        systems[name if name in head.systems else head_name] = system
    return replace(base, systems=systems)


def _comparable(base: ScoredSystems, head: ScoredSystems) -> Iterator[str]:
    """Yield the scores that a system of both has by one definition, in the order of the head."""
    columns = dict[str, ScoreColumn]()
    for system in head.systems.values():
        columns |= system.columns
    names = set(chain.from_iterable(system.columns for system in base.systems.values()))
    for name, column in columns.items():
        if column.aggregate == "sum" or name not in names:
            continue
        try:
            match_sources(base, [head], measures=[name], intersect=True, least_same=0)
        # another judge, a new score, or one of systems that have other names: the changes of the
        # config say so
        except (DataError, OptionError):
            continue
        yield name


def _first_scores(head: ScoredSystems, comparable: Sequence[str]) -> list[str]:
    """Return the deciding score of rankings and that of answers; [] without any."""
    kinds = dict[str, Kind]()
    for system in head.systems.values():
        kinds |= system.kinds
    of_rankings = [name for name in comparable if kinds[name] == "retrieval"]
    of_answers = [name for name in comparable if kinds[name] != "retrieval"]
    return [name for name in map(gated_score, (of_rankings, of_answers)) if name]


def _against_base(gate: Gate) -> Gate:
    """Return a gate against a baseline file as a gate against the base; others as they are."""
    if isinstance(gate, PairGate) and gate.file is not None:
        return replace(gate, against=None, file=None)
    return gate


def _lacks_judge(gate: Gate, head: ScoredSystems) -> bool:
    """Return True if no system of the head has the score of the gate."""
    names = list(chain.from_iterable(system.columns for system in head.systems.values()))
    has_score = gate.score is None or find_score(gate.score, names) is not None
    return gate.quantity_kind == "judge" or not has_score


def _is_same(matching: Matching, measures: Sequence[str]) -> bool:
    """Return True if all systems have the passages, answers and scores of the base."""
    # Scores of judges may vary by themselves, and do not count.
    base, head = matching.sources
    # the names in the files: the choice of a sweep has that of the head
    names = {system.name for system in base.systems.values() if system.role != "control"}
    if base.folder is None or head.folder is None or names != head.systems.keys():
        return False
    base_views, head_views = QueryViews(base.folder), QueryViews(head.folder)
    for name, system in head.systems.items():
        if not _has_scores_of(base.systems[name], system, measures):
            return False
        old = _results(base_views, name, base.query_ids)
        new = _results(head_views, name, base.query_ids)
        if not all(map(operator.eq, old, new)):
            return False
    return True


def _has_scores_of(base: SystemScores, head: SystemScores, measures: Sequence[str]) -> bool:
    """Return True if both have equal values of the measures that both have, except by judges."""
    for name in base.columns.keys() & head.columns.keys() & set(measures):
        old, new = base.columns[name].values, head.columns[name].values
        if head.kinds[name] != "judge" and not np.array_equal(old, new, equal_nan=True):
            return False
    return True


def _results(views: QueryViews, system: str, query_ids: Sequence[str]) -> Iterator[object]:
    """Yield the ranked passages and the answers of a system to each query, without their scores."""
    # Prompts, costs and times are left out: no score reads them.
    lines = Lines(views.folder / "predictions" / f"{file_name(system)}.jsonl")
    for query in query_ids:
        ranking = views.ranking(system, query)
        passages = None if ranking is None else (list(ranking.ids), ranking.row)
        answers: list[object] = []
        for answer in read_answers(lines, query):
            if isinstance(answer, FailedPrediction):
                answers.append(None)
            else:
                answers.append((answer.answer, answer.contexts, answer.tool_calls))
        yield passages, answers
