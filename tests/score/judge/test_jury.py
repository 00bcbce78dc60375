"""Several samples and several models: hand-worked, and what holds for any of them."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.score.judge.judge import Judge
from ragbench.score.judge.model_judge import combine_verdicts, majority
from ragbench.score.judge.rubric import load_rubric
from ragbench.types import Verdict
from tests.score.judge.scripted import Script

ROW = {"question": "When did it open?", "answer": "It opened in 1932."}
RUBRIC = load_rubric("answer_relevancy")
SAMPLES = ["sample 1", "sample 2", "sample 3"]
FAILED = Verdict(None, reasoning="not JSON", status="failed", cause="unreadable")
LEVELS = st.lists(st.integers(1, 5), min_size=2, max_size=7)


def rated(*levels):
    return [Verdict(RUBRIC.score_of(level), level=level) for level in levels]


@pytest.mark.parametrize(
    ("combine", "levels", "level"),
    [
        pytest.param("mean", [1, 2, 5], 8 / 3, id="(1 + 2 + 5) / 3"),
        pytest.param("median", [1, 2, 5], 2, id="the middle one"),
        pytest.param("median", [1, 2, 4, 5], 3, id="(2 + 4) / 2"),
        pytest.param("majority", [5, 1, 5], 5, id="two of three"),
        pytest.param("majority", [5, 1, 3], 3, id="no majority: (5 + 1 + 3) / 3"),
        pytest.param("majority", [4.8, 5.2, 1], 5, id="weighted: to the nearest level"),
    ],
)
def test_models_become_one(combine, levels, level):
    models = [f"m{n}" for n in range(len(levels))]

    verdict = combine_verdicts(rated(*levels), models, RUBRIC, combine)

    assert verdict.level == pytest.approx(level)
    assert verdict.score == pytest.approx((level - 1) / 4)
    assert verdict.spread == pytest.approx(statistics.stdev((x - 1) / 4 for x in levels))
    assert len(verdict.samples) == len(levels)


def test_scores_without_levels_are_combined_as_they_are():
    verdicts = [Verdict(0.25), Verdict(0.25), Verdict(1.0)]

    for combine, score in (("mean", 0.5), ("median", 0.25), ("majority", 0.25)):
        assert combine_verdicts(verdicts, "abc", RUBRIC, combine).score == score


def test_a_sample_that_fails_is_left_out_and_said(assert_message):
    verdict = combine_verdicts([*rated(5, 3), FAILED], SAMPLES, RUBRIC, may_fail=True)

    assert (verdict.score, verdict.samples) == (0.75, (1.0, 0.5, None))
    assert_message(verdict.reasoning)


def test_a_juror_that_fails_fails_the_item():
    # Otherwise different juries would judge the items
    verdict = combine_verdicts([*rated(5, 3), FAILED], ["a", "b", "c"], RUBRIC, "mean")

    assert (verdict.score, verdict.status, verdict.cause) == (None, "failed", "unreadable")
    assert verdict.samples == (1.0, 0.5, None)


def test_all_samples_fail():
    verdict = combine_verdicts([FAILED, FAILED], SAMPLES[:2], RUBRIC, may_fail=True)

    assert (verdict.score, verdict.cause, verdict.spread) == (None, "unreadable", None)


@pytest.mark.costly
@given(LEVELS, st.sampled_from(["mean", "median", "majority"]), st.randoms())
def test_the_order_of_jurors_does_not_matter_and_one_voice_is_kept(levels, combine, random):
    shuffled = random.sample(levels, len(levels))
    models = [str(n) for n in range(len(levels))]

    one, other = (combine_verdicts(rated(*x), models, RUBRIC, combine) for x in (levels, shuffled))
    same = combine_verdicts(rated(*[levels[0]] * len(levels)), models, RUBRIC, combine)

    assert one.level == pytest.approx(other.level)
    assert min(levels) <= one.level <= max(levels)
    assert (same.level, same.spread) == (levels[0], 0.0)


@given(LEVELS)
def test_the_majority_is_the_mode(levels):
    modes = statistics.multimode(levels)
    assert majority(levels) == pytest.approx(statistics.fmean(modes))


def test_samples_are_asked_apart(judge_on):
    # Levels 2, 4, 5: mean 11/3
    levels = iter([2, 4, 5])
    script = Script(level=lambda text: next(levels))
    server, judge = judge_on(
        script, rubrics=["answer_relevancy"], repeat=3, temperature=1, seed=7, concurrency=1
    )

    verdict = judge.score(**ROW)["answer_relevancy"]

    assert verdict.level == pytest.approx(11 / 3)
    assert sorted(verdict.samples) == [0.25, 0.75, 1.0]
    assert sorted(received.body["seed"] for received in server.received) == [7, 8, 9]


def test_a_jury_of_two_models(judge_on, assert_message):
    strict, kind = Script(level=2), Script(level=4)

    def script(body, times_asked):
        return (strict if body["model"] == "strict" else kind)(body, times_asked)

    server, judge = judge_on(
        script, model=None, models=["strict", "kind"], rubrics=["answer_relevancy"]
    )

    verdict = judge.score(**ROW)["answer_relevancy"]

    assert (verdict.score, verdict.samples, verdict.model) == (0.5, (0.25, 0.75), "kind+strict")
    assert verdict.spread == pytest.approx(statistics.stdev([0.25, 0.75]))
    assert_message(verdict.reasoning)
    assert server.counters.requests == 2


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({}, "openai: model"),
        ({"model": "a", "models": ["b"]}, "openai: models"),  # one model and several
        ({"models": ["a", "a"]}, "openai: models"),  # the same juror twice
        ({"models": []}, "openai: models"),  # a jury of nobody
        ({"model": ""}, "openai: models"),
        ({"model": "a", "combine": "sum"}, "openai: combine"),
        ({"model": "a", "repeat": 0}, "openai: repeat"),
    ],
)
def test_mistakes_in_the_bench(options, place, assert_message):
    with pytest.raises(OptionError) as caught:
        Judge(**options)
    assert_message(caught.value, place)
