"""The normal form of answers, against the rules of the SQuAD script written out naively."""

import re
import string
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from ragbench.text.tokenize import normalize_answer


def squad(text):
    """The four steps of Rajpurkar et al., one after the other."""
    text = "".join(c for c in text.lower() if c not in set(string.punctuation))
    text = re.sub(r"\b(a|an|the)\b", " ", text)
    return " ".join(text.split())


@given(st.text(alphabet=st.characters(max_codepoint=127)) | st.text("atheAn .,'-", max_size=30))
def test_agrees_with_squad_on_ascii(text):
    assert normalize_answer(text) == squad(text)


@given(st.text(max_size=30) | st.text("atheéüß،。 .,«—İ", max_size=30))
def test_script_agrees_with_squad_on_any_text(text):
    assert normalize_answer(text, rules="script") == squad(text)


def test_beyond_ascii():
    assert normalize_answer("«L\u2019État»… 50 €") == "létat 50 €"
    assert normalize_answer(unicodedata.normalize("NFD", "Café")) == "café"
    assert normalize_answer("東京。") == "東京"
    assert normalize_answer("$5 \u2013 the price") == "5 price"


def test_tokens():
    assert normalize_answer("The U.S. Senate").split() == ["us", "senate"]
    assert normalize_answer("the").split() == []
