"""Checked tree of a config as plain data, with all defaults and without secrets."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from ragbench import secrets
from ragbench.config.options import Context
from ragbench.config.secret_values import Environment
from ragbench.config.tree import (
    Node,
    Quoted,
    Reference,
    WrittenPath,
)
from ragbench.config.variables import escaped, reads_environment
from ragbench.registry import DeclaredOption


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
