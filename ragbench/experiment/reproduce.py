"""A run made once more from what its folder holds, and what differs."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ragbench.config.load import load_config
from ragbench.config.schema import ExperimentConfig
from ragbench.data.runs.run_folder import (
    read_manifest,
    read_per_query,
    read_summary,
    resolve_run_folder,
)
from ragbench.errors import ConfigError, DataError
from ragbench.experiment.plan.records import Choices
from ragbench.experiment.progress import Progress
from ragbench.experiment.result import Experiment
from ragbench.experiment.runner import run_experiment
from ragbench.records.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A run, the same once more, and what differs."""

    original: Path
    again: Experiment
    surroundings: list[str] = field(default_factory=list)
    """What differs around it: versions, machine, data; a phrase each."""
    numbers: list[str] = field(default_factory=list)
    """What differs in its results; empty where it was reproduced."""


def reproduce(run: Path, progress: Progress | None = None) -> Reproduction:
    """Run again what a run folder holds, without anything that stages have stored.

    Replies of models are read from the store, so that nothing is paid twice. A run with live
    objects is refused: no file holds them.
    """
    # resolved now: `latest` will point at the new run
    folder = resolve_run_folder(run).resolve()
    manifest = read_manifest(folder)
    if live := manifest.live:
        raise DataError(
            f"the run had live objects: {', '.join(live)}",
            file=folder,
            allowed="a run whose components are all in its config",
        )
    config = _load_config(folder)
    kept = dict(manifest.choices)
    choices = Choices(**{**kept, "only": tuple(kept.get("only", ())), "retry_failed": False})
    with tempfile.TemporaryDirectory(prefix="ragbench-") as stages:
        again = run_experiment(
            config, choices=choices, progress=progress, stage_folder=Path(stages)
        )
    new = read_manifest(again.path)
    numbers = _numbers(folder, again.path, manifest, new)
    return Reproduction(folder, again, [*_surroundings(manifest, new)], [*numbers])


def _load_config(folder: Path) -> ExperimentConfig:
    """The config of a run folder, whose paths start from where the folder was written."""
    file = folder / "config.yaml"
    try:
        return load_config(file)
    except ConfigError:
        # a folder that was moved by itself, as CI keeps it: where this working directory writes
        output = yaml.safe_load(file.read_text(encoding="utf-8")).get("output", "")
        summary = read_summary(folder)
        home = Path(str(output)) / summary.name / summary.run_id
        with contextlib.suppress(ConfigError):
            return load_config(file, base_dir=home)
        raise


def _surroundings(old: Manifest, new: Manifest) -> Iterator[str]:
    own = [{"ragbench": m.ragbench, "python": m.python, "platform": m.platform} for m in (old, new)]
    for was, now in (own, (old.packages, new.packages), (old.data, new.data)):
        for name in dict.fromkeys([*was, *now]):
            if was.get(name) != now.get(name):
                yield f"{name} was {was.get(name)}, is {now.get(name)}"


def _numbers(old: Path, new: Path, was: Manifest, now: Manifest) -> Iterator[str]:
    for name in dict.fromkeys([*was.signatures, *now.signatures]):
        before, after = was.signatures.get(name), now.signatures.get(name)
        if before != after:
            yield f"signature of {name} was {before}, is {after}"
    yield from _scores(read_per_query(old / "per_query.csv"), read_per_query(new / "per_query.csv"))
    for pattern in ("rankings/*", "passages/*"):
        for path in sorted(old.glob(pattern)):
            again = new / path.relative_to(old)
            if not again.is_file() or again.read_bytes() != path.read_bytes():
                yield f"{path.relative_to(old)} differs"


def _scores(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for system in dict.fromkeys([*old, *new]):
        if system not in old or system not in new:
            yield f"{system} is only in the {'old' if system in old else 'new'} run"
            continue
        before, after = old[system], new[system]
        for name in dict.fromkeys(name for row in before.values() for name in row):
            pairs = [(row[name], after.get(query, {}).get(name)) for query, row in before.items()]
            changed = [(a, b) for a, b in pairs if a != b]
            if not changed:
                continue
            apart = [abs(a - b) for a, b in changed if a is not None and b is not None]
            most = f", by up to {max(apart):.3g}" if apart else ""
            yield f"{name} of {system} differs on {len(changed)} of {len(pairs)} queries{most}"
