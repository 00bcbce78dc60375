"""What became of a gate: an entry of `gates` in `summary.json` and in what `compare` finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ragbench.records.codec import Prose, Record, optional

Verdict = Literal["pass", "fail", "undecided"]
"""What a gate says; `undecided` is neither: the data cannot tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence(Record):
    """What all commits since a record say together of a drop."""

    e: float
    """The e-value; 1 says nothing."""
    fails_from: float
    """From which one on a drop is shown."""
    commits: int
    """How many commits there are since the record, this run included."""
    changed: int
    """In how many of them scores changed, so that there was something to learn."""
    since: str
    """The run that is the record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateVerdict(Record):
    """One gate, held against one system.

    The numbers behind the verdict depend on the kind of gate: they stand flat beside the fields in
    the file, and in `facts` here.
    """

    gate: Prose
    system: str | None
    """Whose; None where the gate is about no single system: a certificate, a judge that was
    skipped."""
    verdict: Verdict
    why: Prose
    """The numbers in words."""
    line: int | None = None
    """Where the gate stands in its config; None where it comes from elsewhere."""
    refused: bool = optional(False)
    """Whether it may not be compared with what it names."""
    evidence: Evidence | None = optional()
    """What the history that it is compared with adds; None where it is compared with one run."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """The numbers in full."""
        return self.unknown
