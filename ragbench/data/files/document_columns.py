"""Columns with documents: gold or retrieved, as ids or as texts, by their names and their cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain

from ragbench.data.files.column_contents import ColumnContents
from ragbench.types.column_words import Form, NameMeaning, Origin, document_meaning
from ragbench.types.tables import PARTS, columns_named

# (origin, form) of the documents of a column -> the part that it holds
_PARTS: Mapping[tuple[Origin, Form], str] = {
    ("gold", "ids"): "relevant",
    ("gold", "texts"): "reference_contexts",
    ("retrieved", "ids"): "retrieved",
    ("retrieved", "texts"): "contexts",
}
DOCUMENT_PARTS = frozenset(_PARTS.values())


class DocumentColumns:
    """Columns of a table that hold documents, each with its part.

    It is created with the columns and their cells. `candidates(part, free)` returns the columns
    that may hold a part, `part_of(column)` the part of a column, or '' for one without documents.
    """

    def __init__(self, present: Sequence[str], contents: ColumnContents) -> None:
        self._contents = contents
        self._exact, self._by_words = dict[str, NameMeaning](), dict[str, NameMeaning]()
        for (origin, form), part in _PARTS.items():
            for column in columns_named(present, PARTS[part].sure):
                self._exact[column] = NameMeaning(origin, "", form)
        for column in present:
            meaning = document_meaning(column)
            if meaning is not None and column not in self._exact:
                self._by_words[column] = meaning

    def part_of(self, column: str) -> str:
        """Return the part of a column with documents; '' for a column without."""
        return self._parts.get(column, "")

    def candidates(self, part: str, free: Sequence[str]) -> list[str]:
        """Return the free columns that may hold a part: those with a known name, or else others.

        Of several others, those come alone whose values stand in another column or in the corpus.
        """
        columns = []
        for column in free:
            if self.part_of(column) == part:
                columns.append(column)
        if exact := [column for column in columns if column in self._exact]:
            names = chain.from_iterable(PARTS[part].sure for part in DOCUMENT_PARTS)
            return columns_named(exact, [*names])
        if len(columns) < 2:
            return columns
        return [column for column in columns if self._is_met(column)] or columns

    @cached_property
    def _parts(self) -> Mapping[str, str]:
        """Column -> its part; columns without documents are absent."""
        parts = {}
        for column, meaning in (self._exact | self._by_words).items():
            of_name = column in self._exact
            form = self._exact_form(column) if of_name else self._worded_form(column, meaning)
            if form in ("ids", "texts"):
                parts[column] = _PARTS[meaning.origin, form]
        return parts

    def _exact_form(self, column: str) -> Form:
        """Return the form of a column with a known name: that of the name, unless cells deny it."""
        default, form = self._exact[column].default, self._contents.form(column)
        if form in ("", default):
            return default
        if form == "ids":  # a passage may be one word: its ids have to be known
            return "ids" if self._is_met(column) else default
        return "texts" if self._contents.are_surely_texts(column) else default

    def _worded_form(self, column: str, meaning: NameMeaning) -> Form:
        """Return the form of a column whose name is told by its words; '' for no documents."""
        form = self._contents.form(column)
        if not meaning.default:
            if not self._is_met(column):
                return ""
            return "texts" if form == "texts" else "ids"
        if meaning.form == "ids":
            return "texts" if self._contents.are_surely_texts(column) else "ids"
        if meaning.form == "texts":
            return "ids" if form == "ids" and self._is_met(column) else "texts"
        return form or meaning.default

    def _is_met(self, column: str) -> bool:
        """Return True if the corpus has the ids of a column, or a column of ids of other origin."""
        if self._contents.are_ids_of_corpus(column):
            return True
        meanings = self._exact | self._by_words
        origin = meanings[column].origin
        by_ids = []
        for name, meaning in meanings.items():
            has_ids = meaning.default == "ids" or self._contents.has_objects_with_ids(name)
            if has_ids and name != column:
                by_ids.append(name)
        # beside a column of ids, the other one holds the texts
        if meanings[column].default == "texts":
            for name in by_ids:
                if meanings[name].origin == origin and meanings[name].default == "ids":
                    return False
        for name in by_ids:
            gold, retrieved = (column, name) if origin == "gold" else (name, column)
            if meanings[name].origin != origin and self._contents.meets(gold, retrieved):
                return True
        return False
