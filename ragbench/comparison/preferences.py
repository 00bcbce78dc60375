"""Which systems a judge prefers: win rates of pairs, and one ranking of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ragbench import stats
from ragbench.comparison.method import Method
from ragbench.comparison.systems import finite, summarize
from ragbench.records.comparison import Preference, PreferredPair
from ragbench.records.summary import PreferredSystem
from ragbench.score.base import ScoreColumn
from ragbench.stats.bradley_terry import win_matrix
from ragbench.types import FloatArray

_EQUAL = 1e-9  # strengths that differ by less have one rank


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """Two systems whose answers were compared query by query."""

    system: str
    """The first system: a win is its win."""
    other: str
    """The second."""
    column: ScoreColumn
    """1 where the first won, 0.5 for a tie, 0 where it lost."""
    same: int = 0
    """How many of the ties are equal answers."""


def compare_preferences(pairs: Sequence[ComparedPair], method: Method) -> Preference:
    """Describe what a judge prefers by one rubric.

    The win rate of a pair is its wins and half its ties, over the queries that were judged. The
    pairs are one family: that no side of a pair is preferred is tested by sign flips over the
    queries, adjusted by Holm's procedure.

    References:
        Zheng et al. (2023), Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena.
    """
    names = list(dict.fromkeys(name for pair in pairs for name in (pair.system, pair.other)))
    ends = [(names.index(pair.system), names.index(pair.other)) for pair in pairs]
    table = np.column_stack([pair.column.values for pair in pairs])
    found = stats.bradley_terry_strengths(table, ends, confidence=method.confidence)
    comparisons = tuple(_comparisons(pairs, table, method))
    return Preference(
        systems=tuple(_systems(names, found, comparisons)),
        rule=found.rule,
        notes=tuple(_notes(names, found)),
        comparisons=comparisons,
        win_matrix=_matrix(names, win_matrix(table, ends)),
    )


def _comparisons(
    pairs: Sequence[ComparedPair], table: FloatArray, method: Method
) -> Iterator[PreferredPair]:
    alpha = 1 - method.confidence
    resamples = max(method.resamples, stats.resamples_needed(len(pairs), alpha=alpha))
    p_values = stats.randomization_p_values(2 * table - 1, resamples=resamples, seed=method.seed)
    for pair, p, adjusted in zip(pairs, p_values, stats.holm_p_values(p_values), strict=True):
        score = summarize(pair.column, confidence=method.confidence).record()
        values = Counter(pair.column.values.tolist())
        yield PreferredPair(
            system=pair.system,
            other=pair.other,
            wins=values[1.0],
            ties=values[0.5],
            losses=values[0.0],
            same_answer=pair.same,
            win_rate=score.mean,
            interval=score.interval or (None, None),
            n=score.n,
            failed=score.failed,
            not_applicable=score.not_applicable,
            bounds=score.bounds or (None, None),
            signature=score.signature,
            p=finite(p),
            p_adjusted=finite(adjusted),
            differs=bool(adjusted <= alpha),
        )


def _systems(
    names: Sequence[str], found: stats.Strengths, comparisons: Sequence[PreferredPair]
) -> Iterator[PreferredSystem]:
    """Every system with its strength and with what it won and lost against all others."""
    ranks = _ranks(found)
    for row, name in enumerate(names):
        own = [c for c in comparisons if name in (c.system, c.other)]
        won = sum(c.wins if c.system == name else c.losses for c in own)
        lost = sum(c.losses if c.system == name else c.wins for c in own)
        tied, n = sum(c.ties for c in own), sum(c.n for c in own)
        yield PreferredSystem(
            system=name,
            rank=ranks[row],
            strength=finite(found.values[row]),
            interval=(finite(found.lower[row]), finite(found.upper[row])),
            win_rate=(won + tied / 2) / n if n else None,
            wins=won,
            ties=tied,
            losses=lost,
            failed=dict(sum((Counter(c.failed) for c in own), Counter())),
            not_applicable=sum(c.not_applicable for c in own),
        )


def _ranks(found: stats.Strengths) -> list[int | None]:
    """1 is the strongest; None where comparisons do not connect all systems."""
    if len(found.groups) != 1:
        return [None] * len(found.values)
    return [1 + int((found.values > value + _EQUAL).sum()) for value in found.values]


def _notes(names: Sequence[str], found: stats.Strengths) -> list[str]:
    notes = []
    if found.rule == "plus_tie":
        notes.append(
            "some systems never lost to the others, which no finite strength explains: strengths "
            "are those with one tie added to each pair"
        )
    if len(found.groups) > 1:
        groups = "; ".join(", ".join(names[system] for system in group) for group in found.groups)
        notes.append(
            f"no comparison connects these, so that there is no rank over all: {groups}; strengths "
            "are within each group"
        )
    return notes


def _matrix(names: Sequence[str], wins: FloatArray) -> dict[str, dict[str, float]]:
    """Row system -> column system -> win rate of the row, for the pairs that were judged."""
    games = wins + wins.T
    return {
        name: {
            other: float(wins[i, j] / games[i, j])
            for j, other in enumerate(names)
            if games[i, j] > 0
        }
        for i, name in enumerate(names)
    }
