"""Evidence of a gate: the questions that lost and gained most, and how often they did."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from msgspec import structs

from ragbench.comparison.compared_rows import ComparedRow
from ragbench.comparison.pairs import PairedScores, scores_of
from ragbench.data.runs.query_view import QueryViews
from ragbench.data.runs.scored_systems import ScoredSystems
from ragbench.records.comparison import ComparedRuns
from ragbench.records.gate import WorseQuery
from ragbench.records.manifest import query_label
from ragbench.report.ci import worst_line
from ragbench.report.gate import WorseQueries, question_line
from ragbench.types import Query

_BEST = 3  # questions that gained and are shown
# Run folder and name of the system: of the base, then of the head
Views = list[tuple[QueryViews, str]]


@dataclass(frozen=True, slots=True)
class LookEvidence:
    """Answers and ranks of a system and its baseline in the first look, and how often they repeat.

    Attributes:
        measure: Score of the change.
        views: Views of the first look, of sides that are run folders.
        gains: For each further look, query -> gain of the system.
        questions: Id -> question, where the head is no run folder.
    """

    measure: str
    views: Views
    gains: Sequence[Mapping[str, float]]
    questions: Mapping[str, Query]

    def line(self, query: WorseQuery, sign: int) -> str:
        """Return the line of a question that gained, or lost for `sign` -1.

        It has the answers or ranks of the first look. After further looks at the question, the line
        says in how many of all looks it changed so.
        """
        if not self.views:
            return worst_line(_with_text(query, self.questions), self.measure)
        n_same, n_looks = self.repeats(query.query_id, sign)
        note = f"in {n_same} of {n_looks} looks" if n_looks > 1 else ""
        return question_line(self.views, query, note, self.measure)

    def repeats(self, query: str, sign: int) -> tuple[int, int]:
        """Return the number of looks in which a question changed in a direction, and of all."""
        later = []
        for gains in self.gains:
            if query in gains:
                later.append(gains[query])
        return 1 + sum(gain * sign > 0 for gain in later), 1 + len(later)

    def text(self, query: str) -> str:
        """Return the text of a question; empty if it is not known."""
        if not self.views:
            return self.questions[query].text if query in self.questions else ""
        # the head comes last
        return self.views[-1][0].question(query)


def find_evidence(
    measure: str,
    sides: Sequence[tuple[ScoredSystems, ComparedRow]],
    sign: int,
    questions: Mapping[str, Query],
    open_views: Callable[[Path], QueryViews],
) -> LookEvidence:
    """Return the evidence on a change of a system.

    Args:
        measure: Score of the change.
        sides: Base and head, each with its compared system.
        sign: -1 if low scores are better, else 1.
        questions: Id -> question, where the head is no run folder.
        open_views: Returns the views of a run folder.
    """
    views: Views = []
    for source, row in sides:
        if source.folder is not None:
            views.append((open_views(source.folder), row.scores.name))
    gains = [_gains_of_look(measure, look, sides, sign) for look in _looks(sides)]
    return LookEvidence(measure, views, gains, questions)


def worse_queries(evidence: LookEvidence, system: str, pairs: PairedScores) -> WorseQueries:
    """Return the queries of a system whose score got worse in the first look.

    The largest loss comes first, weighted by the share of the looks that repeat it.
    """
    queries = tuple(scores_of(pairs, row) for row in _moved_rows(evidence, pairs, -1))
    line_of = partial(evidence.line, sign=-1)
    return WorseQueries(evidence.measure, system, queries, line_of, evidence.text)


def best_lines(evidence: LookEvidence, pairs: PairedScores) -> list[str]:
    """Return lines of the queries that gained most, by the rule of `worse_queries`."""
    lines = []
    for row in _moved_rows(evidence, pairs, 1)[:_BEST]:
        lines.append(evidence.line(scores_of(pairs, row), 1))
    return lines


def _moved_rows(evidence: LookEvidence, pairs: PairedScores, sign: int) -> list[int]:
    """Return rows of the queries that gained, or lost for `sign` -1, the largest change first."""
    gains = sign * np.nan_to_num(pairs.gains)
    # a change counts by the share of the looks that repeat it
    weighted = {}
    for row in np.flatnonzero(gains > 0).tolist():
        n_same, n_looks = evidence.repeats(pairs.query_ids[row], sign)
        weighted[row] = gains[row] * n_same / n_looks
    return sorted(weighted, key=lambda row: -weighted[row])


def _looks(
    sides: Sequence[tuple[ScoredSystems, ComparedRow]],
) -> Iterator[tuple[ScoredSystems, ...]]:
    """Yield base and head of each further look."""
    return zip(*(source.looks for source, _ in sides), strict=True)


def _gains_of_look(
    measure: str,
    look: Sequence[ScoredSystems],
    sides: Sequence[tuple[ScoredSystems, ComparedRow]],
    sign: int,
) -> dict[str, float]:
    """Return query -> gain of the system in a further look; {} if it lacks the score."""
    values = list[dict[str, float]]()
    for source, (_, row) in zip(look, sides, strict=True):
        system = source.systems.get(row.scores.name)
        column = None if system is None else system.columns.get(measure)
        if column is None:
            return {}
        values.append(dict(zip(source.query_ids, column.values.tolist(), strict=True)))
    old, new = values
    gains = {}
    for query in old.keys() & new.keys():
        gains[query] = sign * (new[query] - old[query])
    return gains


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
