"""Causes of lost answers: their meanings, counts of queries, and moves between causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import chain
from typing import Annotated, Literal, NamedTuple, get_args

from ragbench.types.json_fields import Meaning, Record, optional

AnswerCause = Literal[
    "right",
    "found",
    "read_forbidden",
    "not_in_corpus",
    "not_retrieved",
    "ranked_too_low",
    "wrong_passage",
    "not_used",
    "unsupported",
    "refused",
    "should_have_refused",
    "failed",
    "unknown",
]
# Every cause, in the order of tables, which is the way of a query through a system
CAUSES: tuple[AnswerCause, ...] = get_args(AnswerCause)

# Causes of queries that are not lost: of answers, and of retrievers alone.
NOT_LOST: frozenset[AnswerCause] = frozenset(("right", "found"))

# Name of the metric that is 1 for each answer with the cause `right`.
RIGHT = "right"

# Name of the score that is 1 for each question whose gold is in as much text as the baseline reads.
EQUAL_TEXT = "found@equal_text"

# Name of the score that is 1 for each question of which a forbidden passage was read.
LEAK_READ = "leak_read"

# Name of a measure, in lower case -> `found` for it, with options: `recall_all` as papers write it.
FOUND_SPELLINGS: Mapping[str, str] = {
    "found": "found",
    "all_hit": "found(need=all)",
    "recall_all": "found(need=all)",
}

# Number of queries; not whole where a query was repeated, as 2 of 3 repetitions are 2/3 of it.
Quantity = int | float


def quantity(number: Fraction) -> Quantity:
    """Return a fraction as an integer if it is whole, else as a float."""
    return number.numerator if number.denominator == 1 else float(number)


def counted_cause(measure: str) -> AnswerCause | None:
    """Return the cause of the questions that a measure counts: `right` or `found`; else None.

    Example:
        >>> counted_cause("found(need=all)@5"), counted_cause("right"), counted_cause("map")
        ('found', 'right', None)
        >>> counted_cause("recall_all@5"), counted_cause("recall@5")
        ('found', None)
    """
    if measure == RIGHT:
        return "right"
    return "found" if _name_of(measure) in FOUND_SPELLINGS else None


def counts_all_gold(measure: str) -> bool:
    """Return True for `found` with `need=all`, in any spelling.

    Example:
        >>> counts_all_gold("recall_all@5"), counts_all_gold("found@5")
        (True, False)
    """
    return "need=all" in measure + FOUND_SPELLINGS.get(_name_of(measure), "")


def _name_of(measure: str) -> str:
    """Return the name of a measure in lower case, without options and cut-off."""
    return measure.partition("@")[0].partition("(")[0].strip().casefold()


def gated_score(scores: Sequence[str]) -> str:
    """Return the score that decides where a gate names none; '' without scores.

    It is `right`, else the first one. `found@k` decides only without others: a graded measure shows
    a loss with fewer queries.
    """
    graded = []
    for score in scores:
        if counted_cause(score) != "found":
            graded.append(score)
    return RIGHT if RIGHT in scores else next(iter(graded or scores), "")


class Loss(NamedTuple):
    """Cause of one query with its reason; the causes `right` and `found` are no loss.

    Attributes:
        cause: Cause of the query.
        why: Facts behind it, in a sentence.
        unsupported: True for a right answer in which a judge found claims without support.
    """

    cause: AnswerCause
    why: str
    unsupported: bool = False


class CauseShare(Record):
    """Count and share of the queries of a system that have a cause."""

    count: Annotated[
        Quantity,
        Meaning("Number of queries; each of r repetitions of a query counts as 1 / r of it."),
    ]
    share: Annotated[float, Meaning("Share of all queries of the system, from 0 to 1.")]
    interval: Annotated[
        tuple[float | None, float | None],
        Meaning(
            "Confidence limits of the share: Wilson's, or by clusters if queries are clustered."
        ),
    ]


class CauseMove(Record):
    """Queries that have one cause in the baseline and another one in a system.

    Attributes:
        before: Cause in the baseline.
        after: Cause in the system.
        queries: Their ids, in the order of the data set.
        n: Number of queries, if some of them move in a part of their repetitions; else None.
    """

    before: AnswerCause
    after: AnswerCause
    # ids, so that a page can show the queries of a move
    queries: tuple[str, ...]
    n: Quantity | None = optional()

    @property
    def count(self) -> Quantity:
        """Number of queries that move, as parts of queries where these are repeated."""
        return len(self.queries) if self.n is None else self.n


class CauseFlow(Record):
    """Moves of queries between causes, from the baseline to a system.

    Attributes:
        system: Name of the system.
        baseline: Name of the baseline.
        same: Number of queries with the same cause in both.
        moves: The other queries, the largest group first.
    """

    system: str
    baseline: str
    same: Quantity
    moves: tuple[CauseMove, ...]

    def moved_queries(self) -> list[str]:
        """Return the ids of all queries that move, each once, in the order of the moves."""
        return list(dict.fromkeys(chain.from_iterable(move.queries for move in self.moves)))


class CauseRow(Record):
    """A line of `causes.csv`.

    Attributes:
        why: Facts behind the cause, in a sentence.
        system: Name of the system.
        query_id: Id of the query.
        cause: Cause of the query; `right` for a right answer.
        unsupported: True for a right answer in which a judge found claims without support.
        sample: Number of the repetition, from 0; None if the query was not repeated.
    """

    system: str
    query_id: str
    cause: AnswerCause
    why: str
    unsupported: bool = False
    sample: int | None = optional()
