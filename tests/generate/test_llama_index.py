"""`type: llama_index` of apps: query engines of the shape that LlamaIndex has, and its own."""

from types import SimpleNamespace

import pytest

from ragbench.errors import AdapterError
from ragbench.generate.llama_index import LlamaIndexApp
from ragbench.generate.python import as_app
from ragbench.types import Document
from tests.retrieve.test_llama_index import CHUNK, NodeWithScore


class QueryEngine:
    """As a query engine answers."""

    def __init__(self, text):
        self.text = text

    def query(self, str_or_query_bundle):
        return SimpleNamespace(response=self.text, source_nodes=[NodeWithScore(CHUNK, 0.5)])


@pytest.mark.parametrize(("text", "expected"), [(" Io.", "Io."), (None, ""), ("", "")])
def test_the_response_is_the_answer_and_its_sources_are_the_passages(text, expected):
    prediction = LlamaIndexApp(client=QueryEngine(text)).answer("volcanoes?")

    assert prediction.answer == expected, "no answer is empty, and not the word None"
    assert prediction.contexts == [Document("n1", "Io.", "", {"doc": "d1"})]


@pytest.mark.parametrize(
    ("options", "expected"), [({"id": "ref_doc"}, "io"), ({"id_field": "doc"}, "d1")]
)
def test_whose_id_counts(options, expected):
    [passage] = LlamaIndexApp(client=QueryEngine("Io."), **options).answer("volcanoes?").contexts

    assert passage.id == expected


def test_an_engine_that_is_passed_is_recognised():
    assert isinstance(as_app(QueryEngine("Io."), {}, "app 'mine'"), LlamaIndexApp)


def test_a_function_with_a_method_query_is_called():
    def ask(question):
        return "Io."

    ask.query = lambda text: text

    assert as_app(ask, {}, "app 'mine'").answer("Which?").answer == "Io."


def test_other_objects_are_refused(assert_message):
    with pytest.raises(AdapterError) as caught:
        LlamaIndexApp(client=3)
    assert_message(caught.value)
    with pytest.raises(AdapterError) as caught:
        LlamaIndexApp(client=SimpleNamespace(query=lambda question: "Io")).answer("Which?")
    assert_message(caught.value)


@pytest.mark.costly
@pytest.mark.parametrize("streams", [False, True])
def test_the_real_package(streams):
    core = pytest.importorskip("llama_index.core", reason="LlamaIndex is not installed")
    from llama_index.core.embeddings.mock_embed_model import MockEmbedding
    from llama_index.core.llms import MockLLM

    nodes = [core.schema.TextNode(text=f"text {n}", id_=f"n{n}") for n in range(5)]
    index = core.VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=4))
    llm = MockLLM(max_tokens=3)
    engine = index.as_query_engine(llm=llm, similarity_top_k=3, streaming=streams)
    expected = [hit.node_id for hit in engine.query("text").source_nodes]

    prediction = as_app(engine, {}, "app 'mine'").answer("text")

    assert prediction.answer == "text text text"
    assert [passage.id for passage in prediction.contexts] == expected
    assert len(expected) == 3
