"""Sets and families of measures that trec_eval computes for one name, and relevance strings."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from ragbench.score.retrieval.base import RankedGrades

_RANKS = ("5", "10", "15", "20", "30", "100", "200", "500", "1000")
_LEVELS = tuple(f"{tenths / 10:.2f}" for tenths in range(11))
_MULTIPLES = tuple(f"{fifths / 5:.2f}" for fifths in range(1, 11))

# Family -> the cut-offs that trec_eval takes where none is named, as it prints them.
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

# Families that need a cut-off -> our measure of the whole ranking.
CUT_ONLY = {"ndcg_cut": "ndcg", "map_cut": "map"}

_OFFICIAL = (
    *("num_ret", "num_rel", "num_rel_ret", "map", "gm_map", "Rprec", "bpref", "recip_rank"),
    *("iprec_at_recall", "P"),
)
# Word -> the measures and families that it stands for, in the order in which they are printed.
#
# `runid`, `num_q` and `relstring` say what was scored and are no measures. `rbp` and `rbp_resid` of
# version 10 are left out: its code reads two variables before they are set.
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

# Measures of `all_trec` that version 9 lacks.
ONLY_IN_10 = frozenset({"unj"})


def expand(name: str, *, replaced: Collection[str] = (), trec_eval: int = 10) -> tuple[str, ...]:
    """Return the measures that trec_eval computes for a name, in the order in which it prints them.

    A family gives its default cut-offs, a set its measures. Any other name, also an unknown one, is
    returned alone and unchanged. The case of the name counts.

    Args:
        name: Name of a measure, family or set.
        replaced: Families to leave out, since the caller requests them with parameters; `name`
            itself gives an empty tuple.
        trec_eval: Version; 9 leaves `unj` out of the sets.

    Example:
        >>> expand("success"), expand("ndcg_cut_10"), len(expand("official"))
        (('success_1', 'success_5', 'success_10'), ('ndcg_cut_10',), 28)
        >>> len(expand("official", replaced=["P"]))
        19
    """
    skipped = set(replaced)
    if trec_eval == 9 and name in SETS:
        skipped.update(ONLY_IN_10)
    measures: list[str] = []
    for measure in SETS.get(name, (name,)):
        if measure in skipped:
            continue
        if measure in FAMILIES:
            for cutoff in FAMILIES[measure]:
                measures.append(f"{measure}_{cutoff}")
        else:
            measures.append(measure)
    return tuple(measures)


_ZERO, _LARGE, _NOT_IN_POOL, _NOT_JUDGED = map(ord, "0>-.")


def relevance_strings(ranked: RankedGrades, length: int = 10) -> list[str]:
    """Return a text per query with a character for each of its first `length` documents.

    The character is the grade where it has one digit, `>` for a larger one, `.` for a negative one
    (in the pool, but not judged) and `-` for a document without judgement. A text is shorter where
    fewer were retrieved, and empty for queries that the run lacks.

    Example:
        >>> from ragbench.score.retrieval.ranking import rank
        >>> qrels = {"q": {"a": 2, "b": 12, "c": -1}}
        >>> relevance_strings(rank(qrels, {"q": {"new": 9, "a": 8, "b": 7, "c": 6, "d": 5}}), 4)
        ['-2>.']
    """
    lengths = np.minimum(ranked.n_retrieved, length)
    # `initial`: without queries there is no largest length
    characters = np.full((ranked.n_queries, int(lengths.max(initial=0))), _NOT_IN_POOL, np.uint8)
    near = ranked.rank <= length
    grades = ranked.grades[near]
    codes = np.where(grades > 9, _LARGE, np.where(grades < 0, _NOT_JUDGED, _ZERO + grades))
    characters[ranked.query[near], ranked.rank[near] - 1] = codes
    texts: list[str] = []
    for row, end in zip(characters, lengths.tolist(), strict=True):
        texts.append(row[:end].tobytes().decode("ascii"))
    return texts
