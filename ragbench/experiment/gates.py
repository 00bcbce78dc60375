"""The gates of a run, and `rb.check_gates`: the same of what is finished already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench.comparison.method import Method
from ragbench.comparison.sources import HasRunFolder, Source, read_scored
from ragbench.config.gates import check_gates as check_gate_list
from ragbench.config.options import Context
from ragbench.config.problems import KeyPath, Report
from ragbench.config.tree import Item, PythonReader
from ragbench.config.yaml_reader import read_value
from ragbench.data.runs.query_view import QueryViews
from ragbench.data.runs.run_folder import COMPARISONS, read_comparisons, resolve_run_folder
from ragbench.data.runs.run_lines import fingerprint_queries
from ragbench.data.runs.run_scores import IDENTIFYING
from ragbench.data.runs.scored_systems import ScoredSystems
from ragbench.errors import DataError, OptionError, Place
from ragbench.experiment.plan.groups import source_clusters
from ragbench.experiment.plan.plan import method_of
from ragbench.experiment.plan.records import Plan
from ragbench.experiment.records import Results
from ragbench.gates.base import Gate, GatedRun, KnownNames
from ragbench.gates.decisions import FailIf, check_references, decide_gates, read_gate_files
from ragbench.gates.scores import KnownScore, KnownScores
from ragbench.llm.failures import shortened
from ragbench.records.codec import to_json
from ragbench.records.gate import GateVerdict
from ragbench.records.score import Kind
from ragbench.records.summary import Summary
from ragbench.report.text import counted

GateLike = Mapping[str, Any] | str
"""A gate as the YAML has it, as a mapping or as text, or as `--fail-if` takes it."""


def gate_run(plan: Plan, results: Results, summary: Summary) -> Summary:
    """Return the summary of a run with its gates, and a warning where some are undecided."""
    if not plan.config.gates:
        return summary
    fingerprints, answers = plan.collection.fingerprints, plan.collection.answers
    clusters = plan.clusters
    run = GatedRun(
        scored=ScoredSystems(
            "this run",
            {system.name: system for system in results.systems if system.role != "control"},
            plan.ids,
            plan.baseline,
            # as its run folder will have them
            {part: fingerprints[part] for part in IDENTIFYING if part in fingerprints},
            fingerprints=fingerprint_queries(plan.queries, results.qrels(plan), answers),
        ),
        method=method_of(plan),
        files=plan.gate_files,
        n_queries=len(plan.collection.queries),
        clusters=None if clusters is None else dict(zip(plan.ids, clusters, strict=True)),
        summary=summary,
    )
    decided = decide_gates(plan.config.gates, run)
    worst = {each.query_id for gate in decided for each in gate.worst_queries}
    rows = (row for row, name in enumerate(plan.ids) if name in worst)
    texts = {plan.ids[row]: plan.queries[row].text for row in rows}
    gates = [with_questions(gate, texts) for gate in decided]
    n_undecided = sum(gate.verdict == "undecided" for gate in gates)
    warning = (
        f"{n_undecided} of {counted(len(gates), 'gates')} undecided: neither passed nor failed"
    )
    warnings = (*summary.warnings, *([warning] if n_undecided else []))
    return replace(summary, gates=tuple(gates), warnings=warnings)


def with_questions(gate: GateVerdict, texts: Mapping[str, str]) -> GateVerdict:
    """Return a verdict whose worst queries say what they ask."""
    worst = gate.worst_queries
    asked = (shortened(" ".join(texts.get(each.query_id, "").split())) for each in worst)
    named = (replace(each, question=text) for each, text in zip(worst, asked, strict=True))
    return replace(gate, worst_queries=tuple(named))


def check_gates(
    run: Source, gates: GateLike | Sequence[GateLike], baseline: Source | None = None
) -> list[dict[str, Any]]:
    """Hold gates against a run that is finished; nothing is run.

    Gates are those of the YAML: mappings (`{"measure": "ndcg@10", "min": 0.4}`), the same as text
    (`"{measure: ndcg@10, min: 0.4}"`), or what `--fail-if` takes (`"ndcg@10 drop > 0.01"`). Paths
    in them are relative to the working directory. A run is compared as it was by its own YAML:
    confidence, resamples, seed and clusters; an evaluation at 95 %.

    Args:
        run: An experiment, a run folder or the folder of an experiment (its newest run), a baseline
            file, or what `evaluate_run` or `evaluate_texts` returned.
        gates: One gate or several.
        baseline: The same as `run`: what gates without `against` are compared with, by system name,
            or where both have one system, these two. None is the run's own baseline.

    Returns:
        The `gates` of `summary.json`: for each gate and system its verdict (`pass`, `fail`,
        `undecided`), why, and the numbers behind it, such as `interval` and `queries_needed`. What
        may not be compared is `undecided` and `refused`, and says what differs.

    Raises:
        ConfigError: Wrong gates, all at once, each with what is allowed and the nearest spelling.
        OptionError: A text that is no gate.
        DataError: There is no such run, or it cannot be read.

    Example:
        Half of the reciprocal ranks is lost, on each of 30 queries.

        >>> from ragbench import evaluate_run
        >>> qrels = {f"q{n}": {"d": 1} for n in range(30)}
        >>> old = evaluate_run({q: {"d": 1.0} for q in qrels}, qrels, ["mrr"])
        >>> new = evaluate_run({q: {"x": 2.0, "d": 1.0} for q in qrels}, qrels, ["mrr"])
        >>> found = check_gates(new, [{"measure": "mrr", "min": 0.4}, "mrr drop > 0.01"], old)
        >>> [gate["verdict"] for gate in found]
        ['pass', 'fail']
    """
    held = read_scored(run)
    # no gate is checked on what a generator answers from something else than a ranking
    kept = {name: each for name, each in held.systems.items() if each.role != "control"}
    held = replace(held, systems=kept)
    checked = _checked([gates] if isinstance(gates, (str, Mapping)) else gates, held)
    base = None if baseline is None else _meeting(read_scored(baseline), held)
    if base is not None:
        check_references(checked, base)
    method = _method(run, held)
    found = GatedRun(
        scored=held,
        method=method,
        files=read_gate_files(checked),
        n_queries=len(held.query_ids),
        clusters=None if method.cluster is None else _clusters(method.cluster, held),
        base=base,
        summary=held.summary,
    )
    verdicts = decide_gates(checked, found)
    texts = _questions(run, verdicts)
    return [to_json(with_questions(verdict, texts)) for verdict in verdicts]


def _questions(run: Source, verdicts: Sequence[GateVerdict]) -> dict[str, str]:
    """What the queries ask that verdicts name, where a run folder says it."""
    folder = run.path if isinstance(run, HasRunFolder) else run
    worst = {each.query_id for verdict in verdicts for each in verdict.worst_queries}
    if not worst or not isinstance(folder, (str, Path)) or not Path(folder).is_dir():
        return {}
    views = QueryViews(folder)
    return {query: views.question(query) for query in worst}


def _meeting(base: ScoredSystems, run: ScoredSystems) -> ScoredSystems:
    """The base, its only system under the name of the run's only one."""
    if len(base.systems) == len(run.systems) == 1:
        return replace(base, systems=dict(zip(run.systems, base.systems.values(), strict=True)))
    return base


def _checked(gates: Sequence[GateLike], run: ScoredSystems) -> tuple[Gate, ...]:
    report = Report()
    if not isinstance(gates, Sequence):
        raise OptionError("check_gates", "gates", gates, "a gate, or a list of gates")
    read = [_read(gate, ("gates", str(place)), report) for place, gate in enumerate(gates)]
    listed = Item(tuple(item for item in read if item is not None), Place(), ("gates",))
    found = check_gate_list(listed, _known(run), Context(report, Path()))
    if report:
        raise report.error("the gates")
    return found


def _read(gate: GateLike, path: KeyPath, report: Report) -> Item | None:
    if not isinstance(gate, str):
        return PythonReader(report).read(gate, path)
    if gate.lstrip().startswith("{"):
        return read_value(gate, Place(), path, report)
    meant = FailIf.parse(gate).gate
    drop = {"measure": meant.measure, "max_drop": meant.max_drop}
    return PythonReader(report).read(drop, path)


def _known(run: ScoredSystems) -> KnownNames:
    """What gates may refer to, all of which is known here."""
    scores, by_kind = dict[str, KnownScore](), dict[frozenset[bool], list[str]]()
    for system in run.systems.values():
        of_rankings = frozenset(kind == "retrieval" for kind in system.kinds.values())
        by_kind.setdefault(of_rankings, []).append(system.name)
        for name, column in system.columns.items():
            scores[name] = KnownScore(
                name, system.kinds[name], column.direction, column.low, column.high,
                column.aggregate,
            )  # fmt: skip
    # what a judge that was skipped would have said is undecided, not unknown
    was_skipped = run.summary is not None and run.summary.skipped_judges
    skipped: frozenset[Kind] = frozenset({"judge"} if was_skipped else ())
    ranked, answering = frozenset({True}), frozenset({False})
    both = [names for kinds, names in by_kind.items() if kinds not in (ranked, answering)]
    return KnownNames(
        KnownScores(scores, skipped),
        by_kind.get(ranked, []),
        by_kind.get(answering, []),
        [name for names in both for name in names],
    )


def _clusters(path: str, run: ScoredSystems) -> dict[str, str]:
    labels = source_clusters(path, run, run.query_ids)
    if labels is None:
        allowed = "a whole run folder"
        raise DataError(f"no queries.jsonl with {path}", file=run.source, allowed=allowed)
    return dict(zip(run.query_ids, labels, strict=True))


def _method(run: Source, held: ScoredSystems) -> Method:
    """How the YAML of a run had it compared; what is no run has the defaults."""
    folder = run.path if isinstance(run, HasRunFolder) else run
    if held.summary is None or not isinstance(folder, (str, Path)):
        return Method()
    folder = resolve_run_folder(Path(folder))
    made = read_comparisons(folder)
    confidence, resamples, seed = made.confidence, made.resamples, made.seed
    if confidence is None or resamples is None or seed is None:
        known = {"confidence": confidence, "resamples": resamples, "seed": seed}
        missing = next(key for key, value in known.items() if value is None)
        raise DataError(f"no '{missing}'", file=folder / COMPARISONS)
    return Method(confidence=confidence, resamples=resamples, seed=seed, cluster=made.cluster)
