"""Experiments that several processes of one test session need: each is run once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragbench.experiment.result import Experiment, load_experiment
from ragbench.experiment.runner import run_experiment
from ragbench.files import locked, write_atomically
from ragbench.signature import fingerprint_json


class SharedRuns:
    """Runs each experiment once, however many workers ask for it."""

    def __init__(self, folder: Path | None) -> None:
        """Begin a session.

        Args:
            folder: Where the workers tell each other what has been run; None for one process.
        """
        self._folder = folder
        self._done: dict[str, Experiment] = {}

    def run(self, config: str | Path, overrides: Mapping[str, Any] | None = None) -> Experiment:
        """Return the experiment of a YAML file, run now unless the session has run it.

        Raises:
            RagbenchError: What `run_experiment` raises.
        """
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
