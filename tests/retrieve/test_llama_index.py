"""`type: llama_index` with objects of the shape that LlamaIndex has, and its own where it is."""

import pytest

from ragbench.errors import AdapterError
from ragbench.retrieve.frameworks import LlamaIndexRetriever
from ragbench.retrieve.python import as_retriever
from ragbench.types import Query, ScoredDocument

QUERY = Query("q", "moons")


class Node:
    """Stand in for a TextNode."""

    def __init__(self, node_id, text, ref_doc_id=None, metadata=None):
        self.node_id, self.ref_doc_id, self.metadata = node_id, ref_doc_id, metadata or {}
        self._text = text

    def get_content(self, metadata_mode=None):
        return self._text


class NodeWithScore:
    def __init__(self, node, score):
        self.node, self.score = node, score


class Search:
    def __init__(self, *nodes):
        self.nodes = [NodeWithScore(node, 0.5) for node in nodes]

    def retrieve(self, str_or_query_bundle):
        return self.nodes

    async def aretrieve(self, str_or_query_bundle):
        return self.nodes


class AsyncRetriever:
    async def aretrieve(self, str_or_query_bundle):
        return [NodeWithScore(Node("n", str_or_query_bundle), None)]


CHUNK = Node("n1", "Io.", "io", {"doc": "d1"})


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, "n1"), ({"id": "ref_doc"}, "io"), ({"id_field": "doc"}, "d1")],
)
def test_whose_id_counts(options, expected):
    retriever = LlamaIndexRetriever(client=Search(CHUNK), **options)

    assert retriever.retrieve([QUERY], 5) == [
        [ScoredDocument(expected, 0.5, "Io.", None, {"doc": "d1"})]
    ]


def test_live_objects_are_told_from_ours_by_their_arguments():
    class Ours:
        def retrieve(self, queries, top_k):
            return []

    ours = Ours()
    assert as_retriever(ours, {}, "r") is ours
    for live in (Search(CHUNK), AsyncRetriever()):
        retriever = as_retriever(live, {}, "r")
        assert isinstance(retriever, LlamaIndexRetriever)
        assert len(retriever.retrieve([QUERY], 5)[0]) == 1


@pytest.mark.parametrize("answer", [None, "text", [None], [Node("a", "b")]])
def test_anything_else_is_malformed(answer, assert_message):
    class Odd:
        def retrieve(self, question):
            return answer

    with pytest.raises(AdapterError) as caught:
        LlamaIndexRetriever(client=Odd()).retrieve([QUERY], 5)
    assert_message(caught.value)


def test_an_object_without_retrieve_is_refused(assert_message):
    with pytest.raises(AdapterError) as caught:
        LlamaIndexRetriever(client=[])
    assert_message(caught.value)


@pytest.mark.costly
def test_the_real_package():
    # Its own index over its own nodes, ranked as it ranks
    core = pytest.importorskip("llama_index.core", reason="LlamaIndex is not installed")
    from llama_index.core.embeddings.mock_embed_model import MockEmbedding
    from llama_index.core.schema import TextNode

    nodes = [TextNode(text=f"text {n}", id_=f"n{n}", metadata={"doc": f"d{n}"}) for n in range(5)]
    index = core.VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=4))
    theirs = index.as_retriever(similarity_top_k=3)
    expected = [hit.node_id for hit in theirs.retrieve("text")]

    assert len(expected) == 3
    retriever = as_retriever(theirs, {}, "r")
    assert [hit.id for hit in retriever.retrieve([Query("q", "text")], 5)[0]] == expected
    by_document = LlamaIndexRetriever(client=theirs, id_field="doc")
    ids = [hit.id for hit in by_document.retrieve([Query("q", "text")], 5)[0]]
    assert ids == [node.replace("n", "d") for node in expected]
