"""Clipped n-gram matches of many rows at once: those of sacrebleu, and of one row at a time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from ragbench.score.text.ngram_matches import clipped_matches_of_rows
from ragbench.score.text.tokenizers import clipped_matches

# few tokens, so that n-grams repeat within a text and between the rows
token_lists = st.lists(st.sampled_from("abc"), max_size=12)
token_rows = st.tuples(token_lists, st.lists(token_lists, min_size=1, max_size=3))


def matches_of_sacrebleu(row, order):
    prediction, references = row
    bleu = BLEU(tokenize="none", max_ngram_order=order, force=True)
    streams = [[" ".join(reference)] for reference in references]
    return bleu._extract_corpus_statistics([" ".join(prediction)], streams)[0][2 : 2 + order]


@given(st.lists(token_rows, min_size=1, max_size=5), st.integers(1, 6))
@settings(max_examples=50)
def test_matches_equal_sacrebleu_and_those_of_each_row(rows, order):
    matches = clipped_matches_of_rows(rows, order).tolist()

    assert matches == [matches_of_sacrebleu(row, order) for row in rows]
    assert matches == [[clipped_matches(*row, n) for n in range(1, order + 1)] for row in rows]


@pytest.mark.parametrize(
    ("prediction", "references", "matches"),
    [
        pytest.param("a a a", ["a a"], [2, 1, 0], id="at most as often as in the reference"),
        pytest.param("a b", ["a", "b"], [2, 0, 0], id="each from its own reference, ab from none"),
        pytest.param("a b c", ["c a b c"], [3, 2, 1], id="all"),
        pytest.param("a b", ["b a"], [2, 0, 0], id="words in another order"),
        pytest.param("", ["a"], [0, 0, 0], id="empty prediction"),
        pytest.param("", [""], [0, 0, 0], id="empty texts"),
    ],
)
def test_by_hand(prediction, references, matches):
    row = prediction.split(), [reference.split() for reference in references]

    assert clipped_matches_of_rows([row], 3).tolist() == [matches]


def test_texts_of_neighbouring_rows_do_not_match():
    rows = [(["a", "b"], [["c"]]), (["c"], [["a", "b"]])]

    assert clipped_matches_of_rows(rows, 2).tolist() == [[0, 0], [0, 0]]
