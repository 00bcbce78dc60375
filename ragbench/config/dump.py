"""A checked config as YAML that reads back as the same config."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from ragbench.config.components import CHUNK, options_of
from ragbench.config.schema import ExperimentConfig
from ragbench.config.tree import Quoted, ScalarError, resolve
from ragbench.registry import declared_options
from ragbench.text.chunk import Chunking

if TYPE_CHECKING:
    from ragbench.score.text.base import Metric

_SECRET = re.compile(
    r"(?:^|[_-])(?:api_?key|access_?key|token|secret|password|passwd|authorization)$", re.I
)


class _Dumper(yaml.SafeDumper):
    """Writes text in quotes wherever YAML 1.1 or 1.2 would read it as something else."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write equal parts twice: a config is for people."""
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=_style(value))


def _style(value: str) -> str | None:
    if isinstance(value, Quoted) and "${" in value:
        return '"'
    if "${" in value:
        return None
    try:
        return None if isinstance(resolve(value), str) else '"'
    except ScalarError:
        return '"'


def _number(dumper: yaml.SafeDumper, value: float) -> yaml.ScalarNode:
    word = {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}.get(repr(value), repr(value))
    return yaml.ScalarNode("tag:yaml.org,2002:float", word)


# 1e-05 is a number in YAML 1.2, not in the 1.1 that PyYAML writes
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)
_Dumper.add_representer(str, _text)
_Dumper.add_representer(Quoted, _text)
_Dumper.add_representer(tuple, _Dumper.represent_list)
_Dumper.add_representer(float, _number)


def _masked(value: Any) -> Any:
    """The config without literal secrets, told by the names of their keys."""
    if isinstance(value, Mapping):
        return {
            key: "***" if _is_secret(key, entry) else _masked(entry) for key, entry in value.items()
        }
    return [_masked(entry) for entry in value] if isinstance(value, (list, tuple)) else value


def _is_secret(key: Any, value: Any) -> bool:
    named = isinstance(key, str) and _SECRET.search(key) is not None
    return named and isinstance(value, str) and "${" not in value


def dump_config(config: ExperimentConfig, folder: Path | None = None) -> str:
    """Return the config as it was resolved, as YAML.

    Sweeps and defaults are written out; `${VAR}` stands as it was written, so that no secret is
    in it; a key or token that stands in the config itself is replaced by `***`. Read with the
    same `base_dir` and environment, a config without one gives an equal config. Paths are relative
    to `folder`, where it is given.
    """
    resolved = _masked(config.resolved)
    if folder is not None:
        _move_paths(config, resolved, folder.absolute())
    return yaml.dump(resolved, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def _move_paths(config: ExperimentConfig, resolved: dict[str, Any], folder: Path) -> None:
    _move_options(config.dataset.cls, config.dataset.options, resolved["dataset"], folder)
    for block, components in (("retrievers", config.retrievers), ("generators", config.generators)):
        for name, component in components.items():
            written = resolved[block][name]
            _move_options(component.cls, component.options, written, folder)
            if component.chunk is not None:
                _move_options(Chunking, asdict(component.chunk), written[CHUNK], folder)
    metrics = resolved.get("metrics") or {}
    if config.metrics.generation is not None and "generation" in metrics:
        metrics["generation"] = [
            _move_metric(named.metric, written, folder)
            for named, written in zip(config.metrics.generation, metrics["generation"], strict=True)
        ]
    fill = config.metrics.retrieval.fill
    if fill is not None and isinstance(fill.rubric, Path):
        metrics["retrieval"]["fill"]["rubric"] = _relative(fill.rubric, folder)
    judge = metrics.get("judge") or {}
    for name, checked in (config.metrics.judges or {}).items():
        written = judge if checked.name is None else judge[name]
        _move_options(checked.cls, checked.options, written, folder)
        if "rubrics" in written:
            written["rubrics"] = [
                _relative(rubric, folder) if isinstance(rubric, Path) else rubric
                for rubric in checked.rubrics
            ]
    for gate, written in zip(config.gates, resolved.get("gates", ()), strict=False):
        key = gate.file_key
        if gate.file is not None and key is not None and "${" not in str(written[key]):
            written[key] = _relative(gate.file, folder)


def _move_metric(metric: Metric, written: str, folder: Path) -> str:
    declared = declared_options(metric.declaration.function)
    paths = {
        name: _relative(value, folder)
        for name, value in metric.chosen.items()
        if declared[name].option.refers_to and os.path.isabs(str(value))
    }
    if not paths or "${" in written:
        return written
    return replace(metric, chosen={**metric.chosen, **paths}).canonical


def _move_options(
    cls: Any, options: Mapping[str, Any], written: dict[str, Any], folder: Path
) -> None:
    for key, option in options_of(cls).items():
        value = options.get(key)
        if key not in written or "${" in str(written[key]):
            continue
        names = ("path_or_name", "folder_or_name")
        is_there = option.option.refers_to in names and os.path.isabs(str(value))
        if option.option.refers_to == "path" or is_there:
            written[key] = _relative(value, folder)


def _relative(path: Any, folder: Path) -> Any:
    if isinstance(path, (list, tuple)):
        return [_relative(part, folder) for part in path]
    if path is None:
        return None
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # on another drive
        return str(path)
