"""`best_grade` against values worked by hand."""

import pytest

from ragbench.score.retrieval.best_grade import best_grade
from ragbench.score.retrieval.ranking import rank

WITHOUT_REFERENCE = {"best_grade": "a measure of these tests alone, worked by hand"}


@pytest.mark.parametrize(
    ("ranking", "k", "expected"),
    [
        pytest.param("xab", 1, 0 / 3, id="nothing in sight"),
        pytest.param("xab", 2, 1 / 3, id="grade 1 of 3"),
        pytest.param("xab", 3, 3 / 3, id="all in sight"),
    ],
)
def test_hand_worked(ranking, k, expected):
    run = {"q": {document: -float(place) for place, document in enumerate(ranking)}}

    assert best_grade(rank({"q": {"a": 1, "b": 3}}, run), k=k) == pytest.approx([expected])
