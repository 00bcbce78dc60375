"""Secrets of a config: the values of its variables and options that no output may show.

`ragbench.secrets` knows the names and forms of secrets. This module applies these rules to the tree
of a config, where the path of a value and the declaration of its option count, too.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from ragbench import secrets
from ragbench.config.options import Blocks
from ragbench.config.tree import KeyPath, Node, Reference, Report, dotted, text_of
from ragbench.config.variables import reads_environment
from ragbench.records.manifest import EnvironmentVariable
from ragbench.secrets import Redactor

# Blocks whose keys are names that the user chose: `token` there is no sign of a secret
_BLOCKS = {("retrievers",), ("generators",), ("apps",)}
_LONG_SECRET = 8  # characters from which a secret inside another value is no coincidence
_LONG_PIECE = 4  # characters from which a value inside a secret is no coincidence


@dataclass(frozen=True)
class Environment:
    """The variables that a config names, and its secrets, in variables or in the config itself.

    `environment_of` returns it.

    Attributes:
        references: Variable -> its last reference, in the order of the file.
        hidden: Names of the variables that hold secrets.
        literal: Dotted key -> a secret that stands in the config itself.
        nearby: Place -> a long text beside a variable with a secret, or its default.
        declared: Places whose options are declared to hold secrets.
    """

    references: Mapping[str, Reference] = field(default_factory=dict)
    hidden: Collection[str] = ()
    literal: Mapping[str, str] = field(default_factory=dict)
    nearby: Mapping[str, str] = field(default_factory=dict)
    declared: Collection[KeyPath] = ()

    @property
    def secrets(self) -> dict[str, str]:
        """Values that must not be written anywhere, by variable or place.

        A variable that is not set has an empty value.
        """
        values = {}
        for name, reference in self.references.items():
            if name in self.hidden:
                values[name] = reference.value
        return {**values, **self.nearby, **self.literal}

    def record(self) -> dict[str, EnvironmentVariable]:
        """Return the variables as a manifest records them: without the values of secrets."""
        records = {}
        for name, reference in self.references.items():
            value = reference.value if reference.is_set else None
            records[name] = variable_record(value, secret=name in self.hidden)
        return records

    def hides(self, path: KeyPath, value: object) -> bool:
        """Return True if the keys of a value, or the declaration of its option, make it a secret.

        Placeholders and texts that name a variable are no secrets.
        """
        return _is_secret_by_name(path, value, self.declared)

    def redactor(self) -> Redactor:
        """Return the redactor of the secrets in the config itself, which writes `***` for them."""
        values = {}
        for place, value in self.literal.items():
            name = place.rpartition(".")[2]
            is_header = in_secret_option(tuple(place.split(".")))
            # values of headers may be plain words, which stand in other texts as well
            if secrets.is_secret_option(name) or secrets.looks_secret(value) or not is_header:
                values[f'"{place}"'] = value  # quotes: the redactor writes `***`, not `${NAME}`
        return Redactor(values)


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
        if any(_contains_secret(reference.value, value) for value in values):
            hidden.add(name)
    literal, nearby = {}, {}
    for node in tree.scalars():
        place = dotted(node.path)
        if not node.parts and _is_literal_secret(node, declared):
            literal[place] = str(node.value)
        for number, text in enumerate(_texts_beside_secrets(node, hidden)):
            # the quotes tell a place from the name of a variable
            nearby[f'"{place}" {number}' if number else place] = text
    return Environment(references, hidden, literal, nearby, declared)


def declared_secrets(node: Node, blocks: Blocks) -> Iterator[KeyPath]:
    """Yield the places of values whose options are declared to hold secrets.

    Args:
        node: The tree, sweeps written out.
        blocks: Place of a block -> its declared options.
    """
    declared, _ = blocks.get(node.path, ({}, ()))
    for key, entry in node.entries.items():
        if key in declared and declared[key].option.secret:
            for scalar in entry.node.scalars():
                yield scalar.path
        yield from declared_secrets(entry.node, blocks)
    for part in node.elements:
        yield from declared_secrets(part, blocks)


def report_secret_paths(tree: Node, environment: Environment, report: Report) -> None:
    """Report secrets in `name`, `output`, `cache` and `cache_also`, which become folders.

    No output masks the name of a folder. An existing folder is allowed.
    """
    for key in ("name", "output", "cache", "cache_also"):
        block = tree.get(key)
        for node in () if block is None else block.scalars():
            value = str(node.value)
            if value.startswith(("/", "~", "./")) and os.path.exists(value):
                continue  # an existing folder, such as the value of `SECRETS_DIR`, is no secret
            names = []
            for reference in node.references():
                if reference.name in environment.hidden:
                    names.append(reference.name)
            for name, secret in environment.secrets.items():
                if _contains_secret(value, secret):
                    names.append(name)
            if names:
                is_variable = names[0] in environment.references
                subject = f"the secret ${{{names[0]}}}" if is_variable else "a secret"
                problem = f"{subject} would become part of the name of a folder"
                report.wrong(node, problem, "a name without the secret")


def is_hidden(node: Node, reference: Reference) -> bool:
    """Return True if the value of a variable in a scalar is a secret.

    It is one by the name of the variable, by the keys of the scalar, or by its form. An empty value
    is no secret by its form.
    """
    if secrets.is_secret_variable(reference.name) or in_secret_option(node.path):
        return True
    value = reference.value
    if not value or secrets.looks_secret(value):
        return bool(value)
    # the value may be a part of an address, such as its password
    for part in secrets.secret_parts(text_of(node.parts)):
        is_piece = value == part or (len(value) >= _LONG_PIECE and value in part)
        if is_piece or _contains_secret(value, part):
            return True
    return False


def in_secret_option(path: KeyPath) -> bool:
    """Return True if a key on the way to a value names a secret, such as `token` or `headers`.

    Example:
        >>> in_secret_option(("retrievers", "token", "k1"))
        False
        >>> in_secret_option(("retrievers", "a", "headers", "X"))
        True
    """
    # without the name of the component
    keys = (*path[:1], *path[2:]) if path[:1] in _BLOCKS else path
    return secrets.is_secret_place(keys)


def is_secret_value(path: KeyPath, value: str) -> bool:
    """Return True if a key names a secret, or the last key ends in `key` and the value is random.

    Numbers of list elements are no keys here; for the last case see `is_key_like`.
    """
    name = next((key for key in reversed(path) if not key.isdigit()), "")
    return in_secret_option(path) or secrets.is_key_like(name, value)


def _is_secret_by_name(path: KeyPath, value: object, declared: Collection[KeyPath]) -> bool:
    """Return True if the keys of a value, or the declaration of its option, make it a secret."""
    text = str(value)
    if type(value) not in (str, int, float) or secrets.is_placeholder(text):
        return False
    if reads_environment(text):
        return False
    is_declared = path in declared and isinstance(value, str)
    if is_declared and not secrets.is_harmless(path[-1]):
        return True
    return is_secret_value(path, text)


def _is_literal_secret(node: Node, declared: Collection[KeyPath]) -> bool:
    """Return True for a scalar that is a secret by its form or by its keys."""
    is_text = isinstance(node.value, str) and not secrets.is_placeholder(node.source)
    if is_text and secrets.looks_secret(node.source):
        return True
    return _is_secret_by_name(node.path, node.value, declared)


def _contains_secret(value: str, secret: str) -> bool:
    """Return True if a value is the secret, or contains it and it has 8 or more characters."""
    if secrets.is_placeholder(secret):
        return False
    return value == secret or (len(secret) >= _LONG_SECRET and secret in value)


def _after_flags(node: Node) -> Iterator[KeyPath]:
    """Yield the places of list elements that follow a flag such as `--api-key`."""
    for flag, part in itertools.pairwise(node.elements):
        is_flag = isinstance(flag.value, str) and flag.value.startswith("-")
        is_value = isinstance(part.value, str) and not part.value.startswith("-")
        if is_flag and is_value and secrets.is_secret_option(str(flag.value)):
            yield part.path
    for part in node.elements or [entry.node for entry in node.entries.values()]:
        yield from _after_flags(part)


def _texts_beside_secrets(node: Node, hidden: Collection[str]) -> Iterator[str]:
    """Yield the long texts beside a variable with a secret in one scalar, and used defaults."""
    if not any(reference.name in hidden for reference in node.references()):
        return
    for part in node.parts:
        if isinstance(part, str):
            text = part.strip()
        elif part.value:
            continue
        else:
            text = part.default or ""
        if len(text) >= _LONG_SECRET and not secrets.is_placeholder(text):
            yield text
