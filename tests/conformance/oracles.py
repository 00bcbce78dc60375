"""Which oracle each measure is held against: read by the tests and by `docs/conformance.md`."""

from __future__ import annotations

TREC_EVAL = {
    "num_ret": "num_ret",
    "num_rel": "num_rel",
    "num_rel_ret": "num_rel_ret",
    "num_q": "num_q",
    "map": "map",
    "gmap": "gm_map",
    "r_precision": "Rprec",
    "bpref": "bpref",
    "mrr": "recip_rank",
    "infap": "infAP",
    "11pt_avg": "11pt_avg",
    "ndcg": "ndcg",
    "set_p": "set_P",
    "set_relative_p": "set_relative_P",
    "set_recall": "set_recall",
    "set_map": "set_map",
    "set_f": "set_F",
    "ndcg_rel": "ndcg_rel",
    "rndcg": "Rndcg",
    "g": "G",
    "bing": "binG",
    "gm_bpref": "gm_bpref",
    "utility": "utility",
    "num_nonrel_judged_ret": "num_nonrel_judged_ret",
    **{f"r_precision_mult@{t / 5:g}": f"Rprec_mult_{t / 5:.2f}" for t in range(1, 11)},
    **{f"iprec_at_recall@{t / 10:g}": f"iprec_at_recall_{t / 10:.2f}" for t in range(11)},
    **{
        f"{ours}@{k}": f"{theirs}_{k}"
        for ours, theirs in (
            ("precision", "P"),
            ("recall", "recall"),
            ("hit_rate", "success"),
            ("ndcg", "ndcg_cut"),
            ("map", "map_cut"),
            ("relative_p", "relative_P"),
        )
        for k in (1, 2, 3, 5, 10, 100)
    },
}
"""Our measure -> the key under which pytrec_eval answers."""

ENGINE = {
    "ndcg.1=3,2=9": "ndcg",
    "ndcg.0=1,2=0": "ndcg",
    "G.1=3,3=1": "G",
    "ndcg_rel.1=7,2=2": "ndcg_rel",
    "Rndcg.0=2,1=3,4=3": "Rndcg",
    "utility.2,-1,-3,0": "utility",
    "11pt_avg.0.2,0.5,0.8": "11pt_avg",
    "yaap": "yaap",
}
"""What pytrec_eval's engine understands and its front does not -> the key of its answer."""

SCIKIT_LEARN = {
    "dcg": "dcg_score, ties averaged and in order",
    "ndcg": "ndcg_score, ties averaged and in order",
    "lrap": "label_ranking_average_precision_score",
    "map": "average_precision_score, without ties",
}
"""Our measure -> scikit-learn's function."""

IR_MEASURES = {
    "rbp": "RBP(rel=1), computed by cwl-eval",
    "judged": "Judged@k, without ties",
}
"""Our measure -> that of ir_measures."""

NDEVAL = {
    "alpha_ndcg": "alpha-nDCG@k",
    "subtopic_recall": "strec@k",
}
"""Our measure -> that of ndeval, TREC's own program for diversity."""

BRUTE_FORCE = {
    "answer_hit": "every window of words of every passage",
    "alpha_ndcg": "the greedy ideal, document by document",
    "redundancy": "every document against all above it",
    "err": "the cascade, document by document",
    "gmap": "the n-th root of the product of average precisions",
    "f1": "the harmonic mean of precision and recall, as fractions",
    "cg": "a sum",
    "dcg": "both gains with both discounts, term by term",
    "ndcg": "both gains with both discounts, over the best of all orders",
    "rbp": "a sum of weights, binary and graded",
    "rbp_residual": "the weights of ranks that hold no judged document, down to rank 2,000",
    "iprec_at_recall": "the maximum over all ranks, with the rounding of trec_eval 10",
    "11pt_avg": "the mean of eleven such maxima",
    "ideal_dcg": "the best of all orders, term by term",
    "unjudged": "a count over k",
}
"""Our measure -> how a test computes it in plain Python."""

AVERAGED = "the mean over all orders of tied documents, with ties=average"
