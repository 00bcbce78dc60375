"""`type: haystack` with objects of the shape that Haystack has, and its own where it is."""

from types import SimpleNamespace

import pytest

from ragbench.errors import AdapterError, OptionError
from ragbench.retrieve.frameworks import HaystackRetriever
from ragbench.retrieve.python import as_retriever
from ragbench.types import Query, ScoredDocument

QUERY = Query("q", "moons")
INPUTS = {"embedder": {"text": "{question}"}, "search": {"top_k": "{top_k}"}}


def document(id, content="Io.", score=0.5, **meta):
    return SimpleNamespace(id=id, content=content, score=score, meta=meta)


class HitComponent:
    """As an InMemoryBM25Retriever is called."""

    def run(self, query, filters=None, top_k=None):
        return {"documents": [document("a"), document("b"), document("c")][:top_k]}


class Untold:
    def run(self, query):
        return {"documents": [document(query)]}


class AsyncComponent:
    async def run_async(self, query):
        return {"documents": [document("a")]}


class SearchPipeline:
    """As a pipeline is called: its data by component."""

    def get_component(self, name):
        return name

    def run(self, data, include_outputs_from=None):
        question, top_k = data["embedder"]["text"], data["search"]["top_k"]
        first = [document("first")]
        return {
            "search": {"documents": first},
            "ranker": {"documents": [document(f"{question}{i}") for i in range(top_k)]},
            "other": {"meta": 1},
        }


class OpenPipeline(SearchPipeline):
    """A pipeline that tells its open sockets, as every pipeline does."""

    def inputs(self):
        return {"embedder": {"text": {"type": str}, "prefix": {}}, "search": {"top_k": {}}}

    def run(self, data, include_outputs_from=None):
        return {"search": {"documents": [document(str(data))]}}


def test_the_open_sockets_of_a_pipeline_get_the_question():
    [[hit]] = HaystackRetriever(client=OpenPipeline()).retrieve([QUERY], 2)

    assert hit.id == "{'embedder': {'text': 'moons'}}"


def test_a_component_gets_the_question_and_top_k():
    [hits] = HaystackRetriever(client=HitComponent()).retrieve([QUERY], 2)

    assert hits == [ScoredDocument("a", 0.5, "Io."), ScoredDocument("b", 0.5, "Io.")]


@pytest.mark.parametrize(("client", "id"), [(Untold(), "moons"), (AsyncComponent(), "a")])
def test_a_component_gets_what_it_takes(client, id):
    assert HaystackRetriever(client=client).retrieve([QUERY], 2)[0][0].id == id
    assert isinstance(as_retriever(client, {}, "r"), HaystackRetriever)


def test_a_pipeline_gets_inputs_and_its_last_documents_count():
    retriever = HaystackRetriever(client=SearchPipeline(), inputs=INPUTS)

    assert [hit.id for hit in retriever.retrieve([QUERY], 2)[0]] == ["moons0", "moons1"]


@pytest.mark.parametrize(
    ("options", "error", "place"),
    [
        ({"client": SearchPipeline()}, OptionError, "haystack: inputs"),
        ({"client": 3}, AdapterError, ""),
        (
            {"client": SearchPipeline(), "inputs": {"a": "{quetsion}"}},
            OptionError,
            "haystack: inputs",
        ),
    ],
)
def test_what_cannot_be_asked_is_said_at_once(options, error, place, assert_message):
    with pytest.raises(error) as caught:
        HaystackRetriever(**options)
    assert_message(caught.value, place)


@pytest.mark.parametrize("answer", [None, {}, {"documents": None}, {"documents": [3]}])
def test_anything_else_is_malformed(answer, assert_message):
    odd = SimpleNamespace(run=lambda query: answer)

    with pytest.raises(AdapterError) as caught:
        HaystackRetriever(client=odd).retrieve([QUERY], 5)
    assert_message(caught.value)


def test_the_real_package(monkeypatch):
    # Its own BM25 over its own store
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "false")
    pytest.importorskip("haystack", reason="Haystack is not installed")
    from haystack import Document
    from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    store = InMemoryDocumentStore()
    store.write_documents([Document(id="io", content="Io has volcanoes"), Document(content="x")])
    retriever = as_retriever(InMemoryBM25Retriever(document_store=store), {}, "r")

    assert retriever.retrieve([Query("q", "volcanoes")], 1)[0][0].id == "io"
