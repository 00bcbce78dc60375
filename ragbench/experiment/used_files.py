"""Files of a project that a run imports or reads: the code and data behind its results."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Folders in a project whose files are no part of it.
_FOREIGN = frozenset({"site-packages", "node_modules", "__pycache__"})
# Imports by which the code of a component asks other code, which ragbench does not see.
_CALLS_OTHERS = re.compile(
    rb"^\s*(?:import|from)\s+(?:subprocess|multiprocessing|socket|http\.client|urllib|requests|httpx"
    rb"|aiohttp|grpc|openai|anthropic|google|boto3|litellm|ollama|langchain|llama_index|haystack)\b",
    re.MULTILINE,
)
_DIGITS = 16
# Bytes of a file whose size and time stand for its content: an index may have gigabytes
_LARGE = 64_000_000


@dataclass
class UsedFiles:
    """Files of a project that were opened for reading while `watch_files` was active.

    Attributes:
        root: Folder of the project.
        excluded: Folders in it whose files do not count, such as that of the runs.
        opened: Paths of the opened files.
    """

    root: Path
    excluded: Sequence[Path] = ()
    opened: set[str] = field(default_factory=set)

    def digests(self) -> dict[str, str]:
        """Return path in the project -> hash, of opened files and imported modules; sorted."""
        return {name: _digest(file) for name, file in self._files()}

    def calls_others(self) -> bool:
        """Return True if a module of the project imports a client or starts processes."""
        modules = [file for name, file in self._files() if name.endswith(".py")]
        return any(_CALLS_OTHERS.search(file.read_bytes()) for file in modules)

    def _files(self) -> Iterator[tuple[str, Path]]:
        """Yield path in the project and path of each file that counts, in order."""
        modules = [getattr(module, "__file__", None) for module in [*sys.modules.values()]]
        names = {name for name in (*self.opened, *modules) if isinstance(name, str)}
        for file in map(Path, sorted(names)):
            name = self._name_of(file)
            # a file may be gone, or be a folder or a device
            with suppress(OSError):
                if name is not None and file.is_file():
                    yield name, file

    def _name_of(self, file: Path) -> str | None:
        """Return the path of a file in the project; None for a file that does not count."""
        if not file.is_relative_to(self.root):
            # the folder of the project may be reached by a link
            file = file.resolve()
        is_own = file.is_relative_to(_PACKAGE)
        if is_own or not file.is_relative_to(self.root):
            return None
        if any(file.is_relative_to(folder) for folder in self.excluded):
            return None
        name = file.relative_to(self.root)
        is_foreign = any(part in _FOREIGN or part.startswith(".") for part in name.parts)
        return None if is_foreign else name.as_posix()


def _digest(file: Path) -> str:
    state = file.stat()
    content = f"{state.st_size} {state.st_mtime_ns}".encode()
    if state.st_size <= _LARGE:
        content = file.read_bytes()
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


_PACKAGE = Path(__file__).resolve().parents[1]
_watches: list[UsedFiles] = []
_has_hook: list[bool] = []


@contextmanager
def watch_files(root: Path, excluded: Sequence[Path] = ()) -> Iterator[UsedFiles]:
    """Note the files below `root` that this process opens for reading.

    The first call adds an audit hook, which stays until the process ends and does nothing between
    the calls.
    """
    watch = UsedFiles(root.resolve(), [folder.resolve() for folder in excluded])
    if not _has_hook:
        sys.addaudithook(_note_opened)
        _has_hook.append(True)
    _watches.append(watch)
    try:
        yield watch
    finally:
        _watches.remove(watch)


def _note_opened(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or not _watches:
        return
    path, _, flags = arguments
    is_read = not isinstance(flags, int) or not flags & (os.O_WRONLY | os.O_RDWR)
    if isinstance(path, (str, bytes)) and is_read:
        # an error in a hook would be one of the caller
        with suppress(OSError, ValueError):
            name = os.path.abspath(os.fsdecode(path))
            for watch in _watches:
                watch.opened.add(name)


def project_root(folder: Path) -> Path:
    """Return the repository around a folder; the folder itself without one."""
    folder = folder.resolve()
    return next((p for p in (folder, *folder.parents) if (p / ".git").exists()), folder)
