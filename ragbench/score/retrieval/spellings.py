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
    # ir_measures
    "p": "precision",
    "r": "recall",
    "rr": "mrr",
    "ap": "map",
    "iprec": "iprec_at_recall",
    "numq": "num_q",
    "numret": "num_ret",
    "numrel": "num_rel",
    "numrelret": "num_rel_ret",
    "setp": "set_p",
    "setrelp": "set_relative_p",
    "setr": "set_recall",
    "setf": "set_f",
    "setap": "set_map",
    "strecall": "subtopic_recall",
}
"""Spelling, in lower case -> our name, with the options that it implies."""

WITH_OPTIONS = {"numret": "num_rel_ret"}
"""Spellings of ir_measures that mean something else once they have options: `NumRet(rel=1)`."""

OPTION_SPELLINGS = {
    ("dcg", "log2"): ("gain", "linear"),
    ("dcg", "exp-log2"): ("gain", "exp"),
}
"""Option and value as ir_measures writes them -> ours."""

FALSE_FRIENDS = {"Accuracy": "a measure that ragbench has; its accuracy@k is hit_rate@k"}
"""Objects of ir_measures that mean something else than our measure of that name -> what to do."""
