"""ROUGE: equal to rouge-score to the last bit, by hand, and by its definition."""

import functools
import json
import pickle
import random
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.score.text.base import UnseenText
from ragbench.score.text.rouge import TYPES, lcs_length, lcs_positions, rouge
from tests.lazy import Lazy
from tests.score.text.scoring import score_texts
from tests.score.text.strategies import WORDS, latin_texts, texts

rouge_scorer = Lazy("rouge_score.rouge_scorer")


@functools.cache
def scorer(stemmer):
    return rouge_scorer.RougeScorer(list(TYPES), use_stemmer=stemmer)


def values_of(scores):
    """Return the values by name of the scores of rouge-score."""
    return {name: score._asdict() for name, score in scores.items()}


@given(texts, texts, st.booleans())
@settings(max_examples=30)
def test_equals_rouge_score(prediction, reference, stemmer):
    theirs = scorer(stemmer).score(reference, prediction)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenText)
        ours = rouge(prediction, reference, TYPES, stemmer=stemmer, tokenize="rouge")
    assert ours == values_of(theirs)


@given(latin_texts, st.lists(latin_texts, min_size=1, max_size=3), st.booleans())
@settings(max_examples=30)
def test_equals_rouge_score_on_latin_texts(prediction, references, stemmer):
    theirs = scorer(stemmer).score_multi(references, prediction)
    assert rouge(prediction, references, TYPES, stemmer=stemmer) == values_of(theirs)


@settings(max_examples=30)
@given(texts, st.lists(texts, min_size=1, max_size=4))
def test_of_several_references_the_best_counts(prediction, references):
    theirs = scorer(False).score_multi(references, prediction)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenText)
        ours = rouge(prediction, references, TYPES, tokenize="rouge")
    assert ours == values_of(theirs)


@pytest.mark.costly
@pytest.mark.parametrize("stemmer", [False, True])
def test_long_texts_equal_rouge_score(stemmer):
    # Long enough for integers of many digits, with words that repeat and words that do not
    draw = random.Random(5)
    vocabulary = [*WORDS, *(f"word{n}ing" for n in range(150))]
    pairs = [
        tuple(" ".join(draw.choices(vocabulary, k=draw.choice([60, 200, 400]))) for _ in "pr")
        for _ in range(3)
    ]
    pairs += [(text, " ".join(text.split()[::2])) for text, _ in pairs[:2]]
    names = ["rouge1", "rouge2", "rougeL", "rougeL.precision", "rougeLsum.recall"]
    if stemmer:
        names = [f"{name}(stemmer=true)" for name in names]
    columns = score_texts([p for p, _ in pairs], [[r] for _, r in pairs], names)
    theirs = [scorer(stemmer).score(r, p) for p, r in pairs]
    for column in columns:
        name, _, part = column.signature.name.partition(".")
        assert column.values.tolist() == [getattr(t[name], part or "fmeasure") for t in theirs]


@pytest.mark.parametrize(
    ("prediction", "reference", "name", "expected"),
    [
        pytest.param(
            "I really loved reading the Hunger Games",
            "I loved reading the Hunger Games",
            "rouge1",
            (6 / 7, 1.0),
            id="6 of 7 words, 6 of 6",
        ),
        pytest.param(
            "I really loved reading the Hunger Games",
            "I loved reading the Hunger Games",
            "rouge2",
            (4 / 6, 4 / 5),
            id="4 of 6 pairs, 4 of 5",
        ),
        pytest.param("a b c", "c a b", "rougeL", (2 / 3, 2 / 3), id="a b in order"),
        pytest.param("a a a", "a", "rouge1", (1 / 3, 1.0), id="clipped at one"),
        pytest.param("a b\nc d", "c d\na b", "rougeLsum", (1.0, 1.0), id="lines in any order"),
        pytest.param("", "a", "rouge1", (0.0, 0.0), id="empty prediction"),
        pytest.param("a", "", "rougeL", (0.0, 0.0), id="empty reference"),
        pytest.param("東京", "京都", "rouge1", (0.5, 0.5), id="one of two characters"),
        pytest.param("café", "cafe", "rouge1", (0.0, 0.0), id="Latin: caf, as rouge-score"),
        pytest.param("Łódź", "łódź", "rouge1", (1.0, 1.0), id="d alone, as rouge-score"),
        pytest.param("é", "É", "rouge1", (1.0, 1.0), id="rouge-score sees nothing"),
        pytest.param("a b", "a b", "rouge9", (0.0, 0.0), id="shorter than n"),
    ],
)
def test_hand_worked(prediction, reference, name, expected):
    score = rouge(prediction, reference, [name])[name]
    assert (score.precision, score.recall) == expected


def test_json_has_the_names_of_the_values():
    scores = rouge("a b c", "a b", ["rouge1"])

    values = {"precision": 2 / 3, "recall": 1.0, "fmeasure": 0.8}
    assert json.loads(json.dumps(scores)) == {"rouge1": values}
    assert (scores["rouge1"].to_dict(), float(scores["rouge1"])) == (values, 0.8)
    assert pickle.loads(pickle.dumps(scores))["rouge1"].recall == 1.0


def test_each_type_takes_its_own_best_reference():
    scores = rouge("a b c", ["c b a", "x a b"], ["rouge1", "rouge2"])
    assert scores["rouge1"].fmeasure == 1.0
    assert scores["rouge2"].recall == 0.5


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_the_subsequence_is_one_and_is_longest(first, second):
    positions = lcs_positions(first, second)[::-1]
    remaining = iter(second)
    assert all(first[position] in remaining for position in positions), "in order in both"
    table = {(i, -1): 0 for i in range(-1, 12)} | {(-1, j): 0 for j in range(-1, 12)}
    for i, mine in enumerate(first):
        for j, theirs in enumerate(second):
            longer = table[i - 1, j - 1] + 1 if mine == theirs else 0
            table[i, j] = max(longer, table[i - 1, j], table[i, j - 1])
    assert len(positions) == lcs_length(first, second) == table[len(first) - 1, len(second) - 1]


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_of_several_subsequences_it_is_the_one_of_rouge_score(first, second):
    assert lcs_positions(first, second)[::-1] == rouge_scorer.lcs_ind(first, second)


def test_of_equal_references_the_first_counts():
    score = rouge("a b", ["a", "a b c d"], ["rouge1"])["rouge1"]
    assert (score.precision, score.recall) == (0.5, 1.0), "the other has 1 and 0.5: the same F"


def test_only_words_of_more_than_three_letters_are_stemmed():
    assert rouge("its cats", "it cat", ["rouge1"], stemmer=True)["rouge1"].recall == 0.5


def test_bad_arguments_say_what_is_allowed(assert_message):
    with pytest.raises(OptionError) as caught:
        rouge("a", "b", types="rougeL")
    assert_message(caught.value, "rouge: types")
    with pytest.raises(OptionError) as caught:
        rouge("a", "b", ["rouge-1"])
    assert_message(caught.value, "rouge: types")
    with pytest.raises(OptionError) as caught:
        rouge("a", [])
    assert_message(caught.value, "rouge: references")
