"""Collections by name: `dataset: {type: ir_datasets, name: beir/scifact/test}`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from ragbench.data.files.fields import counted
from ragbench.data.loaders.base import SplitOption, finish_collection, parse_split
from ragbench.data.loaders.python import as_collection
from ragbench.errors import DataError, MissingExtra, OptionError
from ragbench.registry import Option, nearest
from ragbench.types import Collection, Document, Qrels, Query

_PARTS = ("doc_id", "query_id", "text", "title", "answers")


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
        notes = []
        if n := len(queries) - len(judged):
            notes.append(f"{counted(n, 'query')} without a judgement left out")
        if qrels is not None and (n := len(qrels) - len(known)):
            notes.append(f"judgements of {n} queries that the collection lacks left out")
        collection = Collection(
            queries=[Query(q.query_id, _text(q), _metadata(q)) for q in judged],
            documents=documents,
            qrels=None
            if qrels is None
            else Qrels.from_dict({query: qrels[query] for query in qrels if query in known}),
            answers={query.query_id: gold for query in judged if (gold := _answers(query))},
            notes=notes,
        )
        collection = as_collection(collection, f"ir_datasets {self._name}")
        return collection if self._split is None else finish_collection(collection, self._split)

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
    # many formats put the title into default_text(), where it would count twice
    title = record.title if {"text", "title"} <= set(record._fields) else ""
    return Document(record.doc_id, _text(record) or "", title or "", _metadata(record))


def _text(record: Any) -> Any:
    return record.text if "text" in record._fields else record.default_text()


def _metadata(record: Any) -> dict[str, Any]:
    return {
        key: value
        for key, value in record._asdict().items()
        if key not in _PARTS and isinstance(value, (str, int, float, bool)) and value != ""
    }


def _answers(record: Any) -> list[str]:
    answers = getattr(record, "answers", None) or ()
    texts = [answers] if isinstance(answers, str) else answers
    return [text for text in texts if isinstance(text, str) and text.strip()]


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
