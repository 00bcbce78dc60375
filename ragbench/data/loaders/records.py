"""Records, a row per question: `dataset: {type: records, path: logs.jsonl, columns: {...}}`.

They come from a file, or by name from the Hugging Face hub: `dataset: {type: huggingface, path:
...}`.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from msgspec import structs

from ragbench.data.files import fields
from ragbench.data.files.answer_judgements import refuse_track_answers
from ragbench.data.files.collection import Corpus, read_corpus
from ragbench.data.files.column_contents import ColumnContents
from ragbench.data.files.columns import PartMap, check_mapping
from ragbench.data.files.gold import DocumentNames, GoldIds, RankedIds, listed_ids
from ragbench.data.files.pages import GoldPages, index_pages, page_of
from ragbench.data.files.pools import PoolReader, pool_corpus
from ragbench.data.files.published_rows import read_published
from ragbench.data.files.question_rows import QuestionRows
from ragbench.data.files.rows import Entry, without_nameless
from ragbench.data.files.tables import find_tables, read_table
from ragbench.data.loaders import base
from ragbench.data.loaders.questions import (
    GoldColumns,
    ParsedRow,
    QuestionTable,
    gold_pages,
    map_columns,
)
from ragbench.data.traces.spans import refuse_traces
from ragbench.errors import DataError, MissingExtra, RagbenchError
from ragbench.files import subfolders_in
from ragbench.registry import Option, OptionSet, quote
from ragbench.types import Collection, Document, Qrels, Query
from ragbench.types.display import counted
from ragbench.types.lookups import find_key
from ragbench.types.reasoning import Reasoning, split_reasoning
from ragbench.types.records import PoolStatistics

# Texts that a missing value of Python, pandas or JSON becomes
_MISSING_WORDS = frozenset({"None", "nan", "NaN", "NaT", "<NA>", "null", "undefined"})
# Columns of logs with the time of a record, best first
_TIMES = ("timestamp", "created_at", "start_time")


class TableLoader(base.Previewed, base.Located):
    """Base of loaders of a table with a row per question, with or without a corpus.

    A subclass passes its name and its options to the constructor, which raises OptionError for
    `columns` or `split`, and implements `_rows`. `load` returns the data set, `preview` the first
    rows and `places` the place of each question; each reads the file, and raises DataError, or
    MissingExtra for a package that its format needs.
    """

    def __init__(self, owner: str, options: RecordsOptions | HuggingFaceOptions) -> None:
        """Check the options `columns` and `split`; an OptionError names `owner`, the loader."""
        check_mapping(options.columns or {}, owner)
        self._columns, self._corpus = options.columns, options.corpus
        self._reasoning = options.reasoning
        self._statistics = base.parse_pool(options.pool, owner)
        # a text is the name of a split
        split = None if isinstance(options.split, str) else options.split
        self._random_split = base.parse_split(split, owner)

    def load(self) -> Collection:
        """Return the data set of the rows; `documents` is None without a corpus.

        Questions are in the order of their first rows. Without gold documents `qrels` is None.

        Raises:
            DataError: A file, column or row cannot be read, there is no row, rows contradict each
                other, or a named gold column holds no gold.
            MissingExtra: The format of a file needs an extra.
        """
        return base.finish_collection(self._rows().collection(), self._random_split)

    def preview(self, count: int = 2) -> list[dict[str, Any]]:
        """Return the first `count` rows as they are read, each as part -> value.

        All rows if there are fewer. The file is read again. Raises DataError if it, its columns,
        the corpus or one of these rows cannot be read, MissingExtra if a format needs an extra.
        """
        return self._rows().preview(count)

    def places(self) -> base.Places:
        """Return the place of the first row of each question.

        The file is read again. Raises DataError if it, its columns, the corpus or a row cannot be
        read, MissingExtra if a format needs an extra.
        """
        return base.Places(self._rows().places())

    @abstractmethod
    def _rows(self) -> RecordTable:
        """Return the table, read but not yet checked row by row."""

    def _table(self, entries: Sequence[Entry], file: object) -> RecordTable:
        """Return the rows as a table, beside the corpus."""
        corpus = None if self._corpus is None else read_corpus(Path(self._corpus))
        table = RecordTable(
            entries, columns=self._columns, corpus=corpus, file=file, reasoning=self._reasoning
        )
        if self._statistics is not None:
            table.set_pool_statistics(self._statistics)
        return table


class RecordsOptions(OptionSet):
    """Options of `type: records` in the YAML.

    Without `columns` (None) the usual names of columns count, without a corpus there is nothing to
    retrieve from, and without `split` all questions are scored.
    """

    path: Annotated[
        Path,
        Option(
            "The .jsonl, .json, .csv, .tsv or .parquet file, a row per question; or a "
            "folder with such files by split, or of save_to_disk.",
            refers_to="path",
        ),
    ]
    columns: Annotated[
        Mapping[str, str | None] | None,
        Option(
            "Which column is the id, question, contexts, retrieved (ids of hits, best "
            "first), answer (the system's), reference (the gold one), queries, system, "
            "turns, standalone_question, tool_calls, expected_tool_calls, relevant (ids "
            "of gold documents), excluded (ids of documents that do not count), "
            "pool (documents that may be retrieved for the question: ids, texts, "
            "{id, text}), forbidden (what must never come up: ids, field=value, spans), "
            "reference_contexts (gold passages), reference_spans (places of gold in "
            "documents), grades and page (of relevant); null for none."
        ),
    ] = None
    corpus: Annotated[
        Path | None,
        Option(
            "Documents for retrievers: a folder of .txt and .md files (also .pdf and "
            ".html, extra documents), or a .jsonl, .json, .csv, .tsv or .parquet file.",
            refers_to="path",
        ),
    ] = None
    pool: base.PoolOption = None
    split: base.SplitOption = None
    reasoning: base.ReasoningOption = "cut"


class Records(TableLoader):
    """Loader of JSON lines, JSON arrays, CSV or Parquet with questions, gold and recorded answers.

    `relevant` names the gold documents of a question (an id, or several in any usual notation),
    `reference_contexts` quotes them, `reference` is the gold answer. Records with passages, ids of
    hits, answers, search queries or tool calls are also a system, named `given`, or one for each
    value of `system`. Columns that hold no part become metadata of the question.
    `Records(path="qa.csv")` is created with the options of `RecordsOptions`: `path`, `columns`,
    `corpus`, `pool`, `split` and `reasoning`. It checks `columns`, `pool` and `split`
    (OptionError); `load` reads the files, and raises DataError or MissingExtra.
    """

    declares = RecordsOptions

    def __init__(self, **options: Any) -> None:
        chosen = RecordsOptions(**options)
        super().__init__("records", chosen)
        self._path = Path(chosen.path)

    def _rows(self) -> RecordTable:
        # a list, since the part of a column may depend on all rows
        entries = list(read_table(self._path, "records"))
        return self._table(entries, self._path)


class HuggingFaceOptions(OptionSet):
    """Options of `type: huggingface` in the YAML.

    Without `columns` (None) the usual names of columns count, without a corpus there is nothing to
    retrieve from; `subset` None is for a data set without subsets.
    """

    path: Annotated[
        str,
        Option(
            "Name on the hub, or a folder of .parquet, .jsonl or .csv files, or of save_to_disk.",
            refers_to="folder_or_name",
        ),
    ]
    subset: Annotated[
        str | None,
        Option(
            "The subset, if there are several: `covidqa` of RAGBench. Of a folder, a subfolder."
        ),
    ] = None
    split: Annotated[
        str | Mapping[str, Any],
        Option("The split that is scored; {test: 0.2, seed: 13} draws one if there is only one."),
    ] = "test"
    columns: Annotated[
        Mapping[str, str | None] | None,
        Option("Which column plays which part, as in `records`; null for none."),
    ] = None
    corpus: Annotated[
        Path | None, Option("Documents for retrievers, as in `records`.", refers_to="path")
    ] = None
    pool: base.PoolOption = None
    reasoning: base.ReasoningOption = "cut"


class HuggingFace(TableLoader):
    """Loader of a data set of the Hugging Face hub, or of a folder in its layout.

    Rows are read like those of `records`. A folder is read in place. A data set of the hub is
    downloaded and stored by the datasets package. The loader is created with the options of
    `HuggingFaceOptions`: `path`, `subset`, `split` (default: `test`), `columns`, `corpus`, `pool`
    and `reasoning`; raises OptionError for a wrong `split`, `pool` or `columns`. `load` raises
    MissingExtra without the datasets package for a name on the hub, and DataError if the data set
    or split cannot be loaded.
    """

    declares = HuggingFaceOptions

    def __init__(self, **options: Any) -> None:
        chosen = HuggingFaceOptions(**options)
        super().__init__("huggingface", chosen)
        self._path, self._subset = chosen.path, chosen.subset
        self._name = chosen.split if isinstance(chosen.split, str) else None

    def _rows(self) -> RecordTable:
        label = self._path if self._subset is None else f"{self._path} ({self._subset})"
        if os.path.isdir(self._path):
            return self._table(self._local_rows(), label)
        return self._table(self._hub_rows(label), label)

    def _local_rows(self) -> list[Entry]:
        """Return the rows of the split of a folder; raise DataError if there is no such split."""
        folder = Path(self._path)
        if self._subset is not None:
            folder /= self._subset
            if not folder.is_dir():
                names = ", ".join(path.name for path in subfolders_in(Path(self._path)))
                problem = f"no folder '{self._subset}'"
                allowed = names or "no subset: there are no subfolders"
                raise DataError(problem, file=self._path, record="subset", allowed=allowed)
        if (folder / "queries").is_dir() and (folder / "corpus").is_dir():
            problem = "a folder with corpus, queries and judgements"
            raise DataError(problem, file=folder, allowed="{type: beir, path: ...}")
        self._check_drawn(list(find_tables(folder)))
        return list(read_table(folder, "dataset 'huggingface'", self._name))

    def _hub_rows(self, label: str) -> list[Entry]:
        """Return the rows of the split of a data set of the hub."""
        try:
            # a name of the package: a folder `datasets` in the working directory imports as well
            from datasets import load_dataset
        except ImportError as error:
            raise MissingExtra("dataset 'huggingface'", "datasets", "huggingface") from error
        # the datasets package passes on errors of many libraries
        try:
            splits = load_dataset(self._path, self._subset)
            name = self._chosen_split(list(splits))
            rows = [dict(row) for row in splits[name]]
        except RagbenchError:
            raise
        except Exception as error:
            reason = str(error).split("\n", 1)[0]
            allowed = "a data set of the hub that can be reached, or a folder with one"
            problem = f"cannot be loaded: {type(error).__name__}: {reason}"
            raise DataError(problem, file=self._path, allowed=allowed) from error
        entries = []
        for number, row in enumerate(rows, start=1):
            entries.append(Entry(label, None, without_nameless(row), f"{name} row {number}"))
        return entries

    def _chosen_split(self, names: list[str]) -> str:
        """Return the split to read; raise a `DataError` if there is none of its name."""
        self._check_drawn(names)
        name = names[0] if self._name is None else self._name
        if name not in names:
            problem = f"no split '{name}'"
            raise DataError(problem, file=self._path, record="split", allowed=", ".join(names))
        return name

    def _check_drawn(self, names: list[str]) -> None:
        """Raise a `DataError` for a random test set of a data set with several splits."""
        # drawing from one of several splits would ignore the test set of the authors
        if self._name is None and len(names) > 1:
            problem = f"drawn at random, but there are splits: {', '.join(names)}"
            raise DataError(problem, file=self._path, record="split", allowed="one of them by name")


class RecordTable:
    """Rows of records with the column of each part; loaders and `collection_of` make it.

    Creating it finds the columns, and raises DataError if no column has the question, a named one
    is missing or a part cannot be told. `columns` None takes the usual names, `corpus` None has no
    documents. `collection` returns the data set, and is called once; `preview` returns the first
    rows, and `places` where each question stands. Each of them reads the rows, and raises DataError
    for a wrong one.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        *,
        columns: PartMap | None,
        corpus: Corpus | None,
        file: object,
        reasoning: Reasoning = "cut",
    ) -> None:
        """Find the column of each part, and index quoted gold passages.

        A missing named column, or no column with the question, is a DataError too.

        Args:
            entries: The rows.
            columns: The option `columns`.
            corpus: The documents; None without a corpus.
            file: For messages.
            reasoning: True if reasoning is cut from answers and from turns of the assistant.

        Raises:
            DataError: The rows are traces, the part of a column is not clear, or a gold cell cannot
                be read.
        """
        # before the columns are resolved: the keys of spans would give an error about a missing
        # question
        published = read_published(entries, columns or {})
        if not columns and not published.notes:
            refuse_traces(entries)
            refuse_track_answers(entries)
        self._named = columns or {}
        # rows of a published form may be fewer or more than those of the table
        self._has_own_rows = len(published.entries) == len(entries)
        entries, self._form_notes = published.entries, published.notes
        if not entries:
            raise DataError("no rows", file=file, allowed="at least one question")
        mapping = published.mapping(self._named)
        if corpus is None:
            corpus = pool_corpus(entries, mapping, is_published=bool(published.notes))
        documents = None if corpus is None else corpus.documents
        names = None if corpus is None else DocumentNames(corpus.documents, corpus.folder)
        rows, resolved = map_columns(entries, mapping, names, file)
        self._n_dropped, entries = len(entries) - len(rows), rows
        self._entries, self._corpus, self._file = entries, corpus, file
        self._columns = dict(resolved)
        self._passages = fields.Passages(documents or [])
        self._drop_page_without_pages(documents)
        # ids of hits and of gold documents are read by one rule, or they would never match
        resolved, parts = self._columns, ("retrieved", "relevant", "excluded", "forbidden")
        of_ids = []
        for part in parts:
            if part in resolved:
                of_ids.append(resolved[part])
        listed, is_of_ids = listed_ids(entries, of_ids), "retrieved" in resolved
        if "relevant" in resolved and "contexts" in resolved:
            listed |= fields.passage_ids(entries, resolved["contexts"])
        self._ranked_ids = RankedIds(names, listed, is_of_ids)
        gold_ids = GoldIds(names, listed, is_of_ids)
        pages = None
        if "page" in resolved:
            of_pages = self._recorded_passages() if documents is None else documents
            pages = GoldPages(of_pages, gold_pages(entries, resolved, names))
        self._gold = GoldColumns(resolved, entries, documents, gold_ids, pages)
        self._reasoning = reasoning
        self._pool: PoolReader | None = None
        self._statistics: PoolStatistics = "corpus"
        if (column := resolved.get("pool")) is not None:
            self._pool = PoolReader(column, names, documents)
        self._chat = fields.ChatReader(entries, resolved, documents or (), reasoning)

    def set_pool_statistics(self, statistics: PoolStatistics) -> None:
        """Set the documents whose statistics BM25 uses; raise DataError if no column has pools."""
        if self._pool is None:
            allowed = "columns: {pool: NAME}, or no option pool"
            raise DataError("pool: no column has pools", file=self._file, allowed=allowed)
        self._statistics = statistics

    def _drop_page_without_pages(self, documents: Sequence[Document] | None) -> None:
        """Leave a guessed column of pages to the metadata where no document has a page."""
        if "page" not in self._columns or "page" in self._named:
            return
        passages = self._recorded_passages() if documents is None else documents
        if not index_pages(passages):
            del self._columns["page"]

    def _recorded_passages(self) -> list[Document]:
        """Return the passages of all rows, named by their pages; [] without a column of them."""
        passages: list[Document] = []
        if column := self._columns.get("contexts"):
            for entry in self._entries:
                passages += self._read_passages(entry, column) or ()
        return passages

    def _read_passages(self, entry: Entry, column: str) -> list[Document] | None:
        """Return the passages in a column, named by their pages if no corpus has them."""
        passages = self._passages.read(entry, column)
        if passages is None or "page" not in self._columns or self._corpus is not None:
            return passages
        of_pages = []
        for passage in passages:
            page = page_of(passage.metadata)
            if page is not None:
                passage = structs.replace(passage, id=f"{page[0]}#page={page[1]}")
            of_pages.append(passage)
        return of_pages

    def collection(self) -> Collection:
        """Return the data set of all rows, without fingerprints.

        Without gold `qrels` is None. Without ids and systems a question that comes again is a
        question of its own. Call it once: a second call counts the rows again in the notes on gold.

        Raises:
            DataError: A row cannot be read, rows contradict each other, or there is no gold in a
                column that the user named.
        """
        table, gold = self._questions(), self._gold
        # only after all rows: one row without gold is usual, a whole column without gold is a
        # mistake
        gold.check_gold(self._file, self._named)
        table.drop_ambiguous()
        documents = None if self._corpus is None else self._corpus.documents
        notes = self._notes(table)
        if self._n_dropped:
            notes.append(f"{fields.counted(self._n_dropped, 'row')} with keep = no left out")
        notes += self._form_notes
        return Collection(
            queries=list(table.queries.values()),
            documents=documents,
            qrels=Qrels.from_dict(table.grades) if table.grades else None,
            gold_passages=gold.passages,
            gold_spans=table.gold_spans,
            ambiguous_gold=table.ambiguous,
            excluded=table.excluded,
            forbidden=table.forbidden,
            gold_places=gold.places,
            answers=table.answers,
            expected_tool_calls=table.expected,
            recorded_answers=table.systems,
            notes=[*notes, *gold.notes, *(self._corpus.notes if self._corpus else [])],
            warnings=[
                *gold.warnings,
                *self._missing_as_text(),
                *self._other_texts(),
                *_gold_outside_pools(table),
                *_repeated_rows(table),
                *self._other_spellings(table),
            ],
            alternatives=table.alternatives,
            unread=self._unread(),
            table_columns=self._columns,
            table_rows=self._row_numbers(table),
            pool_statistics=self._statistics,
        )

    def _other_texts(self) -> list[str]:
        """Return a warning on texts of pools that the corpus has not; [] without any."""
        if self._pool is None or not self._pool.other_texts:
            return []
        name, place = next(iter(self._pool.other_texts.items()))
        count = fields.counted(len(self._pool.other_texts), "document")
        return [
            f"pool: {count} with another text than in the corpus, whose text is searched: "
            f"'{name}' at {place}"
        ]

    def _other_spellings(self, table: QuestionTable) -> list[str]:
        """Return a warning on questions of several systems in two spellings; [] without any."""
        if "id" in self._columns or len(table.systems) < 2:
            return []
        texts = {query.id: query.text for query in table.queries.values()}
        rows = QuestionRows(texts, file=self._file, noun="question")
        repeated = []
        for text in texts.values():
            # one text may come again after other turns
            if texts[rows.asking(text)[0]] != text:
                repeated.append(text)
        if not repeated:
            return []
        count = fields.counted(len(repeated), "question")
        return [
            f"{count} in another spelling in case or spaces, such as {quote(repeated[0])}; systems "
            "are compared on questions with one text, or with a column id"
        ]

    def _missing_as_text(self) -> list[str]:
        """Return a sentence on each column of texts with `None` or `nan` as a text."""
        sentences = []
        for part in ("question", "answer", "reference"):
            column = self._columns.get(part)
            values = [] if column is None else [entry.values.get(column) for entry in self._entries]
            words = []
            for text in values:
                if isinstance(text, str) and text in _MISSING_WORDS:
                    words.append(text)
            if words:
                rows = fields.counted(len(words), "row")
                example = f"the text '{words[0]}' in {rows} of column '{column}'"
                sentences.append(f"{example} counts as a text; an empty cell is a missing value")
        return sentences

    def _row_numbers(self, table: QuestionTable) -> dict[str, int]:
        """Return query id -> number of its first row; empty for a form with other rows."""
        if not self._has_own_rows:
            return {}
        return {name: entry.number for name, entry in table.first.items()}

    def _unread(self) -> dict[str, tuple[str, str]]:
        """Return column without a part -> (part that it may hold, its first value)."""
        contents = ColumnContents(self._entries, None)
        unread = {}
        for column in self._metadata_columns():
            unread[column] = contents.likely_part(column, self._columns), contents.example(column)
        return unread

    def _metadata_columns(self) -> list[str]:
        """Return the columns that hold no part and become metadata, in the order of the table."""
        used = set(self._columns.values())
        present = dict.fromkeys(chain.from_iterable(entry.values for entry in self._entries))
        columns = []
        for column in present:
            if column not in used:
                columns.append(column)
        return columns

    def _notes(self, table: QuestionTable) -> list[str]:
        """Return notes on the reading: columns, joined gold, metadata and systems."""
        columns = self._columns
        further = self._metadata_columns()
        notes = ["columns: " + ", ".join(f"{part} = {name}" for part, name in columns.items())]
        if table.n_joined:
            repeats = f"{table.n_joined} of the rows repeat a question"
            notes.append(f"{repeats}; their gold is put together")
        if further:
            notes.append(f"further columns, kept as metadata: {', '.join(further)}")
        for name, answers in table.systems.items():
            if len(answers) < len(table.queries):
                notes.append(f"system {name}: {len(answers)} of {len(table.queries)} questions")
        return notes

    def places(self) -> dict[str, str]:
        """Return query id -> place of its first row: `file:line`, or `file: row 3` without lines.

        Raises `DataError` for a row that cannot be read.
        """
        places = {}
        for name, row in self._questions().first.items():
            places[name] = row.file_place
        return places

    def _questions(self) -> QuestionTable:
        """Return all rows by question; raise a `DataError` if one cannot be read."""
        # rows without ids and systems are a log, in which users may ask a question again
        table = QuestionTable(is_log=not {"id", "system"} & self._columns.keys())
        for entry in self._entries:
            table.add(self._row(entry))
        return table

    def preview(self, count: int) -> list[dict[str, Any]]:
        """Return the first `count` rows, all if there are fewer, each as part -> value.

        A wrong row raises a `DataError`.
        """
        return [self._row(entry).parts(self._columns) for entry in self._entries[:count]]

    def _row(self, entry: Entry) -> ParsedRow:
        """Return the parts of a row; raise a `DataError` if one cannot be read."""
        chat = self._chat.read(entry)
        pool = None if self._pool is None else self._pool.read(entry)
        gold = self._gold.read(entry, pool)
        whole = chat.whole
        question = self._required(entry, "question") if whole is None else whole.question
        column = self._columns.get("id")
        # a hash, so that the id does not depend on the order of the rows
        identifier = chat.question_id(question) if column is None else entry.id(column)
        standalone = [] if chat.standalone is None else [chat.standalone]
        # a column for the answer comes before the last message of the conversation
        reasoning, answer = "", self._text(entry, "answer")
        if answer is not None and self._reasoning != "keep":
            reasoning, answer = split_reasoning(answer)
        contexts, further = self._contexts(entry, chat)
        if whole is not None and "answer" not in self._columns:
            reasoning, answer = whole.reasoning, whole.answer
        reference = []
        for text in self._texts(entry, "reference"):
            if text.strip():
                reference.append(text)
        return ParsedRow(
            entry=entry,
            query=Query(
                identifier,
                question,
                self._metadata(entry),
                chat.turns,
                entry.number if column is None else None,
                pool,
            ),
            system=self._required(entry, "system") if "system" in self._columns else None,
            contexts=contexts,
            further=further,
            answer=answer,
            reasoning=reasoning,
            # an empty text of a list is no gold answer
            reference=reference,
            # the reworded question was searched for as well
            queries=list(dict.fromkeys([*standalone, *self._texts(entry, "queries")])),
            talk=chat,
            gold=gold,
            quoted=self._gold.texts(entry),
            has_ids="retrieved" in self._columns,
        )

    def _contexts(
        self, entry: Entry, chat: fields.Chat
    ) -> tuple[list[Document] | None, list[Document]]:
        """Return (passages of a row or None without any, hits that were ranked below them)."""
        column, ids_column = self._columns.get("contexts"), self._columns.get("retrieved")
        passages = chat.contexts
        if column is not None:
            passages = self._read_passages(entry, column)
        if ids_column is None:
            return passages, []
        ids = self._ranked_ids.ranking(entry, ids_column)
        if passages is not None and len(ids or ()) < len(passages):
            n_passages = counted(len(passages), "passages")
            problem = f"column '{ids_column}': {counted(len(ids or ()), 'ids')} of {n_passages}"
            raise entry.error(problem, allowed="an id for each passage, in their order")
        if ids is None:
            return None, []
        hits = list(map(self._passages.by_id, ids))
        if passages is None:
            return hits, []
        # a prompt holds the first hits of a longer ranking
        read = []
        for passage, hit in zip(passages, hits, strict=False):
            read.append(structs.replace(passage, id=hit.id))
        return read, hits[len(read) :]

    def _required(self, entry: Entry, part: str) -> str:
        """Return the text of a part; raise a `DataError` if it is blank or no text."""
        text = self._text(entry, part)
        if text is None or not text.strip():
            raise entry.error(f"no {part} in column '{self._columns[part]}'")
        return text

    def _text(self, entry: Entry, part: str) -> str | None:
        """Return the text of a part; None without a column or for null."""
        column = self._columns.get(part)
        return None if column is None else fields.read_text(entry, column, entry.values.get(column))

    def _texts(self, entry: Entry, part: str) -> list[str]:
        """Return the texts of a part; [] without a column or for null."""
        column = self._columns.get(part)
        return [] if column is None else fields.read_texts(entry, column) or []

    def _metadata(self, entry: Entry) -> dict[str, Any]:
        """Return the columns that hold no part."""
        used = set(self._columns.values())
        metadata = {}
        for key, value in entry.values.items():
            if key not in used:
                metadata[key] = value
        nested = metadata.get("metadata")
        if isinstance(nested, dict):
            del metadata["metadata"]
            metadata |= nested
        if (name := find_key(metadata, _TIMES)) is not None:
            metadata.setdefault("time", metadata[name])
        # the causes read booleans, and a cell of CSV is a text
        for name in fields.ANSWERABLE.keys() & metadata.keys():
            metadata[name] = fields.read_boolean(entry, name, metadata[name], cells=entry.is_text)
        return metadata


def _gold_outside_pools(table: QuestionTable) -> list[str]:
    """Return a sentence on the questions with gold documents outside their pool; [] without any."""
    questions = []
    for name, grades in table.grades.items():
        pool = table.queries[name].pool
        gold = set()
        for document, grade in grades.items():
            if grade > 0:
                gold.add(document)
        if pool is not None and not gold.issubset(pool):
            questions.append(name)
    if not questions:
        return []
    counts = f"{len(questions)} of {fields.counted(len(table.queries), 'question')}"
    return [
        f"{counts} have gold documents outside their pool, which no retriever can find: "
        f"{', '.join(questions[:3])}{', ...' if len(questions) > 3 else ''}"
    ]


def _repeated_rows(table: QuestionTable) -> Iterator[str]:
    """Yield a warning on rows of a log that repeat a question, if there are any."""
    if table.n_repeated:
        rows = f"{fields.counted(table.n_repeated, 'row')} with an earlier question"
        advice = "a column id or system tells rows of one question apart"
        if table.n_split:
            rows += f", {table.n_split} with its answer and hits, and other gold"
            advice = "write all gold of a question into one cell, as a list"
        yield f"{rows}; each counts with an id of its own; {advice}"
