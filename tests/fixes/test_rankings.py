"""Gold among the first documents of rankings and of fusions, against `type: fusion`."""

import numpy as np
import pytest

from ragbench.fixes.fusion_table import FusionSetting
from ragbench.fixes.rankings import NEVER, StoredRankings
from ragbench.records.manifest import HitsRow, StoredHit
from ragbench.retrieve.fusion import Fusion
from ragbench.score.retrieval.ranking import ranked_documents
from ragbench.types import Qrels, Query, Run, ScoredDocument

SETTINGS = [
    FusionSetting(("a", "b"), "rrf", (1.0, 1.0)),
    FusionSetting(("a", "b"), "weighted", (0.3, 0.7)),
    FusionSetting(("b", "d"), "rrf", (1.0, 1.0)),
    FusionSetting(("a", "b", "c"), "rrf", (1.0, 1.0, 1.0)),
    FusionSetting(("a", "c", "d"), "weighted", (0.25, 0.25, 0.5)),
    FusionSetting(("b", "c", "d"), "weighted", (1 / 3, 1 / 3, 1 / 3)),
]


def world(seed, queries=30):
    """Rankings with ties, short lists and absent queries; gold of zero to three documents."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 40))
    names = [f"d{number}" for number in range(n)]
    gold = {
        f"q{q}": dict.fromkeys(rng.choice(names, rng.integers(0, 4), replace=False).tolist(), 1)
        for q in range(queries)
    }
    runs = {}
    for name in "abcd":
        hits = {}
        for query in gold:
            if rng.random() < 0.9:
                length, digits = int(rng.integers(0, n)), int(rng.integers(0, 4))
                documents = rng.choice(names, length, replace=False).tolist()
                scores = np.round(rng.random(length), digits).tolist()
                hits[query] = dict(zip(documents, scores, strict=True))
        runs[name] = Run.from_dict(hits)
    return gold, runs


def fused(runs, setting, query):
    """Return the ids of a fusion by the component, best first."""
    weights = None if setting.method == "rrf" else list(setting.weights)
    fusion = Fusion(retrievers=list(setting.sources), method=setting.method, weights=weights)
    lists = [[[ScoredDocument(*hit) for hit in runs[s].ranking(query)]] for s in setting.sources]
    [hits] = fusion.combine([Query(query, "?")], lists, 100)
    return {query: {hit.id: hit.score for hit in hits}}


@pytest.mark.costly
@pytest.mark.parametrize(
    ("seed", "needs_all", "trec_eval"),
    [
        pytest.param(0, False, 10, id="any"),
        pytest.param(3, True, 10, id="all"),
        pytest.param(3, False, 9, id="any, trec_eval 9"),
        pytest.param(0, True, 9, id="all, trec_eval 9"),
    ],
)
def test_a_fusion_has_the_gold_that_the_component_ranks(seed, needs_all, trec_eval):
    gold, runs = world(seed)
    rankings = StoredRankings(Qrels.from_dict(gold), runs, needs_all=needs_all, trec_eval=trec_eval)
    k = 1 + seed * 2
    hits = rankings.fused_hits(SETTINGS, k)

    for setting, row in zip(SETTINGS, hits.tolist(), strict=True):
        for query, is_hit in zip(gold, row, strict=True):
            order = ranked_documents(
                Run.from_dict(fused(runs, setting, query)), trec_eval=trec_eval
            )[query]
            first, relevant = set(order[:k]), set(gold[query])
            expected = relevant <= first if needs_all else bool(relevant & first)
            assert is_hit == (bool(relevant) and expected), (setting, query)


@pytest.mark.costly
def test_many_queries_have_the_gold_that_the_component_ranks():
    # more than a block of queries, and so many documents that their keys collide
    gold, runs = world(7, queries=600)
    [hits] = StoredRankings(Qrels.from_dict(gold), runs).fused_hits(SETTINGS[4:5], 3)

    for query, is_hit in zip(gold, hits.tolist(), strict=True):
        order = ranked_documents(Run.from_dict(fused(runs, SETTINGS[4], query)))[query]
        assert is_hit == (not set(order[:3]).isdisjoint(gold[query])), query


def test_a_depth_is_the_rank_of_the_first_gold_document_or_of_the_last():
    gold = Qrels.from_dict({"q1": {"x": 1, "y": 1}, "q2": {"x": 1}, "q3": {}})
    run = Run.from_dict({"q1": {"a": 3.0, "x": 2.0, "y": 1.0}})

    any_gold = StoredRankings(gold, {"r": run}).depths("r")
    all_gold = StoredRankings(gold, {"r": run}, needs_all=True).depths("r")

    assert any_gold.tolist() == [2, NEVER, NEVER]
    assert all_gold.tolist() == [3, NEVER, NEVER]


def test_a_perfect_reranker_gets_what_is_deep_enough_and_fits():
    gold = Qrels.from_dict({"q1": {"x": 1, "y": 1}, "q2": {"x": 1}})
    run = Run.from_dict({"q1": {"a": 3.0, "x": 2.0, "y": 1.0}, "q2": {"a": 2.0, "x": 1.0}})

    one = StoredRankings(gold, {"r": run})
    both = StoredRankings(gold, {"r": run}, needs_all=True)

    assert one.perfect("r", 2, 1).tolist() == [True, True]
    assert both.perfect("r", 3, 1).tolist() == [False, True], "two documents do not fit into one"
    assert both.perfect("r", 3, 2).tolist() == [True, True]


def row(query, gold_rank, needs, hits, unplaced=0):
    """Stored hits of a query: the names of the gold of each hit, best first; None is a gap."""
    stored = [
        StoredHit(rank=rank, id=f"p{rank}", gold=tuple(gold))
        for rank, gold in enumerate(hits, start=1)
        if gold is not None
    ]
    return HitsRow(
        query_id=query,
        needs=tuple(needs),
        gold_rank=gold_rank,
        unplaced=unplaced,
        hits=tuple(stored),
    )


def passages(*rows, needs_all=False, doubts=None):
    """Rankings `r` of passages, which have the gold of the rows, whatever their documents."""
    gold = Qrels.from_dict({row.query_id: {"x": 1} for row in rows})
    run = Run.from_dict({row.query_id: {"x": 1.0} for row in rows})
    hits = {"r": {row.query_id: row for row in rows}}
    doubts = None if doubts is None else {"r": np.array(doubts)}
    return StoredRankings(gold, {"r": run}, needs_all=needs_all, hits=hits, doubts=doubts)


def test_depths_of_passages_are_those_of_their_gold_and_not_of_their_documents():
    rankings = passages(
        row("q1", 3, ["x 0-9"], ["", "", ["x 0-9"]]),
        row("q2", 0, ["x 0-9"], [""]),
        row("q3", None, [], []),
        doubts=[NEVER, NEVER, 0],
    )

    assert rankings.depths("r").tolist() == [3, NEVER, NEVER]
    assert rankings.document_depths("r").tolist() == [1, 1, 1]
    assert rankings.is_clear("r", 2).tolist() == [True, True, False]


def test_a_passage_without_a_place_leaves_gold_below_it_unknown():
    # met at rank 4, and the passage at rank 2 may have the gold, too
    rankings = passages(row("q", 4, ["x 0-9"], [""] * 4, unplaced=2), doubts=[2])

    clear = {k: rankings.is_clear("r", k).tolist() for k in (1, 2, 3, 4, 5)}
    assert clear == {1: [True], 2: [False], 3: [False], 4: [True], 5: [True]}


def test_gold_of_passages_is_met_by_name_and_ends_at_a_gap():
    rankings = passages(row("q", 4, ["x 0-9", "y"], ["", ["y"], None, ["x 0-9"]]), needs_all=True)

    assert list(rankings.passages("r", "q")) == [("p1", set()), ("p2", {"y"})]
    assert rankings.is_met("r", "q", {"x 0-9", "y", "z"})
    assert not rankings.is_met("r", "q", {"y"})


def test_a_perfect_reranker_of_passages_is_counted_where_a_hit_has_one_document():
    # three documents that are all needed fit into three places, and not into two
    whole = passages(row("q", 3, ["x"], [["x"]] * 3), needs_all=True)
    spans = passages(row("q", 3, ["x 0-9", "x 9-12", "x 12-20"], [["x 0-9"]] * 3), needs_all=True)

    assert whole.perfect("r", 3, 1).tolist() == [True]
    assert spans.perfect("r", 3, 3).tolist() == [True]
    assert spans.perfect("r", 3, 2) is None, "one passage may have two of the spans"
    assert spans.perfect("r", 2, 2).tolist() == [False], "not all of them are so near the top"


def test_a_fusion_fails_where_a_retriever_failed():
    gold = Qrels.from_dict({"q1": {"x": 1}})
    runs = {"a": Run.from_dict({"q1": {"x": 1.0}}), "b": Run.from_dict({})}
    failures = {"b": np.array([True])}

    rankings = StoredRankings(gold, runs, failures=failures)

    assert rankings.fused_hits(SETTINGS[:1], 5).tolist() == [[False]]
    assert StoredRankings(gold, runs).fused_hits(SETTINGS[:1], 5).tolist() == [[True]]
