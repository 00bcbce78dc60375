"""Semantic similarity against sentence-transformers, on a real model."""

import numpy as np
import pytest

import ragbench as rb
from ragbench.embed.sentence_transformers import SentenceTransformerEmbedder
from ragbench.score.text.notation import text_notes
from tests.score.text.scoring import score_texts

PREDICTIONS = [
    "Paris is the capital of France.",
    "A cat sleeps on the sofa.",
    "The reaction needs heat.",
    "Jupiter is a planet. " * 55,
    "東京は日本の首都です。",
]
REFERENCES = [
    "France's capital is Paris.",
    "Interest rates rose again last quarter.",
    "Heat is not needed for the reaction.",
    "Jupiter is the largest planet of the Solar System.",
    "Tokyo is the capital of Japan.",
]


@pytest.fixture(scope="module")
def peer(minilm):
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(minilm, device="cpu")


def cosines(peer, predictions, references, prompt=""):
    from sentence_transformers.util import pairwise_cos_sim

    sides = (peer.encode(texts, prompt=prompt) for texts in (predictions, references))
    return pairwise_cos_sim(*sides).numpy()


@pytest.mark.parametrize("prompt", ["", "query: "])
def test_agrees_with_sentence_transformers(minilm, peer, prompt):
    # A negative cosine stays negative
    predictions, references = [*PREDICTIONS, PREDICTIONS[1]], [*REFERENCES, REFERENCES[3]]
    if prompt:  # without the long text
        predictions, references = predictions[:3], references[:3]
    ours = rb.semantic_similarity(predictions, references, model=minilm, prompt=prompt)

    expected = cosines(peer, predictions, references, prompt)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-5)


def test_the_most_similar_reference_counts(minilm):
    scorer = rb.SemanticSimilarity(minilm, device="cpu")
    gold = [REFERENCES[1], REFERENCES[0], ""]
    (best,) = scorer.score(PREDICTIONS[:1], [gold])

    assert best == pytest.approx(max(scorer.score(PREDICTIONS[:1] * 2, gold[:2])), abs=1e-6)


def test_empty_texts_score_0_and_equal_ones_1(minilm):
    scores = rb.semantic_similarity(["", "a", "  ", "a"], ["a", "", "", "a"], model=minilm)

    assert scores[:3] == [0, 0, 0]
    assert scores[3] == pytest.approx(1, abs=1e-6)


def test_each_distinct_text_is_encoded_once_and_references_stay(minilm):
    scorer = rb.SemanticSimilarity(minilm, device="cpu", batch_tokens=700)
    rows = []
    scorer._embedder._model.register_forward_pre_hook(
        lambda module, arguments: rows.append(len(arguments[0]["input_ids"]))
    )
    scorer.score(["a", "b", "b", "c"], ["c", "d", "c", "d"])
    assert sum(rows) == 4, "a, b, c, d"
    scorer.score(["e", "c"], ["c", "d"])
    assert sum(rows) == 4 + 4, "e, in a batch that is filled up to four rows"


def test_progress_counts_every_row_also_where_everything_is_known(minilm):
    scorer, progress = rb.SemanticSimilarity(minilm, device="cpu"), []
    for _ in range(2):
        scorer.score(["a", "b", "a"], ["a", "b", "a"], advance=progress.append)

    assert sum(progress) == 6


def test_as_a_metric(minilm, peer):
    name = f'semantic_similarity(model="{minilm}")'
    gold = [[text] for text in REFERENCES[:3]]
    (column,) = score_texts([None, *PREDICTIONS[1:3]], gold, [name])

    assert np.isnan(column.values[0])
    expected = cosines(peer, PREDICTIONS[1:3], REFERENCES[1:3])
    np.testing.assert_allclose(column.values[1:], expected, rtol=0, atol=1e-5)
    assert (column.low, column.high) == (-1, 1)
    parts = dict(column.signature.parts)
    assert parts["model"].startswith("sha256-")
    assert "device" not in parts


def test_texts_that_were_cut_are_counted(minilm, assert_message):
    (note,) = text_notes(PREDICTIONS, [], [f'semantic_similarity(model="{minilm}")'])

    assert_message(note)


def test_vectors_have_length_1_and_come_in_order(minilm, peer):
    embedder = SentenceTransformerEmbedder(minilm, device="cpu", batch_tokens=40)
    texts = [*PREDICTIONS[:3], PREDICTIONS[4], PREDICTIONS[0]]
    vectors = embedder.encode(texts)

    assert vectors.dtype == np.float32
    expected = peer.encode(texts, normalize_embeddings=True)
    np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-5)
    assert len(embedder.encode([])) == 0
    assert embedder.prompts == {"query": "", "document": ""}
