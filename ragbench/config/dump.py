"""A resolved config as YAML that reads back as the same config."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from ragbench.config.schema import ExperimentConfig
from ragbench.config.tree import Quoted, ScalarError, WrittenPath, resolve
from ragbench.config.variables import escaped, reads_environment
from ragbench.registry import declared_options

if TYPE_CHECKING:
    from ragbench.score.text.base import Metric


_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


class _Dumper(yaml.SafeDumper):
    """Writes text in quotes wherever YAML 1.1 or 1.2 would read it as something else."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write equal parts twice: a config is for people."""
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=_style(value))


def _style(value: str) -> str | None:
    # `$${` and `${NAME}` alike: only quotes keep a number that comes in its place a text
    if isinstance(value, Quoted) and "${" in value:
        return '"'
    if _CONTROL.search(value):  # breaks of lines among them, which other styles fold into blanks
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
for _type in (str, Quoted, WrittenPath):
    _Dumper.add_representer(_type, _text)
_Dumper.add_representer(tuple, _Dumper.represent_list)
_Dumper.add_representer(float, _number)


def dump_config(config: ExperimentConfig, folder: Path | None = None) -> str:
    """Return the resolved config as YAML.

    Sweeps, defaults and the values of variables are written out; `${VAR}` stands for secrets alone,
    `***` for a secret in the config itself. Read with the same `base_dir` and secrets, a config
    without a secret in it gives an equal config, whatever else the environment has. Paths are
    relative to `folder`, where it is given.
    """

    def path_text(text: str) -> str:
        path = os.path.abspath(config.base / Path(text.replace("$${", "${")).expanduser())
        if folder is None:
            return text
        return escaped(Path(os.path.relpath(path, folder.absolute())).as_posix())

    resolved = _with_texts(config.resolved, path_text)
    metrics = resolved.get("metrics") or {}
    if config.metrics.generation is not None and "generation" in metrics and folder is not None:
        metrics["generation"] = [
            _metric(named.metric, written, path_text)
            for named, written in zip(config.metrics.generation, metrics["generation"], strict=True)
        ]
    return yaml.dump(resolved, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def _with_texts(value: Any, path_text: Callable[[str], str]) -> Any:
    """Return a resolved value with texts for its paths."""
    if isinstance(value, Mapping):
        return {key: _with_texts(part, path_text) for key, part in value.items()}
    if isinstance(value, list):
        return [_with_texts(part, path_text) for part in value]
    return path_text(value) if isinstance(value, WrittenPath) else value


def _metric(metric: Metric, written: str, path_text: Callable[[str], str]) -> str:
    """Return the name of a metric with texts for its paths."""
    declared = declared_options(metric.declaration.function)
    paths = {
        name: path_text(value)
        for name, value in metric.chosen.items()
        if declared[name].option.refers_to and os.path.isabs(str(value))
    }
    if not paths or reads_environment(written):
        return written
    return escaped(replace(metric, chosen={**metric.chosen, **paths}).canonical)
