"""The binary measures, `err`, `rbp` and `judged`: values of published lessons, worked by hand."""

import numpy as np
import pytest

from ragbench.errors import OptionError
from ragbench.score.retrieval.notation import parse_measure
from ragbench.score.retrieval.ranking import rank


def value_of(name, ranking, judged):
    run = {"q": {doc: float(-position) for position, doc in enumerate(ranking)}}
    qrels = judged if isinstance(judged, dict) else dict.fromkeys(judged, 1)
    return parse_measure(name).score(rank({"q": qrels}, run))[0]


@pytest.mark.costly
@pytest.mark.parametrize(
    ("name", "ranking", "judged", "expected"),
    [
        pytest.param("precision@3", "axbyc", "abc", 2 / 3, id="P@3 of 1,0,1"),
        pytest.param("precision@4", "axbyc", "abc", 2 / 4, id="P@4 of 1,0,1,0"),
        pytest.param("precision@5", "axbyc", "abc", 3 / 5, id="P@5 of 1,0,1,0,1"),
        pytest.param("precision@10", "ab", "ab", 2 / 10, id="a short list divides by k"),
        pytest.param("precision(rel=2)@2", "ab", {"a": 1, "b": 2}, 1 / 2, id="grade 2 counts"),
        pytest.param("recall@2", "axbyc", "abcd", 0.25, id="1 of 4 within 2"),
        pytest.param("f1@3", "axb", "abcdefghij", 0.3077, id="2 * 2/3 * 0.2 / (2/3 + 0.2)"),
        pytest.param("f1@3", "xyz", "ab", 0.0, id="no hit: 0, not 0/0"),
        pytest.param("map", "axbyc", "abcdefghij", 0.226667, id="(1 + 2/3 + 3/5) / 10"),
        pytest.param("map", "abc", "abcdefghij", 0.3, id="3 / 10"),
        pytest.param("map@3", "axb", "abcde", 1 / 3, id="(1 + 2/3) / 5"),
        pytest.param("map(divide=min)@3", "axb", "abcde", 5 / 9, id="(1 + 2/3) / min(3, 5)"),
        pytest.param("map(divide=min)@3", "axb", "ab", 5 / 6, id="(1 + 2/3) / min(3, 2)"),
        pytest.param("mrr", "xya", "a", 1 / 3, id="first hit at 3"),
        pytest.param("mrr@2", "xya", "a", 0.0, id="first hit beyond the cut-off"),
        pytest.param("mrr@2", "xab", "ab", 1 / 2, id="first hit at 2"),
        pytest.param("hit_rate@2", "xya", "a", 0.0, id="missed within 2"),
        pytest.param("hit_rate@3", "xya", "a", 1.0, id="found within 3"),
        pytest.param("r_precision", "axbc", "abc", 2 / 3, id="2 of the first R = 3"),
        pytest.param("bpref", "xa", {"a": 1, "x": 0}, 0.0, id="1 - 1/min(1, 1)"),
        pytest.param("bpref", "xa", {"a": 1, "x": -1}, 1.0, id="negative: as unjudged"),
        pytest.param("rbp(p=0.5)", "axb", "ab", 0.625, id="0.5 * (1 + 0.25)"),
        pytest.param("rbp", "xa", "a", 0.16, id="0.2 * 0.8"),
        pytest.param("rbp(p=0.5,gain=graded)", "ab", {"a": 1, "b": 4}, 0.375, id="(1/4 + 1/2) / 2"),
        pytest.param("err(max=4)", "ab", {"a": 4, "b": 2}, 0.943359, id="15/16 + 1/16 * 3/16 / 2"),
        pytest.param("err@1", "ab", {"a": 1, "b": 2}, 1 / 4, id="max = 2 from the qrels: (2-1)/4"),
        pytest.param("err(max=1)", "a", {"a": 3}, 1 / 2, id="a larger grade counts as max"),
        pytest.param("gmap", "xyz", "a", -11.512925, id="ln of trec_eval's floor of 1e-5"),
        pytest.param("gmap", "xa", "a", -0.693147, id="ln(1/2)"),
        pytest.param("iprec_at_recall@0.5", "axyb", "ab", 1.0, id="1/1 once one of two is found"),
        pytest.param("iprec_at_recall@1", "axyb", "ab", 1 / 2, id="2/4 once both are found"),
        pytest.param("iprec_at_recall@0", "xab", "ab", 2 / 3, id="the best of 0/1, 1/2, 2/3"),
        pytest.param("iprec_at_recall@1", "axy", "ab", 0.0, id="never reached"),
        pytest.param("11pt_avg", "axyb", "ab", 9.5 / 11, id="1 at five levels, 1/2 at six"),
        pytest.param("set_p", "axyb", "abc", 2 / 4, id="2 of 4 retrieved"),
        pytest.param("set_p", "", "abc", 0.0, id="nothing retrieved"),
        pytest.param("set_recall", "axyb", "abc", 2 / 3, id="2 of 3 relevant"),
        pytest.param("set_relative_p", "ax", "abc", 1 / 2, id="1 of min(2, 3) possible"),
        pytest.param("set_map", "axyb", "abc", 1 / 3, id="2/4 * 2/3"),
        pytest.param("set_f", "axyb", "abc", 4 / 7, id="2 * 2 / (4 + 3)"),
        pytest.param("set_f(beta=2)", "ax", "abc", 0.375, id="3 * 1/2 * 1/3 / (2/2 + 1/3)"),
        pytest.param("set_f(beta=0)", "ax", "abc", 0.5, id="precision alone"),
        pytest.param("infap", "axb", {"a": 1, "b": 1, "x": 0}, 5 / 6, id="as map: all is judged"),
        pytest.param("infap", "axb", {"a": 1, "b": 1, "x": -1}, 1.0, id="x was pooled, not judged"),
        pytest.param("infap", "axb", {"a": 1, "b": 1}, 5 / 6, id="x was not pooled"),
        pytest.param("lrap", "axb", "ab", 5 / 6, id="no ties: map"),
        pytest.param("rbp_residual(p=0.5)", "axb", "ab", 0.375, id="1 - 0.5 * (1 + 0.25)"),
        pytest.param("rbp_residual(p=0.5)@1", "axb", "ab", 0.5, id="1 - 0.5"),
        pytest.param("num_q", "a", "a", 1.0, id="one query"),
        pytest.param("judged@3", "axb", {"a": 0, "b": 1}, 2 / 3, id="2 of 3"),
        pytest.param("judged@3", "a", {"a": 0}, 1.0, id="divided by what was retrieved"),
        pytest.param("relative_p@2", "axb", "abc", 1 / 2, id="one of two possible"),
        pytest.param("relative_p@5", "axb", "ab", 1.0, id="both of the two possible"),
        pytest.param("r_precision_mult@0.5", "xab", "abcd", 1 / 2, id="floor(0.5*4+0.9) = 2 ranks"),
        pytest.param("r_precision_mult@2", "xab", "ab", 2 / 4, id="four ranks, one of them empty"),
        pytest.param("r_precision_mult@0.01", "a", "ab", 0.0, id="floor(0.92) = no rank"),
        pytest.param("utility", "axy", "ab", -1.0, id="1 - 2"),
        pytest.param("utility(a=3,b=0,c=-2)", "axy", "ab", 1.0, id="3 - 2"),
        pytest.param("utility(d=0.5,documents=9)", "axy", "ab", 1.5, id="1 - 2 + (9-4)/2"),
        pytest.param("bing", "xab", "abc", 0.420620, id="(1/log2(3) + 1/log2(3)) / 3"),
        pytest.param("g", "xba", {"a": 3, "b": 1}, 0.580868, id="(1/log2(5) + 3/log2(3)) / 4"),
        pytest.param("g(gains={3:1})", "xba", {"a": 3, "b": 1}, 0.630930, id="2/log2(3) / 2"),
        pytest.param("g(gains={1:0.5})", "xa", "a", 0.553294, id="0.5/log2(2+2-0.5) / 0.5"),
        pytest.param("ndcg_rel", "xb", "ab", 0.386853, id="twice 0.6309 / 1.6309, over 2"),
        pytest.param("ndcg_rel", "ba", {"a": 2, "b": 1}, 0.679860, id="(1/2 + 0.8597) / 2"),
        pytest.param("rndcg", "axyz", "ab", 0.613147, id="1/1.6309 at 2 and at the end"),
        pytest.param("rndcg", "ax", "ab", 0.613147, id="1/1.6309 at 2; no end of its own"),
        pytest.param("rndcg(gains={1:1,2:1})", "ba", {"a": 2, "b": 1}, 1.0, id="one level of gain"),
        pytest.param("ndcg(gains={0:1})", "xa", {"a": 1, "x": 0}, 1.0, id="grade 0 gains as much"),
        pytest.param("ndcg(gains={1:0})", "ab", {"a": 1, "b": 2}, 0.630930, id="1/log2(3)"),
        pytest.param("dcg@9", "xba", {"a": 3, "b": 1}, 2.130930, id="1/log2(3) + 3/log2(4)"),
        pytest.param("ideal_dcg@9", "x", {"a": 3, "b": 1}, 3.630930, id="3 + 1/log2(3)"),
        pytest.param("gm_bpref", "xa", {"a": 1, "x": 0}, -11.512925, id="ln of the floor of 1e-5"),
        pytest.param("yaap", "xab", "abc", -0.268264, id="ln((1 + 7/6) / (1 + 3 - 7/6))"),
        pytest.param("unjudged@4", "axb", {"a": 1, "b": -1}, 2 / 4, id="x and b, of four ranks"),
        pytest.param("num_nonrel_judged_ret", "axb", {"a": 0, "b": -1}, 1.0, id="a alone"),
        pytest.param("11pt_avg(levels={0.5,1})", "axyb", "ab", 3 / 4, id="(1 + 2/4) / 2"),
        pytest.param("num_rel_ret", "axb", "abc", 2.0, id="2 found of 3"),
    ],
)  # fmt: skip
def test_hand_worked(name, ranking, judged, expected):
    assert value_of(name, ranking, judged) == pytest.approx(expected, abs=5e-5)


def test_mean_over_the_three_questions_of_a_lesson():
    # Hits at rank 3 and 1, and a miss: hit rate 66.66 %, MRR 44.4 %
    qrels = {"q1": {"a": 1}, "q2": {"a": 1}, "q3": {"a": 1}}
    run = {"q1": {"x": 3, "y": 2, "a": 1}, "q2": {"a": 3}, "q3": {"x": 3, "y": 2}}
    ranked = rank(qrels, run)

    assert parse_measure("hit_rate@3").score(ranked).mean() == pytest.approx(2 / 3)
    assert parse_measure("mrr").score(ranked).mean() == pytest.approx(4 / 9)


@pytest.mark.parametrize(("trec_eval", "expected"), [(9, 0.0), (10, 1.0)])
def test_recall_is_rounded_as_the_version_of_trec_eval_does(trec_eval, expected):
    # 0.3 of 4 documents is 1.2: two of them in trec_eval 9, one in 10; one was found
    ranked = rank({"q": dict.fromkeys("abcd", 1)}, {"q": {"a": 1.0}}, trec_eval=trec_eval)

    assert parse_measure("iprec_at_recall@0.3").score(ranked) == expected


def test_tied_documents_count_at_the_end_of_their_tie():
    # A tie of a and x, then b alone: (1/2 + 2/3) / 2
    ranked = rank({"q": {"a": 1, "b": 1}}, {"q": {"a": 9, "x": 9, "b": 8}})

    assert parse_measure("lrap").score(ranked) == pytest.approx([(1 / 2 + 2 / 3) / 2])


def test_judged_of_an_empty_list_is_not_applicable():
    assert np.isnan(value_of("judged@3", "", "a"))


@pytest.mark.parametrize(
    "name",
    ["precision@1", "recall@1", "f1@1", "hit_rate@1", "mrr", "r_precision", "bpref", "rbp", "err"],
)
def test_nothing_relevant_is_not_zero(name):
    assert np.isnan(value_of(name, "ab", {"a": 0, "b": -1}))


@pytest.mark.parametrize("p", [0, 1, -0.5])
def test_persistence_lies_between_0_and_1(p, assert_message):
    with pytest.raises(OptionError) as caught:
        parse_measure(f"rbp(p={p})")
    assert_message(caught.value, "rbp: p")
