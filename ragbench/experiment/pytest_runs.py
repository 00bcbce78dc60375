"""Gates of YAML files as tests of pytest: runs, each once per session, and outcomes of gates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragbench.comparison.sources import HasRunFolder, Source
from ragbench.config.gates import written_gates
from ragbench.config.load import load_config
from ragbench.data.runs.run_scores import read_run_scores, write_baseline
from ragbench.errors import DataError
from ragbench.experiment.result import Experiment, load_experiment
from ragbench.experiment.runner import run_experiment
from ragbench.files import locked, write_atomically
from ragbench.report.ci import worst_lines
from ragbench.signature import fingerprint_json


class SharedRuns:
    """Runs of a test session: each experiment is run once, also with several workers.

    Workers share runs through files in a folder; None is a session with one process. A folder of
    files is shared by all workers of one session; errors of a run are raised by `run`, and not
    stored.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._done: dict[str, Experiment] = {}

    def run(self, config: str | Path, overrides: Mapping[str, Any] | None = None) -> Experiment:
        """Return the experiment of a YAML file; the first call for it runs it.

        `overrides` are dotted keys and values; other overrides are another run. Raises as
        `run_experiment` does.
        """
        path = Path(config).resolve()
        key = fingerprint_json([str(path), dict(overrides or {})])
        if key not in self._done:
            self._done[key] = self._run_or_wait(key, path, overrides)
        return self._done[key]

    def _run_or_wait(self, key: str, path: Path, overrides: Mapping[str, Any] | None) -> Experiment:
        """Run an experiment, or read the run of another worker; `key` names the run.

        Waits without a time limit for another worker. Raises as `run_experiment` and
        `load_experiment` do.
        """
        if self._folder is None:
            return run_experiment(path, overrides)
        # the file holds the run folder; the other workers wait for the lock, then read it
        path_file = self._folder / key
        with locked(self._folder / f"{key}.lock"):
            if path_file.exists():
                return load_experiment(path_file.read_text(encoding="utf-8"))
            experiment = run_experiment(path, overrides)
            write_atomically(path_file, str(experiment.path.resolve()))
        return experiment


@dataclass(frozen=True, slots=True)
class CollectedGates:
    """Gates of one YAML file as tests, with the options of their run.

    Attributes:
        gates: Text and line of each gate.
        overrides: Keys that the run changes in the file: its gates or their baselines.
        baselines: Baseline files that the run writes instead of reading them -> True with costs.
        idle: Message on options without an effect, or on a file without gates; empty if none.
    """

    gates: Sequence[tuple[str, int | None]]
    overrides: Mapping[str, Any]
    baselines: Mapping[Path, bool] = field(default_factory=dict)
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
    """
    gates = written_gates(path)
    # position of a gate -> the baseline file that it names; `against` may also be a system
    against = {index: gate.text("against") or "" for index, gate in enumerate(gates)}
    baseline_of = {index: file for index, file in against.items() if file.endswith(".json")}
    overrides: dict[str, Any] = {}
    files: dict[Path, bool] = {}
    if update and baseline_of:
        for index, file in baseline_of.items():
            target = path.parent / file if baseline is None else Path(baseline).absolute()
            costs = gates[index].get("max_increase") is not None
            files[target] = costs or files.get(target, False)
        tested = [gate for index, gate in enumerate(gates) if index not in baseline_of]
        overrides = {"gates": [gate.plain() for gate in tested]}
    elif not update and baseline is not None:
        # absolute: paths in a config start at its file, this one at the working directory
        baseline_path = str(Path(baseline).absolute())
        overrides = {f"gates.{index}.against": baseline_path for index in baseline_of}
    config = load_config(path, overrides=overrides)
    idle = ""
    if not config.gates and not files:
        idle = f"{path.name} has no gates, so that there is nothing to test"
    elif not baseline_of and (update or baseline is not None):
        idle = f"no gate of {path.name} is against a baseline file"
    tests = [(gate.text, gate.place.line) for gate in config.gates]
    return CollectedGates(tests, overrides, files, idle)


def outcome_of(
    experiment: Experiment, gate: tuple[str, int | None]
) -> tuple[str, str, list[tuple[str, object]]]:
    """Return (worst verdict on a gate over its systems, message, facts of each system).

    The message has the systems with this verdict, the facts are properties of the test for reports.
    `fail` is worse than `undecided`, `undecided` than `pass`; a refused comparison fails. `gate` is
    its text and line; a gate without decisions passes.
    """
    texts, verdicts = list[str](), list[str]()
    facts: list[tuple[str, object]] = []
    for decision in experiment.record.gates:
        if (decision.gate, decision.line) != gate:
            continue
        system = f"{decision.system}: " if decision.system else ""
        # a comparison that was not possible must not look like a passed test
        verdicts.append("fail" if decision.refused else decision.verdict)
        lines = worst_lines(decision.worst_queries)
        texts.append("\n".join([f"{system}{verdicts[-1]}: {decision.why}", *lines]))
        facts.append((decision.system or "judge", f"{decision.verdict}: {decision.why}"))
    for worst in ("fail", "undecided"):
        if worst in verdicts:
            of_worst = [text for text, v in zip(texts, verdicts, strict=True) if v == worst]
            return worst, "\n".join([gate[0], *of_worst]), facts
    return "pass", "\n".join(texts), facts


def keep_baseline(run: Source, path: str, *, costs: bool = False) -> None:
    """Write the scores of a run as a baseline file, with its costs if `costs` is set.

    For the folder of an experiment its newest run counts. An existing file is replaced.

    Raises:
        DataError: The source is no experiment and no run folder, or a file cannot be read or
            written.
    """
    folder = run.path if isinstance(run, HasRunFolder) else run
    if not isinstance(folder, (str, Path)):
        problem = f"a baseline of {type(run).__name__}"
        raise DataError(problem, file=path, allowed="an experiment, or a run folder")
    write_baseline(path, read_run_scores(folder), costs=costs)
