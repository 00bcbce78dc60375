"""Entailment: probabilities as sentence-transformers' own cross-encoder has them, and windows."""

import itertools

import numpy as np
import pytest

from ragbench.embed.base import Checkpoint, find_checkpoint
from ragbench.embed.classifier import TextClassifier, label_columns
from ragbench.errors import OptionError
from tests.models import NLI_LABELS, build_tiny_nli

COLUMNS = {"columns": label_columns, "decisive": (0, 2), "device": "cpu"}
TEXTS = ["the cat sat", "a dog ran", "the cat sat on the mat", "the mats ran!", "東京", "a dog"]
PAIRS = list(itertools.product(TEXTS, TEXTS))


@pytest.fixture(scope="module")
def model(tiny_nli):
    return TextClassifier(find_checkpoint("nli", tiny_nli), **COLUMNS)


def _oracle(folder, pairs):
    """Columns as the model has them: contradiction, entailment, neutral."""
    from sentence_transformers import CrossEncoder

    return CrossEncoder(folder, device="cpu").predict(
        pairs, batch_size=1, apply_softmax=True, show_progress_bar=False
    )


def test_probabilities_agree_with_a_cross_encoder(model, tiny_nli):
    probabilities = model.probabilities(PAIRS)

    expected = _oracle(tiny_nli, PAIRS)[:, [1, 2, 0]]
    # batched and alone, float32 is up to 1.2e-6 from the same weights in float64
    np.testing.assert_allclose(probabilities, expected, atol=1e-5)
    assert set(probabilities.argmax(axis=1)) == {0, 1, 2}, "each label is found somewhere"


def test_the_order_of_pairs_and_the_size_of_batches_change_nothing(model, tiny_nli):
    small = TextClassifier(find_checkpoint("nli", tiny_nli), batch_tokens=1, **COLUMNS)

    probabilities = model.probabilities(PAIRS)

    np.testing.assert_allclose(small.probabilities(PAIRS), probabilities, atol=1e-5)
    np.testing.assert_allclose(model.probabilities(PAIRS[::-1])[::-1], probabilities, atol=1e-5)
    assert model.probabilities([]).shape == (0, 3)


def test_labels_are_found_by_name_whatever_their_order(tmp_path, model):
    # The same weights under other names: the columns follow the names
    renamed = build_tiny_nli(tmp_path / "other", labels=("Neutral", "CONTRADICTION", "entailment"))

    probabilities = TextClassifier(find_checkpoint("nli", renamed), **COLUMNS).probabilities(PAIRS)

    # there 0 is contradiction, 1 entailment, 2 neutral; here 0 is neutral, 1 contradiction
    np.testing.assert_allclose(probabilities, model.probabilities(PAIRS)[:, [1, 2, 0]], atol=1e-6)


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param(["LABEL_0", "LABEL_1", "LABEL_2"], id="nameless"),
        pytest.param(["entailment", "not_entailment"], id="two"),
        pytest.param([*NLI_LABELS, "other"], id="four"),
        pytest.param([*NLI_LABELS, "Entailment"], id="twice"),
    ],
)
def test_other_labels_are_refused(labels, assert_message):
    with pytest.raises(OptionError) as caught:
        label_columns(Checkpoint("nli", "m", None), dict(enumerate(labels)))
    assert_message(caught.value, "nli: model")


def test_a_long_premise_is_read_in_windows_to_its_end(model):
    # The words far behind the first 64 tokens count as if they stood alone
    premise = "the cat sat on the mat " * 40

    windows = list(model._cut(premise + "a dog ran", "the cat sat"))

    assert {len(window["input_ids"]) for window in windows[:-1]} == {64}
    tokens = [window["input_ids"] for window in windows]
    assert all(ids[-4:-1] == tokens[0][-4:-1] for ids in tokens), "each beside the hypothesis"
    ran = model._tokenizer.convert_tokens_to_ids("ran")
    assert [ran in ids for ids in tokens] == [False] * (len(tokens) - 1) + [True]


def test_the_most_decided_window_speaks_for_the_premise(model, tiny_nli):
    premise, hypothesis = "the cat sat on the mat " * 30 + "a dog ran", "the mats ran!"
    texts = [
        model._tokenizer.decode(window["input_ids"]).partition("[SEP]")[0].removeprefix("[CLS]")
        for window in model._cut(premise, hypothesis)
    ]
    assert len(texts) > 2

    rows = _oracle(tiny_nli, [(text, hypothesis) for text in texts])

    best = rows[np.argmax(rows[:, :2].max(axis=1))]
    probabilities = model.probabilities([("a dog", "a dog"), (premise, hypothesis)])
    np.testing.assert_allclose(probabilities[1], best[[1, 2, 0]], atol=1e-5)


def test_a_hypothesis_that_is_too_long_is_cut_to_half(model):
    long = "a dog ran " * 50
    [window, *_] = model._cut("the cat sat", long)

    assert len(window["input_ids"]) <= 64
    assert np.isfinite(model.probabilities([("the cat sat", long), (long, long)])).all()


def test_odd_texts_are_read(model):
    probabilities = model.probabilities(
        [("\ud800 the cat", "a dog \udfff"), (" ", "x"), ("a\0b", "c")]
    )

    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
