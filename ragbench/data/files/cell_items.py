"""Items of a cell of a table, and whether an item is an id or a text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragbench.data.files.fields import TEXT_KEYS, read_list, text_of_item
from ragbench.data.files.printed_lists import is_printed, pieces_of, read_ids
from ragbench.data.files.rows import Entry
from ragbench.errors import DataError
from ragbench.types.column_words import Form

# ids of several documents in a text cell
_PIECES = re.compile(r"[;|,、；\n]")
_FILE_ENDING = re.compile(r"\.[A-Za-z]\w{0,4}$")
_SENTENCE_END = re.compile(r"""[.!?。！？][")”’»」]*$""")
_FEW_WORDS, _LONGEST_ID, _LONGEST_WORD = 5, 255, 60


def items_of(entry: Entry, column: str) -> Iterator[Any]:
    """Yield the items of a cell: of a list, also an inner one, or the ids between separators."""
    try:
        values = read_list(entry, column) or []
    except DataError:  # the reader of the part names the fault
        return
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from value
        elif isinstance(value, str) and is_printed(value.strip()):
            yield from _printed_ids(value.strip())
        elif isinstance(value, str):
            pieces = pieces_of(value, _PIECES)
            yield from pieces if all(map(_is_id, pieces)) else [value.strip()]
        elif value is not None:
            yield value


def _printed_ids(text: str) -> Sequence[Any]:
    """Return the ids of a printed list such as `[12 7 33]`; nothing for another text."""
    try:
        items = read_ids(text)
    except ValueError:  # the reader of the part names the fault
        return []
    return items if isinstance(items, list) else []


def value_of(item: Any) -> str:
    """Return the id of an item, or its text without an id; '' for an item with neither."""
    return text_of_item(item) or _inner_text(item) or ""


def _inner_text(item: Any) -> str | None:
    """Return the text of an object, such as a passage with its id; None for another item."""
    for key in TEXT_KEYS if isinstance(item, Mapping) else ():
        if isinstance(item.get(key), str):
            return str(item[key])
    return None


def has_text(item: Any) -> bool:
    """Return True for an object with a text, such as a passage with its id."""
    return _inner_text(item) is not None


def form_of(item: Any) -> Form:
    """Return the form of an item by itself; '' where it may be an id as well as a text."""
    if isinstance(item, Mapping):
        return "texts" if has_text(item) else "ids"
    if not isinstance(item, str):
        return "" if isinstance(item, bool) else "ids"
    text = item.strip()
    if not text:
        return ""
    if _is_id(text):
        return "ids"
    words = text.split()
    if _FILE_ENDING.search(text) and len(text) <= _LONGEST_ID and len(words) <= _FEW_WORDS:
        return "ids"
    is_sentence = len(words) >= _FEW_WORDS or bool(_SENTENCE_END.search(text)) or "\n" in text
    return "texts" if is_sentence or len(text) > _LONGEST_ID else ""


def is_sentence(item: Any) -> bool:
    """Return True for an item with a text of its own, and for a text that ends as a sentence."""
    if isinstance(item, str):
        return form_of(item) == "texts" and bool(_SENTENCE_END.search(item.strip()))
    return isinstance(item, Mapping) and form_of(item) == "texts"


def _is_id(text: str) -> bool:
    """Return True for one word that is no sentence, as of a script without blanks."""
    if len(text.split()) != 1 or len(text) > _LONGEST_ID:
        return False
    # a sentence in Chinese or Japanese has no blank
    return text.isascii() or not (_SENTENCE_END.search(text) or len(text) > _LONGEST_WORD)
