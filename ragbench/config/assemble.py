"""From a YAML file or a mapping to a checked `ExperimentConfig`, or every problem at once."""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench.config.check_tree import TreeCheck
from ragbench.config.interpolate import interpolate
from ragbench.config.overrides import Overrides, apply_overrides
from ragbench.config.problems import Place, Report
from ragbench.config.schema import (
    BLOCKS,
    ExperimentConfig,
)
from ragbench.config.scoring_blocks import RetrievalMetrics
from ragbench.config.tree import Item, PythonReader, variants
from ragbench.config.yaml_reader import decode, read_yaml
from ragbench.errors import OptionError

MAX_VARIANTS = 100
"""Values of repeated keys that are checked; each repetition itself is always reported."""

_MADE_WHEN_SET = (
    *((block,) for block in BLOCKS if block != "gates"),
    *(("metrics", block) for block in ("retrieval", "judge")),
    *(("metrics", "retrieval", block) for block in RetrievalMetrics.blocks),
)


def load_config(
    source: str | os.PathLike[str] | Mapping[str, Any],
    *,
    overrides: Overrides = (),
    base_dir: str | os.PathLike[str] | None = None,
    live_retrievers: Collection[str] = (),
    live_generators: Collection[str] = (),
    live_apps: Collection[str] = (),
) -> ExperimentConfig:
    """Read and check a config as a whole.

    Args:
        source: The YAML file, or its content as a mapping.
        overrides: `dotted.key=value` texts, as `--set` takes them, or a mapping from dotted
            keys to values.
        base_dir: The folder that paths are relative to; default: that of the file, or the
            working directory for a mapping.
        live_retrievers: Names of retrievers that the caller adds as objects; references may use
            them.
        live_generators: Names of generators that the caller adds; gates may name their pairs.
        live_apps: Names of whole apps that the caller adds.

    Raises:
        ConfigError: Everything that is wrong, in file order.
    """
    report = Report()
    path: Path | None
    read: Item | None
    if isinstance(source, Mapping):
        path, read = None, PythonReader(report).read(source)
    else:
        if not isinstance(source, (str, Path)):
            raise OptionError("load_config", "source", source, "a path, a mapping")
        path = Path(source)
        read = _read_file(path, report)
    base = Path(base_dir) if base_dir is not None else path.parent if path else Path()
    config = None
    if read is not None and _is_mapping(read, report):
        tree = apply_overrides(read, overrides, _MADE_WHEN_SET, report)
        tree = interpolate(tree, os.environ, report)
        live = (live_retrievers, live_generators, live_apps)
        config = _check_variants(tree, report, path, base, live)
    if config is None or report:
        raise report.error(os.fspath(path) if path else "the config")
    return replace(config, environment=dict(report.environment))


def _read_file(path: Path, report: Report) -> Item | None:
    file = os.fspath(path)
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        reason = "no such file" if isinstance(error, FileNotFoundError) else reason
        reason = "a folder, not a file" if path.is_dir() else reason
        report.add(Place(file), (), reason, "a YAML file")
        return None
    text = decode(data, file, report)
    return None if text is None else read_yaml(text, file, report)


def _is_mapping(tree: Item, report: Report) -> bool:
    if not isinstance(tree.value, dict):
        is_empty = tree.value is None and not tree.written
        found = "the file is empty" if is_empty else f"found {tree.shown()}"
        report.add(tree.place, (), found, "a mapping with the key 'dataset'")
    return isinstance(tree.value, dict)


def _check_variants(
    tree: Item,
    report: Report,
    path: Path | None,
    base: Path,
    live: tuple[Collection[str], Collection[str], Collection[str]],
) -> ExperimentConfig | None:
    """Check the tree, and again with the other value of each repeated key."""
    config = None
    for replaced, variant in itertools.islice(variants(tree), MAX_VARIANTS):
        own = Report()
        built = TreeCheck(variant, own, path, base, live).build()
        report.include(own.under(replaced))
        config = config if replaced else built
    return config
