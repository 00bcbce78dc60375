"""Shares of questions, app and judge in the variance of a mean, from scores of repeated runs."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ragbench.errors import OptionError
from ragbench.stats import NoisePart, next_purchases, noise_parts, pass_all, pass_any

LEVELS = ["app", "judge"]
SCORES = st.integers(0, 4).map(lambda quarter: quarter / 4)


def textbook_variances(scores):
    """Return the variances of balanced nested data by the expected mean squares of the textbooks.

    Searle, Casella and McCulloch (1992), section 3.5: `scores` has questions, runs, judgements.
    """
    n, r, m = scores.shape
    runs, questions = scores.mean(axis=2), scores.mean(axis=(1, 2))
    judge_square = ((scores - runs[:, :, None]) ** 2).sum() / (n * r * (m - 1))
    app_square = m * ((runs - questions[:, None]) ** 2).sum() / (n * (r - 1))
    question_square = r * m * ((questions - questions.mean()) ** 2).sum() / (n - 1)
    app, question = (app_square - judge_square) / m, (question_square - app_square) / (r * m)
    return question, app, judge_square


@given(
    arrays(
        float, st.tuples(st.integers(2, 8), st.integers(2, 4), st.integers(2, 3)), elements=SCORES
    )
)
def test_balanced_parts_are_those_of_the_textbook(scores):
    n, r, m = scores.shape
    question, app, judge = textbook_variances(scores)

    parts = noise_parts(scores, LEVELS)

    assert parts["judge"].variance == pytest.approx(judge / (n * r * m), abs=1e-12)
    if app >= 0:  # a negative estimate is set to 0, and changes the level above
        assert parts["app"].variance == pytest.approx(app / (n * r), abs=1e-12)
        assert parts["questions"].variance == pytest.approx(max(question, 0) / n, abs=1e-12)


def test_parts_worked_by_hand():
    # means 1, 0, .5, .5 have variance .5/3; the runs have .25, a half of which is in each mean
    parts = noise_parts([[1, 1], [0, 0], [1, 0], [0, 1]], ["app"])

    assert parts["app"].variance == pytest.approx(0.25 / 2 / 4)
    assert parts["questions"].variance == pytest.approx((0.5 / 3 - 0.25 / 2) / 4)


def test_absent_scores_weigh_what_is_there():
    # a question with one run has no app variance; its mean has all of it, 1 / 1
    parts = noise_parts([[1, 0], [0, math.nan]], ["app"])

    # the variance of a run is .5 from the first question; means have .5 / 2 and .5 / 1 of it
    assert parts["app"].variance == pytest.approx((0.25 + 0.5) / 2 / 2)
    assert parts["questions"].variance == 0  # .125 between the means is less than .375


def test_a_level_without_repeats_has_no_part():
    scores = [[[1], [0]], [[1], [1]], [[0], [0]]]

    assert [*noise_parts(scores, LEVELS)] == ["questions", "app"]
    assert noise_parts(scores, LEVELS)["app"] == noise_parts(np.squeeze(scores, 2), ["app"])["app"]
    assert noise_parts([[[1, 0]]], LEVELS) == {}
    assert noise_parts(np.full((4, 2, 2), np.nan), LEVELS) == {}
    assert noise_parts(np.zeros((0, 2, 2)), LEVELS) == {}


@given(arrays(float, (5, 3, 2), elements=SCORES), st.randoms())
def test_parts_are_the_same_in_any_order_and_unit(scores, chance):
    order = [chance.sample(range(n), n) for n in scores.shape]
    shuffled = scores[np.ix_(*order)]

    parts, shuffled_parts = noise_parts(scores, LEVELS), noise_parts(shuffled * 2 + 1, LEVELS)

    for name, part in parts.items():
        assert shuffled_parts[name].variance == pytest.approx(4 * part.variance, abs=1e-12)
        assert shuffled_parts[name].share == pytest.approx(part.share, abs=1e-9)
        assert 0 <= part.low <= part.high <= 1


def test_a_difference_has_the_noise_of_both_systems():
    rng = np.random.default_rng(5)
    hard = rng.random((60, 1, 1))
    first = (rng.random((60, 3, 2)) < hard).astype(float)
    second = (rng.random((60, 4, 2)) < hard).astype(float)

    alone = [noise_parts(scores, LEVELS) for scores in (first, second)]
    both = noise_parts(first, LEVELS, against=second)

    for level in LEVELS:
        expected = alone[0][level].variance + alone[1][level].variance
        assert both[level].variance == pytest.approx(expected)
    # the questions are equally hard for both: they do not add to the difference
    assert both["questions"].share < 0.2 < alone[0]["questions"].share


def world(chance):
    """Return binary scores of a simulated app and judge, and the true shares of the levels."""
    n, runs, judgements = chance.choice([80, 150]), chance.integers(2, 6), chance.choice([2, 3])
    concentration, error = chance.choice([0.4, 1.0, 4.0]), chance.choice([0.0, 0.05, 0.15])
    a, b = 1.2 * concentration, 0.8 * concentration

    answers = chance.random((n, runs, 1)) < chance.beta(a, b, size=n)[:, None, None]
    scores = answers ^ (chance.random((n, runs, judgements)) < error)
    spread = a * b / ((a + b) * (a + b + 1))  # mean of p (1 - p); the variance of p is / (a + b)
    truth = np.array(
        [
            (1 - 2 * error) ** 2 * spread / (a + b) / n,
            (1 - 2 * error) ** 2 * spread / (n * runs),
            error * (1 - error) / (n * runs * judgements),
        ]
    )
    return scores.astype(float), truth / truth.sum()


def test_shares_of_simulated_worlds():
    """In 500 worlds the errors average to -.012, .012 and -.001, and 94 % of intervals hold."""
    chance = np.random.default_rng(11)
    errors, is_held = [], []
    for _ in range(60):
        scores, truth = world(chance)
        parts = noise_parts(scores, LEVELS).values()
        errors.append([part.share - share for part, share in zip(parts, truth, strict=True)])
        is_held += [p.low <= share <= p.high for p, share in zip(parts, truth, strict=True)]

    assert np.abs(np.mean(errors, axis=0)).max() < 0.03
    assert 0.89 < np.mean(is_held) < 0.99


def test_an_equal_sum_buys_most_where_most_varies():
    parts = {
        "questions": NoisePart(0.001, 0.1, 0, 1),
        "app": NoisePart(0.008, 0.8, 0, 1),
        "judge": NoisePart(0.001, 0.1, 0, 1),
    }

    # an answer costs 9, a judgement 1; one run of each: 10 a question
    ways = next_purchases(parts, {"app": 9, "judge": 1}, {"app": 1, "judge": 1})

    assert [way.level for way in ways] == ["questions", "app", "judge"]
    assert [way.factor for way in ways] == [2, 2, 11]
    expected = [0.01 / 2, 0.001 + 0.009 / 2, 0.009 + 0.001 / 11]
    assert [way.standard_error**2 for way in ways] == pytest.approx(expected)


@pytest.mark.parametrize("repeats", [1, 2, 5])
def test_pass_rates_count_all_draws(repeats):
    for passes in range(repeats + 1):
        results = [True] * passes + [False] * (repeats - passes)
        for k in range(1, repeats + 1):
            draws = [*itertools.combinations(results, k)]
            assert pass_all(passes, repeats, k) == pytest.approx(np.mean([*map(all, draws)]))
            assert pass_any(passes, repeats, k) == pytest.approx(np.mean([*map(any, draws)]))


@pytest.mark.parametrize("k", [0, 4])
def test_more_draws_than_repeats_are_refused(k):
    with pytest.raises(OptionError):
        pass_all(1, 3, k)
    with pytest.raises(OptionError):
        pass_any(1, 3, k)


@pytest.mark.parametrize("scores", [[1.0, 2.0], [[math.inf, 0.0]], [[[1.0]]]])
def test_tables_that_do_not_fit_are_refused(scores):
    with pytest.raises(OptionError):
        noise_parts(scores, ["app"])


def test_two_systems_have_the_same_questions():
    with pytest.raises(OptionError):
        noise_parts([[1, 0], [1, 1]], ["app"], against=[[1, 0]])
