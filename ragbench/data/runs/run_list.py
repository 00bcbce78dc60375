"""List the runs of a folder, oldest first, with their best system and what changed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ragbench.data.runs.run_folder import LATEST, read_manifest, read_summary
from ragbench.errors import DataError
from ragbench.files import names_in
from ragbench.json_yaml import load_yaml
from ragbench.records.manifest import Manifest
from ragbench.records.score import SystemScore
from ragbench.records.summary import Summary
from ragbench.registry import check_allowed, nearest

CONFIG_FILE = "config.yaml"
_FILES = ("summary.json", "manifest.json", CONFIG_FILE)
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# Keys that move no number.
_UNNAMED = ("output", "name", "cache")


@dataclass(frozen=True, slots=True)
class RunEntry:
    """One run folder of a list.

    Attributes:
        name: The experiment.
        started: When, in UTC.
        system: The best one by the first score.
        score: The score that was asked for, or the first one of the first system.
        scores: What each system has by it, in the order of the tables; without controls.
        value: What the best system has.
        commit: The commit of the config's repository; None where there is none.
        changed: What differs from the run before of the same name; empty for the first one.
        problem: Why the folder cannot be read; the other fields are then empty.
    """

    path: Path
    name: str = ""
    started: str = ""
    queries: int | None = None
    complete: bool = True
    system: str | None = None
    score: str | None = None
    scores: Mapping[str, SystemScore] = field(default_factory=dict)
    value: SystemScore | None = None
    commit: str | None = None
    changed: tuple[str, ...] = ()
    is_first: bool = False
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a run was made of.

    Attributes:
        config: The keys of the resolved config, dotted, with their values as text.
    """

    manifest: Manifest
    config: Mapping[str, str]


def list_runs(folder: str | Path, score: str | None = None) -> list[RunEntry]:
    """Return the runs of an experiment's folder, or of a folder of experiments, oldest first.

    A folder that is no whole run has a `problem`, and stands at the end. Costs the reading of
    three small files for each run. With `score`, that one says which system is best.

    Raises:
        DataError: The folder is not there, or has no run.
        OptionError: No run has the score.
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
            summary, facts = read_summary(path), read_facts(path)
        except DataError as error:
            unreadable.append(RunEntry(path, problem=str(error).replace(f"{path}/", "")))
            continue
        names.update((name, None) for system in summary.systems for name in system.scores)
        readable.append((_entry(path, summary, facts, score), facts))
    if not readable and not unreadable:
        allowed = "the folder of an experiment, or of several: what ragbench run writes"
        raise DataError("no run in it", file=root, allowed=allowed)
    if score is not None and names:
        check_allowed("runs", "score", [score], names)
    # runs of one second in the order in which they were written
    readable.sort(key=lambda r: (r[0].started, (r[0].path / _FILES[0]).stat().st_mtime_ns))
    entries: list[RunEntry] = []
    last_facts: dict[str, RunFacts] = {}  # by the name of the experiment
    for entry, facts in readable:
        previous = last_facts.get(entry.name)
        changed = () if previous is None else changes(previous, facts)
        entries.append(replace(entry, changed=changed, is_first=previous is None))
        last_facts[entry.name] = facts
    return entries + unreadable


def _run_folders(root: Path) -> Iterator[Path]:
    """Folders that are runs, or look as if they had been going to be."""
    for folder in (root, *_folders_in(root)):
        if _looks_like_run(folder):
            yield folder
            continue
        if folder is not root:
            yield from (inner for inner in _folders_in(folder) if _looks_like_run(inner))


def _folders_in(folder: Path) -> list[Path]:
    try:
        found = sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=folder) from error
    return [p for p in found if p.name != LATEST and not p.name.startswith(".")]


def _looks_like_run(folder: Path) -> bool:
    return any((folder / name).exists() for name in _FILES)


def read_facts(folder: Path) -> RunFacts:
    """Read what a run was made of from its folder.

    Raises:
        DataError: It lacks its manifest or its config, or they cannot be read.
    """
    flat = dict(_flatten(read_config(folder), ""))
    config = {key: value for key, value in flat.items() if key not in _UNNAMED}
    return RunFacts(read_manifest(folder), config)


def _entry(path: Path, summary: Summary, facts: RunFacts, score: str | None) -> RunEntry:
    first = score or next((name for system in summary.systems for name in system.scores), None)
    scored = {
        system.name: system.scores[first]
        for system in summary.systems
        if first is not None and first in system.scores and system.role != "control"
    }
    known = [(name, score) for name, score in scored.items() if score.mean is not None]
    best = max(known, key=_goodness, default=(None, None))
    return RunEntry(
        path=path,
        name=summary.name,
        started=facts.manifest.started,
        queries=facts.manifest.queries,
        complete=summary.complete,
        system=best[0],
        score=first,
        scores=scored,
        value=best[1],
        commit=facts.manifest.commit,
    )


def _goodness(scored: tuple[str, SystemScore]) -> float:
    mean = scored[1].mean or 0.0
    return mean if scored[1].direction == "higher" else -mean


def read_config(folder: Path) -> dict[str, object]:
    """Read the resolved config of a run folder.

    Raises:
        DataError: It is missing, or is no mapping in YAML.
    """
    path = folder / CONFIG_FILE
    try:
        config = load_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=path) from error
    except ValueError as error:
        raise DataError(f"not YAML: {error}", file=path) from error
    if not isinstance(config, dict):
        raise DataError("not a config", file=path, allowed="what ragbench run writes")
    return config


def _flatten(value: object, key: str) -> Iterator[tuple[str, str]]:
    """Yield the dotted key and the text of each value of a config."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _flatten(inner, f"{key}.{name}" if key else str(name))
    else:
        yield key, str(value)


def changes(before: RunFacts, after: RunFacts) -> tuple[str, ...]:
    """What differs, in the order of the new config; of a new or lost block its name alone.

    Example:
        >>> old = {"seed": "1", "retrievers.a.k1": "0.9", "retrievers.b.k1": "1.2"}
        >>> new = {"seed": "2", "retrievers.b.k1": "1.2"}
        >>> first = RunFacts(Manifest(data={"qrels": "x"}), old)
        >>> changes(first, RunFacts(Manifest(data={"qrels": "y"}), new))
        ('seed: 1 -> 2', 'without retrievers.a', 'other qrels')
    """
    old, new = before.config, after.config
    old_data, new_data = before.manifest.data, after.manifest.data
    found = [f"{k}: {old[k]} -> {v}" for k, v in new.items() if k in old and old[k] != v]
    found += [f"with {block}" for block in _blocks(new, old)]
    found += [f"without {block}" for block in _blocks(old, new)]
    parts = dict.fromkeys([*old_data, *new_data])
    found += [f"other {part}" for part in parts if old_data.get(part) != new_data.get(part)]
    return tuple(found)


def _blocks(having: Mapping[str, str], lacking: Mapping[str, str]) -> list[str]:
    """The shortest keys that only one config has."""
    known = {prefix for key in lacking for prefix in _prefixes(key)}
    found = (
        next(p for p in _prefixes(key) if p not in known) for key in having if key not in known
    )
    return list(dict.fromkeys(found))


def _prefixes(key: str) -> list[str]:
    parts = key.split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts) + 1)]


def read_commit(folder: Path) -> str | None:
    """Return the commit that is checked out around a folder; None where there is none.

    Read from the files of Git, which need not be installed: changes that are not committed do not
    show.
    """
    for place in (folder.absolute(), *folder.absolute().parents):
        try:
            return _commit_in(place / ".git")
        except OSError:  # no repository here, or one that cannot be read
            continue
    return None


def _commit_in(git: Path) -> str | None:
    if git.is_file():  # a further working tree names the place of its own files
        git = git.parent / git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
    head = (git / "HEAD").read_text(encoding="utf-8").strip()
    if not head.startswith("ref:"):
        return head if _COMMIT.fullmatch(head) else None
    name = head.removeprefix("ref:").strip()
    shared = git / "commondir"
    common = git / shared.read_text(encoding="utf-8").strip() if shared.is_file() else git
    for home in (git, common):
        if (home / name).is_file():
            found = (home / name).read_text(encoding="utf-8").strip()
            return found if _COMMIT.fullmatch(found) else None
    packed = common / "packed-refs"
    lines = packed.read_text(encoding="utf-8").splitlines() if packed.is_file() else []
    return next((line.split()[0] for line in lines if line.endswith(f" {name}")), None)
