"""Rows of a table of records, grouped by question and system, and their gold documents."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, filterfalse, islice
from pathlib import Path
from typing import Any, TypeVar

from ragbench.data.files.column_contents import ColumnContents
from ragbench.data.files.columns import (
    Columns,
    PartMap,
    resolve_columns,
    with_paths,
)
from ragbench.data.files.fields import (
    Chat,
    content_id,
    counted,
    read_boolean,
    read_list,
    read_texts,
)
from ragbench.data.files.forbidden import ForbiddenReader
from ragbench.data.files.gold import DocumentNames, GoldIds, QuotedPassages
from ragbench.data.files.gold_spans import SpanReader
from ragbench.data.files.pages import GoldPages, Page, file_name, read_page
from ragbench.data.files.rows import Entry
from ragbench.errors import DataError
from ragbench.registry import quote
from ragbench.types import Answered, Document, Query, Span, ToolCall
from ragbench.types.forbidden import NOTHING_FORBIDDEN, Forbidden
from ragbench.types.lookups import omit_keys, select_in_order
from ragbench.types.tables import columns_named

GOLD_PARTS = ("relevant", "reference_contexts", "reference_spans", "grades", "page")
_LISTED = 3
# Column in which people mark rows to leave out.
KEEP = "keep"
T = TypeVar("T")
_LONGEST = 60
# notes on quoted passages that are in the corpus
_INEXACT = "of them not word for word (at least 80 % of their words in a row)"
_ELSEWHERE = "of them not word for word in the named documents, which count as a whole"
# The system of records that do not name their system.
DEFAULT_SYSTEM = "given"
# file names hold the names of systems
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_.-]")


def system_name(label: str) -> str:
    """Return the name of a system as file names can hold it.

    Each character other than an ASCII letter, a digit, '_', '.' or '-' becomes a '-', so that two
    labels may give one name.

    Example:
        >>> system_name("Original Ground Truth")
        'Original-Ground-Truth'
    """
    return _NOT_IN_A_NAME.sub("-", label)


@dataclass(slots=True)
class QuestionTable:
    """Questions, gold and answers of the rows of a table; `add` collects them row by row.

    `add` raises a DataError for a row that contradicts an earlier one, or in which a system answers
    a question again; in a log such a question gets a new id. A mapping has no key for a question
    without such gold.

    Attributes:
        is_log: True if rows have neither ids nor systems: then each row is a question of its own.
        n_repeated: Number of rows of such a log that repeat an earlier question.
        n_split: Number of those that repeat its answer and hits too, with other gold.
        queries: Query id -> question.
        answers: Query id -> gold answers.
        expected: Query id -> gold tool calls.
        grades: Query id -> gold document -> grade.
        spans: Query id -> its gold spans, and None for gold that cannot be placed.
        excluded: Query id -> documents that do not count in its rankings.
        forbidden: Query id -> what must never come up.
        ambiguous: Query id -> documents that hold its quoted passage, if they are several and none
            is named.
        alternatives: Query id -> further gold document -> document in `grades` that it stands for.
        systems: System -> its answers and passages.
        first: Query id -> its first row in the file.
        rows: (system or None, query id) -> its row, or its first row if several name gold of one
            question.
        n_joined: Number of rows that only add gold to an earlier question.
        labels: System name -> its spelling in the rows.
    """

    is_log: bool = False
    n_repeated: int = 0
    n_split: int = 0
    queries: dict[str, Query] = field(default_factory=dict)
    answers: dict[str, list[str]] = field(default_factory=dict)
    expected: dict[str, tuple[ToolCall, ...]] = field(default_factory=dict)
    grades: dict[str, dict[str, int]] = field(default_factory=dict)
    spans: dict[str, dict[Span | None, None]] = field(default_factory=dict)
    excluded: dict[str, frozenset[str]] = field(default_factory=dict)
    forbidden: dict[str, Forbidden] = field(default_factory=dict)
    ambiguous: dict[str, Sequence[str]] = field(default_factory=dict)
    alternatives: dict[str, dict[str, str]] = field(default_factory=dict)
    systems: dict[str, list[Answered]] = field(default_factory=dict)
    first: dict[str, Entry] = field(default_factory=dict)
    rows: dict[tuple[str | None, str], ParsedRow] = field(default_factory=dict)
    n_joined: int = 0
    labels: dict[str, str] = field(default_factory=dict)

    def add(self, row: ParsedRow) -> None:
        """Add a row: its question, gold, and the output of its system if it has one.

        Raises:
            DataError: The row repeats a question of its system, contradicts an earlier row of its
                question, or gets the name of another system.
        """
        if self.is_log and row.of_a_system:
            row = self._with_free_id(row)
        first = self.rows.setdefault((row.system, row.query.id), row)
        if first is not row:
            self._join_gold(row, first)
        self.first.setdefault(row.query.id, row.entry)
        self._add_query(row)
        if first is row and row.gold.grades:
            self._add("other gold documents", row, self.grades, dict(row.gold.grades))
        if row.gold.spans:
            self.spans.setdefault(row.query.id, {}).update(dict.fromkeys(row.gold.spans))
        if row.gold.excluded:
            earlier = self.excluded.get(row.query.id, frozenset())
            self.excluded[row.query.id] = earlier | row.gold.excluded
        if row.gold.forbidden:
            earlier_forbidden = self.forbidden.get(row.query.id, NOTHING_FORBIDDEN)
            self.forbidden[row.query.id] = earlier_forbidden | row.gold.forbidden
        if row.gold.alternatives:
            self.alternatives.setdefault(row.query.id, {}).update(row.gold.alternatives)
        if row.gold.ambiguous:
            self.ambiguous[row.query.id] = row.gold.ambiguous
        if not row.of_a_system:
            return
        answered = Answered(
            row.query.id,
            row.answer,
            row.contexts,
            row.queries,
            row.talk.tool_calls,
            reasoning=row.reasoning,
            further=row.further,
            metadata=row.query.metadata,
        )
        self.systems.setdefault(self._name(row), []).append(answered)

    @property
    def gold_spans(self) -> dict[str, list[Span]]:
        """Query id -> its gold spans; [] if a part of its gold cannot be placed.

        Questions without quoted passages and spans have no key.
        """
        gold = {}
        for query, spans in self.spans.items():
            placed = []
            for span in spans:
                if span is not None:
                    placed.append(span)
            # a part of the gold would give other values than the whole
            gold[query] = placed if len(placed) == len(spans) else []
        return gold

    def drop_ambiguous(self) -> None:
        """Remove all gold documents and spans of questions with an ambiguous quoted passage.

        Call it after the last row: a part of the gold would give other values than the whole.
        """
        for query in self.ambiguous:
            self.grades.pop(query, None)
            self.spans.pop(query, None)

    def _with_free_id(self, row: ParsedRow) -> ParsedRow:
        """Return the row with `-2`, `-3`, ... after its id if the log has the question already."""
        # the first row of a question keeps its id, so that earlier results stay valid
        identifier, number = row.query.id, 1
        while (row.system, identifier) in self.rows:
            number += 1
            identifier = f"{row.query.id}-{number}"
        if number > 1:
            self.n_repeated += 1
            first = self.rows[row.system, row.query.id]
            has_same_output = (row.answer, row.hit_ids) == (first.answer, first.hit_ids)
            self.n_split += has_same_output and row.gold.grades != first.gold.grades
        return row if number == 1 else replace(row, query=replace(row.query, id=identifier))

    def _join_gold(self, row: ParsedRow, first: ParsedRow) -> None:
        """Add the gold documents of a further row of a question."""
        # two answers of a system to one question would count the question twice
        if row.of_a_system or first.of_a_system:
            system = f" of system '{row.system}'" if row.system else ""
            raise row.entry.error(
                f"question '{row.query.id}'{system} is repeated, first at {first.entry.place}: "
                f"'{row.query.text[:60]}'",
                allowed="one row per question, or a column id or system that tells them apart",
            )
        for name, grade in row.gold.grades.items():
            # a document may come again with the same grade
            if self.grades.setdefault(row.query.id, {}).setdefault(name, grade) != grade:
                problem = f"'{row.query.id}': '{name}' has two grades"
                raise row.entry.error(problem, allowed="one grade for a document")
        self.n_joined += 1

    def _add_query(self, row: ParsedRow) -> None:
        """Add the question, gold answers and gold tool calls of a row."""
        query = self.queries.setdefault(row.query.id, row.query)
        if query.text != row.query.text:
            raise self._conflict("another question", row)
        if query.turns != row.query.turns:
            raise self._conflict("other earlier turns", row)
        if query.pool != row.query.pool:
            raise self._conflict("another pool", row)
        # metadata that differs between the rows of a question describes the answers
        shared, metadata = {}, row.query.metadata
        for key, value in query.metadata.items():
            if key in metadata and metadata[key] == value:
                shared[key] = value
        if len(shared) < len(query.metadata):
            self.queries[query.id] = replace(query, metadata=shared)
        if row.reference:
            self._add("another reference", row, self.answers, row.reference)
        if row.talk.expected is not None:
            self._add("other expected tool calls", row, self.expected, row.talk.expected)

    def _add(self, fault: str, row: ParsedRow, gold: dict[str, T], value: T) -> None:
        """Store `value` in `gold` for the row's question, unless an earlier row has stored it."""
        if gold.setdefault(row.query.id, value) != value:
            raise self._conflict(fault, row)

    def _conflict(self, conflict: str, row: ParsedRow) -> DataError:
        """Return the error for a row that contradicts the first row of its question."""
        first = self.first[row.query.id]
        problem = f"'{row.query.id}' has {conflict} at {first.place} than here, where the question "
        problem += f"is '{row.query.text[:60]}'"
        allowed = "the same in each row of a question, or an id that tells them apart"
        return row.entry.error(problem, allowed=allowed)

    def _name(self, row: ParsedRow) -> str:
        """Return the name of the system of a row."""
        label = DEFAULT_SYSTEM if row.system is None else row.system
        name = system_name(label)
        if (other := self.labels.setdefault(name, label)) != label:
            problem = f"systems '{label}' and '{other}' would both be named '{name}'"
            raise row.entry.error(problem, allowed="names that differ in letters or digits")
        return name


@dataclass(frozen=True, slots=True)
class RowGold:
    """Gold of a row: documents, spans, and a quoted passage that stands in several documents.

    Attributes:
        grades: Gold document -> grade; empty without gold.
        spans: Gold spans; None stands for gold that cannot be placed in its document.
        ambiguous: Documents that hold a quoted passage, if they are several and the row names
            none; the row then has neither grades nor spans.
        excluded: Documents that do not count in the rankings of the question.
        alternatives: Further gold document -> document in `grades` that it stands for.
        forbidden: Documents, metadata and spans that must never come up.
    """

    grades: dict[str, int] = field(default_factory=dict)
    spans: tuple[Span | None, ...] = ()
    ambiguous: Sequence[str] = ()
    excluded: frozenset[str] = frozenset()
    alternatives: dict[str, str] = field(default_factory=dict)
    forbidden: Forbidden = NOTHING_FORBIDDEN


@dataclass(frozen=True, slots=True)
class ParsedRow:
    """Row of a table, with the value of each part; `RecordTable` makes it for `QuestionTable.add`.

    Attributes:
        entry: The row in the file, for messages.
        system: The system that answered; None if the row does not name it.
        contexts: Retrieved passages, best first; None without any.
        answer: Answer of the system; None without any.
        reference: Gold answers, without empty ones.
        queries: Search queries that the system formulated.
        talk: Earlier turns, and tool calls.
        gold: Gold documents and spans.
        quoted: Gold passages as texts.
        has_ids: True if the table has a column of retrieved ids: a row without a value is then a
            missing prediction.
        reasoning: Reasoning that was cut from the answer; empty if none was.
        further: Hits ranked below the passages, of a row with more ids than passages.
        query: Question with its id, metadata and earlier turns.
    """

    entry: Entry
    query: Query
    system: str | None
    contexts: list[Document] | None
    answer: str | None
    reference: list[str]
    queries: list[str]
    talk: Chat
    gold: RowGold
    quoted: list[str]
    has_ids: bool = False
    reasoning: str = ""
    further: list[Document] = field(default_factory=list)

    @property
    def hit_ids(self) -> list[str] | None:
        """Ids of the retrieved passages and of the hits below them; None without passages."""
        return None if self.contexts is None else [p.id for p in (*self.contexts, *self.further)]

    @property
    def of_a_system(self) -> bool:
        """Return True if the record has passages, an answer, search queries or tool calls.

        A missing prediction counts as one with ids.
        """
        outputs = (self.contexts, self.answer, self.talk.tool_calls)
        has_output = bool(self.queries) or any(output is not None for output in outputs)
        return self.has_ids or has_output

    def parts(self, columns: Columns) -> dict[str, Any]:
        """Return part -> value, for the parts that have a column, for `ragbench validate`.

        A whole conversation adds the question and the answer. `contexts` are texts
        and `retrieved` ids, None without passages; gold of a grade other than 1 is `id: grade`, and
        a gold span `document start-end`. Other lists are [] without any.
        """
        reference_spans = []
        for span in self.gold.spans:
            reference_spans.append(
                "in no document" if span is None else f"{span.document} {span.start}-{span.end}"
            )
        contexts, retrieved = None, None
        if self.contexts is not None:
            contexts = [document.text for document in self.contexts]
            retrieved = [document.id for document in (*self.contexts, *self.further)]
        values: dict[str, Any] = {
            "id": self.query.id,
            "question": self.query.text,
            "contexts": contexts,
            "retrieved": retrieved,
            "answer": self.answer,
            "reference": self.reference,
            "queries": self.queries,
            "system": self.system,
            "reference_contexts": self.quoted,
            "reference_spans": reference_spans,
            "excluded": sorted(self.gold.excluded),
            "pool": None if self.query.pool is None else [*self.query.pool],
            "forbidden": self.gold.forbidden.labels,
            "relevant": [n if g == 1 else f"{n}: {g}" for n, g in self.gold.grades.items()],
        }
        # parts of a whole conversation have no columns of their own
        derived = () if self.talk.whole is None else ("question", "answer")
        parts = {}
        for part in values:
            if part in columns or part in derived:
                parts[part] = values[part]
        return parts


class GoldColumns:
    """Reader of the gold documents of each row; collects notes on gold that the corpus lacks.

    It is created from the columns, all rows, the corpus (None without one) and the reader of ids.
    `read(row)` returns the gold of a row, or raises a DataError for malformed gold. After all rows,
    `notes` and `warnings` are lists of sentences, and `check_gold` raises a
    DataError if there is no gold.

    Attributes:
        columns: Part -> column, of the parts with gold.
        passages: Gold passages by id, if there is no corpus to find them in; else empty.
        places: Gold id that the corpus lacks -> its first place as text; empty without a corpus.
    """

    def __init__(
        self,
        columns: Columns,
        entries: Sequence[Entry],
        documents: Sequence[Document] | None,
        ids: GoldIds,
        pages: GoldPages | None = None,
    ) -> None:
        """Select the columns with gold; with a corpus, index the words of all quoted passages.

        The index finds the documents of the corpus that hold a quoted passage.

        Args:
            columns: Part -> column.
            entries: All rows of the table; may be empty.
            documents: The corpus; None without one, and then no passage is read here.
            ids: Reader of the ids and grades, with the names of the corpus.
            pages: Documents of gold pages; None if gold is whole documents.

        Raises:
            DataError: With a corpus: a quoted passage is neither a text nor an object with one.
        """
        self.columns = select_in_order(columns, GOLD_PARTS)
        self._excluded = columns.get("excluded")
        self._documents, self._names = documents, ids.names
        self._ids, self._pages = ids, pages
        self._spans = SpanReader(documents, ids)
        self._forbidden = None
        if "forbidden" in columns:
            reader = ForbiddenReader(ids, self._spans, documents)
            self._forbidden = partial(reader.read, column=columns["forbidden"])
        self._quotes = None
        if documents is not None and "reference_contexts" in columns:
            texts = chain.from_iterable(map(self.texts, entries))
            self._quotes = QuotedPassages(texts, documents)
        self.passages: dict[str, Document] = {}
        self.places: dict[str, str] = {}
        # quoted text -> its first place; of placed ones, by note
        self._unplaced: dict[str, str] = {}
        self._noted: dict[str, dict[str, str]] = {_INEXACT: {}, _ELSEWHERE: {}}
        self._ambiguous: dict[str, str] = {}
        self._quoted = Counter[str]()
        # excluded id that the corpus lacks -> its first place
        self._unknown_excluded: dict[str, str] = {}
        self._n_empty = self._n_rows = 0

    def read(self, entry: Entry, pool: Sequence[str] | None = None) -> RowGold:
        """Return the gold of a row: its ids, spans and quoted passages.

        The grade is 1 where the row gives none. Ids that the corpus lacks stay. Without a corpus a
        passage is a document of its own, and quotes give no span. With one, a quote has a span in
        each document that the row names and that holds it; a row without a named document has the
        one document that holds the quote. The span None stands for a quote or span that is in no
        such document. Places of unknown ids, passages and counts for the notes are collected.

        Args:
            entry: Row of the table.
            pool: Documents in which quotes are searched, if the row names none; None searches all.

        Raises:
            DataError: A cell has another form, an id fits several documents, or grades do not fit
                to the ids.
        """
        grades, spans = self._named_documents(entry), list[Span | None]()
        alternatives = dict[str, str]()
        if "relevant" in self.columns:
            alternatives = self._ids.alternatives(entry, self.columns["relevant"])
            grades = omit_keys(grades, alternatives)
        if self._pages is not None:
            grades, alternatives = self._documents_of_pages(entry, self._pages, grades)
        if "reference_spans" in self.columns:
            for document, span in self._spans.read(entry, self.columns["reference_spans"]):
                grades.setdefault(document, 1)
                spans.append(span)
        documents = [name for name, grade in grades.items() if grade > 0]
        ambiguous: Sequence[str] = ()
        for text in self.texts(entry):
            if self._documents is None:
                # without a corpus, a quoted text is a document of its own
                name = content_id(text)
                self.passages.setdefault(name, Document(name, text))
                grades.setdefault(name, 1)
            elif documents:
                spans += self._in_documents(entry, text, documents)
            else:
                holders = self._search(entry, text, pool)
                ambiguous = holders if len(holders) > 1 else ambiguous
                grades.update(dict.fromkeys(holders, 1))
                spans += self._spans.quoted(text, holders)
        if ambiguous:
            grades, spans = {}, []
        if self._names is not None:
            # for messages about gold that the corpus lacks
            for name in filterfalse(self._names.ids.__contains__, grades):
                self.places.setdefault(name, f"{Path(entry.file).name} {entry.place}")
        self._n_rows += 1
        self._n_empty += not grades and not ambiguous
        excluded = self._read_excluded(entry)
        forbidden = NOTHING_FORBIDDEN if self._forbidden is None else self._forbidden(entry)
        return RowGold(grades, tuple(spans), ambiguous, excluded, alternatives, forbidden)

    def _read_excluded(self, entry: Entry) -> frozenset[str]:
        """Return the ids of documents that do not count for the question of a row."""
        if self._excluded is None:
            return frozenset()
        excluded = frozenset(name for name, _ in self._ids.read(entry, self._excluded))
        if self._names is not None:
            for name in filterfalse(self._names.ids.__contains__, sorted(excluded)):
                self._unknown_excluded.setdefault(name, f"{entry.place}: '{name}'")
        return excluded

    def _named_documents(self, entry: Entry) -> dict[str, int]:
        """Return the gold documents that a row names by their ids, each with its grade."""
        if "relevant" not in self.columns:
            return {}
        gold = self._ids.read(entry, self.columns["relevant"])
        if "grades" in self.columns:
            return self._ids.grades(entry, self.columns["grades"], gold)
        documents = {}
        for name, grade in gold:
            documents[name] = 1 if grade is None else grade
        return documents

    def _documents_of_pages(
        self, entry: Entry, pages: GoldPages, grades: dict[str, int]
    ) -> tuple[dict[str, int], dict[str, str]]:
        """Return (grade of the first document of each gold page, its further documents as its)."""
        numbers = _page_numbers(entry, self.columns["page"]) if grades else []
        if len(numbers) not in (1, len(grades)) or None in numbers:
            column = self.columns["page"]
            problem = f"column '{column}': {quote(entry.values.get(column))}"
            raise entry.error(problem, allowed="the number of a page, or one for each gold file")
        of_pages, alternatives = dict[str, int](), dict[str, str]()
        numbers = numbers if len(numbers) == len(grades) else numbers * len(grades)
        for (file, grade), number in zip(grades.items(), numbers, strict=True):
            first, *further = pages.ids((file_name(file), number or 0))
            of_pages[first] = grade
            alternatives |= dict.fromkeys(further, first)
        return of_pages, alternatives

    def texts(self, entry: Entry) -> list[str]:
        """Return the gold passages of a row; empty without any, and if ids take their place.

        Ids do so without a corpus, if the table has a column of them. Blank texts are left out.
        Raises DataError if a passage is neither a text nor an object with one.
        """
        column = self.columns.get("reference_contexts")
        # without a corpus, ids are of what the records hold, and passages have no id
        if column is None or (self._documents is None and "relevant" in self.columns):
            return []
        texts = read_texts(entry, column) or []
        filled = []
        for text in texts:
            if text.strip():
                filled.append(text)
        return filled

    def _in_documents(
        self, entry: Entry, text: str, documents: Sequence[str]
    ) -> Sequence[Span | None]:
        """Return the spans of a quote in the documents that the row names; [None] without one."""
        self._quoted[text] += 1
        spans = self._spans.quoted(text, documents)
        if None in spans:
            self._noted[_ELSEWHERE].setdefault(text, _place_of(entry, text))
        return spans

    def _search(self, entry: Entry, text: str, pool: Sequence[str] | None) -> list[str]:
        """Return the ids of the documents of the corpus, or of a pool, that hold a quoted text."""
        ids, is_exact = ([], True) if self._quotes is None else self._quotes.place(text)
        if pool is not None:
            ids = [name for name in ids if name in pool]
        place = _place_of(entry, text)
        self._quoted[text] += 1
        if not ids:
            self._unplaced.setdefault(text, place)
        elif not is_exact:
            self._noted[_INEXACT].setdefault(text, place)
        if len(ids) > 1:
            self._ambiguous.setdefault(text, f"{place} in {', '.join(ids[:_LISTED])}")
        return ids

    def check_gold(self, file: object, parts: Iterable[str]) -> None:
        """Check, after all rows, that there is gold.

        Without a column of gold that the user named, rows without gold are allowed.

        Args:
            file: For messages.
            parts: Parts that the user named; other columns may be empty.

        Raises:
            DataError: The user named a column of gold, and no row has gold in any column; or no
                quoted passage stands in the corpus.
        """
        if self._unplaced and len(self._unplaced) == len(self._quoted):
            raise DataError(
                f"none of the {len(self._quoted)} gold passages stands in the corpus, such as "
                f"{next(iter(self._unplaced.values()))}",
                file=file,
                record=self.columns["reference_contexts"],
                allowed="texts that documents of the corpus hold, or ids in `relevant`",
            )
        columns = []
        for part, column in self.columns.items():
            if part in parts:
                columns.append(column)
        if columns and self._n_empty == self._n_rows:
            allowed = "the ids of gold documents, or gold passages, in one row at least"
            raise DataError("no row has any gold", file=file, record=columns[0], allowed=allowed)

    @property
    def notes(self) -> list[str]:
        """Notes on the gold: rows without any, other spellings, repeated ids, quotes.

        The result is empty if there is nothing to tell.
        """
        notes = [] if self._pages is None else [self._pages.note]
        if self._n_empty and self.columns:
            notes.append(f"{self._n_empty} of {self._n_rows} rows name no gold document")
        if renamed := self._ids.renamed:
            name = next(iter(renamed))
            (document_id,) = self._names.resolve(name) if self._names else [""]
            spelled = f"spelled otherwise than in the corpus: '{name}' is '{document_id}'"
            notes.append(f"{counted(len(renamed), 'gold document')} {spelled}")
        if self._ids.repeated:
            notes.append(f"{self._ids.repeated} gold ids stand twice in their row and count once")
        if self._quoted:
            lost = self._unplaced.keys() | self._noted[_ELSEWHERE].keys()
            n, placed = len(self._quoted), len(self._quoted.keys() - lost)
            different = "different " if self._quoted.total() > n else ""
            notes.append(f"{placed} of {n} {different}gold passages found in the corpus")
        for note, places in self._noted.items():
            if places:
                notes.append(f"{len(places)} {note}, first at {next(iter(places.values()))}")
        if self.passages:
            note = "gold passages; there is no corpus, so that passages are matched by their words"
            notes.append(f"{len(self.passages)} {note}")
        return notes

    @property
    def warnings(self) -> list[str]:
        """Warnings on excluded ids and gold passages that no document has, or several ones."""
        total, warnings = len(self._quoted), list[str]()
        if self._unknown_excluded:
            unknown = counted(len(self._unknown_excluded), "excluded id")
            example = next(iter(self._unknown_excluded.values()))
            warnings.append(f"{unknown} of no document of the corpus, such as {example}")
        if self._unplaced:
            warnings.append(
                f"{len(self._unplaced)} of {total} gold passages stand in no document of the "
                f"corpus and are left out: {_listed(self._unplaced.values())}"
            )
        if self._ambiguous:
            warnings.append(
                f"{len(self._ambiguous)} of {total} gold passages stand in several documents, so "
                "that their questions have no gold (ambiguous_quote); name it in "
                f"`relevant`: {_listed(self._ambiguous.values())}"
            )
        return warnings


def _place_of(entry: Entry, text: str) -> str:
    """Return the place of a row and the start of its quoted text, for messages."""
    line = " ".join(text.split())
    quote = line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
    return f"{entry.place}: '{quote}'"


def _listed(places: Collection[str]) -> str:
    """Return the first places of a message, and `...` for more."""
    start = "; ".join(islice(places, _LISTED))
    return f"{start}; ..." if len(places) > _LISTED else start


def gold_pages(
    entries: Sequence[Entry], columns: Columns, names: DocumentNames | None
) -> list[Page]:
    """Return the file and page of each gold document; a row without a page has none."""
    if "relevant" not in columns:
        return []
    reader, pages = GoldIds(names), list[Page]()
    for entry in entries:
        files = []
        for name, _ in reader.read(entry, columns["relevant"]):
            files.append(file_name(name))
        numbers = _page_numbers(entry, columns["page"])
        numbers = numbers * len(files) if len(numbers) == 1 else numbers
        pairs = zip(files, numbers, strict=False)
        for file, number in pairs:
            if number is not None:
                pages.append((file, number))
    return pages


def _page_numbers(entry: Entry, column: str) -> list[int | None]:
    """Return the numbers in a column of pages; None for an item that is no number."""
    numbers = []
    for item in read_list(entry, column) or ():
        numbers.append(read_page(item))
    return numbers


def map_columns(
    entries: Sequence[Entry],
    mapping: PartMap,
    names: DocumentNames | None,
    file: object,
    doubts: list[str] | None = None,
) -> tuple[Sequence[Entry], Columns]:
    """Return (rows with paths as columns, part -> column).

    Rows with `keep` = no are left out. Before that each row gets its number in the table, from 1.

    Args:
        entries: Rows of the table.
        mapping: Part -> its column, or none, as the user says it.
        names: Document ids of the corpus; None without a corpus.
        file: For messages.
        doubts: Receives ambiguous columns as sentences; None raises the first one.

    Raises:
        DataError: No column has the question, a named column is missing, or the part of a column is
            not clear.
    """
    # numbered before rows are left out: these are the numbers that the user sees
    numbered = enumerate(with_paths(entries, mapping), 1)
    rows = kept_rows([replace(entry, number=number) for number, entry in numbered])
    present = list(dict.fromkeys(chain.from_iterable(row.values for row in rows)))
    return rows, resolve_columns(present, mapping, file, ColumnContents(rows, names), doubts)


def kept_rows(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the rows without those whose column `keep` is no; an empty cell means yes.

    The column holds yes, no, true, false, 1, 0 or nothing, in any case. A column `keep` without any
    of these words is metadata of the question, and all rows are returned.

    Raises:
        DataError: Some cells are such words and another one is not, or no row is kept.
    """
    present = dict.fromkeys(chain.from_iterable(entry.values for entry in entries))
    column = next(iter(columns_named([*present], [KEEP])), None)
    if column is None:
        return entries
    marks = []
    for entry in entries:
        marks.append(read_boolean(entry, column, entry.values.get(column), cells=False))
    if not any(isinstance(mark, bool) for mark in marks):
        return entries
    rows = []
    for entry, mark in zip(entries, marks, strict=True):
        if not isinstance(mark, bool | None):
            raise entry.error(f"column '{column}' has '{mark}'", allowed="yes, no, an empty cell")
        if mark is not False:
            rows.append(entry)
    if not rows:
        problem = f"every row has no in column '{column}'"
        raise DataError(problem, file=entries[0].file, allowed="yes or an empty cell in some rows")
    return rows
