"""The gold of a table: which documents are relevant to a question, by ids, grades and quotes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from ragbench.data.files.columns import Columns
from ragbench.data.files.fields import content_id, read_texts
from ragbench.data.files.gold import DocumentNames, GoldIds, QuotedPassages, read_grades
from ragbench.data.files.rows import Entry
from ragbench.errors import DataError
from ragbench.types import Document

GOLD_PARTS = ("relevant", "reference_contexts", "grades")
_SHOWN = 3
_LONGEST = 60


class GoldColumns:
    """Reads the gold documents of each row; what could not be placed is kept with its place."""

    def __init__(
        self,
        columns: Columns,
        entries: Sequence[Entry],
        documents: Sequence[Document] | None,
        names: DocumentNames | None,
        *,
        cells: bool,
    ) -> None:
        self.columns = {part: columns[part] for part in GOLD_PARTS if part in columns}
        self._cells, self._documents, self._names = cells, documents, names
        self._ids = GoldIds(names)
        self._quotes = None
        if documents is not None and "reference_contexts" in columns:
            texts = (text for entry in entries for text in self.texts(entry))
            self._quotes = QuotedPassages(texts, documents)
        self.passages: dict[str, Document] = {}
        """Gold passages by id, where there is no corpus to find them in."""
        self.places: dict[str, str] = {}
        """Gold id as it is written -> where it stands first; those that the corpus lacks."""
        self._homeless: dict[str, str] = {}
        self._alike: dict[str, str] = {}
        self._several: dict[str, str] = {}
        self._quoted: set[str] = set()
        self._without = self._rows = 0

    def read(self, entry: Entry) -> dict[str, int]:
        """Return the grades of a row by document; empty where it names none."""
        grades: dict[str, int] = {}
        if "relevant" in self.columns:
            found = self._ids.read(entry, self.columns["relevant"])
            if "grades" in self.columns:
                grades = read_grades(entry, self.columns["grades"], found, self._ids)
            else:
                grades = {name: 1 if grade is None else grade for name, grade in found}
            if self._names is not None:
                for name in (each for each in grades if each not in self._names.ids):
                    self.places.setdefault(name, f"{Path(entry.file).name} {entry.place}")
        for text in self.texts(entry):
            for document in self._placed(entry, text):
                grades.setdefault(document, 1)
        self._rows += 1
        self._without += not grades
        return grades

    def texts(self, entry: Entry) -> list[str]:
        """Return the gold passages of a row."""
        column = self.columns.get("reference_contexts")
        # without a corpus, ids are of what the records hold, and passages have no id
        if column is None or (self._documents is None and "relevant" in self.columns):
            return []
        texts = read_texts(entry, column, cells=self._cells) or []
        return [text for text in texts if text.strip()]

    def _placed(self, entry: Entry, text: str) -> list[str]:
        """The documents that a quoted text stands in; itself where there is no corpus."""
        if self._quotes is None:
            name = content_id(text)
            self.passages.setdefault(name, Document(name, text))
            return [name]
        found, exactly = self._quotes.place(text)
        place = f"{entry.place}: '{_short(text)}'"
        self._quoted.add(text)
        if not found:
            self._homeless.setdefault(text, place)
        elif not exactly:
            self._alike.setdefault(text, place)
        if len(found) > 1:
            self._several.setdefault(text, place)
        return found

    def refuse_nothing(self, file: object, named: Iterable[str]) -> None:
        """Refuse columns that the user names and that hold no gold, and quotes that all are lost.

        Raises:
            DataError: Nothing was found.
        """
        if self._homeless and len(self._homeless) == len(self._quoted):
            raise DataError(
                f"none of the {len(self._quoted)} gold passages stands in the corpus, such as "
                f"{next(iter(self._homeless.values()))}",
                file=file,
                record=self.columns["reference_contexts"],
                allowed="texts that documents of the corpus hold, or ids in `relevant`",
            )
        told = [self.columns[part] for part in GOLD_PARTS if part in named and part in self.columns]
        if told and self._without == self._rows:
            allowed = "the ids of gold documents, or gold passages, in one row at least"
            raise DataError("no row has any gold", file=file, record=told[0], allowed=allowed)

    @property
    def notes(self) -> list[str]:
        """How the gold was read, a sentence each."""
        found = []
        if self._without and self.columns:
            found.append(f"{self._without} of {self._rows} rows name no gold document")
        if renamed := self._ids.renamed:
            name = next(iter(renamed))
            (meant,) = self._names.meant(name) if self._names else [""]
            are = "document is" if len(renamed) == 1 else "documents are"
            what = f"{len(renamed)} gold {are} not written as the corpus has them"
            found.append(f"{what}: '{name}' is '{meant}'")
        if self._ids.repeated:
            found.append(f"{self._ids.repeated} gold ids stand twice in their row; counted once")
        if self._quoted:
            placed = len(self._quoted) - len(self._homeless)
            found.append(f"{placed} of {len(self._quoted)} gold passages found in the corpus")
        if self._alike:
            what = "of them not word for word (at least 80 % of their words in a row)"
            found.append(f"{len(self._alike)} {what}, first at {_first(self._alike)}")
        if self._several:
            what = "gold passages stand in several documents, each of which counts as relevant"
            found.append(f"{len(self._several)} {what}, first at {_first(self._several)}")
        if self.passages:
            what = "gold passages; there is no corpus, so that passages are matched by their words"
            found.append(f"{len(self.passages)} {what}")
        return found

    @property
    def warnings(self) -> list[str]:
        """What makes numbers doubtful: gold that has no place in the corpus."""
        if not self._homeless:
            return []
        shown = "; ".join(list(self._homeless.values())[:_SHOWN])
        more = "; ..." if len(self._homeless) > _SHOWN else ""
        return [
            f"{len(self._homeless)} of {len(self._quoted)} gold passages stand in no document of "
            f"the corpus and are left out: {shown}{more}"
        ]


def _first(places: dict[str, str]) -> str:
    return next(iter(places.values()))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."


def holds_ids(entries: Sequence[Entry], names: DocumentNames | None, column: str) -> bool:
    """Whether the corpus knows at least half of what stands in a column."""
    known, total = known_ids(entries, names, column)
    return total > 0 and known * 2 >= total


def known_ids(
    entries: Sequence[Entry], names: DocumentNames | None, column: str
) -> tuple[int, int]:
    """Return how many of the ids in a column the corpus knows, and how many there are."""
    if names is None:
        return 0, 0
    reader, known, total = GoldIds(names), 0, 0
    for entry in entries:
        try:
            found = reader.read(entry, column)
        except DataError:  # it holds something else
            return 0, 0
        total += len(found)
        known += sum(name in names.ids for name, _ in found)
    return known, total
