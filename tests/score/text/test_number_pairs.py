"""200 answers with numbers beside gold answers, by all that decides whether an answer is right."""

import pytest

import ragbench as rb
from ragbench.comparison.causes import GoldWords
from ragbench.score.retrieval.base import RetrievedPassages
from ragbench.score.retrieval.passage_matching import answer_hit
from tests.score.text.number_pairs import RIGHT, WRONG

PAIRS = [(1.0, *pair) for pair in RIGHT] + [(0.0, *pair) for pair in WRONG]


def test_half_of_the_pairs_are_right():
    assert (len(RIGHT), len(WRONG), len({pair[:2] for pair in RIGHT + WRONG})) == (100, 100, 200)


@pytest.mark.parametrize(
    ("value", "answer", "gold", "why"), PAIRS, ids=[f"{pair[1]} / {pair[2]}" for pair in PAIRS]
)
def test_all_rules_decide_alike(value, answer, gold, why):
    assert rb.contains(answer, gold) == value, why
    assert answer_hit(RetrievedPassages([[answer]], [[gold]])) == [value], why
    assert GoldWords([gold], "Which one?").share(answer).reaches(0.4) is bool(value), why
