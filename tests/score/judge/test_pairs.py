"""Pairs of answers: both orders, equal answers, votes, directions; with judges of one's own."""

from dataclasses import replace

import numpy as np
import pytest

from ragbench.score.judge.base import JudgedItem, RubricJudge
from ragbench.score.judge.rubric import load_rubric
from ragbench.score.judge.verdicts import SAME, judge_pairs
from ragbench.types import Cause, Verdict

RUBRIC = load_rubric("pairwise")


class OwnJudge(RubricJudge):
    """A judge that sends nothing: it says what a function of the two answers says."""

    label, model, served, options = "a test", "own", None, {}

    def __init__(self, score):
        self.score, self.asked = score, []

    def judge(self, item, rubric):
        self.asked.append((item.answer, item.other))
        return Verdict(self.score(item.answer, item.other), reasoning="so")


def longer(answer, other):
    return 0.5 + 0.5 * np.sign(len(answer) - len(other))


def pair(answer, other, query_id="q"):
    return JudgedItem(question="Why?", answer=answer, other=other, query_id=query_id)


def judged(judge, *items, rubric=RUBRIC):
    verdicts = judge_pairs(judge, items, [rubric], type_name="own")
    return verdicts.columns[rubric.name], verdicts.rows


def test_a_judge_of_ones_own_is_asked_in_both_orders():
    judge = OwnJudge(longer)
    column, rows = judged(judge, pair("long answer", "short"), pair("ab", "abc"), pair("ab", "xy"))

    assert column.values.tolist() == [1.0, 0.0, 0.5]
    assert judge.asked == [
        ("long answer", "short"), ("ab", "abc"), ("ab", "xy"),
        ("short", "long answer"), ("abc", "ab"), ("xy", "ab"),
    ]  # fmt: skip
    assert [row.level for row in rows] == [3, 1, 2]


def test_a_judge_that_prefers_a_place_finds_ties_only():
    column, rows = judged(OwnJudge(lambda answer, other: 1.0), pair("a", "b"), pair("c", "d"))

    assert column.values.tolist() == [0.5, 0.5]
    assert all("the two orders disagree: a tie" in row.reasoning for row in rows)


def test_two_orders_that_disagree_are_a_tie_however_sure_one_of_them_is():
    column, _ = judged(
        OwnJudge(lambda answer, other: 0.9 if answer == "a" else 0.8), pair("a", "b")
    )

    assert column.values.tolist() == [0.5]


def test_equal_answers_are_a_tie_and_nobody_is_asked():
    judge = OwnJudge(longer)
    column, rows = judged(judge, pair("Two  moons.", "Two moons."), pair("", ""))

    assert column.values.tolist() == [0.5, 0.5]
    assert [row.reasoning for row in rows] == [SAME, SAME]
    assert judge.asked == []


def test_what_is_missing_is_not_a_tie():
    unasked = replace(pair("a", "a"), question=None)
    items = [pair(None, None), pair("a", None), pair(None, "b"), unasked]
    column, _ = judged(OwnJudge(longer), *items)

    assert np.isnan(column.values).all()
    causes = [Cause(code).word for code in column.causes]
    assert causes == ["no_answer", "no_other", "no_answer", "no_question"]


def test_one_order_that_fails_fails_the_pair():
    def score(answer, other):
        if answer == "b":
            raise RuntimeError("out of ink")
        return 1.0

    column, rows = judged(OwnJudge(score), pair("a", "b"), pair("a", "c"))

    assert [Cause(code).word for code in column.causes] == ["error", "scored"]
    assert "out of ink" in rows[0].reasoning


@pytest.mark.parametrize(
    ("direction", "expected"), [("higher", [1.0, 0.0, 0.5]), ("lower", [0.0, 1.0, 0.5])]
)
def test_votes_are_decided_by_the_majority_and_by_the_direction(direction, expected):
    scores = {"a": 2 / 3, "b": 1 / 3, "c": 0.5}
    judge = OwnJudge(lambda answer, other: scores.get(answer, 1 - scores.get(other, 0)))
    rubric = replace(RUBRIC, direction=direction)
    column, _ = judged(judge, *(pair(name, "other") for name in scores), rubric=rubric)

    assert (column.values.tolist(), column.direction) == (expected, "higher")


def test_progress_counts_every_item_once():
    progress = []
    items = [pair("a", "a"), pair("a", "bc")]
    judge_pairs(OwnJudge(longer), items, [RUBRIC], type_name="own", advance=progress.append)

    assert sum(progress) == 2
