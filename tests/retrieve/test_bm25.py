"""BM25 against the formula by hand, against the library, and under ties and odd texts."""

import math
import random

import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import run_experiment
from ragbench.errors import DataError, OptionError
from ragbench.registry import declared_options, options_of
from ragbench.retrieve.bm25 import BM25
from ragbench.retrieve.chunks import with_chunks
from ragbench.store.maintenance import stored_in
from ragbench.text.chunk import Chunking
from ragbench.types import Document, Query
from tests.executors.tasks import search_by_worker
from tests.retrieve.boosted import Boosted

TEXTS = st.text("ab ", max_size=12)


def rank(texts, question, top_k=10, **options):
    retriever = BM25(**({"stemmer": "none", "stopwords": "none"} | options))
    retriever.index([Document(id, text) for id, text in texts.items()])
    (hits,) = retriever.retrieve([Query("q", question)], top_k)
    return [(hit.id, hit.score) for hit in hits]


def test_retrievers_that_wait_for_an_index_read_a_corpus_once():
    corpus = [Document("d1", "red fox red"), Document("d2", "blue fox")]
    grid = [{"k1": 0.9}, {"k1": 2.0}, {"k1": 0.9, "stemmer": "none"}, {"b": 0.0}]
    retrievers = [BM25(**options) for options in grid]
    counts = []
    for retriever in retrievers:
        read = []
        retriever.advance = read.append
        retriever.index(corpus)
        counts.append(sum(read))

    # another stemmer gives other terms
    assert counts == [2, 0, 2, 0]
    queries = [Query("q", "red foxes")]
    for retriever, options in zip(retrievers, grid, strict=True):
        alone = BM25(**options)
        alone.index(corpus)
        assert retriever.retrieve(queries, 5) == alone.retrieve(queries, 5)
    # another corpus has terms of its own
    first, second = BM25(), BM25()
    first.index(corpus)
    second.index([Document("d3", "green fox")])
    assert [hit.id for hit in second.retrieve([Query("q", "green")], 5)[0]] == ["d3"]
    assert second.retrieve([Query("q", "red")], 5) == [[]]


def test_agrees_with_the_formula_by_hand():
    # Lucene: ln(1 + (N - n + 0.5) / (n + 0.5)) * tf / (tf + k1 (1 - b + b len / mean len))
    texts = {"d1": "red fox red", "d2": "blue fox", "d3": "blue sky over sea"}
    idf = math.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    expected = idf * 2 / (2 + 0.9 * (1 - 0.4 + 0.4 * 3 / 3))

    assert rank(texts, "red") == [("d1", pytest.approx(expected, abs=1e-12))]


@pytest.mark.parametrize("variant", ["lucene", "robertson", "atire", "bm25l", "bm25+"])
def test_agrees_with_the_library(variant):
    import bm25s

    texts = {f"d{i}": " ".join(["w" + str(i % 3), "x", "y" * (i + 1)] * (i + 1)) for i in range(9)}
    theirs = bm25s.BM25(k1=1.5, b=0.75, method=variant, dtype="float64", auto_compile=False)
    theirs.index([text.split() for text in texts.values()], show_progress=False)
    scores = dict(zip(texts, theirs.get_scores(["w1", "yyy"]).tolist(), strict=True))

    ours = rank(texts, "w1 yyy", variant=variant, k1=1.5, b=0.75)

    matching = {id for id, text in texts.items() if {"w1", "yyy"} & set(text.split())}
    assert {id for id, _ in ours} <= matching
    assert all(score == pytest.approx(scores[id], abs=1e-12) for id, score in ours)
    if variant not in ("robertson", "atire"):  # whose idf may be 0 for a common word
        assert {id for id, _ in ours} == matching


@settings(max_examples=25)
@given(st.dictionaries(st.sampled_from("pqrstuv"), TEXTS, min_size=1), TEXTS, st.integers(1, 7))
def test_cut_keeps_the_head_of_the_full_ranking(texts, question, top_k):
    # Ties included: equal scores go to the larger id, whatever the cut
    if not any(text.strip() for text in texts.values()):
        return
    full = rank(texts, question, 100)

    assert rank(texts, question, top_k) == full[:top_k]
    assert full == sorted(full, key=lambda hit: (hit[1], hit[0]), reverse=True)
    assert {id for id, _ in full} <= {
        id for id, text in texts.items() if set(text.split()) & set(question.split())
    }


def test_stemming_and_stop_words_are_options():
    texts = {"d1": "the planet orbits", "d2": "the the the"}

    assert [id for id, _ in rank(texts, "orbiting the", stemmer="porter")] == ["d1", "d2"]
    assert rank(texts, "orbiting", stemmer="none") == []
    assert rank(texts, "the", stopwords="english") == []


def test_title_is_searched_too():
    retriever = BM25()
    retriever.index([Document("d1", "text", "Europa"), Document("d2", "text", "Io")])

    assert [hit.id for hit in retriever.retrieve([Query("q", "europa")], 5)[0]] == ["d1"]


def test_empty_documents_and_unknown_words_are_no_error():
    assert rank({"d1": "", "d2": "word"}, "word") == [("d2", pytest.approx(0.6931, abs=1))]
    assert rank({"d1": "word"}, "") == []
    assert rank({"d1": "word"}, "unknown") == []


def test_a_corpus_without_a_word_is_an_error(assert_message):
    with pytest.raises(DataError) as caught:
        rank({"d1": "", "d2": "  "}, "x")
    assert_message(caught.value)


def test_searching_before_indexing_is_an_error():
    with pytest.raises(DataError, match="no corpus"):
        BM25().retrieve([Query("q", "x")], 1)


def test_unknown_stop_words_say_what_there_is():
    with pytest.raises(OptionError, match="english"):
        BM25(stopwords="klingon")


def test_reaches_the_known_figure(collection, indexed):
    # nDCG@10 on Cranfield with k1 0.9, b 0.4 and Porter's stemmer, measured by trec_eval's own
    # code; more collections are on docs/published.md, whose commands its own tests run
    data = collection("cranfield")
    hits = indexed("cranfield").retrieve(data.queries, 10)
    run = {
        q.id: {h.id: h.score for h in query_hits}
        for q, query_hits in zip(data.queries, hits, strict=True)
    }
    qrels = data.qrels.to_dict()

    scores = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10"}).evaluate(run)

    mean = sum(score["ndcg_cut_10"] for score in scores.values()) / len(qrels)
    assert mean == pytest.approx(0.3679, abs=0.01)


def large(n, seed=5):
    """A corpus with ties."""
    draw = random.Random(seed)
    vocabulary = [f"word{i}" for i in range(300)]
    texts = [" ".join(draw.choices(vocabulary, k=80)) for _ in range(n // 2)]
    texts += ["word1 word2 " * 40] * (n // 2)
    return [Document(f"{'de'[i >= n // 2]}{i}", text) for i, text in enumerate(texts)]


@pytest.fixture
def small_indexes(monkeypatch):
    """Small indexes are kept in files too."""
    monkeypatch.setattr("ragbench.retrieve.bm25.WORTH_KEEPING", 0)


def stored_index(corpus, cache, **options):
    retriever = BM25(**options)
    retriever.cache_folder = cache
    retriever.index(corpus)
    queries = [Query(str(i), f"word{i} word{i + 1} word{7 * i}") for i in range(9)]
    return retriever, retriever.retrieve(queries, 30)


@pytest.mark.costly
@pytest.mark.parametrize("variant", ["lucene", "bm25+"])
def test_an_index_of_the_cache_gives_the_same_bits(tmp_path, monkeypatch, variant, small_indexes):
    corpus = large(400)
    plain, expected = stored_index(corpus, None, variant=variant)
    _, first = stored_index(corpus, tmp_path, variant=variant)
    monkeypatch.setattr(BM25, "_build", lambda *_: pytest.fail("made again"))

    mapped, second = stored_index(corpus, tmp_path, variant=variant)

    assert second == first == expected
    weighted = {"word3": 0.25, "word4": 2.0, "unknown": 1.0}
    assert mapped.search(weighted, 20) == plain.search(weighted, 20)
    assert mapped.term_counts("e300") == plain.term_counts("e300") == {"word1": 40, "word2": 40}


@pytest.mark.slow
def test_another_corpus_or_option_is_another_index(tmp_path, small_indexes):
    corpus, cache = large(60), tmp_path / "cache"
    stop = tmp_path / "stop.txt"
    stop.write_text("word1\n")
    options = [{"stemmer": "none"}, {"k1": 1.2}, {"b": 0.5}, {"variant": "atire"}]
    options += [{"stopwords": "none"}, {"stopwords": str(stop)}]
    for changes in options:
        stored_index(corpus, cache, **changes)
    stop.write_text("word2\n")
    corpora = [corpus[::-1], [*corpus[:-1], Document("e9999", corpus[-1].text)]]

    assert (
        stored_index(corpus, cache, **options[-1])[1]
        == stored_index(corpus, None, **options[-1])[1]
    )
    for other in corpora:
        assert stored_index(other, cache)[1] == stored_index(other, None)[1]
    assert len(stored_in(cache)) == len(options) + 3


def test_a_small_index_is_not_kept(tmp_path):
    stored_index([Document("a", "word1")], tmp_path / "cache")

    assert not (tmp_path / "cache").exists()


@pytest.mark.costly
def test_chunks_are_indexed_once(tmp_path, small_indexes):
    corpus = large(200)
    numbers = []
    for cache in (None, tmp_path, tmp_path):
        chunked = with_chunks(BM25(), Chunking(by="words", size=30))
        chunked.cache_folder = cache
        chunked.load()
        chunked.index(corpus)
        numbers.append(chunked.retrieve([Query("q", "word7 word9")], 5))

    assert numbers[0] == numbers[1] == numbers[2]
    (index,) = stored_in(tmp_path)
    assert (index.kind, index.label.rpartition(" ")[2]) == ("index", "chunks")


@pytest.mark.costly
def test_an_option_is_declared_once_and_reaches_workers_and_stored_indexes(
    worker, tmp_path, monkeypatch
):
    # The subclass declares one option, in its constructor, and nothing else names it
    monkeypatch.setattr("ragbench.retrieve.bm25.WORTH_KEEPING", 0)
    corpus = [Document("d1", "a red fox"), Document("d2", "a hen")]
    query = Query("q", "fox")

    def indexed(**options):
        retriever = Boosted(**options)
        retriever.cache_folder = tmp_path
        retriever.index(corpus)
        return retriever

    plain, twice = indexed(), indexed(boost=2.0)

    assert declared_options(Boosted).keys() == {"boost"}
    assert options_of(twice) == {"boost": 2.0}
    assert len(stored_in(tmp_path)) == 2, "another option, another index"
    worker_hits = [
        search_by_worker(worker, bm25.index_search(1), query, []) for bm25 in (plain, twice)
    ]
    own_hits = [bm25.retrieve([query], 1)[0] for bm25 in (plain, twice)]
    assert [bm25.documents for bm25 in worker_hits] == own_hits
    assert own_hits[0][0].score != own_hits[1][0].score


def test_a_small_corpus_after_a_large_one_is_not_searched_in_the_stored_index(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("ragbench.retrieve.bm25.WORTH_KEEPING", 60)
    bm25 = BM25()
    bm25.cache_folder = tmp_path
    bm25.index([Document(f"d{n}", "alpha beta gamma delta epsilon") for n in range(20)])
    assert bm25.index_search(1) is not None

    bm25.index([Document("d", "alpha")])

    assert bm25.index_search(1) is None


def test_an_experiment_asks_one_question_at_a_time(tmp_path):
    # Each query has a latency of its own, and a failed one fails alone.
    sizes = []

    class Counted(BM25):
        def retrieve(self, queries, top_k):
            sizes.append(len(queries))
            return super().retrieve(queries, top_k)

    rows = [{"id": f"q{n}", "question": f"word{n}", "relevant": ["d0"]} for n in range(3)]
    experiment = run_experiment(
        {"name": "one", "output": str(tmp_path), "metrics": {"retrieval": {"measures": ["mrr"]}}},
        dataset=rows,
        documents=[Document(f"d{n}", f"word{n}") for n in range(3)],
        retrievers={"counted": Counted()},
    )

    assert sizes == [1, 1, 1]
    assert experiment.exit_code == 0
