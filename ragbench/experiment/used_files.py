"""Files that a run imports or reads: the code and data behind its results."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path

from ragbench.config.schema import ExperimentConfig

# Path that leads through a folder of installed packages, or has a name that starts with a dot.
_FOREIGN = re.compile(r"(?:^|/)(?:\.[^/]|(?:site-packages|node_modules|__pycache__)(?:/|\Z))")
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
        hidden: Reason why other files may have been used, such as `a subprocess`; else empty.
        listed: Folders whose files the process listed, besides the search of modules.
    """

    paths: set[str] = field(default_factory=set)
    hidden: str = ""
    listed: set[str] = field(default_factory=set)

    def below(self, root: Path) -> dict[str, Path]:
        """Return path below a folder -> file, of opened files and imported modules; sorted."""
        start = os.path.join(os.path.realpath(root), "")
        folders: dict[str, str] = {}
        real_files = {_real_path(path, folders) for path in self.paths} | _MODULES.real_paths()
        files = {}
        for file in real_files:
            if file.startswith(start):
                files[file.removeprefix(start)] = Path(file)
        return dict(sorted(files.items()))

    def names_below(self, root: Path) -> set[str]:
        """Return the paths of `below`, and listed folders with a final `/`; `root` is `./`."""
        names, start = set(self.below(root)), os.path.realpath(root)
        for folder in map(os.path.realpath, self.listed):
            if os.path.commonpath((start, folder)) == start:
                names.add(f"{Path(folder).relative_to(start).as_posix()}/")
        return names

    def in_project(self, root: Path) -> ProjectFiles:
        """Return the files of the project in a folder, without installed packages and ragbench."""
        files = {}
        for name, file in self.below(root).items():
            if not is_foreign(name) and not file.is_relative_to(_PACKAGE):
                files[name] = file
        return ProjectFiles(root.resolve(), files, sorted(map(os.path.realpath, self.listed)))


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """Files of a project that a process used, and folders that it listed.

    Attributes:
        root: Folder of the project.
        files: Path below the folder -> file; sorted.
        listed: Real paths of the listed folders, also of others; sorted.
    """

    root: Path
    files: Mapping[str, Path]
    listed: Sequence[str]

    def digests(self, excluded: Sequence[Path] = ()) -> dict[str, str]:
        """Return path -> hash of the files and folders; sorted.

        A listed folder, with a final `/`, has a hash of the names in it. Installed packages,
        ragbench, the folders `excluded` and names that start with a dot are left out.
        """
        hashes, outside = {}, _outside(excluded)
        for folder in self.listed:
            path = Path(folder)
            if path.is_relative_to(self.root) and not any(map(path.is_relative_to, outside)):
                name = path.relative_to(self.root).as_posix()
                if path.is_dir() and not is_foreign(name):
                    hashes[f"{name}/"] = _digest_of_names(path, outside)
        for name, file in self.files.items():
            if any(map(file.is_relative_to, outside)):
                continue
            # a file may be gone, or be a folder or a device
            with suppress(OSError):
                if file.is_file():
                    hashes[name] = _digest(file)
        return dict(sorted(hashes.items()))

    def calls_others(self) -> bool:
        """Return True if a module of the project imports a client or starts processes."""
        for name, file in self.files.items():
            if name.endswith(".py"):
                with suppress(OSError):
                    if _CALLS_OTHERS.search(file.read_bytes()):
                        return True
        return False


def _outside(excluded: Iterable[Path]) -> list[Path]:
    """Return the real folders whose files are not of the project: ragbench and the excluded."""
    return [_PACKAGE, *(folder.resolve() for folder in excluded)]


def _real_path(path: str, folders: dict[str, str]) -> str:
    """Return the real path of a file; `folders` keeps those of folders, each of which is slow."""
    folder, name = os.path.split(os.path.abspath(path))
    if folder not in folders:
        folders[folder] = os.path.realpath(folder)
    file = os.path.join(folders[folder], name)
    return os.path.realpath(file) if os.path.islink(file) else file


class ModuleFiles:
    """Files of the imported modules, which stay as long as a name has the same module.

    A process has thousands of modules, and to look into each takes longer than a short stage.
    """

    def __init__(self) -> None:
        self._files: dict[str, tuple[object, str]] = {}
        self._folders: dict[str, str] = {}

    def real_paths(self) -> set[str]:
        """Return the real paths of the files of all modules that are imported now."""
        # `runfile` of an editor changes the file of the main module, and others keep theirs
        paths, files = set[str](), {}
        for name, module in sys.modules.copy().items():
            entry = self._files.get(name)
            if entry is None or entry[0] is not module:
                path = getattr(module, "__file__", None)
                if not path:
                    continue
                if name == "__main__" or not os.path.isabs(path):
                    paths.add(os.path.realpath(path))
                    continue
                entry = module, _real_path(path, self._folders)
            files[name] = entry
            paths.add(entry[1])
        self._files = files
        return paths


_MODULES = ModuleFiles()


def is_foreign(name: str) -> bool:
    """Return True for a path of an installed package, or with a name that starts with a dot."""
    return _FOREIGN.search(name) is not None


def are_unchanged(root: Path, digests: Mapping[str, str], excluded: Sequence[Path] = ()) -> bool:
    """Return True if all files and folders have the digests of `UsedFiles.digests` still."""
    outside = _outside(excluded)
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

    A path below the folder is relative to it. Folders are left out, such as that of a corpus.
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


def project_root(folder: Path) -> Path:
    """Return the repository around a folder; the folder itself without one."""
    folder = folder.resolve()
    for p in (folder, *folder.parents):
        if (p / ".git").exists():
            return p
    return folder
