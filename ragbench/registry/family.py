"""A family of components: built-in ones, those of installed packages, and `python:` paths."""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeVar

from ragbench.errors import DataError, OptionError

PYTHON = "python:"

T = TypeVar("T")


@dataclass(frozen=True)
class Family:
    """A family of components: what `type:` may say, resolved on first use."""

    noun: str
    """What one member is called: `retriever`."""
    group: str
    """Entry point group of third parties: `ragbench.retrievers`."""
    table: Mapping[str, str] = field(default_factory=dict)
    """Built-in types: name -> `module:Name`."""

    def names(self) -> list[str]:
        """Every type that can be named, built-in ones first."""
        return [*self.table, *(name for name in sorted(self._plugins()) if name not in self.table)]

    def load(self, type_name: str, search: Sequence[Path] = ()) -> Any:
        """Import and return the component that a type names; `search`: see `load_object`."""
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
            except BaseException as error:  # a module of theirs may raise anything, also SystemExit
                reason = f"{type(error).__name__}: {error}"
                package = getattr(point.dist, "name", "an installed package")
                what = f"{self.noun} '{point.name}' of {package}"
                raise DataError(f"{what} cannot be loaded: {reason}") from error
        names = [*self.names(), f"{PYTHON}module:Name"]
        close = nearest(type_name, self.names())
        raise OptionError(self.noun, "type", type_name, ", ".join(names), close)

    def _plugins(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for folder in reversed(sys.path):  # of two with one name, the first is what is imported
            found |= _entry_points(folder, _last_change(folder)).get(self.group, {})
        return found


def _last_change(folder: str) -> int:
    """When something was last installed into a folder of the path, or removed from it."""
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return 0


@functools.lru_cache(maxsize=1024)  # every package has a file to read: more work than a config
def _entry_points(folder: str, changed: int) -> dict[str, dict[str, Any]]:
    """Read what the packages of a folder register: group -> name -> entry point."""
    # imported here: importlib.metadata costs more than everything else in this module
    from importlib.metadata import distributions

    found: dict[str, dict[str, Any]] = {}
    for package in distributions(path=[folder]):
        for point in package.entry_points:
            if point.group.startswith("ragbench."):
                found.setdefault(point.group, {})[point.name] = point
    return found


_SEARCH: ContextVar[tuple[Path, ...]] = ContextVar("search", default=())


@contextmanager
def _setting(variable: ContextVar[T], value: T) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def looking_in(folders: Sequence[Path]) -> AbstractContextManager[None]:
    """Look for code in these folders first, as long as the block runs, where no others are named.

    For names of code that lie deep in a text, such as those of measures with their options.
    """
    return _setting(_SEARCH, tuple(folders))


class Guard(Protocol):
    """Refuses code that is named, by raising an error."""

    def before(self, module: str, places: Sequence[Path | None]) -> None:
        """Look at a module that is about to be imported, and where it and its packages are."""
        ...

    def after(self, path: str, homes: Sequence[str]) -> None:
        """Look at an object: the modules that define it and what it was reached through."""
        ...


_GUARD: ContextVar[Guard | None] = ContextVar("guard", default=None)


def guarded_by(guard: Guard) -> AbstractContextManager[None]:
    """Show all code that is named to a guard first, as long as the block runs."""
    return _setting(_GUARD, guard)


def load_object(path: str, search: Sequence[Path] = ()) -> Any:
    """Import `package.module:Name` and return the object.

    Folders in `search` go to the front of `sys.path` and stay there, as Python does with the
    folder of a script, so that the user's module can import its neighbours later on.
    """
    module_name, _, name = path.partition(":")
    if not module_name or not name:
        raise DataError(f"found '{path}'", allowed="package.module:Name")
    search, guard = search or _SEARCH.get(), _GUARD.get()
    if guard is None:
        return _imported(path, search)
    guard.before(module_name, _places(module_name, search))
    homes: list[str] = []
    found = _imported(path, search, homes)
    guard.after(path, homes)
    return found


def _places(module: str, search: Sequence[Path]) -> list[Path | None]:
    """Where a module and the packages around it are, outermost first; nothing is imported.

    None stands for one that is not found, or that Python has built in.
    """
    places: list[Path | None] = []
    path: list[str] = [*map(str, search), *sys.path]
    name = ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        known = sys.modules.get(name)
        # by its last part: the parent of a namespace would have to be imported first
        spec = getattr(known, "__spec__", None) if known else PathFinder.find_spec(part, path)
        if spec is None and known is None and not places:  # packages that are being developed
            finders = (getattr(finder, "find_spec", None) for finder in sys.meta_path)
            spec = next(filter(None, (find(name, None) for find in finders if find)), None)
        inside = [] if spec is None else [*(spec.submodule_search_locations or ())]
        files = inside if spec is None or not spec.has_location else [spec.origin or ""]
        places += [Path(file).resolve() for file in files] or [None]
        path = inside
    return places


def _home_of(found: object) -> str | None:
    """The module that a module, class or function is of; None of what is made already."""
    if isinstance(found, functools.partial):
        return _home_of(found.func)
    if isinstance(found, ModuleType):
        return found.__name__
    is_code = inspect.isclass(found) or inspect.isroutine(found)
    return (getattr(found, "__module__", None) or "builtins") if is_code else None


def _imported(path: str, search: Sequence[Path], homes: list[str] | None = None) -> object:
    """Return what a path names, and note in `homes` the modules that it is of."""
    module_name, _, name = path.partition(":")
    for folder in reversed([str(folder) for folder in search]):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module of the user's may raise anything, also SystemExit
        where = ", ".join(dict.fromkeys(map(str, [*search, "installed packages"])))
        reason = f"{type(error).__name__}: {error}"
        raise DataError(f"cannot import '{module_name}': {reason} (looked in {where})") from error
    try:
        found: object = module
        for part in name.split("."):
            found = getattr(found, part)
            if homes is not None and (home := _home_of(found)) is not None:
                homes.append(home)
    except AttributeError as error:
        close = nearest(name, vars(module))
        raise DataError(f"'{module_name}' has no '{name}'", nearest=close) from error
    return found


def nearest(word: str, allowed: Iterable[str]) -> str | None:
    """Return the allowed name that is spelt most like a wrong one, or None."""
    by_fold = {name.casefold(): name for name in allowed}
    close = difflib.get_close_matches(word.casefold(), by_fold, n=1, cutoff=0.6)
    return by_fold[close[0]] if close else None


def summary_line(component: Any) -> str:
    """Return the first line of a component's docstring, without the full stop."""
    return (inspect.getdoc(component) or "").split("\n", 1)[0].strip().rstrip(".")
