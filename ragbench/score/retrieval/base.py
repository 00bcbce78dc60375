"""What every retrieval measure is: a function of `RankedGrades` that `@measure` declares."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, ParamSpec, TypeVar

import numpy as np

from ragbench.registry import DeclaredOption, Option, declared_options
from ragbench.score.base import Aggregate
from ragbench.types import Cause, Direction, FloatArray, IntArray

Cutoff = Annotated[int, Option("Look at the first k ranks only.", ge=1)]
"""A number of ranks."""
Grade = Annotated[int, Option("Smallest grade that counts as relevant.", ge=1)]
"""A smallest grade."""

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class RankedGrades:
    """The judged documents of a run in rank order: all that a measure needs to know.

    Sparse: a row is a retrieved document that is JUDGED. The others count through `rank` and
    `n_retrieved` only, so a measure costs as little for 1,000 documents a query as for 50.
    """

    query_ids: tuple[str, ...]
    """The queries of the qrels, in their order."""
    query: IntArray
    """Row -> position of its query in `query_ids`; ascending."""
    rank: IntArray
    """Row -> rank of the document, the best is 1; ascending within a query."""
    grades: IntArray
    """Row -> grade of the document."""
    starts: IntArray
    """Shape (n + 1,): where each query's rows start."""
    n_retrieved: IntArray
    """Shape (n,): documents retrieved, judged or not."""
    judged_grades: IntArray
    """The grades of all judged documents, retrieved or not, falling within each query."""
    judged_starts: IntArray
    """Shape (n + 1,): where each query's judged grades start."""
    missing: frozenset[int] = frozenset()
    """Positions of the queries that the run lacks; `n_retrieved` is 0 there."""

    @property
    def n_queries(self) -> int:
        """How many queries are judged."""
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

    def count_relevant(self, rel: int) -> IntArray:
        """Count each query's judged documents of grade `rel` or above, retrieved or not."""
        return np.bincount(self.judged_query[self.judged_grades >= rel], minlength=self.n_queries)

    def count_hits(self, rel: int, k: int | None = None) -> IntArray:
        """Count each query's retrieved documents of grade `rel` or above in the first k ranks."""
        hit = self.grades >= rel
        if k is not None:
            hit &= self.rank <= k
        return np.bincount(self.query[hit], minlength=self.n_queries)

    def divide(self, total: FloatArray | IntArray, by: FloatArray | IntArray) -> FloatArray:
        """Divide query by query; NaN where `by` is 0: the measure does not apply there."""
        scores = np.full(self.n_queries, np.nan)
        np.divide(total, by, out=scores, where=np.asarray(by) > 0)
        return scores

    def where_relevant(self, scores: FloatArray | IntArray, rel: int = 1) -> FloatArray:
        """Keep the scores of the queries with a relevant document; NaN elsewhere."""
        return np.where(self.count_relevant(rel) > 0, scores, np.nan)


@dataclass(frozen=True)
class MeasureSpec:
    """What `@measure` declares about a measure; notation, list, report and docs read it."""

    name: str
    """The canonical name: `ndcg`."""
    low: float
    """The smallest possible value of one query."""
    high: float
    """The largest possible value of one query; inf where unbounded."""
    aliases: tuple[str, ...] = ()
    """Further names of the same thing."""
    direction: Direction = "higher"
    """Which way is better."""
    aggregate: Aggregate = "mean"
    """How the values of the queries become one number."""
    cutoff: Literal["required", "optional", "none"] = "optional"
    """Whether its name takes `@k`."""
    nan_means: Cause = Cause.NO_RELEVANT
    """Why a query that was looked at has no value."""
    version: int = 1
    """Of the DEFINITION: it moves only when numbers move."""
    from_qrels: Mapping[str, Callable[[RankedGrades], Any]] = field(default_factory=dict)
    """Options whose default is read off the qrels."""


def measure(
    name: str,
    *,
    range: tuple[float, float],
    **declared: Any,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare a function of `RankedGrades` and options to be a retrieval measure.

    A bad option raises an `OptionError` before the function runs.

    Args:
        name: The canonical name.
        range: The smallest and the largest possible value of one query.
        **declared: Further fields of `MeasureSpec`.
    """
    spec = MeasureSpec(name, *range, **declared)

    def decorate(kernel: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(kernel)
        def checked(*args: P.args, **options: P.kwargs) -> R:
            allowed = options_of(checked)
            for option, value in options.items():
                if option in allowed:
                    allowed[option].check(name, value)
            return kernel(*args, **options)

        checked.__dict__["measure_spec"] = spec
        return checked

    return decorate


def spec_of(kernel: Callable[..., Any]) -> MeasureSpec | None:
    """Return what `@measure` declared about a function; None where it is not a measure."""
    spec = getattr(kernel, "measure_spec", None)
    return spec if isinstance(spec, MeasureSpec) else None


@functools.cache
def options_of(kernel: Callable[..., Any]) -> Mapping[str, DeclaredOption]:
    """Return the options that a measure declares, by name."""
    return declared_options(kernel)
