"""Tell from the cells of a column whether it holds ids of documents or texts of passages.

Names of columns say less than their cells: `gold_chunks` may hold ids, `relevant_docs` texts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from functools import cache
from typing import Any

from ragbench.data.files.cell_items import form_of, has_text, is_sentence, items_of, value_of
from ragbench.data.files.fields import text_of_item
from ragbench.data.files.gold import DocumentNames, GoldIds
from ragbench.data.files.printed_lists import is_printed
from ragbench.data.files.rows import Entry
from ragbench.errors import DataError
from ragbench.registry import quote
from ragbench.types.column_words import Form, part_of_texts

# Rows whose cells are looked at for their form.
_SAMPLED_ROWS = 200
_MIXED_ID = re.compile(r"(?=\S*[A-Za-z])(?=\S*\d)\S+|https?://\S+|\S+\.[A-Za-z]\w{0,4}")
_PLACE = re.compile(r"https?://\S+|\S+\.[A-Za-z]\w{0,4}")
_WIDEST = 40


class ColumnContents:
    """Cells of the columns of a table, beside the names of the corpus.

    It is created with the rows and the names of the corpus (None without one). `form(column)`
    returns what the cells hold, `share_known` and `holds_ids` whether their ids are of the corpus,
    `meets(column, other)` whether two columns share values, and `example` the first value.
    """

    def __init__(self, entries: Sequence[Entry], names: DocumentNames | None) -> None:
        self._entries, self._names = entries, names
        self._items = cache(self._read_items)

    def form(self, column: str) -> Form:
        """Return `ids` or `texts` for what most items of a column are; '' where nothing tells.

        An id has no white space, or is one that the corpus has. A text has the words of a sentence,
        or is an object with a text.
        """
        if self._are_known(column):
            return "ids"
        counts = Counter(map(form_of, self._items(column)))
        if counts["ids"] == counts["texts"]:
            return ""
        return "ids" if counts["ids"] > counts["texts"] else "texts"

    def are_surely_texts(self, column: str) -> bool:
        """Return True if every item of a column is a sentence or has a text, whatever its name."""
        items = self._items(column)
        are_texts = bool(items) and all(map(is_sentence, items))
        return are_texts and not self._are_known(column)

    def are_places(self, column: str) -> bool:
        """Return True if every item of a column is an address or the name of a file."""
        items = self._items(column)
        return bool(items) and all(isinstance(i, str) and _PLACE.fullmatch(i) for i in items)

    def has_objects_with_ids(self, column: str) -> bool:
        """Return True if an item of a column is an object with an id."""
        return any(isinstance(i, Mapping) and text_of_item(i) for i in self._items(column))

    def meets(self, column: str, other: str) -> bool:
        """Return True if at least half of the values in a column stand in another one, too."""
        values = set(map(value_of, self._items(column))) - {""}
        other_values = set(map(value_of, self._items(other))) - {""}
        return bool(values) and 2 * len(values & other_values) >= len(values)

    def are_ids_of_corpus(self, column: str) -> bool:
        """Return True if at least half of the texts of a column are ids of the corpus as such."""
        return self._are_known(column, by_other_names=False)

    def holds_ids(self, column: str) -> bool:
        """Return True if at least half of the ids in a column are of the corpus.

        False without a corpus, without ids, and for a column that cannot be read as ids.
        """
        n_known, total = self.share_known(column)
        return total > 0 and n_known * 2 >= total

    def holds_pools(self, column: str) -> bool:
        """Return True if a cell is a list, or the cells are ids of the corpus.

        Other cells of a column named `pool` may be of anything.
        """
        for entry in self._entries:
            value = entry.values.get(column)
            is_list = isinstance(value, (list, tuple, set, frozenset))
            if is_list or (isinstance(value, str) and is_printed(value.strip())):
                return True
        return self.holds_ids(column)

    def share_known(self, column: str) -> tuple[int, int]:
        """Return (number of ids in a column that the corpus has, number of all its ids).

        (0, 0) without a corpus, and for a column that cannot be read as ids. An id counts once for
        each row that has it.
        """
        names = self._names
        if names is None:
            return 0, 0
        reader, n_known, total = GoldIds(names), 0, 0
        try:
            for entry in self._entries:
                for name, _ in reader.read(entry, column):
                    n_known += name in names.ids
                    total += 1
        except DataError:  # it holds something else
            return 0, 0
        return n_known, total

    def likely_part(self, column: str, used_parts: Container[str] = ()) -> str:
        """Return the part that a column without a known name may hold, by its cells and a word.

        It is empty where these do not tell, and for a part that is used: a number may be a grade,
        and a word a topic. Without a corpus, an id has letters and digits, or is an address or the
        name of a file.
        """
        form = self.form(column)
        if form == "texts":
            part = part_of_texts(column) or "reference"
        else:
            part = "relevant" if form == "ids" and self._are_document_ids(column) else ""
        return "" if part in used_parts else part

    def _are_document_ids(self, column: str) -> bool:
        """Return True if an id of a column is of the corpus, or all look as ids without one."""
        if self._names is not None:
            return self.share_known(column)[0] > 0
        items = list(map(str, self._items(column)))
        return bool(items) and all(map(_MIXED_ID.fullmatch, items))

    def is_empty(self, column: str) -> bool:
        """Return True if a column has no value in any row."""
        return self._first_value(column) is None

    def example(self, column: str) -> str:
        """Return the first value of a column as messages show it; 'nothing' for an empty column."""
        value = self._first_value(column)
        if value is None:
            return "nothing"
        text = quote(value)
        return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 3]}..."

    def _first_value(self, column: str) -> Any:
        """Return the first value of a column that is not empty; None for an empty column."""
        for entry in self._entries:
            value = entry.values.get(column)
            if value not in (None, "", [], {}):
                return value
        return None

    def _are_known(self, column: str, *, by_other_names: bool = True) -> bool:
        """Return True if at least half of the texts of a column are ids or names of the corpus."""
        if self._names is None:
            return False
        names = self._names if by_other_names else self._names.ids
        n_texts = n_passages = n_known = 0
        for item in self._items(column):
            text = value_of(item)
            n_texts += bool(text)
            if has_text(item):
                n_passages += 1
            elif text:
                n_known += text in names
        return n_passages < n_texts and 2 * n_known >= n_texts

    def _read_items(self, column: str) -> Sequence[Any]:
        """Return the items of the first cells of a column; the pieces of ids in a text."""
        items: list[Any] = []
        for entry in self._entries[:_SAMPLED_ROWS]:
            items += items_of(entry, column)
        return items
