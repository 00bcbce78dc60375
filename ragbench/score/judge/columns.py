"""Verdicts of many items as columns of scores, for experiments."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragbench.score.base import Advance, ScoreColumn
from ragbench.score.judge.apply import judge_all
from ragbench.score.judge.base import AskingJudge, Item, Judge, Rubric
from ragbench.signature import Signature, fingerprint
from ragbench.types.records import Usage, add_usage
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
    models: tuple[str, ...]
    """The models as their servers name them; else what the judge says that it asks."""
    usage: Usage
    """What the replies took that the verdicts rest on, stored ones included."""

    @property
    def spreads(self) -> dict[str, float]:
        """Rubric -> how far the samples or models of one item lie apart, on average."""
        found: dict[str, list[float]] = {}
        for row in self.rows:
            if row["spread"] is not None:
                found.setdefault(row["rubric"], []).append(row["spread"])
        return {rubric: statistics.fmean(spreads) for rubric, spreads in found.items()}

    def failures(self) -> dict[str, Counter[str]]:
        """Rubric -> how many verdicts failed, by cause; rubrics without a failure are absent."""
        found: dict[str, Counter[str]] = {}
        for row in self.rows:
            if row["status"] == "failed":
                found.setdefault(row["rubric"], Counter())[row["cause"]] += 1
        return found


def judge_items(
    judge: Judge,
    items: Sequence[Item],
    rubrics: Sequence[Rubric],
    *,
    type_name: str,
    advance: Advance | None = None,
) -> Judged:
    """Apply rubrics to items.

    Args:
        judge: What judges.
        items: One per query.
        rubrics: As `load_rubrics` returns them.
        type_name: The judge's `type`, for signatures.
        advance: Told after each item.
    """
    found = judge_all(judge, items, rubrics, advance)
    return collect_verdicts(judge, items, rubrics, found, type_name=type_name)


def collect_verdicts(
    judge: Judge,
    items: Sequence[Item],
    rubrics: Sequence[Rubric],
    found: Sequence[Mapping[str, Verdict]],
    *,
    type_name: str,
) -> Judged:
    """Turn the verdicts on items into columns of scores.

    Args:
        judge: What judged.
        items: One per query.
        rubrics: As `load_rubrics` returns them.
        found: Per item: rubric -> verdict.
        type_name: The judge's `type`, for signatures.
    """
    verdicts = [each[rubric.name] for each in found for rubric in rubrics]
    models = _models(verdicts) or (judge.model,)
    # further answers to a query ask nothing new
    firsts = [item for item in items if not item.sample]
    gold = fingerprint(
        piece for item in firsts for piece in (str(len(item.references)), *item.references)
    )
    asked = fingerprint(piece for item in firsts for piece in (item.query_id, item.question or ""))
    numbered = len(firsts) < len(items)
    columns, rows = {}, []
    for rubric in rubrics:
        own = [each[rubric.name] for each in found]
        signature = Signature.of(
            rubric.name,
            judge=type_name,
            model="+".join(_models(own) or models),
            **_parts(judge, rubric, own),
            queries=asked,
            gold=gold if "reference" in rubric.needs else None,
            v=VERSION,
        )
        columns[rubric.name] = _column(rubric, own, signature)
        for item, verdict in zip(items, own, strict=True):
            rows.append(
                {"query_id": item.query_id}
                | ({"sample": item.sample} if numbered else {})
                | {"rubric": rubric.name}
                | verdict.to_dict()
                | {"judge": type_name, "model": verdict.model or judge.model}
            )
    return Judged(columns, rows, models, add_usage([verdict.usage for verdict in verdicts]))


def _models(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """The models that gave verdicts, as their servers name them."""
    return tuple(sorted({name for v in verdicts if v.model for name in v.model.split("+")}))


def _parts(judge: Judge, rubric: Rubric, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """What the scores depend on besides model and data."""
    if not isinstance(judge, AskingJudge):
        return {"rubric": rubric.fingerprint, **judge.options}
    weighted: Any = None
    if rubric.method == "rating":
        # a server that returns log-probabilities now and then mixes two definitions
        seen = {verdict.weighted for verdict in verdicts if verdict.status == "scored"}
        weighted = "some" if len(seen) > 1 else seen == {True}
    return {**judge.signature_parts(rubric), "weighted": weighted}


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
