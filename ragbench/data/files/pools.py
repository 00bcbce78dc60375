"""Column `pool` of a table: the documents that may be retrieved for a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from ragbench.data.files import fields
from ragbench.data.files.collection import Corpus
from ragbench.data.files.column_contents import ColumnContents
from ragbench.data.files.columns import PartMap, with_paths
from ragbench.data.files.gold import DocumentNames
from ragbench.data.files.printed_lists import COMMAS, SEPARATORS, is_printed, pieces_of
from ragbench.data.files.rows import Entry, encode_spaces, id_problem
from ragbench.errors import DataError
from ragbench.records.codec import kind
from ragbench.registry import nearest
from ragbench.types import Document
from ragbench.types.ids import id_text
from ragbench.types.lookups import find_key, index_by_id
from ragbench.types.tables import PARTS, columns_named

_FORMS = "a list of ids, of texts, or of {id, text}; null for the whole corpus"


class PoolReader:
    """Reader of the column `pool`, which refuses documents that the corpus lacks.

    `read(row)` returns the ids of a cell. Without a corpus (`names` is None) all ids are taken.

    Attributes:
        other_texts: Id -> place of an item whose text the document of the corpus lacks.
    """

    def __init__(
        self, column: str, names: DocumentNames | None, documents: Sequence[Document] | None
    ) -> None:
        self._column, self._names = column, names
        # the pools of all questions share the texts of the ids
        self._ids = {document.id: document.id for document in documents or ()}
        self._documents = index_by_id(documents or ())
        self.other_texts = dict[str, str]()
        self._previous: tuple[object, tuple[str, ...]] = (None, ())

    def read(self, entry: Entry) -> tuple[str, ...] | None:
        """Return the ids of the documents in a cell, each once; None for an empty cell.

        Nothing may be retrieved for a question with an empty list.

        Raises:
            DataError: The cell is no list, an item is no document, or the corpus lacks it.
        """
        value = entry.values.get(self._column)
        # the questions of one conversation share their list
        if isinstance(value, list) and value is self._previous[0]:
            return self._previous[1]
        items = self._items_of(entry)
        if items is None:
            return None
        ids = dict[str, None]()
        for item in items:
            name = self._ids.get(item) if isinstance(item, str) else None
            ids[name or self._id_of(entry, item)] = None
        self._previous = value, tuple(ids)
        return self._previous[1]

    def _items_of(self, entry: Entry) -> list[Any] | None:
        """Return the items of a list, or of a text with separators; None for an empty cell."""
        value = entry.values.get(self._column)
        if value is None or value != value:  # an empty cell is NaN in tables that pandas wrote
            return None
        if isinstance(value, str) and not is_printed(value.strip()):
            pieces = pieces_of(value, SEPARATORS)
            is_known = len(pieces) > 1 or pieces[:1] == [*filter(self._ids.get, pieces[:1])]
            return (pieces if is_known else pieces_of(value, COMMAS)) or None
        if not isinstance(value, (str, list, tuple, set, frozenset)):
            raise entry.error(f"column '{self._column}' is {kind(value)}", allowed=_FORMS)
        return fields.read_list(entry, self._column)

    def _id_of(self, entry: Entry, item: Any) -> str:
        """Return the id of a document that is named by its id, another name, or its text."""
        name, text = item, item
        if isinstance(item, Mapping):
            name = item.get("id")
            text = item.get(find_key(item, fields.TEXT_KEYS))
        try:
            if name is None and isinstance(text, str):
                name = fields.content_id(text)
            name = id_text(name).strip()
        except ValueError as error:
            problem = f"column '{self._column}': an item is {kind(item)}"
            raise entry.error(problem, allowed=_FORMS) from error
        if self._names is None:
            return self._checked(entry, encode_spaces(name))
        ids = [self._ids[key] for key in (name, encode_spaces(name)) if key in self._ids]
        ids = ids or self._names.resolve(name)
        if not ids and isinstance(text, str):
            ids = [key for key in [fields.content_id(text)] if key in self._ids]
        if len(ids) != 1 and not (ids and ids[0] == name):
            raise self._unknown(entry, name, ids)
        if isinstance(item, Mapping) and isinstance(text, str):
            self._compare(entry, self._documents[ids[0]], text)
        return self._ids[ids[0]]

    def _compare(self, entry: Entry, document: Document, text: str) -> None:
        """Remember a document that lacks the text of an item; white space does not count."""
        if text.strip() in document.text:
            return
        if " ".join(text.split()) not in " ".join(f"{document.title} {document.text}".split()):
            self.other_texts.setdefault(document.id, str(entry.place))

    def _checked(self, entry: Entry, name: str) -> str:
        """Return an id that run files can hold."""
        if reason := id_problem(name):
            raise entry.error(f"column '{self._column}': {name!r:.60} {reason}", allowed=_FORMS)
        return name

    def _unknown(self, entry: Entry, name: str, ids: Sequence[str]) -> DataError:
        """Return the error on a document that the corpus lacks, or has several times."""
        short = name if len(name) <= 60 else f"{name[:57]}..."
        if ids:
            problem = f"column '{self._column}': '{short}' fits '{ids[0]}' and '{ids[1]}'"
            return entry.error(problem, allowed="the whole id")
        problem = f"column '{self._column}': the corpus has no document '{short}'"
        near = nearest(short, [*self._ids])
        allowed = "ids of its documents, or columns: {pool: null}"
        return entry.error(problem, allowed=allowed, near=near)


def pool_corpus(
    entries: Sequence[Entry], columns: PartMap, *, is_published: bool = False
) -> Corpus | None:
    """Return the documents that stand with their texts in the pools; None without such pools.

    Args:
        entries: Rows of the table.
        columns: Part -> column, as the user or the form of the data names them.
        is_published: True for rows of a published form: several texts of an id are joined there.

    Raises:
        DataError: A pool has a document without a text, or another text under an earlier id.
    """
    rows = with_paths(entries, columns)
    column = _pool_column(rows, columns)
    if column is None or ColumnContents(rows, None).form(column) == "ids":
        return None
    reader = fields.Passages()
    documents, texts, first = dict[str, Document](), dict[str, list[str]](), dict[str, Entry]()
    previous: object = None
    for entry in rows:
        value = entry.values.get(column)
        if isinstance(value, list) and value is previous:
            continue  # the questions of one conversation share their list
        previous = value
        for document in reader.read(entry, column) or ():
            documents.setdefault(document.id, document)
            of_id = texts.setdefault(document.id, [])
            place = first.setdefault(document.id, entry).place
            if of_id and document.text not in of_id and not is_published:
                problem = f"column '{column}': '{document.id}' has another text at {place}"
                raise entry.error(problem, allowed="one text for an id")
            if document.text not in of_id:
                of_id.append(document.text)
    notes = [f"corpus: {fields.counted(len(documents), 'document')} in the pools of the questions"]
    several = []
    for name, of_id in texts.items():
        if len(of_id) > 1:
            several.append(name)
            documents[name] = structs.replace(documents[name], text="\n".join(of_id))
    if several:
        count = fields.counted(len(several), "document")
        notes.append(f"{count} with several texts, which are joined, such as '{several[0]}'")
    return Corpus([*documents.values()], notes=notes) if documents else None


def _pool_column(entries: Sequence[Entry], columns: PartMap) -> str | None:
    """Return the column of the pools: the one that is named, or one with lists under its name."""
    if "pool" in columns:
        return columns["pool"]
    used, present = set(columns.values()), dict[str, None]()
    for entry in entries:
        present |= dict.fromkeys(entry.values)
    free = []
    for column in present:
        if column not in used:
            free.append(column)
    candidates = columns_named(free, PARTS["pool"].sure)
    return next(filter(ColumnContents(entries, None).holds_pools, candidates), None)
