"""How many queries an undecided gate would take."""

from __future__ import annotations

from collections.abc import Mapping

from ragbench.stats import queries_needed


def queries_to_decide(
    distance: float, margin: float, sd: float, n_units: int, confidence: float
) -> dict[str, int | None]:
    """Return the queries, or clusters, for two truths: equal systems, and what was observed.

    Args:
        distance: Of what was observed from the margin.
        margin: Of the gate: how far equal systems are from it.
        sd: Spread of the differences.
        n_units: How many there are.
        confidence: Of the interval that decides.

    Example:
        >>> queries_to_decide(0.05, 0.05, 0.2, 50, 0.95)
        {'equal': 128, 'as_observed': 128}
    """
    return {
        "equal": queries_needed(margin, sd, confidence=confidence),
        "as_observed": queries_needed(abs(distance), sd, n_observed=n_units, confidence=confidence),
    }


def shown_needed(needed: Mapping[str, int | None], unit: str) -> str:
    """Say it; `unit` is `queries` or `clusters`."""
    counts = {truth: "no number of" if n is None else str(n) for truth, n in needed.items()}
    return (
        f"to decide (power 0.8): {counts['equal']} {unit} if the systems are equal, "
        f"{counts['as_observed']} if the difference is as observed"
    )
