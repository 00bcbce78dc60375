"""Gates of a run, and conditions of `--fail-if`: decided one way, wherever they come from."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ragbench.comparison.compare_runs import pairs_of
from ragbench.comparison.matching import Met
from ragbench.comparison.method import Method
from ragbench.data.runs.scored_systems import ScoredSystems
from ragbench.errors import ConfigError, DataError, OptionError
from ragbench.gates.base import Decision, Gate, GatedRun, GateFiles
from ragbench.gates.drop import Drop
from ragbench.gates.scores import find_score
from ragbench.records.comparison import ComparedGate, Comparisons
from ragbench.records.gate import DropFacts, GateVerdict
from ragbench.registry import nearest


def decide_gates(gates: Sequence[Gate], run: GatedRun) -> list[GateVerdict]:
    """Check the gates on a run: an entry for each gate and system, in the order of the config.

    Where a gate cannot be compared with what it names, its entry is undecided and `refused`.
    """
    return [_verdict(gate, system, found) for gate in gates for system, found in gate.verdicts(run)]


def _verdict(gate: Gate, system: str | None, found: Decision) -> GateVerdict:
    verdict, why, power = found.verdict, found.why, found.power
    if verdict == "undecided" and gate.undecided == "fail":
        verdict, why = "fail", f"undecided, which counts as failed here: {why}"
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
        means=found.means,
        worst_queries=found.worst_queries,
        facts=found.facts,
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


_FORM = re.compile(r"\s*(\S.*?)\s+drop\s*>\s*(\S+)\s*")
ALLOWED = "MEASURE drop > NUMBER, such as 'ndcg@10 drop > 0.01'"


@dataclass(frozen=True, slots=True)
class FailIf:
    """A drop that is not allowed."""

    text: str
    """As the user wrote it."""
    gate: Drop
    """The gate that it means."""

    @classmethod
    def parse(cls, text: str) -> FailIf:
        """Read a condition.

        Example:
            >>> FailIf.parse("ndcg@10 drop > 0.01").gate.text
            'ndcg@10 drop <= 0.01'
        """
        match = _FORM.fullmatch(text)
        if match is None:
            raise OptionError("fail_if", "", text, ALLOWED)
        measure, limit = match.groups()
        try:
            margin = float(limit)
        except ValueError:
            margin = math.nan
        # float() takes nan too, which is in no range
        if not 0 <= margin < math.inf:
            allowed = "a number from 0 on: a share of 1, not percent"
            raise OptionError("fail_if", "drop >", limit, allowed)
        return cls(text, Drop(measure=measure, max_drop=margin))


def why_skipped(condition: FailIf, sources: Sequence[ScoredSystems]) -> str | None:
    """Say which run skipped the judge that a condition is about; None where none did."""
    name = condition.gate.measure
    judged = any(
        system.kinds.get(name) == "judge"
        for source in sources
        for system in source.systems.values()
    )
    for source in sources:
        skipped = None if source.summary is None else source.summary.skipped_judges
        has_it = any(name in system.columns for system in source.systems.values())
        # who skipped the judge has no column of it: its kind is known from the other sources
        if judged and skipped and not has_it:
            reasons = "; ".join(f"{judge}: {why}" for judge, why in skipped.items())
            return f"a judge was skipped in {source.source}: {reasons}"
    return None


def undecided(condition: FailIf, why: str) -> ComparedGate:
    """Return the verdict on a condition whose measure was not computed."""
    return _entry(condition, condition.gate.measure, Decision("undecided", why))


def decide_all(
    conditions: Sequence[tuple[FailIf, str]],
    comparison: Comparisons,
    met: Met,
    method: Method,
    clusters: Sequence[str] | None = None,
) -> Iterator[ComparedGate]:
    """Decide each condition, with the name of its measure, for each system that is compared by it.

    The method is that of the comparison, so that the interval that decides is the one printed.
    """
    for condition, measure in conditions:
        compared = list(pairs_of(comparison, met, measure, clusters))
        if not compared:
            yield undecided(condition, f"no two systems are compared by {measure}")
        for system, base, pairs in compared:
            found = condition.gate.decide_pairs(pairs, method)
            yield _entry(condition, measure, found, system.label, base.label)


def _entry(
    condition: FailIf,
    measure: str,
    found: Decision,
    system: str | None = None,
    baseline: str | None = None,
) -> ComparedGate:
    return ComparedGate(
        gate=condition.text,
        system=system,
        baseline=baseline,
        measure=measure,
        max_drop=condition.gate.max_drop,
        verdict=found.verdict,
        why=found.why,
        facts=DropFacts(
            numbers=found.facts,
            worst_queries=None if found.means is None else found.worst_queries,
            means=found.means,
            power=found.power,
        ),
    )
