"""Gold with alternatives, as AutoRAG writes it: any of an inner list, all inner lists."""

import json
from itertools import pairwise

import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

import ragbench as rb

MEASURES = {"ndcg@10": "ndcg_cut_10", "recall@10": "recall_10", "mrr": "recip_rank", "map": "map"}
IDS = [f"d{number}" for number in range(8)]


def rows_of(*pairs):
    return [
        {"id": f"q{n}", "question": f"q{n}", "retrieved_ids": hits, "retrieval_gt": groups}
        for n, (hits, groups) in enumerate(pairs)
    ]


@st.composite
def questions(draw):
    members = draw(st.permutations(IDS))[: draw(st.integers(1, 6))]
    cuts = sorted({0, *draw(st.lists(st.integers(0, len(members)), max_size=3)), len(members)})
    groups = [list(members[a:b]) for a, b in pairwise(cuts)]
    return draw(st.permutations(IDS))[: draw(st.integers(1, 8))], groups


@settings(max_examples=30, deadline=None)
@given(st.lists(questions(), min_size=1, max_size=3))
def test_groups_score_as_one_document_each(pairs):
    # The oracle scores groups as documents: the first hit of each, at its rank.
    run, qrels = {}, {}
    for n, (hits, groups) in enumerate(pairs):
        group_of = {name: f"group{i}" for i, group in enumerate(groups) for name in group}
        scores = {}
        for rank, hit in enumerate(hits):
            name = group_of.get(hit, hit)
            scores[f"{hit} again" if name in scores else name] = float(-rank)
        run[f"q{n}"] = scores
        qrels[f"q{n}"] = dict.fromkeys(group_of.values(), 1)
    oracle = pytrec_eval.RelevanceEvaluator(
        qrels, {"ndcg_cut.10", "recall.10", "recip_rank", "map"}
    )
    expected = oracle.evaluate(run)
    judged = {hit for _, groups in pairs for group in groups for hit in group}
    if not judged & {hit for hits, _ in pairs for hit in hits}:
        return  # ids that never meet are refused

    result = rb.evaluate(rows_of(*pairs), list(MEASURES))

    for ours, theirs in MEASURES.items():
        values = {query: scores[theirs] for query, scores in expected.items()}
        assert result.per_query[ours] == pytest.approx(values)


def test_a_run_counts_a_group_once(tmp_path, monkeypatch):
    # By hand: b and a are one need, at rank 2; c is at rank 4: nDCG .651, recall 1.
    monkeypatch.chdir(tmp_path)
    rows = rows_of((["x", "a", "b", "c"], [["b", "a"], ["c"]]), (["x", "b"], [["b"], ["z"]]))

    experiment = rb.run_experiment(dataset=rows)

    scores = experiment.per_query["given"]
    assert scores["ndcg@10"]["q0"] == pytest.approx(0.6509, abs=1e-4)
    assert scores["recall@10"] == {"q0": 1.0, "q1": 0.5}
    assert scores["precision@5"]["q0"] == 2 / 5, "a second hit of a group adds nothing"


def test_a_retriever_over_a_corpus_meets_alternatives(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"query": "q", "retrieval_gt": json.dumps([["a", "b"], ["c"]])}]
    corpus = {"a": "one", "b": "two", "c": "three", "d": "four"}

    experiment = rb.run_experiment(
        dataset=rows, documents=corpus, retrievers={"mine": lambda question, k: ["b", "a", "c"]}
    )

    assert [*experiment.per_query["mine"]["recall@10"].values()] == [1.0]
    assert experiment.summary["systems"][0]["causes"]["found"] == 1


def test_an_id_in_two_groups_is_refused(assert_message):
    with pytest.raises(rb.DataError) as error:
        rb.evaluate(rows_of((["a"], [["a", "b"], ["c", "a"]])))
    assert_message(error.value)
