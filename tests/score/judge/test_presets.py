"""Presets: the words of each input, to the byte as its authors publish them."""

import hashlib

import pytest

from ragbench.embed.classifier import fill_template
from ragbench.score.judge.presets import load_presets


@pytest.mark.parametrize(
    ("preset", "part", "published"),
    [
        # made of the published text with the names of its gaps replaced by ours
        pytest.param("hhem", "template", "1ca80baafad49bb5", id="configuration_hhem_v2.py"),
        pytest.param("lettucedetect", "template", "d990b4b322b37dab", id="inference.py"),
        pytest.param("bespoke-minicheck", "system", "016aea4b585f24d1", id="minicheck/utils.py"),
        pytest.param("granite-guardian", "user", "b7182c2c9e59e6dd", id="README.md of 4.1"),
        pytest.param("lynx", "user", "90f638928e1d9f7e", id="model card of Lynx"),
    ],
)
def test_words_are_those_that_the_authors_publish(preset, part, published):
    words = getattr(load_presets()[preset], part)

    assert hashlib.sha256(words.encode()).hexdigest()[:16] == published


@pytest.mark.parametrize(
    ("preset", "filled"),
    [
        ("minicheck-roberta", "A cat sat.</s>It sat."),
        ("minicheck-flan-t5", "predict: A cat sat.</s>It sat."),
    ],
)
def test_short_forms_are_those_of_the_authors_code(preset, filled):
    # `tokenizer.eos_token.join([doc, claim])`, and `predict: ` before it for Flan-T5
    gaps = {"passage": "A cat sat.", "text": "It sat.", "eos": "</s>"}

    assert fill_template(load_presets()[preset].template, gaps) == filled


def test_a_prompt_of_all_passages_numbers_them(assert_message):
    preset = load_presets()["lettucedetect"]

    prompt = preset.prompt("Red?", ["It is {question}.", "No."])

    assert_message(prompt)
    assert_message(preset.prompt(" ", ["No."]))


@pytest.mark.parametrize("name", load_presets())
def test_each_preset_names_its_source_and_licence(name):
    preset = load_presets()[name]

    assert preset.source.startswith("https://")
    assert preset.licence in ("Apache-2.0", "MIT", "CC BY-NC 4.0")
    assert preset.auc is None or 0.5 < preset.auc <= 1
