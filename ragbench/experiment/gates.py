"""Decisions on the gates of a run, and `rb.check_gates` for a finished run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import structs

from ragbench.comparison.method import Method
from ragbench.comparison.sources import Source, read_scored
from ragbench.config.gates import check_gates as check_gate_list
from ragbench.config.options import Context
from ragbench.config.tree import KeyPath, Node, PythonReader, Report
from ragbench.config.yaml_reader import read_value
from ragbench.data.runs.query_view import QueryViews
from ragbench.data.runs.run_folder import COMPARISONS, read_comparisons
from ragbench.data.runs.run_lines import fingerprint_queries
from ragbench.data.runs.run_scores import IDENTIFYING
from ragbench.data.runs.scored_systems import ScoredSystems
from ragbench.errors import DataError, OptionError, Place
from ragbench.experiment.plan.compared_clusters import source_clusters
from ragbench.experiment.plan.plan import method_of
from ragbench.experiment.plan.records import Plan
from ragbench.experiment.records import Results
from ragbench.gates.base import Gate, GatedRun, GateNames, ScoreFacts, decide_gates, read_baselines
from ragbench.gates.conditions import read_condition
from ragbench.gates.drop import PairGate
from ragbench.llm.failures import one_line
from ragbench.records.codec import to_json
from ragbench.records.gate import ARE_UNDECIDED, Decision, WorseQuery
from ragbench.records.score import Kind
from ragbench.records.summary import Summary
from ragbench.report.gate import question_line, verdict_line
from ragbench.report.text import counted
from ragbench.types import Query
from ragbench.types.lookups import attributes_of, index_positions, select_in_order

# A gate as the YAML has it, as a mapping or as text, or a condition.
GateLike = Mapping[str, Any] | str
# Text of a question, and its row in a table without ids
Question = tuple[str, int | None]


def gate_run(plan: Plan, results: Results, summary: Summary) -> Summary:
    """Return the summary of a run with decisions on its gates, and a warning if one is undecided.

    Without gates the summary is returned as it is. Controls are not gated. The warning counts the
    undecided gates; there is none if the estimates of all of them are not worse.
    """
    if not plan.config.gates:
        return summary
    gold, clusters = plan.collection, plan.clusters
    systems = {}
    for system in results.systems:
        if system.role != "control":
            systems[system.name] = system
    run = GatedRun(
        scored=ScoredSystems(
            "this run",
            systems,
            plan.ids,
            plan.baseline,
            # the same parts as those of a run that is read from its folder
            select_in_order(gold.fingerprints, IDENTIFYING),
            fingerprints=fingerprint_queries(plan.queries, gold, results.qrels(plan)),
        ),
        method=method_of(plan.config),
        baselines=plan.gate_baselines,
        n_queries=len(plan.collection.queries),
        clusters=None if clusters is None else dict(zip(plan.ids, clusters, strict=True)),
        summary=summary,
        comparisons=results.comparisons,
    )
    decisions = decide_gates(plan.config.gates, run)
    positions = index_positions(plan.ids)

    def question_of(query: str) -> Question:
        question = plan.queries[positions[query]]
        return question.text, question.row

    gates = with_questions(decisions, question_of)
    n_undecided = sum(gate.verdict == "undecided" for gate in gates)
    warning = f"{n_undecided} of {counted(len(gates), 'gates')} {ARE_UNDECIDED}"
    warnings = (
        *summary.warnings,
        *([warning] if any(gate.level == "warning" for gate in gates) else []),
    )
    return structs.replace(summary, gates=tuple(gates), warnings=warnings)


def with_questions(
    decisions: Sequence[Decision], question_of: Callable[[str], Question]
) -> list[Decision]:
    """Return the decisions with the question of each worst query, cut at 500 characters."""

    def with_question(query: WorseQuery) -> WorseQuery:
        text, row = question_of(query.query_id)
        return structs.replace(query, question=one_line(" ".join(text.split())), row=row)

    complete = []
    for decision in decisions:
        queries = tuple(map(with_question, decision.worst_queries))
        complete.append(structs.replace(decision, worst_queries=queries))
    return complete


def check_gates(
    run: Source, gates: GateLike | Sequence[GateLike], baseline: Source | None = None
) -> list[dict[str, Any]]:
    """Decide gates on a finished run, from its files.

    A gate is a mapping as in the YAML (`{"measure": "ndcg@10", "min": 0.4}`), the same as text
    (`"{measure: ndcg@10, min: 0.4}"`), a condition as results print it (`"ndcg@10 >= 0.4"`), or
    a drop that fails (`"ndcg@10 drop > 0.01"`).
    Paths in gates are relative to the working directory. Confidence, resamples, seed and clusters
    are those of the run; a baseline file or an evaluation has the defaults, 95 % among them.

    Args:
        run: An experiment, a run folder or the folder of an experiment (its newest run), a baseline
            file, or a result of `evaluate`, `evaluate_run` or `evaluate_texts`.
        gates: One gate or several.
        baseline: Source like `run`, for gates without `against`: systems of the same name are
            compared, or if both have one system, these two. None takes the run's own baseline.

    Returns:
        The `gates` of `summary.json`: for each gate and system a mapping with `gate`, `system`,
        `verdict` (`pass`, `fail`, `undecided`), `why`, and the numbers behind it, such as
        `interval` and `queries_needed`. A comparison that is not allowed is `undecided` and
        `refused`, with the differences in `why`. The list is true whatever the verdicts are.

    Raises:
        ConfigError: Wrong gates, all at once, each with what is allowed and the nearest spelling.
        OptionError: A text is no gate; `gates` is no list.
        DataError: There is no such run, or a source or its clusters cannot be read.

    Example:
        Each of 30 queries loses half of its reciprocal rank.

        >>> from ragbench import evaluate_run
        >>> qrels = {f"q{n}": {"d": 1} for n in range(30)}
        >>> old = evaluate_run({q: {"d": 1.0} for q in qrels}, qrels, ["mrr"])
        >>> new = evaluate_run({q: {"x": 2.0, "d": 1.0} for q in qrels}, qrels, ["mrr"])
        >>> gates = check_gates(new, [{"measure": "mrr", "min": 0.4}, "mrr drop > 0.01"], old)
        >>> [gate["verdict"] for gate in gates]
        ['pass', 'fail']
    """
    gated, decided = decide_source(run, gates, baseline)
    decisions = [decision for _, decision in decided]
    question_of = questions_of(gated.scored)
    return [to_json(decision) for decision in with_questions(decisions, question_of)]


def questions_of(
    scored: ScoredSystems, questions: Mapping[str, Query] = MappingProxyType({})
) -> Callable[[str], Question]:
    """Return a function from the id of a query to its question, which reads a run folder once.

    Args:
        scored: Source of the queries.
        questions: Id -> question, where the source is no run folder.
    """
    views = cache(QueryViews)  # reads the run folder only if a gate has worst queries

    def question_of(query: str) -> Question:
        """Return the text and the row of a question; '' and None where they are not known."""
        if scored.folder is not None:
            return views(scored.folder).question(query), views(scored.folder).row(query)
        question = questions.get(query)
        return ("", None) if question is None else (question.text, question.row)

    return question_of


def decide_source(
    run: Source, gates: GateLike | Sequence[GateLike], baseline: Source | None = None
) -> tuple[GatedRun, list[tuple[Gate, Decision]]]:
    """Return a finished run, and each gate with its decisions, as `check_gates` decides them.

    A gate is repeated for each of its systems. Arguments and errors are those of `check_gates`.
    """
    scored = scored_without_controls(run)
    checked = _checked([gates] if isinstance(gates, (str, Mapping)) else gates, scored)
    gated = gated_run(scored, checked, None if baseline is None else read_scored(baseline))
    return gated, decide_each(checked, gated)


def decide_each(gates: Iterable[Gate], run: GatedRun) -> list[tuple[Gate, Decision]]:
    """Return the decisions of gates on a run, with the gate of each decision."""
    decided = []
    for gate in gates:
        for decision in decide_gates([gate], run):
            decided.append((gate, decision))
    return decided


def explain_decision(
    gate: Gate, decision: Decision, run: GatedRun, *, has_title: bool
) -> list[str]:
    """Return lines on a decision that did not pass: its verdict, then its worst questions.

    A question has both scores, and the answers or the ranks of a gold document, as far as the
    system and its baseline have run folders.

    Args:
        gate: The gate.
        decision: Its decision on a system.
        run: The run that was decided on.
        has_title: True if the lines stand under the text of the gate; else they have its condition.

    Raises:
        DataError: A run folder lacks a question or cannot be read.
    """
    # the reason of a change has the margin
    has_condition = has_title or isinstance(gate, PairGate)
    lines = [verdict_line(decision, (has_condition and gate.quantity) or gate.text)]
    if decision.system is None or not decision.worst_queries:
        return lines
    systems = [(run.scored.folder, decision.system)]
    if isinstance(gate, PairGate):
        _, having = gate.scored_systems(run)
        source, baseline = gate.find_baseline(having[decision.system], having, run)
        systems = [(source.folder, baseline.name if baseline else decision.system), *systems]
    with ExitStack() as stack:
        views = []
        for folder, name in systems:
            if folder is not None:
                views.append((stack.enter_context(closing(QueryViews(folder))), name))
        return [*lines, *(question_line(views, query) for query in decision.worst_queries)]


def scored_without_controls(run: Source) -> ScoredSystems:
    """Return the scored systems of a source; controls, which are not gated, are left out.

    Their answers do not depend on a retriever. The errors are those of `read_scored`.
    """
    return without_controls(read_scored(run))


def without_controls(scored: ScoredSystems) -> ScoredSystems:
    """Return the scored systems that are no controls."""
    systems = {}
    for name, system in scored.systems.items():
        if system.role != "control":
            systems[name] = system
    return replace(scored, systems=systems)


def gated_run(
    scored: ScoredSystems,
    gates: Sequence[Gate],
    baseline: ScoredSystems | None,
    *,
    may_be_new: bool = False,
) -> GatedRun:
    """Return a finished run for decisions, with its intervals, its clusters and the baselines.

    Gates without `against` are compared with `baseline`, or if it is None with the run's own. Two
    single systems are compared whatever their names. With `may_be_new`, `baseline` may lack systems
    and scores of gates, which are then undecided.

    Raises:
        ConfigError: A file that a gate names cannot be read, or lacks its systems or scores.
        DataError: A file of the run cannot be read, or has no metadata for its clusters.
    """
    if baseline is not None and len(baseline.systems) == len(scored.systems) == 1:
        # `decide_gates` finds the system of a baseline by its name
        renamed = dict(zip(scored.systems, baseline.systems.values(), strict=True))
        baseline = replace(baseline, systems=renamed)
    method = method_of_run(scored)
    return GatedRun(
        scored=scored,
        method=method,
        baselines=read_baselines(gates, "the gates", None if may_be_new else baseline),
        n_queries=len(scored.query_ids),
        clusters=None if method.cluster is None else _clusters(method.cluster, scored),
        baseline=baseline,
        summary=scored.summary,
        comparisons=None if scored.folder is None else read_comparisons(scored.folder),
    )


def _checked(gates: Sequence[GateLike], run: ScoredSystems) -> tuple[Gate, ...]:
    """Return the gates in their order, checked against the scores and systems of a run."""
    report = Report()
    if not isinstance(gates, Sequence):
        raise OptionError("check_gates", "gates", gates, "a gate, or a list of gates")
    items = []
    for place, gate in enumerate(gates):
        items.append(_read(gate, ("gates", str(place)), report))
    listed = Node(tuple(filter(None, items)), Place(), ("gates",))
    checked = check_gate_list(listed, _known_names(run), Context(report, Path()))
    if report:
        raise report.error("the gates")
    return checked


def _read(gate: GateLike, path: KeyPath, report: Report) -> Node | None:
    """Return a gate as a node of a config; None if it is malformed, which `report` gets."""
    if isinstance(gate, str) and gate.lstrip().startswith("{"):
        return read_value(gate, Place(), path, report)
    keys = read_condition(gate) if isinstance(gate, str) else gate
    return PythonReader(report).read(keys, path)


def _known_names(run: ScoredSystems) -> GateNames:
    """Return the scores and systems that gates may refer to; scores of skipped judges too."""
    scores = dict[str, ScoreFacts]()
    retrievers, pairs, apps = list[str](), list[str](), list[str]()
    for system in run.systems.values():
        of_rankings = {kind == "retrieval" for kind in system.kinds.values()}
        if of_rankings == {True}:
            retrievers.append(system.name)
        elif of_rankings == {False}:
            pairs.append(system.name)
        else:
            apps.append(system.name)
        for name, column in system.columns.items():
            scores[name] = ScoreFacts(
                name, system.kinds[name], column.direction, column.low, column.high,
                column.aggregate,
            )  # fmt: skip
    # a gate on a rubric of a skipped judge is undecided: its score is not an unknown name
    was_skipped = run.summary is not None and run.summary.skipped_judges
    skipped: frozenset[Kind] = frozenset({"judge"} if was_skipped else ())
    return GateNames(scores, skipped, retrievers, pairs, apps)


def _clusters(path: str, run: ScoredSystems) -> dict[str, str]:
    """Return the cluster of each query of a run, by a key of its metadata."""
    labels = source_clusters(path, run, run.query_ids)
    if labels is None:
        problem = (
            f"no queries.jsonl, whose {path} has the clusters of this run (statistics.cluster)"
        )
        raise DataError(problem, file=run.source, allowed="a whole run folder")
    return dict(zip(run.query_ids, labels, strict=True))


def method_of_run(run: ScoredSystems) -> Method:
    """Return the method of the comparisons of a run; the default method for other sources.

    Raises:
        DataError: comparisons.json cannot be read, or lacks an option.
    """
    if run.folder is None:
        return Method()
    comparisons = read_comparisons(run.folder)
    values = attributes_of(comparisons, ("confidence", "resamples", "seed"))
    for key, value in values.items():
        if value is None:
            allowed = "the file as the run wrote it"
            raise DataError(f"no '{key}'", file=run.folder / COMPARISONS, allowed=allowed)
    names = attributes_of(comparisons, ("test", "correction", "family"))
    return Method(**values, **names, cluster=comparisons.cluster)
