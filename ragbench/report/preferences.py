"""Chapter on a pairwise rubric: the ranking of the systems, and their pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragbench.records.comparison import Preference as Ranked
from ragbench.records.comparison import PreferredPair
from ragbench.records.summary import DeclaredJudge, PreferredSystem, Summary
from ragbench.report import text as fmt
from ragbench.report.base import Chapter
from ragbench.report.table import (
    TableCell,
    count,
    label,
    number,
    number_table,
    probability,
)
from ragbench.types.display import printable

_RANKING = ("system", "rank", "strength", "win rate", "wins", "ties", "losses", "failed", "n/a")
_PAIRS = ("pair", "win rate", "wins", "ties", "losses", "failed", "n/a", "bounds", "p", "verdict")
_METHOD = (
    "each pair in both orders, disagreement is a tie; win rate: wins and half the ties; strength: "
    "log-odds against the average of the systems (Bradley-Terry)"
)


def lay_out_preference(entry: Ranked, summary: Summary) -> Chapter:
    """Return the chapter of a pairwise rubric: the ranking of the systems, and their pairs."""
    confidence, baseline = fmt.percent(summary.confidence), printable(entry.baseline)
    declared = summary.judges.get(entry.judge) or DeclaredJudge()
    judged = f"judged by {printable(entry.model)}"
    judged += f": {printable(declared.label)}" if declared.label else ""
    scope = f"each against {baseline}" if entry.baseline else "every two systems"
    pairs = f"pairs, with {confidence} intervals; p: Holm over {len(entry.comparisons)}"
    grids = (
        number_table(_RANKING, _ranking_rows(entry.systems), "ranking"),
        number_table(_PAIRS, map(_pair_row, entry.comparisons), pairs),
    )
    return Chapter(
        title=f"preference (judge {printable(entry.judge)}): {printable(entry.rubric)}",
        headlines=(f"{_headline(entry, confidence)}; {judged}",),
        labels=(judged, f"{scope}, {_METHOD}", *map(printable, entry.notes)),
        grids=grids,
    )


def _headline(entry: Ranked, confidence: str) -> str:
    """Return the sentence on the system that ranks first, and which systems it beats."""
    name = printable(entry.name)
    first, names = [], []
    for system in entry.systems:
        if system.rank == 1:
            first.append(system)
            names.append(printable(system.system))
    if not first:
        return f"no system has a rank by {name}"
    if len(first) > 1:
        return f"{fmt.listed(names)} rank equal by {name}"
    best = first[0].system
    beaten = []
    for pair in entry.comparisons:
        if pair.preferred == best:
            beaten.append(printable(pair.other if pair.system == best else pair.system))
    # the first rank alone shows no preference
    text = f"{names[0]} ranks first by {name}, win rate {fmt.significant(first[0].win_rate)}"
    if not beaten:
        return f"{text}; that it is preferred to any other system was not shown"
    return f"{text}; preferred to {fmt.listed(beaten)} ({confidence} confidence)"


def _ranking_rows(systems: Sequence[PreferredSystem]) -> Iterator[tuple[TableCell, ...]]:
    """Yield a row per system, the strongest first; systems without a rank come last."""
    for system in sorted(systems, key=lambda s: (s.rank is None, s.rank or 0)):
        yield (
            label(system.system),
            count(system.rank),
            number(system.strength, system.interval),
            number(system.win_rate),
            *_counts(system),
        )


def _pair_row(pair: PreferredPair) -> tuple[TableCell, ...]:
    """Return the cells of a pair of systems, under `_PAIRS`."""
    # no value for a pair whose verdicts all failed
    verdict = fmt.MISSING if pair.win_rate is None else "not shown"
    if pair.preferred is not None:
        verdict = "preferred" if pair.preferred == pair.system else "the other is preferred"
    return (
        label(f"{pair.system} over {pair.other}"),
        number(pair.win_rate, pair.interval),
        *_counts(pair),
        label(fmt.interval(pair.bounds) or fmt.MISSING),
        probability(pair.p_adjusted),
        label(verdict),
    )


def _counts(entry: PreferredPair | PreferredSystem) -> tuple[TableCell, ...]:
    """Return wins, ties, losses, failed and not applicable verdicts."""
    failed = f"{entry.n_failed}{fmt.causes(entry.failed.items())}"
    return (
        *map(count, (entry.wins, entry.ties, entry.losses)),
        label(failed),
        count(entry.not_applicable),
    )
