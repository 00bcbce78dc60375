"""Files that a run imports or reads: the code and data behind its results.

An audit hook of Python notes the files that this process opens. Files of other processes are not
seen; the record has the reason why there may be some.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path

from ragbench.config.schema import ExperimentConfig

# Events of Python that start another program, whose files are not seen.
_PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn")
# Events of Python that list a folder; `glob` and `Path.glob` cause them, too.
_LISTINGS = ("os.listdir", "os.scandir")
_MODULE_SEARCH = ("importlib", "_frozen_importlib", "pkg_resources")
_OWN_PROGRAM = "git"  # ragbench asks it for the commit
# Folders in a project whose files are no part of it.
_FOREIGN = frozenset({"site-packages", "node_modules", "__pycache__"})
# Imports of clients and of processes: the code that they ask is not seen.
_CALLS_OTHERS = re.compile(
    rb"^\s*(?:import|from)\s+(?:subprocess|multiprocessing|socket|http\.client|urllib|requests|httpx"
    rb"|aiohttp|grpc|openai|anthropic|google|boto3|litellm|ollama|langchain|llama_index|haystack)\b",
    re.MULTILINE,
)
_DIGITS = 16
# Bytes of a file whose size and time stand for its content: an index may have gigabytes.
_LARGE = 64_000_000
_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(slots=True)
class UsedFiles:
    """Files that a process opened for reading; `watch_files` yields it.

    Attributes:
        paths: Paths as they were opened.
        hidden: Reason why other files may have been used: `a subprocess` or `a server on this
            machine`; empty without either.
        listed: Folders whose files the process listed, besides the search of modules.
    """

    paths: set[str] = field(default_factory=set)
    hidden: str = ""
    listed: set[str] = field(default_factory=set)

    def below(self, root: Path) -> dict[str, Path]:
        """Return path below a folder -> file, of opened files and imported modules; sorted."""
        start = os.path.join(os.path.realpath(root), "")
        folders: dict[str, str] = {}
        real_files = {_real_path(path, folders) for path in self.paths}
        for module in [*sys.modules.values()]:
            if path := getattr(module, "__file__", None):
                real_files.add(
                    _real_module(path) if os.path.isabs(path) else os.path.realpath(path)
                )
        files = {}
        for file in real_files:
            if file.startswith(start):
                files[Path(file.removeprefix(start)).as_posix()] = Path(file)
        return dict(sorted(files.items()))

    def names_below(self, root: Path) -> set[str]:
        """Return the paths of `below`, and those of listed folders, with a final `/`.

        The folder itself is `./`.
        """
        names, start = set(self.below(root)), os.path.realpath(root)
        for folder in map(os.path.realpath, self.listed):
            if os.path.commonpath((start, folder)) == start:
                names.add(f"{Path(folder).relative_to(start).as_posix()}/")
        return names

    def digests(self, root: Path, excluded: Sequence[Path] = ()) -> dict[str, str]:
        """Return path -> hash of the files of the project in a folder; sorted.

        A listed folder, with a final `/`, has a hash of the names in it. Files in the folders
        `excluded`, of installed packages, of ragbench, and in folders whose name starts with a dot
        are no files of the project.
        """
        hashes, start = {}, root.resolve()
        outside = [_PACKAGE, *(folder.resolve() for folder in excluded)]
        for folder in sorted(map(os.path.realpath, self.listed)):
            path = Path(folder)
            if path.is_relative_to(start) and not any(map(path.is_relative_to, outside)):
                name = path.relative_to(start).as_posix()
                if path.is_dir() and not is_foreign(name):
                    hashes[f"{name}/"] = _digest_of_names(path, outside)
        for name, file in self._files_of_project(root, excluded):
            # a file may be gone, or be a folder or a device
            with suppress(OSError):
                if file.is_file():
                    hashes[name] = _digest(file)
        return dict(sorted(hashes.items()))

    def calls_others(self, root: Path) -> bool:
        """Return True if a module of the project imports a client or starts processes."""
        for name, file in self._files_of_project(root, ()):
            if name.endswith(".py"):
                with suppress(OSError):
                    if _CALLS_OTHERS.search(file.read_bytes()):
                        return True
        return False

    def _files_of_project(self, root: Path, excluded: Sequence[Path]) -> Iterator[tuple[str, Path]]:
        folders = [_PACKAGE, *(folder.resolve() for folder in excluded)]
        for name, file in self.below(root).items():
            if not is_foreign(name) and not any(map(file.is_relative_to, folders)):
                yield name, file


def _real_path(path: str, folders: dict[str, str]) -> str:
    """Return the real path of a file; `folders` keeps those of folders, each of which is slow."""
    folder, name = os.path.split(os.path.abspath(path))
    if folder not in folders:
        folders[folder] = os.path.realpath(folder)
    file = os.path.join(folders[folder], name)
    return os.path.realpath(file) if os.path.islink(file) else file


# A process has thousands of modules, and each run asks for them several times.
_MODULE_FOLDERS: dict[str, str] = {}


@cache
def _real_module(path: str) -> str:
    """Return the real path of the file of a module, which stays where it was imported."""
    return _real_path(path, _MODULE_FOLDERS)


def is_foreign(name: str) -> bool:
    """Return True for a path of an installed package, or with a name that starts with a dot."""
    return any(part in _FOREIGN or part.startswith(".") for part in Path(name).parts)


def are_unchanged(root: Path, digests: Mapping[str, str], excluded: Sequence[Path] = ()) -> bool:
    """Return True if all files and folders have the digests of `UsedFiles.digests` still."""
    outside = [_PACKAGE, *(folder.resolve() for folder in excluded)]
    try:
        for name, digest in digests.items():
            path = root / name
            current = _digest_of_names(path, outside) if name.endswith("/") else _digest(path)
            if current != digest:
                return False
    except OSError:
        return False  # a file is gone
    return True


def _digest_of_names(folder: Path, outside: Sequence[Path]) -> str:
    """Return the hash of the names in a folder, without those that are no part of the project."""
    names = []
    for path in folder.resolve().iterdir():
        if not is_foreign(path.name) and path not in outside:
            names.append(path.name)
    return hashlib.sha256("\0".join(sorted(names)).encode()).hexdigest()[:_DIGITS]


def named_digests(config: ExperimentConfig, root: Path) -> dict[str, str]:
    """Return path -> hash of the files that a config names, data of outputs and caches apart.

    A path below the folder is relative to it. A folder, such as a corpus, is left out: the
    fingerprints of the data describe it.
    """
    blocks = (config.dataset, config.retrievers, config.generators, config.apps, config.metrics)
    hashes = {}
    for path in sorted({*_paths_in(blocks)}):
        with suppress(OSError):
            if path.is_file():
                file = path.resolve()
                name = file.relative_to(root) if file.is_relative_to(root) else file
                hashes[name.as_posix()] = _digest(file)
    return hashes


def _paths_in(value: object) -> Iterator[Path]:
    """Yield the paths in a config, at any depth."""
    if isinstance(value, Path):
        yield value
    elif isinstance(value, Mapping):
        yield from _paths_in(tuple(value.values()))
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _paths_in(part)
    elif is_dataclass(value) and not isinstance(value, type):
        for attribute in fields(value):
            yield from _paths_in(getattr(value, attribute.name))


def _digest(file: Path) -> str:
    state = file.stat()
    content = f"{state.st_size} {state.st_mtime_ns}".encode()
    if state.st_size <= _LARGE:
        content = file.read_bytes()
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


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
    if not _RECORDS:
        return
    if event == "open":
        _note_opened(*arguments)
    elif event in _LISTINGS:
        _note_listed(arguments[0], sys._getframe(1).f_globals.get("__name__"))
    elif event in _PROGRAMS:
        program = os.path.basename(os.fsdecode(str(arguments[0])))
        if program != _OWN_PROGRAM:
            _hide("a subprocess")
    elif event == "socket.connect" and _is_local(arguments[1]):
        _hide("a server on this machine")


def _note_opened(path: object, mode: object, flags: object) -> None:
    is_written = isinstance(flags, int) and flags & os.O_ACCMODE == os.O_WRONLY
    if is_written or not isinstance(path, (str, bytes, os.PathLike)):
        return
    # an error in a hook would reach the code that opens the file
    with suppress(OSError, ValueError):
        name = os.path.abspath(os.fsdecode(path))
        for record in _RECORDS:
            record.paths.add(name)


def _note_listed(path: object, module: object) -> None:
    # the search of modules and packages lists all folders of `sys.path`
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


def project_root(folder: Path) -> Path:
    """Return the repository around a folder; the folder itself without one."""
    folder = folder.resolve()
    for p in (folder, *folder.parents):
        if (p / ".git").exists():
            return p
    return folder
