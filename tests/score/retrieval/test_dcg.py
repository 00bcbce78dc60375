"""`cg`, `dcg`, `ndcg`: against scikit-learn and pytrec_eval, and worked by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import DataError, OptionError
from ragbench.score.retrieval.dcg import cg, dcg, ndcg
from ragbench.score.retrieval.notation import parse_measure
from ragbench.score.retrieval.ranking import rank
from tests.lazy import Lazy

sklearn = Lazy("sklearn.metrics")


def ranked_grades(grades, missed=()):
    """Rank documents of these grades in this order, with judged ones that were not retrieved."""
    run = {f"d{i}": float(-i) for i in range(len(grades))}
    qrels = dict(zip(run, grades, strict=True)) | {f"m{i}": g for i, g in enumerate(missed)}
    return rank({"q": qrels}, {"q": run})


grades_of_lists = st.lists(st.integers(0, 5), min_size=2, max_size=12).filter(any)


@pytest.mark.costly
@settings(max_examples=30)
@given(grades_of_lists, st.sampled_from([1, 3, 20]))
def test_agrees_with_scikit_learn(grades, k):
    ranked, order = ranked_grades(grades), -np.arange(len(grades), dtype=float)

    assert dcg(ranked, k=k) == pytest.approx([sklearn.dcg_score([grades], [order], k=k)], abs=1e-9)
    assert ndcg(ranked, k=k) == pytest.approx(
        [sklearn.ndcg_score([grades], [order], k=k)], abs=1e-9
    )


@settings(max_examples=30)
@given(grades_of_lists)
def test_exponential_gain_is_linear_gain_of_transformed_grades(grades):
    transformed, order = [2**grade - 1 for grade in grades], -np.arange(len(grades), dtype=float)

    value = ndcg(ranked_grades(grades), gain="exp")

    assert value == pytest.approx([sklearn.ndcg_score([transformed], [order])], abs=1e-9)


LECTURE = [3, 2, 3, 0, 0, 1, 2, 2, 3, 0]
JK = [3, 5, 6.89, 6.89, 6.89, 7.28, 7.99, 8.66, 9.61, 9.61]


@pytest.mark.parametrize(("k", "expected"), list(enumerate(JK, 1)))
def test_jarvelin_and_kekalainens_own_form(k, expected):
    value = dcg(ranked_grades(LECTURE), k=k, discount="jk")[0]

    assert value == pytest.approx(expected, abs=0.005)


def test_no_discount_before_rank_base():
    value = dcg(ranked_grades([1, 1, 1, 1]), discount="jk", base=4)

    assert value == pytest.approx([4.0]), "log4(4) is 1, and ranks 1 to 3 are not discounted"


@pytest.mark.parametrize(
    ("grades", "missed", "name", "expected"),
    [
        pytest.param([1, 0, 1, 1], [], "ndcg@4", 0.90603, id="1.93068 / 2.13093"),
        pytest.param([2, 1, 2, 0], [], "ndcg_jk@4", 0.92032, id="4.2619 / 4.6309"),
        pytest.param([2, 1, 2, 0], [], "ndcg@4", 0.96520, id="same, log2(i + 1)"),
        pytest.param([3, 2, 3, 0, 1, 2], [3, 2], "ndcg@6", 0.785002, id="6.861127 / 8.740262"),
        pytest.param([5, 3, 5, 0, 2], [], "dcg@3", 9.3928, id="5 + 3/log2(3) + 5/2"),
        pytest.param([5, 3, 5, 0, 2], [], "ndcg@5", 0.96676, id="10.1665 / 10.5160"),
        pytest.param([3, 2, 3, 0, 0, 1], [], "cg@3", 8.0, id="3 + 2 + 3"),
        pytest.param([1, 2], [], "dcg_exp@2", 1 + 3 / np.log2(3), id="1/1 + 3/log2(3)"),
        pytest.param([-3, 1], [], "dcg@2", 1 / np.log2(3), id="a negative grade gains nothing"),
    ],
)
def test_hand_worked(grades, missed, name, expected):
    value = parse_measure(name).score(ranked_grades(grades, missed))

    assert value == pytest.approx([expected], abs=5e-5)


def test_nothing_relevant_is_not_zero():
    ranked = ranked_grades([0, -1])

    assert np.isnan([cg(ranked)[0], dcg(ranked)[0], ndcg(ranked)[0]]).all()


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"k": 0}, "ndcg: k"),
        ({"gain": "cubic"}, "ndcg: gain"),
        ({"base": 10}, "ndcg: base"),
        ({"base": 1, "discount": "jk"}, "ndcg: base"),
    ],
)
def test_bad_options_say_what_is_allowed(options, place, assert_message):
    with pytest.raises(OptionError) as caught:
        ndcg(ranked_grades([1]), **options)
    assert_message(caught.value, place)


def test_a_grade_beyond_doubles_is_refused(assert_message):
    with pytest.raises(DataError) as caught:
        ndcg(ranked_grades([5000]), gain="exp")
    assert_message(caught.value)
