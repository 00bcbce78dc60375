"""Renewal of locks, threads and connections in child processes that `os.fork` creates."""

from __future__ import annotations

import os
import weakref
from typing import Any, Protocol


class Renewable(Protocol):
    """Object with locks, threads or connections that a forked child process cannot share."""

    def renew(self) -> None:
        """Set the fields to new locks, and to no threads and no connections; wait for nothing."""


_objects: weakref.WeakSet[Renewable] = weakref.WeakSet()
# Fields of the parent process, whose event loops and connections a child must not close.
_fields_of_parent: list[dict[str, Any]] = []


def renew_after_fork(renewable: Renewable) -> None:
    """Call `renew` of an object in each child process that is forked during its life.

    The object is held by a weak reference. It has its fields in `__dict__`, not in slots.
    """
    _objects.add(renewable)


def _renew_all() -> None:
    for renewable in list(_objects):
        _fields_of_parent.append(dict(vars(renewable)))
        renewable.renew()


os.register_at_fork(after_in_child=_renew_all)
