"""Bit for bit the same vector of a text, whatever is computed with it and on however many cores."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.embed.base import find_checkpoint
from ragbench.embed.cache import CachedEmbedder
from ragbench.embed.classifier import TextClassifier, label_columns
from ragbench.embed.encoders import TokenEncoder
from ragbench.embed.sentence_transformers import SentenceTransformerEmbedder
from ragbench.rerank.cross_encoder import PairScorer
from ragbench.score.text.bertscore import BERTScorer
from ragbench.score.text.semantic_similarity import SemanticSimilarity
from tests.embed.tables import encoded_texts
from tests.embed.test_tokens import ARCHITECTURES

pytestmark = pytest.mark.slow(torch=True)  # seconds in all: real runs, models or processes

WORDS = ["the", "cat", "sat", "on", "mat", "a", "dog", "ran"]
TEXTS = [
    " ".join(WORDS[(7 * i + j * j) % 8] for j in range(1 + (i * i) % 17)) + f" {i}"
    for i in range(40)
]
SOME = st.lists(st.sampled_from(TEXTS[:15]), min_size=1, max_size=6, unique=True)


def of_pairs(texts):
    return [(text, TEXTS[0]) for text in texts]


@pytest.fixture(scope="module", params=["embedder", "pairs", "entailment", "tokens"])
def model(request):
    """Turns texts into one result each, as bytes."""
    if request.param == "embedder":
        folder = request.getfixturevalue("tiny_embedder")
        embedder = SentenceTransformerEmbedder(folder, device="cpu")
        return lambda texts: [row.tobytes() for row in embedder.encode(texts)]
    if request.param == "pairs":
        folder = request.getfixturevalue("tiny_cross_encoder")
        scorer = PairScorer(find_checkpoint("test", folder), "cpu")
        return lambda texts: [pair.score.hex() for pair in scorer.read(of_pairs(texts))]
    if request.param == "entailment":
        folder = request.getfixturevalue("tiny_nli")
        judge = TextClassifier(find_checkpoint("test", folder), label_columns, device="cpu")
        return lambda texts: [row.tobytes() for row in judge.probabilities(of_pairs(texts))]
    folder = request.getfixturevalue("tiny_bert")
    encoder = TokenEncoder(find_checkpoint("test", folder), 2, device="cpu")
    return lambda texts: [rows.tobytes() for rows in encoder.encode(encoder.tokenize(texts))]


@pytest.fixture(scope="module")
def together(model):
    """The results of all texts, computed together."""
    return dict(zip(TEXTS, model(TEXTS), strict=True))


def test_no_result_depends_on_the_place_or_the_neighbours(model, together):
    # Texts of one or two padded lengths, so that nearly all share their batches
    import torch

    usual, rng = torch.get_num_threads(), random.Random(5)
    try:
        for shuffle in range(20):  # of each of the four models
            torch.set_num_threads(1 + shuffle % 2)
            texts = rng.sample(TEXTS, rng.choice((1, 3, 4, 5, 12)))
            assert model(texts) == [together[text] for text in texts]
    finally:
        torch.set_num_threads(usual)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_no_architecture_sees_the_neighbours_or_the_padding(architecture, tiny_bert, tmp_path):
    # Models with positions by the padding id, relative positions, memory, shared layers
    import torch
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    torch.manual_seed(1)
    config = AutoConfig.for_model(architecture, **ARCHITECTURES[architecture])
    AutoModel.from_config(config).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(tmp_path)
    encoder = TokenEncoder(find_checkpoint("test", str(tmp_path)), 3, device="cpu")
    tokens, rng = encoder.tokenize(TEXTS[:18]), random.Random(6)
    together = [rows.tobytes() for rows in encoder.encode(tokens)]

    for size in (1, 3, 12):
        places = rng.sample(range(len(tokens)), size)
        vectors = encoder.encode([tokens[place] for place in places])
        assert [rows.tobytes() for rows in vectors] == [together[place] for place in places]


@pytest.mark.parametrize("kind", ["embedder", "tokens"])
def test_no_vector_of_a_trained_model_depends_on_its_batch(kind, minilm):
    rng = random.Random(7)
    texts = [" ".join(rng.choices(WORDS, k=k)) for k in (1, 2, 6, 14, 30, 31)]
    if kind == "embedder":
        encode = SentenceTransformerEmbedder(minilm, device="cpu").encode
    else:
        encoder = TokenEncoder(find_checkpoint("test", minilm), 6, device="cpu")

        def encode(texts):
            return encoder.encode(encoder.tokenize(texts))

    together = dict(zip(texts, (rows.tobytes() for rows in encode(texts)), strict=True))

    for size in (1, 4):
        some = rng.sample(texts, size)
        assert [rows.tobytes() for rows in encode(some)] == [together[text] for text in some]


def test_no_result_depends_on_the_number_of_threads(model):
    import torch

    usual, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            results.append(model(TEXTS))
            assert torch.get_num_threads() == threads, "as it was before"
    finally:
        torch.set_num_threads(usual)
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("scorer", ["bertscore", "semantic_similarity"])
def test_a_score_does_not_depend_on_the_rows_beside_it(scorer, tiny_bert, tiny_embedder):
    def scores(rows):
        scorer_made = (
            BERTScorer(tiny_bert, num_layers=2, device="cpu")
            if scorer == "bertscore"
            else SemanticSimilarity(tiny_embedder, device="cpu")
        )
        return scorer_made.score([TEXTS[row] for row in rows], [TEXTS[row - 1] for row in rows])

    together = scores(range(len(TEXTS)))

    for rows in ([3], [39, 0, 20], range(5, 30)):
        assert scores(rows) == [together[row] for row in rows]


@settings(max_examples=3)  # each makes a file
@given(st.lists(SOME, max_size=3), st.permutations(TEXTS[:15]))
def test_a_cache_that_was_filled_in_parts_gives_what_a_fresh_run_does(
    tiny_embedder, tmp_path_factory, parts, corpus
):
    # A run may stop anywhere, after another corpus, with other documents in between
    model = SentenceTransformerEmbedder(tiny_embedder, device="cpu")
    path = tmp_path_factory.mktemp("cache") / "e.sqlite"
    for part in parts:
        CachedEmbedder(model, path).encode(part)
    fresh = CachedEmbedder(model, None).encode(corpus)

    with pytest.MonkeyPatch.context() as patch:
        encoded = encoded_texts(patch)
        resumed = CachedEmbedder(model, path).encode(corpus)

    assert resumed.tobytes() == fresh.tobytes()
    assert len(encoded) == len(corpus) - len({text for part in parts for text in part})


def test_vectors_of_batches_are_not_taken_for_those_of_texts_alone(
    tiny_embedder, tmp_path, monkeypatch
):
    path = tmp_path / "e.sqlite"
    batched = SentenceTransformerEmbedder(tiny_embedder, device="cpu", batch_tokens=512)
    CachedEmbedder(batched, path).encode(TEXTS)
    alone = SentenceTransformerEmbedder(tiny_embedder, device="cpu")
    cached = CachedEmbedder(alone, path)

    fresh = CachedEmbedder(alone, None)

    assert cached.encode(TEXTS).tobytes() == fresh.encode(TEXTS).tobytes()
    encoded = encoded_texts(monkeypatch)
    CachedEmbedder(batched, path).encode(TEXTS)
    assert encoded == []


def test_scores_are_those_of_the_model_itself(tiny_embedder):
    # Alone or together, within what rounding moves
    from sentence_transformers import SentenceTransformer

    expected = SentenceTransformer(tiny_embedder, device="cpu").encode(TEXTS, batch_size=8)

    vectors = SentenceTransformerEmbedder(tiny_embedder, device="cpu").encode(
        TEXTS, normalize=False
    )

    np.testing.assert_allclose(vectors, expected, atol=2e-6)
