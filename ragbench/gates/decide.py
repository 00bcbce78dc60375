"""Hold gates against a run: one way for runs, `check_gates` and early stopping."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragbench.comparison.sources import ScoredSystems
from ragbench.errors import ConfigError, DataError
from ragbench.gates.base import Decision, Gate, GatedRun, GateFiles
from ragbench.gates.scores import find_score
from ragbench.records.gate import GateVerdict, worse_queries
from ragbench.registry import nearest


def decide_gates(gates: Sequence[Gate], run: GatedRun) -> list[GateVerdict]:
    """Hold the gates against a run: an entry for each gate and system, in the order of the config.

    Where a gate cannot be compared with what it names, its entry is undecided and `refused`.
    """
    return [_verdict(gate, system, found) for gate in gates for system, found in gate.verdicts(run)]


def _verdict(gate: Gate, system: str | None, found: Decision) -> GateVerdict:
    verdict, why, power = found.verdict, found.why, found.power
    if verdict == "undecided" and gate.undecided == "fail":
        verdict, why = "fail", f"undecided, which counts as failed here: {why}"
    facts = dict(found.facts)
    worst, means = worse_queries(facts), facts.pop("means", None)
    facts.pop("worst_queries", None)
    return GateVerdict(
        gate=gate.text,
        system=system,
        verdict=verdict,
        why=why,
        line=gate.place.line,
        refused=found.refused,
        queries_needed=None if power is None else power.queries_needed,
        detectable=None if power is None else power.detectable,
        estimate=None if power is None else power.estimate,
        means=None if means is None else (means[0], means[1]),
        worst_queries=worst,
        evidence=found.evidence,
        unknown=facts,
    )


def read_gate_files(gates: Sequence[Gate]) -> GateFiles:
    """Read every file that gates name, once; what is wrong with them is in one error, by gate."""
    files = GateFiles()
    _check_each(gates, lambda gate: gate.read(files), "the config")
    return files


def check_references(gates: Sequence[Gate], base: ScoredSystems) -> None:
    """Refuse gates on systems or scores that what they are compared with does not have."""
    _check_each(gates, lambda gate: gate.check_base(base), "the gates")


def _check_each(gates: Sequence[Gate], check: Callable[[Gate], None], subject: str) -> None:
    problems = []
    for gate in gates:
        try:
            check(gate)
        except DataError as error:
            problems.append(gate.place.problem(str(error), "gates"))
    if problems:
        raise ConfigError(problems, problems[0].file or subject)


def check_gate_names(gates: Sequence[Gate], scores: Sequence[str], systems: Sequence[str]) -> None:
    """Refuse gates on scores or systems that the run does not have.

    The scores are all of the run, those of judges that are skipped included.
    """
    problems = []
    for gate in gates:
        score, add = gate.score, gate.place.problem
        if score is not None and find_score(score, scores) is None:
            found, close = f"'{score}' is not scored", nearest(score, scores)
            problems.append(add(found, "gates", ", ".join(scores), close))
        problems += [
            add(f"no system '{name}'", "gates", ", ".join(systems), nearest(name, systems))
            for name in gate.names
            if name not in systems
        ]
    if problems:
        raise ConfigError(problems, problems[0].file or "the config")
