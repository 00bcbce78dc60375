"""What judges prefer of pairs of systems: the ranking, the pairs, the matrix of win rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragbench.records.comparison import Comparisons, PreferredPair
from ragbench.records.comparison import Preference as Ranked
from ragbench.records.summary import PreferredSystem, Summary
from ragbench.report.base import Chapter, Grid
from ragbench.report.text import (
    MISSING,
    causes,
    interval,
    listed,
    percent,
    printable,
    probability,
    significant,
    with_interval,
)

_RANKING = ("system", "rank", "strength", "win rate", "wins", "ties", "losses", "failed", "n/a")
_PAIRS = ("pair", "win rate", "wins", "ties", "losses", "failed", "n/a", "bounds", "p", "verdict")
_METHOD = (
    "each pair in both orders, disagreement is a tie; win rate: wins and half the ties; strength: "
    "log-odds against the average of the systems (Bradley-Terry)"
)
_SMALLEST_MATRIX = 3


def lay_out_preferences(summary: Summary, comparisons: Comparisons) -> list[Chapter]:
    """Lay out the entries of `preferences` in comparisons.json, in their order."""
    return [_preference(entry, summary) for entry in comparisons.preferences]


def _preference(entry: Ranked, summary: Summary) -> Chapter:
    confidence = summary.confidence
    declared = summary.judges.get(entry.judge)
    label = None if declared is None else declared.label
    judged = f"judged by {printable(entry.model)}" + (f": {printable(label)}" if label else "")
    scope = f"each against {printable(entry.baseline)}" if entry.baseline else "every two systems"
    grids = [_ranking(entry.systems), _pairs(entry.comparisons, confidence)]
    if len(entry.systems) >= _SMALLEST_MATRIX:
        grids.append(_matrix(entry.systems, entry.win_matrix))
    return Chapter(
        title=f"preference (judge {printable(entry.judge)}): {printable(entry.rubric)}",
        headlines=(f"{_headline(entry, confidence)}; {judged}",),
        labels=(judged, f"{scope}, {_METHOD}", *map(printable, entry.notes)),
        grids=tuple(grids),
    )


def _headline(entry: Ranked, confidence: float) -> str:
    name, systems = printable(entry.name), entry.systems
    first = [system.system for system in systems if system.rank == 1]
    if not first:
        return f"no system has a rank by {name}"
    if len(first) > 1:
        return f"{listed([printable(each) for each in first])} rank equal by {name}"
    best, beaten = first[0], []
    for pair in entry.comparisons:
        sides = (pair.system, pair.other)
        if best in sides and pair.differs and _rate_of(best, pair) > 0.5:
            beaten.append(printable(sides[1] if sides[0] == best else sides[0]))
    rate = significant(next(s.win_rate for s in systems if s.system == best))
    text = f"{printable(best)} ranks first by {name}, win rate {rate}"
    if not beaten:
        return f"{text}; that it is preferred to any other system was not shown"
    return f"{text}; preferred to {listed(beaten)} ({percent(confidence)} confidence)"


def _rate_of(system: str, pair: PreferredPair) -> float:
    rate = pair.win_rate
    if rate is None:
        return 0.0
    return rate if pair.system == system else 1 - rate


def _ranking(systems: Sequence[PreferredSystem]) -> Grid:
    """The strongest first; where there is no rank, in the order of the systems."""
    ordered = sorted(systems, key=lambda s: (s.rank is None, s.rank or 0))
    rows = [
        (
            printable(system.system),
            MISSING if system.rank is None else str(system.rank),
            with_interval(system.strength, system.interval),
            significant(system.win_rate),
            *map(str, (system.wins, system.ties, system.losses)),
            _failed(system),
            str(system.not_applicable),
        )
        for system in ordered
    ]
    return Grid("ranking", _RANKING, tuple(rows))


def _pairs(comparisons: Sequence[PreferredPair], confidence: float) -> Grid:
    rows = [
        (
            f"{printable(pair.system)} over {printable(pair.other)}",
            with_interval(pair.win_rate, pair.interval),
            *map(str, (pair.wins, pair.ties, pair.losses)),
            _failed(pair),
            str(pair.not_applicable),
            interval(pair.bounds) or MISSING,
            probability(pair.p_adjusted),
            _verdict(pair),
        )
        for pair in comparisons
    ]
    count = f"Holm over {len(comparisons)}"
    return Grid(f"pairs, with {percent(confidence)} intervals; p: {count}", _PAIRS, tuple(rows))


def _verdict(pair: PreferredPair) -> str:
    if pair.win_rate is None:
        return MISSING
    if not pair.differs:
        return "undecided"
    return "preferred" if pair.win_rate > 0.5 else "the other is preferred"


def _failed(counted: PreferredPair | PreferredSystem) -> str:
    return f"{counted.n_failed}{causes(counted.failed.items())}"


def _matrix(systems: Sequence[PreferredSystem], matrix: Mapping[str, Mapping[str, float]]) -> Grid:
    names = [system.system for system in systems]
    rows = [
        (printable(name), *(significant(matrix[name].get(other)) for other in names))
        for name in names
    ]
    heads = ("win rate of", *(f"over {printable(name)}" for name in names))
    return Grid("win rate of each system over each other", heads, tuple(rows))
