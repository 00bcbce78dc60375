"""Records, a row per question: `dataset: {type: records, path: logs.jsonl, columns: {...}}`.

From a file, or by name from the Hugging Face hub: `dataset: {type: huggingface, path: ...}`.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from ragbench.data.files.collection import Corpus, corpus_notes, read_corpus
from ragbench.data.files.columns import Columns, PartMap, check_mapping
from ragbench.data.files.fields import ChatReader, Passages, chat_notes, read_text, read_texts
from ragbench.data.files.gold import DocumentNames
from ragbench.data.files.rows import Entry, is_csv, read_rows
from ragbench.data.loaders.base import (
    CorpusReader,
    Previewed,
    SplitOption,
    finish_collection,
    parse_split,
)
from ragbench.data.loaders.questions import Gathered, GoldColumns, Row, map_columns
from ragbench.data.traces.spans import refuse_traces
from ragbench.errors import DataError, MissingExtra
from ragbench.registry import Option
from ragbench.types import Collection, Document, Qrels, Query


class TableLoader(Previewed, CorpusReader):
    """A loader of a table, a row per question, perhaps over a corpus."""

    def __init__(
        self,
        owner: str,
        columns: PartMap | None,
        corpus: Path | None,
        split: Mapping[str, object] | None,
    ) -> None:
        check_mapping(columns or {}, owner)
        self._columns, self._corpus, self._drawn = columns, corpus, parse_split(split, owner)

    def load(self) -> Collection:
        """Read and check the rows, and the corpus where there is one."""
        return finish_collection(self._rows().collection(), self._drawn)

    def preview(self, count: int = 2) -> list[dict[str, Any]]:
        """Return how the first rows were read: part -> value."""
        return self._rows().preview(count)

    @abstractmethod
    def _rows(self) -> RecordTable:
        """Return the table of the rows."""

    def _table(self, entries: Sequence[Entry], file: object, *, cells: bool = False) -> RecordTable:
        corpus = None if self._corpus is None else read_corpus(Path(self._corpus), self.load_packed)
        return RecordTable(entries, columns=self._columns, corpus=corpus, file=file, cells=cells)


class Records(TableLoader):
    """Read JSON lines, JSON arrays, CSV or Parquet with questions, gold and what systems answered.

    `relevant` names the gold documents of a question (an id, or several in any usual writing),
    `reference_contexts` quotes them, `reference` is the gold answer. Records that carry passages or
    answers are themselves a system, named `given`, or one for each value of `system`. Columns that
    play no part become metadata of the question.
    """

    def __init__(
        self,
        *,
        path: Annotated[
            Path,
            Option(
                "The .jsonl, .json, .csv, .tsv or .parquet file, a row per question.",
                refers_to="path",
            ),
        ],
        columns: Annotated[
            Mapping[str, str | list[str] | None] | None,
            Option(
                "Which column is the id, question, contexts, answer (the system's), reference "
                "(the gold one), queries, system, turns, standalone_question, tool_calls, "
                "expected_tool_calls, relevant (ids of gold documents), reference_contexts (gold "
                "passages), grades (of relevant); null for none. "
                "reference, relevant and reference_contexts may be lists of columns."
            ),
        ] = None,
        corpus: Annotated[
            Path | None,
            Option(
                "Documents for retrievers: a folder of .txt and .md files (also .pdf and .html, "
                "extra documents), or a .jsonl, .json, .csv, .tsv or .parquet file.",
                refers_to="path",
            ),
        ] = None,
        split: SplitOption = None,
    ) -> None:
        self._path = Path(path)
        super().__init__("records", columns, corpus, split)

    def _rows(self) -> RecordTable:
        entries = list(read_rows(self._path, "records"))
        return self._table(entries, self._path, cells=is_csv(self._path))


class HuggingFace(TableLoader):
    """Read a data set of the hub, or a folder in its layout, with a question in each row.

    Rows are read as `records` reads them; the columns of the RAGBench data set are known. A
    folder is read where it lies, what comes from the hub is kept by the datasets package.
    """

    def __init__(
        self,
        *,
        path: Annotated[
            str,
            Option(
                "Name on the hub, or a folder of .parquet, .jsonl or .csv files.",
                refers_to="folder_or_name",
            ),
        ],
        subset: Annotated[
            str | None, Option("The subset, if there are several: `covidqa` of RAGBench.")
        ] = None,
        split: Annotated[
            str | Mapping[str, Any],
            Option(
                "The split that is scored; {test: 0.2, seed: 13} draws one if there is only one."
            ),
        ] = "test",
        columns: Annotated[
            Mapping[str, str | list[str] | None] | None,
            Option("Which column plays which part, as in `records`; null for none."),
        ] = None,
        corpus: Annotated[
            Path | None, Option("Documents for retrievers, as in `records`.", refers_to="path")
        ] = None,
    ) -> None:
        self._path, self._subset = path, subset
        self._name = split if isinstance(split, str) else None
        drawn = None if isinstance(split, str) else split
        super().__init__("huggingface", columns, corpus, drawn)

    def _rows(self) -> RecordTable:
        name, rows = self._split()
        place = self._path if self._subset is None else f"{self._path} ({self._subset})"
        numbered = enumerate(rows, start=1)
        entries = [Entry(place, None, dict(row), f"{name} row {n}") for n, row in numbered]
        if not entries:
            raise DataError("no rows", file=place, record=name, allowed="at least one")
        return self._table(entries, place)

    def _split(self) -> tuple[str, Any]:
        try:
            # by name: a folder `datasets` where we are would pass for the package itself
            from datasets import load_dataset
        except ImportError as error:
            raise MissingExtra("dataset 'huggingface'", "datasets", "huggingface") from error
        is_local = os.path.isdir(self._path)
        try:
            # streamed: files that are here already need no second copy in the cache
            splits = load_dataset(self._path, self._subset, streaming=is_local)
        except Exception as error:
            reason = str(error).split("\n", 1)[0]
            allowed = "a data set of the hub that can be reached, or a folder with one"
            found = f"cannot be loaded: {type(error).__name__}: {reason}"
            raise DataError(found, file=self._path, allowed=allowed) from error
        names = list(splits)
        name = names[0] if self._name is None else self._name
        if name not in names:
            found = f"no split '{name}'"
            raise DataError(found, file=self._path, record="split", allowed=", ".join(names))
        if self._name is None and len(names) > 1:
            found = f"there are splits already: {', '.join(names)}"
            raise DataError(found, file=self._path, record="split", allowed="one of them by name")
        return name, splits[name]


class RecordTable:
    """Rows with a question each, read by the parts that their columns play."""

    def __init__(
        self,
        entries: Sequence[Entry],
        *,
        columns: PartMap | None,
        corpus: Corpus | None,
        file: object,
        cells: bool = False,
    ) -> None:
        refuse_traces(entries, columns)
        documents = None if corpus is None else corpus.documents
        names = None if corpus is None else DocumentNames(corpus.documents, corpus.folder)
        entries, resolved, self._named = map_columns(entries, columns or {}, names, file)
        self._entries, self._corpus, self._file = entries, corpus, file
        self._columns, self._cells = resolved, cells
        self._gold = GoldColumns(resolved, entries, documents, names, cells=cells)
        self._talk = ChatReader(entries, resolved, documents or (), cells=cells)
        self._passages = Passages(documents or [])

    def collection(self) -> Collection:
        """Return the data set, without fingerprints."""
        columns, gold = self._columns, self._gold
        gathered = Gathered(is_log=not {"id", "system"} & columns.keys())
        for entry in self._entries:
            gathered.add(self._row(entry))
        gold.refuse_nothing(self._file, self._named)
        documents = None if self._corpus is None else self._corpus.documents
        notes = _notes(self._entries, columns, gathered, documents)
        return Collection(
            queries=list(gathered.queries.values()),
            documents=documents,
            qrels=Qrels.from_dict(gathered.grades) if gathered.grades else None,
            gold_passages=gold.passages,
            gold_places=gold.places,
            answers=gathered.answers,
            expected_tool_calls=gathered.expected,
            given=gathered.systems,
            notes=[*notes, *gold.notes, *(self._corpus.notes if self._corpus else [])],
            warnings=gold.warnings,
        )

    def preview(self, count: int) -> list[dict[str, Any]]:
        """Return how the first rows were read: part -> value."""
        return [self._row(entry).parts(self._columns) for entry in self._entries[:count]]

    def _row(self, entry: Entry) -> Row:
        talk, contexts = self._talk.read(entry), self._columns.get("contexts")
        whole = talk.whole
        question = self._needed(entry, "question") if whole is None else whole.question
        column = self._columns.get("id")
        identifier = talk.question_id(question) if column is None else entry.id(column)
        standalone = [] if talk.standalone is None else [talk.standalone]
        said = whole.answer if whole is not None and "answer" not in self._columns else None
        return Row(
            entry=entry,
            query=Query(identifier, question, self._metadata(entry), talk.turns),
            system=self._needed(entry, "system") if "system" in self._columns else None,
            contexts=talk.contexts
            if contexts is None
            else self._passages.read(entry, contexts, cells=self._cells),
            answer=said if said is not None else self._text(entry, "answer"),
            reference=[text for text in self._texts(entry, "reference") if text.strip()],
            queries=list(dict.fromkeys([*standalone, *self._texts(entry, "queries")])),
            talk=talk,
            grades=self._gold.read(entry),
            quoted=self._gold.texts(entry),
        )

    def _needed(self, entry: Entry, part: str) -> str:
        text = self._text(entry, part)
        if text is None or not text.strip():
            raise entry.error(f"no {part} in column '{self._columns[part]}'")
        return text

    def _text(self, entry: Entry, part: str) -> str | None:
        column = self._columns.get(part)
        return None if column is None else read_text(entry, column, entry.values.get(column))

    def _texts(self, entry: Entry, part: str) -> list[str]:
        column = self._columns.get(part)
        return [] if column is None else read_texts(entry, column, cells=self._cells) or []

    def _metadata(self, entry: Entry) -> dict[str, Any]:
        """The columns that play no part; an object `metadata` is taken apart."""
        used = set(self._columns.values())
        rest = {key: value for key, value in entry.values.items() if key not in used}
        nested = rest.get("metadata")
        if isinstance(nested, dict):
            del rest["metadata"]
            rest |= nested
        return rest


def _notes(
    entries: Sequence[Entry],
    columns: Columns,
    gathered: Gathered,
    documents: Sequence[Document] | None,
) -> list[str]:
    used = set(columns.values())
    rest = dict.fromkeys(key for entry in entries for key in entry.values if key not in used)
    notes = [f"{len(entries)} rows, {len(gathered.queries)} questions"]
    notes.append("columns: " + ", ".join(f"{part} = {name}" for part, name in columns.items()))
    if "id" not in columns:
        notes.append("ids are hashes of the questions")
    if gathered.again:
        verb = "asks a question" if gathered.again == 1 else "ask questions"
        note = f"{gathered.again} of the rows {verb} again; each counts with an id of its own"
        notes.append(f"{note}; a column id or system tells rows of one question apart")
    if gathered.joined:
        notes.append(f"{gathered.joined} of the rows repeat a question; their gold is put together")
    notes += _asked_twice(gathered)
    if rest:
        notes.append(f"further columns, kept as metadata: {', '.join(rest)}")
    for name, answers in gathered.systems.items():
        written = gathered.written_as[name]
        renamed = f" (written '{written}')" if written != name else ""
        notes.append(f"system {name}{renamed}: {len(answers)} of {len(gathered.queries)} questions")
    several = gathered.systems.values() if len(gathered.systems) > 1 else ()
    answered = [answer.query_id for answers in several for answer in answers]
    if answered and len(answered) == len(set(answered)):
        advice = "if they answered the same ones, map id to the question's id, or to null"
        notes.append(f"no question is shared by two systems; {advice}")
    notes += corpus_notes(documents)
    return notes + chat_notes(gathered.queries.values(), gathered.expected, gathered.whole)


def _asked_twice(gathered: Gathered) -> list[str]:
    """Ask whether a row is a gold document, where one text stands under several ids."""
    texts = Counter(
        query.text for query in gathered.queries.values() if query.id in gathered.grades
    )
    text, count = next(iter(texts.most_common(1)), ("", 0))
    if count < 2:
        return []
    several = sum(count > 1 for count in texts.values())
    what = f"{several} {'question stands' if several == 1 else 'questions stand'} under several ids"
    advice = "where each row names one of its gold documents, write columns: {id: null}"
    return [f"{what}, such as '{text[:60]}'; {advice}"]
