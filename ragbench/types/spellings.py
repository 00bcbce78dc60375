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
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_FILE_TYPES = (
    "adoc asciidoc bib c cfg conf cpp cs css csv doc docm docx eml epub go gz h htm html ini ipynb "
    "java jpeg jpg js json jsonl jsx log markdown md mdx mht mhtml mp3 mp4 msg odp ods odt org "
    "parquet pdf php png ppt pptx ps py r rb rs rst rtf sh sql srt svg tex text tif tiff toml ts "
    "tsv tsx txt vtt wav webp wiki xhtml xls xlsx xml yaml yml zip"
)
# A list of types, since `os.path` and `1.b` have no ending. Each line of a text is an id.
FILE_ENDING = re.compile(rf"\.(?:{_FILE_TYPES.replace(' ', '|')})$", re.MULTILINE)
# as pandas writes an integer beside an empty cell
_POINT_ZERO = re.compile(r"\.0+$", re.MULTILINE)
_INTEGER = re.compile(r"[+-]?[0-9]+")
# zeros before a number, not those behind a point: 1.05 is not 1.5
_ZEROS = re.compile(r"0(?<![0-9]0)(?<![0-9]\.0)0*(?=[0-9])")
_SEPARATORS = "#:_-/"
_IDS_PER_BLOCK = 1 << 16  # so few that copies of their text need little memory
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
    return normal_lines(lines).split("\n") if lines else []


def normal_lines(texts: Sequence[str]) -> str:
    """Return the normal texts as the lines of one text; the text is empty without any."""
    return _normal_text(_joined(texts))


def _normal_text(joined: str) -> str:
    """Return the normal texts of ids; both are the lines of one text."""
    # all texts at once: calls for single ids would take several times as long
    if joined.isascii():
        joined = joined.lower()
    else:
        joined = unicodedata.normalize("NFC", joined).casefold()
        joined = unicodedata.normalize("NFC", joined).replace("\u00a0", "_")
    joined = joined.replace("%20", "_").replace(" ", "_").replace("\\", "/")
    joined = _POINT_ZERO.sub(_without_integer_zeros, joined)
    return _ZEROS.sub("", joined)


def are_plain(ids: Sequence[str]) -> bool:
    """Return True if ids are their own normal texts, without folders, file endings and parts.

    Two plain ids are alike only if they are equal.

    Example:
        >>> are_plain(["4983", "d17"]), are_plain(["d17", "D18"]), are_plain(["d17.md"])
        (True, False, False)
    """
    # it loads NumPy, which a score of one question does without
    from ragbench.types.byte_ids import TextIds

    for start in range(0, len(ids), _IDS_PER_BLOCK):
        stop = min(start + _IDS_PER_BLOCK, len(ids))
        # packed ids stand in one text already
        text = ids.text(start, stop) if isinstance(ids, TextIds) else _joined(ids[start:stop])
        if any(separator in text for separator in _SEPARATORS):
            return False
        if FILE_ENDING.search(text) or _normal_text(text) != text:
            return False
    return True


def without_parts(ids: Iterable[str]) -> list[str]:
    """Return ids without the number of a part at their end; other ids as they are.

    Example:
        >>> without_parts(["plan.md#3", "plan_chunk_12", "plan-2023"])
        ['plan.md', 'plan', 'plan-2023']
    """
    lines = [*ids]
    joined = _joined(lines)
    # ids without a separator, such as numbers, need no search, which looks at each character
    if not lines or not any(separator in joined for separator in _SEPARATORS):
        return lines
    return _PART.sub("", joined).split("\n")


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
