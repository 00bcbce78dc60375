"""Macro means and differences over collections, also of queries that have clusters."""

from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from ragbench.comparison.collections import CollectionScores, compare_collections
from ragbench.comparison.differences import compare_systems
from ragbench.comparison.method import Method
from ragbench.comparison.systems import summarize
from ragbench.records.summary import Summary, SystemSummary
from tests.comparison.scored_systems import column, source, system

METHOD = Method(resamples=500)


def collection(name, base, new, clusters=None):
    systems = [system("base", column(np.array(base))), system("new", column(np.array(new)))]
    summaries = [
        SystemSummary(
            name=scored_system.name,
            retriever=scored_system.name,
            type="bm25",
            ranking_of=None,
            generator=None,
            scores={"mrr": summarize(scored_system.columns["mrr"])},
        )
        for scored_system in systems
    ]
    scored = source(name, *systems, baseline="base")
    scored = replace(scored, summary=Summary(name=name, systems=tuple(summaries)))
    comparisons = compare_systems(systems, "base", METHOD, clusters)
    return CollectionScores(name, scored, comparisons, clusters)


def test_large_clusters_do_not_move_the_mean_of_the_queries():
    # Clusters of 3 queries and 1: sums 0.3 and -0.5, and a mean of the four queries of -0.05
    first = collection("a", [0.5] * 4, [0.6, 0.6, 0.6, 0.0], list("xxxy"))
    second = collection("b", [0.5] * 2, [0.6, 0.4], list("xy"))

    (measure,) = compare_collections([first, second], METHOD)

    (difference,) = measure.comparisons
    assert difference.difference == pytest.approx((-0.05 + 0.0) / 2)


def test_the_test_over_collections_flips_signs_whatever_the_test_of_each_is():
    sets = [([0.5] * 6, [0.9, 0.6, 0.6, 0.7, 0.4, 0.6]), ([0.2] * 5, [0.3, 0.1, 0.3, 0.4, 0.3])]
    first, second = (
        compare_collections(
            [collection(name, *values) for name, values in zip("ab", sets, strict=True)], method
        )
        for method in (METHOD, replace(METHOD, test="t"))
    )

    (by_flips,), (by_t,) = (measure.comparisons for (measure,) in (first, second))
    assert by_flips.p is not None
    assert by_t.p == by_flips.p


def test_a_collection_without_an_interval_leaves_the_macro_mean_without_one():
    parts = [collection("a", [0.5] * 4, [0.6] * 4), collection("b", [0.5] * 4, [0.6] * 4)]
    summary = parts[1].scored.summary
    systems = tuple(
        structs.replace(
            system_summary,
            scores={"mrr": structs.replace(system_summary.scores["mrr"], interval=(None, 0.9))},
        )
        for system_summary in summary.systems
    )
    without = replace(parts[1].scored, summary=structs.replace(summary, systems=systems))

    (measure,) = compare_collections([parts[0], replace(parts[1], scored=without)], METHOD)

    assert [score.interval for score in measure.systems] == [None, None]
    assert [score.mean for score in measure.systems] == pytest.approx([0.5, 0.6])


def collection_of(name, values_by_system):
    """Return the scores of several systems on a collection; the first system is the baseline."""
    systems = [system(n, column(np.array(values))) for n, values in values_by_system.items()]
    summaries = [
        SystemSummary(
            name=scored.name,
            retriever=scored.name,
            type="bm25",
            ranking_of=None,
            generator=None,
            scores={"mrr": summarize(scored.columns["mrr"])},
        )
        for scored in systems
    ]
    base = next(iter(values_by_system))
    sources = source(name, *systems, baseline=base)
    sources = replace(sources, summary=Summary(name=name, systems=tuple(summaries)))
    return CollectionScores(name, sources, compare_systems(systems, base, METHOD))


def test_macro_means_that_are_not_shown_to_be_worse_are_tied_with_the_best():
    """Over 2 x 30 queries `good` and `twin` differ on one query, `bad` loses on every one.

    The systems `good` and `twin` are not compared with each other, as `bad` is the baseline.
    """
    good = np.linspace(0.6, 0.9, 30)
    twin = good - np.where(np.arange(30) == 3, 0.1, 0.0)
    parts = [
        collection_of(name, {"bad": good / 2, "good": good, "twin": twin}) for name in ("a", "b")
    ]

    (measure,) = compare_collections(parts, METHOD)

    assert measure.tied_with_best == ("good", "twin")
    assert measure.tied == {"a": ("good", "twin"), "b": ("good", "twin")}
    assert measure.systems[0].intervals == {
        part.name: part.scores["mrr", "bad"].interval for part in parts
    }


def test_the_only_system_and_equal_systems_have_no_mark():
    values = np.linspace(0.6, 0.9, 30)
    for systems in ({"a": values}, {"a": values, "b": values}):
        parts = [collection_of(name, systems) for name in ("x", "y")]

        (measure,) = compare_collections(parts, METHOD)

        assert (measure.tied_with_best, measure.tied) == ((), {})
