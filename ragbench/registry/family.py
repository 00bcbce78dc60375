"""A family of components: built-in ones, those of installed packages, and `python:` paths."""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ragbench.errors import DataError, OptionError

PYTHON = "python:"

T = TypeVar("T")


@dataclass(frozen=True)
class Family:
    """A family of components: what `type:` may say, resolved on first use.

    Attributes:
        noun: What one member is called: `retriever`.
        group: Entry point group of third parties: `ragbench.retrievers`.
        table: Built-in types: name -> `module:Name`.
    """

    noun: str
    group: str
    table: Mapping[str, str] = field(default_factory=dict)

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


# Gets a module that is about to be imported, and its file or folders; raises to refuse it.
ImportCheck = Callable[[str, Sequence[Path]], None]
_CHECK: ContextVar[ImportCheck | None] = ContextVar("check", default=None)


def checking_imports(check: ImportCheck) -> AbstractContextManager[None]:
    """Call `check` before each module that `load_object` imports, as long as the block runs."""
    return _setting(_CHECK, check)


def load_object(path: str, search: Sequence[Path] = ()) -> Any:
    """Import `package.module:Name` and return the object.

    Folders in `search` go to the front of `sys.path` and stay there, as Python does with the
    folder of a script, so that the user's module can import its neighbours later on.
    """
    module_name, _, name = path.partition(":")
    if not module_name or not name:
        raise DataError(f"found '{path}'", allowed="package.module:Name")
    return _imported(path, search or _SEARCH.get(), _CHECK.get())


def _imported(path: str, search: Sequence[Path], check: ImportCheck | None = None) -> object:
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
    except BaseException as error:  # a module of the user's may raise anything, also SystemExit
        where = ", ".join(dict.fromkeys(map(str, [*search, "installed packages"])))
        reason = f"{type(error).__name__}: {error}"
        raise DataError(f"cannot import '{module_name}': {reason} (looked in {where})") from error
    try:
        return functools.reduce(getattr, name.split("."), module)
    except AttributeError as error:
        close = nearest(name, vars(module))
        raise DataError(f"'{module_name}' has no '{name}'", nearest=close) from error


def _check_import(module: str, check: ImportCheck) -> None:
    from importlib.util import find_spec

    # finding a module imports the packages around it, so these are checked first
    for name in itertools.accumulate(module.split("."), "{}.{}".format):
        try:
            spec = find_spec(name)
        except (Exception, SystemExit):  # noqa: BLE001 - the import itself says what is wrong
            return
        files = [spec.origin] if spec and spec.has_location else []
        folders = spec.submodule_search_locations or [] if spec and not files else []
        check(name, [Path(file).resolve() for file in (*files, *folders) if file])


def nearest(word: str, allowed: Iterable[str]) -> str | None:
    """Return the allowed name that is spelt most like a wrong one, or None."""
    by_fold = {name.casefold(): name for name in allowed}
    close = difflib.get_close_matches(word.casefold(), by_fold, n=1, cutoff=0.6)
    return by_fold[close[0]] if close else None


def check_allowed(owner: str, option: str, names: Iterable[str], allowed: Iterable[str]) -> None:
    """Raise an error for the first name that is not allowed, with the allowed name nearest to it.

    Raises:
        OptionError: A name is not allowed.
    """
    allowed = list(dict.fromkeys(allowed))  # a name of a caller may be unhashable: no look-up
    for name in names:
        if name not in allowed:
            raise OptionError(owner, option, name, ", ".join(allowed), nearest(str(name), allowed))


def summary_line(component: Any) -> str:
    """Return the first line of a component's docstring, without the full stop."""
    return (inspect.getdoc(component) or "").split("\n", 1)[0].strip().rstrip(".")
