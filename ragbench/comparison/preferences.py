"""Preferences of a judge between systems: win rates, tests and ranks of a pairwise rubric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ragbench import stats
from ragbench.comparison.decisions import decide, leaves_out
from ragbench.comparison.method import Method
from ragbench.comparison.systems import summarize
from ragbench.records.comparison import Preference, PreferredPair
from ragbench.records.summary import PreferredSystem
from ragbench.stats.bradley_terry import win_matrix
from ragbench.stats.mean import finite
from ragbench.types import FloatArray, ScoreColumn

_NO_PREFERENCE = 0.5  # win rate
_EQUAL = 1e-9  # strengths that differ by less have one rank

# Cluster label of each query; None if queries are units.


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """Preferences of a judge between the answers of two systems, query by query.

    `compare_preferences` reads a sequence of them, all over the same queries. The queries of
    `column` have no value where no judgement was made.

    Attributes:
        system: Name of the first system; wins are its wins.
        other: Name of the second system.
        column: 1 for a win of the first system, 0.5 for a tie, 0 for a loss.
        same: Number of ties between equal answers, which no judge had to compare.
    """

    system: str
    other: str
    column: ScoreColumn
    same: int = 0


def compare_preferences(pairs: Sequence[ComparedPair], method: Method) -> Preference:
    """Return win rates, tests and strengths of systems by the preferences of a judge.

    The win rate of a pair is its wins and half its ties, divided by its judged queries. Sign flips
    over the queries test that no side is preferred; Holm's procedure adjusts the p-values of all
    pairs. Strengths are those of Bradley and Terry. Systems are in the order in which the pairs
    name them first; `win_matrix` has for each the win rate against each other system that it was
    compared with. Of `method`, the confidence, the seed and the smallest number of resamples count.

    Raises:
        ValueError: There are no pairs, or their columns differ in length.
        OptionError: A value is outside 0..1, or a pair has one system twice.

    References:
        Zheng et al. (2023), Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena.
    """
    names: list[str] = []
    for pair in pairs:
        for name in (pair.system, pair.other):
            if name not in names:
                names.append(name)
    ends = []
    for pair in pairs:
        ends.append((names.index(pair.system), names.index(pair.other)))
    table = np.column_stack([pair.column.values for pair in pairs])
    strengths = stats.bradley_terry_strengths(table, ends, confidence=method.confidence)
    comparisons = tuple(_comparisons(pairs, table, method))
    wins = win_matrix(table, ends)
    rates: dict[str, dict[str, float]] = {name: {} for name in names}
    for row, column in np.argwhere(wins + wins.T > 0).tolist():
        won, lost = wins[row, column], wins[column, row]
        rates[names[row]][names[column]] = float(won / (won + lost))
    return Preference(
        systems=tuple(_systems(names, strengths, comparisons)),
        rule=strengths.rule,
        notes=tuple(_notes(names, strengths)),
        comparisons=comparisons,
        win_matrix=rates,
    )


def _comparisons(
    pairs: Sequence[ComparedPair], table: FloatArray, method: Method
) -> Iterator[PreferredPair]:
    """Yield counts, win rate and test of each pair; `table` has a column of scores for each."""
    alpha = 1 - method.confidence
    resamples = max(method.resamples, stats.resamples_needed(len(pairs), alpha=alpha))
    p_values = stats.randomization_p_values(2 * table - 1, resamples=resamples, seed=method.seed)
    for pair, p, adjusted in zip(pairs, p_values, stats.holm_p_values(p_values), strict=True):

        def excludes(confidence: float, column: ScoreColumn = pair.column) -> bool:
            """Return True if the interval of the win rate at a confidence leaves out a half."""
            score = summarize(column, confidence=confidence)
            return leaves_out(score.interval, _NO_PREFERENCE)

        score = summarize(pair.column, confidence=method.confidence)
        ends = score.interval or (None, None)
        decision = decide(p, adjusted, ends, alpha, excludes, _NO_PREFERENCE)
        values = Counter(pair.column.values.tolist())
        yield PreferredPair(
            system=pair.system,
            other=pair.other,
            wins=values[1.0],
            ties=values[0.5],
            losses=values[0.0],
            same_answer=pair.same,
            win_rate=score.mean,
            interval=decision.interval or (None, None),
            n=score.n,
            failed=score.failed,
            not_applicable=score.not_applicable,
            bounds=score.bounds or (None, None),
            signature=score.signature,
            p=decision.p,
            p_adjusted=decision.p_adjusted,
            differs=bool(decision.differs),
        )


def _systems(
    names: Sequence[str], strengths: stats.Strengths, comparisons: Sequence[PreferredPair]
) -> Iterator[PreferredSystem]:
    """Yield the record of each system: rank, strength, wins, ties, losses."""
    values = strengths.values
    for row, name in enumerate(names):
        won = lost = tied = n = not_applicable = 0
        failed: Counter[str] = Counter()
        for pair in comparisons:
            if name not in (pair.system, pair.other):
                continue
            won += pair.wins if pair.system == name else pair.losses
            lost += pair.losses if pair.system == name else pair.wins
            tied += pair.ties
            n += pair.n
            failed.update(pair.failed)
            not_applicable += pair.not_applicable
        # without comparisons that connect all systems, strengths of two groups have no order
        is_ranked = len(strengths.groups) == 1
        yield PreferredSystem(
            system=name,
            rank=1 + int((values > values[row] + _EQUAL).sum()) if is_ranked else None,
            strength=finite(values[row]),
            interval=(finite(strengths.lower[row]), finite(strengths.upper[row])),
            win_rate=(won + tied / 2) / n if n else None,
            wins=won,
            ties=tied,
            losses=lost,
            failed=dict(+failed),  # without causes that have no failures
            not_applicable=not_applicable,
        )


def _notes(names: Sequence[str], strengths: stats.Strengths) -> list[str]:
    """Return notes on strengths that rest on an added tie, or that are within groups only."""
    notes = []
    if strengths.rule == "plus_tie":
        notes.append(
            "some systems never lost to the others, which no finite strength explains: strengths "
            "are those with one tie added to each pair"
        )
    if len(strengths.groups) > 1:
        texts = []
        for group in strengths.groups:
            texts.append(", ".join(names[system] for system in group))
        groups = "; ".join(texts)
        notes.append(
            f"no comparison connects these, so that there is no rank over all: {groups}; strengths "
            "are within each group"
        )
    return notes
