"""Names of measures: ours, trec_eval's, ir_measures', and what is wrong with others."""

import re

import pytest

from ragbench.errors import NotBuiltYet, OptionError
from ragbench.score.retrieval import MEASURES
from ragbench.score.retrieval.notation import parse_measure, parse_measures


class TheirObject:
    """What a measure object of ir_measures is to us: something with a text."""

    def __str__(self):
        return "nDCG@10"


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("ndcg@10", "ndcg@10"),
        ("ndcg", "ndcg"),
        (" ndcg ( gain = exp ) @10 ", "ndcg(gain=exp)@10"),
        ("ndcg(gain=linear)@10", "ndcg@10"),
        ("ndcg(discount=jk,gain=exp,base=10)@5", "ndcg(gain=exp,discount=jk,base=10)@5"),
        ("ndcg_exp@10", "ndcg(gain=exp)@10"),
        ("ndcg_jk@10", "ndcg(discount=jk)@10"),
        ("dcg_exp@3", "dcg(gain=exp)@3"),
        ("dcg_jk(base=3)@3", "dcg(discount=jk,base=3)@3"),
        ("success@1", "hit_rate@1"),
        ("accuracy@3", "hit_rate@3"),
        ("rbp(p=0.5)", "rbp(p=0.5)"),
        ("err(max=4)@20", "err(max=4)@20"),
        ("ndcg_cut_10", "ndcg@10"),
        ("ndcg_cut.10", "ndcg@10"),
        ("map_cut_100", "map@100"),
        ("P_5", "precision@5"),
        ("recall_1000", "recall@1000"),
        ("success_1", "hit_rate@1"),
        ("recip_rank", "mrr"),
        ("Rprec", "r_precision"),
        ("gm_map", "gmap"),
        ("nDCG@10", "ndcg@10"),
        ("nDCG(dcg='exp-log2')@10", "ndcg(gain=exp)@10"),
        ("P@5", "precision@5"),
        ("P(rel=2)@5", "precision(rel=2)@5"),
        ("R@100", "recall@100"),
        ("RR", "mrr"),
        ("RR@10", "mrr@10"),
        ("AP", "map"),
        ("AP(rel=2)@10", "map(rel=2)@10"),
        ("Success@1", "hit_rate@1"),
        ("Bpref", "bpref"),
        ("MRR@10", "mrr@10"),
        (TheirObject(), "ndcg@10"),
    ],
)
def test_spellings(written, name):
    measure = parse_measure(written)

    assert measure.name == name
    assert measure.written == str(written).strip()
    assert parse_measure(measure.name).name == name, "the canonical name reads as itself"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["map", "ndcg_cut.5,10"], ["map", "ndcg@5", "ndcg@10"]),
        ("P.5,10", ["precision@5", "precision@10"]),
        ([], []),
    ],
)
def test_several_names(names, expected):
    assert [measure.name for measure in parse_measures(names)] == expected


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("ndgc@10", "measure: found 'ndgc@10', allowed: hit_rate@k, mrr, precision@k"),
        ("ndgc@10", "did you mean 'ndcg@10'?"),
        ("presicion(rel=2)@5", "did you mean 'precision(rel=2)@5'?"),
        ("ndcg@0", "ndcg: k: found 0, allowed: an integer >= 1"),
        ("ndcg@-1", "ndcg: k: found -1, allowed: an integer >= 1"),
        ("ndcg@ten", "ndcg: k: found 'ten', allowed: an integer >= 1"),
        ("ndcg@", "ndcg: k: found '', allowed: an integer >= 1"),
        ("precision", "precision: k: found None, allowed: a cut-off, as in precision@10"),
        ("bpref@10", "bpref: k: found '10', allowed: no cut-off: bpref"),
        ("map(rel=0)", "map: rel: found 0, allowed: an integer >= 1"),
        ("map(rel=1.5)", "map: rel: found 1.5, allowed: an integer >= 1"),
        ("ndcg(gian=exp)@10", "did you mean 'gain'?"),
        ("ndcg(gain=log)@10", "ndcg: gain: found 'log', allowed: linear, exp"),
        ("ndcg(exp)@10", "options in the form name=value"),
        ("ndcg(base=10)@10", "ndcg: base: found 10, allowed: 2, or any base above 1"),
        ("ndcg_exp(gain=linear)@10", "ndcg: gain: found 'exp and linear', allowed: one value"),
        ("num_ret(rel=2)", "num_ret: options: found 'rel=2', allowed: no options"),
        ("ndcg(gain=exp", "quote a name with a comma in a YAML flow list"),
        ("discount=jk)@10", "quote a name with a comma in a YAML flow list"),
        (10, "quote a name with a comma in a YAML flow list"),
        ("", "measure: found ''"),
        ("ndcg_cut.5,10", "one measure; this names ndcg_cut_5, ndcg_cut_10"),
    ],
)
def test_errors_say_what_is_allowed(written, message):
    with pytest.raises(OptionError, match=re.escape(message)):
        parse_measure(written)


@pytest.mark.parametrize("name", [*sorted(MEASURES.planned), "infAP", "alpha_nDCG@10", "SetP"])
def test_what_the_design_has_and_this_version_lacks_is_known_by_name(name):
    with pytest.raises(NotBuiltYet, match="not built yet"):
        parse_measure(name)
