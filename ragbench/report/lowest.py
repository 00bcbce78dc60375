"""Answers with the lowest scores of a judge, of systems whose answers have no known causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragbench.calibration.judged_run import read_scores
from ragbench.data.runs.query_view import QueryViews
from ragbench.records.causes import RIGHT
from ragbench.records.summary import SystemSummary
from ragbench.report import text as fmt
from ragbench.report.base import Chapter
from ragbench.report.causes import count_unjudged, judged_scores
from ragbench.report.table import word_table
from ragbench.types.display import printable
from ragbench.types.lookups import index_by_name

_LISTED = 5  # answers of a system on the page of a run


@dataclass(frozen=True, slots=True)
class LowestAnswer:
    """Verdict of a judge on an answer of a system without known causes.

    Attributes:
        system: System that gave the answer.
        query_id: Id of the query.
        score: Score of the judge, 0 to 1.
        reason: Reason of the judge; empty without one.
    """

    system: str
    query_id: str
    score: float
    reason: str


def read_lowest(views: QueryViews, scores: Mapping[str, str]) -> list[LowestAnswer]:
    """Return the verdicts of a judge on the answers of some systems, the worst of each first.

    `scores` is system -> score of the judge.

    Raises:
        DataError: A file of verdicts is damaged.
    """
    summaries = index_by_name(views.summary.systems)
    lowest: list[LowestAnswer] = []
    for name, score in scores.items():
        sign = -1 if _best_score(summaries[name], score) == 0 else 1
        answers = []
        for row in read_scores(views.folder, name, score):
            answers.append(LowestAnswer(name, *row))
        lowest += sorted(answers, key=lambda answer: sign * answer.score)
    return lowest


def below_best(
    system: SystemSummary, score: str, answers: Sequence[LowestAnswer]
) -> list[LowestAnswer]:
    """Return the answers of a system without those that have the best score."""
    best = _best_score(system, score)
    lower = []
    for answer in answers:
        if answer.system == system.name and answer.score != best:
            lower.append(answer)
    return lower


def _best_score(system: SystemSummary, score: str) -> float:
    """Return the best score of a judge: 0 if lower scores are better."""
    return 0.0 if system.scores[score].direction == "lower" else 1.0


def lowest_chapter(views: QueryViews) -> Chapter | None:
    """Return the chapter of the lowest answers; None if the causes of answers are known.

    Raises:
        DataError: A file of verdicts is damaged.
    """
    scores = judged_scores(views.summary.systems)
    if not scores:
        return None
    answers = read_lowest(views, scores)
    labels, tables = [], []
    for system in views.summary.systems:
        if (name := scores.get(system.name)) is None:
            continue
        lowest = below_best(system, name, answers)
        score = system.scores[name]
        mean = fmt.with_interval(score.mean, score.interval)
        title = f"{printable(system.name)}: {printable(name)} {mean}"
        if not lowest:
            labels.append(f"{title}; all {score.n} answers have the best score")
            continue
        rows = []
        for answer in lowest[:_LISTED]:
            question, value = views.question(answer.query_id), fmt.significant(answer.score)
            rows.append((answer.query_id, printable(question), value, printable(answer.reason)))
        heads = ("query", "question", "score", "reason")
        caption = f"{title}; {len(lowest)} of {score.n} answers are below the best score"
        tables.append(word_table(heads, rows, caption, has_queries=True))
    return Chapter("lowest answers by the judge", (), tuple(labels), tuple(tables))


def wrong_questions(views: QueryViews, system: SystemSummary) -> set[str]:
    """Return the queries whose answers are judged and not right, if some have no known cause."""
    if count_unjudged(system) >= system.causes.get("unknown", 0):
        return set()
    values = views.columns.get(system.name, {}).get(RIGHT)
    # NaN, which is no verdict, is not below 1
    rows = [] if values is None else (values < 1).nonzero()[0].tolist()
    return {views.ids[row] for row in rows}
