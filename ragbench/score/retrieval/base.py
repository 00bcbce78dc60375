"""Retrieval measures: functions of a record, declared by `@measure`.

A measure returns an array of shape (n,): a value in the declared range for each query, NaN where it
does not apply, with the cause that `nan_means` names. Wrong options are refused before it runs. Its
docstring tells differences from this rule and from the usual meaning of options (`options.py`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypedDict, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from ragbench.errors import AdapterError, OptionError, list_names
from ragbench.registry import checked, plain_signature, source_print
from ragbench.score.base import check_range
from ragbench.score.retrieval.options import Cutoff as Cutoff
from ragbench.score.retrieval.options import Grade as Grade
from ragbench.score.retrieval.positions import TieGroups
from ragbench.types import Aggregate, Cause, Direction, FloatArray, IntArray, Span
from ragbench.types.lookups import map_values

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Record that a measure reads: `RankedGrades`, a `RankedSubtopics` per query, `RetrievedPassages`,
# `RetrievedSpans`, `MetGold`, or `ForbiddenRanks`.
Reads = Literal["grades", "subtopics", "passages", "spans", "gold", "forbidden"]

# Groups of `ragbench list`, in its order; measures of other packages are in `others`.
Group = Literal[
    "first hits",
    "precision and recall",
    "average precision",
    "graded gain",
    "gold spans",
    "models of a reader",
    "incomplete judgements",
    "diversity",
    "lists as sets",
    "counts",
    "others",
]

_NEEDS: Mapping[Reads, str] = {
    "grades": "judgements",
    "subtopics": "judgements with subtopics",
    "passages": "gold answers and the texts of the passages",
    "spans": "gold spans or quotes",
    "gold": "judgements, gold spans or gold answers",
    "forbidden": "forbidden documents",
}

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class RankedGrades:
    """Judged documents of a run in rank order, the input of most measures.

    Sparse: a row is a retrieved document that is JUDGED. The others count through `rank` and
    `n_retrieved` only, so a measure costs as little for 1,000 documents a query as for 50. `rank`
    and `BlockRanker` make it.

    Attributes:
        query_ids: The queries of the qrels, in their order.
        query: Row -> position of its query in `query_ids`; ascending.
        rank: Row -> rank of the document, the best is 1; ascending within a query.
        grades: Row -> grade of the document.
        starts: Shape (n + 1,): the first row of each query, then the number of rows.
        n_retrieved: Shape (n,): documents retrieved, judged or not.
        judged_grades: The grades of all judged documents, retrieved or not, falling within each
            query.
        judged_starts: Shape (n + 1,): the first judged grade of each query, then their number.
        ties: Ranks that the document of each row may have if ties have no order.
        missing: Positions of the queries that the run lacks; `n_retrieved` is 0 there.
        averaged: True if measures give their expectation over all orders of tied documents.
        trec_eval: The version of trec_eval whose recall rounding counts.
        rows: Row -> the row of the qrels that judges it; empty where that is not known.
    """

    query_ids: tuple[str, ...]
    query: IntArray
    rank: IntArray
    grades: IntArray
    starts: IntArray
    n_retrieved: IntArray
    judged_grades: IntArray
    judged_starts: IntArray
    ties: TieGroups
    missing: frozenset[int] = frozenset()
    averaged: bool = False
    trec_eval: Literal[9, 10] = 10
    rows: IntArray = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)

    @property
    def n_queries(self) -> int:
        """Number of judged queries."""
        return len(self.query_ids)

    @functools.cached_property
    def judged_query(self) -> IntArray:
        """Judged grade -> position of its query in `query_ids`."""
        return np.repeat(np.arange(self.n_queries), np.diff(self.judged_starts))

    @functools.cached_property
    def judged_rank(self) -> IntArray:
        """Judged grade -> its rank in the ideal ranking, the best is 1."""
        return np.arange(1, len(self.judged_grades) + 1) - self.judged_starts[self.judged_query]

    @functools.cached_property
    def max_grade(self) -> int:
        """The largest grade in the qrels; 1 where there is none above it."""
        return max(1, int(self.judged_grades.max(initial=1)))

    def weigh(
        self, weight: Callable[[IntArray], FloatArray], k: int | IntArray | None = None
    ) -> FloatArray:
        """Return the weight of each row's rank, or its mean over the ranks of its tie group.

        The mean is taken if ties are averaged. `k` is the last rank that weighs anything, an array
        where it differs from row to row; None for all ranks. Shape (rows,); `weight` gets an array
        of ranks from 1.
        """
        if self.averaged:
            return self.ties.mean(weight, k)
        weights = weight(self.rank)
        return weights if k is None else weights * (self.rank <= k)

    def hits_so_far(self, hit: NDArray[np.bool_]) -> IntArray:
        """Count, for each row, the hits of its query down to it, itself included.

        Shape (rows,), from 1 at the first hit; `hit` has a mark per row.
        """
        # one running count over all queries, minus what earlier queries left in it: no loop over
        # queries, and whole numbers lose no digits in it, as running sums of floats would
        count = np.concatenate(([0], np.cumsum(hit)))
        return count[1:] - count[self.starts[self.query]]

    def sum(self, values: FloatArray) -> FloatArray:
        """Return the sum of the rows' values per query; 0 for a query without rows.

        It has the shape (n,).
        """
        total = np.bincount(self.query, weights=values, minlength=self.n_queries)
        return total.astype(np.float64, copy=False)

    def count_relevant(self, rel: int) -> IntArray:
        """Count each query's judged documents of grade `rel` or above, retrieved or not.

        The result has shape (n,). It is cached and may not be changed.
        """
        if rel not in self._relevant:
            relevant = self.judged_query[self.judged_grades >= rel]
            self._relevant[rel] = np.bincount(relevant, minlength=self.n_queries)
            self._relevant[rel].setflags(write=False)
        return self._relevant[rel]

    @functools.cached_property
    def _relevant(self) -> dict[int, IntArray]:
        """Cache of `count_relevant` by grade, since nearly every measure needs it."""
        return {}

    def count_hits(self, rel: int, k: int | None = None) -> IntArray | FloatArray:
        """Count each query's retrieved documents of grade `rel` or above in the first k ranks.

        The expected number where a tie group reaches beyond rank k and ties are averaged. Shape
        (n,); None looks at all ranks.
        """
        hit = self.grades >= rel
        if k is not None and self.averaged:
            return self.sum(hit * self.weigh(np.ones_like, k))
        if k is not None:
            hit &= self.rank <= k
        return np.bincount(self.query[hit], minlength=self.n_queries)

    def divide(self, total: FloatArray | IntArray, by: FloatArray | IntArray) -> FloatArray:
        """Return total / by per query; NaN if `by` is 0, where the measure does not apply.

        It has the shape (n,).
        """
        scores = np.full(self.n_queries, np.nan)
        np.divide(total, by, out=scores, where=np.asarray(by) > 0)
        return scores

    def where_relevant(self, scores: FloatArray | IntArray, rel: int = 1) -> FloatArray:
        """Return the scores with NaN for queries without a document of grade `rel` or above.

        It has the shape (n,).
        """
        return np.where(self.count_relevant(rel) > 0, scores, np.nan)


Subtopics = frozenset[Hashable]


@dataclass(frozen=True, slots=True)
class RankedSubtopics:
    """Subtopics of one query that its ranking and its judgements cover.

    `of` creates it from ids in rank order, `at_ranks` from ids at their ranks. A relevant document
    is one with a subtopic.

    Attributes:
        retrieved: Subtopics of the document at each rank; empty for documents without any.
        judged: Subtopics of each relevant document, retrieved or not; in falling order of ids.
    """

    retrieved: tuple[Subtopics, ...]
    judged: tuple[Subtopics, ...]

    @classmethod
    def of(
        cls, retrieved: Iterable[str], judged: Mapping[str, Collection[Hashable]]
    ) -> RankedSubtopics:
        """Return the subtopics of ranked ids; a repeated id counts at its first rank.

        `retrieved` has an entry for each distinct id, in their order, empty for an id without
        judgement. `judged` has the documents with a subtopic, retrieved or not, in falling order of
        ids.

        Example:
            >>> ranked = RankedSubtopics.of(["d2", "d9"], {"d1": {"a"}, "d2": {"a", "b"}})
            >>> [sorted(covered) for covered in ranked.retrieved]
            [['a', 'b'], []]
        """
        return cls.at_ranks(dict(enumerate(dict.fromkeys(retrieved), 1)), judged)

    @classmethod
    def at_ranks(
        cls, retrieved: Mapping[int, str], judged: Mapping[str, Collection[Hashable]]
    ) -> RankedSubtopics:
        """Return the subtopics of rank -> id; missing ranks and unjudged ids cover none.

        Ranks count from 1; without any, `retrieved` is empty.
        """
        covers = map_values(frozenset, judged)
        by_rank: list[Subtopics] = [frozenset()] * max(retrieved, default=0)
        for rank, document in retrieved.items():
            by_rank[rank - 1] = covers.get(document, frozenset())
        falling = sorted(covers, reverse=True)
        return cls(tuple(by_rank), tuple(covers[doc] for doc in falling if covers[doc]))

    @property
    def all(self) -> Subtopics:
        """All subtopics with a relevant document."""
        return frozenset().union(*self.judged)


@dataclass(frozen=True)
class RetrievedPassages:
    """Texts of the passages that n queries retrieved, and the gold answers of the queries.

    The two lists have the same length; else a measure raises a ValueError.

    Attributes:
        passages: Query -> the texts of its passages, best first.
        answers: Query -> its gold answers; none where it has no reference.
    """

    passages: Sequence[Sequence[str]]
    answers: Sequence[Sequence[str]]


@dataclass(frozen=True)
class RetrievedSpans:
    """Places of the passages that n queries retrieved, and the gold spans of the queries.

    The two lists have the same length; else a measure raises a ValueError.

    Attributes:
        passages: Query -> the span of each passage, best first; None for a passage that cannot be
            placed in a document.
        gold: Query -> its gold spans; none where it has no gold.
    """

    passages: Sequence[Sequence[Span | None]]
    gold: Sequence[Sequence[Span]]

    def unplaced(self, k: int | None) -> NDArray[np.bool_]:
        """Return True for each query with gold that has an unplaced passage among its first k.

        The result has shape (n,); None for k stands for all passages.
        """
        pairs = zip(self.passages, self.gold, strict=True)
        return np.array([bool(gold) and None in spans[:k] for spans, gold in pairs], np.bool_)


@dataclass(frozen=True)
class MeasureSpec:
    """Properties of a measure that `@measure` declares; notation, report and docs read them.

    `spec_of` returns those of a measure function. The fields after `high` are the keywords of
    `@measure`.

    Attributes:
        name: The canonical name: `ndcg`.
        low: The smallest possible value of one query.
        high: The largest possible value of one query; inf where unbounded.
        group: Group in `ragbench list`.
        aliases: Further names of the measure.
        reads: Record that the measure reads, one of `Reads`.
        direction: `higher` or `lower`, whichever is better.
        aggregate: Aggregate of the values of the queries, such as `mean` or `sum`.
        cutoff: Use of `@k` in the name: required, optional or none.
        at: Option that the number after `@` sets.
        averages_ties: True if the measure has a closed form of its expectation over the orders of
            tied documents.
        nan_means: Cause of a NaN.
        of_nothing: Value of a query without a relevant document if such queries count; None: `low`.
        version: Version of the definition; it changes only when values change.
        from_qrels: Option -> function that returns its default for a ranking.
        code: Hash of the source, for functions without a version.
        upper_limit: True if the interval of the mean is one-sided, with an exact upper end.
    """

    name: str
    low: float
    high: float
    group: Group = "others"
    aliases: tuple[str, ...] = ()
    reads: Reads = "grades"
    direction: Direction = "higher"
    aggregate: Aggregate = "mean"
    cutoff: Literal["required", "optional", "none"] = "optional"
    at: str = "k"
    averages_ties: bool = False
    nan_means: Cause = Cause.NO_RELEVANT
    of_nothing: float | None = None
    version: int = 1
    from_qrels: Mapping[str, Callable[[RankedGrades], Any]] = field(default_factory=dict)
    code: str = ""
    upper_limit: bool = False

    @property
    def needs(self) -> str:
        """Data that the measure needs, in words."""
        return _NEEDS[self.reads]

    @property
    def reads_ids(self) -> bool:
        """True if the measure compares ids of documents with judgements."""
        return self.reads in ("grades", "subtopics")


class MeasureFields(TypedDict, total=False):
    """Fields of `MeasureSpec` that `@measure` takes as further keywords."""

    aliases: tuple[str, ...]
    reads: Reads
    direction: Direction
    aggregate: Aggregate
    cutoff: Literal["required", "optional", "none"]
    at: str
    averages_ties: bool
    nan_means: Cause
    of_nothing: float | None
    version: int
    from_qrels: Mapping[str, Callable[[RankedGrades], Any]]
    code: str
    upper_limit: bool


def measure(
    name: str,
    *,
    range: tuple[float, float],
    group: Group = "others",
    **declared: Unpack[MeasureFields],
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that declares a function of a record and options as a measure.

    The function takes the record first, and its options as keywords; `k` is the cut-off. The
    decorated function is called in the same way, and is not registered. It checks its options
    before it runs, and raises OptionError for a wrong one, or for averaged ties without
    `averages_ties`. `name` is the canonical name, `range` is the smallest and the largest possible
    value of one query; `declared` are further fields of `MeasureSpec`. Raises OptionError for a
    group that is none of `Group` and for a wrong range, TypeError for a field that `MeasureSpec`
    lacks.
    """
    if group not in get_args(Group):
        raise OptionError(name, "group", group, ", ".join(get_args(Group)))
    check_range(name, range)
    spec = MeasureSpec(name, *range, group, **declared)

    def decorate(kernel: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(kernel)
        def run(*args: P.args, **options: P.kwargs) -> R:
            # only records of grades can be averaged; others have no such attribute
            if not spec.averages_ties and getattr(args[0], "averaged", False):
                raise no_average(name)
            return kernel(*args, **options)

        guarded = checked(name, run)
        guarded.__dict__["measure_spec"] = spec
        return guarded

    return decorate


@functools.cache
def plain_measure(name: str, function: Callable[..., Any]) -> Callable[..., FloatArray]:
    """Return a measure from a user's plain function of one ranking.

    The function gets `retrieved`, the grade at each rank or None if unjudged, and `judged`, all
    grades of the query in falling order. It returns an int or float >= 0, not infinite; more is
    better. Queries without a relevant document get NaN, without a call; `@k` cuts the ranking. The
    measure takes `RankedGrades`, and as keywords `k` and the function's further parameters, which
    need a default. An exception or another result of the function becomes an `AdapterError` with
    the query. The same function and name give the same measure. Raises OptionError if the function
    takes other arguments.
    """
    owner = f"measure '{name}'"
    _, signature = plain_signature(function, owner, (2,), "(retrieved, judged)")
    cutoff = inspect.Parameter("k", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Cutoff)
    # `@k` cuts the ranking here, also for a function with a parameter k
    parameters = [p for p in signature.parameters.values() if p.name != "k"]

    def kernel(ranked: RankedGrades, *, k: int | None = None, **options: Any) -> FloatArray:
        values = np.full(ranked.n_queries, np.nan)
        for position in np.flatnonzero(ranked.count_relevant(1)):
            rows = slice(ranked.starts[position], ranked.starts[position + 1])
            # unjudged documents have no row: their ranks stay None
            grades = np.full(ranked.n_retrieved[position], None)
            grades[ranked.rank[rows] - 1] = ranked.grades[rows]
            judged_rows = slice(ranked.judged_starts[position], ranked.judged_starts[position + 1])
            judged = ranked.judged_grades[judged_rows].tolist()
            query = f"query '{ranked.query_ids[position]}'"
            try:
                value = function(grades[:k].tolist(), judged, **options)
            except Exception as error:  # code of the user's may raise anything
                reason = f"{type(error).__name__}: {error}"
                raise AdapterError(f"{owner}: {query}: {reason}") from error
            if not isinstance(value, (int, float)) or not 0 <= value < np.inf:
                wrong = f"{query}: {value!r}"
                allowed = "a number >= 0; @measure declares another range"
                raise AdapterError(f"{owner}: found {wrong}, allowed: {allowed}")
            values[position] = value
        return values

    kernel.__name__, kernel.__doc__ = getattr(function, "__name__", name), function.__doc__
    # the code is the user's, as that of a declared measure
    kernel.__module__ = getattr(function, "__module__", None) or type(function).__module__
    kernel.__dict__["__signature__"] = inspect.Signature([*parameters, cutoff])
    kernel.__annotations__ = {p.name: p.annotation for p in (*parameters, cutoff)}
    return measure(name, range=(0.0, np.inf), code=source_print(function))(kernel)


def no_average(name: str) -> OptionError:
    """Return the error for a measure that cannot average over ties, with those that can.

    The caller raises it: an OptionError.
    """
    from ragbench.score.retrieval import MEASURES

    averaging = []
    for other in MEASURES.table:
        spec = spec_of(MEASURES.load(other))
        if spec and spec.averages_ties:
            averaging.append(other)
    return OptionError(
        name, "ties", "average", f"docid, stable; average only with {list_names(averaging)}"
    )


def spec_of(kernel: Callable[..., Any]) -> MeasureSpec | None:
    """Return the declaration of a measure function; None for other functions and objects."""
    spec = getattr(kernel, "measure_spec", None)
    return spec if isinstance(spec, MeasureSpec) else None
