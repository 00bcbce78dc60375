"""The rows of `unscored.jsonl` and of `predictions/*.jsonl`."""

from __future__ import annotations

from dataclasses import dataclass

from ragbench.records.codec import Prose, Record, optional


@dataclass(frozen=True, slots=True, kw_only=True)
class UnscoredRow(Record):
    """Why a query has no score."""

    system: str
    """Whose score."""
    query_id: str
    """Which query."""
    measure: str
    """The score's name."""
    status: str = ""
    """Whether it failed or does not apply."""
    cause: str
    """The word of the cause."""
    detail: Prose = ""
    """The cause in full: the text of an error."""
    sample: int | None = optional()
    """Which of several answers; None where the query as a whole has no score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage(Record):
    """A passage that a generator got."""

    id: str
    """Its document."""
    title: str | None = None
    """Its title."""
    text: str | None = None
    """Its text; None where a service gave ids alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow(Record):
    """What an answer took; None where it is not known."""

    input_tokens: int | None = None
    """Tokens sent."""
    output_tokens: int | None = None
    """Tokens received."""
    usd: float | None = None
    """Dollars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionRow(Record):
    """What a system said to a query."""

    query_id: str
    """Which query."""
    sample: int | None = optional()
    """Which of several answers."""
    answer: str | None
    """The text; None where there is none."""
    contexts: tuple[Passage, ...] | None
    """The passages that it was made from; None where they are not known."""
    queries: tuple[str, ...] = optional(())
    """The queries that the system formulated."""
    usage: UsageRow | None = optional()
    """What it took; None where it failed."""
    latency_ms: float | None = None
    """How long it took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedPrediction(Record):
    """Why a system has no answer to a query."""

    query_id: str
    """Which query."""
    sample: int | None = optional()
    """Which of several answers."""
    answer: None = None
    """There is none."""
    contexts: None = None
    """Nor what it would have been made from."""
    cause: str
    """The word of the cause."""
    detail: Prose
    """The text of the error."""
