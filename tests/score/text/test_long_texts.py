"""A model that loops writes tabs, lines or words without end: no metric waits for it."""

import numpy as np
import pytest

from ragbench.score.text.base import TextTooLong
from ragbench.score.text.columns import TextScorer
from ragbench.score.text.rouge import MOST_LSUM_CELLS, rouge
from ragbench.score.text.ter import MOST_CELLS, corpus_ter, ter
from ragbench.types import Cause

LINES = [f"a b{n}" for n in range(3_000)]
LONG = "\n".join(LINES)  # 6,000 words; the product with 1,000 is above both limits
GOLD = "\n".join(f"a c{n}" for n in range(500))


@pytest.mark.parametrize("metric", ["ter", "ter.corpus", "rougeLsum", "rougeLsum.recall"])
def test_the_item_that_is_too_long_is_named(metric):
    (column,) = TextScorer([metric]).score(["a b", LONG, "a c"], [["a b"], [GOLD], ["a c"]])

    assert np.isnan(column.values).tolist() == [False, True, False]
    assert [*column.causes] == [Cause.SCORED, Cause.ERROR, Cause.SCORED]
    most = MOST_CELLS if "ter" in metric else MOST_LSUM_CELLS
    name = "ter" if "ter" in metric else "rougeLsum"
    assert column.details == {
        1: f"{name}: 6,000 words x 1,000 words of references; "
        f"allowed: a product of at most {most:,}"
    }


def test_other_types_of_rouge_have_their_values():
    columns = TextScorer(["rouge1", "rougeLsum", "rougeL"]).score([LONG], [[GOLD]])

    assert [np.isnan(column.values[0]) for column in columns] == [False, True, False]
    assert columns[0].values[0] == pytest.approx(2 * 500 / 7_000)  # 500 times `a`


def test_the_corpus_is_scored_without_it():
    (column,) = TextScorer(["ter.corpus"]).score(["a x", LONG, "c d"], [["a b"], [GOLD], ["c d"]])

    assert column.total == corpus_ter(["a x", "c d"], ["a b", "c d"]) == 1 / 4


@pytest.mark.parametrize(
    "call", [lambda: ter(LONG, GOLD), lambda: corpus_ter([LONG], [GOLD]),
             lambda: rouge(LONG, GOLD, ["rougeLsum"])],
)  # fmt: skip
def test_a_call_raises(call, assert_message):
    with pytest.raises(TextTooLong) as caught:
        call()
    assert_message(caught.value)


def test_a_repeated_line_counts_once():
    # A loop of two lines has 4 different words x 1,000 words of the reference
    looped = "a c1\nq r\n" * 20_000

    once = rouge("a c1\nq r", GOLD, ["rougeLsum"])["rougeLsum"]
    score = rouge(looped, GOLD, ["rougeLsum"])["rougeLsum"]

    # each line of the reference shares its `a`, which the short text has once
    assert (once.recall, score.recall) == (2 / 1_000, 501 / 1_000)


@pytest.mark.parametrize("piece", ["\t", "\n", "a ", "a\n", "the cat\t", ". ", "[1] ", "<b>"])
@pytest.mark.parametrize(
    "metric",
    ["token_f1", "exact_match", "contains", "numeric_match", "rouge2", "rougeLsum", "bleu", "chrf",
     "ter"],
)  # fmt: skip
def test_looped_texts_have_a_value_or_a_reason(metric, piece):
    gold = "the cat sat on the mat in 1932"

    (column,) = TextScorer([metric]).score([piece * 5_000], [[gold]])

    assert np.isfinite(column.values[0]) or 0 in column.details
