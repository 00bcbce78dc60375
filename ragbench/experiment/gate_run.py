"""`ragbench gate`: run the head, compare it with a base, decide, and find what got worse."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

import numpy as np
from msgspec import structs

from ragbench.comparison.compare_runs import compare_sources
from ragbench.comparison.compared_rows import ComparedRow
from ragbench.comparison.matching import Matching, match_sources
from ragbench.comparison.method import Method
from ragbench.comparison.moved_queries import paired_rows
from ragbench.comparison.own_noise import own_noise, results_of
from ragbench.comparison.pairs import PairedScores
from ragbench.comparison.run_changes import add_changes
from ragbench.comparison.systems import find_score
from ragbench.config.schema import ExperimentConfig
from ragbench.data.runs.query_view import QueryViews
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.errors import DataError, OptionError
from ragbench.experiment.base_run import GateBase
from ragbench.experiment.gate_evidence import (
    best_lines,
    find_evidence,
    query_labels,
    with_labels,
    worse_queries,
)
from ragbench.experiment.gate_looks import (
    FurtherLooks,
    is_unsure,
    with_looks,
)
from ragbench.experiment.gate_news import (
    answers_line,
    corpus_lines,
    failure_lines,
    judge_and_gate_lines,
    new_question_lines,
)
from ragbench.experiment.gate_noise import (
    NONE_UNCHANGED,
    Unchanged,
    changed_questions,
    excuse,
    judge_may_vary,
    may_vary,
    noise_line,
    unchanged_systems,
)
from ragbench.experiment.gates import (
    decide_each,
    gated_run,
    method_of_run,
    questions_of,
    scored_without_controls,
    with_questions,
)
from ragbench.experiment.looked_scores import cost_of, with_choices_of
from ragbench.experiment.pages import store_decisions
from ragbench.experiment.plan.compared_clusters import common_clusters
from ragbench.experiment.repeated_scores import is_judged
from ragbench.experiment.runner import run_experiment
from ragbench.experiment.selection import choose_combinations
from ragbench.experiment.unseen_files import UsedNames
from ragbench.experiment.used_files import UsedFiles
from ragbench.experiment.watched_files import watch_files
from ragbench.gates.base import RETRY, Gate, decision_of_gate
from ragbench.gates.drop import NotWorse, PairGate
from ragbench.records.causes import RIGHT, gated_score
from ragbench.records.comparison import ComparedRuns
from ragbench.records.gate import Decision
from ragbench.records.manifest import Choices
from ragbench.records.score import Kind
from ragbench.records.summary import Summary
from ragbench.report.gate import (
    ChangedScore,
    FailedGate,
    GateReview,
    UnsureLosses,
    WorseQueries,
    first_report,
)
from ragbench.report.progress import Progress
from ragbench.report.table import TableReport
from ragbench.types import Cause, Query, ScoreColumn
from ragbench.types.display import printable

# Change of a score of a system, the system, its baseline, and their paired scores
Row = tuple[ChangedScore, ComparedRow, ComparedRow, PairedScores]


def run_first(
    config: ExperimentConfig, base: str, choices: Choices, progress: Progress
) -> tuple[Summary, TableReport, Path]:
    """Run a head whose base lacks the config; return its summary, its report and its run folder.

    No gate is decided: its scores are those that later pull requests are compared with. Errors are
    those of `run_experiment`.
    """
    config = choose_combinations(config, choices, partial(run_experiment, progress=progress))
    experiment = run_experiment(replace(config, gates=()), choices=choices, progress=progress)
    report = first_report(experiment.record, experiment.compared, base)
    return experiment.record, report, experiment.path


def run_gate(
    config: ExperimentConfig,
    gate_base: GateBase,
    choices: Choices,
    progress: Progress,
    skipped_generators: Mapping[str, str] = MappingProxyType({}),
    recheck: float | None = None,
) -> GateReview:
    """Run the head, compare it with the base on the common, unchanged questions, and decide.

    Gates against a baseline file are decided against the base. Without gates, the default decision
    is taken on the first measure of rankings, besides `found`, and on `right` or else the first
    score of answers of every system. Gates on skipped judges and generators are undecided; if no
    other gate is left, the default decision is taken too. A system that uses nothing that changed
    passes. If a score is lower without being sure, the changed questions run up to three times more
    on both sides, and the mean of all looks decides. All numbers are those of the first look. The
    run folder of the head gets the decisions. Other errors are those of `run_experiment`.

    Args:
        config: Config of the head.
        gate_base: Base of the comparison.
        choices: Options of the command line.
        progress: Display of the progress.
        skipped_generators: Generator that the config lost -> reason.
        recheck: Budget of all further looks in USD, for each side; 0 takes none, and None allows
            the cost of the first look.

    Raises:
        DataError: Base and head have no system, score or question in common, or a file of a run
            cannot be read.
        ConfigError: A gate names what the base lacks.
    """
    config = choose_combinations(config, choices, partial(run_experiment, progress=progress))
    with watch_files() as opened:
        experiment = run_experiment(replace(config, gates=()), choices=choices, progress=progress)
    head = replace(scored_without_controls(experiment.path), source="head")
    base = with_choices_of(gate_base.scored, head)
    skipped_judges = experiment.record.skipped_judges
    if not choices.judge:
        skipped_judges = dict.fromkeys(config.metrics.judges or {}, "not asked (--no-judge)")
    skipped = _skipped_components(skipped_judges, skipped_generators)
    decide = partial(
        review_scored,
        gates=config.gates,
        skipped=skipped,
        summary=experiment.record,
        unchanged=_unchanged(head, base, gate_base, config, opened),
    )
    review = decide(head, base)
    unsure = review.unsure
    may_differ = any(may_vary(config, head.systems[name]) for name in unsure.systems)
    may_differ |= unsure.is_judged and judge_may_vary(config)
    # a part of the questions may choose another combination of a sweep
    chooses = experiment.record.selected or experiment.record.folds
    if may_differ and recheck != 0 and not chooses:
        if gate_base.again is None:
            review = replace(review, looks=_no_look_line(review, base.source))
        else:
            with TemporaryDirectory(prefix="ragbench-") as folder:
                further = FurtherLooks(
                    config=config,
                    again=gate_base.again,
                    choices=choices,
                    progress=progress,
                    usd=cost_of(head) if recheck is None else recheck,
                    folder=folder,
                )
                review = further.decide(review, (base, head), decide)
    corpus = list(corpus_lines(base, head, config, gate_base.places))
    changes = list(judge_and_gate_lines(base, head))
    review = replace(review, corpus=corpus, config_changes=changes, folder=experiment.path)
    decisions = review.deciding
    if review.is_same and not decisions and experiment.record.complete:
        decisions = [Decision(verdict="pass", gate="not worse", why="nothing changed")]
    store_decisions(experiment, decisions, base.source, config.secrets)
    return review


def _no_look_line(review: GateReview, base: str) -> str:
    """Return the line on a failure that needs another look at a base that cannot run again."""
    if not any(decision.verdict == "fail" for decision in review.decisions):
        return ""
    advice = "a Git reference as --base runs both sides again"
    return printable(f"not looked at again: {base} has the scores of one run; {advice}")


def _unchanged(
    head: ScoredSystems,
    base: ScoredSystems,
    gate_base: GateBase,
    config: ExperimentConfig,
    opened: UsedFiles,
) -> Unchanged:
    """Return the systems that use no file of the difference."""
    # without Git, packages and environment may have changed since the base ran
    if gate_base.changed is None:
        return NONE_UNCHANGED
    ((root, tree),) = gate_base.places.items()
    changed = gate_base.changed
    if config.path is not None:  # its blocks are compared instead
        changed -= {Path(os.path.realpath(config.path)).relative_to(root).as_posix()}
    names = UsedNames(tree, root, gate_base.used | opened.names_below(root))
    if any(map(names.may_use, changed)):
        return Unchanged(has_unseen=True)
    if opened.hidden or gate_base.hidden:
        return NONE_UNCHANGED
    return Unchanged(unchanged_systems(head, base, changed, names.used))


def review_scored(
    head: ScoredSystems,
    base: ScoredSystems,
    gates: Sequence[Gate],
    skipped: Mapping[str, str],
    summary: Summary,
    of_all_looks: Sequence[Decision] = (),
    questions: Mapping[str, Query] = MappingProxyType({}),
    unchanged: Unchanged = NONE_UNCHANGED,
) -> GateReview:
    """Compare scored systems with those of a base, decide the gates, and return the review.

    The review has no lines on the corpus and on the config.

    Args:
        head: Scores of the head.
        base: Scores of the base.
        gates: Configured gates; none takes the default decision.
        skipped: `judge NAME` or `generator NAME` that was skipped -> reason.
        summary: Summary of the head.
        of_all_looks: Decisions on the means of all looks, whose verdicts count for the losses that
            are not sure; empty without further looks.
        questions: Id -> question, where the head is no run folder.
        unchanged: Systems that use nothing that changed.

    Raises:
        DataError: Base and head have no system, score or question in common, or a file of a run
            cannot be read.
        ConfigError: A file of a gate cannot be read.
    """
    comparable = list(comparable_scores(base, head))
    decidable, blind = _split_gates(gates, head, skipped)
    undecided = _undecided(blind, skipped)
    measures = _gated_scores(decidable, comparable) or first_scores(head, comparable)
    by_default = not decidable
    if by_default:
        decidable += [NotWorse(measure=measure) for measure in measures]
        undecided += [] if gates else _without_answers(skipped)
    if RIGHT in comparable and RIGHT not in measures:
        measures = [*measures, RIGHT]
    matching = match_sources(base, [head], measures=measures, intersect=True, least_same=0)
    method = method_of_run(head).of_runs()
    clusters = None if method.cluster is None else common_clusters(method.cluster, matching)
    compared = add_changes(compare_sources(matching, method, clusters), matching)
    all_rows = _changed_rows(compared, matching, method, clusters)
    noisy = _noisy_systems(all_rows, unchanged.systems)
    rows = [row for row in all_rows if row[0].system not in noisy]
    decided = _decide_gates(decidable, head, base, unchanged.systems)
    unsure = _unsure(decided, rows)
    if of_all_looks:
        later, n_looks = of_all_looks[len(undecided) :], 1 + len(head.looks)
        decided = _with_looks(decided, later, n_looks, unsure.losses)
    if by_default:
        decided, rows = _without_unscored(decided, rows, head, base)
    rows = _sorted_rows(rows, _failing(decided) if by_default else frozenset())
    scores = [score for score, *_ in rows]
    worse, best = _moved_questions(rows, base, head, questions)
    label = query_labels(head, questions)
    noise = "" if noisy or unchanged.has_unseen else own_noise(base.folder, head.folder)
    return GateReview(
        scores=scores,
        worse=worse,
        best=best,
        changes=matching.changes[1],
        compared=with_labels(compared, label),
        decisions=with_questions(
            [*undecided, *(decision for _, decision in decided)], questions_of(head, questions)
        ),
        failed=[] if by_default else _failed(decided, scores),
        blind=undecided,
        facts=[noise, *_right_answer_lines(rows, label), *failure_lines(base, head, label)],
        new_questions=list(
            new_question_lines(head, matching.changes[1].new, matching.measures, label)
        ),
        skipped={} if undecided else skipped,
        summary=summary,
        is_same=_is_same(matching, comparable),
        noise=[noise_line(name, n) for name, n in noisy.items()],
        unsure=unsure,
    )


def _moved_questions(
    rows: Sequence[Row], base: ScoredSystems, head: ScoredSystems, questions: Mapping[str, Query]
) -> tuple[list[WorseQueries], list[str]]:
    """Return the worse questions of each row, and lines on those that gained most by the first."""
    worse, best = list[WorseQueries](), None
    open_views = cache(QueryViews)
    for score, system, baseline, pairs in rows:
        sides = (base, baseline), (head, system)
        evidence = find_evidence(score.measure, sides, pairs.sign, questions, open_views)
        worse.append(worse_queries(evidence, score.system, pairs))
        if best is None:
            best = best_lines(evidence, pairs)
    return worse, best or []


def _nothing_in_common(base: ScoredSystems, head: ScoredSystems) -> DataError:
    problem = f"no system and score in common with {head.source}"
    allowed = "a base with a system and a measure of this config"
    return DataError(problem, file=base.source, allowed=allowed)


def _skipped_components(judges: Mapping[str, str], generators: Mapping[str, str]) -> dict[str, str]:
    """Return skipped component, such as `judge NAME` -> reason."""
    skipped = {}
    for name, why in judges.items():
        skipped[f"judge {name}"] = why
    for name, why in generators.items():
        skipped[f"generator {name}"] = why
    return skipped


def _split_gates(
    gates: Iterable[Gate], head: ScoredSystems, skipped: Mapping[str, str]
) -> tuple[list[Gate], list[Gate]]:
    """Return the gates against the base: (those that can be decided, those without scores)."""
    decidable, blind = [], []
    for gate in map(_against_base, gates):
        if skipped and _lacks_scores(gate, head):
            blind.append(gate)
        else:
            decidable.append(gate)
    return decidable, blind


def _failing(decided: Iterable[tuple[Gate, Decision]]) -> frozenset[tuple[str, str | None]]:
    """Return the (measure, system) of the gates that fail."""
    failing = []
    for gate, decision in decided:
        if decision.verdict == "fail":
            failing.append((gate.quantity, decision.system))
    return frozenset(failing)


def _changed_rows(
    compared: ComparedRuns,
    matching: Matching,
    method: Method,
    clusters: Sequence[str] | None,
) -> list[Row]:
    """Return the change of each system by each measure."""
    rows = []
    for measure in matching.measures:
        for system, baseline, pairs in paired_rows(compared, matching, measure, clusters):
            decision = _decide(measure, system, baseline, pairs, compared, method)
            score = ChangedScore(measure, system.scores.name, decision, pairs.gains)
            rows.append((score, system, baseline, pairs))
    if not rows:
        raise _nothing_in_common(*matching.sources)
    return rows


def _sorted_rows(rows: Iterable[Row], failing: Collection[tuple[str, str | None]]) -> list[Row]:
    """Return the rows, the worst first; the default decision fails `failing`."""
    marked = list[Row]()
    for score, system, baseline, pairs in rows:
        decides = (score.measure, score.system) in failing
        # after further looks, the scores of the first one alone do not say whether it fails
        verdict = "fail" if decides else score.decision.verdict
        decision = structs.replace(score.decision, verdict=verdict)
        marked.append((replace(score, decision=decision, decides=decides), system, baseline, pairs))
    # losses that fail, then sure changes, right answers, and others by their mean
    return sorted(marked, key=lambda row: row[0].order)


def _without_unscored(
    decided: Iterable[tuple[Gate, Decision]],
    rows: Sequence[Row],
    head: ScoredSystems,
    base: ScoredSystems,
) -> tuple[list[tuple[Gate, Decision]], list[Row]]:
    """Return default decisions and changes, without those that `_unscored` finds."""
    decided = list(decided)
    unscored = _unscored(decided, head, base)
    decisions = []
    for gate, decision in decided:
        if (gate.quantity, decision.system) not in unscored:
            decisions.append((gate, decision))
    changes = [row for row in rows if (row[0].measure, row[0].system) not in unscored]
    return decisions, changes


def _unscored(
    decided: Iterable[tuple[Gate, Decision]], head: ScoredSystems, base: ScoredSystems
) -> set[tuple[str, str]]:
    """Return (measure, system) of default decisions without a score in base and head."""
    # as for an app whose passages have no ids: its answers decide alone
    unscored, decidable = set[tuple[str, str]](), set[str]()
    for gate, decision in decided:
        system = decision.system or ""
        if decision.means is not None:
            decidable.add(system)
        elif all(_has_no_value(gate.quantity, system, source) for source in (head, base)):
            unscored.add((gate.quantity, system))
    return {entry for entry in unscored if entry[1] in decidable}


def _has_no_value(measure: str, name: str, source: ScoredSystems) -> bool:
    """Return True if a measure applies to no query of a system."""
    system = source.systems.get(name)
    column = None if system is None else system.columns.get(measure)
    if column is None:
        return False
    causes = set(column.causes.tolist())
    return all(Cause(cause).status == "not_applicable" for cause in causes)


def _with_looks(
    decided: Iterable[tuple[Gate, Decision]],
    of_all_looks: Iterable[Decision],
    n_looks: int,
    losses: Collection[tuple[str, str]],
) -> list[tuple[Gate, Decision]]:
    """Return decisions on the first look with the verdicts of all looks, where these decide."""
    decisions = []
    by_gate = {(later.gate, later.system): later for later in of_all_looks}
    for gate, decision in decided:
        # a default decision without any score has none of all looks
        later = by_gate.get((decision.gate, decision.system), decision)
        decisions.append((gate, with_looks(gate, decision, later, n_looks, losses)))
    return decisions


def _decide_gates(
    gates: Sequence[Gate], head: ScoredSystems, base: ScoredSystems, unchanged: Collection[str]
) -> list[tuple[Gate, Decision]]:
    """Return the decisions of gates, passes for systems that use nothing that changed."""
    decided = []
    for gate, decision in decide_each(gates, gated_run(head, gates, base, may_be_new=True)):
        if head.summary is None:  # a table: no run can try its failures again
            decision = structs.replace(decision, why=decision.why.replace(RETRY, ""))
        is_excused = decision.system in unchanged and not decision.refused
        decided.append((gate, excuse(decision) if is_excused else decision))
    return decided


def _noisy_systems(rows: Sequence[Row], unchanged: Collection[str]) -> dict[str, int]:
    """Return unchanged system -> number of its changed questions, above 0."""
    numbers = {}
    for name in sorted(unchanged):
        gains = []
        for score, _, _, pairs in rows:
            if score.system == name:
                gains.append((pairs.query_ids, pairs.gains))
        numbers[name] = len(changed_questions(gains))
    systems = {}
    for name, n in numbers.items():
        if n:
            systems[name] = n
    return systems


def _unsure(decided: Sequence[tuple[Gate, Decision]], rows: Sequence[Row]) -> UnsureLosses:
    """Return the losses of deciding scores that are not sure."""
    for gate, decision in decided:
        # a gate fails for sure: another look would not change that
        if decision.verdict == "fail" and not is_unsure(gate, decision):
            return UnsureLosses()
    lower = set()
    for score, *_ in rows:
        if score.gain < 0:
            lower.add((score.measure, score.system))
    losses = dict[tuple[str, str], None]()
    for gate, decision in decided:
        is_lower = isinstance(gate, NotWorse) and (gate.quantity, decision.system) in lower
        if decision.system and (decision.verdict == "fail" or is_lower):
            losses[gate.quantity, decision.system] = None
    systems, gains = dict.fromkeys(system for _, system in losses), []
    is_any_judged = False
    for score, row, _, pairs in rows:
        if score.system in systems:
            gains.append((pairs.query_ids, pairs.gains))
        if (score.measure, score.system) in losses:
            kind, column = row.scores.kinds[score.measure], row.scores.columns[score.measure]
            is_any_judged |= is_judged(kind, column)
    return UnsureLosses(frozenset(losses), tuple(systems), changed_questions(gains), is_any_judged)


def _gated_scores(gates: Sequence[Gate], comparable: Sequence[str]) -> list[str]:
    """Return the comparable scores that gates refer to, without repeats."""
    scores: dict[str, None] = {}
    for gate in gates:
        if gate.score and (score := find_score(gate.score, comparable)):
            scores[score] = None
    return list(scores)


def _right_answer_lines(rows: Sequence[Row], label: Callable[[str], str]) -> Iterator[str]:
    """Yield a line on the right answers of each system that answers."""
    for score, system, _, pairs in rows:
        if score.measure == RIGHT:
            yield answers_line(system.scores.name, pairs, label)


def _failed(
    decided: Sequence[tuple[Gate, Decision]], scores: Sequence[ChangedScore]
) -> list[FailedGate]:
    """Return the configured gates that failed or were refused."""
    counts = {(score.measure, score.system): score.counts for score in scores}
    failed = []
    for gate, decision in decided:
        if decision.verdict == "fail" or decision.refused:
            about = gate.quantity if isinstance(gate, PairGate) else gate.text
            failed.append(
                FailedGate(decision, about, counts.get((about, decision.system or ""), ""))
            )
    return failed


def _undecided(gates: Sequence[Gate], skipped: Mapping[str, str]) -> list[Decision]:
    """Return the decisions on gates whose judge or generator was skipped."""
    why = _reason(skipped)
    decision = Decision(verdict="undecided", why=why)
    return [decision_of_gate(gate, decision) for gate in gates]


def _without_answers(skipped: Mapping[str, str]) -> list[Decision]:
    """Return the undecided default decision on answers, if their generator was skipped."""
    if not any(name.startswith("generator ") for name in skipped):
        return []
    return [Decision(verdict="undecided", why=_reason(skipped), gate="answers not worse")]


def _reason(skipped: Mapping[str, str]) -> str:
    """Return the skipped judges and generators with their reasons."""
    return "; ".join(f"{name} was skipped: {why}" for name, why in skipped.items())


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


def comparable_scores(base: ScoredSystems, head: ScoredSystems) -> Iterator[str]:
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


def first_scores(head: ScoredSystems, comparable: Sequence[str]) -> list[str]:
    """Return the deciding score of rankings and that of answers."""
    kinds = dict[str, Kind]()
    for system in head.systems.values():
        kinds |= system.kinds
    of_rankings, of_answers = [], []
    for name in comparable:
        if kinds[name] == "retrieval":
            of_rankings.append(name)
        else:
            of_answers.append(name)
    scores = []
    for name in map(gated_score, (of_rankings, of_answers)):
        if name:
            scores.append(name)
    return scores


def _against_base(gate: Gate) -> Gate:
    """Return a gate against a baseline file as a gate against the base; others as they are."""
    if isinstance(gate, PairGate) and gate.file is not None:
        return replace(gate, against=None, file=None)
    return gate


def _lacks_scores(gate: Gate, head: ScoredSystems) -> bool:
    """Return True if no system of the head has the score of the gate, or none of its systems."""
    systems = []
    for name in gate.systems:
        if name in head.systems:
            systems.append(head.systems[name])
    if gate.quantity_kind == "judge" or (gate.systems and not systems):
        return True
    names: set[str] = set()
    for system in systems or head.systems.values():
        names.update(system.columns)
    return gate.score is not None and find_score(gate.score, list(names)) is None


def _is_same(matching: Matching, measures: Sequence[str]) -> bool:
    """Return True if all systems have the passages, answers and scores of the base."""
    # Scores of judges may vary by themselves, and do not count.
    base, head = matching.sources
    # the names in the files: the choice of a sweep has that of the head
    names = set()
    for system in base.systems.values():
        if system.role != "control":
            names.add(system.name)
    if base.folder is None or head.folder is None or names != head.systems.keys():
        return False
    base_views, head_views = QueryViews(base.folder), QueryViews(head.folder)
    for name, system in head.systems.items():
        if not _has_scores_of(base.systems[name], system, measures):
            return False
        old = results_of(base_views, name, base.query_ids)
        new = results_of(head_views, name, base.query_ids)
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
