"""Resolved config as YAML, which reads as the same config."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from ragbench.config.schema import ExperimentConfig
from ragbench.config.tree import (
    Quoted,
    ScalarError,
    WrittenPath,
    resolve,
)
from ragbench.config.variables import escaped, reads_environment
from ragbench.registry import declared_options
from ragbench.score.text.base import Metric

# Characters that YAML reads back only from escapes in double quotes
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


class _Dumper(yaml.SafeDumper):
    """YAML writer that quotes text wherever YAML 1.1 or 1.2 would read another type."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return True, so that equal parts are written twice instead of as aliases."""
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=_style(text))

    def represent_number(self, number: float) -> yaml.ScalarNode:
        """Return a float as YAML 1.2 writes it: `.inf` and `.nan` have a dot."""
        word = {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}.get(repr(number), repr(number))
        return yaml.ScalarNode("tag:yaml.org,2002:float", word)


def _style(value: str) -> str | None:
    """Return '"' for a text that reads back differently without quotes; else None."""
    # without quotes, a number in the place of `${NAME}` would no longer be text
    if isinstance(value, Quoted) and "${" in value:
        return '"'
    if _CONTROL.search(value):  # also line breaks, which other styles turn into spaces
        return '"'
    if "${" in value:
        return None
    try:
        return None if isinstance(resolve(value), str) else '"'
    except ScalarError:
        return '"'


# 1e-05 is a number in YAML 1.2, not in the 1.1 that PyYAML writes
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)
for _type in (str, Quoted, WrittenPath):
    _Dumper.add_representer(_type, _Dumper.represent_text)
# SafeDumper has no representation of tuples
_Dumper.add_representer(tuple, _Dumper.represent_list)
_Dumper.add_representer(float, _Dumper.represent_number)


def dump_config(config: ExperimentConfig, folder: Path | None = None) -> str:
    """Return the resolved config as YAML, with a line end.

    Sweeps, defaults and the values of variables are written out; `${VAR}` stands for secrets alone,
    `***` for a secret in the config itself. Read with the same `base_dir` and secrets, a config
    without a literal secret gives an equal config, whatever else the environment has.

    Args:
        config: The checked config.
        folder: Folder that paths become relative to; default: they stay as written.
    """

    def path_text(text: str) -> str:
        """Return a path of a resolved config relative to the run folder."""
        path = os.path.abspath(config.base / Path(text.replace("$${", "${")).expanduser())
        if folder is None:
            return text
        return escaped(Path(os.path.relpath(path, folder.absolute())).as_posix())

    resolved = _with_texts(config.resolved, path_text)
    metrics = resolved.get("metrics") or {}
    if config.metrics.generation is not None and "generation" in metrics and folder is not None:
        # of a group any metric will do: none of them has a path, so that its name stays
        entries = {entry.row: entry.metric for entry in config.metrics.generation}
        for row, text in enumerate(metrics["generation"]):
            metrics["generation"][row] = _metric(entries[row], text, path_text)
    return to_yaml(resolved)


def to_yaml(value: Mapping[str, Any]) -> str:
    """Return plain data as YAML that this package reads back as the same data, with a line end.

    Keys keep their order, and tuples become lists. A yaml.YAMLError is raised for an object of
    another type.
    """
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def _with_texts(value: Any, path_text: Callable[[str], str]) -> Any:
    """Return a resolved value with each path as its text."""
    if isinstance(value, Mapping):
        texts = {}
        for key, part in value.items():
            texts[key] = _with_texts(part, path_text)
        return texts
    if isinstance(value, list):
        return [_with_texts(part, path_text) for part in value]
    return path_text(value) if isinstance(value, WrittenPath) else value


def _metric(metric: Metric, metric_name: str, path_text: Callable[[str], str]) -> str:
    """Return the name of a metric with the `path_text` of each of its absolute paths."""
    declared = declared_options(metric.declaration.function)
    paths = {}
    for name, value in metric.chosen.items():
        if declared[name].option.refers_to and os.path.isabs(str(value)):
            paths[name] = path_text(value)
    if not paths or reads_environment(metric_name):
        return metric_name
    return escaped(replace(metric, chosen={**metric.chosen, **paths}).canonical)
