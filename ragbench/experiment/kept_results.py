"""Results of the latest run that a run with more repetitions keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ragbench.config.schema import Component, ExperimentConfig
from ragbench.data.runs import run_folder
from ragbench.data.runs.run_list import read_config
from ragbench.errors import DataError
from ragbench.experiment.plan.records import Plan
from ragbench.experiment.used_files import are_unchanged, project_root
from ragbench.files import cache_folder


def kept_token(plan: Plan) -> str | None:
    """Return the token of the latest run if this plan repeats something more often; else None.

    The token is part of the keys of own code, so that the run makes the further repetitions alone.
    Without such a repetition a new run calls own code again: it may differ by chance. None too if
    a file that the latest run used has changed, or an app or retriever is a server.
    """
    config = plan.config
    try:
        folder = run_folder.resolve_run_folder(Path(config.output) / config.name)
        manifest, old = run_folder.read_manifest(folder), read_config(folder, typed=True)
    except (DataError, OSError):
        return None  # there is no run yet, or it is damaged: nothing is kept
    # code that asks a model is own code; a server is code that nobody sees
    is_seen = bool(manifest.used) and not manifest.live and {*manifest.unseen} <= {"code"}
    if not is_seen or not any(_is_repeated_more(config, old)):
        return None
    used = dict(manifest.used)
    root = project_root(config.path.parent if config.path else Path())
    if config.path is not None:
        # the config has another `repeat`; the keys of all items contain its other options
        config_file = config.path.resolve()
        used = {name: digest for name, digest in used.items() if root / name != config_file}
    excluded = [Path(config.output), cache_folder(config.cache)]
    return manifest.token or None if are_unchanged(root, used, excluded) else None


def _is_repeated_more(config: ExperimentConfig, old: Mapping[str, Any]) -> Iterator[bool]:
    """Yield True for each component of a config that an earlier one repeats less often."""
    blocks: dict[str, Mapping[str, Component]] = {
        "retrievers": config.retrievers,
        "generators": config.generators,
        "apps": config.apps,
    }
    for block, components in blocks.items():
        for name, component in components.items():
            entry = (old.get(block) or {}).get(name)
            yield entry is not None and component.repeat > int(entry.get("repeat") or 1)
