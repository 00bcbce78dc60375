"""`Run` and `Qrels`: what goes in comes out, and the order of adapters' lists counts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import DataError
from ragbench.types import Qrels, Run, ScoredDocument
from tests.strategies import qrels_and_run


@settings(max_examples=30)
@given(qrels_and_run())
def test_dictionaries_go_in_and_out(case):
    qrels, run = case

    assert Run.from_dict(run).to_dict() == run
    assert Qrels.from_dict(qrels).to_dict() == qrels
    assert len(Run.from_dict(run)) == sum(map(len, run.values()))


@given(st.lists(st.sampled_from("abcd"), max_size=8))
def test_the_order_of_a_ranked_list_is_the_order_of_its_run(ids):
    run = Run.from_rankings({"q": ids})

    assert [document for document, _ in run.ranking("q")] == list(dict.fromkeys(ids))
    assert sum(run.duplicates.values()) == len(ids) - len(set(ids))


def test_falling_scores_are_kept_and_others_replaced():
    run = Run.from_rankings(
        {
            "falls": [("a", 0.9), ("b", 0.1)],
            "tied": [ScoredDocument("a", 0.5), ScoredDocument("b", 0.5)],
            "rises": [("a", 0.1), ("b", 0.9)],
            "partly": [("a", 3.0), "b"],
            "empty": [],
        },
        name="mine",
    )

    assert run.to_dict() == {
        "falls": {"a": 0.9, "b": 0.1},
        "tied": {"a": 2.0, "b": 1.0},
        "rises": {"a": 2.0, "b": 1.0},
        "partly": {"a": 2.0, "b": 1.0},
        "empty": {},
    }
    assert run.substituted == 3
    assert run.name == "mine"


def test_a_repeated_document_counts_once_at_its_best_position():
    run = Run.from_rankings({"q": [("a", 3.0), ("b", 2.0), ("a", 1.0)]})

    assert run.to_dict() == {"q": {"a": 3.0, "b": 2.0}}
    assert run.duplicates == {"q": 1}
    assert run.substituted == 0


@pytest.mark.parametrize("item", [0.5, None, {"id": "a"}, ("a", "0.5"), ("a", float("nan"))])
def test_items_that_cannot_be_read_are_named(item):
    with pytest.raises(DataError, match="query 'q'"):
        Run.from_rankings({"q": [item]})


def test_a_text_is_no_list_of_its_letters():
    with pytest.raises(DataError, match="query 'q': found a text"):
        Run.from_rankings({"q": "d1"})


@pytest.mark.parametrize("rankings", [None, ["d1"], "d1"])
def test_rankings_are_a_mapping_of_queries(rankings, assert_message):
    with pytest.raises(DataError) as caught:
        Run.from_rankings(rankings)
    assert_message(caught.value)


def test_columns_cannot_be_changed():
    run, qrels = Run.from_dict({"q": {"a": 1.0}}), Qrels.from_dict({"q": {"a": 1}})

    for column in (run.scores, run.starts, qrels.grades, qrels.starts):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 5


@settings(max_examples=30)
@given(qrels_and_run(), st.randoms())
def test_fingerprint_is_of_the_content_not_of_the_order(case, random):
    qrels, _ = case
    shuffled = {q: dict(random.sample(sorted(d.items()), len(d))) for q, d in qrels.items()}
    shuffled = dict(random.sample(sorted(shuffled.items()), len(shuffled)))

    assert Qrels.from_dict(shuffled).fingerprint() == Qrels.from_dict(qrels).fingerprint()


@pytest.mark.parametrize(
    "other",
    [
        {"q": {"ab": 1, "c": 1}, "r": {}},
        {"q": {"a": 1, "bc": 2}, "r": {}},
        {"q": {"a": 1, "bc": 1}},
        {"q": {"a": 1}, "r": {"bc": 1}},
        {"q": {"a": 1, "b": 1, "c": 1}, "r": {}},
    ],
)
def test_fingerprint_sees_ids_grades_and_queries(other):
    one = {"q": {"a": 1, "bc": 1}, "r": {}}

    assert Qrels.from_dict(other).fingerprint() != Qrels.from_dict(one).fingerprint()


def test_numpy_grades_are_integers_inside():
    assert Qrels.from_dict({"q": {"a": np.int16(2), "b": 1.0}}).to_dict() == {"q": {"a": 2, "b": 1}}
