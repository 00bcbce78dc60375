"""`ragbench score --format json`: the schema `ragbench.scores/1`, every number with its weight."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ragbench.comparison.evaluate import SCHEMA
from ragbench.report.scores.base import Scored


def render_json(
    systems: Sequence[Scored], *, per_query: bool = False, summary: bool = True, **facts: Any
) -> str:
    """Write the scores as JSON; null where there is no value.

    Args:
        systems: The runs or predictions, in order.
        per_query: Add the values of the single queries, by score.
        summary: Write the means with their intervals, counts and signatures.
        **facts: What the numbers rest on, for the top level.

    Returns:
        One object. The entries of `systems` are like those of summary.json: `name`, `scores`.
    """
    content = {
        "schema": SCHEMA,
        "confidence": systems[0].evaluation.confidence,
        **facts,
        "systems": [_system(scored, per_query, summary) for scored in systems],
    }
    # plain ASCII: an id whose bytes are not UTF-8 would make the whole output unreadable
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _system(scored: Scored, per_query: bool, summary: bool) -> dict[str, Any]:
    evaluation = scored.evaluation
    found: dict[str, Any] = {
        "name": scored.name,
        "file": scored.source,
        "counts": dict(evaluation.counts),
    }
    if summary:
        found["scores"] = {name: score.to_dict() for name, score in evaluation.summary.items()}
    if per_query:
        rows = list(scored.rows())
        found["per_query"] = {
            name: {query: values[name] for query, values in rows} for name in evaluation.columns
        }
    return found
