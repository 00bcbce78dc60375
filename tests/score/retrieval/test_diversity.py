"""`alpha_ndcg`, `subtopic_recall`, `redundancy`: worked by hand, and what holds for any input."""

from math import log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.score.retrieval.base import RankedSubtopics
from ragbench.score.retrieval.diversity import alpha_ndcg, redundancy, subtopic_recall

JUDGED = {"d1": {"a"}, "d2": {"a"}, "d3": {"b"}, "d4": set()}
IDS = ["d1", "d10", "d2", "d3", "d4", "é"]
drawn = st.tuples(
    st.lists(st.sampled_from(IDS), max_size=8),
    st.dictionaries(st.sampled_from(IDS), st.frozensets(st.sampled_from("abc"))),
)


def value_of(measure, ranking, judged=JUDGED, **options):
    return measure([RankedSubtopics.of(ranking, judged)], **options)[0]


@pytest.mark.parametrize(
    ("measure", "ranking", "k", "expected"),
    [
        pytest.param(alpha_ndcg, ["d1", "d3"], 2, 1.0, id="both subtopics at once"),
        pytest.param(
            alpha_ndcg, ["d1", "d2"], 2, (1 + 0.5 / log2(3)) / (1 + 1 / log2(3)), id="a repeated"
        ),
        pytest.param(alpha_ndcg, ["x", "d3"], 1, 0.0, id="nothing at rank 1"),
        pytest.param(
            alpha_ndcg,
            ["x", "d3"],
            5,
            (1 / log2(3)) / (1 + 1 / log2(3) + 0.5 / 2),
            id="the ideal goes on with the repeated one",
        ),
        pytest.param(alpha_ndcg, [], 5, 0.0, id="nothing retrieved"),
        pytest.param(subtopic_recall, ["d1", "d2"], 2, 1 / 2, id="a of a, b"),
        pytest.param(subtopic_recall, ["d1", "d2", "d3"], 2, 1 / 2, id="b beyond the cut-off"),
        pytest.param(subtopic_recall, ["d1", "d2", "d3"], 3, 1.0, id="all"),
        pytest.param(redundancy, ["d1", "d2", "d3"], 3, 1 / 3, id="d2 of three"),
        pytest.param(redundancy, ["d1", "x", "d4", "d3"], 4, 0.0, id="irrelevant is not redundant"),
        pytest.param(redundancy, ["d1", "d2", "d1"], 3, 1 / 2, id="a repeated id counts once"),
    ],
)  # fmt: skip
def test_hand_worked(measure, ranking, k, expected):
    assert value_of(measure, ranking, k=k) == pytest.approx(expected)


def test_alpha_says_how_little_a_repetition_is_worth():
    # With alpha 0 it is nDCG of the number of subtopics
    assert value_of(alpha_ndcg, ["d1", "d2"], k=2, alpha=0.0) == pytest.approx(1.0)
    assert value_of(alpha_ndcg, ["d1", "d2"], k=2, alpha=0.9) == pytest.approx(
        (1 + 0.1 / log2(3)) / (1 + 1 / log2(3))
    )


@pytest.mark.parametrize("judged", [{}, {"d1": set()}])
def test_nothing_relevant_is_not_zero(judged):
    for measure in (alpha_ndcg, subtopic_recall, redundancy):
        assert np.isnan(value_of(measure, ["d1"], judged, k=3))


def test_no_relevant_document_retrieved_is_no_redundancy():
    assert np.isnan(value_of(redundancy, ["x"], k=3))


@given(drawn, st.sampled_from([1, 3, None]), st.sampled_from([0.0, 0.5, 0.9]))
def test_values_lie_in_the_range(case, k, alpha):
    query = RankedSubtopics.of(*case)
    values = [
        *alpha_ndcg([query], k=k, alpha=alpha),
        *subtopic_recall([query], k=k),
        *redundancy([query], k=k),
    ]

    assert all(np.isnan(value) or 0 <= value <= 1 for value in values)


@given(drawn)
def test_order_of_the_judgements_is_nothing(case):
    ranking, judged = case
    turned = dict(reversed(judged.items()))

    for measure in (alpha_ndcg, subtopic_recall, redundancy):
        one, other = (value_of(measure, ranking, j, k=3) for j in (judged, turned))
        assert one == pytest.approx(other, nan_ok=True)


@given(drawn)
def test_a_tail_that_is_not_relevant_changes_nothing(case):
    ranking, judged = case

    for measure in (alpha_ndcg, subtopic_recall, redundancy):
        one, other = (value_of(measure, r, judged, k=20) for r in (ranking, [*ranking, "zz"]))
        assert one == pytest.approx(other, nan_ok=True)


@pytest.mark.parametrize("options", [{"k": 0}, {"alpha": 1.0}, {"alpha": -0.1}])
def test_bad_options_say_what_is_allowed(options, assert_message):
    with pytest.raises(OptionError) as caught:
        value_of(alpha_ndcg, ["d1"], **options)
    assert_message(caught.value)
