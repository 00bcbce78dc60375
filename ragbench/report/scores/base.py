"""What every format of `ragbench score` is made from: the scores of one run or predictions file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ragbench.types.checks import id_bytes
from ragbench.types.scores import Cause

if TYPE_CHECKING:
    from ragbench.comparison.evaluate import Evaluation

ALL = "all"
"""What stands in the place of the query in a row that is about all of them, as in trec_eval."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One run, or one file of predictions, with its scores."""

    name: str
    """What it is called in every format: the tag of the run, or the file where tags are equal."""
    source: str
    """The file, as the user named it."""
    evaluation: Evaluation
    """Its scores."""
    relevance: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Query -> the grades at the top of its ranking, where the caller wants to see them."""
    missing: frozenset[str] = frozenset()
    """The judged queries that the run lacks."""

    def rows(self) -> Iterator[tuple[str, dict[str, float | None]]]:
        """Yield (query, score -> value) in the order of the ids' bytes, as trec_eval prints them.

        A query that no score looked at (the run lacks it, or it has no judgement) has no row;
        a value is None where a score does not apply to a query.
        """
        columns = self.evaluation.columns
        values = {name: column.values.tolist() for name, column in columns.items()}
        causes = [column.causes.tolist() for column in columns.values()]
        queries = self.evaluation.query_ids
        for row in sorted(range(len(queries)), key=lambda row: id_bytes(queries[row])):
            if all(of_score[row] in _NOT_LOOKED_AT for of_score in causes):
                continue
            of_query = ((name, of_score[row]) for name, of_score in values.items())
            yield queries[row], {name: v if v == v else None for name, v in of_query}


_NOT_LOOKED_AT = frozenset({Cause.MISSING_QUERY, Cause.NO_JUDGEMENTS})
