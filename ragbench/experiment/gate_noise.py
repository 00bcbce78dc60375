"""Noise of a gate: systems that use nothing that changed."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from msgspec import structs

from ragbench.config.components import varies
from ragbench.config.schema import ExperimentConfig
from ragbench.data.runs.run_list import CONFIG_FILE, read_config
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.experiment.reproduce import texts_of
from ragbench.records.gate import Decision
from ragbench.report.text import counted
from ragbench.types.display import printable

# Blocks of a config that change no ranking and no answer of a system; its own are compared apart
_OTHER_BLOCKS = frozenset(
    {
        *("name", "output", "cache", "cache_also", "gates", "statistics", "causes", "audit"),
        *("budget", "max_failed", "executor", "controls", "metrics"),
        *("retrievers", "generators", "apps"),
    }
)
# Type of a component whose code is on a server
_REMOTE = "http"
NOTHING_CHANGED = "nothing that this system uses changed"


class Unchanged(NamedTuple):
    """Systems that use nothing that changed between base and head.

    Attributes:
        systems: Their names.
        has_unseen: True if a run may use a changed file that no record of a run has.
    """

    systems: frozenset[str] = frozenset()
    has_unseen: bool = False


NONE_UNCHANGED = Unchanged()


def unchanged_systems(
    head: ScoredSystems, base: ScoredSystems, changed: Collection[str], used: Collection[str]
) -> frozenset[str]:
    """Return the systems of both runs that use no file of the difference.

    A system behind HTTP is never among them, and none is if a used file changed.

    Args:
        head: Scores of the head, a run folder.
        base: Scores of the base, a run folder.
        changed: Files of the difference, besides the config.
        used: Files that either run imported or opened.
    """
    # a submodule is named by its folder
    if not set(changed).isdisjoint(_with_folders(used)) or base.folder is None:
        return frozenset()
    folders = []
    for folder in (base.folder, head.folder):
        if folder is not None:
            folders.append(folder)
    if not all((folder / CONFIG_FILE).is_file() for folder in folders):
        return frozenset()
    old, new = read_config(base.folder), read_config(folders[-1])
    names = set()
    for name, system in head.systems.items():
        parts = _parts(new, name, system)
        is_remote = any(part.get("type") == _REMOTE for part in parts.values())
        if name in base.systems and not is_remote and parts == _parts(old, name, system):
            names.add(name)
    return frozenset(names)


def changes_code(old: Path, new: Path) -> bool:
    """Return True unless two files of Python differ in comments and layout alone."""
    if new.suffix != ".py" or not old.is_file() or not new.is_file():
        return True
    try:
        trees = [ast.dump(ast.parse(path.read_bytes())) for path in (old, new)]
    except (SyntaxError, ValueError):  # files that Python cannot read are compared as they are
        return True
    return trees[0] != trees[1]


def _with_folders(files: Collection[str]) -> Iterator[str]:
    """Yield the files, and all folders that they are in."""
    for file in files:
        yield file
        for folder in Path(file).parents:
            yield str(folder)


def _parts(config: Mapping[str, Any], name: str, system: SystemScores) -> dict[str, Any]:
    """Return the parts of a config that a system uses: shared blocks and its own components."""
    parts: dict[str, Any] = {}
    for block, value in config.items():
        if block not in _OTHER_BLOCKS:
            parts[block] = {"value": value}
    retrieval = dict((config.get("metrics") or {}).get("retrieval") or {})
    retrieval.pop("measures", None)
    parts["metrics.retrieval"] = retrieval
    retrievers = config.get("retrievers") or {}
    components = {
        **{f"apps.{name}": (config.get("apps") or {}).get(name)},
        **{
            f"generators.{system.generator}": (config.get("generators") or {}).get(system.generator)
        },
        **{f"retrievers.{key}": retrievers[key] for key in _sources(retrievers, system.retriever)},
    }
    blocks = {}
    for key, block in components.items():
        if isinstance(block, dict):
            blocks[key] = block
    return parts | blocks


def _sources(retrievers: Mapping[str, Any], name: str | None) -> set[str]:
    """Return a retriever and all retrievers that it reads; all for the choice of a sweep."""
    if name is None:
        return set()
    if name not in retrievers:
        return set(retrievers)
    names, waiting = set[str](), [name]
    while waiting:
        retriever = waiting.pop()
        if retriever not in names:
            names.add(retriever)
            texts = set()
            for _, text in texts_of(retrievers[retriever]):
                texts.add(text)
            for other in retrievers:
                if other in texts:
                    waiting.append(other)
    return names


def may_vary(config: ExperimentConfig, system: SystemScores) -> bool:
    """Return True unless all components of a system give the same results each time."""
    components = [config.apps.get(system.name), config.generators.get(system.generator or "")]
    components.append(config.retrievers.get(system.retriever or ""))
    present = []
    for component in components:
        if component is not None:
            present.append(component)
    # rerankers and fusions read other retrievers
    if any(c.retriever or c.options.get("retrievers") for c in present):
        present += config.retrievers.values()
    return any(map(varies, present))


def judge_may_vary(config: ExperimentConfig) -> bool:
    """Return True if a judge of the config may give equal answers different verdicts."""
    return any(map(varies, (config.metrics.judges or {}).values()))


def noise_line(system: str, n: int) -> str:
    """Return the line on a system that uses nothing that changed, with `n` changed questions."""
    verb = "is" if n == 1 else "are"
    differences = f"{counted(n, 'differences')} {verb} its own noise"
    return printable(f"{system}: {NOTHING_CHANGED}: {differences}")


def excuse(decision: Decision) -> Decision:
    """Return a decision on a system that uses nothing that changed: it passes."""
    return structs.replace(decision, verdict="pass", why=f"{NOTHING_CHANGED}: {decision.why}")


def changed_questions(gains: Sequence[tuple[Sequence[str], Any]]) -> tuple[str, ...]:
    """Return the questions whose score changed, of pairs (queries, gains), without repeats."""
    questions = dict[str, None]()
    for queries, values in gains:
        for row in np.flatnonzero(np.nan_to_num(values)).tolist():
            questions[queries[row]] = None
    return tuple(questions)
