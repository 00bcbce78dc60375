"""The words and the JSON Schemas of a judge's replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from ragbench.score.judge.grounding import Ruling

RULINGS: tuple[str, ...] = get_args(Ruling)
"""What a source says of a claim."""
OUTCOMES = ("A", "B", "tie")
"""How two answers compare."""
IMPORTANCES = ("vital", "okay")
"""How much a nugget matters."""
SUPPORTS = ("support", "partial_support", "not_support")
"""How far an answer has a nugget."""


def word(allowed: Sequence[str]) -> dict[str, Any]:
    """Return the schema of one word of several."""
    return {"type": "string", "enum": [*allowed]}


def verdicts(label: str, count: int, allowed: Sequence[str]) -> dict[str, Any]:
    """Return the schema of one verdict for each number: none can be left out or given twice."""
    verdict = record({"reason": {"type": "string"}, "verdict": word(allowed)})
    return record({f"{label}_{number}": verdict for number in range(1, count + 1)})


def record(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with these keys, in this order, and no other."""
    return {
        "type": "object",
        "properties": {**properties},
        "required": [*properties],
        "additionalProperties": False,
    }
