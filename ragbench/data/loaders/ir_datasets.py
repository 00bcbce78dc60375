"""Collections of ir_datasets: `dataset: {type: ir_datasets, name: beir/scifact/test}`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from ragbench.data.files.fields import counted
from ragbench.data.loaders.base import SplitOption, finish_collection, parse_split
from ragbench.data.loaders.python import as_collection
from ragbench.errors import DataError, MissingExtra, OptionError
from ragbench.registry import Option, nearest
from ragbench.types import Collection, Document, Qrels, Query
from ragbench.types.lookups import select_keys

_PARTS = ("doc_id", "query_id", "text", "title", "answers")
_DOWNLOADED = "a collection in ~/.ir_datasets (IR_DATASETS_HOME), or a network to download it"


class IrDatasets:
    """Loader of documents, queries and judgements of a collection of ir_datasets.

    If it has judgements, queries without one are left out and counted. The text of a query or
    document is its field `text`, else the default text of ir_datasets; further plain fields become
    metadata. The package downloads missing files, or says how to get them. It is created with
    `name` and `split` ({test: 0.2, seed: 13}, or None for all queries); raises OptionError for a
    wrong `split`. `load` raises MissingExtra without the package, OptionError for an unknown name,
    and DataError if the collection has no queries or cannot be read.
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
        """Return the collection; `documents` or `qrels` is None if it has none.

        Raises:
            DataError: It has no queries, or cannot be downloaded or read; an id is no id or comes
                again.
            MissingExtra: The extra `ir-datasets` is not installed.
            OptionError: ir_datasets has no collection with this name.
        """
        source = self._source()
        # collections such as msmarco-passage have documents alone, and their parts the queries
        if not source.has_queries():
            raise DataError("no queries", file=self._name, allowed="a name that has queries")
        try:
            qrels = _qrels(source.qrels_iter()) if source.has_qrels() else None
            queries = list(source.queries_iter())
            # a collection without judgements keeps all its queries
            judged = []
            for query in queries:
                if qrels is None or query.query_id in qrels:
                    judged.append(query)
            documents = list(map(_document, source.docs_iter())) if source.has_docs() else None
        except Exception as error:  # downloads fail in many ways
            reason = str(error).split("\n", 1)[0]
            fault = f"cannot be read: {type(error).__name__}: {reason}"
            raise DataError(fault, file=self._name, allowed=_DOWNLOADED) from error
        ids = {query.query_id for query in judged}
        notes = []
        if n := len(queries) - len(judged):
            notes.append(f"{counted(n, 'query')} without a judgement left out")
        # some collections judge queries that they do not contain
        if qrels is not None and (n := len(qrels) - len(ids)):
            notes.append(f"judgements of {n} queries that the collection lacks left out")
        in_collection = None
        if qrels is not None:
            in_collection = Qrels.from_dict(select_keys(qrels, ids))
        judged_queries, answers = [], {}
        for record in judged:
            judged_queries.append(Query(record.query_id, _text(record), _metadata(record)))
            if gold := _answers(record):
                answers[record.query_id] = gold
        collection = Collection(
            queries=judged_queries,
            documents=documents,
            qrels=in_collection,
            answers=answers,
            notes=notes,
        )
        # checks ids like those of any other code that is not ours
        collection = as_collection(collection, f"ir_datasets {self._name}")
        return collection if self._split is None else finish_collection(collection, self._split)

    def _source(self) -> Any:
        """Return the data set object of the package."""
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
    """Return a document with its title and plain metadata."""
    # many formats put the title into default_text(), where it would count twice
    title = record.title if {"text", "title"} <= set(record._fields) else ""
    return Document(record.doc_id, _text(record) or "", title or "", _metadata(record))


def _text(record: Any) -> Any:
    """Return the field `text` of a document or query, or else its default text."""
    return record.text if "text" in record._fields else record.default_text()


def _metadata(record: Any) -> dict[str, Any]:
    """Return the plain fields of a record: texts, numbers and truth values."""
    metadata = {}
    for key, value in record._asdict().items():
        if key not in _PARTS and isinstance(value, (str, int, float, bool)) and value != "":
            metadata[key] = value
    return metadata


def _answers(record: Any) -> list[str]:
    """Return the gold answers of a query, without blank ones."""
    texts = getattr(record, "answers", None) or ()
    if isinstance(texts, str):
        texts = [texts]
    answers = []
    for text in texts:
        if isinstance(text, str) and text.strip():
            answers.append(text)
    return answers


def _qrels(records: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """Return query -> document -> grade, or -> subtopic -> grade for judgements with subtopics."""
    grades: dict[str, dict[str, Any]] = {}
    for record in records:
        judged = grades.setdefault(record.query_id, {})
        subtopic = getattr(record, "subtopic_id", None)
        if subtopic is None:
            judged[record.doc_id] = int(record.relevance)
        else:
            judged.setdefault(record.doc_id, {})[subtopic] = int(record.relevance)
    return grades
