"""The position probe: shift, interval, flips, and answers that are left out."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.calibration.label_scale import LabelScale
from ragbench.calibration.probes import (
    probe_position,
    reverse_passages,
    sample_answers,
    why_not,
)
from ragbench.score.judge.base import JudgedItem, RubricJudge
from ragbench.score.judge.judge import make_judge
from ragbench.score.judge.rubric import built_in_rubrics, load_rubric
from ragbench.types.conversation import Turn
from ragbench.types.scores import Verdict
from tests.calibration.runs import planted, score_of
from tests.lazy import Lazy

scipy = Lazy("scipy.stats")

FLUENCY, FAITHFUL = load_rubric("fluency"), load_rubric("faithfulness")
RATED = load_rubric({"name": "rated", "needs": ["contexts", "answer"], "scale": {1: "a", 5: "b"}})
ITEM = JudgedItem(
    "When?", "It opened in 1932.", ["It opened in 1932.", "Red."], queries=["opening"]
)


class Impressed(RubricJudge):
    """Gives half, a quarter less where a red passage is first; fails there on the answer `boom`."""

    label, model, served, options = "impressed", "impressed/1", None, {}

    def __init__(self):
        self.seen = []

    def judge(self, item, rubric):
        self.seen.append(item)
        red = (item.contexts or [""])[0] == "Red."
        if item.answer == "boom" and red:
            raise RuntimeError("no mood")
        return Verdict(0.5 - 0.25 * red)


def _items(n=12, **changes):
    return {("one", f"q{i}"): dataclasses.replace(ITEM, **changes) for i in range(n)}


def test_the_shift_is_that_of_the_order(assert_message):
    shifts = probe_position(Impressed(), [FLUENCY, FAITHFUL], _items(100))

    assert (shifts["faithfulness"].value, shifts["faithfulness"].finding) == (-0.25, "scores fall")
    assert_message(shifts["fluency"].reason)


def test_the_interval_is_students_after_one_query_at_each_end():
    # Twelve shifts of -0.25, one of -1, one of 1: never of zero width
    entry = probe_position(Impressed(), [FAITHFUL], _items())["faithfulness"]

    expected = scipy.ttest_1samp([-0.25] * 12 + [-1, 1], 0).confidence_interval(0.95)
    assert entry.interval == pytest.approx([min(expected.low, -0.25), expected.high])


def test_answers_to_one_query_count_as_one():
    items = {("one", "q0"): ITEM, ("two", "q0"): ITEM, ("one", "q1"): ITEM}

    entry = probe_position(Impressed(), [FAITHFUL], items)["faithfulness"]

    assert (entry.n, entry.queries) == (3, 2)


def test_levels_that_flip_are_counted_on_the_scale():
    # 0.5 to 0.25: from level 3 to 2 of five, but twice level 1 of 0, 1 and 2
    for scale, expected in ((None, 1.0), (LabelScale(0, 2), 0.0)):
        flips = probe_position(Impressed(), [RATED], _items(), scale=scale)
        assert flips["rated"].flip_rate == expected
        assert flips["rated"].mean_difference == 0.25


def test_the_limits_of_a_flip_rate_are_those_of_flips_and_absent_if_all_flip():
    # Of 20 answers, the five about a dull thing keep their level: 15 of 20 flip
    same = dataclasses.replace(ITEM, contexts=["It is red.", "It is red, too."])
    items = _items(15) | {("one", f"s{i}"): same for i in range(5)}

    options = {"scale": LabelScale(1, 5)}  # 0.5 to 0.25: from level 3 to 2
    some = probe_position(Impressed(), [FAITHFUL], items, **options)["faithfulness"]
    every = probe_position(Impressed(), [FAITHFUL], _items(15), **options)["faithfulness"]

    assert some.flip_rate == 0.75
    assert 0.4 < some.flip_interval[0] < 0.75 < some.flip_interval[1] <= 1
    assert (every.flip_rate, every.flip_interval) == (1, None)


def test_a_judgement_that_fails_is_counted_and_left_out():
    items = _items(5) | {("one", "q9"): dataclasses.replace(ITEM, answer="boom")}

    entry = probe_position(Impressed(), [FAITHFUL], items)["faithfulness"]

    assert (entry.n, entry.unscored, entry.value) == (5, {"error": 1}, -0.25)


def test_without_a_verdict_both_ways_there_is_a_reason(assert_message):
    probe = probe_position(Impressed(), [FAITHFUL], _items(3, answer="boom"))["faithfulness"]
    assert_message(probe.reason)
    probe = probe_position(Impressed(), [FAITHFUL], _items(3, contexts=["one"]))["faithfulness"]
    assert "(nothing to change)" in probe.reason


def test_an_answer_that_cites_by_number_keeps_its_order():
    assert reverse_passages(dataclasses.replace(ITEM, answer="In 1932 [2].")) is None


@pytest.mark.costly
def test_every_rubric_is_probed_or_says_why_not():
    for name in built_in_rubrics():
        rubric = load_rubric(name)
        item = dataclasses.replace(
            ITEM, references=["1932"], guidelines=["Be kind."], other="1931.",
            turns=(Turn("user", "Say it briefly."),),
        )  # fmt: skip

        entry = probe_position(Impressed(), [rubric], {("one", "q"): item})[name]

        if entry.status == "measured":
            assert why_not(rubric) is None, name
        else:
            assert entry.reason == why_not(rubric), name


def test_rubrics_are_asked_of_the_same_items_in_both_orders():
    judge = Impressed()
    probe_position(judge, [FAITHFUL, RATED, FLUENCY], _items(4))

    assert len(judge.seen) == 2 * (4 + 4), "two rubrics that read passages, in both orders"
    assert ITEM.answer == "It opened in 1932.", "the caller's items stay as they are"


def test_a_count_of_words_is_not_moved_by_the_order_of_passages():
    judge = make_judge("python:tests.words:Words", {})
    items = {
        ("one", f"q{i}"): JudgedItem(
            "When?", "It opened in 1932.", [f"Red {i}.", "It opened in 1932."]
        )
        for i in range(20)
    }

    entry = probe_position(judge, [load_rubric("faithfulness")], items)["faithfulness"]

    assert (entry.value, entry.flip_rate) == (0, 0)
    assert entry.finding == "no shift shown"
    assert entry.interval[0] < 0 < entry.interval[1]


@given(st.integers(1, 40), st.integers(0, 5))
def test_a_sample_is_drawn_alike_from_equal_seeds(n, seed):
    run = planted({("one", f"q{i}"): 0.5 for i in range(30)})

    keys = sample_answers([score_of(run)], n, seed)

    assert keys == sample_answers([score_of(run)], n, seed)
    assert len(set(keys)) == len(keys) == min(n, 30)
    assert set(keys) <= set(score_of(run).scores)


def test_a_sample_favours_no_answer():
    run = planted({("one", f"q{i}"): 0.5 for i in range(10)})
    counts = dict.fromkeys(score_of(run).scores, 0)
    for seed in range(400):
        for key in sample_answers([score_of(run)], 5, seed):
            counts[key] += 1

    assert np.all(np.abs(np.array(list(counts.values())) - 200) < 50), "5 sd of a fair draw"
