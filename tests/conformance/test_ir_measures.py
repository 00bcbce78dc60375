"""`rbp` and `judged` against ir_measures, which defines more than trec_eval."""

import importlib.util

import ir_measures
import numpy as np
import pytest

from ragbench.score.retrieval.score_run import score_run
from tests.conformance.cases import draw

# cwl-eval has no wheel that ir_measures works with, so it is not in the extra; a plain sum in
# test_brute_force.py is the oracle that always runs
needs_cwl = pytest.mark.skipif(
    importlib.util.find_spec("cwl") is None, reason="RBP of ir_measures needs cwl-eval"
)


def values_of_both(name, measure, qrels, run):
    oracle = {m.query_id: m.value for m in ir_measures.iter_calc([measure], qrels, run)}
    scored = score_run(run, qrels, [name], missing="skip", no_relevant="zero")
    return scored.columns[0].values, [oracle.get(q, np.nan) for q in scored.query_ids]


def answered(seed, n):
    """Queries that the run has, their hits without ties: what ir_measures and we treat alike."""
    qrels, run = draw(seed, n)
    falling = {
        query: {document: -float(place) for place, document in enumerate(hits)}
        for query, hits in run.items()
        if query in qrels
    }
    return {query: qrels[query] for query in falling}, falling


@pytest.mark.parametrize("k", [1, 3, 10, 100])
def test_judged(k):
    ours, theirs = values_of_both(f"judged@{k}", ir_measures.Judged @ k, *answered(20, 100))

    assert ours == pytest.approx(theirs, abs=1e-9)


@needs_cwl
@pytest.mark.parametrize("p", [0.5, 0.8, 0.95])
def test_rank_biased_precision(p):
    measure = ir_measures.RBP(p=p, rel=1)

    ours, theirs = values_of_both(f"rbp(p={p})", measure, *answered(21, 60))

    assert ours == pytest.approx(theirs, abs=1e-9)
