"""Figures of fuzzing: docs/reliability.md shows the longest trial of each target."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

FIGURES = Path(__file__).parent / "figures.json"


@dataclass(frozen=True)
class Fuzzed:
    """Figures of a trial of one target."""

    target: str
    by: str
    """`coverage` or `chance`."""
    inputs: int
    findings: int
    """Different places that raised what is no error of ours, hangs, and ends of the process."""
    seconds: float
    """Of the processor."""

    def plus(self, other: Fuzzed, *, ended: int = 0) -> Fuzzed:
        """Both together, with a finding more where the process `ended` by itself."""
        return Fuzzed(
            self.target,
            self.by,
            self.inputs + other.inputs,
            self.findings + other.findings + ended,
            round(self.seconds + other.seconds, 1),
        )

    @property
    def line(self) -> str:
        """Return the figures as a line for the terminal."""
        how = f"{self.inputs:,} inputs by {self.by} in {self.seconds:,.0f} CPU s"
        return f"{self.target}: {how}, {self.findings} findings"

    @property
    def row(self) -> str:
        """Its row of the page."""
        return (
            f"| `{self.target}` | {self.by} | {self.inputs:,} | {self.findings:,} "
            f"| {self.seconds:,.0f} |"
        )


def recorded() -> dict[str, Fuzzed]:
    """The longest go at each target, by name."""
    return {row["target"]: Fuzzed(**row) for row in json.loads(FIGURES.read_text("utf-8"))}


def record(new: Fuzzed) -> None:
    """Keep a go if none at its target was longer."""
    figures = recorded()
    if new.target not in figures or figures[new.target].seconds <= new.seconds:
        figures[new.target] = new
    rows = ",\n".join(json.dumps(asdict(figures[name])) for name in sorted(figures))
    FIGURES.write_text(f"[\n{rows}\n]\n", encoding="utf-8")
