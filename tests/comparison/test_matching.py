"""What may be compared with what, and what is said of the rest."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.comparison.matching import match_sources
from ragbench.errors import DataError, OptionError
from ragbench.records.summary import Summary
from ragbench.types import Cause
from tests.comparison.scored_systems import NAN, column, source, system


def test_systems_meet_by_name_in_the_order_of_the_run():
    base = source("base.json", *(system(name, column([0, 1])) for name in ("a", "b", "c")))
    run = source(
        "run",
        *(system(n, column([1, 1])) for n in ("c", "new", "a")),
        summary=Summary(name="x", systems=()),
    )

    met = match_sources(base, [run])

    assert list(met.groups.items()) == [("c", ("c", "c")), ("a", ("a", "a"))]
    assert met.notes == (
        "base.json: not compared, as no other has them: b",
        "run: not compared, as no other has them: new",
    )


def test_single_systems_meet_whatever_their_names():
    met = match_sources(
        source("x", system("bm25", column([0, 1]))), [source("y", system("dense", column([1, 1])))]
    )

    assert dict(met.groups) == {"bm25": ("bm25", "dense")}


def test_strangers_are_named():
    base = source("x", system("bm25", column([1])), system("rm3", column([1])))

    with pytest.raises(DataError, match=r"no system in common: bm25, rm3 in x, dense in y"):
        match_sources(base, [source("y", system("dense", column([1])))])


def test_one_system_alone_is_nothing_to_compare():
    with pytest.raises(DataError, match=r"x: only bm25 to compare; allowed: a second run"):
        match_sources(source("x", system("bm25", column([1]))), [])


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


def test_other_queries_are_refused_with_their_names_unless_intersected():
    base = source("x", system("s", column([0, 1, 0])), ids=["q1", "q2", "q3"])
    run = source("y", system("s", column([1, 1])), ids=["q4", "q2"])

    with pytest.raises(DataError) as refused:
        match_sources(base, [run])
    met = match_sources(base, [run], intersect=True)

    assert str(refused.value).splitlines() == [
        "queries: 2 of 3 in x are not in y: q1, q3",
        "queries: 1 of 2 in y are not in x: q4",
        "the query sets differ",
    ]
    assert [list(each.query_ids) for each in met.sources] == [["q2"], ["q2"]]
    assert dict(met.left_out) == {"x": 2, "y": 1}
    assert met.notes == (
        "x: queries that the others lack, left out: 2",
        "y: queries that the others lack, left out: 1",
    )


def test_nothing_in_common_cannot_be_intersected():
    base = source("x", system("s", column([1])), ids=["q1"])
    run = source("y", system("s", column([1])), ids=["q2"])

    with pytest.raises(DataError, match="the query sets differ; nothing is common"):
        match_sources(base, [run], intersect=True)


def test_queries_that_nobody_judged_are_no_part_of_the_set():
    judged = column([1, NAN], causes=[Cause.SCORED, Cause.NO_JUDGEMENTS])
    base = source("experiment", system("s", judged), ids=["q1", "q2"])

    met = match_sources(base, [source("run.trec", system("s", column([0])), ids=["q1"])])

    assert list(met.sources[0].query_ids) == ["q1"]
    assert not met.left_out


def test_signatures_are_compared_part_by_part_and_all_at_once():
    mine = [column([1], "bleu", signature={"tokenize": "13a"}), column([1], "map"), column([1])]
    theirs = [
        column([1], "bleu", signature={"tokenize": "intl"}),
        column([1], "map", signature={"top_k": 100}),
        column([1]),
    ]

    with pytest.raises(DataError) as refused:
        match_sources(source("a", system("s", *mine)), [source("b", system("s", *theirs))])
    met = match_sources(
        source("a", system("s", *mine)), [source("b", system("s", *theirs))], measures=["mrr"]
    )

    assert str(refused.value).splitlines() == [
        "bleu cannot be compared: tokenize is 13a in a and intl in b",
        "map cannot be compared: top_k is absent in a and 100 in b",
        "the others can be: -m mrr",
    ]
    assert met.measures == ("mrr",)


@pytest.mark.parametrize("asked", ["nDCG@10", "ndcg_cut_10", "ndcg@10"])
def test_a_measure_is_found_however_it_is_spelt(asked):
    one, other = (source(x, system("s", column([1], "ndcg@10"), column([1]))) for x in "ab")

    assert match_sources(one, [other], measures=[asked, "mrr"]).measures == ("ndcg@10", "mrr")


def test_measures_that_do_not_meet():
    base = source("a", system("s", column([1]), column([1], "map")))
    run = source("b", system("s", column([1])))

    with pytest.raises(DataError, match="only one of the runs has 'map'; allowed: mrr"):
        match_sources(base, [run], measures=["map"])
    with pytest.raises(OptionError, match="found 'mmr', allowed: mrr; did you mean 'mrr'"):
        match_sources(base, [run], measures=["mmr"])
    with pytest.raises(DataError, match="no measure in common: map of s in c; mrr of s in b"):
        match_sources(source("c", system("s", column([1], "map"))), [run])
