"""Files of a difference that a run may use although Python opens none of them.

A program asks which files are in a folder, or whether a file is there, and compiled readers open
data themselves. The record of a run has the folders that it listed; for all else the names count
that stand in the code and the configs of the run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from ragbench.experiment.used_files import is_foreign

# Endings of files that Python opens, unless a text names the file
_OPENED_IN_PYTHON = frozenset({".py", ".pyi", ".toml", ".cfg", ".ini"})
# Endings of texts, which mostly Python opens, or people alone read
_TEXTS = frozenset({".txt", ".yaml", ".yml", ".md", ".rst"})
# Endings of files whose texts name other files; in code the names stand in quotes
_CODE = frozenset({".py"})
_NAMING = _CODE | {".toml", ".cfg", ".ini", ".yaml", ".yml", ".json"}
_SIGNS_OF_CODE = re.compile(rb"['\"/\n]")
_SIGNS = re.compile(rb"['\"/\s,\[\]{}]")
_LARGEST = 1_000_000  # bytes of a file that names others; larger ones are data


@dataclass(frozen=True)
class UsedNames:
    """Files and folders that the runs of a gate used, and the names in their texts.

    `may_use` tells whether a run may use a file of the difference without opening it in Python.

    Attributes:
        old: Root of the base.
        new: Root of the head.
        used: Files that either run imported or opened; folders that it listed end with `/`.
    """

    old: Path
    new: Path
    used: Collection[str]

    def may_use(self, file: str) -> bool:
        """Return True if a run may notice a changed file, named from the root, unseen."""
        path = PurePosixPath(file)
        suffix = path.suffix.lower()
        is_moved = (self.old / file).is_file() != (self.new / file).is_file()
        if is_moved and self._is_listed(path):
            return True
        if self._are_named(path.name):
            return True
        # a program may ask whether a file of any kind is there
        if suffix in _OPENED_IN_PYTHON and not is_moved:
            return False
        # a compiled reader loads a folder of which Python opens nothing
        if suffix in _TEXTS and not is_moved:
            return self._are_named(*path.parent.parts) and not self._opens_below(path.parent)
        # the folder of an index, and all files of one kind
        return self._are_named(*path.parent.parts) or self._is_ending(suffix)

    def _opens_below(self, folder: PurePosixPath) -> bool:
        """Return True if a run opened a file of a folder, or of one below it, in Python."""
        return any(not n.endswith("/") and n.startswith(f"{folder}/") for n in self.used)

    def _is_listed(self, path: PurePosixPath) -> bool:
        """Return True if a run listed the folder in which a file, or its new folder, appeared."""
        for folder in path.parents:
            if f"{folder}/" in self.used:
                return True
            if (self.old / folder).is_dir() and (self.new / folder).is_dir():
                return False
        return False

    def _are_named(self, *names: str) -> bool:
        """Return True if a used text names one of the files or folders."""
        return not self._words.isdisjoint(name.encode() for name in names)

    def _is_ending(self, suffix: str) -> bool:
        """Return True if a used text names files by their ending, as `{name}.csv` or `*.csv`."""
        ending = suffix.encode()
        endings = (b"}" + ending, b"*" + ending)
        return bool(suffix) and any(w == ending or w.endswith(endings) for w in self._words)

    @cached_property
    def _words(self) -> frozenset[bytes]:
        """Parts of paths that stand in the code and configs that either run used."""
        words = set[bytes]()
        for is_code, text in self._read_texts():
            words.update((_SIGNS_OF_CODE if is_code else _SIGNS).split(text))
        return frozenset(words)

    def _read_texts(self) -> Iterator[tuple[bool, bytes]]:
        """Yield the used texts of the project, with True for code."""
        for name in self.used:
            suffix = PurePosixPath(name).suffix.lower()
            if suffix not in _NAMING or is_foreign(name):
                continue
            files = [root / name for root in (self.old, self.new)]
            # a file of one side alone is part of the difference, or of the output of a run
            with suppress(OSError):
                if max(file.stat().st_size for file in files) <= _LARGEST:
                    for file in files:
                        yield suffix in _CODE, file.read_bytes()
