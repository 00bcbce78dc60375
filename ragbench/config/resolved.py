"""Resolved config, as data and as YAML: no secrets, all defaults, and it reads as the same one."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from ragbench import secrets
from ragbench.config.options import Blocks, Context
from ragbench.config.schema import ExperimentConfig
from ragbench.config.tree import (
    KeyPath,
    Node,
    Quoted,
    Reference,
    Report,
    ScalarError,
    WrittenPath,
    dotted,
    resolve,
)
from ragbench.config.variables import (
    LONG_SECRET,
    contains_secret,
    escaped,
    in_secret_option,
    is_hidden,
    is_secret_value,
    reads_environment,
)
from ragbench.records.manifest import EnvironmentVariable
from ragbench.registry import DeclaredOption, declared_options
from ragbench.score.text.base import Metric
from ragbench.secrets import Redactor


@dataclass(frozen=True)
class Environment:
    """The variables that a config names, and its secrets, in variables or in the config itself.

    `environment_of` returns it.

    Attributes:
        references: Variable -> its last reference, in the order of the file.
        hidden: Names of the variables that hold secrets.
        literal: Dotted key -> a secret that stands in the config itself.
        defaults: Place -> a text beside a variable that holds a secret, or its default.
        declared: Places whose options are declared to hold secrets.
    """

    references: Mapping[str, Reference] = field(default_factory=dict)
    hidden: Collection[str] = ()
    literal: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    declared: Collection[KeyPath] = ()

    @property
    def secrets(self) -> dict[str, str]:
        """Values that must not be written anywhere, by variable or place.

        A variable that is not set has ''.
        """
        values = {name: r.value for name, r in self.references.items() if name in self.hidden}
        return {**values, **self.defaults, **self.literal}

    def record(self) -> dict[str, EnvironmentVariable]:
        """Return the variables as a manifest records them: without the values of secrets.

        In the order of the file.
        """
        return {
            name: variable_record(r.value if r.is_set else None, secret=name in self.hidden)
            for name, r in self.references.items()
        }


def variable_record(value: str | None, *, secret: bool) -> EnvironmentVariable:
    """Return the record of a variable; None means that it is not set.

    The record of a secret says whether it is set, but has no value.
    """
    is_set = value is not None
    return EnvironmentVariable(set=is_set, value=None if secret else value, secret=secret)


def environment_of(tree: Node, declared: Collection[KeyPath] = ()) -> Environment:
    """Return the variables of a tree with their values, and its secrets.

    A value is a secret by the name of its variable, by the keys or the declaration of its option,
    or by its form; a secret in one place is a secret everywhere. Variables that the config does not
    name are left out.

    Args:
        tree: The config, with variables replaced.
        declared: Places whose options are declared to hold secrets.
    """
    declared = {*declared, *_after_flags(tree)}
    references: dict[str, Reference] = {}
    hidden: set[str] = set()
    for node in tree.scalars():
        for reference in node.references():
            references[reference.name] = reference
            if node.path in declared or is_hidden(node, reference):
                hidden.add(reference.name)
    # a variable without a telling name may hold the same secret
    values = [references[name].value for name in hidden]
    for name, reference in references.items():
        if any(contains_secret(reference.value, value) for value in values):
            hidden.add(name)
    literal, defaults = {}, {}
    for node in tree.scalars():
        place = dotted(node.path)
        is_text = isinstance(node.value, str) and not secrets.is_placeholder(node.source)
        has_form = is_text and secrets.looks_secret(node.source)
        if not node.parts and (has_form or _is_secret_by_name(node.path, node.value, declared)):
            literal[place] = str(node.value)
        for number, part in enumerate(_texts_beside_secrets(node, hidden)):
            # the quotes tell a place from the name of a variable
            defaults[f'"{place}" {number}' if number else place] = part
    return Environment(references, hidden, literal, defaults, declared)


def _after_flags(node: Node) -> Iterator[KeyPath]:
    """Yield the places of list elements that follow a flag such as `--api-key`.

    A value that begins with '-' is a flag itself.
    """
    for flag, part in itertools.pairwise(node.elements):
        is_flag = isinstance(flag.value, str) and flag.value.startswith("-")
        is_value = isinstance(part.value, str) and not part.value.startswith("-")
        if is_flag and is_value and secrets.is_secret_option(str(flag.value)):
            yield part.path
    for part in node.elements or [entry.node for entry in node.entries.values()]:
        yield from _after_flags(part)


def _is_secret_by_name(path: KeyPath, value: object, declared: Collection[KeyPath]) -> bool:
    """Return True if the keys of a value, or the declaration of its option, make it a secret.

    Placeholders and texts that name a variable are no secrets.
    """
    text = str(value)
    if type(value) not in (str, int, float) or secrets.is_placeholder(text):
        return False
    is_declared = path in declared and isinstance(value, str)
    if is_declared and not secrets.is_harmless(path[-1]):
        return not reads_environment(text)
    return is_secret_value(path, text) and not reads_environment(text)


def _texts_beside_secrets(node: Node, hidden: Collection[str]) -> list[str]:
    """Return the texts beside a variable with a secret in one scalar, and defaults that count.

    The default of a variable counts if its value is empty. Texts under eight characters and
    placeholders are left out. Empty without such a variable.
    """
    if not any(reference.name in hidden for reference in node.references()):
        return []
    texts = [
        part.strip() if isinstance(part, str) else part.default or ""
        for part in node.parts
        if isinstance(part, str) or not part.value
    ]
    return [text for text in texts if len(text) >= LONG_SECRET and not secrets.is_placeholder(text)]


def report_secret_paths(tree: Node, environment: Environment, report: Report) -> None:
    """Report secrets in `name`, `output`, `cache` and `cache_also`, which become folders.

    Afterwards they could not be removed. An existing folder is allowed.
    """
    for key in ("name", "output", "cache", "cache_also"):
        for node in () if (block := tree.get(key)) is None else block.scalars():
            value = str(node.value)
            if value.startswith(("/", "~", "./")) and os.path.exists(value):
                continue  # an existing folder, such as the value of `SECRETS_DIR`, is no secret
            names = [r.name for r in node.references() if r.name in environment.hidden]
            names += [n for n, text in environment.secrets.items() if contains_secret(value, text)]
            if names:
                is_variable = names[0] in environment.references
                secret = f"the secret ${{{names[0]}}}" if is_variable else "a secret"
                problem = f"{secret} would become part of the name of a folder"
                report.wrong(node, problem, "a name without the secret")


def secret_places(node: Node, blocks: Blocks) -> Iterator[KeyPath]:
    """Yield the places of values whose options are declared to hold secrets.

    Args:
        node: The tree, sweeps written out.
        blocks: Place of a block -> its declared options.
    """
    declared, _ = blocks.get(node.path, ({}, ()))
    for key, entry in node.entries.items():
        if key in declared and declared[key].option.secret:
            yield from (scalar.path for scalar in entry.node.scalars())
        yield from secret_places(entry.node, blocks)
    for part in node.elements:
        yield from secret_places(part, blocks)


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
    return {key: value for key, value in resolved.items() if value not in ({}, [], None)}


class _Resolver:
    """Writer of a checked tree as plain data, without secrets; `mapping` returns the data.

    The context has the declared options of the blocks, the environment the variables and secrets.
    """

    def __init__(self, context: Context, environment: Environment) -> None:
        self._context, self._environment = context, environment
        # a literal secret is hidden everywhere, except values of headers, which may be plain words
        self._clean = Redactor(
            {
                f'"{place}"': value  # in quotes, so that `***` is written and no variable
                for place, value in environment.literal.items()
                if secrets.is_secret_option(place.rpartition(".")[2])
                or secrets.looks_secret(value)
                or not in_secret_option(tuple(place.split(".")))
            }
        )

    def mapping(self, node: Node) -> dict[str, Any]:
        """Return a mapping as plain data.

        A checked block has its defaults, in the declared order; a default that is no text, number
        or truth value is left out.
        """
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
        """Return a value as plain data: a dict, a list or a scalar.

        A path is a `WrittenPath`, a text in quotes a `Quoted`. Sweeps among retrievers are replaced
        by their combinations; `option` tells whether they are retrievers.
        """
        if isinstance(node.value, dict):
            return self.mapping(node)
        if isinstance(node.value, tuple):
            parts = list(map(self._value, node.value))
            if option is None or option.option.refers_to != "retriever":
                return parts
            members = self._context.members  # the name of a sweep means all its combinations
            return list(
                dict.fromkeys(name for part in parts for name in members.get(part, (part,)))
            )
        text = self._scalar(node)
        if node.path in self._context.paths and not reads_environment(str(text)):
            return WrittenPath(text)
        return Quoted(text) if node.quoted and isinstance(text, str) else text

    def _scalar(self, node: Node) -> Any:
        """Return a scalar with the values of its variables, and without secrets.

        `${NAME}` stays for a variable that holds a secret; a secret in the config itself becomes
        `***`.
        """
        value = node.source if isinstance(node.value, str) else node.value
        value = self._substituted(node) if node.parts else value
        if _is_secret_by_name(node.path, value, self._environment.declared):
            return secrets.MASK
        if not isinstance(value, str) or secrets.is_placeholder(value) or reads_environment(value):
            return value
        return self._clean(secrets.mask_secrets(value))

    def _substituted(self, node: Node) -> Any:
        """Return a scalar with the values of its variables; `${NAME}` stays for a secret.

        Values are escaped, so that a `${` in them is no variable.
        """
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
    """Yield the texts of a scalar, each with True if it is a reference to a secret.

    A secret variable that is not set gives its default, which becomes `***`.
    """
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
    """YAML writer that quotes text wherever YAML 1.1 or 1.2 would read another type.

    `to_yaml` passes it to `yaml.dump`, which raises a yaml.YAMLError for an object that is no data.
    """

    def ignore_aliases(self, data: Any) -> bool:
        """Return True, so that equal parts are written twice instead of as aliases."""
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=_style(value))


def _style(value: str) -> str | None:
    """Return '"' for a text that reads back differently without quotes; else None.

    It reads back as YAML 1.2; for words such as `yes`, PyYAML sets the quotes by itself. A text
    with `${` keeps the form that it has in the config, as its value may be a number.
    """
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


def _number(dumper: yaml.SafeDumper, value: float) -> yaml.ScalarNode:
    """Return a float as YAML 1.2 writes it: `.inf` and `.nan` have a dot."""
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
# SafeDumper has no representation of tuples
_Dumper.add_representer(tuple, _Dumper.represent_list)
_Dumper.add_representer(float, _number)


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
        path = os.path.abspath(config.base / Path(text.replace("$${", "${")).expanduser())
        if folder is None:
            return text
        return escaped(Path(os.path.relpath(path, folder.absolute())).as_posix())

    resolved = _with_texts(config.resolved, path_text)
    metrics = resolved.get("metrics") or {}
    if config.metrics.generation is not None and "generation" in metrics and folder is not None:
        # of a group any metric will do: none of them has a path, so that its name stays
        entries = {entry.row: entry.metric for entry in config.metrics.generation}
        metrics["generation"] = [
            _metric(entries[row], text, path_text) for row, text in enumerate(metrics["generation"])
        ]
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
        return {key: _with_texts(part, path_text) for key, part in value.items()}
    if isinstance(value, list):
        return [_with_texts(part, path_text) for part in value]
    return path_text(value) if isinstance(value, WrittenPath) else value


def _metric(metric: Metric, metric_name: str, path_text: Callable[[str], str]) -> str:
    """Return the name of a metric with the `path_text` of each of its absolute paths.

    A name without such paths, or with a variable in it, stays as written.
    """
    declared = declared_options(metric.declaration.function)
    paths = {
        name: path_text(value)
        for name, value in metric.chosen.items()
        if declared[name].option.refers_to and os.path.isabs(str(value))
    }
    if not paths or reads_environment(metric_name):
        return metric_name
    return escaped(replace(metric, chosen={**metric.chosen, **paths}).canonical)
