"""trec_eval's names: families with their cut-offs, sets of measures, and what is not here."""

from __future__ import annotations

from collections.abc import Collection, Mapping

_RANKS = ("5", "10", "15", "20", "30", "100", "200", "500", "1000")
_LEVELS = tuple(f"{tenths / 10:.2f}" for tenths in range(11))
_MULTIPLES = tuple(f"{fifths / 5:.2f}" for fifths in range(1, 11))

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "P": _RANKS,
    "recall": _RANKS,
    "success": ("1", "5", "10"),
    "ndcg_cut": _RANKS,
    "map_cut": _RANKS,
    "relative_P": _RANKS,
    "unj": ("5", "10", "20"),
    "iprec_at_recall": _LEVELS,
    "Rprec_mult": _MULTIPLES,
}
"""Family -> the cut-offs that trec_eval takes where none is named, as it prints them."""

CUT_ONLY = {"ndcg_cut": "ndcg", "map_cut": "map"}
"""Families that mean nothing without a cut-off -> our measure, which does."""

_OFFICIAL = (
    *("num_ret", "num_rel", "num_rel_ret", "map", "gm_map", "Rprec", "bpref", "recip_rank"),
    *("iprec_at_recall", "P"),
)
SETS: Mapping[str, tuple[str, ...]] = {
    "official": _OFFICIAL,
    "set": (
        *("num_ret", "num_rel", "num_rel_ret", "utility"),
        *("set_P", "set_relative_P", "set_recall", "set_map", "set_F"),
    ),
    "all_trec": (
        *_OFFICIAL,
        *("recall", "infAP", "gm_bpref", "Rprec_mult", "utility", "11pt_avg", "binG", "G", "ndcg"),
        *("ndcg_rel", "Rndcg", "ndcg_cut", "map_cut", "relative_P", "success"),
        *("set_P", "set_relative_P", "set_recall", "set_map", "set_F"),
        *("num_nonrel_judged_ret", "unj"),
    ),
}
"""Word -> the measures and families that it stands for, in the order in which they are printed.

`runid`, `num_q` and `relstring` say what was scored and are no measures. `rbp` and `rbp_resid` of
version 10 are left out: its code reads two variables before they are set.
"""

ONLY_IN_10 = frozenset({"unj"})
"""What version 9 has not in `all_trec`."""

_ONE_SET = "a measure of one set of judgements; {} scores each query by several judges: {}"
_GROUPS = "split the file by its second column, score each group and take the mean"
_PREFERENCES = "bpref and gm_bpref count preferences between graded documents"
NOT_HERE: Mapping[str, str] = {
    **{
        name: _ONE_SET.format(name, _GROUPS)
        for name in ("qrels_jg", "map_avgjg", "P_avgjg", "Rprec_mult_avgjg")
    },
    **{
        name: f"a measure of grades; {name} is of preference judgements: {_PREFERENCES}"
        for name in ("prefs", "all_prefs")
    },
}
"""Words of trec_eval that ask for judgements of another form -> what there is instead."""


def not_here(name: str) -> str | None:
    """Say what there is instead of a measure that needs judgements of another form.

    Example:
        >>> not_here("prefs_simp_ret") == not_here("prefs_simp_ret.1"), not_here("map")
        (True, None)
    """
    word = name.partition(".")[0]
    if word.startswith("prefs_"):
        return NOT_HERE["prefs"].replace("prefs is", f"{word} is")
    return NOT_HERE.get(word)


def expand(name: str, *, own: Collection[str] = (), trec_eval: int = 10) -> tuple[str, ...]:
    """Return the names that trec_eval takes a name for: its default cut-offs, or a whole set.

    Args:
        name: A measure, a family or a set.
        own: Families that were asked for with parameters, which replace the default ones.
        trec_eval: 9 or 10: what is in `all_trec`.

    Example:
        >>> expand("success"), expand("ndcg_cut_10"), len(expand("official"))
        (('success_1', 'success_5', 'success_10'), ('ndcg_cut_10',), 28)
        >>> len(expand("official", own=["P"]))
        19
    """
    names = SETS.get(name, (name,))
    return tuple(
        f"{each}_{cutoff}" if cutoff else each
        for each in names
        if each not in own and not (trec_eval == 9 and name in SETS and each in ONLY_IN_10)
        for cutoff in FAMILIES.get(each, ("",))
    )


OFFICIAL = expand("official")
"""What trec_eval prints when no measure is named, in its order."""
