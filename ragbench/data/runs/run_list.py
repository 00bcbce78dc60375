"""List of the runs in a folder, oldest first, with their best system and what changed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import structs

from ragbench.data.runs.run_folder import (
    LATEST,
    TOKEN_FILE,
    check_links,
    read_manifest,
    read_summary,
)
from ragbench.errors import DataError
from ragbench.files import names_in, subfolders_in
from ragbench.json_yaml import load_yaml
from ragbench.records.causes import RIGHT
from ragbench.records.comparison import leaders
from ragbench.records.manifest import Manifest
from ragbench.records.score import SystemScore
from ragbench.records.summary import Summary
from ragbench.registry import check_allowed, nearest
from ragbench.types.json_fields import Record

CONFIG_FILE = "config.yaml"
# a folder with any of these is a run: one that was damaged is listed with its problem
_FILES = ("summary.json", "manifest.json", CONFIG_FILE)
# begin differences of two runs in data and in files, as `changes` words them
DATA, FILE = "data ", "file "
# keys of a config that change no number
_UNSCORED_KEYS = ("output", "name", "cache")


class RunEntry(Record):
    """Run folder in a list of runs, as `list_runs` returns them.

    Attributes:
        name: Name of the experiment.
        started: Time of the start, in UTC, as ISO 8601 with whole seconds.
        queries: Number of queries; None if the manifest lacks it.
        complete: False if too many items failed.
        system: The best system by `score`; None without a value.
        score: Name of the score that the caller chose; by default `right`, or else the first score
            of the first system with scores; None without scores.
        scores: System -> its score, in the order of the tables; without controls.
        value: Score of the best system; None without a best system.
        commit: Commit of the repository of the config; None without a repository.
        changed: Differences to the previous run of the same name; empty for the first one.
        is_first: True for the first run of its name.
        problem: Reason why the folder cannot be read; all fields but `path` then have their
            defaults. None for a run that was read.
        path: Folder of the run.
    """

    path: Path
    name: str = ""
    started: str = ""
    queries: int | None = None
    complete: bool = True
    system: str | None = None
    score: str | None = None
    scores: Mapping[str, SystemScore] = {}
    value: SystemScore | None = None
    commit: str | None = None
    changed: tuple[str, ...] = ()
    is_first: bool = False
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Config and manifest of a run, by which runs are compared; `read_facts` reads them.

    Attributes:
        manifest: Fingerprints of the data, versions and times.
        config: Dotted keys of the resolved config -> value as text, without `output`, `name` and
            `cache`.
    """

    manifest: Manifest
    config: Mapping[str, str]


_UNFINISHED = "a run is at work, or ended early: the same `ragbench run` goes on with it"


def list_runs(folder: str | Path, score: str | None = None) -> list[RunEntry]:
    """Return the runs in the folder of an experiment, or in a folder of experiments, oldest first.

    A folder that is no whole run has a `problem` and raises nothing; these stand at the end, sorted
    by path. Three small files are read for each run. With `score`, the best system is the best by
    that score. Runs of one second are ordered by when they were written.

    Raises:
        DataError: The folder does not exist, cannot be read, or has no run.
        OptionError: The runs have scores, but none has this one.
    """
    root = Path(folder)
    if not os.path.isdir(root):
        near = nearest(root.name, names_in(root.parent))
        raise DataError("no such folder", file=root, allowed="a folder of runs", nearest=near)
    names: dict[str, None] = {}
    readable: list[tuple[RunEntry, RunFacts]] = []
    unreadable: list[RunEntry] = []
    for path in sorted(_run_folders(root)):
        try:
            check_links(path)
            summary, facts = read_summary(path), read_facts(path)
        except DataError as error:
            # the list names the folder already
            unreadable.append(RunEntry(path=path, problem=str(error).replace(f"{path}/", "")))
            continue
        names.update(dict.fromkeys(summary.score_names()))
        readable.append((_entry(path, summary, facts, score), facts))
    for path in (root, *_folders_in(root)):
        if (path / TOKEN_FILE).is_file():
            unreadable.append(RunEntry(path=path, problem=_UNFINISHED))
    if not readable and not unreadable:
        allowed = "the folder of an experiment, or of several: what ragbench run writes"
        raise DataError("no run in it", file=root, allowed=allowed)
    if score is not None and names:
        check_allowed("runs", "score", [score], names)
    # times have whole seconds: runs of one second are ordered by when they were written
    readable.sort(key=lambda r: (r[0].started, (r[0].path / _FILES[0]).stat().st_mtime_ns))
    entries: list[RunEntry] = []
    last_facts: dict[str, RunFacts] = {}  # by the name of the experiment
    for entry, facts in readable:
        previous = last_facts.get(entry.name)
        changed = () if previous is None else changes(previous, facts)
        entries.append(structs.replace(entry, changed=changed, is_first=previous is None))
        last_facts[entry.name] = facts
    return entries + unreadable


def previous_run(folder: Path) -> Path | None:
    """Return the newest run of the same experiment that is older than a run; None without one.

    A folder is a run if it has a summary, a manifest and a config; no file is read.
    """
    own_time = (folder / _FILES[0]).stat().st_mtime_ns
    runs = []
    for path in folder.parent.iterdir():
        is_run = not path.is_symlink() and all((path / name).is_file() for name in _FILES)
        if is_run and (time := (path / _FILES[0]).stat().st_mtime_ns) < own_time:
            runs.append((time, path))
    return max(runs)[1] if runs else None


def _run_folders(root: Path) -> Iterator[Path]:
    """Yield the folder itself, folders in it, and those one level below, with a file of a run."""
    for folder in (root, *_folders_in(root)):
        if _has_run_file(folder):
            yield folder
            continue
        if folder is not root:
            for inner in _folders_in(folder):
                if _has_run_file(inner):
                    yield inner


def _folders_in(folder: Path) -> list[Path]:
    """Return the visible folders in a folder, sorted, without `latest`."""
    try:
        folders = subfolders_in(folder)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=folder) from error
    visible_folders = []
    for path in folders:
        if path.name != LATEST and not path.name.startswith("."):
            visible_folders.append(path)
    return visible_folders


def _has_run_file(folder: Path) -> bool:
    """Return True if a folder has the summary, manifest or config of a run."""
    return any((folder / name).exists() for name in _FILES)


def read_facts(folder: Path) -> RunFacts:
    """Return config and manifest of a run folder.

    The keys `output`, `name` and `cache` are left out, as they change no number.

    Raises:
        DataError: One of them is missing or cannot be read, or has another form.
    """
    flat = dict(_flatten(read_config(folder), ""))
    config = {}
    for key, value in flat.items():
        if key not in _UNSCORED_KEYS:
            config[key] = value
    return RunFacts(read_manifest(folder), config)


def _entry(path: Path, summary: Summary, facts: RunFacts, score: str | None) -> RunEntry:
    """Return a run as an entry, without `changed`; the best system is the best by `score`."""
    # without `score`, `right` or else the first score of the first system that has one counts
    names = summary.score_names()
    first = score or next(iter(sorted(names, key=lambda name: name != RIGHT)), None)
    scored = {}
    for system in summary.systems:
        if first is not None and first in system.scores and system.role != "control":
            scored[system.name] = system.scores[first]
    means = {name: of_system.mean for name, of_system in scored.items()}
    directions = [of_system.direction for of_system in scored.values()]
    best = next(iter(leaders(means, (), directions[0]) if directions else ()), None)
    return RunEntry(
        path=path,
        name=summary.name,
        started=facts.manifest.started,
        queries=facts.manifest.queries,
        complete=summary.complete,
        system=best,
        score=first,
        scores=scored,
        value=None if best is None else scored[best],
        commit=facts.manifest.commit,
    )


def read_config(folder: Path, *, typed: bool = False) -> dict[str, Any]:
    """Return the resolved config of a run folder; scalars are texts unless `typed`.

    Raises:
        DataError: The file is missing, cannot be read, or is no mapping in YAML.
    """
    path = folder / CONFIG_FILE
    try:
        config = load_yaml(path.read_text(encoding="utf-8"), typed=typed)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=path) from error
    except ValueError as error:
        reason = " ".join(str(error).split())  # on one line
        raise DataError(f"not YAML: {reason}", file=path) from error
    if not isinstance(config, dict):
        raise DataError("not a config", file=path, allowed="what ragbench run writes")
    return config


def _flatten(value: object, key: str) -> Iterator[tuple[str, str]]:
    """Yield the dotted key and the text of each value of a config; `key` is the prefix."""
    # lists and empty mappings are one value
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _flatten(inner, f"{key}.{name}" if key else str(name))
    else:
        yield key, str(value)


def changes(previous: RunFacts, current: RunFacts) -> tuple[str, ...]:
    """Return the differences between two runs as short texts: values, blocks, then data and files.

    A block that only one config has is named without its keys; changed data are `data qrels`.
    Values are in the order of the new config. Equal runs give ().

    Example:
        >>> old = {"seed": "1", "retrievers.a.k1": "0.9", "retrievers.b.k1": "1.2"}
        >>> new = {"seed": "2", "retrievers.b.k1": "1.2"}
        >>> first = RunFacts(Manifest(data={"qrels": "x"}), old)
        >>> changes(first, RunFacts(Manifest(data={"qrels": "y"}), new))
        ('seed: 1 -> 2', 'without retrievers.a', 'data qrels')
    """
    old, new = previous.config, current.config
    old_data, new_data = previous.manifest.data, current.manifest.data
    texts = []
    for k, v in new.items():
        if k in old and old[k] != v:
            texts.append(f"{k}: {old[k]} -> {v}")
    for block in _blocks(new, old):
        texts.append(f"with {block}")
    for block in _blocks(old, new):
        texts.append(f"without {block}")
    parts = dict.fromkeys([*old_data, *new_data])
    for part in parts:
        if old_data.get(part) != new_data.get(part):
            texts.append(f"{DATA}{part}")
    data_files = set()
    if old_data != new_data:  # the fingerprints say what differs in the files of the data set
        data_files = {Path(v).name for k, v in new.items() if k.startswith("dataset")}
    new_files = current.manifest.files
    for name, digest in previous.manifest.files.items():
        if new_files.get(name, digest) != digest and Path(name).name not in data_files:
            texts.append(f"{FILE}{name}")
    return tuple(texts)


def _blocks(config: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Return the shortest prefixes of keys that the first config has and the other lacks."""
    shared = set()
    for key in other:
        shared.update(_prefixes(key))
    names: dict[str, None] = {}
    for key in config:
        if key not in shared:
            names[next(prefix for prefix in _prefixes(key) if prefix not in shared)] = None
    return list(names)


def _prefixes(key: str) -> list[str]:
    """Return all prefixes of a dotted key, the shortest first: `a`, `a.b`, `a.b.c`."""
    parts = key.split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts) + 1)]


def read_commit(folder: Path) -> str | None:
    """Return the commit that is checked out around a folder; None without Git or a commit.

    Uncommitted changes do not show.
    """
    # to start Git takes longer than to look for a repository
    places = (folder.resolve(), *folder.resolve().parents)
    if "GIT_DIR" not in os.environ and not any((place / ".git").exists() for place in places):
        return None
    # a checkout of another user, as in containers, is read too
    command = ["git", "-c", "safe.directory=*", "rev-parse", "--verify", "HEAD"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True)
    except OSError:
        return None
    return done.stdout.decode().strip() or None
