"""Gold documents of a question: ids and grades in any usual writing, and quoted passages."""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from ragbench.data.files.fields import parse_cell
from ragbench.data.files.rows import ID_ALLOWED, Entry, encode_spaces, id_problem
from ragbench.errors import DataError
from ragbench.records.codec import kind
from ragbench.types import Document
from ragbench.types.packed_documents import by_id_of

if TYPE_CHECKING:
    from ragbench.types.rows import IntArray

_LISTED = "an id, a list of ids, or an object {id: grade}"
_ID_KEYS = ("id", "_id", "doc_id", "document_id")
_GRADE_KEYS = ("grade", "score", "relevance")
_SEPARATORS = re.compile(r"[;|\n\r]+")
_ABSOLUTE = re.compile(r"/|[A-Za-z]:/|file:|~/|\.\./")
_NUMBER = re.compile(r"[+-]?\d+(?:\.0*)?")


class DocumentNames:
    r"""The ids of a corpus, and what else people write for them.

    A document of a folder is also known by its path without the ending, by its file's name, with
    and without the ending, and by the path from the folder itself on, also where that is the end
    of an absolute path (`C:\work\docs\a.md`); any document by its title. Such a name counts, in
    upper or lower case, where one document alone has it.
    """

    def __init__(self, documents: Sequence[Document], folder: str = "") -> None:
        self._documents = documents
        self.ids: Container[str] = by_id_of(documents)
        self._folder = f"{folder}/" if folder else ""
        self._of_files = bool(folder)

    @cached_property
    def _others(self) -> tuple[IntArray, IntArray]:
        """The hashes of all other names, ascending, and the rows of the documents they are of."""
        import numpy as np

        hashes, rows = array("q"), array("q")
        for row, document in enumerate(self._documents):
            for name in {_plain(name) for name in _other_names(document)}:
                hashes.append(hash(name))
                rows.append(row)
        order = np.argsort(hashes, kind="stable")
        return np.array(hashes, np.int64)[order], np.array(rows, np.int64)[order]

    def _called(self, name: str) -> list[str]:
        """The ids of the documents that have another name."""
        (hashes, rows), own = self._others, hash(name)
        among = slice(hashes.searchsorted(own, "left"), hashes.searchsorted(own, "right"))
        found = (self._documents[row] for row in rows[among].tolist())
        return sorted({d.id for d in found if name in map(_plain, _other_names(d))})

    def __contains__(self, written: object) -> bool:
        return isinstance(written, str) and len(self.meant(written)) == 1

    def meant(self, written: str) -> list[str]:
        """Return the ids that a text may mean: one, none, or several that cannot be told apart."""
        name = written.strip()
        path = name.replace("\\", "/").removeprefix("./").lstrip("/")
        for form in (name, encode_spaces(name), encode_spaces(path)):
            if form in self.ids:
                return [form]
        inner = path.removeprefix(self._folder)
        for form in (inner, path, name, *self._ends(name)):
            if encode_spaces(form) in self.ids:
                return [encode_spaces(form)]
            if found := self._called(_plain(form)):
                return found
        return []

    def _ends(self, name: str) -> Iterable[str]:
        """What an absolute path may be called within the folder: from its name on, or any end."""
        path = name.replace("\\", "/")
        if not self._of_files or not _ABSOLUTE.match(path):
            return
        if f"/{self._folder}" in path:
            yield path.rpartition(f"/{self._folder}")[2]
            return
        steps = [step for step in path.split("/") if step]
        yield from ("/".join(steps[at:]) for at in range(1, len(steps)))


def _other_names(document: Document) -> Iterable[str]:
    path = PurePosixPath(document.id)
    if path.suffix and path.stem != ".":  # `..a` has no name before its suffix (Python 3.13)
        yield str(path.with_suffix(""))
        yield path.stem
    yield path.name
    yield document.id
    if document.title:
        yield document.title


def _plain(name: str) -> str:
    """A name as it is compared: composed characters, blanks as blanks, case left out."""
    return unicodedata.normalize("NFC", name).replace("%20", " ").strip().casefold()


@dataclass(slots=True)
class GoldIds:
    """Reads the ids and grades of gold documents, and counts what was odd.

    Attributes:
        names: The corpus; None where there is none, and ids are taken as they are written.
        renamed: What is written for an id -> how often.
        repeated: Ids that stood twice in a row.
    """

    names: DocumentNames | None
    renamed: Counter[str] = field(default_factory=Counter)
    repeated: int = 0

    def read(self, entry: Entry, column: str) -> list[tuple[str, int | None]]:
        """Return the ids of a row in their order, with the grades that stand beside them."""
        found: dict[str, int | None] = {}
        for written, grade in self._items(entry, column, entry.values.get(column), top=True):
            name = self._id(entry, column, written)
            if name in found:
                self.repeated += 1
                if found[name] != grade:
                    raise entry.error(f"column '{column}': '{name}' has two grades")
            found[name] = grade
        return list(found.items())

    def grades(
        self, entry: Entry, column: str, gold: Sequence[tuple[str, int | None]]
    ) -> dict[str, int]:
        """Return id -> grade of a row; grades are in the order of its gold ids, or name them."""
        value = entry.values.get(column)
        if isinstance(value, str) and value.strip()[:1] in ("[", "{"):
            value = _parse_list(entry, column, value)
        if isinstance(value, str):
            value = [piece for piece in re.split(r"[;|,\s]+", value.strip()) if piece]
        if isinstance(value, Mapping):
            pairs = self._of_object(entry, column, value)
            named = [(self._id(entry, column, name), grade) for name, grade in pairs]
            return {name: 1 for name, _ in gold} | {n: g for n, g in named if g is not None}
        values = value if isinstance(value, list) else [] if value is None else [value]
        if not values and gold:  # an empty cell
            return {name: 1 if grade is None else grade for name, grade in gold}
        if len(values) != len(gold):
            found_in = f"column '{column}': {len(values)} grades for {len(gold)} gold documents"
            raise entry.error(found_in, allowed="one grade for each, in their order")
        return {
            name: read_grade(entry, column, grade)
            for (name, _), grade in zip(gold, values, strict=True)
        }

    def _items(
        self, entry: Entry, column: str, value: Any, *, top: bool
    ) -> list[tuple[str, int | None]]:
        """Take a value apart: lists, objects, and texts that hold a list."""
        if value is None or value != value:  # an empty cell is NaN in tables that pandas wrote
            return []
        if isinstance(value, str):
            return self._of_text(entry, column, value, top=top)
        if isinstance(value, Mapping):
            return self._of_object(entry, column, value)
        if isinstance(value, (list, tuple)):
            kinds = {
                "an object" if isinstance(item, Mapping) else "an id"
                for item in value
                if isinstance(item, (Mapping, str, int)) and not isinstance(item, bool)
            }
            bad = [item for item in value if isinstance(item, (bool, list)) or item is None]
            if bad or len(kinds) > 1:
                what = kind(bad[0]) if bad else "ids beside objects"
                raise entry.error(f"column '{column}': a list with {what}", allowed=_LISTED)
            return [pair for item in value for pair in self._items(entry, column, item, top=False)]
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # a column of integers with an empty cell
        if isinstance(value, int) and not isinstance(value, bool):
            return [(str(value), None)]
        null = f"columns: {{relevant: null}} where '{column}' is something else"
        raise entry.error(f"column '{column}': {kind(value)}", allowed=f"{_LISTED}; {null}")

    def _of_text(
        self, entry: Entry, column: str, text: str, *, top: bool
    ) -> list[tuple[str, int | None]]:
        text = text.strip()
        if not text or (text.casefold() in ("nan", "none", "null") and not self._knows(text)):
            return []
        if self._knows(text):
            return [(text, None)]
        if top and text[0] in "[{":
            return self._items(entry, column, _parse_list(entry, column, text), top=False)
        pieces = [piece.strip() for piece in _SEPARATORS.split(text) if piece.strip()]
        if len(pieces) > 1 and (top or any(map(self._knows, pieces))):
            return [
                pair for piece in pieces for pair in self._of_text(entry, column, piece, top=False)
            ]
        by_comma = [piece.strip() for piece in text.split(",") if piece.strip()]
        if len(by_comma) > 1 and any(map(self._knows, by_comma)):
            return [(piece, None) for piece in by_comma]
        return [(text, None)]

    def _of_object(
        self, entry: Entry, column: str, value: Mapping[str, Any]
    ) -> list[tuple[str, int | None]]:
        key = next((each for each in _ID_KEYS if each in value), None)
        if key is not None:
            grade = next((value[each] for each in _GRADE_KEYS if each in value), None)
            [(name, _)] = self._items(entry, column, value[key], top=False) or [("", None)]
            return [(name, None if grade is None else read_grade(entry, column, grade))]
        return [
            (name, read_grade(entry, column, grade))
            for name, grade in value.items()
            if grade is not None  # Parquet has all keys of the column in each row
        ]

    def _knows(self, text: str) -> bool:
        return self.names is not None and text in self.names

    def _id(self, entry: Entry, column: str, written: str) -> str:
        meant = [] if self.names is None else self.names.meant(written)
        if len(meant) > 1:
            several = " or ".join(f"'{name}'" for name in meant[:3])
            found = f"column '{column}': '{written}' may be {several}"
            raise entry.error(found, allowed="the whole path within the corpus")
        name = meant[0] if meant else encode_spaces(written)
        if why := id_problem(name):
            raise entry.error(f"column '{column}': an id {why}", allowed=ID_ALLOWED)
        if meant and name not in (written, encode_spaces(written)):
            self.renamed[written] += 1
        return name


def _parse_list(entry: Entry, column: str, text: str) -> Any:
    try:
        return parse_cell(entry, column, text, _LISTED)
    except DataError:
        if (inner := re.fullmatch(r"\[([^\[\]{}\"']*)\]", text)) is None:
            raise
        return [piece.strip() for piece in re.split(r"[,;|]", inner[1]) if piece.strip()]


def read_grade(entry: Entry, column: str, value: object) -> int:
    """Read a grade: an integer, also one that is written as text or as 2.0."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        shown = repr(value) if isinstance(value, (str, float)) else kind(value)
        raise entry.error(f"column '{column}': grade {shown}", allowed="an integer, 0: irrelevant")
    return value


_WORD = re.compile(
    # scripts without blanks between words: each of their characters is one
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]"
    r"|[^\W_\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+"
)
# What ragas puts before the passages of a question that needs several.
_HOP = re.compile(r"^\s*<\d+-hop>\s*")
_PIECE, _MANY, _ALIKE = 4, 8, 0.8
_CANDIDATES = 5
_LINES = 1_000  # documents whose words are remembered


class QuotedPassages:
    """Finds in which documents of a corpus quoted texts stand.

    Case, punctuation and white space do not matter. A text of at least 8 words that stands nowhere
    is placed where at least 80 % of its sequences of four words stand, so that a cut or a typing
    error does not lose it. A text that several documents hold is placed in each of them.
    """

    def __init__(self, texts: Iterable[str], documents: Sequence[Document]) -> None:
        wanted = dict.fromkeys(word for text in texts for word in _words(text))
        self._documents = documents
        self._holding: dict[str, list[int]] = {word: [] for word in wanted}
        for number, document in enumerate(documents):
            for word in set(_words(document.full_text)).intersection(self._holding):
                self._holding[word].append(number)
        self._line = lru_cache(_LINES)(self._words_of)

    def place(self, text: str) -> tuple[list[str], bool]:
        """Return the ids of the documents that hold a text, and whether word for word."""
        words = _words(text)
        if not words:
            return [], True
        rare = sorted(set(words), key=lambda word: len(self._holding[word]))[:_MANY]
        common = set(self._holding[rare[0]]).intersection(*(self._holding[w] for w in rare))
        line = f" {' '.join(words)} "
        if found := [number for number in sorted(common) if line in self._line(number)]:
            return [self._documents[number].id for number in found], True
        if len(words) < _MANY:
            return [], True
        counts = Counter(number for word in set(words) for number in self._holding[word])
        pieces = [" ".join(words[at : at + _PIECE]) for at in range(len(words) - _PIECE + 1)]
        shares = {
            number: sum(f" {piece} " in self._line(number) for piece in pieces) / len(pieces)
            for number, _ in counts.most_common(_CANDIDATES)
        }
        best = max(shares.values(), default=0.0)
        if best < _ALIKE:
            return [], True
        return [self._documents[n].id for n in sorted(shares) if shares[n] == best], False

    def _words_of(self, number: int) -> str:
        return f" {' '.join(_words(self._documents[number].full_text))} "


def _words(text: str) -> list[str]:
    return _WORD.findall(_HOP.sub("", text).casefold())
