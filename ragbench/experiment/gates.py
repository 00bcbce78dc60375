"""The gates of a run: what each one says of each of its systems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ragbench.comparison.method import Method
from ragbench.comparison.pairs import pair_scores
from ragbench.comparison.sources import ScoredSystems
from ragbench.comparison.systems import SystemScores, baseline_of, with_cost_column
from ragbench.config.gate_block import COSTS, QUANTILES, Gate
from ragbench.errors import DataError
from ragbench.experiment.costs import with_costs
from ragbench.experiment.gate_files import GateFiles, find_score
from ragbench.experiment.plan.plan import method_of
from ragbench.experiment.records import Plan, Results
from ragbench.experiment.stages.scores import join_samples
from ragbench.gates.drop import GateVerdict, decide_drop, decide_queries_worse
from ragbench.gates.increase import decide_increase
from ragbench.gates.limit import decide_cost, decide_failed, decide_kappa, decide_score
from ragbench.records.gate import GateVerdict as Entry
from ragbench.records.summary import Latency, Summary, Tokens
from ragbench.report.digits import counted
from ragbench.score.base import ScoreColumn


@dataclass(frozen=True)
class GatedRun:
    """What gates are held against."""

    scored: ScoredSystems
    """The systems of the run with their columns."""
    summary: Summary | None
    """Without gates: costs, and judges that were skipped; None where there is no finished run."""
    method: Method
    """How intervals are made."""
    files: GateFiles
    """What the gates refer to."""
    n_queries: int
    """How many queries the data set has; more than were asked in a sample."""
    clusters: Mapping[str, str] | None = None
    """Query -> its cluster; None where each stands for itself."""
    base: ScoredSystems | None = None
    """What gates without `against` are compared with; None is the run's own baseline."""
    samples: Mapping[str, Mapping[str, Sequence[ScoreColumn]]] = field(default_factory=dict)
    """System -> score -> its samples, where each query was answered several times."""

    @property
    def is_sample(self) -> bool:
        """Whether only some of the queries were asked."""
        return len(self.scored.query_ids) < self.n_queries


def gated(plan: Plan, systems: Sequence[SystemScores], summary: Summary | None) -> GatedRun:
    """Return what the gates of a run are held against."""
    fingerprints, ids = plan.collection.fingerprints, [query.id for query in plan.queries]
    scored = ScoredSystems(
        "this run",
        {system.name: system for system in systems if system.role != "control"},
        ids,
        plan.baseline,
        {part: fingerprints[part] for part in ("queries",) if part in fingerprints},
    )
    return GatedRun(
        scored=scored,
        summary=summary,
        method=method_of(plan),
        files=plan.gate_files,
        n_queries=len(plan.collection.queries),
        clusters=None if plan.clusters is None else dict(zip(ids, plan.clusters, strict=True)),
    )


def gate_run(plan: Plan, results: Results, summary: Summary) -> Summary:
    """Return the summary of a run with its gates, and a warning where some are undecided."""
    if not plan.config.gates:
        return summary
    run = replace(gated(plan, with_costs(results), summary), samples=results.samples)
    gates = decide_gates(plan.config.gates, run)
    n_undecided = sum(gate.verdict == "undecided" for gate in gates)
    warning = (
        f"{n_undecided} of {counted(len(gates), 'gates')} undecided: neither passed nor failed"
    )
    warnings = (*summary.warnings, *([warning] if n_undecided else []))
    return replace(summary, gates=tuple(gates), warnings=warnings)


def decide_gates(gates: Sequence[Gate], run: GatedRun) -> list[Entry]:
    """Hold the gates against a run.

    Returns:
        The `gates` of `summary.json`: an entry for each gate and system, in the order of the
        config. Where a gate cannot be compared with what it names, its entry is undecided and
        `refused`.
    """
    return [
        _entry(gate, system, verdict) for gate in gates for system, verdict in _decide(gate, run)
    ]


def _entry(gate: Gate, system: str | None, found: GateVerdict) -> Entry:
    verdict, why, facts = found.verdict, found.why, dict(found.facts)
    if verdict == "undecided" and gate.undecided == "fail":
        verdict, why = "fail", f"undecided, which counts as failed here: {why}"
    return Entry(
        gate=gate.text,
        system=system,
        verdict=verdict,
        why=why,
        line=gate.place.line,
        refused=bool(facts.pop("refused", False)),
        unknown=facts,
    )


def _decide(gate: Gate, run: GatedRun) -> Iterator[tuple[str | None, GateVerdict]]:
    if gate.certificate is not None:
        yield None, _certificate(gate, run)
        return
    having, score = _systems_with(gate, run)
    if not having:
        yield None, GateVerdict("undecided", _not_there(gate, run))
        return
    for name in gate.systems or _held(gate, having, run):
        if name not in having:
            missing = f"{name} was not run" if name not in run.scored.systems else ""
            yield name, GateVerdict("undecided", missing or _not_there(gate, run))
        else:
            yield name, _decide_system(gate, having[name], score, having, run)


def _systems_with(gate: Gate, run: GatedRun) -> tuple[Mapping[str, SystemScores], str]:
    """The systems that have what a gate is about, and the name under which they have it."""
    asked = str(gate.failed or gate.measure)
    if gate.measure in COSTS:
        return run.scored.systems, asked
    names = dict.fromkeys(n for s in run.scored.systems.values() for n in s.columns)
    score = find_score(asked, list(names)) or asked
    return {n: s for n, s in run.scored.systems.items() if score in s.columns}, score


def _not_there(gate: Gate, run: GatedRun) -> str:
    skipped = {} if run.summary is None else run.summary.skipped_judges
    reasons = [f"judge {name} was skipped: {why}" for name, why in skipped.items()]
    return "; ".join([f"{gate.failed or gate.measure} was not scored in this run", *reasons])


def _held(gate: Gate, having: Mapping[str, SystemScores], run: GatedRun) -> list[str]:
    """Every system that has a baseline; where none has, they are all that there is to hold."""
    if gate.compares and run.base is not None and gate.against is None:
        return [name for name in having if name in run.base.systems] or list(having)
    own = run.scored.baseline
    others = [s.name for s in having.values() if baseline_of(s, having, own) is not None]
    return others or list(having)


def _decide_system(
    gate: Gate,
    system: SystemScores,
    score: str,
    having: Mapping[str, SystemScores],
    run: GatedRun,
) -> GateVerdict:
    confidence = run.method.confidence
    if gate.max is not None and gate.measure in COSTS:
        return decide_cost(_cost(score, system.name, run.summary), gate.max)
    if gate.max_increase is not None:
        return _compared(gate, system, score, having, run)
    column = system.columns[score]
    if gate.failed is not None:
        answers = run.samples.get(system.name, {}).get(score, [column])
        return decide_failed(join_samples(answers), float(gate.max or 0))
    if gate.min is not None or gate.max is not None:
        how = gate.decide or "mean"
        return decide_score(
            column, least=gate.min, most=gate.max, decide=how, confidence=confidence
        )
    return _compared(gate, system, score, having, run)


def _compared(
    gate: Gate,
    system: SystemScores,
    score: str,
    having: Mapping[str, SystemScores],
    run: GatedRun,
) -> GateVerdict:
    """The verdict on a change."""
    base, other = _reference(gate, system, having, run)
    if gate.max_increase is not None:
        system = with_cost_column(system, score)
        other = None if other is None else with_cost_column(other, score)
    if base is None or other is None or find_score(score, list(other.columns)) is None:
        lacks = f"{gate.against or 'the baseline'} has no {score} of {system.name}"
        itself = f"{system.name} is the baseline; against: names something else"
        is_itself = gate.file is None and run.base is None
        return GateVerdict("undecided", itself if is_itself else lacks)
    try:
        theirs = str(find_score(score, list(other.columns)))
        pairs = pair_scores((run.scored, system, score), (base, other, theirs), run.clusters)
    except DataError as error:
        if run.is_sample:
            n, total = len(run.scored.query_ids), run.n_queries
            return GateVerdict("undecided", f"a sample of {n} of {total} queries was asked")
        return GateVerdict("undecided", f"refused: {error}", {"refused": True})
    if gate.max_increase is not None:
        quantile = QUANTILES.get(score)
        return decide_increase(pairs, gate.max_increase, run.method, quantile=quantile)
    if gate.max_queries_worse is not None:
        return decide_queries_worse(pairs, gate.max_queries_worse, gate.by or 0.0)
    return decide_drop(
        pairs, float(gate.max_drop or 0), run.method, decide=gate.decide or "interval"
    )


def _reference(
    gate: Gate, system: SystemScores, having: Mapping[str, SystemScores], run: GatedRun
) -> tuple[ScoredSystems | None, SystemScores | None]:
    """Where a system's counterpart comes from, and that counterpart."""
    if gate.file is not None:
        base = run.files.references[gate.file]
        return base, base.systems.get(system.name)
    if gate.against is not None:
        return run.scored, having.get(gate.against)
    if run.base is not None:
        return run.base, run.base.systems.get(system.name)
    return run.scored, baseline_of(system, having, run.scored.baseline)


def _cost(measure: str, name: str, summary: Summary | None) -> float | None:
    """A cost as `summary.json` has it; None where it is not known."""
    # what is no run, such as a single evaluation, has none
    system = None if summary is None else summary.system(name)
    if system is None:
        return None
    latency, tokens = system.latency_ms or Latency(), system.tokens or Tokens()
    return {
        "latency_ms.p50": latency.p50,
        "latency_ms.p95": latency.p95,
        "tokens.input": tokens.input,
        "tokens.output": tokens.output,
        "usd": system.usd,
    }.get(measure)


def _certificate(gate: Gate, run: GatedRun) -> GateVerdict:
    if gate.file is None:
        raise DataError(f"no certificate {gate.certificate}")
    certificate, rubric = run.files.certificates[gate.file], str(gate.rubric)
    scores = [
        score
        for system in (() if run.summary is None else run.summary.systems)
        for name, score in system.scores.items()
        if name == rubric and score.judge is not None
    ]
    certified = certificate["rubrics"][rubric].get("model")
    others = sorted({str(score.model) for score in scores if score.model != certified})
    if not scores:
        return GateVerdict("undecided", _not_there(replace(gate, measure=rubric), run))
    if others:
        why = f"the certificate is of {certified}, and this run was judged by {', '.join(others)}"
        return GateVerdict("undecided", why)
    return decide_kappa(
        certificate, rubric, float(gate.min_kappa or 0), decide=gate.decide or "mean"
    )
