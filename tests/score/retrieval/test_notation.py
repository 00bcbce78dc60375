"""Names of measures: ours, trec_eval's, ir_measures', and what is wrong with others."""

import ir_measures
import pytest
import pytrec_eval

from ragbench.errors import OptionError
from ragbench.score.retrieval import MEASURES
from ragbench.score.retrieval.base import spec_of
from ragbench.score.retrieval.notation import nearest_measure, parse_measure, parse_measures
from ragbench.score.retrieval.trec_eval import expand

_SPECS = {name: spec_of(MEASURES.load(name)) for name in [*MEASURES.table][:3]}
FIRST = ", ".join(f"{n}@k" if s.cutoff == "required" else n for n, s in _SPECS.items())


class TheirObject:
    """Stand in for a measure object of ir_measures: an object with a text."""

    def __str__(self):
        return "nDCG@10"


SPELLINGS = [
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
    ("recall_any@5", "hit_rate@5"),
    ("recall_any(rel=2)@5", "hit_rate(rel=2)@5"),
    ("all_hit@5", "found(need=all)@5"),
    ("recall_all@5", "found(need=all)@5"),
    ("Recall_All@5", "found(need=all)@5"),
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
    ("precision@5(rel=2)", "precision(rel=2)@5"),
    ("ndcg@10 (gain=exp, discount=jk)", "ndcg(gain=exp,discount=jk)@10"),
    ("iprec_at_recall@0.5(rel=2)", "iprec_at_recall(rel=2)@0.5"),
    ("R@100", "recall@100"),
    ("RR", "mrr"),
    ("RR@10", "mrr@10"),
    ("AP", "map"),
    ("AP(rel=2)@10", "map(rel=2)@10"),
    ("Success@1", "hit_rate@1"),
    ("Bpref", "bpref"),
    ("BPref", "bpref"),
    ("RPrec", "r_precision"),
    ("Precision@5", "precision@5"),
    ("Recall@5", "recall@5"),
    ("MAP", "map"),
    ("nDCG", "ndcg"),
    ("NDCG@5", "ndcg@5"),
    ("RBP(p=0.8)", "rbp"),
    ("RBP(rel=2)@10", "rbp(rel=2)@10"),
    ("ERR@20", "err(max=4)@20"),
    ("ERR(max=3)@20", "err(max=3)@20"),
    ("err@20", "err@20"),
    ("Judged@10", "judged@10"),
    ("infAP", "infap"),
    ("infAP(rel=2)", "infap(rel=2)"),
    ("SetP", "set_p"),
    ("SetP(rel=2)", "set_p(rel=2)"),
    ("SetRelP", "set_relative_p"),
    ("SetR", "set_recall"),
    ("SetF", "set_f"),
    ("SetF(beta=0.5)", "set_f(beta=0.5)"),
    ("SetAP", "set_map"),
    ("NumQ", "num_q"),
    ("NumRet", "num_ret"),
    ("NumRet(rel=2)", "num_rel_ret(rel=2)"),
    ("NumRelRet", "num_rel_ret"),
    ("NumRel(rel=2)", "num_rel(rel=2)"),
    ("set_P", "set_p"),
    ("set_relative_P", "set_relative_p"),
    ("set_F", "set_f"),
    ("set_F.0.5", "set_f(beta=0.5)"),
    ("set_F_2.0", "set_f(beta=2)"),
    ("iprec_at_recall_0.10", "iprec_at_recall@0.1"),
    ("iprec_at_recall.0.1", "iprec_at_recall@0.1"),
    ("iprec_at_recall_0.00", "iprec_at_recall@0"),
    ("iprec_at_recall_1.00", "iprec_at_recall@1"),
    ("11pt_avg", "11pt_avg"),
    ("11pt_avg..25,.5,.75", "11pt_avg(levels={.25,.5,.75})"),
    ("relative_P_5", "relative_p@5"),
    ("Rprec_mult.0.35", "r_precision_mult@0.35"),
    ("Rprec_mult_2.00", "r_precision_mult@2"),
    ("utility", "utility"),
    ("utility.2,-1.0,0,0", "utility(a=2)"),
    ("ndcg.1=3,2=4.5", "ndcg(gains={1:3,2:4.5})"),
    ("Rndcg.1=3", "rndcg(gains={1:3})"),
    ("nDCG(gains={1:2, 2:5})@10", "ndcg(gains={1:2,2:5})@10"),
    ("binG", "bing"),
    ("G", "g"),
    ("Rndcg", "rndcg"),
    ("gm_bpref", "gm_bpref"),
    ("unj.5", "unjudged@5"),
    ("num_q", "num_q"),
    ("ndcg_cut@10", "ndcg@10"),
    ("MRR@10", "mrr@10"),
    (TheirObject(), "ndcg@10"),
]


def test_spellings():
    for spelling, name in SPELLINGS:
        measure = parse_measure(spelling)

        assert measure.name == name, spelling
        assert measure.label == str(spelling).strip()
        assert parse_measure(measure.name).name == name, f"{name} does not read as itself"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("Rprec_mult.2,0.5", ["r_precision_mult@2", "r_precision_mult@0.5"]),
        (["map", "ndcg_cut.5,10"], ["map", "ndcg@5", "ndcg@10"]),
        ("P.5,10", ["precision@5", "precision@10"]),
        ("iprec_at_recall.0,.25", ["iprec_at_recall@0", "iprec_at_recall@0.25"]),
        ("set_F.0.5,2", ["set_f(beta=0.5)", "set_f(beta=2)"]),
        ([], []),
    ],
)
def test_several_names(names, expected):
    assert [measure.name for measure in parse_measures(names)] == expected


@pytest.mark.parametrize(
    ("spelling", "place"),
    [
        ("ndgc@10", "measure"),
        ("presicion(rel=2)@5", "measure"),
        ("presicion@5(rel=2)", "measure"),
        (
            "ndcg@10(gain=exp",
            "measure",
        ),
        ("ndcg@(gain=exp)", "ndcg: k"),
        ("ndcg@0", "ndcg: k"),
        ("ndcg@-1", "ndcg: k"),
        ("ndcg@ten", "ndcg: k"),
        ("ndcg@", "ndcg: k"),
        ("ndcg_cut", "ndcg_cut: k"),
        ("map_cut", "map_cut: k"),
        ("success", "hit_rate: k"),
        ("P_2.5", "precision: k"),
        ("iprec_at_recall", "iprec_at_recall: recall"),
        ("IPrec@0.1", "measure"),
        ("iprec_at_recall(recall=0.1)@0.2", "iprec_at_recall: options"),
        ("iprec_at_recall@low", "iprec_at_recall: recall"),
        ("nDCG(judged_only=True)@10", "ndcg: options"),
        ("precision", "precision: k"),
        ("bpref@10", "bpref: k"),
        ("map(rel=0)", "map: rel"),
        ("map(rel=1.5)", "map: rel"),
        ("ndcg(gian=exp)@10", "ndcg: options"),
        ("ndcg(gain=log)@10", "ndcg: gain"),
        ("ndcg(exp)@10", "ndcg: options"),
        ("ndcg(base=10)@10", "ndcg: base"),
        ("ndcg_exp(gain=linear)@10", "ndcg: gain"),
        ("num_ret(rel=2)", "num_ret: options"),
        ("ndcg(gain=exp", "measure"),
        ("discount=jk)@10", "measure"),
        (10, "measure"),
        ("", "measure"),
        ("ndcg(gains={1:-1})", "ndcg: gains"),
        ("ndcg(gains={1:3,1:4})", "ndcg: gains"),
        ("ndcg(gains={1:2+1})", "ndcg: gains"),
        ("ndcg(gains={a:3})", "ndcg: gains"),
        ("ndcg(gains=1:3)", "ndcg: gains"),
        ("ndcg(gain=exp,gains={1:3})", "ndcg: gains"),
        ("11pt_avg(levels={1.5})", "11pt_avg: levels"),
        ("r_precision_mult@0", "r_precision_mult: multiple"),
        ("utility.1,-1,0", "measure"),
        ("utility(d=1)", "utility: documents"),
        ("prefs_simp", "measure"),
        ("ndcg_cut.5,10", "measure"),
    ],
)
def test_errors_say_what_is_allowed(spelling, place, assert_message):
    with pytest.raises(OptionError) as caught:
        parse_measure(spelling)
    assert_message(caught.value, place)


FAMILIES = {
    "P": [f"precision@{k}" for k in (5, 10, 15, 20, 30, 100, 200, 500, 1000)],
    "recall": [f"recall@{k}" for k in (5, 10, 15, 20, 30, 100, 200, 500, 1000)],
    "ndcg_cut": [f"ndcg@{k}" for k in (5, 10, 15, 20, 30, 100, 200, 500, 1000)],
    "map_cut": [f"map@{k}" for k in (5, 10, 15, 20, 30, 100, 200, 500, 1000)],
    "success": ["hit_rate@1", "hit_rate@5", "hit_rate@10"],
    "relative_P": [f"relative_p@{k}" for k in (5, 10, 15, 20, 30, 100, 200, 500, 1000)],
    "Rprec_mult": [f"r_precision_mult@{t / 5:g}" for t in range(1, 11)],
    "iprec_at_recall": [f"iprec_at_recall@{t / 10:g}" for t in range(11)],
    "map": ["map"],
    "ndcg@10": ["ndcg@10"],
}


@pytest.mark.parametrize(("family", "names"), FAMILIES.items())
def test_a_family_of_trec_eval_has_its_cutoffs(family, names):
    measures = parse_measures([family], trec_eval_defaults=True)

    assert [measure.name for measure in measures] == names


def test_families_and_sets_are_those_of_trec_eval():
    # Oracle: the measures that pytrec_eval computes for a family or a set
    grades, hits = {"q": {"a": 1}}, {"q": {"a": 1.0}}
    for word in [*FAMILIES, "official", "set", "all_trec"]:
        if "@" in word:
            continue
        nicknames = pytrec_eval.supported_nicknames.get(word, {word})
        theirs = pytrec_eval.RelevanceEvaluator(grades, nicknames).evaluate(hits)["q"]
        measures = parse_measures(word, trec_eval_defaults=True, trec_eval=9)
        ours = [measure.label for measure in measures]
        facts = {"runid", "num_q", "relstring"} & set(theirs)
        assert {*ours, *facts} == set(theirs), word
        assert len(ours) == len(set(ours)), word


def test_version_10_has_more_of_all_trec():
    nine, ten = (
        {m.name for m in parse_measures("all_trec", trec_eval_defaults=True, trec_eval=version)}
        for version in (9, 10)
    )

    assert ten - nine == {"unjudged@5", "unjudged@10", "unjudged@20"}
    assert nine < ten


def test_parameters_of_a_family_replace_its_default_ones():
    names = ["P.3,7", "official", "utility.2,-1,0,0", "set"]
    measures_read = [measure.name for measure in parse_measures(names, trec_eval_defaults=True)]

    assert [name for name in measures_read if name.startswith("precision")] == [
        "precision@3",
        "precision@7",
    ]
    assert [name for name in measures_read if name.startswith("utility")] == ["utility(a=2)"]


def test_the_official_set_stands_in_the_order_of_trec_eval():
    levels = [f"iprec_at_recall_{tenths / 10:.2f}" for tenths in range(11)]
    precisions = [f"P_{k}" for k in (5, 10, 15, 20, 30, 100, 200, 500, 1000)]
    first_measures = [
        "num_ret",
        "num_rel",
        "num_rel_ret",
        "map",
        "gm_map",
        "Rprec",
        "bpref",
        "recip_rank",
    ]

    assert list(expand("official")) == [*first_measures, *levels, *precisions]


def test_objects_of_ir_measures_are_read(assert_message):
    objects = [
        (ir_measures.nDCG @ 10, "ndcg@10"),
        (ir_measures.nDCG(dcg="exp-log2") @ 10, "ndcg(gain=exp)@10"),
        (ir_measures.P(rel=2) @ 5, "precision(rel=2)@5"),
        (ir_measures.RR, "mrr"),
        (ir_measures.AP @ 100, "map@100"),
        (ir_measures.Success @ 1, "hit_rate@1"),
        (ir_measures.ERR @ 20, "err(max=4)@20"),
        (ir_measures.NumRelRet, "num_rel_ret"),
        (ir_measures.SetF(beta=0.5), "set_f(beta=0.5)"),
        (ir_measures.RBP(p=0.5, rel=1), "rbp(p=0.5)"),
        (ir_measures.nDCG(gains={1: 2, 3: 7}) @ 10, "ndcg(gains={1:2,3:7})@10"),
    ]

    for measure, name in objects:
        assert parse_measure(measure).name == name
    measures = parse_measures([measure for measure, _ in objects])
    assert [measure.name for measure in measures] == [name for _, name in objects]
    with pytest.raises(OptionError) as caught:
        parse_measure(ir_measures.Accuracy @ 5)
    assert_message(caught.value)


def test_diversity_as_ir_measures_spells_it():
    ir_measures = pytest.importorskip("ir_measures")
    assert parse_measure("alpha_nDCG(alpha=0.9)@10").name == "alpha_ndcg(alpha=0.9)@10"
    assert parse_measure(ir_measures.StRecall @ 10).name == "subtopic_recall@10"
    assert parse_measure(ir_measures.alpha_nDCG @ 20).name == "alpha_ndcg@20"


WITH_RANKS = []  # every name and alias of a measure with a cut-off of ranks, and its own name
for registered in MEASURES.table:
    declared = spec_of(MEASURES.load(registered))
    if declared.cutoff != "none" and declared.at == "k":
        for spelling in (registered, *declared.aliases):
            WITH_RANKS.append((spelling, registered))


WITH_10 = (
    *("{}10", "{}_10", "{}-10", "{} 10", "{}_at_10", "{}_cut_10"),
    *("{}@ten", "{}@10.0", "{}(10)"),
)


@pytest.mark.parametrize(("spelling", "measure"), WITH_RANKS)
def test_a_cutoff_in_any_writing_is_read_or_suggested(spelling, measure):
    expected = parse_measure(f"{spelling}@10").name
    assert expected.partition("(")[0].partition("@")[0] == measure
    for text in (form.format(spelling) for form in WITH_10):
        try:
            name = parse_measure(text).name
        except OptionError as error:
            name = error.nearest
        assert name == expected, text


@pytest.mark.parametrize(
    ("text", "measure"),
    [
        ("p5", "precision@5"),
        ("hits@5", "hit_rate@5"),
        ("f15", "f1@5"),  # the digit of f1 is part of its name
        ("ndgc10", "ndcg@10"),
        ("ndgc(gain=exp)@10", "ndcg(gain=exp)@10"),
        ("recal", "recall@10"),  # it needs a cut-off
        ("ndcg@k", "ndcg@10"),
        ("R@5x", "recall@5"),
        ("rbp0.8", "rbp"),  # a share is no rank
        ("num_rett5", "num_ret"),  # it takes no cut-off
        ("iprec_at_recal", "iprec_at_recall@0.5"),
        ("top5", None),
        ("5", None),
    ],
)
def test_the_nearest_measure_is_what_was_meant(text, measure):
    assert nearest_measure(text) == measure


def test_a_name_is_read_once_and_anew_with_implied_options():
    assert parse_measure("map") is parse_measure(" map")
    assert parse_measure("MAP").label == "MAP"  # another text of the same measure

    for rel in (2, 3):
        [measure] = parse_measures("map", implied={"rel": rel})
        assert measure.options == {"rel": rel}
    assert parse_measure("map").options == {}
