"""Base class of gates on a change: the baseline of a system, and the power of the queries."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from ragbench.comparison.method import Method
from ragbench.comparison.pairs import PairedScores, both_means, pair_scores, worst_queries
from ragbench.comparison.sources import needs_qrels, read_scored
from ragbench.comparison.systems import baseline_of, find_score
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.errors import DataError
from ragbench.gates.base import Candidate, GatedRun, GateProblem, MeasureGate, out_of_range
from ragbench.gates.scores import GateNames, ScoreFacts
from ragbench.records.gate import Decision, Power, QueriesNeeded
from ragbench.registry import Option, nearest
from ragbench.stats import minimum_detectable_difference, queries_needed

# With fewer clusters, their variance is too uncertain to decide
MIN_CLUSTERS = 10
Identical = Annotated[
    Literal["pass", "undecided"],
    Option(
        "The verdict where nothing changed on any query; `undecided`: pass only where so many "
        "queries exclude a drop by `max_drop`."
    ),
]


def few_clusters(n_clusters: int | None) -> str:
    """Return the reason why so few clusters cannot decide.

    Empty if they can, or without clusters.
    """
    if n_clusters is None or n_clusters >= MIN_CLUSTERS:
        return ""
    return f"{n_clusters} clusters are too few; from {MIN_CLUSTERS} on they can decide"


@dataclass(frozen=True, kw_only=True)
class Change(MeasureGate):
    """A gate on the difference between a score or cost of a system and that of its baseline.

    Attributes:
        margin_key: Key of a margin in the unit of the score; empty if the kind has none.
    """

    file_key = "against"
    margin_key: ClassVar[str] = ""

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
        """Margin in the unit of the score; 0 without one."""
        return float(getattr(self, self.margin_key, None) or 0.0)

    @property
    def against_text(self) -> str:
        """End of the gate's text; empty without `against`."""
        return f" against {self.against}" if self.against is not None else ""

    @property
    def required_systems(self) -> list[str]:
        """Systems that the gate names, and the system that they are compared with."""
        is_system = self.against is not None and self.file is None
        return [*self.systems, *([str(self.against)] if is_system else [])]

    def check(self, names: GateNames) -> Iterator[GateProblem]:
        """Yield mistakes of the gate, also a system that is compared with itself."""
        yield from super().check(names)
        if self.systems == (self.against,) and self.against in names.systems:
            yield GateProblem("against", "{} is compared with itself", "another system")

    def check_condition(self, score: ScoreFacts | None) -> Iterator[GateProblem]:
        """Yield a problem for a score without a mean, or a margin beyond its range."""
        if score is None:
            return
        # sums over other numbers of queries differ without any change of quality
        if score.aggregate == "sum":
            problem = f"{score.name} is a sum over the queries, which is not compared"
            yield GateProblem(self.conditions[0], problem, "min or max")
        elif self.margin > score.high - score.low:
            yield out_of_range(self.margin_key, 0, score.high - score.low)

    def read(
        self, baselines: dict[Path, ScoredSystems], baseline: ScoredSystems | None = None
    ) -> None:
        """Read the baseline file or run folder; check that it has the gate's systems and scores.

        Args:
            baselines: Files that are read already; a new one is added.
            baseline: Scores that gates without `against` are compared with.

        Raises:
            DataError: The file cannot be read, or lacks a system or score.
        """
        if self.file is not None:
            if self.file not in baselines:
                if needs_qrels(self.file):  # a gate has no key for the qrels of a TREC run
                    allowed = "a file of ragbench baseline, or a run folder"
                    raise DataError("no baseline file", file=self.file, allowed=allowed)
                # several gates may name one file
                baselines[self.file] = read_scored(self.file, name=self.against)
            baseline = baselines[self.file]
        elif self.against is not None:
            return
        if baseline is not None:
            self.check_baseline(baseline)

    def check_baseline(self, baseline: ScoredSystems) -> None:
        """Check that a baseline has the systems that the gate names, and their score.

        Systems that the gate does not name may be new.

        Raises:
            DataError: A named system, or its score, is missing.
        """
        for name in self.systems:
            if name not in baseline.systems:
                raise _missing(f"no system '{name}'", baseline, name, list(baseline.systems))
            scores = list(baseline.systems[name].columns)
            if self.score is not None and find_score(self.score, scores) is None:
                problem = f"system '{name}' has no '{self.score}'"
                raise _missing(problem, baseline, self.score, scores)

    def default_systems(self, having: Mapping[str, SystemScores], run: GatedRun) -> list[str]:
        """Return all systems that have a baseline; all systems if none has one.

        A baseline file may also have the run's own baseline, so that all systems are compared with
        it.
        """
        if self.file is not None:
            return list(having)
        compared = [
            name
            for name, system in having.items()
            if name != self.against and self.find_baseline(system, having, run)[1] is not None
        ]
        return compared or list(having)

    def find_baseline(
        self, system: SystemScores, having: Mapping[str, SystemScores], run: GatedRun
    ) -> tuple[ScoredSystems, SystemScores | None]:
        """Return the source of a system's baseline, and the baseline; None if the source has none.

        The source is the file of `against`, or the run itself.
        """
        if self.file is None and self.against is not None:
            return run.scored, having.get(self.against)
        source = run.baseline if self.file is None else run.baselines[self.file]
        if source is None:
            return run.scored, baseline_of(system, having, run.scored.baseline)
        return source, source.systems.get(system.name)

    def decide_system(self, candidate: Candidate) -> Decision:
        """Return the decision for a system and its baseline, paired by query.

        It is undecided without a baseline, and `refused` if the scores may not be compared.
        """
        run, name, score = candidate.run, candidate.system.name, candidate.score
        if self.file is None and name == self.against:
            return Decision("undecided", f"{name} is what it is compared with")
        source, baseline = self.find_baseline(candidate.system, candidate.having, run)
        # the baseline of the run itself has nothing to be compared with
        if baseline is None and source is run.scored and self.against is None:
            return Decision("undecided", f"{name} is the baseline; against: names something else")
        baseline = None if baseline is None else self.columns_of(baseline, score)
        baseline_score = None if baseline is None else find_score(score, list(baseline.columns))
        if baseline is None or baseline_score is None:
            reason = f"{self.against or 'the baseline'} has no {score} of {name}"
            return Decision("undecided", reason)
        try:
            pairs = pair_scores(
                (run.scored, self.columns_of(candidate.system, score), score),
                (source, baseline, baseline_score),
                run.clusters,
            )
        except DataError as error:
            n, total = len(run.scored.query_ids), run.n_queries
            # `--limit` draws a sample, whose queries need not be those of the baseline
            if n < total:
                return Decision("undecided", f"a sample of {n} of {total} queries was asked")
            why = "; ".join(str(error).splitlines())
            return Decision("undecided", f"refused: {why}", refused=True)
        return self.decide_pairs(pairs, run.method)

    def columns_of(self, system: SystemScores, score: str) -> SystemScores:
        """Return a system with the score or cost as one of its columns."""
        return system

    def decide_pairs(self, pairs: PairedScores, method: Method) -> Decision:
        """Return the decision for a system and its baseline, over the same queries.

        The decision has both means and the queries that lost most, unless no query was compared.
        """
        decision = self.decide_changes(pairs, method)
        if not decision.facts.n:
            return decision
        return replace(decision, means=both_means(pairs), worst_queries=worst_queries(pairs))

    @abstractmethod
    def decide_changes(self, pairs: PairedScores, method: Method) -> Decision:
        """Return the decision by the rule of this kind of gate, with its facts.

        Without any query that has a score in both, the decision is undecided and `facts.n` is 0.
        """


def _missing(problem: str, source: ScoredSystems, name: str, names: Sequence[str]) -> DataError:
    """Return the error of a name that a baseline lacks, with the names that it has."""
    near = nearest(name, names)
    return DataError(problem, file=source.source, allowed=", ".join(names), nearest=near)


@dataclass(frozen=True, slots=True)
class Spread:
    """Observed spread of the changes of queries, or clusters, around their mean.

    Attributes:
        worse_by: Observed mean drop, or increase; negative for an improvement.
        sd: Standard deviation of the units.
        n_units: Number of queries, or clusters.
        size: Mean size of a change, weighted by size. A larger drop means more such changes, and so
            a larger spread; 0 keeps the spread.
    """

    worse_by: float
    sd: float
    n_units: int
    size: float = 0.0

    def sd_at(self, change: float) -> float:
        """Return the standard deviation if the true mean drop, or increase, were `change`."""
        extra = max(0.0, change - self.worse_by) * self.size
        return math.sqrt(max(self.sd**2, self.sd**2 + self.worse_by**2 + extra - change**2))


def power_of(spread: Spread, margin: float, confidence: float, *, widest: float) -> Power:
    """Return the changes that so many queries, or clusters, can detect, and the number needed.

    Args:
        spread: Observed spread.
        margin: Allowed drop, or increase.
        confidence: Level of the interval.
        widest: Largest possible change.

    Example:
        >>> power = power_of(Spread(0.0, 0.2, 50), 0.05, 0.95, widest=1.0)
        >>> power.queries_needed.equal, round(power.detectable, 3), power.estimate
        (128, 0.131, 'within')
    """
    sd, gap = spread.sd, abs(margin - spread.worse_by)
    return Power(
        queries_needed=QueriesNeeded(
            equal=queries_needed(margin, sd, confidence=confidence),
            as_observed=queries_needed(gap, sd, n_observed=spread.n_units, confidence=confidence),
        ),
        detectable=_detectable(spread, margin, confidence, widest),
        estimate="within" if spread.worse_by <= margin else "beyond",
    )


def _detectable(spread: Spread, margin: float, confidence: float, widest: float) -> float | None:
    """Return the smallest true change whose interval lies beyond the margin with power 0.8.

    None if no change up to `widest` does, or if the spread is not known.
    """
    errors = minimum_detectable_difference(1.0, spread.n_units, confidence=confidence)

    def is_detected(change: float) -> bool:
        return change - margin >= errors * spread.sd_at(change)

    # a spread of 0 comes from too few changes; other queries will change
    if not spread.sd > 0 or math.isnan(errors):
        return None
    low, high = margin, margin + max(spread.sd, 1e-9)
    # no closed form, as the spread depends on the change: double, then bisect
    while not is_detected(high):
        if high >= widest or not math.isfinite(high):
            return None
        low, high = high, min(2 * high, widest)
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if is_detected(middle) else (middle, high)
    return high if high <= widest else None


def power_text(power: Power, n_units: int, unit: str, change: str) -> str:
    """Return the power in words.

    Args:
        power: The power.
        n_units: Number of queries or clusters.
        unit: `queries` or `clusters`.
        change: `drop` or `increase`.
    """
    needed = power.queries_needed
    equal, observed = (
        "no number of" if n is None else str(n) for n in (needed.equal, needed.as_observed)
    )
    smallest = power.detectable
    detected = f"no {change}" if smallest is None else f"a true {change} of {smallest:.3g} or more"
    return (
        f"the estimate is {power.estimate} the margin; with {n_units} {unit}, {detected} fails in "
        f"4 of 5 runs; to decide (power 0.8): {equal} {unit} if the systems are equal, {observed} "
        "if the difference is as observed"
    )
