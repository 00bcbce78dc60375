"""Gold documents of a question: ids and grades in any usual notation, and quoted passages.

`DocumentNames` resolves what people write for an id, `GoldIds` reads the columns `relevant` and
`grades`, `RankedIds` the column `retrieved`, and `QuotedPassages` finds the documents that hold the
texts of `reference_contexts`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, ClassVar, TypeGuard

from ragbench.data.files.fields import TEXT_KEYS, text_of_item
from ragbench.data.files.printed_lists import (
    COMMAS,
    QUOTES,
    SEPARATORS,
    is_marked,
    is_printed,
    pieces_of,
    read_ids,
    split_words,
)
from ragbench.data.files.rows import ID_ALLOWED, Entry, encode_spaces, id_problem
from ragbench.errors import DataError
from ragbench.records.codec import kind
from ragbench.registry import quote
from ragbench.types import Document
from ragbench.types.display import counted
from ragbench.types.ids import id_text, whole_text
from ragbench.types.lookups import find_key, index_by_id
from ragbench.types.spellings import normal_texts

_ID_KEYS = ("id", "_id", "doc_id", "document_id")
_GRADE_KEYS = ("grade", "score", "relevance")
# keys of a grade that may be true or false; another value of them is no grade
_FLAG_KEYS = ("is_relevant", "relevant", "label")
# types of items that are no ids
_NO_ITEMS = (bool, list, tuple, set, frozenset, type(None))
# texts that stand for a missing value
_NO_VALUES = ("nan", "none", "null")
# longer names are texts in a column of ids: file systems have this limit
_LONGEST_ID = 255
# starts of paths that do not begin at the corpus folder: /, C:/, file:, ~/, ../
_ABSOLUTE = re.compile(r"/|[A-Za-z]:/|file:|~/|\.\./")
# an integer, also as pandas writes a column with an empty cell: 2.0
_NUMBER = re.compile(r"[+-]?\d+(?:\.0*)?")


# Ids of documents as they are written, each with its grade; None without one.
GradedIds = Sequence[tuple[str, int | None]]


class DocumentNames:
    r"""Ids of a corpus, with the other names that people write for a document.

    A document also answers to its id (in a folder its path) in another case or without an ending,
    to the file name in it with and without the ending, and to its title; one of a folder also to an
    absolute path that ends in its path (`C:\work\docs\a.md`). Such a name counts, in any case,
    where one document alone has it.
    `name in names` is True if the name means exactly one document; `resolve(name)` returns the ids
    of all documents that it may mean, [] for none.

    Attributes:
        ids: The ids themselves; a text that equals one means that document.
    """

    def __init__(self, documents: Sequence[Document], folder: str = "") -> None:
        """Index `documents`.

        `folder` is the name of their folder, empty for a corpus in one file. Other names are
        indexed on first use.
        """
        self._documents = documents
        self.ids: Container[str] = index_by_id(documents)
        self._folder = f"{folder}/" if folder else ""
        self._is_folder = bool(folder)

    @cached_property
    def _other_names(self) -> Mapping[str, list[str]]:
        """Normal text of another name -> ids of the documents that have it."""
        names, owners = list[str](), list[str]()
        for document in self._documents:
            for name in _alternative_names(document):
                names.append(name.strip())
                owners.append(document.id)
        ids: dict[str, list[str]] = {}
        # all names at once, which takes a fraction of the time
        for name, owner in zip(normal_texts(names), owners, strict=True):
            ids.setdefault(name, []).append(owner)
        return ids

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and len(self.resolve(name)) == 1

    def resolve(self, text: str) -> list[str]:
        """Return the ids that a text may mean: one, none, or several that cannot be told apart.

        An id as it is written comes first, then paths within the folder, then other names in any
        case. Several ids are sorted; a blank text has none.
        """
        name = text.strip()
        path = name.replace("\\", "/").removeprefix("./").lstrip("/")
        for candidate in (name, encode_spaces(name), encode_spaces(path)):
            if candidate in self.ids:
                return [candidate]
        inner = path.removeprefix(self._folder)
        for candidate in (inner, path, name, *self._inner_paths(name)):
            if encode_spaces(candidate) in self.ids:
                return [encode_spaces(candidate)]
            if ids := self._other_names.get(normal_texts([candidate.strip()])[0]):
                return sorted(set(ids))
        return []

    def _inner_paths(self, name: str) -> Iterable[str]:
        """Yield the paths that an absolute path may mean within the folder."""
        path = name.replace("\\", "/")
        if not self._is_folder or not _ABSOLUTE.match(path):
            return
        if f"/{self._folder}" in path:
            yield path.rpartition(f"/{self._folder}")[2]
            return
        steps = []
        for step in path.split("/"):
            if step:
                steps.append(step)
        for start in range(1, len(steps)):
            yield "/".join(steps[start:])


def _alternative_names(document: Document) -> Iterable[str]:
    """Yield the path and file name without ending, the file name, the id and the title."""
    # by text: an object for the path of each document would take most of the time
    folder, slash, name = document.id.rstrip("/").rpartition("/")
    stem, _, ending = name.rpartition(".")
    if ending and stem.strip("."):  # a name such as `.hidden` has no ending
        yield f"{folder}{slash}{stem}"
        yield stem
    yield name
    # in another case or with spaces it is a different text
    yield document.id
    if document.title:
        yield document.title


@dataclass(slots=True)
class GoldIds:
    """Reader of the columns `relevant` and `grades`; counts renamed and repeated ids for notes.

    `read(row, column)` returns the (id, grade) pairs of a cell, the grade None without one;
    `grades` adds those of a column of their own. Both raise a DataError for a cell of another form.

    Attributes:
        part: Part of the record that the column holds.
        forms: Allowed values of a cell, for messages.
        names: Names of the corpus; without a corpus None, and ids are taken as they are written.
        listed: Ids that stand in lists of the table: a cell with the same text is one id.
        is_of_ids: True for a table of ids: commas separate all texts that are not in `listed`. In
            other tables they separate names of the corpus alone.
        is_stale: True where the documents changed after the table was written: a name that fits
            several documents is then an id that the corpus lacks, and no error.
        renamed: Text in the file -> how often it was read as the id of another spelling.
        repeated: Number of ids that stand twice in a row.
    """

    part: ClassVar[str] = "relevant"
    forms: ClassVar[str] = "an id, a JSON list of ids, ids between ;, or an object {id: grade}"
    has_grades: ClassVar[bool] = True

    names: DocumentNames | None
    listed: Container[str] = ()
    is_of_ids: bool = False
    is_stale: bool = False
    renamed: Counter[str] = field(default_factory=Counter)
    repeated: int = 0

    def read(self, entry: Entry, column: str) -> GradedIds:
        """Return (id, grade) of each gold document of a row, in order.

        The grade is None without one. A document that stands twice with one grade counts once, at
        its first place. NaN is an empty cell, and so are the texts `nan`, `none` and `null`, unless
        the corpus has such a name.

        Args:
            entry: The row; an empty cell gives an empty list.
            column: Column with the ids: an id, a list in any usual notation, or {id: grade}. In a
                text, a comma separates names of the corpus alone, or any ids in a table of ids.

        Raises:
            DataError: The cell has another form, a wrong id or grade, or a name that fits several
                documents.
        """
        grades: dict[str, int | None] = {}
        for text, grade in self._items(entry, column, entry.values.get(column), top=True):
            name = self.resolve(entry, column, text)
            if name in grades:
                self.repeated += 1
                if grades[name] != grade:
                    problem = f"column '{column}': '{name}' has two grades"
                    raise entry.error(problem, allowed="one grade for a document")
            grades[name] = grade
        return list(grades.items())

    def alternatives(self, entry: Entry, column: str) -> dict[str, str]:
        """Return further id -> first id of its inner list, as AutoRAG writes alternatives.

        Any document of an inner list is enough, and all inner lists are needed.

        Raises:
            DataError: An id stands in two inner lists, or `read` refuses the cell.
        """
        value = entry.values.get(column)
        if isinstance(value, str):
            text = value.strip()
            # an id may look like a list
            is_id = self._is_name(text) or text in self.listed
            value = self.parse_list(entry, column, text) if is_printed(text) and not is_id else None
        if not isinstance(value, (list, tuple)) or not value or not all(map(_is_group, value)):
            return {}
        group_heads = dict[str, str]()
        for group in value:
            pairs = self._of_list(entry, column, group)
            names = list(dict.fromkeys(self.resolve(entry, column, text) for text, _ in pairs))
            if both := find_key(group_heads, names):
                problem = f"column '{column}': '{both}' stands in two lists of alternatives"
                raise entry.error(problem, allowed="each id in one inner list")
            group_heads |= dict.fromkeys(names, names[0] if names else "")
        alternatives = {}
        for name, first in group_heads.items():
            if name != first:
                alternatives[name] = first
        return alternatives

    def grades(self, entry: Entry, column: str, gold: GradedIds) -> dict[str, int]:
        """Return gold document -> grade of a row, from a column with grades alone.

        Documents come in the order of `gold`; an object may add further ones. A document that an
        object lacks keeps its grade in `gold`, or has 1 without one.

        Args:
            entry: The row.
            column: Column with the grades: one for each gold id, in their order, or an object {id:
                grade}. An empty cell, null or a blank text, leaves the grades of `gold`, or 1.
            gold: The gold documents of the row, as `read` returns them.

        Raises:
            DataError: Grades do not fit to the ids, a grade is no integer, or an id fits several
                documents.
        """
        value = entry.values.get(column)
        defaults = {}
        for name, grade in gold:
            defaults[name] = 1 if grade is None else grade
        if isinstance(value, str) and is_printed(value.strip()):
            value = self.parse_list(entry, column, value.strip())
        if isinstance(value, str):
            value = list(filter(None, re.split(r"[;|,\s]+", value.strip())))
        if isinstance(value, Mapping):
            for name, grade in self._of_object(entry, column, value):
                document = self.resolve(entry, column, name)
                if grade is not None:
                    defaults[document] = grade
            return defaults
        if isinstance(value, (set, frozenset)):
            raise self._error(entry, column, "a set of grades has no order")
        if value is None:
            value = []
        values = value if isinstance(value, (list, tuple)) else [value]
        if not values and gold:  # an empty cell
            return defaults
        if len(values) != len(gold):
            n_gold = counted(len(gold), "gold documents")
            problem = f"column '{column}': {counted(len(values), 'grades')} for {n_gold}"
            raise entry.error(problem, allowed="one grade for each, in their order")
        grades = {}
        for (name, _), grade in zip(gold, values, strict=True):
            grades[name] = read_grade(entry, column, grade)
        return grades

    def _items(self, entry: Entry, column: str, value: Any, *, top: bool) -> GradedIds:
        """Return (id, grade) pairs of a list, an object, or a text that may hold a list."""
        if value is None or value != value:  # an empty cell is NaN in tables that pandas wrote
            return []
        if isinstance(value, str):
            return self._of_text(entry, column, value, top=top)
        if isinstance(value, Mapping):
            return self._of_object(entry, column, value)
        if isinstance(value, (set, frozenset)):
            value = self.of_set(entry, column, value)
        if isinstance(value, (list, tuple)):
            return self._of_list(entry, column, value)
        return [(self._id_text(entry, column, value), None)]

    def _id_text(self, entry: Entry, column: str, value: Any) -> str:
        """Return an id as text; raise a `DataError` for a value that is none."""
        try:
            return id_text(value)
        except ValueError as error:
            hint = f"columns: {{{self.part}: null}} if it holds none"
            problem = f"{value} {error}" if isinstance(value, float) else kind(value)
            raise self._error(entry, column, problem, f"; {hint}") from error

    def of_set(self, entry: Entry, column: str, values: Set[Any]) -> list[Any]:
        """Return the items of a set in a fixed order; a reader of rankings raises a `DataError`."""
        return sorted(values, key=str)

    def _of_list(self, entry: Entry, column: str, values: Sequence[Any]) -> GradedIds:
        """Return (id, grade) pairs of the items of a list; raise a `DataError` for another item."""
        if self.has_grades:
            values = [*map(_as_grade, values)]
        are_objects = {isinstance(item, Mapping) for item in values}
        is_nested = any(isinstance(item, _NO_ITEMS) for item in values)
        if self.has_grades and is_nested and all(map(_is_group, values)):
            return [*chain.from_iterable(self._of_list(entry, column, group) for group in values)]
        # an empty object in a list has lost its id: `[{}]` is not the empty list
        if len(are_objects) > 1 or is_nested or {} in values:
            raise self._error(entry, column, quote(list(values)))
        pairs: list[tuple[str, int | None]] = []
        for item in values:
            pairs += self._items(entry, column, item, top=False)
        return pairs

    def _of_text(self, entry: Entry, column: str, text: str, *, top: bool) -> GradedIds:
        """Return (id, grade) pairs of an id, ids between separators, or a list in brackets."""
        # Separators and brackets count only in a whole cell; in other texts they are text. A text
        # that the corpus knows is one id.
        text = text.strip()
        if not text or (text.casefold() in _NO_VALUES and not self._is_name(text)):
            return []
        if self._is_name(text):
            return [(text, None)]
        if top and text in self.listed:
            return [(self._whole(entry, column, text), None)]
        if top and (is_printed(text) or text[0] in QUOTES or text[-1] in QUOTES):
            return self._items(entry, column, self.parse_list(entry, column, text), top=False)
        pieces = pieces_of(text, SEPARATORS)
        if len(pieces) < 2 or not (top or any(map(self._is_name, pieces))):
            pieces = [text]
        pairs: list[tuple[str, int | None]] = []
        for piece in pieces:
            pairs += self._of_piece(entry, column, piece, top)
        return pairs

    def _of_piece(self, entry: Entry, column: str, text: str, top: bool) -> GradedIds:
        """Return the ids of a text without separators other than commas and blanks."""
        if self._is_name(text):
            return [(text, None)]
        if text.casefold() in _NO_VALUES:
            return []
        if text in self.listed:
            return self._whole_ids(entry, column, [text])
        if top and is_marked(text):
            raise self._error(entry, column, f"{quote(text)} has an unmatched quote or bracket")
        by_comma = pieces_of(text, COMMAS)
        if len(by_comma) > 1 and ((top and self.is_of_ids) or any(map(self._is_name, by_comma))):
            ids = []
            for p in by_comma:
                if self._is_name(p) or p.casefold() not in _NO_VALUES:
                    ids.append(p)
            return self._whole_ids(entry, column, ids)
        try:
            words = split_words(text) if top else [text]
        except ValueError as error:
            raise self._error(entry, column, f"{quote(text)} {error}") from error
        return self._whole_ids(entry, column, words)

    def _whole_ids(self, entry: Entry, column: str, texts: Iterable[str]) -> GradedIds:
        """Return `_whole` of some texts, without grades."""
        return [(self._whole(entry, column, text), None) for text in texts]

    def _whole(self, entry: Entry, column: str, text: str) -> str:
        """Return `7.0` as `7` beside that id; raise a `DataError` for a number that lost digits."""
        # Alone, `7.0` may be a version, and a retriever may return it.
        if self._is_name(text):
            return text
        try:
            digits = whole_text(text)
            return digits if digits in self.listed or self._is_name(digits) else text
        except ValueError as error:
            raise self._error(entry, column, f"{quote(text)} {error}") from error

    def _error(self, entry: Entry, column: str, problem: str, hint: str = "") -> DataError:
        """Return, not raise, the error about a cell with the allowed forms."""
        return entry.error(f"column '{column}': {problem}", allowed=f"{self.forms}{hint}")

    def _of_object(self, entry: Entry, column: str, value: Mapping[str, Any]) -> GradedIds:
        """Return the pair of an object {id, grade?}, or the pairs of an object {id: grade}."""
        key = find_key(value, _ID_KEYS)
        if key is not None:
            grade_key = find_key(value, _GRADE_KEYS)
            grade = _flag_of(value) if grade_key is None else value[grade_key]
            # an empty id, which `resolve` refuses
            ids = self._items(entry, column, value[key], top=False) or [("", None)]
            if len(ids) > 1:
                problem = f"column '{column}': an object with several ids"
                raise entry.error(problem, allowed=self.forms)
            name = ids[0][0]
            return [(name, None if grade is None else read_grade(entry, column, grade))]
        pairs: list[tuple[str, int | None]] = []
        for name, grade in value.items():
            # Parquet has all keys of the column in each row
            if grade is not None:
                # Python prints numbers as keys: {7: 2}
                identifier = self._id_text(entry, column, name)
                pairs.append((identifier, read_grade(entry, column, grade)))
        return pairs

    def parse_list(self, entry: Entry, column: str, text: str) -> Any:
        """Return the list, set or object in a cell: in brackets or quotes, as `read_ids` does.

        Other text raises a `DataError`.
        """
        try:
            return read_ids(text)
        except ValueError as error:
            raise self._error(entry, column, str(error)) from error

    def _is_name(self, text: str) -> bool:
        return self.names is not None and text in self.names

    def resolve(self, entry: Entry, column: str, text: str) -> str:
        """Return the id that a text means; a text that the corpus lacks is an id of its own.

        White space is encoded as %20. The text is counted in `renamed` if the corpus spells its id
        otherwise.

        Raises:
            DataError: Several documents have the name, unless the table is stale, or the text
                cannot be an id.
        """
        ids = [] if self.names is None else self.names.resolve(text)
        if len(ids) > 1 and not self.is_stale:
            candidates = " or ".join(f"'{name}'" for name in ids[:3])
            problem = f"column '{column}': '{text}' fits {candidates}"
            raise entry.error(problem, allowed="the whole path in the corpus folder")
        name = ids[0] if len(ids) == 1 else encode_spaces(text)
        if reason := id_problem(name):
            raise entry.error(f"column '{column}': {name!r} {reason}", allowed=ID_ALLOWED)
        if ids and name not in (text, encode_spaces(text)):
            self.renamed[text] += 1
        return name


class RankedIds(GoldIds):
    """Reader of the column `retrieved`: the ids of the hits of a question, best first.

    It is created as `GoldIds` is. `ranking(row, column)` returns the ids of a row, None for a
    missing value, and raises a DataError for a cell of another form.
    """

    part = "retrieved"
    forms = "an id, a JSON list of ids, or ids between ;, best first; hits with texts: `contexts`"
    has_grades = False

    def ranking(self, entry: Entry, column: str) -> list[str] | None:
        """Return the ids of a row, best first, also repeated ones; None for a missing value.

        An empty list or text gives []. Missing values are None, NaN, and the texts `nan`, `none`
        and `null`, in any case. White space is encoded as %20. All else stays as it is written:
        unlike gold, an id in another spelling than in the corpus does not become that of the
        corpus.

        Raises:
            DataError: The cell has another form, or an id is no id or longer than 255 characters.
        """
        value = entry.values.get(column)
        text = value.strip() if isinstance(value, str) else None
        if value is None or value != value or (text and text.casefold() in _NO_VALUES):
            return None
        names = []
        for name, _ in self._items(entry, column, value, top=True):
            names.append(name)
        for name in names:
            reason = id_problem(encode_spaces(name))
            if len(name) > _LONGEST_ID:
                reason = f"has {len(name)} characters, as texts have"
            if reason:
                problem = f"column '{column}': {name[:60]!r} {reason}"
                raise entry.error(problem, allowed=self.forms)
        return [*map(encode_spaces, names)]

    def of_set(self, entry: Entry, column: str, values: Set[Any]) -> list[Any]:
        """Raise a `DataError`, always: a set has no order."""
        raise self._error(entry, column, "a set has no order")

    def _of_object(self, entry: Entry, column: str, value: Mapping[str, Any]) -> GradedIds:
        """Return the pair of an object with an id and no text; [] for a blank id."""
        key = find_key(value, _ID_KEYS)
        if key is None or any(value.get(text) is not None for text in TEXT_KEYS):
            raise entry.error(f"column '{column}': an object", allowed=self.forms)
        return self._items(entry, column, value[key], top=False)


def listed_ids(entries: Iterable[Entry], columns: Iterable[str]) -> set[str]:
    """Return the ids of columns that stand in lists, or between other separators than commas.

    Whole numbers count also alone and between commas, and objects by their ids. Cells that cannot
    be read are left out: the reader of their row names them, unless they are one id.
    """
    listed, columns = set[str](), [*columns]
    for entry in entries:
        for column in columns:
            value = entry.values.get(column)
            if isinstance(value, str):
                value = _list_of(value.strip())
            items = value if isinstance(value, (list, tuple, set, frozenset)) else [value]
            for item in items:
                # an inner list has alternatives
                members = item if _is_group(item) else [item]
                listed.update(map(text_of_item, members))
    return listed - {""}


def _list_of(text: str) -> Any:
    """Return the list that a text holds in brackets or between separators; None for another."""
    if text and (is_printed(text) or text[0] in QUOTES or text[-1] in QUOTES):
        try:
            return read_ids(text)
        except ValueError:
            return None
    pieces = pieces_of(text, SEPARATORS)
    if len(pieces) < 2:
        return list(filter(str.isdecimal, pieces_of(text, COMMAS)))
    # doubtful pieces are no evidence for themselves
    names = []
    for piece in pieces:
        if not is_marked(piece) and "  " not in piece:
            names.append(piece)
    return names


def _is_group(item: Any) -> TypeGuard[Sequence[Any]]:
    """Return True for an inner list of ids, which are alternatives."""
    return isinstance(item, (list, tuple)) and not any(isinstance(i, _NO_ITEMS) for i in item)


def _as_grade(item: Any) -> Any:
    """Return an item of a MAP column id -> grade as {id: grade}; any other item as it is."""
    if isinstance(item, Mapping) and item.keys() == {"key", "value"}:
        item = (item["key"], item["value"])
    if not isinstance(item, (list, tuple)) or len(item) != 2:
        return item
    name, grade = item
    is_grade = isinstance(grade, (int, float)) and not isinstance(grade, bool)
    # two numbers may be two ids
    return {name: grade} if isinstance(name, str) and is_grade else item


def _flag_of(value: Mapping[str, Any]) -> int | None:
    """Return the grade that a flag of a gold document is, such as `is_relevant`; None without."""
    for key in _FLAG_KEYS:
        flag = value.get(key)
        if isinstance(flag, int):
            return int(flag)
    return None


def read_grade(entry: Entry, column: str, value: object) -> int:
    """Return a grade; integers as text ('2') or as floats (2.0) are read.

    Raises:
        DataError: the value is no integer, also None and True; names the column.
    """
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        text = repr(value) if isinstance(value, (str, float)) else kind(value)
        raise entry.error(f"column '{column}': grade {text}", allowed="an integer, 0: irrelevant")
    return value


_WORD = re.compile(
    # scripts without blanks between words: each of their characters is one
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]"
    r"|[^\W_\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+"
)
# ragas puts `<1-hop>` before each passage of a question that needs several
_HOP = re.compile(r"^\s*<\d+-hop>\s*")
_NGRAM = 4  # words in a row
_MIN_WORDS = 8  # a shorter quote must stand word for word: parts of it stand anywhere
_MIN_SHARE = 0.8  # of the n-grams of a quote: one cut or typing error leaves more
_CANDIDATES = 5  # documents with most of the words, whose n-grams are compared
_CACHED_TEXTS = 1_000


class QuotedPassages:
    """Index of the words of quoted texts, to find the documents of a corpus that hold a quote.

    Case, punctuation and white space do not matter. A quote of at least 8 words that stands nowhere
    is placed where at least 80 % of its sequences of four words stand, so that a cut or a typing
    error does not lose it. A quote that several documents hold is placed in each of them.
    `place(quote)` returns the ids of its documents, and whether they hold it word for word: ([],
    True) if no document holds it. Building it reads the whole corpus once.
    """

    def __init__(self, texts: Iterable[str], documents: Sequence[Document]) -> None:
        # only words of quotes are indexed: few of the words of a large corpus
        quoted_words = dict.fromkeys(chain.from_iterable(map(_words, texts)))
        self._documents = documents
        self._rows_with: dict[str, list[int]] = {word: [] for word in quoted_words}
        for row, document in enumerate(documents):
            for word in set(_words(document.full_text)).intersection(self._rows_with):
                self._rows_with[word].append(row)
        self._joined_words = lru_cache(_CACHED_TEXTS)(self._join_words)

    def place(self, text: str) -> tuple[list[str], bool]:
        """Return the ids of the documents that hold a quote, and whether word for word.

        Ids are in the order of the corpus. If no sequence fits exactly, only the documents with the
        largest share are returned, with False. ([], True) if no document holds it, or if it has no
        words. `text` is one of the texts that the index was made for.

        Raises:
            KeyError: A word of `text` stands in no text that the index was made for.
        """
        words = _words(text)
        if not words:
            return [], True
        # the rarest words suffice to find candidates, and have the shortest lists
        rare = sorted(set(words), key=lambda word: len(self._rows_with[word]))[:_MIN_WORDS]
        candidates = set(self._rows_with[rare[0]]).intersection(*(self._rows_with[w] for w in rare))
        # spaces at both ends, so that only whole words match
        quote = f" {' '.join(words)} "
        if rows := [row for row in sorted(candidates) if quote in self._joined_words(row)]:
            return [self._documents[row].id for row in rows], True
        if len(words) < _MIN_WORDS:
            return [], True
        counts = Counter(chain.from_iterable(self._rows_with[word] for word in set(words)))
        ngrams = [f" {' '.join(words[n : n + _NGRAM])} " for n in range(len(words) - _NGRAM + 1)]
        shares = {}
        for row, _ in counts.most_common(_CANDIDATES):
            joined_words = self._joined_words(row)
            shares[row] = sum(ngram in joined_words for ngram in ngrams) / len(ngrams)
        best = max(shares.values(), default=0.0)
        if best < _MIN_SHARE:
            return [], True
        ids = []
        for row in sorted(shares):
            if shares[row] == best:
                ids.append(self._documents[row].id)
        return ids, False

    def _join_words(self, row: int) -> str:
        return f" {' '.join(_words(self._documents[row].full_text))} "


def _words(text: str) -> list[str]:
    """Return the words of a text, casefolded and in order; [] if it has none."""
    return _WORD.findall(without_hop_mark(text).casefold())


def without_hop_mark(text: str) -> str:
    """Return a quoted text without the mark `<1-hop>` of ragas at its start.

    A text without one is returned as it is.
    """
    return _HOP.sub("", text)
