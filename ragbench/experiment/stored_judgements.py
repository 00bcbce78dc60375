"""Judgements of answers that the data set holds, as verdicts for the page and `ragbench show`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ragbench.experiment.plan.records import Plan
from ragbench.records.manifest import DATA_JUDGE, VerdictRow
from ragbench.score.judge.published import nugget_score, support_score
from ragbench.types.records import AnswerJudgements, Nugget


def verdicts_of_data(plan: Plan, system: str) -> Iterator[VerdictRow]:
    """Yield the judgements of the answers of a recorded system, in the order of its answers.

    A row has the first score of its kind, `nuggets.strict_vital` or `citation_support.precision`,
    and its parts as reasons. Nothing is yielded for a kind that the run does not score.
    """
    kinds = {metric.declaration.reads for metric in plan.metrics}
    ids = set(plan.ids)
    for answered in plan.collection.recorded_answers.get(system, ()):
        judgements = answered.judgements or AnswerJudgements()
        if answered.query_id not in ids:
            continue
        if judgements.nuggets is not None and "nuggets" in kinds:
            yield _nuggets_row(answered.query_id, judgements.nuggets)
        if judgements.support is not None and "support" in kinds:
            yield _support_row(answered.query_id, judgements.support)


def _nuggets_row(query: str, nuggets: Sequence[Nugget]) -> VerdictRow:
    """Return the verdict on the nuggets of an answer, with a line of reasons per nugget."""
    lines = []
    for number, nugget in enumerate(nuggets, start=1):
        lines.append(f"nugget {number} ({nugget.importance}): {nugget.assignment}: {nugget.text}")
    return VerdictRow(
        query_id=query,
        rubric="nuggets.strict_vital",
        score=nugget_score(nuggets, "strict_vital") or 0.0,
        reasoning="\n".join(lines),
        judge=DATA_JUDGE,
        model=DATA_JUDGE,
    )


def _support_row(query: str, levels: Sequence[str | None]) -> VerdictRow:
    """Return the verdict on the citations of an answer, with the number of sentences by level."""
    counts = Counter(level or "no citation" for level in levels)
    parts = []
    for level, number in counts.most_common():
        parts.append(f"{level.replace('_', ' ')} {number}")
    return VerdictRow(
        query_id=query,
        rubric="citation_support.precision",
        score=support_score(levels, "precision") or 0.0,
        reasoning=f"sentences: {', '.join(parts)}" if parts else "no sentence is judged",
        judge=DATA_JUDGE,
        model=DATA_JUDGE,
    )
