"""`ties: average` against all orders of small tie groups; `conformance` has scikit-learn."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import OptionError
from ragbench.score.retrieval import MEASURES
from ragbench.score.retrieval.base import spec_of
from ragbench.score.retrieval.notation import parse_measure
from ragbench.score.retrieval.ranking import rank
from ragbench.score.retrieval.score_run import score_run
from tests.score.retrieval.test_common import forms
from tests.strategies import qrels_and_run

# with the options that change how they are computed
SPELLINGS = [
    *("precision@1", "precision@3", "precision(rel=2)@2", "recall@2", "recall@5", "f1@3"),
    *("r_precision", "r_precision(rel=2)", "hit_rate@1", "hit_rate@3", "hit_rate(rel=2)@2"),
    *("mrr", "mrr@2", "mrr(rel=2)", "map", "map@1", "map@3", "map(rel=2)@4"),
    *("map(divide=min)@2", "map(divide=min)@4"),
    *("cg@2", "cg(gain=exp)@3", "dcg@3", "dcg(discount=jk)@4", "ndcg", "ndcg@2", "ndcg_exp@3"),
    *("rbp", "rbp(p=0.5)@2", "rbp(gain=graded)@3", "rbp_residual(p=0.5)@2"),
    *("set_p", "set_recall", "set_f", "num_rel_ret", "num_nonrel_judged_ret"),
    *("relative_p@2", "r_precision_mult@0.5", "r_precision_mult(rel=2)@1.5", "unjudged@3"),
    *("dcg(gains={1:3,0:1})@3", "ndcg(gains={2:5})@2", "ideal_dcg@2"),
    *("utility", "utility(a=2,c=-1,d=0.5,documents=9)"),
]
DECLARED = {name: spec_of(MEASURES.load(name)) for name in MEASURES.table}
_NAMES = {parse_measure(name).spec.name for name in SPELLINGS}
AVERAGED = SPELLINGS + [
    form
    for name, spec in DECLARED.items()
    if spec.averages_ties and name not in _NAMES
    for form in forms(name)
]
UNAVERAGED = [
    forms(name)[-1]
    for name, spec in DECLARED.items()
    if not spec.averages_ties and spec.reads not in ("passages", "spans")  # which are in no run
]

# six documents in at most three tie groups: 720 orders at the most
IDS = "abcdef"
small_runs = st.dictionaries(st.sampled_from(IDS), st.sampled_from([1.0, 2.0, 3.0]), min_size=1)
small_qrels = st.dictionaries(st.sampled_from(IDS), st.sampled_from([-1, 0, 1, 1, 2, 3])).filter(
    lambda judged: max(judged.values(), default=0) > 0
)


def orders(hits):
    """Every order of the documents in which scores fall."""
    groups = [
        [document for document, score in hits.items() if score == level]
        for level in sorted(set(hits.values()), reverse=True)
    ]
    for parts in itertools.product(*(itertools.permutations(group) for group in groups)):
        yield [document for part in parts for document in part]


@pytest.mark.costly
@settings(max_examples=30, deadline=None)  # many rankings an example
@given(judged=small_qrels, hits=small_runs)
def test_is_the_mean_over_all_orders(judged, hits):
    # All measures score the same cases: to rank the orders takes longer than to score them
    lists = [{doc: float(-i) for i, doc in enumerate(order)} for order in orders(hits)]
    queries = [f"q{i}" for i in range(len(lists))]
    every = rank(dict.fromkeys(queries, judged), dict(zip(queries, lists, strict=True)))

    averaged = rank({"q": judged}, {"q": hits}, ties="average")

    for measure in map(parse_measure, AVERAGED):
        (value,) = measure.score(averaged)
        mean = measure.score(every).mean()
        assert value == pytest.approx(mean, abs=1e-12, nan_ok=True), measure.name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("dcg@1", 7.5, id="a lesson's tied pair of gains 10 and 5: (10 + 5) / 2"),
        pytest.param("precision@1", 1.0, id="both are relevant"),
        pytest.param("precision(rel=6)@1", 0.5, id="one of two"),
        pytest.param("mrr(rel=6)", 0.75, id="(1 + 1/2) / 2"),
        pytest.param("map(rel=6)", 0.75, id="(1 + 1/2) / 2"),
        pytest.param("hit_rate(rel=6)@1", 0.5, id="one order of two"),
        pytest.param("r_precision(rel=6)", 0.5, id="R = 1"),
        pytest.param("rbp(p=0.5,rel=6)", 0.375, id="(1/2 + 1/4) / 2"),
    ],
)
def test_hand_worked(name, expected):
    ranked = rank({"q": {"a": 10, "b": 5}}, {"q": {"a": 1.0, "b": 1.0}}, ties="average")

    assert parse_measure(name).score(ranked)[0] == pytest.approx(expected)


@pytest.mark.costly
@settings(max_examples=25, deadline=None)  # many rankings an example
@given(qrels_and_run())
def test_changes_nothing_without_ties(case):
    qrels, run = case
    falling = {q: {doc: float(-i) for i, doc in enumerate(hits)} for q, hits in run.items()}
    averaged, plain = rank(qrels, falling, ties="average"), rank(qrels, falling)

    for name in AVERAGED:
        measure = parse_measure(name)
        np.testing.assert_allclose(
            measure.score(averaged), measure.score(plain), atol=1e-12, err_msg=name
        )


@pytest.mark.costly
@settings(max_examples=8, deadline=None)  # many rankings an example
@given(qrels_and_run(), st.sampled_from([9, 10]))
def test_several_queries_do_not_mix(case, trec_eval):
    qrels, run = case
    rules = {"ties": "average", "trec_eval": trec_eval}
    together = rank(qrels, run, **rules)
    single = [rank({q: qrels[q]}, run, **rules) for q in qrels]

    for name in AVERAGED:
        if "graded" in name:
            continue  # its scale is the largest grade of all queries
        measure = parse_measure(name)
        alone = [measure.score(ranked)[0] for ranked in single]
        np.testing.assert_allclose(measure.score(together), alone, atol=1e-12, err_msg=name)


def test_a_large_group_of_ties_is_exact():
    # 3 relevant among 2,000 tied documents: E[RR] and E[AP] summed term by term
    n, r = 2000, 3
    ids = [f"d{i}" for i in range(n)]
    ranked = rank({"q": dict.fromkeys(ids[:r], 1)}, {"q": dict.fromkeys(ids, 0.5)}, ties="average")
    unranked, reciprocal = 1.0, 0.0
    for place in range(n - r + 1):
        reciprocal += unranked * r / (n - place) / (place + 1)
        unranked *= 1 - r / (n - place)
    precision = sum((1 + i * (r - 1) / (n - 1)) / (i + 1) for i in range(n)) / n

    assert parse_measure("mrr").score(ranked)[0] == pytest.approx(reciprocal, abs=1e-12)
    assert parse_measure("map").score(ranked)[0] == pytest.approx(precision, abs=1e-12)
    assert parse_measure("precision@10").score(ranked)[0] == pytest.approx(r / n, abs=1e-12)


@pytest.mark.parametrize("name", UNAVERAGED)
def test_the_others_say_which_have_it(name, assert_message):
    with pytest.raises(OptionError) as caught:
        score_run({"q": {"a": 1}}, {"q": {"a": 1}}, [name], ties="average")
    assert_message(caught.value)


def test_what_is_written_above_is_declared():
    declared = {name for name, spec in DECLARED.items() if spec.averages_ties}

    assert declared >= _NAMES
    assert {"precision", "recall", "f1", "map", "mrr", "ndcg", "dcg", "cg", "rbp"} <= declared


def test_the_rule_is_in_the_signature():
    (column,) = score_run({"q": {"a": 1}}, {"q": {"a": 1}}, ["map"], ties="average").columns

    assert "|ties:average|" in str(column.signature)


def test_a_depth_is_refused(assert_message):
    with pytest.raises(OptionError) as caught:
        score_run({"q": {"a": 1}}, {"q": {"a": 1}}, ["map"], ties="average", depth=5)
    assert_message(caught.value, "score_run: depth")
