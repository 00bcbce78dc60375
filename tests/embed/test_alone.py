"""Bit for bit the same vector of a text, whatever is computed with it and on however many cores."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.embed.base import find_checkpoint, ignore_progress
from ragbench.embed.cache import CachedEmbedder
from ragbench.embed.encoders import Batches, TokenEncoder
from ragbench.embed.entailment import EntailmentModel
from ragbench.embed.sentence_transformers import SentenceTransformerEmbedder
from ragbench.errors import DataError
from ragbench.rerank.cross_encoder import PairScorer
from ragbench.score.text.bertscore import BERTScorer
from ragbench.score.text.semantic_similarity import SemanticSimilarity

pytestmark = pytest.mark.slow  # seconds in all: real runs, models or processes

WORDS = ["the", "cat", "sat", "on", "mat", "a", "dog", "ran"]
TEXTS = [
    " ".join(WORDS[(7 * i + j * j) % 8] for j in range(1 + (i * i) % 17)) + f" {i}"
    for i in range(40)
]
COMPANY = st.lists(st.sampled_from(TEXTS), min_size=1, max_size=12, unique=True)
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
        judge = EntailmentModel(find_checkpoint("test", folder), device="cpu")
        return lambda texts: [row.tobytes() for row in judge.probabilities(of_pairs(texts))]
    folder = request.getfixturevalue("tiny_bert")
    encoder = TokenEncoder(find_checkpoint("test", folder), 2, device="cpu")
    return lambda texts: [rows.tobytes() for rows in encoder.encode(encoder.tokenize(texts))]


@pytest.fixture(scope="module")
def together(model):
    """The results of all texts, computed together."""
    return dict(zip(TEXTS, model(TEXTS), strict=True))


@settings(max_examples=15)  # a few milliseconds for each text
@given(COMPANY)
def test_no_result_depends_on_the_company(model, together, texts):
    assert model(texts) == [together[text] for text in texts]


def test_no_result_depends_on_the_number_of_threads(model):
    import torch

    usual, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            found.append(model(TEXTS))
            assert torch.get_num_threads() == threads, "as it was before"
    finally:
        torch.set_num_threads(usual)
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("scorer", ["bertscore", "semantic_similarity"])
def test_a_score_does_not_depend_on_the_rows_beside_it(scorer, tiny_bert, tiny_embedder):
    def scores(rows):
        made = (
            BERTScorer(tiny_bert, num_layers=2, device="cpu")
            if scorer == "bertscore"
            else SemanticSimilarity(tiny_embedder, device="cpu")
        )
        return made.score([TEXTS[row] for row in rows], [TEXTS[row - 1] for row in rows])

    together = scores(range(len(TEXTS)))

    for rows in ([3], [39, 0, 20], range(5, 30)):
        assert scores(rows) == [together[row] for row in rows]


@settings(max_examples=10)  # each makes a file
@given(st.lists(SOME, max_size=3), st.permutations(TEXTS[:15]))
def test_a_cache_that_was_filled_in_parts_gives_what_a_fresh_run_does(
    tiny_embedder, tmp_path_factory, parts, corpus
):
    """Stopped anywhere, another corpus before, other documents in between."""
    model = SentenceTransformerEmbedder(tiny_embedder, device="cpu")
    path = tmp_path_factory.mktemp("cache") / "e.sqlite"
    for part in parts:
        CachedEmbedder(model, path).encode(part)
    resumed = CachedEmbedder(model, path)

    fresh = CachedEmbedder(model, None).encode(corpus)

    assert resumed.encode(corpus).tobytes() == fresh.tobytes()
    assert resumed.reused == len({text for part in parts for text in part})


def test_vectors_of_batches_are_not_taken_for_those_of_texts_alone(tiny_embedder, tmp_path):
    path = tmp_path / "e.sqlite"
    batched = SentenceTransformerEmbedder(tiny_embedder, device="cpu", batch_tokens=512)
    CachedEmbedder(batched, path).encode(TEXTS)
    alone = SentenceTransformerEmbedder(tiny_embedder, device="cpu")
    cached = CachedEmbedder(alone, path)

    fresh = CachedEmbedder(alone, None)

    assert cached.encode(TEXTS).tobytes() == fresh.encode(TEXTS).tobytes()
    assert cached.reused == 0
    again = CachedEmbedder(batched, path)
    again.encode(TEXTS)
    assert (again.encoded, again.reused) == (0, len(TEXTS))


@pytest.mark.parametrize(
    ("device", "options", "alone"),
    [
        pytest.param("cpu", {}, "alone on cpu", id="a CPU"),
        pytest.param("cpu", {"batch_tokens": 64}, "", id="batches that were asked for"),
        pytest.param("cpu", {"batch_size": 8}, "", id="of so many texts"),
        pytest.param("cuda", {}, "", id="a GPU"),
        pytest.param("cuda", {"batch_tokens": 1}, "alone on cuda", id="a GPU, one by one"),
        pytest.param("cuda", {"batch_size": 1}, "alone on cuda", id="a GPU, one text a batch"),
    ],
)
def test_what_is_computed_alone(device, options, alone):
    """The order of batches on a GPU is looked at here without one: `compute` is ours."""
    batches = Batches(device, options.get("batch_tokens"), 100, options.get("batch_size"))
    asked, told = [], []

    def compute(batch):
        asked.append(len(batch))
        return [position * 10 for position in batch]

    assert batches.manner == alone
    assert batches.apply(compute, [3, 9, 5], told.append) == [0, 10, 20]
    assert (max(asked) == 1) == bool(alone)
    assert sum(told) == 3
    assert batches.apply(compute, []) == []


def test_a_text_that_fails_ends_the_others_and_the_threads(tiny_embedder):
    import torch

    usual, before = torch.get_num_threads(), threading.active_count()

    def compute(batch):
        if batch == [1]:
            raise DataError("no such text")
        return batch

    with pytest.raises(DataError, match="no such text"):
        Batches("cpu", None, 1).apply(compute, [1] * 100, ignore_progress)
    assert torch.get_num_threads() == usual
    assert threading.active_count() == before


def test_scores_are_those_of_the_model_itself(tiny_embedder):
    """Alone or together, within what rounding moves."""
    from sentence_transformers import SentenceTransformer

    expected = SentenceTransformer(tiny_embedder, device="cpu").encode(TEXTS, batch_size=8)

    found = SentenceTransformerEmbedder(tiny_embedder, device="cpu").encode(TEXTS, normalize=False)

    np.testing.assert_allclose(found, expected, atol=2e-6)
