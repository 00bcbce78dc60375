"""Runs over time: those of a folder, and histories, `ragbench.history/1`, a line for each run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ragbench.data.files.rows import parse_json
from ragbench.data.runs.baseline import baseline_of, check_scored, stored_scores
from ragbench.data.runs.run_folder import LATEST, read_manifest, read_summary, to_json_line
from ragbench.data.runs.run_scores import StoredScores
from ragbench.errors import DataError, OptionError
from ragbench.files import locked_beside, names_in, write_file
from ragbench.json_yaml import load_yaml
from ragbench.records.codec import from_file, to_json
from ragbench.records.manifest import Manifest
from ragbench.records.score import HISTORY_SCHEMA, HistoryLine, SystemScore
from ragbench.records.summary import Summary
from ragbench.registry import nearest

CONFIG_FILE = "config.yaml"
_FILES = ("summary.json", "manifest.json", CONFIG_FILE)
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_UNNAMED = ("output", "name", "cache")
"""Keys that move no number."""

SUFFIX = ".jsonl"
"""How the name of a history ends; that of a baseline file does not."""
_NEW_RECORD = "a new record: ragbench baseline RUN -o FILE"
_CONFLICT = ("<<<<<<<", "=======", ">>>>>>>")


@dataclass(frozen=True, slots=True)
class RunEntry:
    """One run folder of a list."""

    path: Path
    name: str = ""
    """The experiment."""
    started: str = ""
    """When, in UTC."""
    queries: int | None = None
    complete: bool = True
    system: str | None = None
    """The best one by the first score."""
    score: str | None = None
    """The score that was asked for, or the first one of the first system."""
    scores: Mapping[str, SystemScore] = field(default_factory=dict)
    """What each system has by it, in the order of the tables; without controls."""
    value: SystemScore | None = None
    """What the best system has."""
    commit: str | None = None
    """The commit of the config's repository; None where there is none."""
    changed: tuple[str, ...] = ()
    """What differs from the run before of the same name; empty for the first one."""
    is_first: bool = False
    problem: str | None = None
    """Why the folder cannot be read; the other fields are then empty."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a run was made of."""

    manifest: Manifest
    config: Mapping[str, str]
    """The keys of the resolved config, dotted, with their values as text."""


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
    read = [_read(path, score, names) for path in sorted(_run_folders(root))]
    if not read:
        allowed = "the folder of an experiment, or of several: what ragbench run writes"
        raise DataError("no run in it", file=root, allowed=allowed)
    if score is not None and names and score not in names:
        near = nearest(score, names)
        raise OptionError("runs", "score", score, ", ".join(names), near)
    good = [entry for entry in read if not isinstance(entry, RunEntry)]
    # runs of one second in the order in which they were written
    good.sort(key=lambda r: (r[0].started, (r[0].path / _FILES[0]).stat().st_mtime_ns))
    entries: list[RunEntry] = []
    before: dict[str, RunFacts] = {}
    for entry, facts in good:
        last = before.get(entry.name)
        changed = () if last is None else changes(last, facts)
        entries.append(replace(entry, changed=changed, is_first=last is None))
        before[entry.name] = facts
    return entries + [entry for entry in read if isinstance(entry, RunEntry)]


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


def _read(
    path: Path, score: str | None, names: dict[str, None]
) -> RunEntry | tuple[RunEntry, RunFacts]:
    try:
        summary, facts = read_summary(path), read_facts(path)
    except DataError as error:
        return RunEntry(path, problem=str(error).replace(f"{path}/", ""))
    names.update((name, None) for system in summary.systems for name in system.scores)
    return _entry(path, summary, facts, score), facts


def read_facts(folder: Path) -> RunFacts:
    """Read what a run was made of from its folder.

    Raises:
        DataError: It lacks its manifest or its config, or they cannot be read.
    """
    return RunFacts(read_manifest(folder), _flat_config(folder / CONFIG_FILE))


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


def _flat_config(path: Path) -> dict[str, str]:
    """A resolved config as dotted key -> value, each as text."""
    try:
        found = load_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=path) from error
    except ValueError as error:
        raise DataError(f"not YAML: {error}", file=path) from error
    if not isinstance(found, dict):
        raise DataError("not a config", file=path, allowed="what ragbench run writes")
    flat = dict(_flat(found, ""))
    return {key: value for key, value in flat.items() if key not in _UNNAMED}


def _flat(value: object, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _flat(inner, f"{key}.{name}" if key else str(name))
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


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One line of a history, read."""

    line: int
    run_id: str
    scores: StoredScores


def is_history(path: str | Path) -> bool:
    """Tell by its name whether a file is a history; it need not be there yet."""
    return Path(path).suffix == SUFFIX


def start_history(path: str | Path, scores: StoredScores) -> None:
    """Write a history of one line, the record of all later ones; an existing file is replaced."""
    write_file(Path(path), _line(path, scores))


def append_to_history(path: str | Path, scores: StoredScores) -> int | None:
    """Add a run as the last line, or as the record where the file is new.

    Returns:
        The number of the new line; None where the run is in the history already.

    Raises:
        DataError: The file is no history, or the run is of other data or queries than its record.
    """
    path = Path(path)
    if not is_history(path):
        raise DataError("not the name of a history", file=path, allowed=f"a name with {SUFFIX}")
    added = _line(path, scores)
    try:
        with locked_beside(path):
            entries = read_history(path) if path.exists() and path.stat().st_size else []
            new = _read_line(path, entries[-1].line + 1 if entries else 1, added)
            if any(entry.run_id == new.run_id for entry in entries):
                return None
            if entries and (why := _why_other(entries[0], new)):
                found = f"the record is of {why} than this run"
                raise DataError(found, file=path, line=entries[0].line, allowed=_NEW_RECORD)
            before = path.read_bytes() if entries else b""
            write_file(path, before + added.encode())
            return new.line
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", file=path) from error


def read_history(path: str | Path) -> list[HistoryEntry]:
    """Read a history strictly: every line whole, and of the data and queries of the first one."""
    try:
        text = Path(path).read_bytes().decode("utf-8")
    except FileNotFoundError as error:
        raise DataError("no such file", file=path) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=path) from error
    except UnicodeDecodeError as error:
        raise DataError("not UTF-8", file=path, allowed="a file of ragbench baseline") from error
    entries: list[HistoryEntry] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        if number == text.count("\n") + 1:  # no line end behind it
            found, allowed = "the line is cut off: it has no end", "whole lines: delete this one"
            raise DataError(found, file=path, line=number, allowed=allowed)
        entries.append(_read_line(path, number, line))
        if why := _why_other(entries[0], entries[-1]):
            found = f"it is of {why} than line {entries[0].line}, the record"
            allowed = "runs of the same data: delete this line"
            raise DataError(found, file=path, line=number, allowed=allowed)
        if entries[-1].run_id in {entry.run_id for entry in entries[:-1]}:
            found = f"run {entries[-1].run_id} is in an earlier line"
            raise DataError(found, file=path, line=number, allowed="each run once")
    if not entries:
        raise DataError("the history has no lines", file=path, allowed=_NEW_RECORD)
    return entries


def _line(path: str | Path, scores: StoredScores) -> str:
    check_scored(path, scores)
    if scores.summary is None or not scores.summary.run_id:
        raise DataError("the run has no id", file=path, allowed="the folder of a run")
    head = {"schema": HISTORY_SCHEMA, "run_id": scores.summary.run_id}
    return to_json_line({**head, **to_json(baseline_of(scores)), **head}) + "\n"


def _read_line(path: str | Path, number: int, line: str) -> HistoryEntry:
    if line.startswith(_CONFLICT):
        allowed = "the lines of both sides without the marks"
        raise DataError("conflict of a merge", file=path, line=number, allowed=allowed)
    try:
        value = parse_json(line)
    except ValueError as error:
        raise DataError(str(error), file=path, line=number) from error
    record = from_file(HistoryLine, value, file=path, line=number)
    return HistoryEntry(number, record.run_id, stored_scores(record, path, number))


def _why_other(record: HistoryEntry, other: HistoryEntry) -> str | None:
    """Say what keeps two runs from being one history; None where nothing does."""
    data, theirs = record.scores.data, other.scores.data
    parts = [part for part in data if part in theirs and data[part] != theirs[part]]
    if parts:
        return f"other {_listed(parts)} (fingerprints)"
    if list(record.scores.query_ids) != list(other.scores.query_ids):
        counts = len(record.scores.query_ids), len(other.scores.query_ids)
        return f"other queries ({counts[0]}, not {counts[1]})" if counts[0] != counts[1] else (
            "queries with other ids"
        )  # fmt: skip
    return None


def _listed(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
