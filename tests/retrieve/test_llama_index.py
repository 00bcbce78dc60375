"""`type: llama_index` with objects of the shape that LlamaIndex has, and its own where it is."""

import pytest

from ragbench.errors import AdapterError
from ragbench.retrieve.llama_index import LlamaIndexRetriever
from ragbench.retrieve.python import as_retriever
from ragbench.types import Query, ScoredDocument

QUERY = Query("q", "moons")


class Node:
    """What a TextNode has."""

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


class OnlyAsync:
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
    for live in (Search(CHUNK), OnlyAsync()):
        retriever = as_retriever(live, {}, "r")
        assert isinstance(retriever, LlamaIndexRetriever)
        assert len(retriever.retrieve([QUERY], 5)[0]) == 1


@pytest.mark.parametrize("answer", [None, "text", [None], [Node("a", "b")]])
def test_anything_else_is_malformed(answer):
    class Odd:
        def retrieve(self, question):
            return answer

    with pytest.raises(AdapterError, match=r"allowed: (nodes|a NodeWithScore)"):
        LlamaIndexRetriever(client=Odd()).retrieve([QUERY], 5)


def test_an_object_without_retrieve_is_refused():
    with pytest.raises(AdapterError, match=r"found \[\], allowed: an object with retrieve"):
        LlamaIndexRetriever(client=[])


def test_the_real_package():
    """Its own keyword index, built and asked."""
    core = pytest.importorskip("llama_index.core", reason="LlamaIndex is not installed")
    from llama_index.core.schema import TextNode

    nodes = [TextNode(text="Io has volcanoes", id_="io"), TextNode(text="rings", id_="saturn")]
    index = core.SimpleKeywordTableIndex(nodes)
    retriever = as_retriever(index.as_retriever(retriever_mode="simple"), {}, "r")

    assert [hit.id for hit in retriever.retrieve([Query("q", "volcanoes")], 5)[0]] == ["io"]
