"""Other spellings of our measures: shorthands, and the names of trec_eval and ir_measures."""

from __future__ import annotations

SPELLINGS = {
    "ndcg_exp": "ndcg(gain=exp)",
    "ndcg_jk": "ndcg(discount=jk)",
    "dcg_exp": "dcg(gain=exp)",
    "dcg_jk": "dcg(discount=jk)",
    # trec_eval
    "recip_rank": "mrr",
    "gm_map": "gmap",
    "ndcg_cut": "ndcg",
    "map_cut": "map",
    "iprec": "iprec_at_recall",
    # ir_measures
    "p": "precision",
    "r": "recall",
    "rr": "mrr",
    "ap": "map",
    "numret": "num_ret",
    "numrel": "num_rel",
    "setp": "set_p",
    "setr": "set_recall",
    "setf": "set_f",
}
"""Spelling, in lower case -> our name, with the options that it implies."""

OPTION_SPELLINGS = {
    ("dcg", "log2"): ("gain", "linear"),
    ("dcg", "exp-log2"): ("gain", "exp"),
}
"""Option and value as ir_measures writes them -> ours."""

WITH_CUTOFFS = ("P", "recall", "success", "ndcg_cut", "map_cut")
"""What trec_eval lets stand before cut-offs: `P_10`, `ndcg_cut.5,10`."""
