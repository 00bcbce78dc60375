"""Retrieval measures: `ndcg@10`, `map`, `mrr@10` and so on, with the values of trec_eval.

Loads no NumPy by itself: `ragbench.score.retrieval.single` scores one list without it.
"""

from ragbench.registry import Family

_PACKAGE = "ragbench.score.retrieval"

# Every measure that can be named, loaded on first use.
MEASURES = Family(
    noun="measure",
    group="ragbench.measures",
    table={
        "hit_rate": f"{_PACKAGE}.first_hits:hit_rate",
        "found": f"{_PACKAGE}.found:found",
        "leak": f"{_PACKAGE}.leak:leak",
        "mrr": f"{_PACKAGE}.first_hits:reciprocal_rank",
        "precision": f"{_PACKAGE}.precision_recall:precision",
        "recall": f"{_PACKAGE}.precision_recall:recall",
        "f1": f"{_PACKAGE}.precision_recall:f1",
        "map": f"{_PACKAGE}.average_precision:average_precision",
        "cg": f"{_PACKAGE}.dcg:cg",
        "dcg": f"{_PACKAGE}.dcg:dcg",
        "ideal_dcg": f"{_PACKAGE}.dcg:ideal_dcg",
        "ndcg": f"{_PACKAGE}.dcg:ndcg",
        "ndcg_rel": f"{_PACKAGE}.dcg:ndcg_rel",
        "rndcg": f"{_PACKAGE}.dcg:rndcg",
        "g": f"{_PACKAGE}.dcg:normalized_gain",
        "bing": f"{_PACKAGE}.dcg:binary_gain",
        "r_precision": f"{_PACKAGE}.precision_recall:r_precision",
        "r_precision_mult": f"{_PACKAGE}.precision_recall:r_precision_multiple",
        "relative_p": f"{_PACKAGE}.precision_recall:relative_precision",
        "bpref": f"{_PACKAGE}.incomplete_judgements:bpref",
        "rbp": f"{_PACKAGE}.reader_models:rbp",
        "rbp_residual": f"{_PACKAGE}.reader_models:rbp_residual",
        "err": f"{_PACKAGE}.reader_models:err",
        "gmap": f"{_PACKAGE}.average_precision:geometric_map",
        "gm_bpref": f"{_PACKAGE}.incomplete_judgements:geometric_bpref",
        "yaap": f"{_PACKAGE}.average_precision:yet_another_average_precision",
        "lrap": f"{_PACKAGE}.average_precision:label_ranking_average_precision",
        "infap": f"{_PACKAGE}.average_precision:inferred_average_precision",
        "iprec_at_recall": f"{_PACKAGE}.precision_recall:iprec_at_recall",
        "11pt_avg": f"{_PACKAGE}.precision_recall:eleven_point_average",
        "set_p": f"{_PACKAGE}.precision_recall:set_precision",
        "set_recall": f"{_PACKAGE}.precision_recall:set_recall",
        "set_relative_p": f"{_PACKAGE}.precision_recall:set_relative_precision",
        "set_map": f"{_PACKAGE}.precision_recall:set_average_precision",
        "set_f": f"{_PACKAGE}.precision_recall:set_f",
        "utility": f"{_PACKAGE}.precision_recall:utility",
        "judged": f"{_PACKAGE}.incomplete_judgements:judged",
        "unjudged": f"{_PACKAGE}.incomplete_judgements:unjudged",
        "num_ret": f"{_PACKAGE}.counts:num_ret",
        "num_rel": f"{_PACKAGE}.counts:num_rel",
        "num_rel_ret": f"{_PACKAGE}.counts:num_rel_ret",
        "num_nonrel_judged_ret": f"{_PACKAGE}.counts:num_nonrel_judged_ret",
        "num_q": f"{_PACKAGE}.counts:num_q",
        "answer_hit": f"{_PACKAGE}.passage_matching:answer_hit",
        "span_recall": f"{_PACKAGE}.span_overlap:span_recall",
        "span_precision": f"{_PACKAGE}.span_overlap:span_precision",
        "span_iou": f"{_PACKAGE}.span_overlap:span_iou",
        "alpha_ndcg": f"{_PACKAGE}.diversity:alpha_ndcg",
        "subtopic_recall": f"{_PACKAGE}.diversity:subtopic_recall",
        "redundancy": f"{_PACKAGE}.diversity:redundancy",
    },
    # of trec_eval, and hardly read by anybody
    rare=frozenset(
        {
            *("yaap", "infap", "g", "bing", "rndcg", "ndcg_rel", "utility", "gm_bpref"),
            *("relative_p", "set_relative_p", "r_precision_mult", "11pt_avg"),
        }
    ),
)
