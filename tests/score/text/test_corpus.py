"""Scores of a corpus against sacrebleu, and the share of each query in them."""

import inspect
import math
from functools import partial

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.comparison.systems import bounds_of, summarize
from ragbench.errors import DataError, OptionError
from ragbench.score.text.bleu import corpus_bleu
from ragbench.score.text.chrf import chrf, corpus_chrf
from ragbench.score.text.ter import corpus_ter
from ragbench.types import Cause
from tests.score.text.scoring import score_texts
from tests.score.text.strategies import texts

pytestmark = pytest.mark.slow  # many made cases

ROWS = st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), min_size=1, max_size=5)
CHRF = st.fixed_dictionaries(
    {},
    optional={
        "char_order": st.sampled_from([1, 6, 10]),
        "word_order": st.integers(0, 2),
        "beta": st.sampled_from([0, 2, 3.5]),
        "lowercase": st.booleans(),
        "whitespace": st.booleans(),
        "eps_smoothing": st.booleans(),
    },
)
TER = st.fixed_dictionaries(
    {}, optional={name: st.booleans() for name in ("normalized", "no_punct", "case_sensitive")}
)


def peer(scorer, rows):
    most = max(len(gold) for _, gold in rows)
    streams = [[gold[i] if i < len(gold) else None for _, gold in rows] for i in range(most)]
    return scorer.corpus_score([text for text, _ in rows], streams).score / 100


def assert_equal(ours, name, rows, options, theirs):
    predictions, references = [text for text, _ in rows], [gold for _, gold in rows]
    assert ours(predictions, references, **options) == theirs
    inside = ",".join(f"{key}={str(value).lower()}" for key, value in options.items())
    (column,) = score_texts(predictions, references, [f"{name}({inside})"])
    assert column.total == theirs
    assert math.fsum(column.values) / len(rows) == pytest.approx(theirs, abs=1e-9)
    assert str(column.signature).startswith(f"{name}|references:")


@given(ROWS, CHRF)
@settings(max_examples=30)
def test_chrf_is_that_of_sacrebleu_to_the_last_bit(rows, options):
    theirs = peer(sacrebleu.CHRF(**options), rows)
    assert_equal(corpus_chrf, "chrf.corpus", rows, options, theirs)


@given(ROWS, TER)
@settings(max_examples=30)
def test_ter_is_that_of_sacrebleu_to_the_last_bit(rows, options):
    theirs = peer(sacrebleu.TER(**options), rows)
    assert_equal(corpus_ter, "ter.corpus", rows, options, theirs)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("chrf.corpus", corpus_chrf),
        ("ter.corpus", corpus_ter),
        # the texts share few bigrams, and no longer n-gram
        ("bleu.corpus(max_order=2)", partial(corpus_bleu, max_order=2)),
    ],
)
def test_the_values_are_the_jackknifes(name, function):
    predictions = ["a b c", "a c", "b b c d", "d a"]
    references = [["a b d"], ["a c"], ["b c d"], ["a d e"]]
    (column,) = score_texts(predictions, references, [name])
    whole = function(predictions, references)
    left_out = [
        function(predictions[:i] + predictions[i + 1 :], references[:i] + references[i + 1 :])
        for i in range(4)
    ]
    moved = 3 * (whole - np.array(left_out))
    np.testing.assert_allclose(column.values, whole + moved - moved.mean(), atol=1e-12)


def test_it_is_not_the_mean_of_the_single_scores():
    predictions, references = ["x", "a b c d"], [["a"], ["a b c d"]]
    single, corpus = (
        summarize(column) for column in score_texts(predictions, references, ["ter", "ter.corpus"])
    )
    assert (single.mean, corpus.mean) == (0.5, 0.2)


def test_a_rate_of_errors_has_no_upper_end():
    predictions, references = ["b c d e f g", "b c d e f", "b c"], [["a"]] * 3
    (column,) = score_texts([*predictions, None], [*references, ["a"]], ["ter.corpus"])
    summary = summarize(column)
    assert summary.mean > 1
    assert summary.interval[1] > summary.mean
    causes = np.where(column.causes == Cause.NO_ANSWER, Cause.TIMEOUT, column.causes)
    from dataclasses import replace

    failed = replace(column, causes=causes.astype(np.uint8))
    assert bounds_of(failed) == (math.inf, 0.0)
    assert summarize(failed).bounds == (None, 0.0)


def test_of_nothing():
    assert corpus_chrf([], []) == corpus_chrf([], [], eps_smoothing=True) == corpus_ter([], []) == 0
    (column,) = score_texts([None], [["a"]], ["chrf.corpus"])
    assert summarize(column).mean is None


@pytest.mark.parametrize("function", [corpus_bleu, corpus_chrf, corpus_ter])
def test_refuses_what_cannot_be_paired(function, assert_message):
    with pytest.raises(DataError) as caught:
        function(["a", "b"], ["a"])
    assert_message(caught.value)
    with pytest.raises(DataError, match="references"):
        function(["a"], [[]])


def test_options_are_those_of_the_metric_of_one_text(assert_message):
    assert [*inspect.signature(corpus_chrf).parameters] == [
        *("predictions", "references"),
        *[*inspect.signature(chrf).parameters][2:],
    ]
    with pytest.raises(OptionError) as caught:
        corpus_chrf(["a"], ["a"], char_order=0)
    assert_message(caught.value, "chrf.corpus: char_order")
