"""Notation of trec_eval: sets of measures, parameters such as `P.5,10`, relevance strings."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

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


_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)"
_SIGNED = rf"-?{_NUMBER}"
# trec_eval is asked with a dot, `P.5`, and prints an underscore, `P_5`
_CUTOFFS = re.compile(
    rf"({'|'.join([*FAMILIES, 'set_F'])})[._]({_NUMBER}(?:,{_NUMBER})*)", re.IGNORECASE
)
_PAIRS = rf"\d+={_SIGNED}(?:,\d+={_SIGNED})*"


@dataclass(frozen=True, slots=True)
class TrecEvalName:
    """Parts of a measure's name in trec_eval's notation.

    `read_parameters` makes it.

    Attributes:
        printed: Name as trec_eval prints it; for a single measure, as the caller wrote it.
        family: Name without parameters, in the case of the caller.
        options: Parameters as options of ours.
        k: Cut-off, after `@` in our notation; None without one.
    """

    printed: str
    family: str
    options: str = ""
    k: str | None = None


# Pattern of a name with parameters, and the function that translates these into options.
_OPTIONS: tuple[tuple[re.Pattern[str], Callable[[str], str]], ...] = (
    (
        re.compile(rf"(ndcg|Rndcg|ndcg_rel|G)[._]({_PAIRS})", re.IGNORECASE),
        lambda text: f"gains={{{text.replace('=', ':')}}}",
    ),
    (
        re.compile(rf"(utility)[._]({_SIGNED}(?:,{_SIGNED}){{3}})", re.IGNORECASE),
        lambda text: ",".join(map("=".join, zip("abcd", text.split(","), strict=True))),
    ),
    (
        re.compile(rf"(11pt_avg)[._]({_NUMBER}(?:,{_NUMBER})*)", re.IGNORECASE),
        lambda text: f"levels={{{text}}}",
    ),
)

# Option of ours that trec_eval has too -> how it prints the parameters, given all options.
_WORDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "gains": lambda parts: str(parts["gains"]).strip(" {}").replace(":", "=").replace(" ", ""),
    "levels": lambda parts: str(parts["levels"]).strip(" {}").replace(" ", ""),
    "beta": lambda parts: f"{parts['beta']:g}",
    **dict.fromkeys("abcd", lambda parts: ",".join(f"{parts[name]:g}" for name in "abcd")),
}


def read_parameters(text: str) -> list[TrecEvalName]:
    """Return the measures of a name with parameters, one per cut-off.

    Returns an empty list for a name in another notation, without parameters, or with malformed
    ones. Case does not count.

    Example:
        >>> [(name.printed, name.k) for name in read_parameters("ndcg_cut.5,10")]
        [('ndcg_cut_5', '5'), ('ndcg_cut_10', '10')]
        >>> read_parameters("utility.1,-1,0,0")[0].options
        'a=1,b=-1,c=0,d=0'
    """
    if match := _CUTOFFS.fullmatch(text):
        family, parameters = match[1], match[2].split(",")
        names = [text] if len(parameters) == 1 else [f"{family}_{k}" for k in parameters]
        # the parameter of set_F is beta, not a cut-off
        beta = family.casefold() == "set_f"
        parsed: list[TrecEvalName] = []
        for name, k in zip(names, parameters, strict=True):
            if beta:
                parsed.append(TrecEvalName(name, family, f"beta={k}"))
            else:
                parsed.append(TrecEvalName(name, family, "", k))
        return parsed
    for pattern, options in _OPTIONS:
        if match := pattern.fullmatch(text):
            return [TrecEvalName(text, match[1], options(match[2]))]
    return []


def print_parameters(
    text: str, options: Mapping[str, Any], all_options: Mapping[str, Any]
) -> str | None:
    """Return the parameters of a measure as trec_eval prints them; empty for none.

    `text` is the name as the caller wrote it, whose own parameters are kept. `options` are those
    other than the default, `all_options` include defaults. Returns None if trec_eval has no
    parameter for one of `options`. The result is None too if several parameters would be printed.

    Example:
        >>> print_parameters("utility.1.0,-2,0,0", {"b": -2.0}, {})
        '1.0,-2,0,0'
        >>> print_parameters("set_f(beta=2)", {"beta": 2}, {"beta": 2})
        '2'
    """
    if any(option not in _WORDS for option in options):
        return None
    parts = read_parameters(text)
    if len(parts) == 1 and parts[0].options:
        return text[len(parts[0].family) + 1 :]
    # the four weights of `utility` are one parameter: each of them writes all
    parameters = {_WORDS[option](all_options) for option in options}
    if len(parameters) > 1:
        return None
    return parameters.pop() if parameters else ""


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
