"""The draw: equal chances, fair shares, blind and repeatable."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.calibration.draw import draw, draw_again
from ragbench.calibration.sheet import item_id
from ragbench.errors import DataError, OptionError
from tests.calibration.runs import planted, score_of

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

SIZES = {"a": 30, "b": 50, "c": 20}


def _run():
    rng = np.random.default_rng(0)
    scores = {
        (system, f"q{number}"): float(
            rng.choice([0, 0.25, 0.5, 0.75, 1.0], p=[0.1, 0.1, 0.2, 0.2, 0.4])
        )
        for system, size in SIZES.items()
        for number in range(size)
    }
    return planted(scores)


RUN = _run()


def test_every_answer_has_the_same_chance():
    # 400 draws of 20 of 100: standard error of a share 2 points
    counts = Counter(
        key for seed in range(400) for key in draw(RUN, score_of(RUN), 20, seed=seed).keys
    )

    shares = np.array([counts[key] for key in score_of(RUN).scores]) / 400
    assert draw(RUN, score_of(RUN), 20, seed=0).probability == 0.2
    assert np.abs(shares - 0.2).max() < 4.5 * 0.02


def test_the_first_rows_of_a_sheet_are_random_too():
    # A rater who stops after five of 20 rows has labelled five of 100 answers at random
    counts = Counter(
        key for seed in range(300) for key in draw(RUN, score_of(RUN), 20, seed=seed).keys[:5]
    )

    shares = np.array([counts[key] for key in score_of(RUN).scores]) / 300
    assert np.abs(shares - 0.05).max() < 4.5 * 0.0126


@given(n=st.integers(1, 100), seed=st.integers(0, 50))
def test_systems_have_their_share(n, seed):
    drawn = draw(RUN, score_of(RUN), n, seed=seed)

    assert len(set(drawn.keys)) == n
    per_system = Counter(system for system, _ in drawn.keys)
    for system, size in SIZES.items():
        assert abs(per_system[system] - n * size / 100) < 1 + 1e-9


@given(seed=st.integers(0, 30))
def test_scores_have_their_share_within_a_system(seed):
    scores = score_of(RUN).scores
    drawn = draw(RUN, score_of(RUN), 50, seed=seed)

    high = sum(scores[key] == 1 for key in drawn.keys if key[0] == "b")
    assert abs(high - sum(v == 1 for (s, _), v in scores.items() if s == "b") / 2) < 2


@pytest.mark.parametrize("unit", ["answer", "query"])
def test_it_can_be_repeated_from_what_the_sheet_says(unit):
    drawn = draw(RUN, score_of(RUN), 15, seed=3, unit=unit, systems=["c", "a"])

    assert draw_again(RUN, score_of(RUN), drawn.signature) == drawn
    assert {system for system, _ in drawn.keys} == {"a", "c"}
    assert draw(RUN, score_of(RUN), 15, seed=4, unit=unit, systems=["c", "a"]) != drawn


@pytest.mark.parametrize(
    "change",
    [("seed:3", "seed:4x"), ("n:15", "n:16000"), ("population:", "population:0"), ("v:1", "v:2")],
)
def test_a_changed_signature_proves_nothing(change):
    drawn = draw(RUN, score_of(RUN), 15, seed=3)

    assert draw_again(RUN, score_of(RUN), drawn.signature.replace(*change)) is None
    assert draw_again(RUN, score_of(RUN), "drawn by hand") is None


def test_other_scores_are_another_population():
    drawn = draw(RUN, score_of(RUN), 15, seed=3)
    scores = dict(score_of(RUN).scores)
    scores["a", "q0"] = 1 - scores["a", "q0"]
    other = planted(scores)

    assert draw_again(other, score_of(other), drawn.signature) is None


def test_queries_come_with_the_answers_of_all_systems():
    drawn = draw(RUN, score_of(RUN), 7, seed=1, unit="query")

    by_query = Counter(query for _, query in drawn.keys)
    assert len(by_query) == 7
    assert set(by_query.values()) == {3}
    assert drawn.probability == 7 / 20, "20 queries have answers of all three"


def test_the_name_of_an_item_changes_with_the_answer_and_is_no_number():
    key = ("a", "q0")
    changed = planted(dict(score_of(RUN).scores), answers={key: "another answer"})

    assert item_id(RUN, "tone", key).startswith("a")
    names = {item_id(RUN, "tone", key), item_id(RUN, "tact", key), item_id(changed, "tone", key)}
    assert len(names) == 3


@pytest.mark.parametrize(
    "options",
    [
        {"n": 0},  # none
        {"n": -1, "unit": "query"},  # fewer than none
        {"n": 1, "systems": ["d"]},  # no such system
    ],
)
def test_refusals(options, assert_message):
    with pytest.raises(OptionError) as caught:
        draw(RUN, score_of(RUN), seed=1, **options)
    assert_message(caught.value)


@pytest.mark.parametrize(
    ("options", "n_answers"),
    [({}, 100), ({"unit": "query"}, 60), ({"systems": ["b"]}, 50)],
)
def test_a_draw_of_more_than_all_draws_all(options, n_answers):
    drawn = draw(RUN, score_of(RUN), 1000, seed=1, **options)

    assert len(set(drawn.keys)) == len(drawn.keys) == n_answers
    assert drawn.probability == 1
    assert draw_again(RUN, score_of(RUN), drawn.signature) == drawn


def test_without_a_verdict_there_is_nothing_to_draw(assert_message):
    score = replace(score_of(RUN), scores={})

    with pytest.raises(DataError) as caught:
        draw(RUN, score, 10, seed=1)
    assert_message(caught.value)
