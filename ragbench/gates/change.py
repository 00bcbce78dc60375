"""Gates on a change: what a system is compared with, and how many queries would decide."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from ragbench.comparison.method import Method
from ragbench.comparison.pairs import PairedScores, pair_scores
from ragbench.comparison.sources import needs_qrels, read_scored
from ragbench.comparison.systems import baseline_of
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.errors import DataError
from ragbench.gates.base import (
    Candidate,
    Decision,
    Entry,
    GatedRun,
    GateFiles,
    KnownNames,
    MeasureGate,
    out_of_range,
)
from ragbench.gates.scores import KnownScore, find_score
from ragbench.records.gate import Power, QueriesNeeded
from ragbench.registry import Option, nearest
from ragbench.stats import minimum_detectable_difference, queries_needed

ENOUGH_CLUSTERS = 10
"""Fewer say too little of how clusters differ."""
Identical = Annotated[
    Literal["pass", "undecided"],
    Option(
        "The verdict where nothing changed on any query; `undecided`: pass only where so many "
        "queries exclude a drop by `max_drop`."
    ),
]


def few_clusters(n: int | None) -> str:
    """Say that so many clusters are too few, where they are; empty where there are none."""
    if n is None or n >= ENOUGH_CLUSTERS:
        return ""
    return f"{n} clusters are too few; from {ENOUGH_CLUSTERS} on they can decide"


@dataclass(frozen=True, kw_only=True)
class Change(MeasureGate):
    """A gate on how a score or cost of a system differs from that of its counterpart."""

    file_key = "against"
    margin_key: ClassVar[str] = ""
    """The key of a margin in the unit of the score; empty where it has none."""

    against: Annotated[
        str | None,
        Option(
            "A baseline file, a run folder, or another system of the run; default: the system's "
            "baseline in the run.",
            refers_to="path_or_system",
        ),
    ] = None

    @property
    def margin(self) -> float:
        """The margin in the unit of the score."""
        return float(getattr(self, self.margin_key, None) or 0.0)

    @property
    def shown_against(self) -> str:
        """The end of its text."""
        return f" against {self.against}" if self.against is not None else ""

    @property
    def names(self) -> list[str]:
        """The systems that it names, that which they are compared with included."""
        is_system = self.against is not None and self.file is None
        return [*self.systems, *([str(self.against)] if is_system else [])]

    def check(self, entry: Entry, known: KnownNames, *, complete: bool = True) -> None:
        """Note also a system that is compared with itself."""
        super().check(entry, known, complete=complete)
        if self.systems == (self.against,) and self.against in known.systems:
            entry.wrong("against", f"{entry.shown('against')} against itself", "another system")

    def check_condition(self, entry: Entry, score: KnownScore | None) -> None:
        """The score has a mean, and the margin lies within its range."""
        if score is None:
            return
        if score.aggregate == "sum":
            found = f"{score.name} is a sum over the queries, which is not compared"
            entry.wrong(self.conditions[0], found, "min or max")
        elif self.margin > score.high - score.low:
            out_of_range(entry, self.margin_key, 0, score.high - score.low)

    def read(self, files: GateFiles) -> None:
        """Read the baseline file or run folder, which has to have what it names."""
        if self.file is None:
            return
        if self.file not in files.references:
            if needs_qrels(self.file):  # it has no place for the judgements of a TREC run
                allowed = "a file of ragbench baseline, or a run folder"
                raise DataError("no baseline file", file=self.file, allowed=allowed)
            files.references[self.file] = read_scored(self.file, name=self.against)
        self.check_reference(files.references[self.file])

    def check_base(self, base: ScoredSystems) -> None:
        """Check what it is compared with, unless it names something else."""
        if self.against is None:
            self.check_reference(base)

    def check_reference(self, base: ScoredSystems) -> None:
        """What a gate names must be there; what it does not name may be new."""
        for name in self.systems:
            if name not in base.systems:
                raise _lacks(f"no system '{name}'", base, name, list(base.systems))
            if self.score is not None:
                score_in(base, name, self.score)

    def held(self, having: Mapping[str, SystemScores], run: GatedRun) -> list[str]:
        """Return all but what it is compared with; where that leaves none, all of them.

        A file holds a counterpart of the run's own baseline as well, so that none is left out. Of
        what a caller compares with, systems without a counterpart are.
        """
        if self.file is not None:
            return list(having)
        if self.against is not None:
            kept = [name for name in having if name != self.against]
        elif run.base is not None:
            kept = [name for name in having if name in run.base.systems]
        else:
            own = run.scored.baseline
            kept = [s.name for s in having.values() if baseline_of(s, having, own) is not None]
        return kept or list(having)

    def decide_system(self, held: Candidate) -> Decision:
        """Pair the system with its counterpart, query by query, and decide."""
        run, name, score = held.run, held.system.name, held.score
        base, other = self._counterpart(held)
        other = None if other is None else self.columns_of(other, score)
        theirs = None if other is None else find_score(score, list(other.columns))
        if self.file is None and name == self.against:
            return Decision("undecided", f"{name} is what it is compared with")
        if other is None and self.file is None and self.against is None and run.base is None:
            return Decision("undecided", f"{name} is the baseline; against: names something else")
        if other is None or theirs is None:
            lacks = f"{self.against or 'the baseline'} has no {score} of {name}"
            return Decision("undecided", lacks)
        try:
            now = (run.scored, self.columns_of(held.system, score), score)
            record = (base, other, theirs)
            return self.decide_pairs(pair_scores(now, record, run.clusters), run.method)
        except DataError as error:
            n, total = len(run.scored.query_ids), run.n_queries
            if n < total:
                return Decision("undecided", f"a sample of {n} of {total} queries was asked")
            why = "; ".join(str(error).splitlines())
            return Decision("undecided", f"refused: {why}", refused=True)

    def columns_of(self, system: SystemScores, score: str) -> SystemScores:
        """Return a system with what is compared as one of its columns."""
        return system

    @abstractmethod
    def decide_pairs(self, pairs: PairedScores, method: Method) -> Decision:
        """Decide it for a system and its counterpart, over the same queries."""

    def _counterpart(self, held: Candidate) -> tuple[ScoredSystems, SystemScores | None]:
        run, name = held.run, held.system.name
        if self.file is not None:
            base = run.files.references[self.file]
            return base, base.systems.get(name)
        if self.against is not None:
            return run.scored, held.having.get(self.against)
        if run.base is not None:
            return run.base, run.base.systems.get(name)
        return run.scored, baseline_of(held.system, held.having, run.scored.baseline)


def score_in(source: ScoredSystems, system: str, score: str) -> str:
    """Return the name under which a system has a score, however that is spelt."""
    names = list(source.systems[system].columns)
    found = find_score(score, names)
    if found is None:
        raise _lacks(f"system '{system}' has no '{score}'", source, score, names)
    return found


def _lacks(found: str, base: ScoredSystems, name: str, known: list[str]) -> DataError:
    close = nearest(name, known)
    return DataError(found, file=base.source, allowed=", ".join(known), nearest=close)


@dataclass(frozen=True, slots=True)
class Spread:
    """How differences of queries, or clusters, spread around their mean, as far as it is known."""

    worse_by: float
    """The mean drop, or increase, that was observed; negative where it got better."""
    sd: float
    """Standard deviation of the units."""
    n_units: int
    size: float = 0.0
    """By how much one query changes, where it does: a larger drop is more of such changes, and so
    a larger spread. 0: the spread stays as it is."""

    def sd_at(self, change: float) -> float:
        """Return the standard deviation if the true mean drop, or increase, were `change`."""
        more = max(0.0, change - self.worse_by) * self.size
        return math.sqrt(max(self.sd**2, self.sd**2 + self.worse_by**2 + more - change**2))


def power_of(spread: Spread, margin: float, confidence: float, *, widest: float) -> Power:
    """Return what so many queries, or clusters, can decide; `widest` is the largest change.

    Example:
        >>> found = power_of(Spread(0.0, 0.2, 50), 0.05, 0.95, widest=1.0)
        >>> found.queries_needed.equal, round(found.detectable, 3), found.estimate
        (128, 0.131, 'within')
    """
    sd, n = spread.sd, spread.n_units
    needed = QueriesNeeded(
        equal=queries_needed(margin, sd, confidence=confidence),
        as_observed=queries_needed(
            abs(margin - spread.worse_by), sd, n_observed=n, confidence=confidence
        ),
    )
    return Power(
        queries_needed=needed,
        detectable=_detectable(spread, margin, confidence, widest),
        estimate="within" if spread.worse_by <= margin else "beyond",
    )


def _detectable(spread: Spread, margin: float, confidence: float, widest: float) -> float | None:
    """The smallest true change whose interval lies beyond the margin with power 0.8."""
    errors = minimum_detectable_difference(1.0, spread.n_units, confidence=confidence)

    def is_shown(change: float) -> bool:
        return change - margin >= errors * spread.sd_at(change)

    # a spread of 0 is that of too few, not of all others
    if not spread.sd > 0 or math.isnan(errors):
        return None
    low, high = margin, margin + max(spread.sd, 1e-9)
    while not is_shown(high):
        if high >= widest or not math.isfinite(high):
            return None
        low, high = high, min(2 * high, widest)
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if is_shown(middle) else (middle, high)
    return high if high <= widest else None


def shown_power(power: Power, n_units: int, unit: str, change: str) -> str:
    """Say it; `unit` is `queries` or `clusters`, `change` is `drop` or `increase`."""
    needed = power.queries_needed
    equal, observed = (
        "no number of" if n is None else str(n) for n in (needed.equal, needed.as_observed)
    )
    least = power.detectable
    fails = f"no {change}" if least is None else f"a true {change} of {least:.3g} or more"
    return (
        f"the estimate is {power.estimate} the margin; with {n_units} {unit}, {fails} fails in "
        f"4 of 5 runs; to decide (power 0.8): {equal} {unit} if the systems are equal, {observed} "
        "if the difference is as observed"
    )
