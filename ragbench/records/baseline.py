"""Baseline files and histories: the scores of runs per query, to be committed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ragbench.records.codec import Record, optional
from ragbench.records.summary import Aggregate, Early, Kind, Range
from ragbench.types import Direction

BASELINE_SCHEMA = "ragbench.baseline/1"
HISTORY_SCHEMA = "ragbench.history/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineScore(Record):
    """What is known of a score besides its values."""

    mean: float | None
    """The aggregate; None where no query is scored."""
    n: int
    """How many queries have a value."""
    kind: Kind
    direction: Direction
    aggregate: Aggregate
    range: Range
    signature: str
    early: Early | None = optional()


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineSystem(Record):
    """One system, query by query."""

    retriever: str | None
    """The retriever's name; None for a system that the records came with, and for an app."""
    generator: str | None
    """The generator's name; None for a retriever alone."""
    scores: Mapping[str, BaselineScore]
    """Score name -> what is known of it."""
    per_query: Mapping[str, tuple[Any, ...]]
    """Query -> a value or the word of a cause for each score."""
    answers: int | None = optional()
    """How many answers each query has; None where it is one."""
    unscored_answers: Mapping[str, Mapping[str, Mapping[str, int]]] = optional({})
    """Query -> score -> cause -> how many of its several answers have no value; what failed leaves
    the value of the query open."""
    cost_columns: tuple[str, ...] = optional(())
    """What `costs` has of each query."""
    costs: Mapping[str, tuple[Any, ...]] = optional({})
    """Query -> what it cost; empty where it was not asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineFile(Record):
    """A whole file."""

    schema: str = BASELINE_SCHEMA
    name: str
    baseline: str | None
    """The system that the experiment compared the others with."""
    data: Mapping[str, str]
    """Part of the data set -> fingerprint."""
    queries: int
    query_parts: tuple[str, ...] = optional(())
    """What `query_fingerprints` has of each query: `question`, `judgements`, `answers`."""
    query_fingerprints: Mapping[str, tuple[str | None, ...]] = optional({})
    """Query -> fingerprints of what it was, null where it has no such part; older files lack it."""
    systems: Mapping[str, BaselineSystem] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine(BaselineFile):
    """A line of a history: the scores of one run; the first one is the record of later ones."""

    schema: str = HISTORY_SCHEMA
    run_id: str
    """Which run; the same run is in a history once."""
