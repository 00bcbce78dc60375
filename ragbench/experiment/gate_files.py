"""What gates refer to, read and checked before anything is run or paid for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragbench.comparison.sources import ScoredSystems, needs_qrels, read_scored
from ragbench.config.gate_block import COSTS, Gate
from ragbench.config.known_scores import canonical
from ragbench.data.run_folder import CERTIFICATE_SCHEMA, read_json
from ragbench.errors import ConfigError, DataError, Problem
from ragbench.registry import nearest


@dataclass(frozen=True, slots=True)
class GateFiles:
    """The files that the gates of a config name, read."""

    references: Mapping[Path, ScoredSystems] = field(default_factory=dict)
    """Baseline file or run folder -> its scores."""
    certificates: Mapping[Path, Mapping[str, Any]] = field(default_factory=dict)
    """Certificate -> its content."""


def read_gate_files(gates: Sequence[Gate]) -> GateFiles:
    """Read every file that gates name, once.

    Raises:
        ConfigError: Files that are not what they should be, or lack a system, measure or rubric
            that a gate names; all of them, each at its gate.
    """
    references: dict[Path, ScoredSystems] = {}
    certificates: dict[Path, Mapping[str, Any]] = {}
    problems = []
    for gate in gates:
        if gate.file is None:
            continue
        try:
            if gate.certificate is not None:
                certificates[gate.file] = read_json(gate.file, CERTIFICATE_SCHEMA)
                _check_certificate(gate, certificates[gate.file])
            else:
                if gate.file not in references:
                    _refuse_run_file(gate.file)
                    references[gate.file] = read_scored(gate.file, name=gate.against)
                _check_reference(gate, references[gate.file])
        except DataError as error:
            problems.append(at_gate(gate, str(error)))
    if problems:
        raise ConfigError(problems, problems[0].file or "the config")
    return GateFiles(references, certificates)


def check_references(gates: Sequence[Gate], reference: ScoredSystems) -> None:
    """Refuse gates on systems or scores that what they are compared with does not have.

    Raises:
        ConfigError: All of them, each at its gate.
    """
    problems = []
    for gate in gates:
        try:
            _check_reference(gate, reference)
        except DataError as error:
            problems.append(at_gate(gate, str(error)))
    if problems:
        raise ConfigError(problems, problems[0].file or "the gates")


def check_gate_names(gates: Sequence[Gate], scores: Sequence[str], systems: Sequence[str]) -> None:
    """Refuse gates on scores or systems that the run does not have.

    Args:
        gates: The gates.
        scores: Every score of the run, those of judges that are skipped included.
        systems: Every system of the run.

    Raises:
        ConfigError: All of them, each at its gate.
    """
    problems = []
    for gate in gates:
        score = gate.failed or gate.measure
        if score is not None and score not in COSTS and find_score(score, scores) is None:
            close = nearest(score, scores)
            problems.append(at_gate(gate, f"'{score}' is not scored", ", ".join(scores), close))
        named = [*gate.systems]
        if gate.against is not None and gate.file is None:
            named.append(gate.against)
        problems += [
            at_gate(gate, f"no system '{name}'", ", ".join(systems), nearest(name, systems))
            for name in named
            if name not in systems
        ]
    if problems:
        raise ConfigError(problems, problems[0].file or "the config")


def find_score(name: str, scores: Sequence[str]) -> str | None:
    """Return the name under which a score is kept that is spelt in whatever way."""
    if name in scores:
        return name
    meant = canonical(name)
    return next((s for s in scores if meant is not None and canonical(s) == meant), None)


def at_gate(
    gate: Gate, found: str, allowed: str | None = None, close: str | None = None
) -> Problem:
    """Return a problem that stands where the gate stands."""
    place = gate.place
    return Problem(
        found=found,
        file=place.file,
        line=place.line,
        column=place.column,
        path="gates",
        allowed=allowed,
        nearest=close,
        source=place.source,
        width=place.width,
    )


def _refuse_run_file(path: Path) -> None:
    """A gate has no place for the judgements that a TREC run would need."""
    if needs_qrels(path):
        allowed = "a file of ragbench baseline, or a run folder"
        raise DataError("no baseline file", file=path, allowed=allowed)


def _check_certificate(gate: Gate, certificate: Mapping[str, Any]) -> None:
    rubrics = certificate.get("rubrics") or {}
    names = list(rubrics)
    if gate.rubric not in names:
        raise DataError(
            f"no rubric '{gate.rubric}'",
            file=gate.certificate,
            allowed=", ".join(names),
            nearest=nearest(str(gate.rubric), names),
        )
    kappa = rubrics[gate.rubric].get("agreement", {}).get("kappa")
    if not isinstance(kappa, Mapping) or not {"value", "interval", "n"} <= kappa.keys():
        raise DataError(f"'{gate.rubric}' has no kappa", file=gate.certificate)


def _check_reference(gate: Gate, reference: ScoredSystems) -> None:
    """What a gate names must be there; what it does not name may be new."""
    if gate.measure in COSTS and not any(each.costs for each in reference.systems.values()):
        allowed = "a file of ragbench baseline --costs, or a run folder of this version"
        raise DataError(f"no {gate.measure}", file=reference.source, allowed=allowed)
    for name in gate.systems:
        if name not in reference.systems:
            known = list(reference.systems)
            raise DataError(
                f"no system '{name}'",
                file=reference.source,
                allowed=", ".join(known),
                nearest=nearest(name, known),
            )
        if gate.measure in COSTS:
            continue
        scores = list(reference.systems[name].columns)
        if find_score(str(gate.measure), scores) is None:
            raise DataError(
                f"system '{name}' has no '{gate.measure}'",
                file=reference.source,
                allowed=", ".join(scores),
                nearest=nearest(str(gate.measure), scores),
            )
