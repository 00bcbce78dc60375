"""`cross_encoder` against sentence-transformers' own, on a tiny checkpoint; odd texts, batches."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.embed.base import find_checkpoint
from ragbench.errors import AdapterError, OptionError
from ragbench.experiment.plan.components import RerankingRetriever
from ragbench.rerank.cross_encoder import CrossEncoder, PairScorer
from ragbench.types import Query, ScoredDocument
from tests.models import build_tiny_cross_encoder

TEXTS = ["the cat sat on the mat", "a dog ran", "", "mat " * 90, "cats", "东 京 é !", "a dog ran"]
QUERIES = [Query("a", "the cat"), Query("b", "dog"), Query("c", "the " * 80)]


def hits(texts=TEXTS):
    return [ScoredDocument(f"d{i}", None, text) for i, text in enumerate(texts)]


def test_agrees_with_sentence_transformers(tiny_cross_encoder):
    # Pairs that are too long included: both cut the longer text first
    from sentence_transformers import CrossEncoder as Theirs
    from torch.nn import Identity

    pairs = [(query.text, text) for query in QUERIES for text in TEXTS]
    theirs = Theirs(tiny_cross_encoder, device="cpu", max_length=64)
    expected = theirs.predict(pairs, activation_fn=Identity(), show_progress_bar=False)

    rankings = CrossEncoder(model=tiny_cross_encoder, device="cpu").rerank(
        QUERIES, [hits()] * len(QUERIES), 10
    )

    scores = dict(zip(pairs, expected.tolist(), strict=True))
    for query, ranking in zip(QUERIES, rankings, strict=True):
        assert len(ranking) == len(TEXTS)
        assert [hit.score for hit in ranking] == sorted((h.score for h in ranking), reverse=True)
        for hit in ranking:
            assert hit.score == pytest.approx(scores[query.text, hit.text], abs=1e-5)


def test_equal_pairs_tie_and_stay_as_they_were(tiny_cross_encoder):
    (ranking,) = CrossEncoder(model=tiny_cross_encoder).rerank(QUERIES[:1], [hits()], 10)
    order = [hit.id for hit in ranking]

    assert order.index("d6") == order.index("d1") + 1


@pytest.fixture(scope="module")
def scorer(tiny_cross_encoder):
    return PairScorer(find_checkpoint("test", tiny_cross_encoder), "cpu", batch_tokens=64)


def score(scorer, pairs):
    return [output.score for output in scorer.read(pairs)]


def test_each_distinct_pair_is_computed_once_and_batches_hold_their_tokens(scorer, monkeypatch):
    computed, forward = [], scorer._forward

    def watched(tokens, batch, length):
        computed.append((batch, length))
        return forward(tokens, batch, length)

    monkeypatch.setattr(scorer, "_forward", watched)
    scores = score(scorer, [("the cat", text) for text in TEXTS * 3])

    # a batch of several pairs is filled up with its first one
    assert sum(len(set(batch)) for batch, _ in computed) == len(set(TEXTS))
    assert all(len(batch) == 1 or len(batch) * length <= 64 for batch, length in computed)
    assert scores[: len(TEXTS)] * 3 == scores


def test_pairs_that_are_cut_are_said(tiny_cross_encoder, assert_message):
    # 64 tokens hold [CLS], a word, [SEP], 60 words and [SEP]; one more is too many
    reranker = RerankingRetriever(
        CrossEncoder(model=tiny_cross_encoder, device="cpu"), "bm25", None
    )
    assert reranker.notes == []
    texts = ["mat " * 60, "mat " * 61, "mat"]

    reranker.combine([Query("a", "cat")], [[hits(texts[:1])]], 3)
    assert reranker.notes == []
    for _ in range(2):  # a query that is asked again counts once
        queries = [Query("a", "cat"), Query("b", "cat"), Query("c", "cat")]
        reranker.combine(queries, [[hits(texts), hits(texts), []]], 3)

    assert_message(reranker.notes)


@settings(max_examples=15)
@given(st.lists(st.integers(0, 80), max_size=5), st.integers(0, 80))
def test_a_pair_is_cut_where_its_tokens_are_more_than_the_limit(scorer, words, question):
    outputs = scorer.read([("cat " * question, "mat " * count) for count in words])

    assert [pair.truncated for pair in outputs] == [question + count + 3 > 64 for count in words]


@settings(max_examples=15)
@given(st.lists(st.tuples(st.text(max_size=5), st.text("cat \ud800", max_size=80)), max_size=6))
def test_a_pair_has_the_same_score_in_any_batch(scorer, pairs):
    together = score(scorer, pairs)

    alone = [score(scorer, [pair])[0] for pair in pairs]
    assert together == pytest.approx(alone, abs=1e-4)
    assert score(scorer, pairs) == together


def test_a_title_is_read_and_the_cut_is_kept(tiny_cross_encoder):
    reranker = CrossEncoder(model=tiny_cross_encoder)
    titled = [ScoredDocument("d1", None, "ran", "a dog"), ScoredDocument("d2", None, "a dog ran")]

    (ranking,) = reranker.rerank(QUERIES[:1], [titled], 2)
    (first,) = reranker.rerank(QUERIES[:1], [titled], 1)

    assert ranking[0].score == ranking[1].score
    assert first == ranking[:1]
    assert reranker.rerank(QUERIES[:2], [[], []], 3) == [[], []]


def test_what_is_no_cross_encoder_is_refused(
    tiny_bert, tiny_cross_encoder, tmp_path, assert_message
):
    # Anything with a tokeniser could be loaded: the head would be drawn at random
    from transformers import AutoModel, AutoTokenizer

    with pytest.raises(OptionError) as caught:
        CrossEncoder(model=tiny_bert).load()
    assert_message(caught.value)

    headless = str(tmp_path / "headless")  # its configuration names one label, its weights none
    AutoModel.from_pretrained(tiny_cross_encoder).save_pretrained(headless)
    AutoTokenizer.from_pretrained(tiny_cross_encoder).save_pretrained(headless)
    with pytest.raises(OptionError) as caught:
        RerankingRetriever(CrossEncoder(model=headless), "bm25", 5).load()
    assert_message(caught.value)

    with pytest.raises(OptionError) as caught:
        CrossEncoder(model="./nowhere")
    assert_message(caught.value, "cross_encoder: model")


@pytest.mark.slow(torch=True)
def test_a_model_with_several_labels_is_refused(tmp_path):
    folder = build_tiny_cross_encoder(tmp_path / "three", labels=3)

    with pytest.raises(OptionError, match=r"\(with 3 labels\)"):
        CrossEncoder(model=folder).load()


def test_a_hit_without_a_text_is_named(tiny_cross_encoder, assert_message):
    with pytest.raises(AdapterError) as caught:
        CrossEncoder(model=tiny_cross_encoder).rerank(QUERIES[:1], [hits([None])], 3)
    assert_message(caught.value)
