"""Resolved config, as data and as YAML: no secrets, all defaults, and it reads as the same one."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from ragbench import secrets
from ragbench.config.options import Context
from ragbench.config.schema import ExperimentConfig
from ragbench.config.secret_values import Environment
from ragbench.config.tree import (
    Node,
    Quoted,
    Reference,
    ScalarError,
    WrittenPath,
    resolve,
)
from ragbench.config.variables import escaped, reads_environment
from ragbench.registry import DeclaredOption, declared_options
from ragbench.score.text.base import Metric


def resolve_config(tree: Node, context: Context, environment: Environment) -> dict[str, Any]:
    """Return a checked tree, sweeps written out, as plain data with its defaults.

    Values of variables are written out; `${NAME}` stands for secrets alone, `***` for a secret in
    the config itself. Read again, with the same secrets in the environment, it gives the same
    config. Empty blocks and nulls at the top level are left out.

    Args:
        tree: The checked tree.
        context: Declared options, paths and defaults that the checks found.
        environment: Variables and secrets of the tree.
    """
    resolved = _Resolver(context, environment).mapping(tree)
    filled = {}
    for key, value in resolved.items():
        if value not in ({}, [], None):
            filled[key] = value
    return filled


class _Resolver:
    """Writer of a checked tree as plain data, without secrets; `mapping` returns the data."""

    def __init__(self, context: Context, environment: Environment) -> None:
        self._context, self._environment = context, environment
        self._clean = environment.redactor()

    def mapping(self, node: Node) -> dict[str, Any]:
        """Return a mapping as plain data."""
        declared, keys = self._context.blocks.get(node.path, ({}, tuple(node.entries)))
        filled = self._context.filled
        if node.path:  # keys that only the checks fill in stand last
            keys = tuple(sorted(keys, key=lambda k: not node.get(k) and (*node.path, k) in filled))
        resolved: dict[str, Any] = {}
        for key in keys:
            path, option, value = (*node.path, key), declared.get(key), node.get(key)
            # at the top level a null key means its default
            is_absent = value is None or (value.value is None and not node.path)
            if path in filled:
                resolved[key] = filled[path]
            elif value is not None and not is_absent:
                resolved[key] = self._value(value, option)
            elif path in self._context.blocks:
                resolved[key] = self.mapping(Node({}, node.place, path))
            elif option is not None and isinstance(option.default, (str, bool, int, float)):
                resolved[key] = option.default
        return resolved

    def _value(self, node: Node, option: DeclaredOption | None = None) -> Any:
        """Return a value as plain data: a dict, a list or a scalar."""
        if isinstance(node.value, dict):
            return self.mapping(node)
        if isinstance(node.value, tuple):
            parts = list(map(self._value, node.value))
            if option is None or option.option.refers_to != "retriever":
                return parts
            names: dict[str, None] = {}
            for part in parts:  # the name of a sweep means all its combinations
                names |= dict.fromkeys(self._context.members.get(part, (part,)))
            return list(names)
        text = self._scalar(node)
        if node.path in self._context.paths and not reads_environment(str(text)):
            return WrittenPath(text)
        return Quoted(text) if node.quoted and isinstance(text, str) else text

    def _scalar(self, node: Node) -> Any:
        """Return a scalar with the values of its variables, and without secrets."""
        value = node.source if isinstance(node.value, str) else node.value
        value = self._substituted(node) if node.parts else value
        if self._environment.hides(node.path, value):
            return secrets.MASK
        if not isinstance(value, str) or secrets.is_placeholder(value) or reads_environment(value):
            return value
        return self._clean(secrets.mask_secrets(value))

    def _substituted(self, node: Node) -> Any:
        """Return a scalar with the values of its variables; `${NAME}` stays for a secret."""
        hidden = self._environment.hidden
        if all(reference.name not in hidden for reference in node.references()):
            return escaped(node.value) if isinstance(node.value, str) else node.value
        text = ""
        parts = _parts_to_write(node.parts, hidden)
        for is_secret, group in itertools.groupby(parts, lambda part: part[1]):
            run = "".join(part for part, _ in group)
            if is_secret and text.endswith("$"):
                return node.source  # `$` before `${` would escape it: all its variables stay
            text += run if is_secret else escaped(run)
        return text


def _parts_to_write(
    parts: Sequence[str | Reference], hidden: Collection[str]
) -> Iterator[tuple[str, bool]]:
    """Yield the texts of a scalar, each with True if it is a reference to a secret."""
    for part in parts:
        if isinstance(part, str):
            yield part, False
        elif part.value:
            is_secret = part.name in hidden
            yield f"${{{part.name}}}" if is_secret else part.value, is_secret
        else:
            default = part.default or ""
            is_masked = part.name in hidden and not secrets.is_placeholder(default)
            yield secrets.MASK if is_masked else default, False


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
