"""Measures that no other package computes as ragbench does, against `plainly.py`."""

import math

import pytest

from ragbench.comparison.systems import summarize
from ragbench.score.retrieval.score_run import score_run
from tests.conformance import plainly
from tests.conformance.reference import Part

CASE = plainly.Case(Part(3))


@pytest.mark.costly
@pytest.mark.parametrize(("name", "definition"), plainly.ALL, ids=[n for n, _ in plainly.ALL])
def test_is_what_its_definition_says(name, definition):
    for ours, theirs in CASE.pairs(name, definition):
        assert ours == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize(("name", "definition"), plainly.SMALL, ids=[n for n, _ in plainly.SMALL])
def test_the_ideal_is_the_best_of_all_orders(name, definition):
    queries = plainly.small(CASE)
    assert queries
    for ours, theirs in CASE.pairs(name, definition, queries):
        assert ours == pytest.approx(theirs, abs=1e-9)


def test_gmap_is_the_root_of_the_product():
    # Over few queries: a product of many would underflow.
    qrels = {query: CASE.qrels[query] for query in CASE.queries[:10]}
    precisions, gmap = score_run(CASE.run, qrels, ["map", "gmap"]).columns
    product = math.prod(max(value, 1e-5) for value in precisions.values)

    assert summarize(gmap).mean == pytest.approx(product ** (1 / len(qrels)), abs=1e-12)
