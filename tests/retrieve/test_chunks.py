"""Retrievers over chunks: what is ranked, how deep, and what a hit says."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.retrieve.bm25 import BM25
from ragbench.retrieve.chunks import with_chunks
from ragbench.retrieve.run_file import RunFile
from ragbench.text.chunk import Chunking
from ragbench.types import Document, Query, Retrieved
from tests.executors.tasks import search_by_worker

TEXTS = st.lists(st.sampled_from(["io", "moon", "hot"]), min_size=1, max_size=9).map(" ".join)


def bm25():
    return BM25(stemmer="none", stopwords="none")


def search(texts, question, top_k, size, retriever=None):
    chunked = with_chunks(retriever or bm25(), Chunking(by="words", size=size))
    chunked.index([Document(id, text, "", {"of": id}) for id, text in texts.items()])
    [query_hits] = chunked.retrieve([Query("q", question)], top_k)
    return query_hits.documents


def test_hits_are_chunks_with_text_and_document():
    hits = search({"d1": "io is hot", "d2": "europa is cold"}, "hot cold", 5, size=2)

    assert {(hit.id, hit.text, hit.document) for hit in hits} == {
        ("d1#1", "hot", "d1"),
        ("d2#1", "cold", "d2"),
    }
    assert {hit.metadata["of"] for hit in hits} == {"d1", "d2"}
    assert all(hit.score > 0 for hit in hits)


def test_top_k_counts_documents():
    # Ten chunks of d3 stand before the ones of d2 and d1: none of them uses up its place
    texts = {"d1": "io", "d2": "io io", "d3": "io " * 10}

    assert [hit.id for hit in search(texts, "io", 1, size=1)] == ["d3#9"], "ids go down"
    assert [hit.document for hit in search(texts, "io", 2, size=1)] == ["d3"] * 10 + ["d2"]
    assert len(search(texts, "io", 3, size=1)) == 13


class Start:
    """A text splitter that forgets all but the first three characters."""

    def __init__(self, chunk_size, chunk_overlap):
        pass

    def split_text(self, text):
        return [text[:3]] if text else []


def test_text_that_a_splitter_loses_is_counted(assert_message):
    # 'io is hot' has 7 characters that are no space, of which 'io ' keeps 2
    chunking = Chunking(by="langchain", size=3, factory=f"{__name__}:Start")
    chunked = with_chunks(bm25(), chunking)

    chunked.index([Document("d1", "io is hot"), Document("d2", "io"), Document("d3", "")])

    assert_message(chunked.notes)


@settings(max_examples=15)
@given(st.lists(TEXTS, min_size=1), st.sampled_from(["words", "sentences", "tokens"]))
def test_nothing_is_lost_by_counting(texts, by):
    chunked = with_chunks(bm25(), Chunking(by=by, size=3, overlap=1))

    chunked.index([Document(f"d{n}", text) for n, text in enumerate(texts)])

    assert chunked.notes == []


@settings(max_examples=15)
@given(
    st.dictionaries(st.sampled_from("abcdef"), TEXTS, min_size=1),
    st.sampled_from(["io", "io moon", "hot"]),
    st.integers(1, 6),
    st.integers(1, 4),
)
def test_it_is_the_head_of_the_ranking_of_all_chunks(texts, question, top_k, size):
    chunks = {
        f"{id}#{n}": " ".join(words[start : start + size])
        for id, words in ((id, text.split()) for id, text in texts.items())
        for n, start in enumerate(range(0, len(words), size))
    }
    plain = bm25()
    plain.index([Document(id, text) for id, text in chunks.items()])
    [everything] = plain.retrieve([Query("q", question)], len(chunks))

    hits = search(texts, question, top_k, size)

    assert [(hit.id, hit.score) for hit in hits] == [(h.id, h.score) for h in everything][
        : len(hits)
    ]
    documents = list(dict.fromkeys(hit.id.split("#")[0] for hit in everything))
    assert list(dict.fromkeys(hit.document for hit in hits)) == documents[:top_k]


@settings(max_examples=15)
@given(st.dictionaries(st.sampled_from("abcdef"), TEXTS, min_size=1))
def test_chunks_that_hold_whole_documents_rank_as_the_documents(texts):
    plain = bm25()
    plain.index([Document(id, text) for id, text in texts.items()])
    [expected] = plain.retrieve([Query("q", "io hot")], 9)

    hits = search(texts, "io hot", 9, size=99)

    assert [hit.document for hit in hits] == [
        hit.id for hit in sorted(expected, key=lambda hit: (hit.score, f"{hit.id}#0"), reverse=True)
    ]


class OwnRetriever:
    """A retriever of the user's own, that returns bare ids and formulates queries."""

    def index(self, corpus):
        self.ids = [document.id for document in corpus]

    def retrieve(self, queries, top_k):
        return [Retrieved([*self.ids[:top_k], "elsewhere"], ["hot moons"]) for _ in queries]


def test_retrievers_of_other_shapes_are_read():
    chunked = with_chunks(OwnRetriever(), Chunking(by="words", size=1))
    chunked.index([Document("d1", "io io"), Document("d2", "io")])

    [query_hits] = chunked.retrieve([Query("q", "?")], 3)

    assert [hit.id for hit in query_hits.documents] == ["d1#0", "d1#1", "d2#0", "elsewhere"]
    assert query_hits.documents[-1].document is None
    assert query_hits.queries == ["hot moons"]
    assert chunked.indexes
    assert not chunked.ranks_by_score


def test_what_does_not_index_cannot_be_chunked(tmp_path, assert_message):
    path = tmp_path / "old.trec"
    path.write_text("q1 Q0 a 1 0.5 x\n")
    with pytest.raises(OptionError) as caught:
        with_chunks(RunFile(path=path), Chunking(by="words", size=1))
    assert_message(caught.value)


def test_progress_counts_documents_not_chunks():
    progress = []
    chunked = with_chunks(bm25(), Chunking(by="words", size=1))
    chunked.advance = progress.append
    chunked.index([Document(f"d{n}", "io is hot") for n in range(4)])

    assert sum(progress) == 4
    assert len(progress) == 12, "bm25 tells of each chunk"


@pytest.mark.costly
@settings(deadline=None, max_examples=15)
@given(
    st.dictionaries(st.sampled_from(["d1", "d2", "d3", "e4"]), TEXTS, min_size=1),
    TEXTS,
    st.integers(1, 5),
    st.integers(1, 4),
    st.sampled_from(["lucene", "bm25+"]),
)
def test_a_worker_finds_the_same_chunks(
    worker, tmp_path_factory, texts, question, top_k, size, variant
):
    chunked = with_chunks(BM25(variant=variant), Chunking(by="words", size=size))
    chunked.cache_folder, chunked.executor = tmp_path_factory.mktemp("cache"), worker
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ragbench.retrieve.bm25.WORTH_KEEPING", 0)
        chunked.load()
        chunked.index([Document(id, text) for id, text in texts.items()])

    query = Query("q", question)
    query_hits = search_by_worker(worker, chunked.index_search(top_k), query, [])

    assert [query_hits] == chunked.retrieve([query], top_k)


def test_what_no_file_holds_is_searched_here(tmp_path, worker):
    chunked = with_chunks(bm25(), Chunking(by="words", size=1))
    chunked.cache_folder, chunked.executor = tmp_path, worker
    chunked.load()
    chunked.index([Document("d1", "io is hot")])

    assert chunked.index_search(1) is None
