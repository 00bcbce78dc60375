"""Score columns as records: the row of a column in the store, and the column of any file.

The store, a run folder and a baseline file describe a column by the same keys: `signature`,
`direction`, `aggregate`, `range` and `mean`. A missing value is null or an empty cell, with its
cause beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isfinite

import numpy as np

from ragbench.records.score import BaselineScore, Range, SystemScore
from ragbench.signature import Signature
from ragbench.types import Aggregate, Cause, CauseArray, Direction, FloatArray, ScoreColumn
from ragbench.types.json_fields import Prose, Record, optional

# Word in files -> cause of a missing value.
CAUSES_BY_WORD = {cause.word: cause for cause in Cause if cause is not Cause.SCORED}


class ColumnRow(Record):
    """Column of scores in the store.

    Attributes:
        name: Name of the score.
        mean: Aggregate of a corpus score; None where it follows from the values.
        direction: `higher` or `lower`, whichever is better.
        aggregate: Rule by which values of items become one number.
        range: Smallest and largest value of an item.
        signature: Everything that the score depends on, as text.
        values: Value of each item; null without one.
        causes: Word of a cause -> rows of the items that have it, ascending.
        details: Row -> error message; a row is a key of JSON, a text.
    """

    name: str
    mean: float | None
    direction: Direction
    aggregate: Aggregate
    range: Range
    signature: str
    values: tuple[float | None, ...]
    causes: Mapping[str, tuple[int, ...]] = optional({})
    details: Mapping[str, Prose] = optional({})


def bounded(number: float | None) -> float | None:
    """Return a number as a float; None for NaN and infinity, which JSON does not have."""
    return float(number) if number is not None and isfinite(number) else None


def column_row(column: ScoreColumn) -> ColumnRow:
    """Return the row of a column; causes of the samples of an item are left out."""
    rows_of: dict[str, tuple[int, ...]] = {}
    # not `np.unique`, whose first call imports masked arrays: 10 ms of a short run
    for code in np.flatnonzero(np.bincount(column.causes)).tolist():
        if code != Cause.SCORED:
            rows_of[Cause(code).word] = tuple(np.flatnonzero(column.causes == code).tolist())
    values: list[float | None] = column.values.tolist()
    for missing in np.flatnonzero(np.isnan(column.values)).tolist():
        values[missing] = None
    details = {}
    for row, text in column.details.items():
        details[str(row)] = text
    return ColumnRow(
        name=column.name,
        mean=bounded(column.total),
        direction=column.direction,
        aggregate=column.aggregate,
        range=(bounded(column.low), bounded(column.high)),
        signature=str(column.signature),
        values=tuple(values),
        causes=rows_of,
        details=details,
    )


def read_column_row(row: ColumnRow) -> ScoreColumn:
    """Return the column of a row.

    Raises:
        ValueError: An item has neither a value nor a cause, or both; or a row is no number.
        KeyError: A cause is unknown.
        IndexError: A cause has a row beyond the values.
    """
    # None becomes NaN
    values = np.array(row.values, np.float64)
    causes = np.full(len(values), Cause.SCORED, np.uint8)
    for word, rows in row.causes.items():
        causes[list(rows)] = CAUSES_BY_WORD[word]
    if ((causes == Cause.SCORED) != np.isfinite(values)).any():
        raise ValueError("an item has neither a value nor a cause, or both")
    details = {}
    for number, text in row.details.items():
        details[int(number)] = text
    return column_of(row.name, row, values, causes, details=details)


def column_of(
    name: str,
    head: SystemScore | BaselineScore | ColumnRow,
    values: FloatArray,
    causes: CauseArray,
    answer_causes: CauseArray | None = None,
    details: Mapping[int, str] | None = None,
) -> ScoreColumn:
    """Return the column of a score; an open end of its range is an infinity.

    Nothing is checked. The mean of the file counts for `corpus` alone; others follow from values.

    Args:
        name: Name of the score.
        head: Signature, direction, range and mean of the score in the file.
        values: Value of each query, NaN without one.
        causes: Cause of each query.
        answer_causes: Causes of shape (queries, answers); None if queries have one answer.
        details: Row -> error message; None if the file has none.
    """
    low, high = head.range
    return ScoreColumn(
        name,
        values,
        causes,
        Signature.parse(head.signature),
        head.direction,
        -inf if low is None else float(low),
        inf if high is None else float(high),
        head.aggregate,
        # a corpus score cannot be computed from the values of its queries
        head.mean if head.aggregate == "corpus" else None,
        details={} if details is None else details,
        answer_causes=answer_causes,
    )
