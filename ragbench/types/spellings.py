r"""Spellings of an id: `Docs\Plan 07.md`, `docs/plan_7.md` and `plan_7` may mean one document.

Two ids are alike if they differ only in these ways:
    Unicode form (NFC), case, leading zeros of a number, `.0` behind an integer
    a blank, `%20` or a no-break space for `_`, and `\` for `/`
    folders before a path: `plan.md` and `docs/plan.md`, not `new/plan.md` and `old/plan.md`
    a file ending that one of them lacks: `plan` and `plan.md`, not `plan.pdf` and `plan.md`
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import NamedTuple

_FILE_TYPES = (
    "adoc asciidoc bib c cfg conf cpp cs css csv doc docm docx eml epub go gz h htm html ini ipynb "
    "java jpeg jpg js json jsonl jsx log markdown md mdx mht mhtml mp3 mp4 msg odp ods odt org "
    "parquet pdf php png ppt pptx ps py r rb rs rst rtf sh sql srt svg tex text tif tiff toml ts "
    "tsv tsx txt vtt wav webp wiki xhtml xls xlsx xml yaml yml zip"
)
# A list of types, since `os.path` and `1.b` have no ending. Each line of a text is an id.
_ENDING = re.compile(rf"\.(?:{_FILE_TYPES.replace(' ', '|')})$", re.MULTILINE)
_LAST_SLASHES = re.compile(r"(?<!/)/+$", re.MULTILINE)
# as pandas writes an integer beside an empty cell
_POINT_ZERO = re.compile(r"\.0+$", re.MULTILINE)
_INTEGER = re.compile(r"[+-]?[0-9]+")
# zeros before a number, not those behind a point: 1.05 is not 1.5
_ZEROS = re.compile(r"0(?<![0-9]0)(?<![0-9]\.0)0*(?=[0-9])")
_SEPARATORS = "#:_-/"
# a number with four digits is rather a year: report-2023 is no part of report
_PART = re.compile(
    r"(?P<separator>(?:::|[#:_/-])(?:(?:chunk|part|passage)[_:#-]?)?)[0-9]{1,3}$",
    re.MULTILINE | re.IGNORECASE,
)


def normal_texts(texts: Iterable[str]) -> list[str]:
    r"""Return texts without differences of spelling, but for folders and file endings.

    Example:
        >>> normal_texts(["Docs\\Plan 07.md", "7.0", "1.05"])
        ['docs/plan_7.md', '7', '1.05']
    """
    lines = [*texts]
    joined = _joined(lines)
    # all texts at once: calls for single ids would take several times as long
    if joined.isascii():
        joined = joined.lower()
    else:
        joined = unicodedata.normalize("NFC", joined).casefold()
        joined = unicodedata.normalize("NFC", joined).replace("\u00a0", "_")
    joined = joined.replace("%20", "_").replace(" ", "_").replace("\\", "/")
    joined = _POINT_ZERO.sub(_without_integer_zeros, joined)
    return _ZEROS.sub("", joined).split("\n") if lines else []


def without_parts(ids: Iterable[str]) -> list[str]:
    """Return ids without the number of a part at their end; other ids as they are.

    Example:
        >>> without_parts(["plan.md#3", "plan_chunk_12", "plan-2023"])
        ['plan.md', 'plan', 'plan-2023']
    """
    lines = [*ids]
    joined = _joined(lines)
    # ids without a separator, such as numbers, need no search, which looks at each character
    if any(separator in joined for separator in _SEPARATORS):
        joined = _PART.sub("", joined)
    return joined.split("\n") if lines else []


class PartForm(NamedTuple):
    """Form of the numbers of parts at the end of an id.

    Attributes:
        separator: Text before the last number; empty without one.
        numbers: Number of numbers in a row.
    """

    separator: str
    numbers: int


def part_form(name: str) -> PartForm:
    """Return the form of the numbers at the end of an id.

    Example:
        >>> part_form("plan_2-1"), part_form("plan")
        (PartForm(separator='-', numbers=2), PartForm(separator='', numbers=0))
    """
    separator, numbers = "", 0
    while match := _PART.search(name):
        separator, numbers = separator or match["separator"], numbers + 1
        name = name[: match.start()]
    return PartForm(separator, numbers)


def _joined(lines: Sequence[str]) -> str:
    """Return texts as the lines of one text; a line break inside a text becomes a blank."""
    joined = "\n".join(lines)
    if joined.count("\n") >= max(1, len(lines)):
        joined = "\n".join(line.replace("\n", " ") for line in lines)
    return joined


def _without_integer_zeros(match: re.Match[str]) -> str:
    """Return the replacement of `.0` at the end of a line: nothing behind an integer."""
    text, end = match.string, match.start()
    line = text.rfind("\n", 0, end) + 1
    # from the start of the line: a search in all texts before would take quadratic time
    start = max(line, text.rfind("/", line, end) + 1)
    return "" if _INTEGER.fullmatch(text, start, end) else match[0]


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
    return [Spelling(path, text[len(path) :]) for path, text in zip(*_paths(ids), strict=True)]


def _paths(ids: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return (path without file ending of each id, normal text of each id)."""
    lines = normal_texts(ids)
    joined = "\n".join(lines)
    if "/" in joined:  # most ids are no paths, and the search takes a third of the time
        joined = _LAST_SLASHES.sub("", joined)
    if not lines:
        return [], []
    return _ENDING.sub("", joined).split("\n"), joined.split("\n")


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
        paths, normal = _paths(texts)
        steps = (path.rpartition("/")[2] for path in paths)
        # most names are not near: `compress` drops them without a step of the loop
        is_near = map(self._last_steps.__contains__, steps)
        for name, path, text in compress(zip(names, paths, normal, strict=True), is_near):
            has_path = path in self._by_path or path in self._by_tail
            if has_path or not self._by_path.keys().isdisjoint(_tails(path)):
                yield name, Spelling(path, text[len(path) :])

    def alike(self, spelling: Spelling) -> set[str]:
        """Return the ids that are like a spelling."""
        lists = [self._by_path.get(path, ()) for path in (spelling.path, *_tails(spelling.path))]
        lists.append(self._by_tail.get(spelling.path, ()))
        names = set[str]()
        for entries in lists:
            names.update(name for name, other in entries if other.is_like(spelling))
        return names


def _tails(path: str) -> list[str]:
    """Return the ends of a path after each of its slashes, longest first."""
    steps = path.split("/")
    return ["/".join(steps[start:]) for start in range(1, len(steps))]
