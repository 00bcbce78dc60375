"""Predicted right answers: values worked by hand, and coverage over generators that are known."""

import math

import numpy as np
import pytest

from ragbench.fixes.contract import AnswersByReading
from ragbench.stats import mean_interval

NAN = math.nan
FAR = np.iinfo(np.int64).max  # depth of gold that is not ranked


def answers_of(**changes):
    """Eight questions: bm25 reads the gold of the first four, at ranks 1, 1, 2 and 2."""
    values = {
        "depths": {
            "bm25": np.array([1, 1, 2, 2, FAR, FAR, FAR, FAR]),
            "dense": np.array([1, 1, 1, 3, 2, 5, 6, FAR]),
        },
        "passages": 5,
        "pairs": {"bm25": np.array([1.0, 1, 1, 0, 0, 0, 1, 0])},
        "gold_alone": np.array([1.0, 1, 1, 1, 1, 0, 1, 1]),
        "wrong_passages": np.array([0.0, 0, 0, 0, 0, 0, 1, 0]),
    }
    return AnswersByReading(**values | changes)


def test_rates_are_those_counted_by_hand():
    contract = answers_of().contract("gpt")

    rates = {rate.passages: (rate.right, rate.questions) for rate in contract.rates}
    assert rates == {
        "gold_read": (0.75, 4),
        "gold_first": (1.0, 2),
        "gold_lower": (0.5, 2),
        "gold_not_read": (0.25, 4),
        "gold_alone": (7 / 8, 8),
        "wrong_passages": (1 / 8, 8),
    }
    oracle = mean_interval([1.0, 1, 1, 0])
    assert contract.rates[0].interval == (oracle.lower, oracle.upper)
    assert (contract.generator, contract.passages) == ("gpt", 5)


def test_a_question_of_two_pairs_counts_once_with_its_mean():
    dense = np.array([0.0, 1, 0, 0, 1, 0, 0, NAN])
    contract = answers_of(pairs={**answers_of().pairs, "dense": dense}).contract("gpt")

    # means of the six questions of which any pair reads the gold: .5, 1, .5, 0, 1, 0
    assert (contract.rates[0].right, contract.rates[0].questions) == (0.5, 6)


def test_a_prediction_is_the_control_and_the_mean_difference():
    (dense,) = answers_of().contract("gpt").pairs

    # gold first: 3 from the control, no difference. Gold lower (3 questions): 2 from the control,
    # and 3 x the difference of -1 over two questions and one pseudo-question. Not read: 1 from the
    # control, none of the four differs
    assert dense.predicted == pytest.approx(3 + (2 + 3 * -1 / 3) + 1)
    assert (dense.retriever, dense.questions, dense.right) == ("dense", 8, None)


def test_the_limits_are_those_worked_by_hand():
    """One state: all read by both, so that the noise of the control cancels."""
    depths = {"bm25": np.full(20, 1), "dense": np.full(20, 1)}
    bm25 = np.repeat([1.0, 0.0], [12, 8])
    gold = np.repeat([1.0, 0.0, 1.0], [10, 8, 2])
    answers = AnswersByReading(depths, 5, {"bm25": bm25}, gold, np.zeros(20))

    prediction = answers.predict(depths["dense"])

    # four answers differ, two up, two down: 12 right and no shift; share (12 + .5) / 21; noise
    # (4 / 2 + share (1 - share)) / 21; new answers and mean difference: 2 x 20 x noise
    share = 12.5 / 21
    half = 1.959963984540054 * math.sqrt(40 * (2 + share * (1 - share)) / 21)
    assert prediction == (12.0, math.floor(12 - half), math.ceil(12 + half))
    assert prediction == (12.0, 7, 17)


def test_a_prediction_does_not_use_the_answers_of_its_pair():
    dense = np.array([0.0, 0, 0, 0, 0, 0, 0, 0])
    with_dense = answers_of(pairs={**answers_of().pairs, "dense": dense}).contract("gpt")
    (alone,) = answers_of().contract("gpt").pairs

    predicted = {pair.retriever: pair for pair in with_dense.pairs}
    assert predicted["dense"].predicted == alone.predicted
    assert predicted["dense"].right == 0
    assert predicted["bm25"].right == 4


def test_the_only_pair_of_a_generator_is_not_predicted():
    assert [pair.retriever for pair in answers_of().contract("gpt").pairs] == ["dense"]


@pytest.mark.parametrize("control", ["gold_alone", "wrong_passages"])
def test_nothing_is_predicted_without_a_control(control):
    answers = answers_of(**{control: np.full(8, NAN)})
    contract = answers.contract("gpt")

    assert contract.pairs == ()
    rate = next(rate for rate in contract.rates if rate.passages == control)
    assert (rate.questions, rate.right, rate.interval) == (0, None, None)
    with pytest.raises(ValueError, match="predictions need answers"):
        answers.predict(answers.depths["dense"])


def test_the_gain_of_a_change_is_rescued_times_right_given_gold_read():
    rescued, lost = np.zeros((2, 8), bool)
    rescued[[4, 6]] = lost[[0]] = True
    gain = answers_of().predict_gain("bm25", rescued, lost)

    # gold read: 2 from the control, and 2 x the difference of -1 over four questions and one
    # pseudo-question; gold lost: 0 from wrong passages; now right: one of the rescued, and the lost
    assert gain.mean == pytest.approx((2 - 2 / 5) + 0 - 2)
    assert -4 <= gain.lower <= gain.mean <= gain.upper <= 4


def test_other_passages_turn_answers_to_other_questions_either_way():
    none = np.zeros(8, bool)

    gain = answers_of().predict_gain("bm25", none, none)

    # gold read: one of four differs, share 3.5 / 5; not read: none of four, share 1.5 / 5
    read, not_read = (0.5 + 0.7 * 0.3) / 5, 0.3 * 0.7 / 5
    half = 1.959963984540054 * math.sqrt(2 * 4 * (read + not_read))
    assert gain == (0, math.floor(-half), math.ceil(half)) == (0, -3, 3)


def test_a_failed_answer_of_a_control_counts_as_the_mean():
    gold = np.array([1.0, 1, 1, 1, 1, 0, 1, NAN])
    depths = np.array([FAR] * 7 + [1])
    answers = answers_of(gold_alone=gold)
    first, lower = answers.predict(depths), answers.predict(np.array([FAR] * 7 + [2]))

    # 6 / 7, of which the pairs differ by -1 / 3 where the gold is not first
    assert first.mean - lower.mean == pytest.approx(1 / 3)
    assert first.mean == pytest.approx(1 + 6 / 7)


def right_by_rank(rng, depths, alone):
    return rng.random(len(depths)) < np.where(depths > 5, 0.1, 0.95 * 0.85 ** (depths % FAR - 1.0))


def right_by_number_of_passages(rng, depths, alone):
    return rng.random(len(depths)) < np.where(depths > 5, 0.05, 0.97 if alone else 0.6)


def right_if_read(rng, depths, alone):
    return depths <= 5


@pytest.mark.parametrize("right", [right_by_rank, right_by_number_of_passages, right_if_read])
def test_limits_hold_the_count_of_a_run(right):
    rng, n_inside = np.random.default_rng(8), 0
    for _ in range(100):
        ease = rng.normal(size=120)
        depths = {}
        for name, quality in {"bm25": 0.2, "dense": 0.9}.items():
            score = 2.0 - ease * 0.8 - rng.normal(size=120) - quality
            ranks = np.maximum(np.ceil(score * 2), 1).astype(int)
            depths[name] = np.where(score > 3, FAR, ranks)
        first, none = np.full(120, 1), np.full(120, FAR)
        answers = AnswersByReading(
            depths=depths,
            passages=5,
            pairs={"bm25": right(rng, depths["bm25"], False).astype(float)},
            gold_alone=right(rng, first, True).astype(float),
            wrong_passages=right(rng, none, False).astype(float),
        )
        count = int(right(rng, depths["dense"], False).sum())
        prediction = answers.predict(depths["dense"])
        n_inside += prediction.lower <= count <= prediction.upper

    assert n_inside >= 90
