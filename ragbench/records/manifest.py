"""`manifest.json`: what a run depended on, and what it took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ragbench.records.codec import Prose, Record, optional
from ragbench.records.summary import Tokens

MANIFEST_SCHEMA = "ragbench.manifest/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePayment(Record):
    """What a run sent to a judge, and paid for it."""

    models: tuple[str, ...]
    """The models as their servers name them."""
    calls: int
    """Calls that were sent."""
    stored: int
    """Replies that were stored already."""
    failed: int
    """Calls that failed."""
    tokens: Tokens
    """Tokens of what was sent."""
    usd: float | None
    """Dollars; None where a price is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageWork(Record):
    """What a stage had to do."""

    items: int
    """Items in all."""
    stored: int
    """Those that were stored already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(Record):
    """Versions, data fingerprints, signatures, seeds and timings; never a secret."""

    schema: str = MANIFEST_SCHEMA
    """The version of the file."""
    ragbench: str = ""
    """Version of ragbench."""
    python: str = ""
    """Version of Python."""
    platform: str = ""
    """Operating system and processor."""
    packages: Mapping[str, str | None] = field(default_factory=dict)
    """Package whose version may move a number -> its version; None where it is not installed."""
    seed: int | None = None
    """Of all that is random."""
    choices: Mapping[str, Any] = field(default_factory=dict)
    """What the command line chose."""
    live: tuple[str, ...] = ()
    """Components that were Python objects, which no file describes."""
    versions: Mapping[str, Prose] = field(default_factory=dict)
    """Component -> its version, where the config gives one."""
    data: Mapping[str, str]
    """Part of the data set -> fingerprint."""
    queries: int | None = None
    """How many were asked."""
    signatures: Mapping[str, str] = field(default_factory=dict)
    """Score -> what it depends on."""
    judging: Mapping[str, Mapping[str, JudgePayment]] = field(default_factory=dict)
    """System -> judge -> what was paid."""
    judging_passages: JudgePayment | None = optional()
    """What grading passages took."""
    judging_pairs: Mapping[str, JudgePayment] = optional({})
    """Judge -> what comparing answers took."""
    started: str = ""
    """When, in UTC."""
    seconds: float = 0.0
    """How long the run took."""
    stages: Mapping[str, float] = field(default_factory=dict)
    """Stage -> seconds."""
    work: Mapping[str, StageWork] = field(default_factory=dict)
    """Stage -> what it had to do."""
