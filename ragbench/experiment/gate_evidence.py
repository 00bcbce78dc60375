"""Evidence of a gate: the questions that lost and gained most, in the looks that decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import structs

from ragbench.comparison.compare_runs import ComparedRow
from ragbench.comparison.pairs import PairedScores, scores_of, worst_queries
from ragbench.data.runs.query_view import QueryViews
from ragbench.data.runs.scored_systems import ScoredSystems
from ragbench.records.comparison import ComparedRuns
from ragbench.records.gate import WorseQuery
from ragbench.records.manifest import query_label
from ragbench.report.ci import worst_line
from ragbench.report.gate import question_line
from ragbench.types import Query

_BEST = 3  # questions that gained and are shown
# Run folder and name of the system: of the base, then of the head
Views = list[tuple[QueryViews, str]]


@dataclass(frozen=True, slots=True)
class LookEvidence:
    """Answers and ranks of a system and its baseline, in the first look and in further ones.

    Attributes:
        measure: Score of the change.
        first: Views of the first look, of sides that are run folders.
        later: Views of further looks at some questions, of both sides.
        questions: Id -> question, where the head is no run folder.
    """

    measure: str
    first: Views
    later: Sequence[Views]
    questions: Mapping[str, Query]

    def line(self, query: WorseQuery) -> str:
        """Return the line of a question, with the answers or ranks of a look that agrees.

        Scores are means of all looks at it; the line says how many of them changed as they did.
        """
        if not self.first:
            return worst_line(_with_text(query, self.questions), self.measure)
        looks = []
        for of_look in self.later:
            if query.query_id in of_look[0][0].ids:
                looks.append(of_look)
        if not looks:
            return question_line(self.first, query, measure=self.measure)
        looks = [self.first, *looks]
        agreeing = []
        for of_look in looks:
            if self._agrees(of_look, query):
                agreeing.append(of_look)
        views = agreeing[0] if agreeing else self.first
        note = f"in {len(agreeing)} of {len(looks)} looks"
        return question_line(views, query, note, self.measure)

    def _agrees(self, views: Views, query: WorseQuery) -> bool:
        """Return True if the score of a look changed in the direction of the mean."""
        values = []
        for of_run, name in views:
            side = of_run[query.query_id].system(name)
            values.append(None if side is None else side.scores.get(self.measure))
        old, new = values
        if old is None or new is None or query.baseline is None:
            return False
        return (new - old) * (query.score - query.baseline) > 0


def moved_queries(
    measure: str,
    sides: Sequence[tuple[ScoredSystems, ComparedRow]],
    pairs: PairedScores,
    questions: Mapping[str, Query],
) -> tuple[list[str], list[str]]:
    """Return the lines of the queries that lost most, and of those that gained most.

    Args:
        measure: Score of the change.
        sides: Base and head, each with its compared system.
        pairs: Paired scores of the system and its baseline.
        questions: Id -> question, where the head is no run folder.
    """
    first: Views = []
    for source, row in sides:
        if source.folder is not None:
            first.append((QueryViews(source.folder), row.scores.name))
    names = [row.scores.name for _, row in sides]
    later = []
    for folders in zip(*(source.looks for source, _ in sides), strict=True):
        later.append(list(zip(map(QueryViews, folders), names, strict=True)))
    evidence = LookEvidence(measure, first, later, questions)
    worst, best = worst_queries(pairs), _best_queries(pairs)
    return [*map(evidence.line, worst)], [*map(evidence.line, best)]


def query_labels(head: ScoredSystems, questions: Mapping[str, Query]) -> Callable[[str], str]:
    """Return a function from a query to its name for a reader: `row 13` of a table without ids.

    Args:
        head: Scores of the head.
        questions: Id -> question, where the head is no run folder.
    """
    if head.folder is not None:
        return QueryViews(head.folder).label

    def label(query: str) -> str:
        """Return the row or the id of a question of a table."""
        return query_label(query, questions[query].row if query in questions else None)

    return label


def with_labels(compared: ComparedRuns, label: Callable[[str], str]) -> ComparedRuns:
    """Return a comparison whose moves between causes name queries as a reader knows them."""
    flows = []
    for flow in compared.causes:
        moves = []
        for move in flow.moves:
            moves.append(structs.replace(move, queries=tuple(map(label, move.queries))))
        flows.append(structs.replace(flow, moves=tuple(moves)))
    questions = {}
    for query, text in compared.questions.items():
        questions[label(query)] = text
    return structs.replace(compared, causes=tuple(flows), questions=questions)


def _with_text(query: WorseQuery, questions: Mapping[str, Query]) -> WorseQuery:
    """Return a query of a table with its text, and its row if the table has no ids."""
    question = questions.get(query.query_id)
    if question is None:
        return query
    name = query_label(question.id, question.row)
    return structs.replace(query, query_id=name, question=question.text)


def _best_queries(pairs: PairedScores) -> list[WorseQuery]:
    """Return the queries that gained most, the largest gain first."""
    gains = np.nan_to_num(pairs.gains)
    last = np.argsort(gains, kind="stable")[: -_BEST - 1 : -1]
    queries = []
    for row in last[gains[last] > 0].tolist():
        queries.append(scores_of(pairs, row))
    return queries
