"""Record of a saved result of `evaluate`: its columns, texts, verdicts and table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragbench.records.columns import ColumnRow
from ragbench.records.score import Kind, PairCounts, RunCounts
from ragbench.types.json_fields import Record, optional
from ragbench.types.scores import Verdict

EVALUATION_SCHEMA = "ragbench.evaluation/1"


class SavedCells(Record):
    """Column of the scored table, or level of its index.

    Attributes:
        name: Name of the column; None for a level without a name.
        cells: Value of each item.
        is_time: True if the cells are times, as texts of ISO 8601.
    """

    name: str | int | None
    cells: tuple[Any, ...]
    is_time: bool = optional(False)


class SlicesOfField(Record):
    """Slices of the items by one field.

    Attributes:
        field: Name of the field.
        names: Names of the slices.
        labels: Slices of each item.
    """

    field: str
    names: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]


class RubricScale(Record):
    """Scale of a rubric, for labels of people.

    Attributes:
        levels: Level -> its meaning.
        method: Method of the judge.
        direction: `higher` or `lower`, whichever is better.
    """

    levels: Mapping[str, str]
    method: str
    direction: str


class EvaluationFile(Record):
    """Whole result of `evaluate`, `evaluate_run` or `evaluate_texts`.

    Attributes:
        query_ids: Ids of the items, in the order of all columns.
        confidence: Level of the intervals.
        columns: Score columns.
        run_counts: Counts of a run; None for texts.
        pair_counts: Counts of predictions and references; None for a run.
        fingerprints: Part -> item -> fingerprint of what it was scored against.
        notes: Sentences on what makes scores doubtful.
        query_notes: Sentences on the queries that means of rankings leave out.
        kinds: Score -> its kind.
        texts: Part -> value of each item.
        verdicts: Item -> rubric -> verdict.
        table: Further columns of the scored table.
        index: Levels of the index of a pandas frame; None for other tables.
        slices: Slices of the items.
        rubrics: Score of the judge -> scale of its rubric.
    """

    schema: str = EVALUATION_SCHEMA
    query_ids: tuple[str, ...]
    confidence: float
    columns: tuple[ColumnRow, ...]
    run_counts: RunCounts | None = optional()
    pair_counts: PairCounts | None = optional()
    fingerprints: Mapping[str, Mapping[str, str]] = optional({})
    notes: tuple[str, ...] = optional(())
    query_notes: tuple[str, ...] = optional(())
    kinds: Mapping[str, Kind] = optional({})
    texts: Mapping[str, tuple[Any, ...]] = optional({})
    verdicts: Mapping[str, Mapping[str, Verdict]] = optional({})
    table: tuple[SavedCells, ...] = optional(())
    index: tuple[SavedCells, ...] | None = optional()
    slices: tuple[SlicesOfField, ...] = optional(())
    rubrics: Mapping[str, RubricScale] = optional({})
