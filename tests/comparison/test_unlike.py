"""Scores with unlike signatures are compared nowhere: pairs, best systems, slices, gates."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.comparison.collections import CollectionScores, compare_collections
from ragbench.comparison.differences import compare_systems
from ragbench.comparison.matching import match_sources
from ragbench.comparison.method import Method
from ragbench.comparison.signatures import explain_unlike, unlike_parts
from ragbench.comparison.slice_differences import compare_slices
from ragbench.comparison.slices import Slicing
from ragbench.comparison.systems import summarize
from ragbench.errors import DataError
from ragbench.gates.base import GatedRun
from ragbench.gates.cheapest import Cheapest
from ragbench.gates.drop import Drop
from ragbench.records.collections import CollectionRun, CollectionsSummary
from ragbench.records.comparison import Comparisons
from ragbench.records.summary import Summary, SystemSummary
from ragbench.report.collections import lay_out_collections
from ragbench.report.headline import headline, outcome_of
from ragbench.signature import Signature, mixture
from tests.comparison.scored_systems import column, source, system

METHOD = Method(resamples=200)
HIGH, LOW = [1.0] * 12, [0.0] * 11 + [1.0]
MIXED = mixture(["day1", "day2"])


def judged(name, values, **signature):
    return system(name, column(values, "coherence", signature=signature), kind="judge")


def compare(*systems):
    (family,) = compare_systems(systems, "a", METHOD).measures
    return family


def gate(gate, *systems):
    run = GatedRun(scored=source("this run", *systems), method=METHOD, n_queries=12)
    return list(gate.decide_systems(run))


parts = st.fixed_dictionaries(
    {"model": st.sampled_from(["day1", "day2", MIXED])},
    optional={
        "prompt": st.sampled_from(["p", "q"]),
        "weighted": st.sampled_from(["yes", "no"]),
        "v": st.sampled_from([1, 2]),
        "qrels": st.sampled_from(["1a", "2b"]),
    },
)


@settings(max_examples=20)
@given(st.lists(parts, min_size=2, max_size=4), st.data())
def test_a_pair_has_a_verdict_if_and_only_if_its_signatures_allow_it(signatures, data):
    # The oracle is the text of the parts: equal ones without a mixture may be compared
    scores = [data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=12, max_size=12))
              for _ in signatures]  # fmt: skip
    systems = [
        judged(name, values, **of)
        for name, values, of in zip("abcd", scores, signatures, strict=False)
    ]
    # the order of the parts is that in which they were drawn, and says nothing
    texts = [str(sorted(s.columns["coherence"].signature.parts)) for s in systems]
    alike = [text == texts[0] and MIXED not in text for text in texts]

    family = compare(*systems)
    decisions = gate(Drop(measure="coherence", max_drop=0.1), *systems)

    assert [c.difference is not None for c in family.comparisons] == alike[1:]
    assert [c.p_adjusted is not None for c in family.comparisons] == alike[1:]
    assert [not decision.refused for decision in decisions] == alike[1:]
    assert [c.unlike is None for c in family.comparisons] == alike[1:]
    assert (family.unlike is None) == all(alike)
    if not all(alike):
        assert (family.best, family.tied_with_best, family.tells_nothing) == (None, (), None)


@given(parts, parts)
def test_the_rule_does_not_depend_on_the_order(one, other):
    first, second = Signature.of("m", **one), Signature.of("m", **other)
    assert set(unlike_parts(first, second)) == set(unlike_parts(second, first))
    assert bool(explain_unlike([("of a", first), ("of b", second)])) == bool(
        unlike_parts(first, second)
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"model": "x"}, {"model": "y"}),
        ({"model": "x", "t": 0}, {"model": "x"}),
        ({"model": MIXED}, {"model": "day1"}),
        ({"model": MIXED}, {"model": MIXED}),
    ],
)
def test_the_reason_names_part_values_and_systems(one, other, assert_message):
    family = compare(judged("a", HIGH, **one), judged("b", LOW, **other))

    assert family.unlike == family.comparisons[0].unlike
    assert_message(family.unlike, "model" if "t" not in one else "t")
    assert outcome_of(family.comparisons[0], "higher") == "not compared"


def test_the_other_pairs_keep_their_verdicts_and_no_system_is_best(assert_message):
    # 11 of 12 queries fall from 1 to 0: b is worse; c has other judges
    a, b, c = judged("a", HIGH, model="x"), judged("b", LOW, model="x"), judged("c", LOW, model="y")

    family = compare(a, b, c)

    worse, apart = family.comparisons
    assert (worse.system, worse.differs, worse.n) == ("b", True, 12)
    assert worse.difference == pytest.approx(-11 / 12)
    assert (apart.n, apart.difference, apart.p, apart.differs) == (0, None, None, None)
    assert (family.best, family.tied_with_best, family.signature) == (None, (), None)
    systems = tuple(
        SystemSummary(
            name=s.name,
            type="generator",
            retriever=None,
            generator=s.name,
            ranking_of=None,
            scores={"coherence": summarize(s.columns["coherence"])},
        )
        for s in (a, b, c)
    )
    comparisons = Comparisons(confidence=0.95, resamples=1, seed=1, measures=(family,))
    first_two, apart = (
        headline("coherence", Summary(name="judged", systems=pair), comparisons)
        for pair in (systems, systems[::2])
    )
    assert_message(first_two)
    assert_message(apart)


def test_a_system_without_a_value_forbids_nothing():
    # The model that was asked for stands in the signature of a system whose answers all failed
    family = compare(judged("a", HIGH, model="x"), judged("b", [float("nan")] * 12, model="asked"))

    assert (family.unlike, family.best, family.comparisons[0].unlike) == (None, "a", None)


def test_slices_of_unlike_scores_have_no_rows():
    slicing = Slicing("metadata.topic", ("law",), [("law",)] * 24)
    systems = [judged("a", HIGH * 2, model="x"), judged("b", LOW * 2, model="x")]
    assert len(compare_slices(systems, "a", METHOD, [slicing])) == 1

    systems[1] = judged("b", LOW * 2, model="y")
    assert compare_slices(systems, "a", METHOD, [slicing]) == ()


def test_runs_of_one_mixture_are_refused(assert_message):
    # Equal signatures: which query was judged by which model is not known
    runs = [source(where, judged("a", HIGH, model=MIXED)) for where in ("old", "new")]

    with pytest.raises(DataError) as caught:
        match_sources(runs[0], runs[1:])
    assert_message(caught.value)


def test_the_cheapest_system_is_refused(assert_message):
    costs = {"a": 0.2, "b": 0.1}
    systems = [
        replace(judged(name, HIGH, model=model), costs={"usd": np.full(12, costs[name])})
        for name, model in (("a", "x"), ("b", "y"))
    ]

    (decision,) = gate(Cheapest(cheapest_within=0.5, system="a", measure="coherence"), *systems)

    assert (decision.verdict, decision.refused) == ("undecided", True)
    assert_message(decision.why)


def collection(name, model):
    systems = [judged("a", HIGH, model="x"), judged("b", LOW, model=model)]
    summaries = [
        SystemSummary(
            name=scored_system.name,
            retriever=scored_system.name,
            type="bm25",
            ranking_of=None,
            generator=None,
            scores={"coherence": summarize(scored_system.columns["coherence"], kind="judge")},
        )
        for scored_system in systems
    ]  # fmt: skip
    scored = source(name, *systems, baseline="a")
    scored = replace(scored, summary=Summary(name=name, systems=tuple(summaries)))
    return CollectionScores(name, scored, compare_systems(systems, "a", METHOD))


@pytest.mark.parametrize(
    ("models", "unlike"),
    [("xx", None), ("xy", "two: model is x of a and y of b"),
     ("yy", "one: model is x of a and y of b; two: model is x of a and y of b")],
)  # fmt: skip
def test_collections_compare_a_pair_only_if_all_of_them_do(models, unlike):
    collections = [
        collection(name, model) for name, model in zip(("one", "two"), models, strict=True)
    ]

    (measure,) = compare_collections(collections, METHOD)

    (difference,) = measure.comparisons
    assert measure.unlike == unlike
    assert (difference.difference is None) == (unlike is not None)
    runs = [CollectionRun(name=c.name, run=c.name, queries=12, complete=True) for c in collections]
    summary = CollectionsSummary(
        name="e", run_id="r", confidence=0.95, resamples=200, seed=13, correction="holm",
        runs=tuple(runs), measures=(measure,),
    )  # fmt: skip
    page = lay_out_collections(summary).runs
    head = f"systems are not compared, {unlike}" if unlike else "a has the best macro mean, 1.00"
    assert page.headlines == (f"coherence: {head}",)
    assert (page.grids[0].rows[1][-1].text == "not compared") == (unlike is not None)
