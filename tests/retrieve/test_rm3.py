"""RM3 against a query worked by hand, against its parts, and on real collections."""

import math

import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import DataError, OptionError
from ragbench.retrieve.bm25 import BM25, RM3, relevance_model
from ragbench.retrieve.run_file import RunFile
from ragbench.types import Document, Query
from tests.executors.tasks import search_by_worker

TEXTS = {
    "d1": "red fox red hen",
    "d2": "fox den",
    "d3": "hen house",
    "d4": "blue sky over the sea",
    "d5": "den",
}


def search(question, texts=None, *, variant="lucene", top_k=10, **options):
    bm25 = BM25(stemmer="none", stopwords="none", variant=variant)
    bm25.index([Document(id, text) for id, text in (texts or TEXTS).items()])
    rm3 = RM3(retriever="bm25", **options)
    rm3.borrow([bm25])
    queries = [Query("q", question)]
    [expanded] = rm3.combine(queries, [bm25.retrieve(queries, 10)], top_k)
    return bm25, expanded


def test_agrees_with_a_query_worked_by_hand():
    # `fox` finds d2 (2 words) and d1 (4); their scores s2 and s1 are the weights of their votes.
    # d1 votes red 1/2, fox 1/4, hen 1/4; d2 votes fox 1/2, den 1/2. Two terms are kept of each
    # document and in the end: d1 then votes red 2/3, fox 1/3 (fox before hen by alphabet).
    idf = math.log(1 + (5 - 2 + 0.5) / (2 + 0.5))
    mean_length = (4 + 2 + 2 + 5 + 1) / 5
    s1 = idf / (1 + 0.9 * (1 - 0.4 + 0.4 * 4 / mean_length))
    s2 = idf / (1 + 0.9 * (1 - 0.4 + 0.4 * 2 / mean_length))
    votes = {"fox": s1 / 3 + s2 / 2, "red": s1 * 2 / 3, "den": s2 / 2}
    assert votes["fox"] > votes["red"] > votes["den"]
    total = votes["fox"] + votes["red"]
    weights = {"fox": 0.6 + 0.4 * votes["fox"] / total, "red": 0.4 * votes["red"] / total}

    bm25, expanded = search("fox", terms=2, documents=5, original_weight=0.6)

    assert expanded.queries == [f"fox^{weights['fox']:.4f} red^{weights['red']:.4f}"]
    assert expanded.documents == bm25.search(weights, 10)
    idf_red = math.log(1 + (5 - 1 + 0.5) / (1 + 0.5))
    norm = 0.9 * (1 - 0.4 + 0.4 * 4 / mean_length)
    expected = weights["fox"] * s1 + weights["red"] * idf_red * 2 / (2 + norm)
    assert [(hit.id, hit.score) for hit in expanded.documents] == [
        ("d1", pytest.approx(expected, abs=1e-12)),
        ("d2", pytest.approx(weights["fox"] * s2, abs=1e-12)),
    ]


def test_expansion_finds_what_the_question_does_not_name():
    _, plain = search("fox", original_weight=1.0)
    _, expanded = search("fox", original_weight=0.5)

    assert [hit.id for hit in plain.documents] == ["d2", "d1"]
    assert {hit.id for hit in expanded.documents} == {"d1", "d2", "d3", "d5"}


def test_only_the_first_documents_are_fed_back():
    _, expanded = search("fox", documents=1)

    assert expanded.queries == ["fox^0.7500 den^0.2500"], "0.5 + 0.5 / 2, and 0.5 / 2 from d2 alone"


def test_a_question_that_finds_nothing_is_left_as_it_is():
    _, expanded = search("unicorn")
    assert (expanded.documents, expanded.queries) == ([], ["unicorn^1.0000"])

    _, expanded = search("?!")
    assert (expanded.documents, expanded.queries) == ([], [])


@pytest.mark.costly
@pytest.mark.parametrize("variant", ["lucene", "robertson", "atire", "bm25l", "bm25+"])
@settings(max_examples=15)
@given(
    st.dictionaries(st.sampled_from("pqrstuv"), st.text("ab c", max_size=9), min_size=1),
    st.text("abc ", max_size=9),
)
def test_weights_that_count_the_words_search_as_plain_bm25(variant, texts, question):
    if not any(text.strip() for text in texts.values()):
        return
    bm25, expanded = search(question, texts, variant=variant, original_weight=1.0)
    [plain] = bm25.retrieve([Query("q", question)], 10)

    n_words = len(bm25.terms(question))
    assert {hit.id: hit.score * n_words for hit in expanded.documents} == pytest.approx(
        {hit.id: hit.score for hit in plain}, abs=1e-9
    )


@given(
    st.lists(
        st.tuples(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 9)), st.floats(0, 30)),
        max_size=5,
    ),
    st.integers(1, 4),
)
def test_a_relevance_model_is_a_distribution(feedback, terms):
    model = relevance_model(feedback, terms)

    assert len(model) <= terms
    assert set(model) <= {term for counts, _ in feedback for term in counts}
    assert all(share > 0 for share in model.values())
    assert not model or sum(model.values()) == pytest.approx(1.0)
    assert list(model.values()) == sorted(model.values(), reverse=True)


def test_it_borrows_a_bm25_and_nothing_else(tmp_path, assert_message):
    path = tmp_path / "old.trec"
    path.write_text("q1 Q0 a 1 0.5 x\n")
    rm3 = RM3(retriever="saved", documents=7)
    assert rm3.borrows
    assert (rm3.sources, rm3.depth) == (["saved"], 7)

    with pytest.raises(OptionError) as caught:
        rm3.borrow([RunFile(path=path)])
    assert_message(caught.value, "rm3: retriever")
    with pytest.raises(DataError, match="rm3: there is no index"):
        rm3.combine([Query("q", "x")], [[[]]], 1)


def test_keeps_its_figure(collection, indexed):
    # nDCG@10 on Cranfield as measured by trec_eval's code; BM25 alone has 0.376
    data, bm25 = collection("cranfield"), indexed("cranfield")
    rm3 = RM3(retriever="bm25")
    rm3.borrow([bm25])
    hits = rm3.combine(data.queries, [bm25.retrieve(data.queries, rm3.depth)], 10)
    run = {
        q.id: {h.id: h.score for h in f.documents} for q, f in zip(data.queries, hits, strict=True)
    }
    qrels = data.qrels.to_dict()

    scores = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10"}).evaluate(run)

    mean = sum(score["ndcg_cut_10"] for score in scores.values()) / len(qrels)
    assert mean == pytest.approx(0.409, abs=0.005)


words = st.lists(st.sampled_from(["fox", "den", "hen", "sea", "of"]), max_size=6).map(" ".join)


@pytest.mark.costly
@settings(deadline=None, max_examples=15)
@given(st.lists(words, min_size=1, max_size=5), words, st.sampled_from(["lucene", "bm25l"]))
def test_a_worker_finds_the_same(worker, tmp_path_factory, texts, question, variant):
    bm25, query = BM25(variant=variant), Query("q", question)
    bm25.cache_folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ragbench.retrieve.bm25.WORTH_KEEPING", 0)
        bm25.index([Document(f"d{n}", text) for n, text in enumerate([*texts, "fox"])])
    rm3 = RM3(retriever="bm25", terms=2, documents=2)
    assert rm3.index_search(3) is None, "no index yet"
    rm3.borrow([bm25])
    first = bm25.retrieve([query], 2)

    query_hits = search_by_worker(worker, rm3.index_search(3), query, first)

    assert [query_hits] == rm3.combine([query], [first], 3)
