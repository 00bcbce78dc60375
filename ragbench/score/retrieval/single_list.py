"""One list of ids against its judgements: grades in rank order, ranks of hits; without NumPy."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from math import log, log2

from ragbench.errors import OptionError
from ragbench.score.retrieval.gain import check_base, check_exponent
from ragbench.types.checks import LARGEST_GRADE, grade_row

Judged = Mapping[Hashable, int] | Collection[Hashable]
"""Id -> grade, or the relevant ids."""

_UNJUDGED = -1  # as a negative grade: it gains nothing, and bpref passes over it


def ranks_of_hits(
    owner: str, retrieved: Iterable[Hashable], judged: Judged, k: int | None, rel: int
) -> tuple[list[int], int, int]:
    """Return the ranks of the relevant in the first k, how many there are, how many retrieved."""
    check_cutoff(owner, k)
    check_count(owner, "rel", rel)
    grades, pool = grades_of(retrieved, judged)
    hits = [rank for rank, grade in enumerate(grades[:k], 1) if grade >= rel]
    return hits, sum(grade >= rel for grade in pool), len(grades)


def grades_of(retrieved: Iterable[Hashable], judged: Judged) -> tuple[list[int], list[int]]:
    """Return the grades of the retrieved in rank order, and those of all judged documents."""
    for name, ids in (("retrieved", retrieved), ("judged", judged)):
        if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
            raise OptionError("", name, ids, "a collection of ids, as ['d1', 'd2']")
    if isinstance(retrieved, (dict, set, frozenset)):  # whose order is not that of a ranking
        raise OptionError("", "retrieved", retrieved, "a list of ids, best first")
    if isinstance(judged, Mapping):
        pool = list(judged.values())
        if not {*map(type, pool)} <= {int} or max(pool, default=0) > LARGEST_GRADE:
            pool = grade_row(judged, query_id="")
            judged = dict(zip(judged, pool, strict=True))
        grade_of = judged.get
    else:
        relevant = dict.fromkeys(judged, 1)
        grade_of, pool = relevant.get, [1] * len(relevant)
    try:
        distinct = dict.fromkeys(retrieved)
    except TypeError as error:
        raise OptionError("", "retrieved", retrieved, "a list of ids, best first") from error
    grades = [grade_of(document, _UNJUDGED) for document in distinct]
    if not any(grade != _UNJUDGED for grade in grades) and any(type(d) is tuple for d in distinct):
        raise OptionError("", "retrieved", next(iter(distinct)), "ids, not pairs of id and score")
    return grades, pool


def discounted_gain(owner: str, grades: list[int], gain: str, discount: str, base: float) -> float:
    """Add up gain over discount, rank by rank."""
    total = 0.0
    for rank, grade in enumerate(grades, 1):
        if grade > 0:
            gained: float = grade
            if gain == "exp":
                check_exponent(owner, grade)
                gained = 2.0**grade - 1.0
            if discount == "log2":
                total += gained / log2(rank + 1)
            else:
                over = log(rank) / log(base)
                total += gained / over if over > 1.0 else gained
    return total


def check_gain(owner: str, k: int | None, gain: str, discount: str, base: float) -> None:
    """Refuse a cut-off, gain, discount or base of the logarithm that is none."""
    check_cutoff(owner, k)
    if gain not in ("linear", "exp"):
        raise OptionError(owner, "gain", gain, "linear, exp")
    if discount not in ("log2", "jk"):
        raise OptionError(owner, "discount", discount, "log2, jk")
    if isinstance(base, bool) or not isinstance(base, (int, float)) or not base > 1:
        raise OptionError(owner, "base", base, "a number > 1")
    check_base(owner, discount, base)


def check_cutoff(owner: str, k: int | None) -> None:
    """Refuse a cut-off that is no rank."""
    if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 1):
        raise OptionError(owner, "k", k, "an integer >= 1, or null")


def check_count(owner: str, option: str, value: int) -> None:
    """Refuse a number that counts nothing."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise OptionError(owner, option, value, "an integer >= 1")
