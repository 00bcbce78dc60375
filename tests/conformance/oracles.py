"""Names of our measures in trec_eval, and a plain copy of the rules of the SQuAD script."""

from __future__ import annotations

import re
import string
from collections import Counter

# Our measure -> the key under which pytrec_eval answers.
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

# What pytrec_eval's engine understands and its front does not -> the key of its answer.
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


def squad_tokens(text: str) -> list[str]:
    """The normalisation of the SQuAD script, version 1.1, on ASCII."""
    text = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


def squad_f1(prediction: str, reference: str) -> float:
    """Token F1, as the script computes it for one reference."""
    mine, theirs = squad_tokens(prediction), squad_tokens(reference)
    same = sum((Counter(mine) & Counter(theirs)).values())
    if not same:
        return 0.0
    precision, recall = same / len(mine), same / len(theirs)
    return 2 * precision * recall / (precision + recall)
