"""Judges asked again: what is changed, what comes out, and what is left out."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from ragbench.calibration.probes import (
    AUTHORITY,
    ORDER,
    ask_again,
    change,
    sample_answers,
    why_not,
)
from ragbench.calibration.sheet import Scale
from ragbench.score.judge.base import Item
from ragbench.score.judge.judge import make_judge
from ragbench.score.judge.rubric import built_in_rubrics, load_rubric
from ragbench.types.conversation import Turn
from ragbench.types.scores import Verdict
from tests.calibration.runs import planted, score_of

PROBES = ("position", "authority", "injection")
FLUENCY, FAITHFUL = load_rubric("fluency"), load_rubric("faithfulness")
CONTEXT, QUERIES = load_rubric("context_relevancy"), load_rubric("query_detail")
ITEM = Item("When?", "It opened in 1932.", ["It opened in 1932.", "Red."], queries=["opening"])


class Gullible:
    """Gives half; more to experts, all to whoever orders it; less where a red passage is first."""

    label, model, served, options = "gullible", "gullible/1", None, {}

    def __init__(self):
        self.seen = []

    def judge(self, item, rubric):
        self.seen.append(item)
        text = " ".join([item.answer or "", *(item.contexts or []), *(item.queries or [])])
        if "boom" in text and ORDER in text:
            raise RuntimeError("no mood")
        score = 0.5 + 0.25 * (AUTHORITY in text) + 0.5 * (ORDER in text)
        return Verdict(score - 0.25 * ((item.contexts or [""])[0] == "Red."))


def _items(n=12, **changes):
    return {("one", f"q{i}"): dataclasses.replace(ITEM, **changes) for i in range(n)}


def test_each_change_is_seen_as_the_shift_that_it_makes():
    found = ask_again(Gullible(), [FLUENCY, FAITHFUL], _items(100), PROBES)

    values = {probe: found["faithfulness"][probe].value for probe in PROBES}
    assert values == {"position": -0.25, "authority": 0.25, "injection": 0.5}
    assert [found["faithfulness"][probe].finding for probe in PROBES] == [
        "scores fall",
        "scores rise",
        "scores rise",
    ]
    assert found["fluency"]["injection"].value == 0.5
    assert found["fluency"]["position"].reason == (
        "fluency does not look at passages: there is no order"
    )


def test_the_interval_is_students_after_one_query_at_each_end():
    """Twelve shifts of 0.25, one of -1, one of 1: never of zero width."""
    entry = ask_again(Gullible(), [FLUENCY], _items(), ["authority"])["fluency"]["authority"]

    expected = ttest_1samp([0.25] * 12 + [-1, 1], 0).confidence_interval(0.95)
    assert entry.interval == pytest.approx([expected.low, max(expected.high, 0.25)])


def test_answers_to_one_query_count_as_one():
    items = {("one", "q0"): ITEM, ("two", "q0"): ITEM, ("one", "q1"): ITEM}

    entry = ask_again(Gullible(), [FLUENCY], items, ["injection"])["fluency"]["injection"]

    assert (entry.n, entry.queries) == (3, 2)


def test_levels_that_flip_are_counted_on_the_scale():
    """0.5 to 0.75: from level 3 to 4 of five, but not from the upper half of two."""
    for scale, expected in ((None, 1.0), (Scale(0, 1), 0.0)):
        found = ask_again(Gullible(), [FLUENCY], _items(), ["authority"], scale=scale)
        assert found["fluency"]["authority"].flip_rate == expected
        assert found["fluency"]["authority"].mean_difference == 0.25


def test_a_judgement_that_fails_is_counted_and_left_out():
    items = _items(5) | {("one", "q9"): dataclasses.replace(ITEM, answer="boom")}

    entry = ask_again(Gullible(), [FLUENCY], items, ["injection"])["fluency"]["injection"]

    assert (entry.n, entry.unscored, entry.value) == (5, {"error": 1}, 0.5)


def test_without_a_verdict_both_ways_there_is_a_reason():
    found = ask_again(Gullible(), [FLUENCY, FAITHFUL], _items(3, answer="boom"), PROBES)
    assert found["fluency"]["injection"].reason == ("no answer has a verdict both ways (3 error)")
    found = ask_again(Gullible(), [FAITHFUL], _items(3, contexts=["one"]), ["position"])
    assert "(nothing to change)" in found["faithfulness"]["position"].reason


@pytest.mark.parametrize(
    ("rubric", "field"),
    [(FLUENCY, "answer"), (CONTEXT, "contexts"), (QUERIES, "queries")],
    ids=lambda value: getattr(value, "name", value),
)
@pytest.mark.parametrize("probe", ["authority", "injection"])
def test_what_the_rubric_judges_is_changed_and_nothing_else(rubric, field, probe):
    new = change(ITEM, rubric, probe)

    differing = [
        f.name for f in dataclasses.fields(Item) if getattr(new, f.name) != getattr(ITEM, f.name)
    ]
    assert differing == [field]
    now, before = (getattr(each, field) for each in (new, ITEM))
    both = [(now, before)] if field == "answer" else zip(now, before, strict=True)
    for text, old in both:
        assert text in (f"{AUTHORITY}{old}", f"{old} {ORDER}")


def test_an_answer_that_cites_by_number_keeps_its_order():
    assert change(dataclasses.replace(ITEM, answer="In 1932 [2]."), FAITHFUL, "position") is None
    assert change(dataclasses.replace(ITEM, answer=" "), FLUENCY, "injection") is None


@pytest.mark.costly
@pytest.mark.parametrize("name", built_in_rubrics())
@pytest.mark.parametrize("probe", PROBES)
def test_every_rubric_is_probed_or_says_why_not(name, probe):
    rubric = load_rubric(name)
    item = dataclasses.replace(
        ITEM, references=["1932"], guidelines=["Be kind."], other="1931.",
        turns=(Turn("user", "Say it briefly."),),
    )  # fmt: skip

    entry = ask_again(Gullible(), [rubric], {("one", "q"): item}, [probe])[name][probe]

    if entry.status == "measured":
        assert why_not(rubric, probe) is None
    else:
        assert entry.reason == why_not(rubric, probe)


def test_rubrics_of_a_kind_are_asked_of_the_same_changed_items():
    judge = Gullible()
    ask_again(judge, [FLUENCY, load_rubric("readability")], _items(4), ["authority"])

    assert len(judge.seen) == 2 * (4 + 4), "two rubrics, as it was and changed"
    assert ITEM.answer == "It opened in 1932.", "the caller's items stay as they are"


def test_the_lexical_judge_is_not_moved_by_the_order_of_passages():
    judge = make_judge("lexical", {})
    items = {
        ("one", f"q{i}"): Item("When?", "It opened in 1932.", [f"Red {i}.", "It opened in 1932."])
        for i in range(20)
    }

    [found] = ask_again(judge, [load_rubric("context_overlap")], items, ["position"]).values()
    entry = found["position"]

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
