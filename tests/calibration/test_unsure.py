"""Sheets drawn where the judge is unsure: probabilities, corrected means, refused sheets."""

import dataclasses

import numpy as np
import pytest

from ragbench.calibration.certificate import Calibration, certify
from ragbench.calibration.draw import draw, draw_again
from ragbench.calibration.labels import Labels
from ragbench.errors import DataError, OptionError
from ragbench.report.calibration import certificate_report
from ragbench.report.formats import render
from tests.calibration.runs import RUBRIC, planted, score_of


def _truth(key):
    system, query = key
    return float(int(query[1:]) % 10 < (9 if system == "a" else 3))


def _run(size=100, shift=0.0):
    """The judge is right and sure of three quarters of the questions, and says .5 elsewhere."""
    return planted(
        {
            (system, f"q{number}"): (
                0.5 + shift if number % 4 == 0 else 0.99 * _truth((system, f"q{number}"))
            )
            for system in "ab"
            for number in range(size)
        },
        against={"b": "a"},
    )


RUN = _run()


def _labels(design):
    labels = {key: 1 + 4 * _truth(key) for key in design.keys}
    cells = {key: design.probability_of(key) for key in design.keys}
    return Labels({"label": labels}, dict.fromkeys(design.keys, design.signature), cells)


def _certify(labels, run=RUN):
    return certify(run, run.scores, {RUBRIC.name: labels}, Calibration())


def test_unsure_answers_are_drawn_more_often_and_none_never():
    design = draw(RUN, score_of(RUN), 60, seed=2, where="unsure")

    shares = {
        (key[0], score_of(RUN).scores[key] == 0.5): chance
        for key, chance in design.probabilities.items()
    }
    assert len(design.keys) == 60
    assert {system for system, _ in design.keys} == {"a", "b"}
    assert shares["a", True] > 2 * shares["a", False] > 0
    assert len({query for _, query in design.keys}) < 45, "most queries have both labels"
    strata = {(key[0], code) for key, code in design.strata.items()}
    for system, stratum in strata:
        items = [key for key, code in design.strata.items() if (key[0], code) == (system, stratum)]
        chances = [design.probabilities[key] for key in items if key in design.probabilities]
        assert set(chances) == {len(chances) / len(items)}


def test_the_draw_is_repeated_from_its_signature():
    design = draw(RUN, score_of(RUN), 60, seed=2, where="unsure", systems=["b", "a"])

    assert draw_again(RUN, score_of(RUN), design.signature) == design
    assert draw(RUN, score_of(RUN), 60, seed=3, where="unsure").keys != design.keys


@pytest.mark.parametrize("scores", [(0.0, 1.0), (0.3, 0.7), (0.05, 0.5, 0.6, 0.7, 0.95)])
def test_answers_are_drawn_alike_if_the_scores_promise_no_gain(scores, assert_message):
    # Always sure, never sure, and sure of two fifths: design effects 1, 1 and, by hand, .91.
    # Of 100 answers 20 have each score; the spreads are .218 (score .05 or .95) and .483 (.5 to
    # .7). 20 labels, by .2 size and .8 size times spread: 20 x .2 x .2 + 20 x .8 x 4.36 / 37.7 =
    # 2.7 for each sure stratum, so 3, and 14. Variance 2 x .04 x .0475 / 3 + .36 x .2333 / 14 =
    # .00727 beside (.4 x .0475 + .6 x .2333) / 20 = .00795.
    judged = {
        (system, f"q{number}"): scores[number % len(scores)]
        for system in "ab"
        for number in range(100)
    }
    run = planted(judged, against={"b": "a"})
    design = draw(run, score_of(run), 40, seed=2, where="unsure")

    assert set(design.strata.values()) == {0}
    assert set(design.probabilities.values()) == {0.2}
    assert len({query for _, query in design.keys}) == 20, "all have both labels"
    text = render(certificate_report(_certify(_labels(design), run)))
    assert_message(text)
    assert "drawn where the judge is unsure" not in text


@pytest.mark.costly
def test_every_answer_is_drawn_with_its_probability():
    run = _run(40)
    designs = [draw(run, score_of(run), 44, seed=seed, where="unsure") for seed in range(80)]

    drawn = np.mean([[key in of.probabilities for key in of.strata] for of in designs], axis=0)
    chances = {(key[0], of.strata[key]): p for of in designs for key, p in of.probabilities.items()}
    expected = [chances[key[0], code] for key, code in designs[0].strata.items()]
    assert np.abs(drawn - expected).max() < 4.5 * (0.25 / 80) ** 0.5
    assert min(expected) > 0


def test_means_difference_and_order_come_corrected():
    rubric = _certify(_labels(draw(RUN, score_of(RUN), 80, seed=2, where="unsure"))).rubrics[
        RUBRIC.name
    ]

    low, high = rubric.corrected["a"].interval
    assert low <= 0.9 <= high
    difference = rubric.corrected_differences["b"]
    assert difference.interval[0] <= -0.6 <= difference.interval[1] < 0
    [pair] = rubric.corrected_order
    assert (pair.system, pair.against, pair.differs) == ("a", "b", True)
    assert pair.mean == pytest.approx(-difference.mean)


def test_the_text_says_the_order(assert_message):
    text = render(
        certificate_report(_certify(_labels(draw(RUN, score_of(RUN), 80, seed=2, where="unsure"))))
    )

    assert_message(text)


def _without_one(labels):
    del labels.by_rater["label"][next(iter(labels.draws))]


def _edited(labels):
    labels.probabilities[next(iter(labels.draws))] = 0.9


def _removed(labels):
    labels.probabilities.clear()


def _mixed(labels):
    labels.draws[next(iter(labels.draws))] = ""


@pytest.mark.parametrize(
    "change",
    [
        _without_one,
        _edited,
        _removed,
        _mixed,
    ],
)
def test_a_changed_sheet_is_refused(change, assert_message):
    labels = _labels(draw(RUN, score_of(RUN), 60, seed=2, where="unsure"))
    change(labels)

    with pytest.raises(DataError) as caught:
        _certify(labels)
    assert_message(caught.value)


def test_a_sheet_of_another_run_is_refused(assert_message):
    labels = _labels(draw(RUN, score_of(RUN), 60, seed=2, where="unsure"))

    with pytest.raises(DataError) as caught:
        _certify(labels, dataclasses.replace(_run(shift=0.45), name="other"))
    assert_message(caught.value)


def test_each_system_needs_twenty_answers(assert_message):
    with pytest.raises(OptionError) as caught:
        draw(RUN, score_of(RUN), 39, seed=1, where="unsure")
    assert_message(caught.value)


def test_a_draw_of_more_than_all_draws_all():
    design = draw(RUN, score_of(RUN), 201, seed=1, where="unsure")

    assert len(set(design.keys)) == len(design.keys) == len(design.strata) == 200
    assert set(design.probabilities.values()) == {1.0}


def test_a_run_of_few_questions_has_no_unsure_draw(assert_message):
    few = planted({(system, f"q{n}"): 0.5 for system in "ab" for n in range(19)})

    with pytest.raises(DataError) as caught:
        draw(few, score_of(few), 40, seed=1, where="unsure")
    assert_message(caught.value)
