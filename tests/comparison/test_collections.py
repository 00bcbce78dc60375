"""Macro differences over collections whose queries have clusters."""

from dataclasses import replace

import numpy as np
import pytest

from ragbench.comparison.collections import CollectionScores, compare_collections
from ragbench.comparison.differences import compare_systems
from ragbench.comparison.method import Method
from ragbench.comparison.systems import summarize
from ragbench.records.summary import Summary, SystemSummary
from tests.comparison.scored_systems import column, source, system

METHOD = Method(resamples=500)


def collection(name, base, new, clusters):
    systems = [system("base", column(np.array(base))), system("new", column(np.array(new)))]
    summaries = [
        SystemSummary(
            name=each.name,
            retriever=each.name,
            type="bm25",
            ranking_of=None,
            generator=None,
            scores={"mrr": summarize(each.columns["mrr"])},
        )
        for each in systems
    ]
    scored = source(name, *systems, baseline="base")
    scored = replace(scored, summary=Summary(name=name, systems=tuple(summaries)))
    comparisons = compare_systems(systems, "base", METHOD, clusters)
    return CollectionScores(name, scored, comparisons, clusters)


def test_large_clusters_do_not_move_the_mean_of_the_queries():
    """Clusters of 3 queries and 1: sums 0.3 and -0.5, and a mean of the four queries of -0.05."""
    first = collection("a", [0.5] * 4, [0.6, 0.6, 0.6, 0.0], list("xxxy"))
    second = collection("b", [0.5] * 2, [0.6, 0.4], list("xy"))

    (measure,) = compare_collections([first, second], METHOD)

    (difference,) = measure.comparisons
    assert difference.difference == pytest.approx((-0.05 + 0.0) / 2)
