"""Gates of YAML files as tests of pytest: runs, each once per session, and outcomes of gates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ragbench.comparison.method import Method
from ragbench.comparison.sources import HasRunFolder, Source
from ragbench.config.components import unscored_combinations
from ragbench.config.gates import gate_scores, pairs_of, written_gates
from ragbench.config.load import brings_systems, load_config
from ragbench.config.schema import ExperimentConfig
from ragbench.config.tree import Node
from ragbench.data.runs.run_scores import read_run_scores, write_baseline
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.errors import DataError, RagbenchError, visible
from ragbench.experiment import gates as gating
from ragbench.experiment.plan.plan import check_single
from ragbench.experiment.result import Experiment, load_experiment
from ragbench.experiment.runner import run_experiment
from ragbench.files import locked, write_atomically
from ragbench.gates.base import Gate, GatedRun, SystemGate
from ragbench.records.gate import Decision, Verdict
from ragbench.signature import fingerprint_json
from ragbench.types.lookups import select_in_order


class SharedRuns:
    """Runs of a test session: each experiment is run once, also with several workers.

    `run` returns the experiment of a config file. Workers share runs through files in a folder;
    None is a session with one process. A folder of files is shared by all workers of one session. A
    run that failed is not tried again by the same worker: its error is raised again.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._done: dict[str, Experiment | RagbenchError] = {}

    def run(self, config: str | Path, overrides: Mapping[str, Any] | None = None) -> Experiment:
        """Return the experiment of a YAML file; the first call for it runs it.

        `overrides` are dotted keys and values; other overrides are another run. Raises as
        `run_experiment` does.
        """
        path = Path(config).resolve()
        key = fingerprint_json([str(path), dict(overrides or {})])
        if key not in self._done:
            try:
                self._done[key] = self._run_or_wait(key, path, overrides)
            except RagbenchError as error:
                self._done[key] = error
        experiment = self._done[key]
        if isinstance(experiment, RagbenchError):
            raise experiment
        return experiment

    def _run_or_wait(self, key: str, path: Path, overrides: Mapping[str, Any] | None) -> Experiment:
        """Run an experiment, or read the run of another worker; `key` names the run."""
        if self._folder is None:
            return run_experiment(path, overrides, progress=False)
        # the file holds the run folder; the other workers wait for the lock, then read it
        path_file = self._folder / key
        with locked(self._folder / f"{key}.lock"):
            if path_file.exists():
                return load_experiment(path_file.read_text(encoding="utf-8"))
            experiment = run_experiment(path, overrides, progress=False)
            write_atomically(path_file, str(experiment.path.resolve()))
        return experiment


@dataclass(frozen=True, slots=True)
class CollectedGates:
    """Gates of one YAML file as tests, with the options of their run; `collect_gates` creates it.

    Attributes:
        tests: Gate and system of each test, in the order of the gates, then of their systems. The
            system is None for a gate on a judge, or if the config does not name the systems.
        overrides: Keys that the run changes in the file: its gates or their baselines.
        baselines: Baseline files that the run writes instead of reading them.
        idle: Message on options without an effect, or on a file without gates; empty if none.
    """

    tests: Sequence[tuple[Gate, str | None]]
    overrides: Mapping[str, Any]
    baselines: Sequence[Path] = ()
    idle: str = ""


def collect_gates(path: Path, baseline: str | None, *, update: bool) -> CollectedGates:
    """Read and check the gates of a YAML file.

    An option without an effect is no error: `idle` tells it.

    Args:
        path: YAML file of the experiment.
        baseline: Baseline file in the place of all that gates name; None keeps these.
        update: Write the baseline files; gates against them are no tests then.

    Raises:
        ConfigError: The file is wrong; all its problems at once.
        DataError: The config has several data sets.
    """
    gates = written_gates(path)
    baseline_of = _baseline_files(gates)
    overrides: dict[str, Any] = {}
    files = list[Path]()
    if update and baseline_of:
        paths = [path.parent / file for file in baseline_of.values()]
        # several gates may name one file
        files = list(dict.fromkeys(paths if baseline is None else [Path(baseline).absolute()]))
        tested = []
        for index, node in enumerate(gates):
            if index not in baseline_of:
                tested.append(node.plain())
        overrides = {"gates": tested}
    elif not update and baseline is not None:
        # absolute: paths in a config start at its file, this one at the working directory
        baseline_path = str(Path(baseline).absolute())
        overrides = {f"gates.{index}.against": baseline_path for index in baseline_of}
    config = load_config(path, overrides=overrides)
    check_single(config)
    needs_baseline = update or baseline is not None
    idle = ""
    if not config.gates and not files:
        idle = f"{path.name} has no gates, so that there is nothing to test"
    elif needs_baseline and not baseline_of:
        idle = f"no gate of {path.name} is against a baseline file"
    tests: list[tuple[Gate, str | None]] = []
    for gate in config.gates:
        for system in _systems_of(gate, config):
            tests.append((gate, system))
    return CollectedGates(tests, overrides, files, idle)


def _baseline_files(gates: Sequence[Node]) -> dict[int, str]:
    """Return position of a gate -> the baseline file that it names."""
    files = {}
    for index, gate in enumerate(gates):
        against = gate.text("against") or ""
        # else it is a system
        if against.endswith(".json"):
            files[index] = against
    return files


def _systems_of(gate: Gate, config: ExperimentConfig) -> Sequence[str | None]:
    """Return the systems that a gate applies to; [None] if the config does not tell them."""
    open_members = set[str]()
    for sweep in config.sweeps.values():
        if sweep.is_open:
            open_members.update(sweep.members)
    candidates = gate.systems or config.retrievers
    if any(name.partition("/")[0] in open_members for name in candidates):
        return [None]
    if gate.systems:
        return gate.systems
    if not isinstance(gate, SystemGate) or brings_systems(config.dataset.type):
        return [None]
    unscored = unscored_combinations(config.retrievers)
    retrievers = []
    for name in config.retrievers:
        if name not in unscored:
            retrievers.append(name)
    apps = list(config.apps)
    pairs = pairs_of(retrievers, config.generators)
    names = replace(gate_scores(config.metrics), retrievers=retrievers, pairs=pairs, apps=apps)
    systems = {name: SystemScores(name, None, None, role="app") for name in apps}
    for name in [*retrievers, *pairs]:
        retriever, _, generator = name.partition("/")
        systems[name] = SystemScores(name, retriever, generator or None)
    having = names.systems_with(None if gate.score is None else names.find(gate.score))
    systems = select_in_order(systems, having)
    baseline = config.statistics.baseline or next(iter([*retrievers, *apps]), None)
    scored = ScoredSystems("the config", systems, (), baseline)
    return gate.default_systems(systems, GatedRun(scored=scored, method=Method(), n_queries=0))


def outcome_of(
    experiment: Experiment, gate: Gate, system: str | None, *, strict: bool
) -> tuple[Verdict, str, list[tuple[str, object]]]:
    """Return (verdict on a gate for a system, message, facts of each system).

    Without a system it is the worst verdict of all, and the message has the systems with it. A
    failure has the worst questions. `fail` is worse than `undecided`, `undecided` than `pass`. A
    refused comparison fails, and an undecided one if `strict`. The facts are properties of the test
    for reports, as `("bm25", "pass: ...")`, with `judge` for a gate without a system. A system
    without a decision is undecided, also if `strict`. The message of a pass is empty. Raises
    DataError if a file of the run, or of a baseline, cannot be read.
    """
    decisions, facts = list[Decision](), list[tuple[str, object]]()
    for decision in experiment.record.gates:
        is_of_gate = (decision.gate, decision.line) == (gate.text, gate.place.line)
        if is_of_gate and (system is None or decision.system in (None, system)):
            decisions.append(decision)
            facts.append((decision.system or "judge", f"{decision.verdict}: {decision.why}"))
    if not decisions:
        return "undecided", f"{system or 'the gate'} is undecided: this run has no decision", facts
    if all(decision.verdict == "pass" for decision in decisions):
        return "pass", "", facts
    run = gating.gated_run(gating.scored_without_controls(experiment.path), [gate], None)
    decided = [(gate, decision) for decision in decisions]
    failed, undecided = _explained(decided, run, strict, has_title=True)
    return "fail" if failed else "undecided", "\n".join(failed or undecided), facts


def decide_assertion(
    run: Source, gates: Sequence[gating.GateLike], baseline: Source | None, *, strict: bool
) -> tuple[list[str], list[str]]:
    """Return messages on (failed, undecided) gates of an assertion; strict: all of them as failed.

    Unless strict, undecided gates whose estimate is not worse have no message.

    Raises:
        DataError: A comparison is refused, or no gate can be compared.
        RagbenchError: As `check_gates`.
    """
    gated, decided = gating.decide_source(run, gates, baseline)
    wrong = []
    for _, decision in decided:
        if decision.refused or decision.facts.n is None:
            wrong.append(decision)
    if any(decision.refused for decision in wrong) or (wrong and len(wrong) == len(decided)):
        raise DataError("; ".join(dict.fromkeys(decision.why for decision in wrong)))
    selected = []
    for pair in decided:
        if strict or pair[1].level != "notice":
            selected.append(pair)
    return _explained(selected, gated, strict, has_title=False)


def _explained(
    decided: Sequence[tuple[Gate, Decision]], run: GatedRun, strict: bool, *, has_title: bool
) -> tuple[list[str], list[str]]:
    """Return a message for each (failed, undecided) decision; passed ones have none."""
    failed, undecided = list[str](), list[str]()
    for gate, decision in decided:
        if decision.verdict == "pass":
            continue
        fails = decision.verdict == "fail" or decision.refused or strict
        lines = gating.explain_decision(gate, decision, run, has_title=has_title)
        # pytest prints a message as it is
        text = visible("\n".join(lines if fails else lines[:1]))
        (failed if fails else undecided).append(text)
    return failed, undecided


def keep_baseline(run: Source, path: str) -> None:
    """Write the scores of a run as a baseline file.

    For the folder of an experiment its newest run counts. An existing file is replaced.

    Raises:
        DataError: The source is no experiment and no run folder, or a file cannot be read or
            written.
    """
    folder = run.path if isinstance(run, HasRunFolder) else run
    if not isinstance(folder, (str, Path)):
        problem = f"a baseline of {type(run).__name__}"
        raise DataError(problem, file=path, allowed="an experiment, or a run folder")
    write_baseline(path, read_run_scores(folder))
