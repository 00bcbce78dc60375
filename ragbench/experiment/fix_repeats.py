"""Repetitions of questions in a fix list: each counts as its share of the question.

A fix list of repeated rankings is counted over questions and repetitions; the ids of these have the
number of the repetition. `per_question` gives the counts in questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from msgspec import structs

from ragbench.records.causes import Quantity, quantity
from ragbench.records.fixes import FixList, PricedChange, Promise
from ragbench.types import Run

# Control code between the id of a question and a number: ids that people write have none.
_SEPARATOR = "\x1e"


def repeat_id(query_id: str, number: int) -> str:
    """Return the id of a repetition of a question."""
    return f"{query_id}{_SEPARATOR}{number}"


def query_of(repeat: str) -> str:
    """Return the id of the question of a repetition; the id of a question is returned as it is."""
    return repeat.partition(_SEPARATOR)[0]


def join_runs(runs: Sequence[Run], n: int) -> Run:
    """Return the rankings of n repetitions as one run; fewer runs come in turn."""
    hits: dict[str, dict[str, float]] = {}
    for number in range(n):
        run = runs[number % len(runs)]
        for query in run.query_ids:
            hits[repeat_id(query, number)] = dict(run.ranking(query))
    return Run.from_dict(hits, runs[0].name)


def per_question(fixes: FixList, n: int) -> FixList:
    """Return a fix list of n repetitions with counts in questions, and with their ids."""
    if n == 1:
        return fixes
    changes = tuple(_change_per_question(change, n) for change in fixes.changes)
    remaining = []
    for loss in fixes.remaining:
        remaining.append(structs.replace(loss, queries=_ids(loss.queries), repeats=n))
    best = fixes.best
    if best is not None:
        change = _change_per_question(best.change, n)
        best = Promise(
            change=change,
            gain=best.gain / n,
            interval=_shares(best.interval, n),
            untouched=_shares(best.untouched, n),
            ties=best.ties,
        )
    return structs.replace(
        fixes,
        of=_questions(fixes.of, n),
        found=_questions(fixes.found, n),
        changes=changes,
        best=best,
        remaining=tuple(remaining),
    )


def _change_per_question(change: PricedChange, n: int) -> PricedChange:
    return structs.replace(
        change,
        found=_questions(change.found, n),
        of=_questions(change.of, n),
        rescued=_ids(change.rescued),
        lost=_ids(change.lost),
        gain=change.gain / n,
        interval=_shares(change.interval, n),
        repeats=n,
    )


def _questions(number: Quantity, n: int) -> Quantity:
    return quantity(Fraction(number) / n)


def _shares(ends: tuple[float, float], n: int) -> tuple[float, float]:
    return ends[0] / n, ends[1] / n


def _ids(repeats: Sequence[str]) -> tuple[str, ...]:
    return tuple(map(query_of, repeats))
