"""Config of a run with a change of its fix list, written as YAML."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragbench.config.resolved import to_yaml
from ragbench.config.tree import Quoted
from ragbench.errors import DataError
from ragbench.files import naming_unwritable, write_file
from ragbench.records.fixes import FixList, FusedRetriever, PricedChange

_MARK = "Written by `ragbench fix`."
_LONGEST_NAME = 100  # characters of the name of a new retriever


def write_best(
    config: Mapping[str, Any], run: Path, fixes: FixList, change: PricedChange, path: Path
) -> str:
    """Write the config of a run with a change, and return the name of the retriever of the change.

    Paths become relative to the new file. All retrievers stay, so that its run compares them.

    Args:
        config: Config of the run folder as plain data.
        run: The run folder, which its paths are relative to.
        fixes: Fix list of the run.
        change: A change of the list, but no bound, which no config can reach.
        path: The new file; an existing one is replaced if this function wrote it.

    Raises:
        DataError: The file cannot be written, or is another one, such as a config with comments.
    """
    # The first line alone tells whether `fix` wrote the file: a config with comments, which YAML
    # would lose, must survive.
    with naming_unwritable(path):
        if path.exists() and not path.read_bytes().partition(b"\n")[0].endswith(_MARK.encode()):
            problem = "exists, and was not written by `ragbench fix`"
            raise DataError(problem, file=path, allowed="another file")
    best = _rebased(dict(config), run.resolve(), path.absolute().parent)
    fusion, retriever = change.fusion, change.retriever or fixes.system
    if fusion is not None:
        retriever = _add_fusion(best.setdefault("retrievers", {}), fusion)
    for generator in (best.get("generators") or {}).values():
        names = generator.get("retrievers")
        # Without a list, a generator is crossed with all retrievers, so also with the new one.
        if isinstance(names, list) and fixes.system in names and retriever not in names:
            names.append(retriever)
        if change.passages != fixes.read:
            generator["passages"] = change.passages
    if change.passages != fixes.read:
        best["causes"] = {**(best.get("causes") or {}), "read": change.passages}
    promise = f"{retriever} finds {change.found} of {change.of} at {change.passages}"
    old = f"{fixes.system} finds {fixes.found} at {fixes.read}"
    head = f"# {change.text}: {promise}; {old}. {_MARK}\n"
    write_file(path, head + to_yaml(best))
    return retriever


def _add_fusion(retrievers: dict[str, Any], fusion: FusedRetriever) -> str:
    """Add a fusion to the retrievers of a config, and return its name."""
    name = "-".join(fusion.retrievers)
    # The name becomes a file name, and three long names could exceed what file systems allow.
    name = name if len(name) <= _LONGEST_NAME else "fusion"
    while name in retrievers:
        name += "-fused"
    weights = {"weights": list(fusion.weights)} if fusion.weights else {}
    sources = list(fusion.retrievers)
    retrievers[name] = {
        "type": "fusion",
        "retrievers": sources,
        "method": fusion.method,
        **weights,
    }
    return name


def _rebased(value: Any, old: Path, new: Path) -> Any:
    """Return a value of a config with paths relative to another folder."""
    # A run folder writes all paths relative to itself, and its data lie outside of it: only texts
    # that begin with `../` change.
    if isinstance(value, dict):
        return {key: _rebased(part, old, new) for key, part in value.items()}
    if isinstance(value, list):
        return [_rebased(part, old, new) for part in value]
    if not isinstance(value, str):
        return value
    if value.startswith("../"):
        return Path(os.path.relpath(old / value, new)).as_posix()
    # in quotes, a secret that is a number stays text
    return Quoted(value) if "${" in value else value
