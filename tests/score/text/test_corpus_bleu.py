"""BLEU of a corpus against sacrebleu, and what each query moves it by."""

import math

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.comparison.systems import summarize
from ragbench.score.text.bleu import corpus_bleu
from tests.score.text.scoring import score_texts

TEXTS = st.lists(st.sampled_from(["a", "b", "c", "cat", "dog", "."]), max_size=9).map(" ".join)
ROWS = st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=8)
OPTIONS = st.fixed_dictionaries(
    {
        "max_order": st.integers(1, 5),
        "smooth": st.sampled_from(["exp", "floor", "add-k", "none"]),
        "lowercase": st.booleans(),
    }
)


def peer(predictions, references, *, max_order=4, smooth="exp", lowercase=False):
    scorer = sacrebleu.BLEU(max_ngram_order=max_order, smooth_method=smooth, lowercase=lowercase)
    return scorer.corpus_score(
        predictions, [list(references_of) for references_of in zip(*references, strict=True)]
    )


@settings(max_examples=30)
@given(ROWS, OPTIONS)
def test_agrees_with_sacrebleu_to_the_last_bit(rows, options):
    predictions, references = [row[0] for row in rows], [row[1:] for row in rows]
    theirs = peer(predictions, references, **options)
    mine = corpus_bleu(predictions, references, **options)
    assert mine.score == theirs.score / 100
    assert mine.brevity_penalty == theirs.bp
    assert (mine.prediction_length, mine.reference_length) == (theirs.sys_len, theirs.ref_len)

    inside = ",".join(f"{key}={str(value).lower()}" for key, value in options.items())
    (column,) = score_texts(predictions, references, [f"bleu.corpus({inside})"])
    assert column.total == mine.score
    assert math.fsum(column.values) / len(rows) == pytest.approx(mine.score, abs=1e-9)


def test_it_is_not_the_mean_of_the_single_scores():
    predictions = ["a b c d e f g h", "x"]
    references = [["a b c d e f g h"], ["y"]]
    single, corpus = (
        summarize(column)
        for column in score_texts(predictions, references, ["bleu", "bleu.corpus"])
    )
    # 8/9, 7/7, 6/6, 5/5: the second text has no bigram
    assert corpus.mean == pytest.approx((8 / 9) ** 0.25)
    assert single.mean == pytest.approx(0.5)


@pytest.mark.costly
def test_its_interval_covers_what_many_samples_give():
    draw = np.random.default_rng(2)
    words = [f"w{n}" for n in range(30)]
    drawn = draw.choice(words, (1_500, 12))
    gold = [" ".join(row) for row in drawn]
    answers = [" ".join(row) for row in np.where(draw.random(drawn.shape) < 0.8, drawn, "x")]
    truth = corpus_bleu(answers, gold).score
    covered = 0
    for sample in range(50):
        rows = slice(sample * 30, sample * 30 + 30)
        (column,) = score_texts(answers[rows], gold[rows], ["bleu.corpus"])
        low, high = summarize(column).interval
        covered += low <= truth <= high
    # 47.5 expected; fewer than 43 have a probability below 0.5 %, 43 of intervals that are half as
    # wide one of 0.2 %
    assert covered >= 43


def test_nothing_scored_is_no_number():
    (column,) = score_texts([None, "a"], [["a"], []], ["bleu.corpus"])
    summary = summarize(column)
    assert summary.mean is None
    assert summary.n == 0


def test_a_failure_leaves_every_value_possible():
    from dataclasses import replace

    from ragbench.types import Cause

    (column,) = score_texts(["a b", None], [["a b"], ["c"]], ["bleu.corpus"])
    causes = np.where(column.causes == Cause.NO_ANSWER, Cause.TIMEOUT, column.causes)
    assert summarize(column).bounds == (summarize(column).mean,) * 2
    assert summarize(replace(column, causes=causes.astype(np.uint8))).bounds == (0.0, 1.0)
