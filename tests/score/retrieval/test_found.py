"""Found: any of the gold, or all of it, among the first hits; against sets and pytrec_eval."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ragbench as rb
from ragbench.comparison.cause_rules import RankingFacts
from ragbench.comparison.gold import gold_pieces, meet_pieces, met_gold
from ragbench.score.retrieval.found import MetGold, found
from ragbench.score.retrieval.ranking import rank
from ragbench.types import Cause, Span
from tests.strategies import qrels_and_run

WITHOUT_REFERENCE = {
    "found": "equals success@k of trec_eval where gold is documents, which a property holds; spans "
    "are held against sets of characters"
}


@pytest.mark.parametrize(
    ("first", "last", "unplaced", "any_at_3", "all_at_3"),
    [
        (2, 3, 0, 1, 1),
        (3, 4, 0, 1, 0),
        (4, 4, 0, 0, 0),
        (0, 0, 0, 0, 0),
        # a passage without a place at rank 3 may hold what is not met, at rank 4 it is not read
        (0, 0, 3, math.nan, math.nan),
        (0, 0, 4, 0, 0),
        (1, 0, 2, 1, math.nan),
    ],
)
def test_values_by_hand(first, last, unplaced, any_at_3, all_at_3):
    ranks = MetGold(*(np.array([n]) for n in (first, last, unplaced)), np.zeros(1, np.uint8))

    values = [found(ranks, k=3)[0], found(ranks, k=3, need="all")[0]]

    assert values == pytest.approx([any_at_3, all_at_3], nan_ok=True)


@given(qrels_and_run(), st.integers(1, 5))
def test_gold_documents_are_found_where_success_at_k_is_1(case, k):
    import pytrec_eval

    qrels, run = case
    names = [f"found@{k}", f"all_hit@{k}", f"recall@{k}", f"hit_rate@{k}"]
    ours = rb.evaluate_run(run, qrels, names, missing="zero").per_query
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"success." + str(k)})
    theirs = evaluator.evaluate(run)

    for query, value in ours[f"found@{k}"].items():
        assert value == pytest.approx(ours[f"hit_rate@{k}"][query], nan_ok=True)
        if query in theirs and not math.isnan(value):
            assert value == theirs[query][f"success_{k}"]
        everything = float(ours[f"recall@{k}"][query] == 1)
        everything = math.nan if math.isnan(value) else everything
        assert ours[f"all_hit@{k}"][query] == pytest.approx(everything, nan_ok=True)


places = st.tuples(st.sampled_from("ab"), st.integers(0, 8), st.integers(1, 4)).map(
    lambda place: Span(place[0], place[1], place[1] + place[2])
)


@given(
    st.lists(places, min_size=1, max_size=3, unique_by=lambda span: span.label),
    st.lists(places, max_size=6),
    st.sampled_from([(), ("c",)]),
    st.integers(1, 6),
)
def test_spans_are_found_where_a_passage_shares_a_character(spans, passages, whole, k):
    grades = dict.fromkeys([*(span.document for span in spans), *whole], 1)
    pieces = gold_pieces(grades, spans)
    hits = [(span.document, span) for span in passages]

    ranks = met_gold([meet_pieces(RankingFacts(gold=len(pieces)), pieces, hits, ("a", "b", "c"))])

    def characters(span):
        return {(span.document, offset) for offset in range(span.start, span.end)}

    read = set().union(*map(characters, passages[:k]))
    is_met = [bool(characters(span) & read) for span in spans] + [False for _ in whole]
    assert found(ranks, k=k)[0] == any(is_met)
    assert found(ranks, k=k, need="all")[0] == all(is_met)


def test_documents_with_one_quote_are_alternatives():
    quote = "Pay day is the 25th."
    spans = [Span("a", 0, 20, quote), Span("b", 5, 26, "Pay day is  the 25th.")]
    pieces = gold_pieces({"a": 1, "b": 1}, spans)

    facts = meet_pieces(RankingFacts(gold=1), pieces, [("x", None), ("b", Span("b", 0, 30))])

    assert (facts.met_at("any"), facts.met_at("all")) == (2, 2)


def test_a_query_without_gold_has_the_reason():
    facts = [
        RankingFacts(gold=0),
        RankingFacts(),
        RankingFacts(ambiguous=("a", "b")),
        RankingFacts(answer_rank=2),
    ]

    ranks = met_gold(facts, unknown_ids=[1])

    causes = [Cause(int(cause)) for cause in ranks.causes]
    assert causes == [Cause.NO_RELEVANT, Cause.UNKNOWN_IDS, Cause.AMBIGUOUS_QUOTE, Cause.SCORED]
    assert found(ranks, k=2).tolist() == pytest.approx([math.nan] * 3 + [1], nan_ok=True)


def test_averaged_ties_are_refused():
    with pytest.raises(rb.OptionError, match="average only with"):
        rb.evaluate_run({"q": {"a": 1.0}}, {"q": {"a": 1}}, ["found@1"], ties="average")
    assert MetGold.of_grades(rank({}, {})).any_rank.shape == (0,)
