"""Record of the files, folders and programs that a run uses, by an audit hook of Python.

Files of other processes are not seen; the record has the reason why there may be some.
"""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from ragbench.experiment.used_files import UsedFiles

_MODULE_SEARCH = ("importlib", "_frozen_importlib", "pkg_resources")
_OWN_PROGRAM = "git"  # ragbench asks it for the commit
# A hook cannot be removed: one serves all records of the process, and does nothing without any.
_RECORDS: list[UsedFiles] = []
_HOOKS: list[object] = []
# Files that the modules of the latest config opened while they were imported.
_AT_LOAD = UsedFiles()


@contextmanager
def watch_imports() -> Iterator[None]:
    """Note the files that modules of a config open during the block, for `watch_files`."""
    _AT_LOAD.paths, _AT_LOAD.hidden, _AT_LOAD.listed = set(), "", set()
    with watch_files() as record:
        yield
    _AT_LOAD.paths, _AT_LOAD.hidden = record.paths, record.hidden
    _AT_LOAD.listed = record.listed


@contextmanager
def watch_files() -> Iterator[UsedFiles]:
    """Yield the record of the files that the process opens for reading during the block.

    The record begins with the files of `watch_imports`.
    """
    if not _HOOKS:
        sys.addaudithook(_note_event)
        _HOOKS.append(_note_event)
    record = UsedFiles({*_AT_LOAD.paths}, _AT_LOAD.hidden, {*_AT_LOAD.listed})
    _RECORDS.append(record)
    try:
        yield record
    finally:
        # by identity: two runs may have equal records
        _RECORDS[:] = [other for other in _RECORDS if other is not record]


def _note_event(event: str, arguments: tuple[object, ...]) -> None:
    """Add the file, folder or program of an event of Python to all records."""
    # Python reports thousands of other events, such as each `id`
    if _RECORDS and event in _NOTES:
        _NOTES[event](*arguments)


def _note_opened(path: object, mode: object, flags: object) -> None:
    is_written = isinstance(flags, int) and flags & os.O_ACCMODE == os.O_WRONLY
    if is_written or not isinstance(path, (str, bytes, os.PathLike)):
        return
    # an error in a hook would reach the code that opens the file
    with suppress(OSError, ValueError):
        name = os.path.abspath(os.fsdecode(path))
        for record in _RECORDS:
            record.paths.add(name)


def _note_listed(path: object) -> None:
    # the search of modules and packages lists all folders of `sys.path`
    module = sys._getframe(2).f_globals.get("__name__")
    if str(module).startswith(_MODULE_SEARCH):
        return
    # None is the working folder; a descriptor comes from removing a tree
    path = os.curdir if path is None else path
    if not isinstance(path, (str, bytes, os.PathLike)):
        return
    with suppress(OSError, ValueError):
        name = os.path.abspath(os.fsdecode(path))
        for record in _RECORDS:
            record.listed.add(name)


def _note_program(program: object, *_: object) -> None:
    if os.path.basename(os.fsdecode(str(program))) != _OWN_PROGRAM:
        _hide("a subprocess")


def _note_connected(_: object, address: object) -> None:
    if _is_local(address):
        _hide("a server on this machine")


def _hide(reason: str) -> None:
    """Mark all records: files of another process are not seen."""
    for record in _RECORDS:
        record.hidden = record.hidden or reason


def _is_local(address: object) -> bool:
    """Return True for an address of this machine, whose server may be code of the repository."""
    if not isinstance(address, tuple):
        return True  # a path of a socket
    host = str(address[0])
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# Event of Python -> function of its arguments; `glob` and `Path.glob` list folders, too. The files
# of another program are not seen.
_NOTES: Mapping[str, Callable[..., None]] = {
    "open": _note_opened,
    **dict.fromkeys(("os.listdir", "os.scandir"), _note_listed),
    **dict.fromkeys(("subprocess.Popen", "os.system", "os.exec"), _note_program),
    **dict.fromkeys(("os.posix_spawn", "os.spawn"), _note_program),
    "socket.connect": _note_connected,
}
