"""All shapes in which people return hits, and what is said of anything else."""

from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document as LangchainDocument

from ragbench.errors import AdapterError
from ragbench.retrieve.python import as_retriever, read_hits
from ragbench.types import Document, Retrieved, ScoredDocument

EXPECTED = [ScoredDocument("a", 2.0), ScoredDocument("b", 1.0)]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(EXPECTED, id="ours"),
        pytest.param([("a", 2), ("b", 1)], id="pairs"),
        pytest.param([["a", 2], ["b", 1]], id="lists of two"),
        pytest.param([{"id": "a", "score": 2}, {"id": "b", "score": 1.0}], id="mappings"),
        pytest.param({"b": 1, "a": 2}, id="a mapping, sorted by score"),
        pytest.param([(ScoredDocument("a", 9.0), 2), ({"id": "b"}, 1)], id="documents with scores"),
        pytest.param(iter([("a", 2), ("b", 1)]), id="an iterator"),
        pytest.param(Retrieved([("a", 2), ("b", 1)]), id="Retrieved"),
    ],
)
def test_reads(answer):
    assert read_hits(answer, 10).documents == EXPECTED


def test_ids_and_documents_need_no_score():
    hits = read_hits(["a", Document("b", "text", "title")], 10).documents

    assert [(hit.id, hit.score, hit.text, hit.title) for hit in hits] == [
        ("a", None, None, None),
        ("b", None, "text", "title"),
    ]


def test_documents_of_langchain_out_of_a_function():
    # The return values of `similarity_search` and `similarity_search_with_score`
    documents = [LangchainDocument("Io erupts.", id="a", metadata={"title": "Io"})]

    [hit] = read_hits(documents, 5).documents
    [scored] = read_hits([(documents[0], 0.25)], 5).documents
    [bare] = read_hits([LangchainDocument("Io erupts.")], 5).documents

    assert (hit.id, hit.score, hit.text, hit.title) == ("a", None, "Io erupts.", "Io")
    assert (scored.id, scored.score, scored.text) == ("a", 0.25, "Io erupts.")
    assert bare.id.startswith("text-"), "no id: a hash of the text, which nobody has judged"


@pytest.mark.parametrize("key", ["text", "page_content", "content"])
def test_the_text_of_a_mapping_has_the_keys_of_passages(key):
    [hit] = read_hits([{"id": "a", key: "Io erupts."}], 5).documents

    assert (hit.id, hit.text) == ("a", "Io erupts.")


@pytest.mark.parametrize("identifier", [7, np.int64(7), UUID(int=7)])
def test_ids_of_databases_are_written_as_text(identifier):
    answer = [identifier, (identifier, 1), {"id": identifier}, {"id": identifier, "score": 1.0}]
    hits = read_hits(answer, 5).documents

    assert [hit.id for hit in hits] == [str(identifier)] * 4


def test_an_object_that_is_no_retriever_is_told_what_one_has(assert_message):
    with pytest.raises(AdapterError) as caught:
        as_retriever(3, {}, "retriever 'mine'")
    assert_message(caught.value)


def test_white_space_in_an_id_is_written_as_in_a_url():
    assert [hit.id for hit in read_hits(["my doc", ("a\tb", 1)], 5).documents] == [
        "my%20doc",
        "a%09b",
    ]


def test_formulated_queries_are_kept():
    assert read_hits(Retrieved([], ["sub question"]), 5).queries == ["sub question"]


@given(st.lists(st.text("abc#ä/", min_size=1), max_size=30), st.integers(1, 20))
def test_cuts_at_top_k(ids, top_k):
    assert [hit.id for hit in read_hits(ids, top_k).documents] == ids[:top_k]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "d1",
        3,
        ["a", None],
        [("a", 1, 2)],  # three parts
        [("a", "high")],
        [("a", float("nan"))],
        [("a", float("-inf"))],  # below every score
        [("a", 10**400)],  # float() of it overflows
        [""],  # an empty id
        ["a\0b"],  # run files end an id there
        ["half \ud83d"],  # half of a surrogate pair
        [{"score": 1}],
        [True],  # True is 1
        [{"id": None}],
        [(None, 1)],
        [(["a"], 1)],
        {"a": "high"},
        {"a": float("nan")},
    ],
)
def test_refuses(answer, assert_message):
    with pytest.raises(AdapterError) as caught:
        read_hits(answer, 10)

    assert_message(caught.value)
