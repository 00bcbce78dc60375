"""Every measure that trec_eval has, query by query, against pytrec_eval."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings

from ragbench.score.retrieval.score_run import score_run
from tests.strategies import qrels_and_run

# Our name -> pytrec_eval's request and key
ORACLES = {
    "map": ("map", "map"),
    "map@3": ("map_cut.3", "map_cut_3"),
    "mrr": ("recip_rank", "recip_rank"),
    "precision@2": ("P.2", "P_2"),
    "precision@10": ("P.10", "P_10"),
    "recall@1": ("recall.1", "recall_1"),
    "recall@5": ("recall.5", "recall_5"),
    "hit_rate@1": ("success.1", "success_1"),
    "hit_rate@3": ("success.3", "success_3"),
    "ndcg": ("ndcg", "ndcg"),
    "ndcg@1": ("ndcg_cut.1", "ndcg_cut_1"),
    "ndcg@3": ("ndcg_cut.3", "ndcg_cut_3"),
    "ndcg@20": ("ndcg_cut.20", "ndcg_cut_20"),
    "r_precision": ("Rprec", "Rprec"),
    "bpref": ("bpref", "bpref"),
    "num_ret": ("num_ret", "num_ret"),
    "num_rel": ("num_rel", "num_rel"),
    "num_rel_ret": ("num_rel_ret", "num_rel_ret"),
}


def values_of_both(qrels, run, **rules):
    requests = {request for request, _ in ORACLES.values()}
    oracle = pytrec_eval.RelevanceEvaluator(qrels, requests).evaluate(run)
    scored = score_run(run, qrels, list(ORACLES), missing="skip", no_relevant="zero", **rules)
    for column in scored.columns:
        key = ORACLES[column.name][1]
        theirs = [oracle.get(query, {}).get(key, np.nan) for query in scored.query_ids]
        yield column, np.array(theirs)


@pytest.mark.costly
@settings(max_examples=30)
@given(qrels_and_run())
def test_values_and_queries_left_out_are_trec_evals(case):
    for column, theirs in values_of_both(*case, trec_eval=9):
        np.testing.assert_allclose(column.values, theirs, rtol=0, atol=1e-9, err_msg=column.name)


@pytest.mark.costly
@settings(max_examples=30)
@given(qrels_and_run())
def test_doubles_change_nothing_where_floats_are_exact(case):
    for column, theirs in values_of_both(*case, trec_eval=10):
        np.testing.assert_allclose(column.values, theirs, rtol=0, atol=1e-9, err_msg=column.name)


def test_scores_that_tie_as_32_bit_floats_tie_in_trec_eval_9_only():
    qrels, run = {"q": {"a": 1, "b": 0}}, {"q": {"a": 1.00000001, "b": 1.0}}
    oracle = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank"}).evaluate(run)

    nine, ten = (score_run(run, qrels, ["mrr"], trec_eval=v).columns[0] for v in (9, 10))

    assert nine.values == oracle["q"]["recip_rank"] == 0.5
    assert ten.values == 1.0


def read_nested(path: Path, value, number) -> dict:
    """Read a TREC file the plain way, apart from the reader that ragbench has."""
    nested: dict = {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            fields = line.split()
            nested.setdefault(fields[0], {})[fields[2]] = number(fields[value])
    return nested


@pytest.mark.parametrize(
    ("name", "published"),
    [("pircRBa1", 0.3101), ("MU03rob01", 0.1929)],
)
def test_map_of_trec_runs_is_what_nist_published(lent_data, name, published):
    folder = lent_data / "trec-robust03"
    qrels = read_nested(folder / "qrels.txt.gz", 3, int)
    (path,) = folder.glob(f"runs/*{name}*.gz")
    run = read_nested(path, 4, float)

    columns = {column.name: (column, theirs) for column, theirs in values_of_both(qrels, run)}

    assert np.nanmean(columns["map"][0].values).round(4) == published
    for column, theirs in columns.values():
        np.testing.assert_allclose(column.values, theirs, rtol=0, atol=1e-9, err_msg=column.name)
