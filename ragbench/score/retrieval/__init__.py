"""Retrieval measures: `ndcg@10`, `map`, `mrr@10` and so on, with the values of trec_eval.

Loads no NumPy by itself: `ragbench.score.retrieval.single` scores one list without it.
"""

from ragbench.registry import Family

_HERE = "ragbench.score.retrieval"

MEASURES = Family(
    noun="measure",
    group="ragbench.measures",
    table={
        "hit_rate": f"{_HERE}.hit_rate:hit_rate",
        "mrr": f"{_HERE}.reciprocal_rank:reciprocal_rank",
        "precision": f"{_HERE}.precision_recall:precision",
        "recall": f"{_HERE}.precision_recall:recall",
        "f1": f"{_HERE}.precision_recall:f1",
        "map": f"{_HERE}.average_precision:average_precision",
        "cg": f"{_HERE}.dcg:cg",
        "dcg": f"{_HERE}.dcg:dcg",
        "ndcg": f"{_HERE}.dcg:ndcg",
        "r_precision": f"{_HERE}.r_precision:r_precision",
        "bpref": f"{_HERE}.bpref:bpref",
        "rbp": f"{_HERE}.rbp:rbp",
        "err": f"{_HERE}.err:err",
        "gmap": f"{_HERE}.geometric_map:geometric_map",
        "judged": f"{_HERE}.judged:judged",
        "num_ret": f"{_HERE}.counts:num_ret",
        "num_rel": f"{_HERE}.counts:num_rel",
        "num_rel_ret": f"{_HERE}.counts:num_rel_ret",
    },
    planned=frozenset(
        {
            "11pt_avg",
            "alpha_ndcg",
            "answer_hit",
            "infap",
            "iprec_at_recall",
            "lrap",
            "redundancy",
            "set_f",
            "set_map",
            "set_p",
            "set_recall",
            "subtopic_recall",
        }
    ),
)
"""Every measure that can be named, loaded on first use."""
