"""Retrieval measures of ONE list in plain Python: a few microseconds, and no NumPy.

`retrieved` holds ids, best first; a repeated id counts at its first position only. `judged` maps
ids to grades, or is a collection of the relevant ids. Every function returns the value that the
measure of the same name has for a run by its default rules: the value is NaN if no document is
relevant, but 0 with `rel` above 1 if a document is judged.

Every function raises an `OptionError` for an option that is not allowed, for an argument that is no
collection of ids, and for a `retrieved` that has no order or holds pairs. It raises a `DataError`
for a grade that is no integer or too large.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from math import log, log2, nan
from numbers import Number
from typing import Any, ParamSpec
from uuid import UUID

from ragbench.errors import DataError, OptionError, Phrase
from ragbench.registry import checked
from ragbench.score.retrieval.options import (
    LARGEST_EXPONENT,
    Base,
    Cutoff,
    Discount,
    Divide,
    Gain,
    Grade,
    LargestGrade,
    Persistence,
    check_base,
    check_divide,
    check_exponent,
)
from ragbench.types.checks import LARGEST_GRADE, grade_row
from ragbench.types.ids import id_text
from ragbench.types.scores import Value
from ragbench.types.spans import Span, count_characters

P = ParamSpec("P")
# Id -> grade, or the relevant ids.
Judged = Mapping[Hashable, int] | Collection[Hashable]
# Span, or its document, start and end by name.
SpanLike = Span | Mapping[str, Any]

_SPAN_KEYS = ("document", "start", "end")
_UNJUDGED = -1  # like a negative grade: no gain, and ignored by bpref


def _measure(name: str) -> Callable[[Callable[P, float]], Callable[P, Value]]:
    """Return a decorator that checks the options of the measure `name` and returns a `Value`."""

    def declare(function: Callable[P, float]) -> Callable[P, Value]:
        @functools.wraps(function)
        def run(*args: P.args, **options: P.kwargs) -> Value:
            value = function(*args, **options)
            if value != value and options.get("rel", 1) != 1:
                judged = args[1] if len(args) > 1 else options["judged"]
                # as for a run: ir_measures counts a judged query without the grade
                return Value(0.0 if judged else value)
            return Value(value)

        checked_run: Callable[..., Value] = checked(name, run)
        has_cutoff = "k" in inspect.signature(function).parameters

        @functools.wraps(function)
        def measure(*args: P.args, **options: P.kwargs) -> Value:
            # `ndcg(hits, gold, 10)` is how people call it; options are checked by name
            if len(args) == 3 and has_cutoff and "k" not in options:
                return checked_run(*args[:2], **(options | {"k": args[2]}))
            if len(args) > 2:
                allowed = "two arguments by position, options by name: rel=1"
                raise OptionError(name, "", Phrase(f"{len(args)} arguments"), allowed)
            return checked_run(*args, **options)

        return measure

    return declare


@_measure("hit_rate")
def hit_rate(
    retrieved: Iterable[Hashable], judged: Judged, *, k: Cutoff | None = None, rel: Grade = 1
) -> float:
    """Return 1 if a relevant document is among the first k, else 0.

    Example:
        >>> hit_rate(["d3", "d1", "d7"], {"d1"}, k=1), hit_rate(["d3", "d1", "d7"], {"d1"}, k=2)
        (0.0, 1.0)
    """
    hits, relevant, _ = ranks_of_hits(retrieved, judged, k, rel)
    return float(bool(hits)) if relevant else nan


@_measure("mrr")
def mrr(
    retrieved: Iterable[Hashable], judged: Judged, *, k: Cutoff | None = None, rel: Grade = 1
) -> float:
    """Return 1 / rank of the first relevant document, 0 without one in the first k.

    Example:
        >>> mrr(["d3", "d1", "d7"], {"d1": 2, "d7": 1})
        0.5
    """
    hits, relevant, _ = ranks_of_hits(retrieved, judged, k, rel)
    if not relevant:
        return nan
    return 1.0 / hits[0] if hits else 0.0


@_measure("precision")
def precision(
    retrieved: Iterable[Hashable], judged: Judged, *, k: Cutoff | None = None, rel: Grade = 1
) -> float:
    """Return the share of the first k ranks that hold a relevant document.

    The divisor is k for a shorter list too; without k it is the number of distinct ids. A list that
    holds no relevant document gives 0.

    Example:
        >>> precision(["d3", "d1"], {"d1", "d3"}, k=4), precision(["d3", "d1"], {"d1", "d3"})
        (0.5, 1.0)
    """
    hits, relevant, retrieved_count = ranks_of_hits(retrieved, judged, k, rel)
    return len(hits) / (k or retrieved_count or 1) if relevant else nan


@_measure("recall")
def recall(
    retrieved: Iterable[Hashable], judged: Judged, *, k: Cutoff | None = None, rel: Grade = 1
) -> float:
    """Return the share of the relevant documents that is among the first k.

    A list that holds no relevant document gives 0.

    Example:
        >>> recall(["d3", "d1", "d7"], {"d1", "d5"}, k=10)
        0.5
    """
    hits, relevant, _ = ranks_of_hits(retrieved, judged, k, rel)
    return len(hits) / relevant if relevant else nan


@_measure("f1")
def f1(
    retrieved: Iterable[Hashable], judged: Judged, *, k: Cutoff | None = None, rel: Grade = 1
) -> float:
    """Return the harmonic mean of precision and recall at k.

    A list that holds no relevant document gives 0.

    Example:
        Precision 1/3 and recall 1/2: 2 * 1 / (2 + 3).

        >>> f1(["d3", "d1", "d7"], {"d1", "d5"}, k=3)
        0.4
    """
    hits, relevant, retrieved_count = ranks_of_hits(retrieved, judged, k, rel)
    depth = retrieved_count if k is None else k
    return 2.0 * len(hits) / (relevant + depth) if relevant else nan


@_measure("map")
def average_precision(
    retrieved: Iterable[Hashable],
    judged: Judged,
    *,
    k: Cutoff | None = None,
    divide: Divide | None = None,
    rel: Grade = 1,
) -> float:
    """Return the mean of the precisions at the relevant documents; one that was missed adds 0.

    `divide="min"` needs a k, and divides by min(k, R), not by the number R of relevant documents. A
    list that holds no relevant document gives 0.

    Raises:
        OptionError: An option is not allowed, `divide` has no k, an argument is no collection of
            ids, or `retrieved` has no order or holds pairs.

    Example:
        Hits at ranks 1 and 3, two relevant documents: (1/1 + 2/3) / 2.

        >>> round(average_precision(["d1", "d7", "d2"], {"d1", "d2"}), 4)
        0.8333
    """
    check_divide(divide, k)
    hits, relevant, _ = ranks_of_hits(retrieved, judged, k, rel)
    total = 0.0
    # added one by one, as the kernel does: `fsum`, and `sum` of Python 3.12, round otherwise
    for count, rank in enumerate(hits, 1):
        total += count / rank
    divisor = relevant if divide is None or k is None else min(k, relevant)
    return total / divisor if relevant else nan


@_measure("r_precision")
def r_precision(retrieved: Iterable[Hashable], judged: Judged, *, rel: Grade = 1) -> float:
    """Return the precision at R, the number of relevant documents.

    A list that holds no relevant document gives 0.

    Example:
        >>> r_precision(["d1", "d7", "d2"], {"d1", "d2"})
        0.5
    """
    grades, pool = grades_of(retrieved, judged)
    relevant = sum(grade >= rel for grade in pool)
    return sum(grade >= rel for grade in grades[:relevant]) / relevant if relevant else nan


@_measure("dcg")
def dcg(
    retrieved: Iterable[Hashable],
    judged: Judged,
    *,
    k: Cutoff | None = None,
    gain: Gain = "linear",
    discount: Discount = "log2",
    base: Base = 2,
) -> float:
    """Return the sum of the gains of the first k documents, discounted by rank.

    A grade gains itself, or 2^grade - 1 with `gain="exp"`. The gain is divided by log2(rank + 1);
    with `discount="jk"` by the logarithm to `base` of the rank, from rank `base` on. The value is
    NaN if no judged document gains anything; a list that has none of them gives 0.

    Raises:
        DataError: A grade is no integer or too large, also for gain=exp.

    Example:
        3 / log2(2) + 2 / log2(4).

        >>> dcg(["d1", "d7", "d2"], {"d1": 3, "d2": 2}, k=3)
        4.0
    """
    check_base("dcg", discount, base)
    grades, pool = grades_of(retrieved, judged)
    if not any(grade > 0 for grade in pool):
        return nan
    return discounted_gain("dcg", grades[:k], gain, discount, base)


@_measure("ndcg")
def ndcg(
    retrieved: Iterable[Hashable],
    judged: Judged,
    *,
    k: Cutoff | None = None,
    gain: Gain = "linear",
    discount: Discount = "log2",
    base: Base = 2,
) -> float:
    """Return the discounted gain over that of the best ranking of all judged documents.

    The options are those of `dcg`; k cuts the best ranking too. The value is NaN if no judged
    document gains anything; a list that has none of them gives 0.

    Raises:
        DataError: A grade is no integer or too large, also for gain=exp.

    Example:
        (3 / log2(3)) / (3 / log2(2) + 1 / log2(3)).

        >>> round(ndcg(["d3", "d1", "d7"], {"d1": 3, "d5": 1}, k=10), 4)
        0.5213
    """
    check_base("ndcg", discount, base)
    grades, pool = grades_of(retrieved, judged)
    pool.sort(reverse=True)
    best = discounted_gain("ndcg", pool[:k], gain, discount, base)
    return discounted_gain("ndcg", grades[:k], gain, discount, base) / best if best else nan


@_measure("bpref")
def bpref(retrieved: Iterable[Hashable], judged: Judged, *, rel: Grade = 1) -> float:
    """Return the mean credit of the relevant documents, less for non-relevant ones above them.

    A retrieved relevant document counts 1 - min(n, R) / min(R, N), with n of the N judged
    non-relevant ones above it, and 1 if n is 0. The sum is divided by the number R of relevant
    documents. A list that holds no relevant document gives 0.

    Example:
        Nothing precedes `a`, one of two precedes `b`: (1 + 1/2) / 2.

        >>> bpref(["a", "new", "x", "b"], {"a": 1, "b": 1, "x": 0, "y": 0})
        0.75
    """
    grades, pool = grades_of(retrieved, judged)
    relevant = sum(grade >= rel for grade in pool)
    worst = min(relevant, sum(0 <= grade < rel for grade in pool))
    total, wrong = 0.0, 0
    for grade in grades:
        if grade >= rel:
            total += 1.0 - min(wrong, relevant) / worst if wrong else 1.0
        elif grade >= 0:
            wrong += 1
    return total / relevant if relevant else nan


@_measure("rbp")
def rbp(
    retrieved: Iterable[Hashable],
    judged: Judged,
    *,
    k: Cutoff | None = None,
    p: Persistence = 0.8,
    rel: Grade = 1,
) -> float:
    """Return the relevance that a reader meets who leaves after each rank with chance 1 - p.

    A list that holds no relevant document gives 0.

    Example:
        Hits at ranks 1 and 3: 0.5 * (1 + 0.5^2).

        >>> rbp(["d1", "d7", "d2"], {"d1", "d2"}, p=0.5)
        0.625
    """
    hits, relevant, _ = ranks_of_hits(retrieved, judged, k, rel)
    # summed as in the kernel, to its last bit
    total = 0.0
    for rank in hits:
        total += (1.0 - p) * p ** (rank - 1)
    return total if relevant else nan


@_measure("err")
def err(
    retrieved: Iterable[Hashable],
    judged: Judged,
    *,
    k: Cutoff | None = None,
    max: LargestGrade | None = None,
) -> float:
    """Return the expected 1 / rank at which a reader is satisfied and stops.

    `max` is the top of the scale of grades, which larger grades count as; None takes the largest
    grade in `judged`. A list that holds no relevant document gives 0.

    Example:
        Grade 1 of 1 at ranks 1 and 2: 1/2 + 1/2 * 1/2 * 1/2.

        >>> err(["d1", "d2"], {"d1", "d2"})
        0.625
    """
    grades, pool = grades_of(retrieved, judged)
    best = sorted(pool)[-1] if pool else 0
    if best < 1:
        return nan
    top = min(best, LARGEST_EXPONENT) if max is None else max
    total, unsatisfied = 0.0, 1.0
    for rank, grade in enumerate(grades[:k], 1):
        if grade > 0:
            satisfies = 2.0 ** (min(grade, top) - top) - 2.0**-top
            total += unsatisfied * satisfies / rank
            unsatisfied *= 1.0 - satisfies
    return total


@_measure("span_recall")
def span_recall(
    hits: Iterable[SpanLike], spans: Iterable[SpanLike], *, k: Cutoff | None = None
) -> float:
    """Return the share of the characters of the gold spans that the first k hits hold.

    The value is NaN without a gold character. Hits and gold are spans: `Span`, or mappings with
    `document`, `start` and `end`. Hits are best first, and k counts them as they are.

    Raises:
        OptionError: `k` is not allowed, or an argument is no list of spans.
        DataError: A span has impossible positions.

    Example:
        >>> span_recall([{"document": "d1", "start": 0, "end": 50}], [Span("d1", 20, 60)], k=5)
        0.75
    """
    _, gold, both = _overlap(hits, spans, k)
    return both / gold if gold else nan


@_measure("span_precision")
def span_precision(
    hits: Iterable[SpanLike], spans: Iterable[SpanLike], *, k: Cutoff | None = None
) -> float:
    """Return the share of the characters of the first k hits that are gold.

    Overlapping hits count once. Hits without a character give 0; the value is NaN without a gold
    character. Arguments are those of `span_recall`.

    Raises:
        OptionError: `k` is not allowed, or an argument is no list of spans.
        DataError: A span has impossible positions.

    Example:
        >>> span_precision([Span("d1", 0, 50)], [Span("d1", 20, 60)])
        0.6
    """
    retrieved, gold, both = _overlap(hits, spans, k)
    return both / (retrieved or 1) if gold else nan


@_measure("span_iou")
def span_iou(
    hits: Iterable[SpanLike], spans: Iterable[SpanLike], *, k: Cutoff | None = None
) -> float:
    """Return the characters that are gold and in the first k hits, over those that are either.

    The value is NaN without a gold character. Arguments are those of `span_recall`.

    Raises:
        OptionError: `k` is not allowed, or an argument is no list of spans.
        DataError: A span has impossible positions.

    Example:
        >>> span_iou([Span("d1", 0, 50)], [Span("d1", 20, 60)])
        0.5
    """
    retrieved, gold, both = _overlap(hits, spans, k)
    return both / (retrieved + gold - both) if gold else nan


def _overlap(
    hits: Iterable[SpanLike], spans: Iterable[SpanLike], k: int | None
) -> tuple[int, int, int]:
    """Return the number of characters of the first k hits, of the gold spans, and of both."""
    retrieved, gold = _spans("hits", hits)[:k], _spans("spans", spans)
    n_retrieved, n_gold = count_characters(retrieved), count_characters(gold)
    return n_retrieved, n_gold, n_retrieved + n_gold - count_characters([*retrieved, *gold])


def _spans(name: str, values: Iterable[SpanLike]) -> list[Span]:
    """Return spans and mappings as spans, in order."""
    try:
        return [_span(value) for value in values]
    # a document that is no id is a ValueError
    except (KeyError, TypeError, ValueError) as error:
        allowed = "a list of Span, or of mappings with document, start and end"
        raise OptionError("", name, values, allowed) from error


def _span(value: SpanLike) -> Span:
    """Return a span, or a mapping as one, whose document is text."""
    if isinstance(value, Span):
        return value
    document, start, end = (value[key] for key in _SPAN_KEYS)
    return Span(id_text(document), start, end)


def ranks_of_hits(
    retrieved: Iterable[Hashable], judged: Judged, k: int | None, rel: int
) -> tuple[list[int], int, int]:
    """Return the ranks of the hits in the first k, the number of relevant ids and of retrieved.

    Ranks count from 1 and rise; None looks at all. The last two numbers are of all distinct ids,
    whatever k is. Arguments are checked as in `grades_of`.
    """
    grades, pool = grades_of(retrieved, judged)
    hits = [rank for rank, grade in enumerate(grades[:k], 1) if grade >= rel]
    return hits, sum(grade >= rel for grade in pool), len(grades)


def grades_of(retrieved: Iterable[Hashable], judged: Judged) -> tuple[list[int], list[int]]:
    """Return the grades of the retrieved documents in rank order, and of all judged documents.

    A repeated id counts at its first place; a document without judgement has the grade -1. A
    collection of ids gives each the grade 1. The ids 7, 7.0 and "7" are one.

    Raises:
        OptionError: An argument is no collection of ids, or `retrieved` has no order.
        DataError: A grade is no integer or too large, or a document has two grades.
    """
    if isinstance(retrieved, (dict, set, frozenset)):  # their order is no ranking
        raise OptionError("", "retrieved", retrieved, "a list of ids, best first")
    if isinstance(judged, Mapping):
        if not {*map(type, judged)} <= {str}:
            judged = _text_grades(judged)
        pool = list(judged.values())
        # one test of all types: the slow check of each grade is rarely needed
        if not {*map(type, pool)} <= {int} or max(pool, default=0) > LARGEST_GRADE:
            pool = grade_row(judged, query_id="")
            judged = dict(zip(judged, pool, strict=True))
        grade_of = judged.get
    else:
        relevant = _distinct("judged", judged)
        grade_of, pool = relevant.get, [1] * len(relevant)
    distinct = _distinct("retrieved", retrieved)
    grades = [grade_of(document, _UNJUDGED) for document in distinct]
    # pairs can be valid ids: they are an error only if none of them is judged
    if not any(grade != _UNJUDGED for grade in grades) and any(type(d) is tuple for d in distinct):
        raise OptionError("", "retrieved", next(iter(distinct)), "ids, not pairs of id and score")
    return grades, pool


def _text_grades(judged: Mapping[Hashable, int]) -> dict[Hashable, int]:
    """Return grades by id, with numbers as texts; raise `DataError` for two grades of one id."""
    grades: dict[Hashable, int] = {}
    for document, grade in judged.items():
        name = _comparable("judged", document)
        if grades.setdefault(name, grade) != grade:
            problem = f"'{name}' has the grades {grades[name]} and {grade}"
            raise DataError(problem, allowed="one grade for a document")
    return grades


def _distinct(name: str, ids: Iterable[Hashable]) -> dict[Hashable, int]:
    """Return the distinct ids in their order, each with the grade 1; numbers are texts."""
    try:
        if isinstance(ids, (str, bytes)):  # their letters are no ids
            raise TypeError
        distinct = dict.fromkeys(ids, 1)
    except TypeError as error:
        raise OptionError("", name, ids, "a collection of ids, as ['d1', 'd2']") from error
    if {*map(type, distinct)} <= {str}:
        return distinct
    return {_comparable(name, identifier): 1 for identifier in distinct}


def _comparable(name: str, identifier: Hashable) -> Hashable:
    """Return an id as text; a tuple or another object that is no number stays as it is."""
    # NumPy's truth values are no numbers of Python
    has_rule = identifier is None or isinstance(identifier, (str, bytes, Number, UUID))
    if not (has_rule or hasattr(identifier, "dtype")):
        return identifier
    try:
        return id_text(identifier)
    except ValueError as error:
        problem = Phrase(f"{identifier!r}, which {error}")
        raise OptionError("", name, problem, "ids as text or integers") from error


def discounted_gain(owner: str, grades: list[int], gain: str, discount: str, base: float) -> float:
    """Return the sum of gain / discount over the ranks, by the options of `dcg`.

    `grades` are those of the documents in rank order, -1 for an unjudged one. Grades of 0 and less
    gain nothing. `owner` is the measure, for messages.

    Raises:
        DataError: A grade is too large for gain=exp.
    """
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
