"""All patterns of the package: of its modules, and of calls of `re` in its functions."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import ragbench
from tests.house import SourceFile, read_once

# a pattern that is linear for `match` may be quadratic for a search from each position
METHODS = ("match", "fullmatch", "search", "split", "findall", "finditer", "sub", "subn")
_INDENTED_CALL = re.compile(rf"^ .*\bre\.(?:{'|'.join(METHODS)}|compile)\(", re.MULTILINE)


@dataclass(frozen=True)
class PatternUse:
    """A pattern, the module that has it, and the method of `re` that reads texts with it."""

    module: str
    name: str
    pattern: re.Pattern[Any]
    method: str

    @property
    def label(self) -> str:
        """Name for the output of a test."""
        return f"{self.module.removeprefix('ragbench.')}:{self.name}:{self.method}"


@cache
def names_with_patterns() -> list[str]:
    """Return the names of the modules that import `re`, without importing them."""
    root = Path(ragbench.__file__).parent
    files = [file.relative_to(root.parent) for file in root.rglob("*.py")]
    return sorted(
        ".".join(file.with_suffix("").parts).removesuffix(".__init__")
        for file in files
        if "\nimport re\n" in (root.parent / file).read_text(encoding="utf-8")
    )


@cache
def modules() -> tuple[ModuleType, ...]:
    """Return the modules of the package."""
    names = [info.name for info in pkgutil.walk_packages(ragbench.__path__, "ragbench.")]
    return tuple(
        importlib.import_module(name) for name in sorted(names) if not name.endswith("__main__")
    )


@cache
def _source_files() -> Mapping[Path, SourceFile]:
    root = Path(ragbench.__file__).parent
    return {root / file.path: file for file in read_once(root)}


def _source_file(module: ModuleType) -> SourceFile:
    return _source_files()[Path(module.__file__ or "")]


def source_tree(module: ModuleType) -> ast.Module:
    """Return the syntax tree of a module."""
    return _source_file(module).tree


def pattern_uses(examples: Mapping[str, Callable[[], object]]) -> list[PatternUse]:
    """Return the patterns of the package, each once with each of its methods.

    Args:
        examples: `module:function` -> call of a function that makes a pattern of its arguments.
    """
    uses = {use.label: use for module in modules() for use in _module_patterns(module)}
    for module in modules():
        for function, call in pattern_calls(module):
            pattern = _value(function, call, module)
            if pattern is not None:
                use = PatternUse(module.__name__, function.name, pattern, _method_of(call))
                uses.setdefault(f"{use.label}:{pattern.pattern!r}", use)
    for place, example in examples.items():
        for number, pattern in enumerate(_compiled_by(place, example)):
            module, _, function = place.partition(":")
            use = PatternUse(module, f"{function}-{number}", pattern, "finditer")
            uses[use.label] = use
    return list(uses.values())


def open_places() -> set[str]:
    """Return `module:function` of each call of `re` whose pattern depends on arguments."""
    return {
        f"{module.__name__}:{function.name}"
        for module in modules()
        for function, call in pattern_calls(module)
        if _value(function, call, module) is None
    }


@cache
def pattern_calls(module: ModuleType) -> tuple[tuple[ast.FunctionDef, ast.Call], ...]:
    """Return (function, call of `re`) for the calls in the functions of a module."""
    if module.__name__ not in names_with_patterns():
        return ()
    if not _INDENTED_CALL.search(_source_file(module).text):  # to walk all functions takes seconds
        return ()
    calls: list[tuple[ast.FunctionDef, ast.Call]] = []
    for function in ast.walk(source_tree(module)):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            nodes = filter(_is_pattern_call, ast.walk(function))
            calls += [(function, node) for node in nodes]
    return tuple(calls)


def _is_pattern_call(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in (*METHODS, "compile")
    )


def _method_of(call: ast.Call) -> str:
    method = call.func.attr
    return "finditer" if method == "compile" else method


def _value(function: ast.FunctionDef, call: ast.Call, module: ModuleType) -> re.Pattern[Any] | None:
    """Return the pattern of a call; None if it depends on a local variable."""
    flags = [word.value for word in call.keywords if word.arg == "flags"]
    if call.func.attr == "compile":
        flags += call.args[1:]
    nodes = [call.args[0], *flags]
    local = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            local.add(node.id)
    read = {name.id for node in nodes for name in ast.walk(node) if isinstance(name, ast.Name)}
    if local & read:
        return None
    text, *numbers = (
        eval(compile(ast.Expression(node), "pattern", "eval"), vars(module).copy())
        for node in nodes
    )
    return re.compile(text, *numbers)


@cache
def _names_of_patterns(module: ModuleType) -> frozenset[str]:
    """Return the names in a module whose values are or hold patterns, imported ones included."""
    return frozenset(
        name for name, value in vars(module).items() if next(_patterns_in(value), None)
    )


def _module_patterns(module: ModuleType) -> Iterator[PatternUse]:
    """Yield the patterns that a module assigns to names, alone or in a table."""
    if not _names_of_patterns(module):
        return
    for name in _assigned(module):
        patterns = list(_patterns_in(vars(module).get(name)))
        for number, pattern in enumerate(patterns):
            label = name if len(patterns) == 1 else f"{name}-{number}"
            for method in sorted(_methods().get((module.__name__, name), {"finditer"})):
                yield PatternUse(module.__name__, label, pattern, method)


def _assigned(module: ModuleType) -> Iterator[str]:
    for node in source_tree(module).body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target in ast.walk(node):
                if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store):
                    yield target.id


def _patterns_in(value: object) -> Iterator[re.Pattern[Any]]:
    """Yield the patterns of a value, also those in tables."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _patterns_in(item)
    elif isinstance(value, (tuple, list, set, frozenset)):
        for item in value:
            yield from _patterns_in(item)


def _modules_that_name_patterns() -> Iterator[ModuleType]:
    """Yield the modules whose text has the name of a pattern: to parse all takes seconds."""
    names = frozenset[str]().union(*map(_names_of_patterns, modules()))
    for module in modules():
        if not names.isdisjoint(re.findall(r"\w+", _source_file(module).text)):
            yield module


@cache
def _methods() -> Mapping[tuple[str, str], set[str]]:
    """Return (module, name) -> methods that the package calls on the patterns of this name.

    A pattern that is passed on, or read as an attribute of its module, counts as `finditer` too.
    """
    methods: dict[tuple[str, str], set[str]] = defaultdict(set)
    for module in _modules_that_name_patterns():
        nodes = list(ast.walk(source_tree(module)))
        origins = {
            alias.asname or alias.name: (node.module, alias.name)
            for node in nodes
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        receivers = set()
        for node in nodes:
            if not isinstance(node, ast.Attribute):
                continue
            if isinstance(node.value, ast.Name):
                receivers.add(node.value)
                if node.attr in METHODS:
                    name = node.value.id
                    methods[origins.get(name, (module.__name__, name))].add(node.attr)
                owner, parent = origins.get(node.value.id, (None, None))
                methods[f"{owner}.{parent}", node.attr].add("finditer")
        for node in nodes:
            is_read = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
            if is_read and node not in receivers:
                methods[origins.get(node.id, (module.__name__, node.id))].add("finditer")
    return methods


def _compiled_by(place: str, example: Callable[[], object]) -> list[re.Pattern[Any]]:
    """Return the patterns that a function compiles while an example runs."""
    module, _, function = place.partition(":")
    with _spy(module, function) as patterns:
        example()
    return patterns


@contextmanager
def _spy(module: str, function: str) -> Iterator[list[re.Pattern[Any]]]:
    """Collect what a function of a module compiles."""
    patterns: list[re.Pattern[Any]] = []
    compile_pattern = re._compile

    def spy(text: Any, flags: int) -> re.Pattern[Any]:
        pattern = compile_pattern(text, flags)
        caller = sys._getframe(2)
        while caller.f_code.co_name.startswith("<"):  # a comprehension
            caller = caller.f_back
        if caller.f_globals["__name__"] == module and caller.f_code.co_name == function:
            patterns.append(pattern)
        return pattern

    re._compile = spy
    try:
        yield patterns
    finally:
        re._compile = compile_pattern
