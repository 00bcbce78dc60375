"""Noise of a gate: systems that use nothing that changed, and further looks at questions."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

from ragbench.config.components import varies
from ragbench.config.schema import ExperimentConfig
from ragbench.data.runs.run_list import CONFIG_FILE, read_config
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.experiment.reproduce import texts_of
from ragbench.gates.base import Gate
from ragbench.gates.drop import PairGate
from ragbench.records.gate import Decision
from ragbench.report.text import counted, ends_of
from ragbench.types import FloatArray
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
    return parts | {key: block for key, block in components.items() if isinstance(block, dict)}


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


def is_unsure(gate: Gate, decision: Decision) -> bool:
    """Return True for a failed gate on a difference whose interval does not exclude 0."""
    if decision.verdict != "fail" or not isinstance(gate, PairGate) or decision.means is None:
        return False
    ends = ends_of(decision.facts.interval)
    return ends is None or ends[0] * ends[1] <= 0


def merge_looks(first: ScoredSystems, later: Sequence[ScoredSystems]) -> ScoredSystems:
    """Return scores that are the means of all looks that have a value; NaN of the first stays."""
    row_of = {query: row for row, query in enumerate(first.query_ids)}
    systems = {}
    for name, system in first.systems.items():
        columns = {}
        for measure, column in system.columns.items():
            total, n_looks = np.array(column.values), np.ones(len(column.values))
            for look in later:
                _add_look(total, n_looks, look, name, measure, row_of)
            columns[measure] = replace(column, values=total / n_looks)
        systems[name] = replace(system, columns=columns)
    folders = tuple(look.folder for look in later if look.folder is not None)
    return replace(first, systems=systems, looks=folders)


def has_same_scores(first: ScoredSystems, look: ScoredSystems) -> bool:
    """Return True if a look at some questions has the scores of the first one, as stored ones."""
    row_of = {query: row for row, query in enumerate(first.query_ids)}
    rows = [row_of[query] for query in look.query_ids]
    for name, system in look.systems.items():
        # the default scores depend on the questions
        for measure in system.columns.keys() & first.systems[name].columns.keys():
            values = first.systems[name].columns[measure].values[rows]
            if not np.array_equal(values, system.columns[measure].values, equal_nan=True):
                return False
    return True


def _add_look(
    total: FloatArray,
    n_looks: FloatArray,
    look: ScoredSystems,
    system: str,
    measure: str,
    row_of: Mapping[str, int],
) -> None:
    """Add the values of a look to the sums of a column, and count them."""
    if system not in look.systems or measure not in look.systems[system].columns:
        return
    values = look.systems[system].columns[measure].values
    for query, value in zip(look.query_ids, values.tolist(), strict=True):
        if query in row_of and not np.isnan(value):
            total[row_of[query]] += value
            n_looks[row_of[query]] += 1


def changed_questions(gains: Sequence[tuple[Sequence[str], Any]]) -> tuple[str, ...]:
    """Return the questions whose score changed, of pairs (queries, gains), without repeats."""
    questions = dict[str, None]()
    for queries, values in gains:
        for row in np.flatnonzero(np.nan_to_num(values)).tolist():
            questions[queries[row]] = None
    return tuple(questions)
