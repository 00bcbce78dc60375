"""Families of components: built-in types, types of installed packages, and `python:` paths."""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ragbench.errors import DataError, OptionError
from ragbench.registry.peer_names import counterpart

PYTHON = "python:"

T = TypeVar("T")


@dataclass(frozen=True)
class Family:
    """Family of components: the types that `type:` may name, imported on first use by `load`.

    `load` returns the class or function that a type names, not an object of it. It raises
    OptionError for an unknown type and DataError for code that cannot be imported.

    Attributes:
        noun: Name of one member: `retriever`.
        group: Entry point group of third parties: `ragbench.retrievers`.
        table: Built-in types: name -> `module:Name`.
        rare: Built-in types that `ragbench list` shows with `--all` alone.
    """

    noun: str
    group: str
    table: Mapping[str, str] = field(default_factory=dict)
    rare: frozenset[str] = frozenset()

    def names(self) -> list[str]:
        """Return the built-in types in the order of the table, then types of packages, sorted.

        A type of a package with the name of a built-in one is left out.
        """
        names = [*self.table]
        for name in sorted(self._plugins()):
            if name not in self.table:
                names.append(name)
        return names

    def load(self, type_name: str, search: Sequence[Path] = ()) -> Any:
        """Import and return the component that a type names; a built-in type comes first.

        Args:
            type_name: A built-in type, a type of an installed package, or `python:module:Name`.
            search: Folders where `python:` looks before installed packages; they stay at the front
                of `sys.path`. Empty means those of the surrounding `looking_in`.

        Raises:
            OptionError: The type is unknown.
            DataError: The module cannot be imported, or has no such name, or the `python:` path is
                malformed.
            Exception: The error of a surrounding `checking_imports`, for a `python:` path.
        """
        if type_name.startswith(PYTHON):
            return load_object(type_name.removeprefix(PYTHON), search)
        if type_name in self.table:
            return _imported(self.table[type_name], ())
        if type_name in (plugins := self._plugins()):
            point = plugins[type_name]
            try:
                return point.load()
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # foreign modules may raise anything, also SystemExit
                reason = f"{type(error).__name__}: {error}"
                package = getattr(point.dist, "name", "an installed package")
                plugin = f"{self.noun} '{point.name}' of {package}"
                raise DataError(f"{plugin} cannot be loaded: {reason}") from error
        names = [*self.names(), f"{PYTHON}module:Name"]
        near = nearest(type_name, self.names())
        raise OptionError(self.noun, "type", type_name, ", ".join(names), near)

    def _plugins(self) -> dict[str, Any]:
        """Return the types of installed packages: name -> entry point."""
        plugins: dict[str, Any] = {}
        for folder in reversed(sys.path):  # of two with one name, Python imports the first
            plugins |= _entry_points(folder).get(self.group, {})
        return plugins


@functools.lru_cache(maxsize=1024)  # reading a file of each package takes longer than a config
def _entry_points(folder: str) -> dict[str, dict[str, Any]]:
    """Return the entry points of the packages in a folder of `sys.path`: group -> name -> point."""
    # imported here: importlib.metadata costs more than everything else in this module
    from importlib.metadata import distributions

    groups: dict[str, dict[str, Any]] = {}
    for package in distributions(path=[folder]):
        for point in package.entry_points:
            if point.group.startswith("ragbench."):
                groups.setdefault(point.group, {})[point.name] = point
    return groups


# Folders where `load_object` looks if its caller names none
_SEARCH: ContextVar[tuple[Path, ...]] = ContextVar("search", default=())


@contextmanager
def _set_for_block(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Set a context variable for the time of a `with` block; its old value returns afterwards."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def looking_in(folders: Sequence[Path]) -> AbstractContextManager[None]:
    """Look for code in these folders first inside a `with` block, if `load_object` gets no others.

    For names of code that stand deep in a text, such as those of measures with their options.
    """
    return _set_for_block(_SEARCH, tuple(folders))


def code_folders(folders: Iterable[Path]) -> list[Path]:
    """Return folders of a user's code, each followed by its folder `src` if it has one.

    Packages in `src` are found so without being installed.
    """
    places = []
    for folder in folders:
        places.append(folder)
        if (source := folder / "src").is_dir():
            places.append(source)
    return places


# Called with a module before its import, and its file or folders; raises to refuse it
ImportCheck = Callable[[str, Sequence[Path]], None]
_IMPORT_CHECK: ContextVar[ImportCheck | None] = ContextVar("check", default=None)


def checking_imports(check: ImportCheck) -> AbstractContextManager[None]:
    """Call `check` before each import of `load_object` inside a `with` block.

    It gets each parent package, then the module, with their files or folders. It raises to refuse,
    and the error passes through `load_object`.
    """
    return _set_for_block(_IMPORT_CHECK, check)


def load_object(path: str, search: Sequence[Path] = ()) -> Any:
    """Import `package.module:Name` and return the object.

    Folders in `search` go to the front of `sys.path` and stay there, as Python does with the folder
    of a script, so that the user's module can import its neighbours later. Ctrl-C during the import
    passes through.

    Args:
        path: Module and name, which may be dotted: `package.module:Class.method`.
        search: Folders that are searched before installed packages; empty means those of the
            surrounding `looking_in`.

    Raises:
        DataError: The path is malformed, the module cannot be imported, or it has no such name.
        Exception: The error of a surrounding `checking_imports`.
    """
    module_name, _, name = path.partition(":")
    if not module_name or not name:
        raise DataError(f"found '{path}'", allowed="package.module:Name")
    return _imported(path, search or _SEARCH.get(), _IMPORT_CHECK.get())


def _imported(path: str, search: Sequence[Path], check: ImportCheck | None = None) -> object:
    """Import a module and return the object that the path names in it."""
    module_name, _, name = path.partition(":")
    for folder in reversed([str(folder) for folder in search]):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    if check is not None:
        _check_import(module_name, check)
    try:
        module = importlib.import_module(module_name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a user's module may raise anything, also SystemExit
        places = ", ".join(dict.fromkeys(map(str, [*search, "installed packages"])))
        reason = f"{type(error).__name__}: {error}"
        raise DataError(f"cannot import '{module_name}': {reason} (looked in {places})") from error
    try:
        return functools.reduce(getattr, name.split("."), module)
    except AttributeError as error:
        near = nearest(name, vars(module))
        raise DataError(f"'{module_name}' has no '{name}'", nearest=near) from error


def _check_import(module: str, check: ImportCheck) -> None:
    """Call `check` for the parent packages of a module, the outermost first, then for itself."""
    from importlib.util import find_spec

    # finding a module imports its parent packages, so that these are checked first
    for name in itertools.accumulate(module.split("."), "{}.{}".format):
        try:
            spec = find_spec(name)
        except (Exception, SystemExit):  # noqa: BLE001 - the import itself raises the error again
            return
        files = [spec.origin] if spec and spec.has_location else []
        folders = spec.submodule_search_locations or [] if spec and not files else []
        check(name, [Path(file).resolve() for file in (*files, *folders) if file])


def nearest(word: str, allowed: Iterable[str]) -> str | None:
    """Return the allowed name with the spelling nearest to a wrong one, in any case.

    Case does not matter, and the match must be at least 0.6 alike (difflib). A name without a near
    one gives None. The name of a metric of ragas or deepeval gives its counterpart instead, or
    None.
    """
    allowed = list(allowed)
    peer = counterpart(word)
    if peer is not None:
        # the nearest spelling would be of another score: factual_correctness, tool_call_correctness
        return peer if peer.partition("(")[0] in allowed else None
    by_fold = {name.casefold(): name for name in allowed}
    close = difflib.get_close_matches(word.casefold(), by_fold, n=1, cutoff=0.6)
    return by_fold[close[0]] if close else None


def check_allowed(owner: str, option: str, names: Iterable[str], allowed: Iterable[str]) -> None:
    """Raise an error for the first name that is not allowed, with the nearest allowed name.

    Args:
        owner: Component or function, for the message.
        option: Its option, for the message.
        names: Names to check.
        allowed: All allowed names.

    Raises:
        OptionError: A name is not allowed.
    """
    allowed = list(dict.fromkeys(allowed))  # a list: a wrong name may be unhashable
    for name in names:
        if name not in allowed:
            raise OptionError(owner, option, name, ", ".join(allowed), nearest(str(name), allowed))


def summary_line(component: Any) -> str:
    """Return the first line of a component's docstring, without the full stop; '' without one.

    A class without a docstring has that of its base class.
    """
    return docstring(component).split("\n", 1)[0].strip().rstrip(".")


def docstring(component: Any) -> str:
    """Return the docstring of a class or function, or else of a base class; '' without one.

    `python -OO` drops docstrings. The text then comes from the source file, if there is one.
    """
    if sys.flags.optimize < 2:
        return inspect.getdoc(component) or ""
    import ast
    import textwrap

    classes = component.__mro__[:-1] if inspect.isclass(component) else [component]
    for documented in classes:
        try:
            source = inspect.getsource(documented)
        except (OSError, TypeError):  # a package without source files, or a class of C
            continue
        [definition] = ast.parse(textwrap.dedent(source)).body
        if not isinstance(definition, (ast.ClassDef, ast.FunctionDef)):
            continue
        if text := ast.get_docstring(definition):
            return text
    return ""
