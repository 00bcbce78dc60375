"""Vectors of tokens: layers as bert-score cuts them, texts that are too long, odd texts."""

import numpy as np
import pytest

from ragbench.embed.base import find_checkpoint
from ragbench.embed.encoders import (
    TokenEncoder,
    check_layer,
    count_layers,
    keep_layers,
    token_limit,
)
from ragbench.errors import OptionError
from tests.models import build_tiny_bert

SMALL = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2}
ARCHITECTURES = {
    "bert": {**SMALL, "intermediate_size": 16},
    "roberta": {**SMALL, "intermediate_size": 16, "max_position_embeddings": 40},
    "electra": {**SMALL, "intermediate_size": 16, "embedding_size": 16},
    "mpnet": {**SMALL, "intermediate_size": 16, "max_position_embeddings": 40},
    "deberta-v2": {**SMALL, "intermediate_size": 16},
    "albert": {**SMALL, "intermediate_size": 16, "embedding_size": 16},
    "distilbert": {"vocab_size": 50, "dim": 16, "n_layers": 3, "n_heads": 2, "hidden_dim": 16},
    "xlnet": {"vocab_size": 50, "d_model": 16, "n_layer": 3, "n_head": 2, "d_inner": 16},
    "xlm": {"vocab_size": 50, "emb_dim": 16, "n_layers": 3, "n_heads": 2},
    "t5": {"vocab_size": 50, "d_model": 16, "num_layers": 3, "num_heads": 2, "d_ff": 16, "d_kv": 8},
    "bart": {
        **{"vocab_size": 50, "d_model": 16, "encoder_layers": 3, "decoder_layers": 1},
        **{"encoder_attention_heads": 2, "decoder_attention_heads": 2},
        **{"encoder_ffn_dim": 16, "decoder_ffn_dim": 16},
    },
}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_layers_are_cut_as_bert_score_cuts_them(minilm, tmp_path, architecture):
    # bert-score picks T5 by the folder's name, we by the configuration
    import torch
    from bert_score.utils import get_model
    from transformers import AutoConfig, AutoModel

    torch.manual_seed(1)
    folder = tmp_path / architecture
    config = AutoConfig.for_model(architecture, **ARCHITECTURES[architecture])
    AutoModel.from_config(config).save_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    ours = model.get_encoder() if model.config.is_encoder_decoder else model
    assert count_layers(model.config) == 3

    ids, mask = torch.arange(5, 17).reshape(2, 6), torch.ones(2, 6)
    for layer in (2, 1):
        theirs = get_model(str(folder), layer).eval()
        keep_layers(ours, layer)
        with torch.inference_mode():
            outputs, expected = (m(ids, attention_mask=mask)[0].numpy() for m in (ours, theirs))
        np.testing.assert_allclose(outputs, expected, atol=1e-6)


class _Tokenizer:
    model_max_length = int(1e30)


@pytest.mark.parametrize(
    ("architecture", "expected"),
    [
        pytest.param("bert", 512, id="bert: all positions"),
        pytest.param("roberta", 38, id="roberta: 40 - (padding id 1 + 1)"),
        pytest.param("mpnet", 38, id="mpnet counts like roberta"),
        pytest.param("bart", 1024, id="bart: positions of another name, all of them"),
        pytest.param("t5", None, id="t5: relative positions, no limit"),
        pytest.param("xlnet", None, id="xlnet says -1: no limit"),
    ],
)
def test_the_limit_comes_from_the_model_where_the_tokeniser_has_none(
    minilm, architecture, expected
):
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.for_model(architecture, **ARCHITECTURES[architecture])
    assert token_limit(_Tokenizer(), AutoModel.from_config(config)) == expected


@pytest.fixture(scope="module")
def encoder(tiny_bert):
    return TokenEncoder(find_checkpoint("bertscore", tiny_bert), 2, device="cpu", batch_tokens=64)


def test_a_text_beyond_the_limit_is_cut_and_says_so(encoder):
    assert encoder.limit == 512
    short, long = encoder.tokenize(["the cat " * 255, "the cat " * 255 + "sat"])

    assert (len(short), short.truncated) == (512, False)
    assert (len(long), long.truncated) == (512, True)
    assert long.ids[-1] == short.ids[-1], "the end of a text stays"


def test_the_tokenisers_own_limit_counts_too(tiny_bert, tmp_path):
    folder = build_tiny_bert(tmp_path / "short", max_length=8)
    (tokens,) = TokenEncoder(find_checkpoint("bertscore", folder), 1, device="cpu").tokenize(
        ["the cat sat on the mat a"]
    )

    assert (len(tokens), tokens.truncated) == (8, True)


@pytest.mark.parametrize("text", ["", "  \n", "\u200b", "\x00"])
def test_a_text_without_tokens_is_empty(encoder, text):
    (tokens,) = encoder.tokenize([text])

    assert tokens.empty
    assert len(tokens) == 2, "[CLS] and [SEP]"


def test_half_a_surrogate_pair_is_read(encoder):
    assert not encoder.tokenize(["cat \ud800"])[0].empty


def test_a_text_has_the_same_vectors_in_any_batch(encoder):
    texts = ["the cat", "a dog ran on the mat " * 9, "mats", "", "the cat sat", "东 京 é !"]
    tokens = encoder.tokenize(texts)
    together = encoder.encode(tokens)

    assert len(together) == len(texts)
    for position, text in enumerate(tokens):
        (alone,) = encoder.encode([text])
        assert together[position].shape == (len(text), 32)
        np.testing.assert_allclose(together[position], alone, atol=1e-6)
        np.testing.assert_allclose(np.linalg.norm(alone, axis=1), 1, atol=1e-6)


def test_a_layer_that_the_model_lacks_is_refused(tiny_bert, assert_message):
    with pytest.raises(OptionError) as caught:
        TokenEncoder(find_checkpoint("bertscore", tiny_bert), 3, device="cpu")
    assert_message(caught.value, "bertscore: num_layers")


@pytest.mark.slow(torch=True)
def test_a_model_whose_configuration_names_no_layers_is_refused(tmp_path, assert_message):
    # CLIP has a configuration for each of its two encoders, and none of its own
    (tmp_path / "config.json").write_text('{"model_type": "clip"}')
    checkpoint = find_checkpoint("bertscore", str(tmp_path))
    with pytest.raises(OptionError) as caught:
        check_layer(checkpoint, 1)
    assert_message(caught.value, "bertscore: num_layers")


def test_a_folder_that_holds_something_else_is_refused(minilm, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "no-such"}')

    with pytest.raises(OptionError, match="bertscore: model: found"):
        TokenEncoder(find_checkpoint("bertscore", str(tmp_path)), 1, device="cpu")
