"""What became of a gate: an entry of `gates` in `summary.json` and in what `compare` finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ragbench.records.codec import Prose, Record, optional

Verdict = Literal["pass", "fail", "undecided"]
"""What a gate says; `undecided` is neither: the data cannot tell."""


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

    @property
    def facts(self) -> Mapping[str, Any]:
        """The numbers in full."""
        return self.unknown
