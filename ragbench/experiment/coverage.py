"""Stored rankings and answers: how many of the queries they are about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragbench.errors import DataError
from ragbench.types import Query


def check_coverage(
    owner: str, component: Any, every: Sequence[Query], asked: Sequence[Query]
) -> list[str]:
    """Warn where a component has something stored for some of the queries only.

    Args:
        owner: How messages name it: `retriever 'old'`.
        component: One that stores answers has `query_ids`: ids, or texts of questions.
        every: All queries of the data set.
        asked: Those of this run.

    Raises:
        DataError: It has nothing for any query: the files do not belong together.
    """
    stored = getattr(component, "query_ids", None)
    if stored is None:
        return []
    if not any(query.id in stored or query.text in stored for query in every):
        example = min(stored, default="nothing")
        raise DataError(
            f"{owner} has none of the {len(every)} queries of the data set; it has '{example}'",
            allowed=f"queries such as '{every[0].id}'",
        )
    absent = sum(query.id not in stored and query.text not in stored for query in asked)
    if not absent:
        return []
    return [f"{owner} has nothing for {absent} of {len(asked)} queries"]
