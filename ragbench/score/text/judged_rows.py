"""Judgements of the answers of a system, row by row, for metrics that count them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain

from ragbench.score.text.base import MetricReads
from ragbench.types import Answered, Collection
from ragbench.types.records import AnswerJudgements, Nugget

# Parts of `AnswerJudgements` that metrics read.
JUDGED_PARTS: tuple[MetricReads, ...] = ("support", "nuggets", "length")


def _parts_of(record: Answered) -> list[str]:
    """Return the parts of the judgements that a recorded answer has."""
    return [part for part in JUDGED_PARTS if getattr(record.judgements, part, None) is not None]


def judged_parts(collection: Collection) -> frozenset[str]:
    """Return the parts of judgements that some recorded answer of a data set has."""
    return frozenset(chain.from_iterable(judged_queries(collection).values()))


def judged_queries(collection: Collection) -> dict[str, set[str]]:
    """Return query id -> parts of judgements that the answer of some system has."""
    judged: dict[str, set[str]] = {}
    for record in chain.from_iterable(collection.recorded_answers.values()):
        judged.setdefault(record.query_id, set()).update(_parts_of(record))
    return judged


@dataclass(frozen=True, slots=True)
class JudgedRows:
    """Judgements of the answers of a system, for metrics that count them; an entry per item.

    Attributes:
        answers: Judgements of the answer; None if there are none.
        judged: Parts of the judgements that some system has for the question of the item.
        nuggets: Nuggets of the question, without assignments.
    """

    answers: Sequence[AnswerJudgements | None]
    judged: Sequence[Set[str]]
    nuggets: Sequence[tuple[Nugget, ...]]

    @classmethod
    def of_system(
        cls,
        collection: Collection,
        system: str,
        ids: Sequence[str],
        judged: Mapping[str, Set[str]],
    ) -> JudgedRows:
        """Return the judgements of a recorded system for the queries `ids`, in their order.

        Those of a system that the data set does not hold are None. `judged` is the result of
        `judged_queries`, which is the same for all systems.
        """
        answers = {}
        for record in collection.recorded_answers.get(system, ()):
            answers[record.query_id] = record.judgements
        return cls(
            [*map(answers.get, ids)],
            [judged.get(query, frozenset()) for query in ids],
            [collection.nuggets.get(query, ()) for query in ids],
        )
