"""Ranking in blocks gives what ranking the whole does, and how blocks are cut."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.score.retrieval.ranking import BlockRanker, rank
from ragbench.types import Qrels
from ragbench.types.byte_ids import ByteIds
from ragbench.types.rows import HitBlock
from tests.score.retrieval.test_ranking import assert_same
from tests.strategies import qrels_and_run


def as_block(run):
    lengths = [len(hits) for hits in run.values()]
    return HitBlock(
        [query.encode() for query in run],
        np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
        ByteIds.of([document for hits in run.values() for document in hits]),
        np.array([score for hits in run.values() for score in hits.values()], np.float64),
    )


@settings(max_examples=30)
@given(qrels_and_run(), st.sampled_from(["docid", "stable"]), st.sampled_from([9, 10]))
def test_blocks_are_ranked_as_the_whole(case, ties, trec_eval):
    qrels, run = case
    ranker = BlockRanker(Qrels.from_dict(qrels), ties=ties, trec_eval=trec_eval)
    parts = [{query: hits} for query, hits in run.items()]

    ranked = ranker.rank(map(as_block, parts))

    expected = rank(qrels, run, ties=ties, trec_eval=trec_eval)
    assert_same(ranked, expected)
    np.testing.assert_array_equal(ranked.ties.first, expected.ties.first)
    np.testing.assert_array_equal(ranked.ties.last, expected.ties.last)
    assert ranker.unknown == len(run.keys() - qrels.keys())


def test_first_queries_of_a_block():
    block = as_block({"q1": {"a": 1.0, "b": 2.0}, "q2": {"c": 3.0}})

    first = block.first(1)

    assert (first.query_ids, first.starts.tolist(), len(first)) == ([b"q1"], [0, 2], 2)
    assert [first.documents[row] for row in range(2)] == [b"a", b"b"]


def test_long_lists_are_sorted_query_by_query():
    # Lists of more than 200 hits take another way to the same order
    rng = np.random.default_rng(5)
    run = {f"q{n}": {f"d{i}": float(rng.integers(40)) for i in range(300)} for n in range(3)}
    run["falls"] = {f"d{i}": float(-i) for i in range(300)}
    qrels = {query: {f"d{i}": 1 for i in range(0, 300, 7)} for query in run}

    for ties in ("docid", "stable"):
        ranked = BlockRanker(Qrels.from_dict(qrels), ties=ties).rank([as_block(run)])
        for number, (query, hits) in enumerate(run.items()):
            names = sorted(hits, reverse=True) if ties == "docid" else list(hits)
            order = sorted(names, key=hits.__getitem__, reverse=True)
            ranks = [place for place, name in enumerate(order, 1) if name in qrels[query]]
            assert ranked.rank[ranked.query == number].tolist() == ranks


def test_an_unjudged_document_with_the_hash_of_a_judged_one_stays_unjudged(monkeypatch):
    monkeypatch.setattr(ByteIds, "hashes", lambda ids: ids.lengths.astype(np.uint64))
    ranker = BlockRanker(Qrels.from_dict({"q": {"a": 1, "long": 2}}))

    ranked = ranker.rank([as_block({"q": {"b": 3.0, "long": 2.0, "a": 1.0, "list": 0.5}})])

    assert (ranked.rank.tolist(), ranked.grades.tolist()) == ([2, 3], [2, 1])
