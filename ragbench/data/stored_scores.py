"""Scores per query as files hold them: systems, their scores, and what identifies the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragbench.types import CauseArray, FloatArray


@dataclass(frozen=True, slots=True)
class StoredScore:
    """One score of one system, a value or a cause for every query."""

    kind: str
    """`retrieval`, `generation` or `judge`."""
    direction: str
    """Which way is better: `higher` or `lower`."""
    aggregate: str
    """How the values became one number: `mean`, `sum`, `geometric_mean` or `corpus`."""
    low: float
    """The smallest possible value of one query; -inf where unbounded."""
    high: float
    """The largest possible value of one query; inf where unbounded."""
    mean: float | None
    """That number; None where no query is scored."""
    signature: str
    """What the values depend on."""
    values: FloatArray
    """Shape (n,), in the order of the query ids; NaN where there is no value."""
    causes: CauseArray
    """Shape (n,); `Cause.SCORED` exactly where there is a value."""
    early: Mapping[str, Any] | None = None
    """How far a judge that may stop early went, as `summary.json` has it; None for all others."""


@dataclass(frozen=True, slots=True)
class StoredSystem:
    """One system and its scores."""

    name: str
    """`bm25`, `bm25/extractive`, `given`."""
    retriever: str | None
    """The retriever's name; None for a system that the records came with."""
    generator: str | None
    """The generator's name; None for a retriever alone."""
    scores: Mapping[str, StoredScore]
    """Score name -> its values."""
    costs: Mapping[str, FloatArray] = field(default_factory=dict)
    """`latency_ms`, `tokens.input`, ... -> of each query, NaN where not known; empty where no file
    has them."""


@dataclass(frozen=True, slots=True)
class StoredScores:
    """All systems of one experiment over the same queries."""

    name: str
    """The experiment's name."""
    baseline: str | None
    """The system that the experiment compared the others with."""
    data: Mapping[str, str]
    """Part of the data set -> fingerprint: `queries`, `qrels`, `answers`; empty where unknown."""
    query_ids: Sequence[str]
    """The queries, in the order of all values."""
    systems: Sequence[StoredSystem]
    """The systems, in the order of their file."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The mapping of `summary.json` where a run was read; a baseline has none."""
