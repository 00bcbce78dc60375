"""Packages that tests import when they first use them.

Each worker collects all tests: what their modules import, every worker would compile and load.
"""

from importlib import import_module
from types import ModuleType
from typing import Any


class Lazy:
    """A module that is imported when one of its names is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # pytest looks for its marks at all that a module holds
            raise AttributeError(attribute)
        return getattr(import_module(self._name), attribute)


def lazy_packages(module: ModuleType | None) -> set[str]:
    """Return the names of the packages that a test module imports on first use."""
    values = vars(module).values() if module is not None else ()
    return {vars(v)["_name"].partition(".")[0] for v in values if isinstance(v, Lazy)}
