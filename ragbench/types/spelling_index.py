"""Index of ids by their spellings, which finds ids that may mean one document.

`ragbench.types.spellings` says how spellings of one id differ.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import NamedTuple

from ragbench.types.spellings import FILE_ENDING, normal_lines

_LAST_SLASHES = re.compile(r"(?<!/)/+$", re.MULTILINE)


class Spelling(NamedTuple):
    """Normal text of an id, in two parts.

    Attributes:
        path: Folders and name without the file ending.
        ending: File ending with its point; empty without one.
    """

    path: str
    ending: str

    def is_like(self, other: Spelling) -> bool:
        """Return True if both may mean one document.

        Example:
            >>> name, *others = spell(["docs/Plan.md", "plan", "a/docs/plan.md", "a/plan.md"])
            >>> [name.is_like(other) for other in others]
            [True, True, False]
        """
        if self.ending and other.ending and self.ending != other.ending:
            return False
        longer, shorter = sorted((self.path, other.path), key=len, reverse=True)
        return longer == shorter or longer.endswith(f"/{shorter}")


def spell(ids: Iterable[str]) -> list[Spelling]:
    """Return the spelling of each id."""
    lines = [*ids]
    if not lines:
        return []
    paths, texts = (joined.split("\n") for joined in _paths_and_texts(lines))
    return [Spelling(path, text[len(path) :]) for path, text in zip(paths, texts, strict=True)]


def _paths_and_texts(lines: Sequence[str]) -> tuple[str, str]:
    """Return (paths without file endings, normal texts) of ids, each as the lines of one text."""
    joined = normal_lines(lines)
    if "/" in joined:  # most ids are no paths, and the search takes a third of the time
        joined = _LAST_SLASHES.sub("", joined)
    return FILE_ENDING.sub("", joined), joined


class SpellingIndex:
    """Index of ids by their spellings, which finds ids that are like others."""

    def __init__(self, entries: Iterable[tuple[str, Spelling]]) -> None:
        """Index ids, each by the spelling beside it."""
        self._by_path = defaultdict[str, list[tuple[str, Spelling]]](list)
        self._by_tail = defaultdict[str, list[tuple[str, Spelling]]](list)
        for entry in entries:
            path = entry[1].path
            self._by_path[path].append(entry)
            for tail in _tails(path):
                self._by_tail[tail].append(entry)
        self._last_steps = {path.rpartition("/")[2] for path in self._by_path} - {""}

    def near(self, names: Sequence[str], texts: Iterable[str]) -> Iterator[tuple[str, Spelling]]:
        """Yield the names whose text may be like an id of the index, each with its spelling.

        The path of the text is that of an id, but for folders before one of them.
        """
        lines = [*texts]
        if not lines:
            return
        joined, normal = _paths_and_texts(lines)
        paths = joined.split("\n")
        texts = paths if joined == normal else normal.split("\n")
        steps: Iterable[str] = paths
        if "/" in joined:
            steps = (path.rpartition("/")[2] for path in paths)
        # most names are not near: `compress` drops them without a step of the loop
        for row in compress(range(len(paths)), map(self._last_steps.__contains__, steps)):
            path = paths[row]
            has_path = path in self._by_path or path in self._by_tail
            if has_path or not self._by_path.keys().isdisjoint(_tails(path)):
                yield names[row], Spelling(path, texts[row][len(path) :])

    def alike(self, spelling: Spelling) -> set[str]:
        """Return the ids that are like a spelling."""
        lists = [self._by_path.get(path, ()) for path in (spelling.path, *_tails(spelling.path))]
        lists.append(self._by_tail.get(spelling.path, ()))
        names = set[str]()
        for entries in lists:
            for name, other in entries:
                if other.is_like(spelling):
                    names.add(name)
        return names


def _tails(path: str) -> list[str]:
    """Return the ends of a path after each of its slashes, longest first."""
    steps = path.split("/")
    return ["/".join(steps[start:]) for start in range(1, len(steps))]
