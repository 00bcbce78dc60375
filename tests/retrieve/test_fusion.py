"""Fusion against ranx, against hand-worked sums, and as a function of any rankings."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import AdapterError, OptionError
from ragbench.retrieve.fusion import Fusion
from ragbench.types import Query, ScoredDocument
from tests.strategies import rankings

RANX = json.loads(Path(__file__).with_name("ranx_fusion.json").read_text())
METHODS = [
    *({"method": method, "normalize": "min_max"} for method in ("weighted", "combsum", "combmnz")),
    {"method": "rrf"},
    {"method": "isr"},
]


def fuse(*ranked, top_k=100, **options):
    """Fuse one query's rankings; each is {id: score} or a text of ids."""
    fusion = Fusion(retrievers=[f"r{n}" for n in range(len(ranked))], **options)
    hits = [
        [[ScoredDocument(*hit) for hit in (r.items() if isinstance(r, dict) else zip(r))]]
        for r in ranked
    ]
    [fused] = fusion.combine([Query("q", "?")], hits, top_k)
    return {hit.id: hit.score for hit in fused}


@pytest.mark.parametrize("method", sorted({case["method"] for case in RANX["cases"]}))
def test_agrees_with_ranx(method):
    for case in RANX["cases"]:
        if case["method"] == method:
            options = {key: case[key] for key in ("method", "k", "weights") if key in case}
            fused = fuse(*case["rankings"], **options)
            assert fused == pytest.approx(case["fused"], abs=1e-9), case["case"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(
            {}, {"b": 1 / 62 + 1 / 61, "a": 1 / 61, "c": 1 / 62}, id="rrf: 1/(60+2) + 1/(60+1)"
        ),
        pytest.param({"k": 0}, {"b": 1.5, "a": 1.0, "c": 0.5}, id="rrf, k 0: 1/2 + 1/1"),
        pytest.param(
            {"weights": [3, 1]}, {"a": 3 / 61, "b": 3 / 62 + 1 / 61, "c": 1 / 62}, id="3/62 + 1/61"
        ),
        pytest.param(
            {"method": "isr"}, {"b": 2.5, "a": 1.0, "c": 0.25}, id="isr: (1/2² + 1/1²) * 2, 1/1²"
        ),
        pytest.param(
            {"method": "isr", "weights": [3, 1]}, {"b": 3.5, "a": 3, "c": 0.25}, id="(3/4 + 1) * 2"
        ),
        pytest.param(
            {"method": "combmnz"}, {"b": 2.0, "a": 1.0, "c": 0.0}, id="min_max: (0 + 1) * 2"
        ),
        pytest.param(
            {"method": "combsum"}, {"b": 1.0, "a": 1.0, "c": 0.0}, id="min_max: 0 + 1, 1, 0"
        ),
        pytest.param(
            {"method": "weighted", "weights": [1, 10]}, {"b": 10, "a": 1, "c": 0}, id="0 + 10 * 1"
        ),
    ],
)
def test_hand_worked(options, expected):
    fused = fuse({"a": 4.0, "b": 2.0}, {"b": 9.0, "c": 7.0}, **options)

    assert fused == pytest.approx(expected, abs=1e-12)


@settings(max_examples=30)
@given(st.lists(rankings(), min_size=2, max_size=4), st.sampled_from(METHODS), st.integers(1, 8))
def test_any_rankings(ranked, options, top_k):
    # Falling scores, ties by id descending, every document once, and a cut that is a head
    ranked = [dict(sorted(r.items(), key=lambda hit: -hit[1])) for r in ranked]
    full = fuse(*ranked, **options)

    assert set(full) == {document for ranking in ranked for document in ranking}
    order = sorted(full, key=lambda doc: (full[doc], doc.encode()), reverse=True)
    assert list(full) == order
    assert list(fuse(*ranked, top_k=top_k, **options)) == order[:top_k]
    assert fuse(*reversed(ranked), **options) == full, "exactly: the order parts no tie"


def test_a_repeated_hit_counts_once_at_its_best():
    hits = [ScoredDocument("a", 1.0), ScoredDocument("a", 3.0), ScoredDocument("b", 2.0)]

    def scores(**options):
        fusion = Fusion(retrievers=["x", "y"], **options)
        [fused] = fusion.combine([Query("q", "?")], [[hits], [[]]], 9)
        return {hit.id: hit.score for hit in fused}

    assert scores() == {"a": 1 / 61, "b": 1 / 62}
    assert scores(method="combsum") == {"a": 1.0, "b": 0.0}


def test_a_hit_keeps_the_text_that_some_retriever_brought():
    fusion = Fusion(retrievers=["x", "y"], depth=7)
    bare, full = [ScoredDocument("a")], [ScoredDocument("a", 1.0, "text", "title", {"p": 3})]

    [[hit]] = fusion.combine([Query("q", "?")], [[bare], [full]], 9)

    assert (hit.text, hit.title, hit.metadata) == ("text", "title", {"p": 3})
    assert (fusion.sources, fusion.depth) == (["x", "y"], 7)


@pytest.mark.parametrize("score", [None, math.inf])
def test_scores_that_cannot_be_added_name_the_retriever(score, assert_message):
    with pytest.raises(AdapterError) as caught:
        fuse({"a": 1.0}, {"b": score}, method="combsum")
    assert_message(caught.value)


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"retrievers": ["a"]}, "fusion: retrievers"),
        ({"normalize": "min_max"}, "fusion: normalize"),
        ({"method": "isr", "normalize": "min_max"}, "fusion: normalize"),
        ({"method": "combsum", "weights": [1, 2]}, "fusion: weights"),
        ({"weights": [1]}, "fusion: weights"),
        ({"weights": [1, math.nan]}, "fusion: weights"),
        ({"weights": [1, -1]}, "fusion: weights"),
        ({"weights": [0, 0]}, "fusion: weights"),
    ],
)
def test_bad_options_say_what_is_allowed(options, place, assert_message):
    with pytest.raises(OptionError) as caught:
        Fusion(**({"retrievers": ["a", "b"]} | options))
    assert_message(caught.value, place)


@given(
    st.lists(st.permutations("abcde"), min_size=2, max_size=3),
    st.lists(st.floats(-9, 9), min_size=5, max_size=5, unique=True).map(sorted),
    st.sampled_from(["combsum", "combmnz", "weighted"]),
)
def test_distances_are_fused_in_the_order_of_the_hits(orders, distances, method):
    # Scores that rise with the rank give the sums of the ranks: n, n - 1, ... 1, scaled.
    of_ranks = [dict(zip(order, (5.0, 4.0, 3.0, 2.0, 1.0), strict=True)) for order in orders]
    of_distances = [dict(zip(order, distances, strict=True)) for order in orders]

    assert fuse(*of_distances, method=method) == fuse(*of_ranks, method=method)
