"""`match: {level: document}`: by hand, plainly, and by pytrec_eval on what was folded plainly."""

import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.score.retrieval.passage_matching import before_last, fold
from ragbench.score.retrieval.score_run import score_run
from ragbench.types import Run

PASSAGES = [f"{document}#{part}" for document in ("a", "b", "c", "site#1") for part in range(3)]
scored = st.dictionaries(st.sampled_from(PASSAGES), st.sampled_from([0.25, 0.5, 0.75, 1.0]))
runs = st.dictionaries(st.sampled_from(["q1", "q2", "q3"]), scored, max_size=3)
qrels = st.dictionaries(
    st.sampled_from(["q1", "q2"]),
    st.dictionaries(st.sampled_from(["a", "b", "c", "site#1", "d"]), st.integers(0, 3), min_size=1),
    min_size=1,
)


def folded(run, documents=None):
    if documents is None:
        documents = {q: {p: before_last(p, "#") for p in hits} for q, hits in run.items()}
    return fold(Run.from_dict(run), documents)


@pytest.mark.parametrize(
    ("hits", "expected"),
    [
        pytest.param(
            {"a#0": 3.0, "a#1": 2.0, "b#0": 1.0},
            [("a", 3.0), ("b", 1.0)],
            id="the second chunk of a takes no rank",
        ),
        pytest.param({"b#7": 1.0, "a#0": 0.5, "b#0": 2.0}, [("b", 2.0), ("a", 0.5)], id="best"),
        pytest.param({"a#0": 1.0, "b#0": 1.0}, [("b", 1.0), ("a", 1.0)], id="ties by document"),
        pytest.param({"whole": 2.0, "a#0": 1.0}, [("whole", 2.0), ("a", 1.0)], id="no separator"),
        pytest.param({"whole": 1.0, "whole#3": 2.0}, [("whole", 2.0)], id="document and its part"),
        pytest.param({}, [], id="nothing retrieved"),
    ],
)
def test_hand_worked(hits, expected):
    assert folded({"q": hits}).ranking("q") == expected


def test_equal_scores_stand_where_the_best_passage_stood():
    # As listed: b at 1, a at 3, when its better passage came; c at 2 goes before a
    run = {"q": {"b#0": 1.0, "a#0": 0.5, "c#0": 1.0, "a#1": 1.0}}

    assert list(folded(run).to_dict()["q"]) == ["b", "c", "a"]
    again = {"q": {"a#0": 1.0, "b#0": 1.0, "a#1": 1.0}}
    assert list(folded(again).to_dict()["q"]) == ["a", "b"], "no better passage, no new place"


def test_a_passage_without_a_document_stays_itself():
    run = folded({"q": {"x": 2.0, "y": 1.0}}, {"q": {"y": "d"}})

    assert run.to_dict() == {"q": {"x": 2.0, "d": 1.0}}


def test_what_the_run_says_of_itself_is_kept():
    run = Run.from_rankings({"q": ["a#0", "a#0", "b#0"]}, "mine")

    after = fold(run, {"q": {"a#0": "a"}})

    assert (after.name, after.duplicates, after.substituted) == ("mine", {"q": 1}, 1)


@settings(max_examples=30)
@given(runs, qrels)
def test_scores_are_those_of_the_folded_run_by_pytrec_eval(run, judged):
    plainly = {
        query: {
            document: max(score for passage, score in hits.items() if passage[:-2] == document)
            for document in {passage[:-2] for passage in hits}
        }
        for query, hits in run.items()
        if hits  # pytrec_eval crashes on empty lists
    }
    names = {"ndcg@2": "ndcg_cut_2", "map": "map", "recall@2": "recall_2", "mrr": "recip_rank"}
    oracle = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.2", "map", "recall.2", "recip_rank"})
    theirs = oracle.evaluate(plainly)

    ours = score_run(folded(run), judged, list(names), no_relevant="zero")

    for column in ours.columns:
        for query, value in zip(ours.query_ids, column.values, strict=True):
            expected = theirs.get(query, {}).get(names[column.name], 0.0)
            assert value == pytest.approx(expected, abs=1e-9)


@settings(max_examples=30)
@given(runs)
def test_each_document_once_at_the_place_of_its_best_passage(run):
    after = folded(run)

    for query in run:
        passages = [before_last(name, "#") for name, _ in Run.from_dict(run).ranking(query)]
        documents = [name for name, _ in after.ranking(query)]
        scores = [score for _, score in after.ranking(query)]
        assert sorted(documents) == sorted(set(passages))
        if len(set(scores)) == len(scores):
            assert documents == list(dict.fromkeys(passages))
