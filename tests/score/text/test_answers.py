"""Exact match, token F1 and contains: against the rules of SQuAD, by hand, and by property."""

import re
import string
import unicodedata
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.score.text.contains import contains
from ragbench.score.text.squad import exact_match, token_f1
from tests.conformance.oracles import squad_f1, squad_tokens
from tests.score.text.scoring import score_texts

answers = st.text("abt he.,'A1 ", max_size=12) | st.text("015.,-+/$%'#C a", max_size=12)


@given(answers, st.lists(answers, min_size=1, max_size=3))
def test_agrees_with_squad(prediction, references):
    assert token_f1(prediction, references) == max(squad_f1(prediction, r) for r in references)
    if prediction.strip():
        equal = any(squad_tokens(prediction) == squad_tokens(r) for r in references)
        assert exact_match(prediction, references) == float(equal)


# language -> the articles that the MLQA script removes, as a pattern
MLQA = {
    "en": r"\b(a|an|the)\b",
    "es": r"\b(un|una|unos|unas|el|la|los|las)\b",
    "vi": r"\b(của|là|cái|chiếc|những)\b",
    "de": r"\b(ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b",
    "ar": "ال",
    "zh": "(?!)",
    "none": "(?!)",
}
ALPHABET = "aeltnd  ،。.,«—£ال دن北京éüß｡Ｔ²"


def mlqa_words(text, language):
    """Return the words of the MLQA script: punctuation, articles, then Chinese characters apart."""
    text = "".join(
        c for c in text.lower() if c not in string.punctuation and unicodedata.category(c)[0] != "P"
    )
    text = re.sub(MLQA[language], " ", text)
    return (re.sub("([\u4e00-\u9fa5])", r" \1 ", text) if language == "zh" else text).split()


def script_words(text, language):
    """Return the words of the SQuAD script, whose articles are English."""
    return squad_tokens(text)


def f1_of(mine, gold):
    """Return the F1 of two bags of words; 0 if they share none."""
    same = sum((Counter(mine) & Counter(gold)).values())
    return 2 * same / (len(mine) + len(gold)) if same else 0.0


@pytest.mark.parametrize(
    ("rules", "words", "languages"),
    [("mlqa", mlqa_words, [*MLQA]), ("script", script_words, ["en"])],
)
@given(data=st.data())
def test_scripts_beyond_ascii(rules, words, languages, data):
    language = data.draw(st.sampled_from(languages))
    texts = st.text(ALPHABET, max_size=12) | st.text(max_size=8)
    prediction, reference = data.draw(texts), data.draw(texts)
    options = {"articles": language, "squad": rules}
    mine, gold = words(prediction, language), words(reference, language)

    assert token_f1(prediction, reference, **options) == pytest.approx(f1_of(mine, gold), abs=1e-12)
    # the script of MLQA compares texts in which Chinese characters are words, too
    assert exact_match(prediction, reference, **options) == float(mine == gold)


def test_the_arabic_article_is_no_word_of_its_own():
    # The MLQA script removes it before, and inside of, words: البيت is بيت
    assert exact_match("البيت الأبيض،", "بيت أبيض", articles="ar") == 1.0
    assert exact_match("البيت", "بيت") == 0.0


def test_scripts_have_signatures_of_their_own():
    names = ["token_f1", "token_f1(squad=script)", "token_f1(squad=mlqa,articles=zh)"]
    columns = score_texts(["「北京。"], ["北京"], names)

    assert [column.values.tolist() for column in columns] == [[1.0], [0.0], [1.0]]
    assert [str(column.signature).split("|")[1] for column in columns] == [
        "normalize:squad",
        "normalize:squad_script",
        "normalize:mlqa_script",
    ]


# without digits: `contains` reads numbers by rules of its own
words = st.text("abt he.,'A ", max_size=12)


@given(words, words)
def test_what_matches_exactly_is_contained_and_has_f1_of_one(prediction, reference):
    if exact_match(prediction, reference) and squad_tokens(reference):
        assert contains(prediction, reference) == token_f1(prediction, reference) == 1.0
    if contains(prediction, reference):
        assert token_f1(prediction, reference) > 0


@pytest.mark.parametrize(
    ("prediction", "reference", "expected"),
    [
        pytest.param("The cat.", "cat", (1, 1, 1), id="article and full stop"),
        pytest.param("a black cat", "cat", (0, 2 / 3, 1), id="2 * 1/2 * 1 / (3/2)"),
        pytest.param("I know", "no", (0, 0, 0), id="no is not in know"),
        pytest.param("Café", "Cafe\u0301", (1, 1, 1), id="composed and decomposed"),
        pytest.param("", "", (0, 0, 0), id="an empty prediction is 0"),
        pytest.param("", "cat", (0, 0, 0), id="empty prediction"),
        pytest.param("cat", "the", (0, 0, 0), id="reference without a word"),
        pytest.param("b a c", "b c", (1, 1, 1), id="article in between"),
        pytest.param("b d c", "b c", (0, 0.8, 0), id="not in a row"),
    ],
)
def test_hand_worked(prediction, reference, expected):
    scores = (f(prediction, reference) for f in (exact_match, token_f1, contains))
    assert tuple(scores) == pytest.approx(expected)


@pytest.mark.parametrize("function", [exact_match, token_f1, contains])
def test_no_reference(function):
    with pytest.raises(OptionError, match=rf"{function.__name__}: references: found \[\]"):
        function("a", [])
