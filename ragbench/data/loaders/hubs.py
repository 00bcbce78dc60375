"""Data sets by name: of the Hugging Face hub, and of the ir_datasets package."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from ragbench.data.files.collection import read_corpus
from ragbench.data.files.columns import check_mapping
from ragbench.data.files.rows import Entry
from ragbench.data.loaders.base import SplitOption, finished, kept_apart, parse_split
from ragbench.data.loaders.python import as_collection
from ragbench.data.loaders.records import RecordTable, TableLoader, entry_form
from ragbench.errors import DataError, MissingExtra, OptionError
from ragbench.registry import Option, nearest
from ragbench.types import Collection, Document, Qrels, Query

_PARTS = ("doc_id", "query_id", "text", "title", "answers")


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
        self._drawn = None if isinstance(split, str) else parse_split(split, "huggingface")
        check_mapping(columns or {}, "huggingface")
        self._columns = columns
        self._corpus = None if corpus is None else Path(corpus)

    def _rows(self) -> RecordTable:
        name, rows = self._split()
        place = self._path if self._subset is None else f"{self._path} ({self._subset})"
        numbered = enumerate(rows, start=1)
        read = (Entry(place, None, dict(row), f"{name} row {number}") for number, row in numbered)
        entries = kept_apart(read, entry_form(place))
        if not entries:
            raise DataError("no rows", file=place, record=name, allowed="at least one")
        corpus = None if self._corpus is None else read_corpus(self._corpus, self.keep)
        return RecordTable(entries, columns=self._columns, corpus=corpus, file=place)

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


class IrDatasets:
    """Read documents, queries and judgements of a collection that ir_datasets knows.

    Queries without a judgement are left out and counted. Further plain fields of documents and
    queries become their metadata; a topic of several fields is read as ir_datasets reads it by
    default. The package downloads what is missing, or says how to get it.
    """

    def __init__(
        self,
        *,
        name: Annotated[str, Option("The name with the split: beir/scifact/test.")],
        split: SplitOption = None,
    ) -> None:
        self._name = name
        self._split = parse_split(split, "ir_datasets")

    def load(self) -> Collection:
        """Read and check the collection."""
        source = self._source()
        if not source.has_queries():
            raise DataError("no queries", file=self._name, allowed="a name that has queries")
        try:
            qrels = _qrels(source.qrels_iter()) if source.has_qrels() else None
            queries = list(source.queries_iter())
            judged = [q for q in queries if qrels is None or q.query_id in qrels]
            documents = list(map(_document, source.docs_iter())) if source.has_docs() else None
        except Exception as error:  # downloads fail in many ways
            reason = str(error).split("\n", 1)[0]
            found = f"cannot be read: {type(error).__name__}: {reason}"
            raise DataError(found, file=self._name, allowed="a collection that is here") from error
        known = {query.query_id for query in judged}
        collection = Collection(
            queries=list(map(_query, judged)),
            documents=documents,
            qrels=None
            if qrels is None
            else Qrels.from_dict({query: qrels[query] for query in qrels if query in known}),
            answers={query.query_id: gold for query in judged if (gold := _answers(query))},
            notes=_notes(len(queries) - len(judged), len(qrels or ()) - len(known)),
        )
        collection = as_collection(collection, f"ir_datasets {self._name}")
        return collection if self._split is None else finished(collection, self._split)

    def _source(self) -> Any:
        try:
            import ir_datasets
        except ImportError as error:
            raise MissingExtra("dataset 'ir_datasets'", "ir-datasets", "ir-datasets") from error
        try:
            return ir_datasets.load(self._name)
        except KeyError as error:
            names = list(ir_datasets.registry)
            allowed = "a name of https://ir-datasets.com"
            close = nearest(self._name, names)
            raise OptionError("ir_datasets", "name", self._name, allowed, close) from error


def _document(record: Any) -> Document:
    """A document; where text and title are no fields of it, the text that the package makes."""
    fields = record._fields
    text = record.text if "text" in fields else record.default_text()
    title = record.title if {"text", "title"} <= set(fields) else ""
    return Document(record.doc_id, text or "", title or "", _metadata(record))


def _query(record: Any) -> Query:
    text = record.text if "text" in record._fields else record.default_text()
    return Query(record.query_id, text, _metadata(record))


def _metadata(record: Any) -> dict[str, Any]:
    return {
        key: value
        for key, value in record._asdict().items()
        if key not in _PARTS and isinstance(value, (str, int, float, bool)) and value != ""
    }


def _answers(record: Any) -> list[str]:
    found = getattr(record, "answers", None)
    if isinstance(found, str):
        found = [found]
    return [text for text in found or () if isinstance(text, str) and text.strip()]


def _qrels(records: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """Query -> document -> grade, or subtopic -> grade where judgements have subtopics."""
    grades: dict[str, dict[str, Any]] = {}
    for record in records:
        judged = grades.setdefault(record.query_id, {})
        subtopic = getattr(record, "subtopic_id", None)
        if subtopic is None:
            judged[record.doc_id] = int(record.relevance)
        else:
            judged.setdefault(record.doc_id, {})[subtopic] = int(record.relevance)
    return grades


def _notes(unjudged: int, unasked: int) -> list[str]:
    notes = []
    if unjudged:
        noun = "query" if unjudged == 1 else "queries"
        notes.append(f"{unjudged} {noun} without a judgement left out")
    if unasked > 0:
        notes.append(f"judgements of {unasked} queries that the collection lacks left out")
    return notes
