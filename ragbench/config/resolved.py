"""The record of a checked config: plain data without secrets that reads back as the same config."""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragbench import secrets
from ragbench.config.options import Blocks, Context
from ragbench.config.problems import KeyPath, Report, dotted
from ragbench.config.tree import Node, Quoted, Reference, WrittenPath, text_of
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
from ragbench.registry import DeclaredOption
from ragbench.secrets import Redactor


@dataclass(frozen=True)
class Environment:
    """The variables that a config names, and its secrets, in variables or in the config itself.

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
        """Values that must not be written anywhere, by variable or place."""
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
    """Return the record of a variable; None means that it is not set."""
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
    """Return the texts beside a variable with a secret in one scalar, and its defaults.

    Texts under eight characters are left out. Empty without such a variable.
    """
    if not any(reference.name in hidden for reference in node.references()):
        return []
    texts = [
        part.strip() if isinstance(part, str) else text_of(part.default or ())
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
    """Writer of a checked tree as plain data, without secrets."""

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

        A checked block has its defaults, in the declared order.
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
        """Return a value as plain data.

        Sweeps among retrievers are replaced by their combinations.
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
        """Return a scalar with variables written out, and `***` for a secret."""
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
    parts: Sequence[str | Reference], hidden: Collection[str], *, masks: bool = False
) -> Iterator[tuple[str, bool]]:
    """Yield the texts of a scalar, each with True if it is a reference to a secret.

    A secret variable that is not set stays as its default.

    Args:
        parts: Texts and references.
        hidden: Variables that hold secrets.
        masks: True inside the default of a secret, whose texts become `***`.
    """
    for part in parts:
        if isinstance(part, str):
            yield (secrets.MASK if masks and not secrets.is_placeholder(part) else part), False
        elif part.name in hidden and part.value:
            yield f"${{{part.name}}}", True
        elif part.value:
            yield part.value, False
        else:
            yield from _parts_to_write(
                part.default or (), hidden, masks=masks or part.name in hidden
            )
