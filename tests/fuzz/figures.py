"""What fuzzing came to: the longest go at each target is kept, and docs/reliability.md shows it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

KEPT = Path(__file__).parent / "figures.json"


@dataclass(frozen=True)
class Fuzzed:
    """One go at one target."""

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
        """It for the terminal."""
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
    return {each["target"]: Fuzzed(**each) for each in json.loads(KEPT.read_text("utf-8"))}


def record(new: Fuzzed) -> None:
    """Keep a go if none at its target was longer."""
    kept = recorded()
    if new.target not in kept or kept[new.target].seconds <= new.seconds:
        kept[new.target] = new
    rows = ",\n".join(json.dumps(asdict(kept[name])) for name in sorted(kept))
    KEPT.write_text(f"[\n{rows}\n]\n", encoding="utf-8")
