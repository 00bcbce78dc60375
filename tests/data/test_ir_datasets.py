"""`type: ir_datasets` on collections that are registered with the package itself."""

import sys
from typing import NamedTuple

import ir_datasets
import pytest
from ir_datasets.formats import BaseDocs, BaseQrels, BaseQueries, GenericDoc, TrecQrel, TrecQuery

from ragbench.data.loaders.ir_datasets import IrDatasets
from ragbench.errors import DataError, MissingExtra, OptionError


class Doc(NamedTuple):
    """As BEIR's collections have it."""

    doc_id: str
    text: str
    title: str
    url: str

    def default_text(self):
        return f"{self.title} {self.text}"


class Question(NamedTuple):
    """As Natural Questions has it."""

    query_id: str
    text: str
    answers: list

    def default_text(self):
        return self.text


class Subtopic(NamedTuple):
    """As the TREC Web tracks have it."""

    query_id: str
    doc_id: str
    relevance: int
    subtopic_id: str


class Parts(BaseDocs, BaseQueries, BaseQrels):
    """Documents, queries and judgements in memory."""

    def __init__(self, docs, queries, qrels):
        self._docs, self._queries, self._qrels = docs, queries, qrels

    def docs_iter(self):
        return iter(self._docs)

    def queries_iter(self):
        if isinstance(self._queries, Exception):
            raise self._queries
        return iter(self._queries)

    def qrels_iter(self):
        return iter(self._qrels)


DOCS = [Doc("d1", "is hot", "Io", "http://io"), GenericDoc("d2", "Europa is cold")]
TOPICS = [TrecQuery("1", "hot moon", "Which moon is hot?", "..."), TrecQuery("2", "x", "x", "x")]
QRELS = [TrecQrel("1", "d1", 2, "0"), TrecQrel("1", "d2", 0, "0"), TrecQrel("9", "d1", 1, "0")]


@pytest.fixture
def registered(monkeypatch):
    """Register a collection for one test."""
    monkeypatch.setattr(ir_datasets.registry, "_registered", dict(ir_datasets.registry._registered))

    def register(*parts):
        ir_datasets.registry._registered.pop("ragbench-moons", None)
        ir_datasets.registry.register("ragbench-moons", ir_datasets.Dataset(*parts))
        return IrDatasets(name="ragbench-moons")

    return register


def test_documents_queries_and_judgements(registered, assert_message):
    collection = registered(Parts(DOCS, TOPICS, QRELS)).load()

    first, second = collection.documents
    assert (first.id, first.title, first.text) == ("d1", "Io", "is hot")
    assert first.metadata == {"url": "http://io"}
    assert second.full_text == "Europa is cold"
    [query] = collection.queries
    assert (query.id, query.text) == ("1", TOPICS[0].default_text())
    assert query.metadata["narrative"] == "..."
    assert collection.qrels.to_dict() == {"1": {"d1": 2, "d2": 0}}
    assert_message(collection.notes)
    assert set(collection.fingerprints) >= {"corpus", "queries", "qrels"}


def test_gold_answers_and_subtopics(registered):
    questions = [Question("q", "Which moon is hot?", ["Io", "the moon Io", ""])]
    qrels = [Subtopic("q", "d1", 1, "a"), Subtopic("q", "d1", 2, "b")]

    collection = registered(Parts(DOCS, questions, qrels)).load()

    assert collection.answers == {"q": ["Io", "the moon Io"]}
    assert collection.qrels.subtopics is not None


def test_parts_that_are_not_there(registered):
    class Bare(BaseQueries):
        def queries_iter(self):
            return iter(TOPICS)

    collection = registered(Bare()).load()

    assert (collection.documents, collection.qrels) == (None, None)
    assert len(collection.queries) == 2


def test_a_random_split(registered):
    registered(Parts(DOCS, TOPICS, [TrecQrel(id, "d1", 1, "0") for id in "12"]))

    collection = IrDatasets(name="ragbench-moons", split={"test": 0.5, "seed": 3}).load()

    assert len(collection.queries) == 1
    assert list(collection.qrels.query_ids) == [collection.queries[0].id]


def test_what_cannot_be_had_says_why(registered, assert_message):
    with pytest.raises(DataError) as caught:
        registered(Parts(DOCS, OSError("no network"), QRELS)).load()
    assert_message(caught.value)
    with pytest.raises(DataError) as caught:
        registered(type("Docs", (BaseDocs,), {"docs_iter": lambda self: iter(DOCS)})()).load()
    assert_message(caught.value)


def test_an_unknown_name_has_a_near_one(assert_message):
    with pytest.raises(OptionError) as caught:
        IrDatasets(name="beir/scifct/test").load()
    assert_message(caught.value, "ir_datasets: name")


def test_the_missing_package_is_named(monkeypatch, assert_message):
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    with pytest.raises(MissingExtra) as caught:
        IrDatasets(name="x").load()
    assert_message(caught.value)
