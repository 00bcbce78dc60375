"""trec_eval's families of measures: their cut-offs, and the sets that one word asks for."""

from __future__ import annotations

from collections.abc import Mapping

_RANKS = ("5", "10", "15", "20", "30", "100", "200", "500", "1000")
_LEVELS = ("0.00", "0.10", "0.20", "0.30", "0.40", "0.50", "0.60", "0.70", "0.80", "0.90", "1.00")

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "P": _RANKS,
    "recall": _RANKS,
    "success": ("1", "5", "10"),
    "ndcg_cut": _RANKS,
    "map_cut": _RANKS,
    "iprec_at_recall": _LEVELS,
}
"""Family -> the cut-offs that trec_eval takes where none is named, as it prints them."""

CUT_ONLY = {"ndcg_cut": "ndcg", "map_cut": "map"}
"""Families that mean nothing without a cut-off -> our measure, which does."""


def _expand(*names: str) -> tuple[str, ...]:
    return tuple(
        f"{name}_{cutoff}" if cutoff else name
        for name in names
        for cutoff in FAMILIES.get(name, ("",))
    )


OFFICIAL = _expand(
    *("num_ret", "num_rel", "num_rel_ret", "map", "gm_map", "Rprec", "bpref", "recip_rank"),
    *("iprec_at_recall", "P"),
)
"""What trec_eval prints when no measure is named, in its order.

Its first two lines, `runid` and `num_q`, say what was scored; they are no measures.
"""

ALL_TREC = _expand(
    *("num_ret", "num_rel", "num_rel_ret", "map", "gm_map", "Rprec", "bpref", "recip_rank"),
    *("iprec_at_recall", "P", "recall", "infAP", "11pt_avg", "ndcg", "ndcg_cut", "map_cut"),
    *("success", "set_P", "set_relative_P", "set_recall", "set_map", "set_F"),
)
"""What ragbench has of trec_eval's `all_trec`, in its order."""

SETS = {"official": OFFICIAL, "all_trec": ALL_TREC}
"""Word -> the names that it stands for."""


def expand(name: str) -> tuple[str, ...]:
    """Return the names that trec_eval takes a name for: its default cut-offs, or a whole set.

    Example:
        >>> expand("success"), expand("ndcg_cut_10"), len(expand("official"))
        (('success_1', 'success_5', 'success_10'), ('ndcg_cut_10',), 28)
    """
    return SETS.get(name) or _expand(name)
