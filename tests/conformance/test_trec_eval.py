"""Every measure that pytrec_eval has, query by query and in the mean, on awkward cases."""

import math

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings

from ragbench.comparison.systems import summarize
from ragbench.score.retrieval.notation import parse_measure
from ragbench.score.retrieval.score_run import score_run
from ragbench.types import Run
from tests.conformance.cases import EXACT, ROUGH, draw, with_repetitions
from tests.conformance.oracles import ENGINE, TREC_EVAL
from tests.strategies import qrels_and_run

# Families in which trec_eval 10 differs from 9, whatever the scores are.
ROUNDED_OTHERWISE = ("iprec_at_recall", "11pt_avg")
RULES = {"missing": "skip", "no_relevant": "zero"}  # as pytrec_eval does


def theirs_of(qrels, run, rel=1, **options):
    """pytrec_eval's values by query; the cut-offs are asked for one family at a time."""
    cuts = ("P", "recall", "success", "ndcg_cut", "map_cut", "relative_P")
    requested = {f"{family}.1,2,3,5,10,100" for family in cuts} | {"iprec_at_recall", "Rprec_mult"}
    requested |= {key for key in TREC_EVAL.values() if not key[-1].isdigit()}
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, requested, relevance_level=rel, **options)
    return evaluator.evaluate({q: hits for q, hits in run.items() if hits})


def assert_equal_to_trec_eval(qrels, run, names, oracle_run=None, **rules):
    oracle = theirs_of(qrels, run if oracle_run is None else oracle_run)
    scored = score_run(run, qrels, names, **RULES, **rules)
    for column in scored.columns:
        key = TREC_EVAL[column.name]
        theirs = np.array([oracle.get(q, {}).get(key, np.nan) for q in scored.query_ids])
        np.testing.assert_allclose(column.values, theirs, rtol=0, atol=1e-9, err_msg=column.name)
        values = theirs[~np.isnan(theirs)]
        if len(values):
            mean = pytrec_eval.compute_aggregated_measure(key, values.tolist())
            assert summarize(column).mean == pytest.approx(mean, abs=1e-9), column.name


@pytest.mark.costly
@settings(max_examples=30)
@given(qrels_and_run())
def test_any_small_case(case):
    assert_equal_to_trec_eval(*case, list(TREC_EVAL), trec_eval=9)


@pytest.mark.slow
def test_a_thousand_seeded_cases():
    assert_equal_to_trec_eval(*draw(10, 1000, ROUGH), list(TREC_EVAL), trec_eval=9)


# Beginnings of the measures that take logarithms, whose last bit is the C library's.
LOGARITHMS = ("ndcg", "rndcg", "g", "bing", "gm")


@pytest.mark.costly
@pytest.mark.parametrize("seed", [0, 1])
def test_what_is_made_of_fractions_is_equal_to_the_last_bit(seed):
    # Then no printed digit can differ, whatever the fifth one is.
    qrels, run = draw(seed, 400)
    names = [name for name in TREC_EVAL if not name.startswith(LOGARITHMS)]
    oracle = theirs_of(qrels, run)

    for column in score_run(run, qrels, names, **RULES, trec_eval=9).columns:
        theirs = [oracle.get(q, {}).get(TREC_EVAL[column.name], math.nan) for q in qrels]
        np.testing.assert_array_equal(column.values, theirs, err_msg=column.name)


@pytest.mark.costly
@pytest.mark.parametrize("seed", [2, 3])
def test_scores_that_floats_hold_serve_both_versions(seed):
    names = [name for name in TREC_EVAL if not name.startswith(ROUNDED_OTHERWISE)]

    assert_equal_to_trec_eval(*draw(seed, 150, EXACT), names, trec_eval=10)


def test_repeated_documents_count_once():
    # The oracle gets each document once; ragbench gets repeated documents.
    qrels, run = draw(4, 100, EXACT)
    lists = with_repetitions(run, 4)
    once = {
        query: {document: -float(list_.index(document)) for document in list_}
        for query, list_ in lists.items()
    }

    assert_equal_to_trec_eval(
        qrels, Run.from_rankings(lists), list(TREC_EVAL), oracle_run=once, trec_eval=9
    )


@pytest.mark.parametrize("rel", [2, 3])
def test_a_higher_relevance_level(rel):
    # `rel` means the same as trec_eval's -l; pytrec_eval ignores it for `num_rel`.
    qrels, run = draw(5, 100)
    names = ["map", "mrr", "bpref", "r_precision", "infap", "11pt_avg", "set_p", "set_f"]
    names += ["precision@5", "recall@5", "hit_rate@3", "map@10", "iprec_at_recall@0.3"]
    names += ["relative_p@5", "r_precision_mult@0.4", "bing", "gm_bpref", "rndcg", "utility"]
    names += ["num_nonrel_judged_ret", "num_rel_ret"]
    oracle = theirs_of(qrels, run, rel)
    ours = [
        f"{name.partition('@')[0]}(rel={rel}){''.join(name.partition('@')[1:])}" for name in names
    ]
    scored = score_run(run, qrels, ours, **RULES, trec_eval=9)

    for name, column in zip(names, scored.columns, strict=True):
        key = TREC_EVAL[name]
        theirs = [oracle.get(q, {}).get(key, math.nan) for q in scored.query_ids]
        np.testing.assert_allclose(column.values, theirs, rtol=0, atol=1e-9, err_msg=column.name)


def test_set_f_weighs_as_trec_eval():
    qrels, run = draw(6, 60)
    for beta in (0.5, 2.0):
        evaluator = pytrec_eval.RelevanceEvaluator(qrels, {f"set_F.{beta}"})
        oracle = evaluator.evaluate(run)
        (column,) = score_run(run, qrels, [f"set_F.{beta}"], **RULES).columns
        theirs = [oracle.get(query, {}).get("set_F", math.nan) for query in qrels]
        np.testing.assert_allclose(column.values, theirs, rtol=0, atol=1e-9)


@pytest.mark.costly
@pytest.mark.parametrize("seed", [7, 8])
def test_judged_documents_only(seed):
    # trec_eval's -J; where it leaves nothing of a ranking, trec_eval divides 0 by 0.
    qrels, run = draw(seed, 150, ROUGH)
    oracle = theirs_of(qrels, run, judged_docs_only_flag=True)

    for column in score_run(
        run, qrels, list(TREC_EVAL), **RULES, trec_eval=9, judged_only=True
    ).columns:
        key = TREC_EVAL[column.name]
        theirs = np.array([oracle.get(q, {}).get(key, math.nan) for q in qrels])
        emptied = np.isnan(theirs) & [query in oracle for query in qrels]
        assert not emptied.any() or column.name.startswith(ROUNDED_OTHERWISE)
        assert (column.values[emptied] == 0).all()
        theirs[emptied] = 0.0
        np.testing.assert_allclose(column.values, theirs, rtol=0, atol=1e-9, err_msg=column.name)
        assert "|judged_only:yes|" in str(column.signature)


@pytest.mark.costly
@pytest.mark.parametrize(("measure", "key"), ENGINE.items())
def test_parameters(measure, key):
    # pytrec_eval's engine takes parameters that its Python front refuses.
    qrels, run = draw(9, 150)
    engine = pytrec_eval.RelevanceEvaluator.__bases__[0]
    evaluator = engine(
        query_relevance=qrels,
        measures={measure},
        relevance_level=1,
        judged_docs_only_flag=False,
    )
    oracle = evaluator.evaluate(run)
    (column,) = score_run(run, qrels, [measure], **RULES, trec_eval=9).columns

    values = [oracle.get(query, {}).get(key, math.nan) for query in qrels]
    np.testing.assert_allclose(column.values, values, rtol=0, atol=1e-9)


@pytest.mark.costly
def test_an_empty_list_scores_what_nothing_found_scores():
    # pytrec_eval cannot be asked: it crashes on an empty list.
    for name in TREC_EVAL:
        (column,) = score_run({"q": {}}, {"q": {"a": 1}}, [name]).columns
        floor = 1.0 if name in ("num_q", "num_rel") else parse_measure(name).spec.low
        floor = 0.0 if name == "utility" else floor
        assert column.values.tolist() == [floor], name
