"""Files of a repository that a run imports or opens, recorded by an audit hook of Python."""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

# Events of Python that start another program, whose files are not seen
_PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn")
_OWN_PROGRAM = "git"  # ragbench asks it for the commit


@dataclass(slots=True)
class OpenedFiles:
    """Paths that a process opened, and a reason why others may be unseen; `record_files` yields it.

    Attributes:
        paths: Paths as they were opened.
        hidden: `a subprocess` or `a server on this machine`; empty without either.
    """

    paths: set[str] = field(default_factory=set)
    hidden: str = ""

    def below(self, root: Path) -> set[str]:
        """Return the opened files and imported modules below a folder, relative to it."""
        modules = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        start = f"{root}{os.sep}"
        files = set()
        for path in (*self.paths, *filter(None, modules)):
            absolute = os.path.realpath(path)
            if absolute.startswith(start):
                files.add(Path(absolute).relative_to(root).as_posix())
        return files


# A hook cannot be removed: one serves all records of the process, and does nothing without any
_RECORDS: list[OpenedFiles] = []
_HOOKS: list[object] = []


@contextmanager
def record_files() -> Iterator[OpenedFiles]:
    """Yield the record of the files that the process opens during the block."""
    if not _HOOKS:
        sys.addaudithook(_hook)
        _HOOKS.append(_hook)
    record = OpenedFiles()
    _RECORDS.append(record)
    try:
        yield record
    finally:
        # by identity: equal records are other ones
        _RECORDS[:] = [other for other in _RECORDS if other is not record]


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    """Add what an event of Python opens to all records."""
    if not _RECORDS:
        return
    if event == "open":
        path = arguments[0]
        if isinstance(path, (str, bytes, os.PathLike)):
            for record in _RECORDS:
                record.paths.add(os.path.abspath(os.fsdecode(path)))
    elif event in _PROGRAMS:
        program = os.path.basename(os.fsdecode(str(arguments[0])))
        if program != _OWN_PROGRAM:
            _hide("a subprocess")
    elif event == "socket.connect" and _is_local(arguments[1]):
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
