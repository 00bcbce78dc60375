"""Verdicts of many items as columns of scores, for experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragbench.score.base import ScoreColumn
from ragbench.score.judge.base import Item, Judge
from ragbench.score.judge.judge import apply_rubric
from ragbench.score.judge.rubric import Rubric
from ragbench.signature import Signature, fingerprint
from ragbench.types.scores import Cause, Verdict

VERSION = 1
"""Version of the definition; moves only when numbers move."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What a judge said of many items."""

    columns: Mapping[str, ScoreColumn]
    """Rubric -> one score per item, in the order of the items."""
    rows: list[dict[str, Any]]
    """One JSON-ready row per item and rubric: the verdict with its query, judge and model."""


def judge_items(
    judge: Judge, items: Sequence[Item], rubrics: Sequence[Rubric], *, type_name: str
) -> Judged:
    """Apply rubrics to items.

    Args:
        judge: What judges.
        items: One per query.
        rubrics: As `load_rubrics` returns them.
        type_name: The judge's `type`, for signatures.
    """
    columns, rows = {}, []
    gold = fingerprint(
        piece for item in items for piece in (str(len(item.references)), *item.references)
    )
    asked = fingerprint(piece for item in items for piece in (item.query_id, item.question or ""))
    for rubric in rubrics:
        verdicts = [apply_rubric(judge, item, rubric) for item in items]
        signature = Signature.of(
            rubric.name,
            judge=type_name,
            model=judge.model,
            rubric=rubric.fingerprint,
            **judge.options,
            queries=asked,
            gold=gold if "reference" in rubric.needs else None,
            v=VERSION,
        )
        columns[rubric.name] = _column(rubric, verdicts, signature)
        for item, verdict in zip(items, verdicts, strict=True):
            rows.append(
                {"query_id": item.query_id, "rubric": rubric.name}
                | verdict.to_dict()
                | {"judge": type_name, "model": judge.model}
            )
    return Judged(columns, rows)


def _column(rubric: Rubric, verdicts: Sequence[Verdict], signature: Signature) -> ScoreColumn:
    import numpy as np

    causes = [Cause[verdict.cause.upper()] for verdict in verdicts]
    return ScoreColumn(
        name=rubric.name,
        values=np.array([np.nan if v.score is None else v.score for v in verdicts], dtype=float),
        causes=np.array(causes, dtype=np.uint8),
        signature=signature,
        direction="lower" if rubric.direction == "lower" else "higher",
        details={
            row: verdict.reasoning
            for row, verdict in enumerate(verdicts)
            if verdict.status == "failed"
        },
    )
