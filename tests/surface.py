"""List what users write: public names with their parameters, commands with options, YAML keys.

`tests/test_public.py` compares the list with `tests/golden/surface.txt`, and `make golden` rewrites
that file. A removed line is a change that breaks configs or code of users.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any
from unittest.mock import Mock

import click

from ragbench import pytest_plugin

MODULES = ("ragbench", "ragbench.stats", "ragbench.testing")


def list_surface() -> str:
    """List a line per public name, command, option and YAML key."""
    from ragbench.cli import group
    from ragbench.config.json_schema import config_schema

    lines = [line for module in MODULES for line in _python_names(module)]
    lines += _plugin_names()
    lines += _commands("ragbench", group)
    lines += sorted({f"yaml {path}" for path in _yaml_keys(config_schema(), "")})
    return "\n".join([*lines, ""])


def _python_names(module_name: str) -> Iterator[str]:
    module = importlib.import_module(module_name)
    names = getattr(module, "__all__", None) or [
        name
        for name, member in vars(module).items()
        if not name.startswith("_") and getattr(member, "__module__", None) == module_name
    ]
    for name in sorted(names):
        member, place = getattr(module, name), f"{module_name}.{name}"
        if inspect.isclass(member):
            yield f"{place}({_parameters(member)})"
            yield from _class_members(member, place)
        else:
            yield f"{place}({_parameters(member)})" if callable(member) else place


def _plugin_names() -> Iterator[str]:
    """Yield the assertions, the fixture and the options; pytest finds the rest by itself."""
    parser = Mock()
    pytest_plugin.pytest_addoption(parser)
    for name in ("assert_not_worse", "assert_retrieval"):
        yield f"ragbench.pytest_plugin.{name}({_parameters(getattr(pytest_plugin, name))})"
    yield f"pytest fixture {pytest_plugin.ragbench_run.__name__}"
    for call in parser.getgroup().addoption.call_args_list:
        yield f"pytest {call.args[0]}"


def _class_members(owner: type, place: str) -> Iterator[str]:
    """Yield public methods and properties; the fields of a dataclass are its parameters."""
    for name in sorted(dir(owner)):
        # the members of built-in bases differ between versions of Python
        bases = (base for base in owner.__mro__ if base.__module__ == "builtins")
        is_foreign = any(name in vars(base) for base in bases)
        member = inspect.getattr_static(owner, name)
        if name.startswith("_") or is_foreign:
            continue
        if isinstance(member, (classmethod, staticmethod)) or inspect.isfunction(member):
            yield f"{place}.{name}({_parameters(getattr(owner, name))})"
        else:
            yield f"{place}.{name}"


def _parameters(member: Any) -> str:
    """Return the names of parameters, with a default as `name=`, without annotations."""
    try:
        parameters = inspect.signature(member).parameters.values()
    except (ValueError, TypeError):  # a type of the standard library or NumPy
        return "..."
    bare = [
        parameter.replace(
            annotation=inspect.Parameter.empty,
            default=parameter.empty if parameter.default is parameter.empty else _Default(),
        )
        for parameter in parameters
        if parameter.name != "self" and not parameter.name.startswith("_")
    ]
    return str(inspect.Signature(bare)).strip("()")


class _Default:
    """A default; its value is no part of the surface."""

    def __repr__(self) -> str:
        return ""


def _commands(path: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command)
    for parameter in command.params:
        yield f"{path} {' '.join([*parameter.opts, *parameter.secondary_opts])}"
    if isinstance(command, click.Group):
        for name in sorted(command.list_commands(context)):
            child = command.get_command(context, name)
            assert child is not None
            yield f"{path} {name}"
            yield from _commands(f"{path} {name}", child)


def _yaml_keys(schema: Any, path: str) -> Iterator[str]:
    """Yield the dotted paths of a JSON Schema; `*` is any name, `[]` an entry of a list."""
    if not isinstance(schema, Mapping):
        return
    for name, part in schema.get("properties", {}).items():
        yield f"{path}{name}"
        yield from _yaml_keys(part, f"{path}{name}.")
    yield from _yaml_keys(schema.get("additionalProperties"), f"{path}*.")
    yield from _yaml_keys(schema.get("items"), f"{path[:-1]}[].")
    for word in ("anyOf", "oneOf", "allOf"):
        for part in schema.get(word, ()):
            yield from _yaml_keys(part, path)
    for word in ("if", "then", "else"):
        yield from _yaml_keys(schema.get(word), path)
    for name, part in schema.get("$defs", {}).items():
        yield from _yaml_keys(part, f"{name}: ")
