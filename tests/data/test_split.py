"""Random test sets: a share of the ids, by the seed alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.data.loaders.base import (
    RandomSplit,
    draw_test_set,
    finish_collection,
    keep_queries,
    parse_split,
)
from ragbench.errors import OptionError
from ragbench.types import Answered, Collection, Document, Qrels, Query

id_sets = st.sets(st.text(max_size=4), min_size=1, max_size=40)
splits = st.builds(
    RandomSplit, test=st.sampled_from([0.01, 0.2, 0.5, 0.99]), seed=st.integers(0, 20)
)


@given(id_sets, splits, st.randoms(use_true_random=False))
def test_the_order_of_the_file_does_not_count(ids, split, random):
    shuffled = sorted(ids)
    random.shuffle(shuffled)

    drawn = draw_test_set(shuffled, split)

    assert drawn == draw_test_set(sorted(ids), split)
    assert drawn <= ids
    assert len(drawn) == max(1, round(len(ids) * split.test))


@given(id_sets, splits)
def test_one_more_query_moves_at_most_one_other(ids, split):
    first, after = draw_test_set(ids, split), draw_test_set({*ids, "added"}, split)

    assert len(first - after) <= 1
    assert len(after - first - {"added"}) <= 1


def test_the_seed_draws():
    ids = [f"q{n}" for n in range(100)]
    draws = {draw_test_set(ids, RandomSplit(0.2, seed)) for seed in range(10)}

    assert len(draws) == 10
    assert all(len(draw) == 20 for draw in draws)


def test_every_query_is_drawn_about_equally_often():
    ids = [f"q{n}" for n in range(10)]
    counts = dict.fromkeys(ids, 0)
    for seed in range(2000):
        for query in draw_test_set(ids, RandomSplit(0.3, seed)):
            counts[query] += 1

    # mean 600, standard deviation sqrt(2000 * 0.3 * 0.7) = 20.5: five of them
    assert all(abs(count - 600) < 103 for count in counts.values())


def test_everything_but_the_corpus_is_cut():
    whole = Collection(
        queries=[Query("a", "A"), Query("b", "B")],
        documents=[Document("d")],
        qrels=Qrels.from_dict({"a": {"d": 1}, "b": {"d": 2}}),
        answers={"a": ["x"], "b": ["y"]},
        recorded_answers={"s": [Answered("a", "x"), Answered("b", "y")], "t": [Answered("b", "z")]},
        notes=["before"],
    )

    cut = keep_queries(whole, frozenset({"a"}), "after")

    assert cut.queries == [Query("a", "A")]
    assert cut.documents == [Document("d")]
    assert cut.qrels is not None
    assert cut.qrels.to_dict() == {"a": {"d": 1}}
    assert cut.answers == {"a": ["x"]}
    assert cut.recorded_answers == {"s": [Answered("a", "x")]}
    assert cut.notes == ["before", "after"]
    assert len(whole.queries) == 2


def test_the_note_tells_the_draw(assert_message):
    collection = Collection([Query(str(n), "text") for n in range(10)])

    cut = finish_collection(collection, RandomSplit(0.2, 7))

    assert len(cut.queries) == 2
    assert_message(cut.notes)


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"tset": 0.2}, "records: split"),
        ({"seed": 1}, "records: split"),  # a share is missing
        ({"test": 0}, "records: split.test"),
        ({"test": 1.0}, "records: split.test"),  # nothing would be left
        ({"test": "0.2"}, "records: split.test"),
        ({"test": True}, "records: split.test"),  # True is 1
        ({"test": 0.2, "seed": -1}, "records: split.seed"),
        ({"test": 0.2, "seed": 1.5}, "records: split.seed"),
    ],
)
def test_bad_splits_say_what_is_allowed(value, place, assert_message):
    with pytest.raises(OptionError) as caught:
        parse_split(value, "records")

    assert_message(caught.value, place)
