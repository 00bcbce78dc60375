"""Tokenizers: the tokens of sacrebleu for every name, and one sentence for what is missing."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.tokenizers import tokenizer_spm

from ragbench.errors import MissingExtra, OptionError
from ragbench.score.text import tokenizers
from ragbench.score.text.tokenizers import tokenizer
from tests.score.text.scoring import score_texts
from tests.score.text.strategies import texts

BUILT_IN = ("13a", "intl", "zh", "char", "none")
# digits, marks and white space of several scripts, on which the rules look left and right
edges = st.text("5٣½Ⅷa中字カ。\uff0c、\uff01.,-\u2013'“%€+ \t\n\u3000\u2028\x1c", max_size=20)


@pytest.mark.costly
@pytest.mark.parametrize("name", BUILT_IN)
@given(text=texts | edges)
@settings(max_examples=100)
def test_tokens_are_those_of_sacrebleu(name, text):
    theirs = BLEU(tokenize=name).tokenizer
    assert tokenizer("bleu", name)(text) == theirs(text.rstrip()).split()
    assert tokenizer("bleu", name, lowercase=True)(text) == theirs(text.lower().rstrip()).split()


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("13a", "Zürich, 3.5%", ["Zürich", ",", "3.5", "%"]),
        ("intl", "它2019年。", ["它2019年", "。"]),
        ("zh", "它2019年, 5.", ["它", "2019", "年", ",", "5."]),
        ("char", "它 ok", ["它", "o", "k"]),
        ("none", "它 ok.", ["它", "ok."]),
    ],
)
def test_hand_worked(name, text, expected):
    assert tokenizer("bleu", name)(text) == expected


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_name_is_in_the_signature(name):
    (column,) = score_texts(["a"], ["a"], [f"bleu(tokenize={name})"])
    assert f"|tokenize:{name}|" in str(column.signature)


@pytest.mark.parametrize("language", ["ja", "ko"])
def test_mecab_works_or_says_what_to_install(language):
    module = f"sacrebleu.tokenizers.tokenizer_{language}_mecab"
    name = f"{language}-mecab"
    if __import__(module, fromlist=["MeCab"]).MeCab is None:
        message = rf"bleu\(tokenize={name}\) needs a package .*: .*sacrebleu\[{language}\]"
        with pytest.raises(MissingExtra, match=message):
            score_texts([], [], [f"bleu(tokenize={name})"])
    else:
        text = {"ja": "猫が座る。", "ko": "고양이가 앉다."}[language]
        assert tokenizer("bleu", name)(text) == BLEU(tokenize=name).tokenizer(text).split()


def test_a_model_that_cannot_be_fetched_is_a_missing_extra(monkeypatch, tmp_path, assert_message):
    def refuse(*_):
        raise OSError("no route")

    monkeypatch.setattr(tokenizer_spm, "download_file", refuse)
    monkeypatch.setattr(tokenizer_spm, "SACREBLEU_DIR", str(tmp_path))
    monkeypatch.setitem(sys.modules, "sentencepiece", _Sentencepiece)
    with pytest.raises(MissingExtra) as caught:
        tokenizer("other", "flores101")
    assert_message(caught.value)


class _Sentencepiece:
    """Stand in for the parts of sentencepiece that sacrebleu calls before it loads its model."""

    SentencePieceProcessor = object


def test_an_unknown_name_names_the_nearest(assert_message):
    with pytest.raises(OptionError) as caught:
        tokenizer("bleu", "13b")
    assert_message(caught.value, "bleu: tokenize")


def test_words_are_split_once():
    words = []

    def split(text):
        words.append(text)
        return text.split()

    tokenize = tokenizers.by_word(split, across=("&",))
    assert tokenize("a b. b. b. c") == ["a", "b.", "b.", "b.", "c"]
    assert words == ["a", "b.", "c"]
    assert tokenize("a & b") == ["a", "&", "b"]
    assert words[-1] == "a & b"


def test_a_rule_of_13a_that_spans_words_is_followed():
    text = "an exam-\nple of &lt;tags&gt; &amp;lt; <skip<skipped>ped>"
    assert tokenizer("bleu", "13a")(text) == BLEU().tokenizer(text).split()
