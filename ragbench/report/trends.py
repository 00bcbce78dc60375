"""Scores of the systems of an experiment over its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ragbench.comparison.compared_rows import short_names
from ragbench.comparison.same_queries import QUERY_PARTS
from ragbench.comparison.signatures import unlike_parts
from ragbench.data.runs.run_list import DATA, RunEntry
from ragbench.records.score import SystemScore
from ragbench.report import text as fmt
from ragbench.report.table import (
    Table,
    TableCell,
    TableColumn,
    label,
    number,
)
from ragbench.signature import Signature
from ragbench.types.display import printable

_TREND = (
    *(TableColumn("system"), TableColumn("trend", "bar"), TableColumn("first", "number")),
    *(TableColumn("last", "number"), TableColumn("best", "number"), TableColumn("in")),
)
# largest numbers: systems in a trend, values of a system
_SYSTEMS, _VALUES = 12, 60
# Change of a run with other questions than the run before, as `changes` words it
_OTHER_QUERIES = f"{DATA}queries"


@dataclass(frozen=True, slots=True)
class Trends:
    """Score of an experiment over its runs, oldest first.

    `trends_of` creates it. `table` returns a row per system, `notes` the warnings.

    Attributes:
        experiment: Name of the experiment.
        score: Name of the score, the first score of the newest run.
        runs: Short names of the runs.
        systems: System -> its value in each run, None where the run does not have this score first;
            the best one in the newest run comes first. At most 12 systems.
        left_out: Number of further systems.
        breaks: Runs with another signature of the score than the previous run; the parts that
            follow from other questions do not count.
    """

    experiment: str
    score: str
    runs: tuple[str, ...]
    systems: Mapping[str, Sequence[SystemScore | None]]
    left_out: int
    breaks: tuple[str, ...]

    @property
    def notes(self) -> list[str]:
        """Return warnings on runs that are not comparable and on systems that are not shown."""
        reason = "has other options or judgements than that of the previous run"
        notes = []
        for run in self.breaks:
            name = f"{printable(self.score)} of {printable(run)}"
            notes.append(f"{name} {reason}: the two are not comparable")
        if self.left_out:
            notes.append(f"{fmt.counted(self.left_out, 'further systems')} are in --format json")
        return notes

    def table(self) -> Table:
        """Return the trend of each system as a line of text bars, with its first, last and best."""
        rows = []
        for system, scores in self.systems.items():
            scored = []
            for s, run in zip(scores, self.runs, strict=True):
                if s is not None:
                    scored.append((s, run))
            # `_rank` sorts the best first
            best, best_run = min(scored, key=lambda pair: _rank(pair[0]))
            means = [None if score is None else score.mean for score in scores]
            bars = TableCell(fmt.sparkline(means[-_VALUES:]))
            ends = map(number, (scored[0][0].mean, scored[-1][0].mean, best.mean))
            rows.append((label(system), bars, *ends, label(best_run)))
        subject = f"{printable(self.score)} of {printable(self.experiment)}"
        caption = f"{subject} over {fmt.counted(len(self.runs), 'runs')}, oldest first"
        notes = fmt.labelled("note", self.notes)
        return Table(_TREND, tuple(rows), caption, notes=notes)


def trends_of(entries: Sequence[RunEntry]) -> list[Trends]:
    """Return the trend of the score of each experiment with several scored runs.

    `entries` are sorted by their start, oldest first. Trends are in the order of the first runs; []
    without an experiment with two scored runs. Unreadable runs do not count.
    """
    by_name: dict[str, list[RunEntry]] = {}
    for entry in entries:
        if entry.problem is None and entry.score is not None:
            by_name.setdefault(entry.name, []).append(entry)
    # a single run has no trend
    filled = []
    for name, runs in by_name.items():
        trends = _trends(name, runs)
        if len(runs) > 1 and trends.systems:
            filled.append(trends)
    return filled


def _trends(name: str, runs: Sequence[RunEntry]) -> Trends:
    """Return the trend of the runs of an experiment, by the score of its newest run."""
    score = runs[-1].score or ""
    # a run whose first score is another one has no place in this trend
    scores = []
    for run in runs:
        scores.append(run.scores if run.score == score else {})
    # newest first: a system that the newest run lacks has the position of its last run
    systems: dict[str, None] = {}
    for of_run in reversed(scores):
        systems |= dict.fromkeys(of_run)
    ordered = sorted(systems, key=lambda system: _rank(scores[-1].get(system)))
    names = short_names([str(run.path) for run in runs])
    breaks = []
    for label_of_run, run, pair in zip(names[1:], runs[1:], pairwise(scores), strict=True):
        earlier, later = pair
        other_queries = _OTHER_QUERIES in run.changed
        for system in later.keys() & earlier.keys():
            # a change of options or judgements starts a new series
            if _differ(later[system], earlier[system], other_queries=other_queries):
                breaks.append(label_of_run)
                break
    means = {}
    for system in ordered[:_SYSTEMS]:
        means[system] = [of_run.get(system) for of_run in scores]
    return Trends(
        experiment=name,
        score=score,
        runs=tuple(names),
        systems=means,
        left_out=max(0, len(ordered) - _SYSTEMS),
        breaks=tuple(breaks),
    )


def _differ(later: SystemScore, earlier: SystemScore, *, other_queries: bool) -> bool:
    """Return True if the signatures of two scores forbid a comparison."""
    one, other = Signature.parse(later.signature), Signature.parse(earlier.signature)
    return bool(unlike_parts(one, other, QUERY_PARTS if other_queries else frozenset()))


def _rank(score: SystemScore | None) -> tuple[bool, float]:
    """Return a key that sorts the best score first and missing scores last."""
    if score is None or score.mean is None:
        return True, 0.0
    return False, score.mean if score.direction == "lower" else -score.mean
