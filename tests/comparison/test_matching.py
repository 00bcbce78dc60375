"""Sources that may be compared, and the messages on all others."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.comparison.matching import match_sources
from ragbench.errors import DataError, OptionError
from ragbench.records.summary import Summary
from ragbench.types import Cause
from tests.comparison.scored_systems import NAN, column, source, system


def test_systems_meet_by_name_in_the_order_of_the_run(assert_message):
    base = source("base.json", *(system(name, column([0, 1])) for name in ("a", "b", "c")))
    run = source(
        "run",
        *(system(n, column([1, 1])) for n in ("c", "new", "a")),
        summary=Summary(name="x", systems=()),
    )

    matched = match_sources(base, [run])

    assert list(matched.groups.items()) == [("c", ("c", "c")), ("a", ("a", "a"))]
    assert_message(matched.notes, "base.json")


def test_single_systems_meet_whatever_their_names():
    matched = match_sources(
        source("x", system("bm25", column([0, 1]))), [source("y", system("dense", column([1, 1])))]
    )

    assert dict(matched.groups) == {"bm25": ("bm25", "dense")}


def test_strangers_are_named(assert_message):
    base = source("x", system("bm25", column([1])), system("rm3", column([1])))

    with pytest.raises(DataError) as caught:
        match_sources(base, [source("y", system("dense", column([1])))])
    assert_message(caught.value)


def test_one_system_alone_is_nothing_to_compare(assert_message):
    with pytest.raises(DataError) as caught:
        match_sources(source("x", system("bm25", column([1]))), [])
    assert_message(caught.value)


@given(st.permutations(range(6)))
@settings(max_examples=30)
def test_queries_are_aligned_by_id(order):
    values = np.arange(6) / 6
    base = source("x", system("s", column(values)))
    run = source("y", system("s", column(values[order])), ids=[f"q{i}" for i in order])

    first, second = match_sources(base, [run]).sources

    assert list(first.query_ids) == list(second.query_ids)
    np.testing.assert_array_equal(
        second.systems["s"].columns["mrr"].values, first.systems["s"].columns["mrr"].values
    )


def test_other_queries_are_refused_with_their_names_unless_intersected(assert_message):
    base = source("x", system("s", column([0, 1, 0])), ids=["q1", "q2", "q3"])
    run = source("y", system("s", column([1, 1])), ids=["q4", "q2"])

    with pytest.raises(DataError) as refused:
        match_sources(base, [run])
    matched = match_sources(base, [run], intersect=True)

    assert_message(str(refused.value).splitlines())
    assert [list(scored.query_ids) for scored in matched.sources] == [["q2"], ["q2"]]
    assert dict(matched.left_out) == {"x": 2, "y": 1}
    assert_message(matched.notes)


def test_nothing_in_common_cannot_be_intersected(assert_message):
    base = source("x", system("s", column([1])), ids=["q1"])
    run = source("y", system("s", column([1])), ids=["q2"])

    with pytest.raises(DataError) as caught:
        match_sources(base, [run], intersect=True)
    assert_message(caught.value)


def test_queries_that_nobody_judged_are_no_part_of_the_set():
    judged = column([1, NAN], causes=[Cause.SCORED, Cause.NO_JUDGEMENTS])
    base = source("experiment", system("s", judged), ids=["q1", "q2"])

    matched = match_sources(base, [source("run.trec", system("s", column([0])), ids=["q1"])])

    assert list(matched.sources[0].query_ids) == ["q1"]
    assert not matched.left_out


def test_signatures_are_compared_part_by_part_and_all_at_once(assert_message):
    mine = [column([1], "bleu", signature={"tokenize": "13a"}), column([1], "map"), column([1])]
    theirs = [
        column([1], "bleu", signature={"tokenize": "intl"}),
        column([1], "map", signature={"top_k": 100}),
        column([1]),
    ]

    with pytest.raises(DataError) as refused:
        match_sources(source("a", system("s", *mine)), [source("b", system("s", *theirs))])
    matched = match_sources(
        source("a", system("s", *mine)), [source("b", system("s", *theirs))], measures=["mrr"]
    )

    assert_message(str(refused.value).splitlines())
    assert matched.measures == ("mrr",)


@pytest.mark.parametrize("spelling", ["nDCG@10", "ndcg_cut_10", "ndcg@10"])
def test_a_measure_is_found_however_it_is_spelt(spelling):
    one, other = (source(x, system("s", column([1], "ndcg@10"), column([1]))) for x in "ab")

    assert match_sources(one, [other], measures=[spelling, "mrr"]).measures == ("ndcg@10", "mrr")


def test_measures_that_do_not_meet(assert_message):
    base = source("a", system("s", column([1]), column([1], "map")))
    run = source("b", system("s", column([1])))

    with pytest.raises(DataError) as caught:
        match_sources(base, [run], measures=["map"])
    assert_message(caught.value)
    with pytest.raises(OptionError) as caught:
        match_sources(base, [run], measures=["mmr"])
    assert_message(caught.value)
    with pytest.raises(DataError) as caught:
        match_sources(source("c", system("s", column([1], "map"))), [run])
    assert_message(caught.value)
