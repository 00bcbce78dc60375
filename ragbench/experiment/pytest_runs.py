"""What a pytest session makes of gates in YAML files, and the runs that it needs: each once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragbench.comparison.sources import HasRunFolder, Source
from ragbench.config.gates import written_gates
from ragbench.config.load import load_config
from ragbench.data.runs.baseline import write_baseline
from ragbench.data.runs.run_scores import read_run_scores
from ragbench.errors import DataError
from ragbench.experiment.result import Experiment, load_experiment
from ragbench.experiment.runner import run_experiment
from ragbench.files import locked, write_atomically
from ragbench.report.ci import worst_lines
from ragbench.signature import fingerprint_json


class SharedRuns:
    """Runs each experiment once, however many workers ask for it; they meet in `folder`."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._done: dict[str, Experiment] = {}

    def run(self, config: str | Path, overrides: Mapping[str, Any] | None = None) -> Experiment:
        """Return the experiment of a YAML file, run now unless the session has run it."""
        path = Path(config).resolve()
        key = fingerprint_json([str(path), dict(overrides or {})])
        if key not in self._done:
            self._done[key] = self._run_or_wait(key, path, overrides)
        return self._done[key]

    def _run_or_wait(self, key: str, path: Path, overrides: Mapping[str, Any] | None) -> Experiment:
        if self._folder is None:
            return run_experiment(path, overrides)
        found = self._folder / key
        with locked(self._folder / f"{key}.lock"):
            if found.exists():
                return load_experiment(found.read_text(encoding="utf-8"))
            experiment = run_experiment(path, overrides)
            write_atomically(found, str(experiment.path.resolve()))
        return experiment


@dataclass(frozen=True, slots=True)
class Collected:
    """What a test session makes of one YAML file.

    Attributes:
        gates: Text and line of each gate.
        overrides: What the run changes in the file: which baselines it is compared with.
        baselines: Files that the run has to write instead of being compared with them -> whether
            with costs.
        idle: What was asked for and comes to nothing, in words; empty where nothing is.
    """

    gates: Sequence[tuple[str, int | None]]
    overrides: Mapping[str, Any]
    baselines: Mapping[Path, bool] = field(default_factory=dict)
    idle: str = ""


def collect_gates(path: Path, baseline: str | None, *, update: bool) -> Collected:
    """Read and check a file; `baseline` takes the place of every baseline file that a gate names.

    With `update`, gates against baseline files are left out: these will be written.
    """
    gates = written_gates(path)
    # place of a gate -> the baseline file that it names
    against = {index: gate.text("against") or "" for index, gate in enumerate(gates)}
    written = {index: file for index, file in against.items() if file.endswith(".json")}
    overrides: dict[str, Any] = {}
    files: dict[Path, bool] = {}
    if update and written:
        for index, file in written.items():
            target = path.parent / file if baseline is None else Path(baseline).absolute()
            costs = gates[index].get("max_increase") is not None
            files[target] = costs or files.get(target, False)
        others = [gate for index, gate in enumerate(gates) if index not in written]
        overrides = {"gates": [gate.plain() for gate in others]}
    elif not update and baseline is not None:
        given = str(Path(baseline).absolute())
        overrides = {f"gates.{index}.against": given for index in written}
    config = load_config(path, overrides=overrides)
    idle = ""
    if not config.gates and not files:
        idle = f"{path.name} has no gates, so that there is nothing to test"
    elif not written and (update or baseline is not None):
        idle = f"no gate of {path.name} is against a baseline file"
    tests = [(gate.text, gate.place.line) for gate in config.gates]
    return Collected(tests, overrides, files, idle)


def outcome_of(
    experiment: Experiment, gate: tuple[str, int | None]
) -> tuple[str, str, list[tuple[str, object]]]:
    """Return the verdict on a gate over all its systems, its words, and its numbers.

    Fail goes before undecided, undecided before pass; a comparison that was refused fails.
    """
    words, verdicts = list[str](), list[str]()
    facts: list[tuple[str, object]] = []
    for each in experiment.record.gates:
        if (each.gate, each.line) != gate:
            continue
        system = f"{each.system}: " if each.system else ""
        verdicts.append("fail" if each.refused else each.verdict)
        lines = worst_lines(each.worst_queries)
        words.append("\n".join([f"{system}{verdicts[-1]}: {each.why}", *lines]))
        facts.append((each.system or "judge", f"{each.verdict}: {each.why}"))
    for verdict in ("fail", "undecided"):
        if verdict in verdicts:
            shown = [text for text, each in zip(words, verdicts, strict=True) if each == verdict]
            return verdict, "\n".join([gate[0], *shown]), facts
    return "pass", "\n".join(words), facts


def keep_baseline(now: Source, path: str, *, costs: bool = False) -> None:
    """Write a run as the baseline file that later runs are compared with, if asked with costs."""
    folder = now.path if isinstance(now, HasRunFolder) else now
    if not isinstance(folder, (str, Path)):
        found = f"a baseline of {type(now).__name__}"
        raise DataError(found, file=path, allowed="an experiment, or a run folder")
    write_baseline(path, read_run_scores(folder), costs=costs)
