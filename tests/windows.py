"""What Windows refuses and Linux allows, refused here too: open files, locks, links, signals.

It is no Windows. Shown is that ragbench does not lean on what only Linux allows; the rules are
those of the documentation of `MoveFileEx`, `DeleteFile`, `FlushFileBuffers`, `_locking`, `os.kill`.
"""

import errno
import fcntl
import io
import os
import sys
import types
from pathlib import Path


def pretend(monkeypatch, *, links=True):
    """Be Windows for the modules that ask `sys.platform`; without the right to make `links`."""
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setitem(sys.modules, "msvcrt", _locks())
    monkeypatch.setitem(sys.modules, "fcntl", None)  # importing it is an error
    for name in ("replace", "rename"):
        monkeypatch.setattr(os, name, _moving(getattr(os, name), over=name == "replace"))
    for name in ("unlink", "remove", "rmdir"):
        monkeypatch.setattr(os, name, _removing(getattr(os, name)))
    monkeypatch.setattr(os, "fsync", _writable_only(os.fsync))
    monkeypatch.setattr(os, "open", _no_folder(os.open))
    monkeypatch.setattr(os, "kill", _never)
    if not links:
        monkeypatch.setattr(os, "symlink", _not_allowed)


def _is_open(path):
    """Whether this process has a file open or mapped, or one below a folder."""
    path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    if os.path.islink(path):
        return False
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    used = {line.split(" ", 5)[-1].strip() for line in maps}
    for number in os.listdir("/proc/self/fd"):
        try:
            used.add(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue
    files = {each for each in used if os.path.isfile(each)}
    return any(each == path or each.startswith(f"{path}{os.sep}") for each in files)


def _refused(path, what=errno.EACCES):
    raise PermissionError(what, "The process cannot access the file", os.fspath(path))


def _moving(move, *, over):
    def moved(source, target, **options):
        if _is_open(source) or _is_open(target):
            _refused(target)
        if os.path.isdir(target) and (over or os.path.lexists(target)):
            _refused(target)  # nothing takes the place of a folder, nor of a link to one
        if not over and os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, "exists", os.fspath(target))
        return move(source, target, **options)

    return moved


def _removing(remove):
    def removed(path, *, dir_fd=None):
        folder = "" if dir_fd is None else os.readlink(f"/proc/self/fd/{dir_fd}")
        if _is_open(os.path.join(folder, os.fspath(path))):
            _refused(path)
        return remove(path, dir_fd=dir_fd)

    return removed


def _writable_only(sync):
    def synced(descriptor):
        number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
        if fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")
        return sync(descriptor)

    return synced


def _no_folder(opened):
    def checked(path, flags, mode=0o777, *, dir_fd=None):
        by_us = sys._getframe(1).f_globals.get("__name__", "").startswith("ragbench")
        if by_us and os.path.isdir(path):
            _refused(path)
        return opened(path, flags, mode, dir_fd=dir_fd)

    return checked


def _never(process, number):
    raise AssertionError("os.kill ends a process on Windows, whatever the signal")


def _not_allowed(*given, **options):
    raise OSError(1314, "A required privilege is not held by the client")


def _locks():
    """`msvcrt.locking`: of bytes, for one descriptor, until it is closed."""
    held: dict[tuple[int, int, int], int] = {}

    def is_held(place):
        try:
            found = os.fstat(held[place])
        except (KeyError, OSError):  # never taken, or closed
            return False
        return (found.st_dev, found.st_ino) == place[:2]

    def locking(descriptor, mode, count):
        found, at = os.fstat(descriptor), os.lseek(descriptor, 0, os.SEEK_CUR)
        place = (found.st_dev, found.st_ino, at)
        assert count == 1
        if mode == module.LK_UNLCK:
            held.pop(place, None)
        elif held.get(place) != descriptor and is_held(place):
            if mode == module.LK_LOCK:
                raise OSError(errno.EDEADLK, "Resource deadlock avoided")
            raise PermissionError(errno.EACCES, "Permission denied")
        else:
            held[place] = descriptor

    module = types.SimpleNamespace(locking=locking, LK_UNLCK=0, LK_LOCK=1, LK_NBLCK=2)
    return module


def lower_case(monkeypatch, folder: Path):
    """Make a folder tell no case apart: what `open` and `os.stat` are given below it is folded."""
    home = os.fspath(folder)

    def folded(path):
        if isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(home + os.sep):
            return home + os.fspath(path)[len(home) :].casefold()
        return path

    for name in (
        *("open", "stat", "lstat", "mkdir", "unlink", "listdir", "scandir", "utime", "chmod"),
        *("rmdir", "remove", "access", "readlink"),
    ):
        plain = getattr(os, name)
        monkeypatch.setattr(os, name, lambda p=".", *a, _f=plain, **k: _f(folded(p), *a, **k))
    monkeypatch.setattr(io, "open", lambda p, *a, _f=io.open, **k: _f(folded(p), *a, **k))
    for name in ("replace", "rename", "symlink", "link"):
        plain = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda p, q, *a, _f=plain, **k: _f(folded(p), folded(q), *a, **k)
        )
