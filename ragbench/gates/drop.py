"""Gates on a change since a baseline: `max_drop`, `max_queries_worse`, and the base of others."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import structs

from ragbench import stats
from ragbench.comparison.matching import LEAST_COMMON
from ragbench.comparison.method import Method
from ragbench.comparison.pair_tests import careful_interval
from ragbench.comparison.pairs import PairedScores, both_means, pair_scores, reaches, worst_queries
from ragbench.comparison.sources import needs_qrels, read_scored
from ragbench.comparison.systems import baseline_of, find_score
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.errors import DataError
from ragbench.gates import base
from ragbench.records.comparison import Difference
from ragbench.records.gate import Decision, Facts, Power, QueriesNeeded, Verdict
from ragbench.registry import Option, nearest
from ragbench.stats.difference import PairedUnits
from ragbench.stats.mean import finite
from ragbench.types import FloatArray

# An estimate this near to the margin, in standard errors, is noise: no number of queries follows
_NOISE_ERRORS = 0.1
# Fewer identical queries exclude no share of changes that is worth printing
_MIN_IDENTICAL = 4
# Margin of a gate without one, as a share of the range of the score: in benchmarks/year.py 0.02
# ends a year at a lower quality than the mean alone, and 0.018 has too many false alarms
NOT_WORSE_MARGIN = 0.019
# Reason of a failure whose interval lies below 0
SURELY_WORSE = "surely worse"
# Another rule, for teams that must decide with the queries that they have
_BY_MEAN = "max_drop with decide: mean"
# With fewer clusters, their variance is too uncertain to decide
MIN_CLUSTERS = 10
Identical = Annotated[
    Literal["pass", "undecided"],
    Option(
        "Verdict if the score of no query changed; `undecided` passes only if there "
        "are enough queries to exclude a drop by `max_drop`."
    ),
]


def few_clusters(n_clusters: int | None) -> str:
    """Return the reason why fewer than 10 clusters cannot decide; '' from 10 on, and for None."""
    if n_clusters is None or n_clusters >= MIN_CLUSTERS:
        return ""
    return f"{n_clusters} clusters are too few; from {MIN_CLUSTERS} on they can decide"


class PairGate(base.MeasureGate):
    """A gate on the difference between a score of a system and that of its baseline.

    Subclasses define `text` and `decide_changes`, and name their conditions. The config puts the
    path of `against` into `file`; without `file`, `against` is the name of a system.
    `decide_systems(run)` yields a decision for each system, and raises KeyError if `run.baselines`
    lacks the file.

    Attributes:
        margin_key: Key of a margin in the unit of the score; empty if the kind has none.
    """

    file_key = "against"
    margin_key: ClassVar[str] = ""

    against: Annotated[
        str | None,
        Option(
            "A baseline file, a run folder, or another system of the run; default: the "
            "system's baseline in the run.",
            refers_to="path_or_system",
        ),
    ] = None

    @property
    def margin(self) -> float:
        """Margin in the unit of the score; 0 without one."""
        return float(getattr(self, self.margin_key, None) or 0.0)

    @property
    def reads_decisions(self) -> bool:
        """True if the decision on a pair in the table that prints it decides, or is quoted."""
        return False

    @property
    def against_text(self) -> str:
        """End of the gate's text; empty without `against`."""
        return f" against {self.against}" if self.against is not None else ""

    @property
    def required_systems(self) -> list[str]:
        """Systems that the gate names, and the system that they are compared with.

        The result is empty without either; `against` is left out if it is a file.
        """
        is_system = self.against is not None and self.file is None
        return [*self.systems, *([str(self.against)] if is_system else [])]

    def check(self, names: base.GateNames) -> Iterator[base.GateProblem]:
        """Yield mistakes of the gate, also a system that is compared with itself.

        In this order: score, limits, systems, comparison with itself.
        """
        yield from super().check(names)
        if self.systems == (self.against,) and self.against in names.systems:
            yield base.GateProblem("against", "{} is compared with itself", "another system")

    def check_condition(self, score: base.ScoreFacts | None) -> Iterator[base.GateProblem]:
        """Yield a problem for a score that is a sum over queries, or a margin beyond its range.

        Nothing for an unknown score.
        """
        if score is None:
            return
        # sums over other numbers of queries differ without any change of quality
        if score.aggregate == "sum":
            problem = f"{score.name} is a sum over the queries, which is not compared"
            yield base.GateProblem(self.conditions[0], problem, "min or max")
        elif self.margin > score.high - score.low:
            yield base.out_of_range(self.margin_key, 0, score.high - score.low)

    def read(
        self, baselines: dict[Path, ScoredSystems], baseline: ScoredSystems | None = None
    ) -> None:
        """Read the baseline file or run folder; check that it has the gate's systems and scores.

        A gate against another system of the run reads nothing.

        Args:
            baselines: Files that are read already; a new one is added.
            baseline: Scores that gates without `against` are compared with.

        Raises:
            DataError: The file cannot be read, is a TREC run, or lacks a system or score.
            OSError: The file may not be opened.
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

    def default_systems(self, having: Mapping[str, SystemScores], run: base.GatedRun) -> list[str]:
        """Return the systems that have a baseline, in the order of the run; all if none has one.

        With a baseline file, all systems are returned, as the file may also have the run's own
        baseline. A system in `against` is left out, unless no other system has the score.
        """
        if self.file is not None:
            return list(having)
        compared = []
        for name, system in having.items():
            _, baseline = self.find_baseline(system, having, run)
            if name != self.against and baseline is not None:
                compared.append(name)
        return compared or list(having)

    def find_baseline(
        self, system: SystemScores, having: Mapping[str, SystemScores], run: base.GatedRun
    ) -> tuple[ScoredSystems, SystemScores | None]:
        """Return the source of a system's baseline, and the baseline; None if the source has none.

        The source is the file of `against`, the run itself for a system in `against`, else
        `run.baseline`, and without that the run. A file and `run.baseline` are searched by the name
        of the system.
        """
        if self.file is None and self.against is not None:
            return run.scored, having.get(self.against)
        source = run.baseline if self.file is None else run.baselines[self.file]
        if source is None:
            return run.scored, baseline_of(system, having, run.scored.baseline)
        return source, source.systems.get(system.name)

    def decide_system(self, candidate: base.Candidate) -> Decision:
        """Return the decision for a system and its baseline, paired by query.

        Only common, unchanged queries count. It is undecided without a baseline, and undecided with
        `refused` True if the scores may not be compared. It is also undecided for the system of
        `against`, for a baseline without the score, and for a sample of the queries that lacks too
        many of the baseline.
        """
        run, name, score = candidate.run, candidate.system.name, candidate.score
        n, total = len(run.scored.query_ids), run.n_queries
        # `--limit` draws a sample, which lacks most queries of the baseline
        reason = f"a sample of {n} of {total} queries was asked; run without --limit"
        sample = reason if n < total else ""
        if self.file is None and name == self.against:
            return Decision(
                verdict="undecided", why=f"{name} is compared with itself; name another system"
            )
        source, baseline = self.find_baseline(candidate.system, candidate.having, run)
        # the baseline of the run itself has nothing to be compared with
        if baseline is None and source is run.scored and self.against is None:
            return Decision(
                verdict="undecided", why=f"{name} is the baseline; set `against` to another"
            )
        baseline_score = None if baseline is None else find_score(score, list(baseline.columns))
        if baseline is None or baseline_score is None:
            file = self.against or "the baseline"
            reason = f"{file} has no {score} of {name}; write it again from a run that has"
            return Decision(verdict="undecided", why=reason)
        try:
            pairs = pair_scores(
                (run.scored, candidate.system, score),
                (source, baseline, baseline_score),
                run.clusters,
            )
        except DataError as error:
            why = "; ".join(str(error).splitlines())
            return Decision(
                verdict="undecided", why=sample or f"refused: {why}", refused=not sample
            )
        if sample and not pairs.is_decidable:
            return Decision(verdict="undecided", why=sample)
        if self.reads_decisions:
            decision = run.decisions.find(score, name, source, baseline.name)
            pairs = replace(pairs, decision=decision)
        method = run.method if source is run.scored else run.method.of_runs()
        return self.decide_pairs(pairs, method)

    def decide_pairs(self, pairs: PairedScores, method: Method) -> Decision:
        """Return the decision for a system and its baseline, over the same queries.

        The decision has both means and the queries that lost most, unless no query was compared.
        Worst queries are at most five, the largest loss first. Undecided if under 80 % of the
        queries of the baseline are common and unchanged. The pair must have query ids. Raises
        IndexError for a loss without them.
        """
        if not pairs.is_decidable:
            advice = "ask the same questions, or write the baseline again"
            why = f"only {pairs.unchanged}, under {LEAST_COMMON:.0%}: {advice}"
            return Decision(verdict="undecided", why=why)
        decision = self.decide_changes(pairs, method)
        if not decision.facts.n:
            return decision
        return structs.replace(
            decision,
            means=both_means(pairs),
            worst_queries=worst_queries(pairs),
            not_worse=decision.verdict == "undecided" and self.is_not_worse(pairs, decision.facts),
        )

    def is_not_worse(self, pairs: PairedScores, facts: Facts) -> bool:
        """Return True if the mean of the system is at least as good as that of the baseline.

        Lower is better where the score says so, and rounding errors are allowed for.
        At least one query has a score in both. Kinds that compare something else override it.
        """
        return base.within(float(np.nanmean(pairs.gains)), 0.0, None) == "pass"

    @abstractmethod
    def decide_changes(self, pairs: PairedScores, method: Method) -> Decision:
        """Return the decision by the rule of this kind of gate, with its facts.

        Without any query that has a score in both, the decision is undecided and `facts.n` is 0.
        """


def _missing(problem: str, source: ScoredSystems, name: str, names: Sequence[str]) -> DataError:
    """Return the error of a name that a baseline lacks, with the names that it has."""
    near = nearest(name, names)
    return DataError(problem, file=source.source, allowed=", ".join(names), nearest=near)


def power_of(
    pairs: PairedScores,
    d: FloatArray,
    interval: stats.DifferenceInterval,
    gate: Drop,
    method: Method,
) -> Power:
    """Return the drop that so many queries, or clusters, detect with power 0.8, and their need.

    `interval` is that of the gains `d`. A number of queries is None for never, `detectable` is None
    where no drop like these changes is detected. `estimate` is 'within' for a drop of the mean by
    up to the margin, else 'beyond'. Raises OptionError if a gain is larger than the range of the
    score.
    """
    margin, confidence = gate.max_drop, method.confidence
    if math.isfinite(pairs.range[1] - pairs.range[0]):
        # planned by the interval itself, which is exact and slow
        needed = _queries_needed(pairs.gain_units(d), margin, confidence)
        detectable = pairs.detectable_drop(d, method, margin)
    else:
        sd, n = interval.sd, interval.n_units
        gap = abs(margin + interval.mean)
        needed = QueriesNeeded(
            equal=stats.queries_needed(margin, sd, confidence=confidence),
            as_observed=stats.queries_needed(gap, sd, n_observed=n, confidence=confidence),
        )
        beyond = stats.minimum_detectable_difference(sd, n, confidence=confidence)
        detectable = margin + beyond
    estimate: Literal["within", "beyond"] = "within" if -interval.mean <= margin else "beyond"
    return Power(queries_needed=needed, detectable=finite(detectable), estimate=estimate)


def _power_text(power: Power, n_units: int, unit: str) -> str:
    """Return the power in words."""
    needed = power.queries_needed
    never = "no number of"
    equal = never if needed.equal is None else str(needed.equal)
    observed = never if needed.as_observed is None else str(needed.as_observed)
    smallest = power.detectable
    detected = "no drop" if smallest is None else f"a drop of {smallest:.3g}"
    return (
        f"to decide: {observed} {unit} as observed, {equal} if equal, or {_BY_MEAN}; "
        f"now {detected} fails in 4 of 5 runs"
    )


class Drop(PairGate):
    """The mean of a score did not drop by more than `max_drop`.

    It is undecided if the interval includes a drop by `max_drop`, if failed queries could turn it,
    or if no query has a score in both. Fewer than 10 clusters are undecided too, except by the
    mean. Further options are those of `PairGate`: `measure`, `against`, `system` and `undecided`.
    `decide_systems(run)` yields a decision for each system, and raises KeyError if `run.baselines`
    lacks the file.

    Attributes:
        decide: `mean` decides for exactly the queries of the run; `interval` and None for all such
            queries, by the interval of the mean difference.
        identical: Verdict if nothing changed on any query: `pass`, or `undecided` unless so many
            queries exclude a drop by `max_drop`.
    """

    conditions: ClassVar[tuple[str, ...]] = ("max_drop",)
    # what else than more queries decides equal scores
    identical_advice: ClassVar[tuple[str, ...]] = ("identical: pass accepts them",)
    margin_key = "max_drop"

    max_drop: Annotated[float, Option("Largest allowed drop of the mean paired difference.", ge=0)]
    decide: base.DecideBy = None
    identical: Identical = "pass"

    @property
    def text(self) -> str:
        """The condition.

        Example:
            >>> Drop(measure="ndcg@10", max_drop=0.05, against="main.json").text
            'ndcg@10 drop <= 0.05 against main.json'
        """
        identical = "identical: undecided" if self.identical == "undecided" else None
        rules = ", ".join(filter(None, (self.decide, identical)))
        condition = f"{self.measure} drop <= {self.max_drop:g}{self.against_text}"
        return f"{condition} ({rules})" if rules else condition

    @property
    def reads_decisions(self) -> bool:
        """True unless exactly these queries decide: words on what is sure repeat the table."""
        return self.decide != "mean"

    def check_condition(self, score: base.ScoreFacts | None) -> Iterator[base.GateProblem]:
        """Yield mistakes of the margin, also a key that has no effect.

        The key is `identical` beside `decide: mean`.
        """
        yield from super().check_condition(score)
        if self.decide == "mean" and self.identical == "undecided":
            problem = "decide: mean is of exactly these queries"
            yield base.GateProblem("identical", problem, "decide: interval")

    def decide_changes(self, pairs: PairedScores, method: Method) -> Decision:
        """Decide whether the mean paired difference is a drop by more than `max_drop`.

        Up is better: where lower scores are better, differences are turned round. With [L, U] the
        interval that comparisons print: pass where L > -max_drop, fail where U < -max_drop, else
        undecided, with what such queries can show and how many it would take. No difference on any
        query passes, or with `identical` only where that excludes the margin. Queries that failed
        count at their worst and at their best: a verdict that they could turn is undecided.
        Clusters, where there are any, are the unit; fewer than 10 are undecided. Facts hold
        difference and interval as they are printed, not turned round, and the `rule` that gave the
        interval: `score` for hits, `tilting` for graded scores. Without a query that both have a
        score for, the decision is undecided; also if the score has no bound and too few queries
        changed. `decide: mean` compares the mean of exactly these queries instead: a drop of
        exactly `max_drop` passes.

        Example:
            One of eight queries lost its hit, which says next to nothing about all others.

            >>> from ragbench.types import ScoreColumn
            >>> from ragbench.signature import Signature
            >>> column = lambda *values: ScoreColumn(
            ...     "hit", np.array(values), np.zeros(len(values), np.uint8), Signature("hit"))
            >>> pairs = PairedScores(column(0.0, *[1.0] * 7), column(*[1.0] * 8), "abcdefgh")
            >>> gate = Drop(measure="hit", max_drop=0.05)
            >>> decision = gate.decide_pairs(pairs, Method())
            >>> decision.verdict, decision.power.queries_needed
            ('undecided', QueriesNeeded(equal=411, as_observed=100))
            >>> replace(gate, decide="mean").decide_pairs(pairs, Method()).verdict
            'fail'
        """
        d = pairs.gains
        n_failed = int(pairs.failed.sum())
        if np.isnan(d).all():
            facts = Facts(n=0, n_failed=n_failed)
            return Decision(verdict="undecided", why=base.not_compared(n_failed), facts=facts)
        rule = self._by_mean if self.decide == "mean" else self._by_interval
        decision = rule(d, pairs, method)
        facts = structs.replace(decision.facts, n_failed=n_failed)
        decision = structs.replace(decision, facts=facts)

        def at_ends() -> Iterator[Verdict]:
            # the printed decision is on the scores without failed queries
            alone = replace(pairs, decision=None)
            for at_end in (pairs.with_failed("worst"), pairs.with_failed("best")):
                # a score without a bound could have any value for a failed query
                is_open = np.isinf(at_end).any()
                yield "undecided" if is_open else rule(at_end, alone, method).verdict

        return base.undecided_if_turned(decision, n_failed, at_ends())

    def _by_interval(self, d: FloatArray, pairs: PairedScores, method: Method) -> Decision:
        """Return the decision by the interval of the mean difference."""
        margin = self.max_drop
        interval = careful_interval(pairs, d, method)
        unit = "queries" if interval.n_clusters is None else "clusters"
        # in the direction of the score, as it is printed; adding 0.0 makes -0.0 0.0
        mean = pairs.sign * interval.mean + 0.0
        low, high = sorted(pairs.sign * end + 0.0 for end in (interval.lower, interval.upper))
        facts = Facts(
            difference=finite(mean),
            interval=(finite(low), finite(high)),
            n=interval.n,
            n_changed=interval.n_changed,
            rule=interval.rule,
            n_clusters=interval.n_clusters,
        )
        # queries that are not in the sample may change although none of the sample did
        if interval.n_changed == 0:
            return self._decide_identical(d, interval, pairs, method, facts)
        if few := few_clusters(interval.n_clusters):
            return Decision(verdict="undecided", why=few, facts=facts)
        if math.isnan(interval.lower):
            changed = f"only {interval.n_changed} of {interval.n} queries changed"
            why = f"{changed}, and the score has no bound; use {_BY_MEAN}"
            return Decision(verdict="undecided", why=why, facts=facts)
        turned = "" if pairs.sign == 1 else ", lower is better"
        why = f"{facts.change} over {pairs.counted(interval.n)}{turned}"
        if interval.rule == "near_constant":
            why += ", an interval not to be trusted (nearly equal changes, a score without a bound)"
        width = pairs.range[1] - pairs.range[0]
        verdict, words = self.verdict_of(interval, width, pairs.decision)
        if verdict != "undecided":
            return Decision(verdict=verdict, why=f"{why}: {words}", facts=facts)
        power = power_of(pairs, d, interval, self, method)
        words = _power_text(power, interval.n_units, unit)
        sure = _drop_text(interval, pairs.decision)
        why = f"{why} includes a drop of {margin:g}{sure}; {words}"
        return Decision(verdict="undecided", why=why, facts=facts, power=power)

    def _decide_identical(
        self,
        d: FloatArray,
        interval: stats.DifferenceInterval,
        pairs: PairedScores,
        method: Method,
        facts: Facts,
    ) -> Decision:
        """Return the decision where nothing changed on any query, by the option `identical`."""
        # Fewer than four queries or clusters never exclude a drop.
        n, margin = interval.n_units, self.max_drop
        all_queries = f"all {interval.n} queries" if interval.n > 1 else "the only query"
        why = f"identical on {all_queries}" + (f", {pairs.unchanged}" if pairs.unchanged else "")
        # the limit, not the share: a cluster can hold more queries than the mean one
        excludes = n >= _MIN_IDENTICAL and -interval.lower < margin
        if n < _MIN_IDENTICAL:
            why += ", too few to exclude changes in others"
        else:
            # a share of queries or clusters, which a score without a bound has, too
            _, share = stats.score_interval(0, 0, n, confidence=method.confidence)
            unit = "queries" if interval.n_clusters is None else "clusters"
            why += f"; excludes changes in more than {share:.2g} of all {unit}"
            # no number of queries excludes every drop
            why += f", which leaves a drop by {margin:g} open" if margin and not excludes else ""
        if self.identical == "pass" or excludes:
            return Decision(verdict="pass", why=why, facts=facts)
        ways = [*self.identical_advice]
        if math.isfinite(pairs.range[1] - pairs.range[0]):
            unit = "queries" if pairs.clusters is None else "clusters"
            needed = _queries_needed(pairs.gain_units(d), margin, method.confidence).equal
            ways[:0] = [] if needed is None else [f"{needed} equal {unit} exclude it"]
        advice = ", or ".join(ways)
        return Decision(
            verdict="undecided", why="; ".join(filter(None, [why, advice])), facts=facts
        )

    def verdict_of(
        self,
        interval: stats.DifferenceInterval,
        width: float,
        decision: Difference | None = None,
    ) -> tuple[Verdict, str]:
        """Return the verdict that the interval of the mean gain gives, and its reason in words.

        Pass where the whole interval lies above -max_drop, fail where it lies below, else undecided
        with an empty reason. Overrides read `width`, that of the range of the score, infinite if it
        has no bound, and the decision on the pair.
        """
        if interval.lower > -self.max_drop:
            return "pass", f"no drop by {self.max_drop:g} or more"
        if interval.upper < -self.max_drop:
            return "fail", f"a drop by more than {self.max_drop:g}"
        return "undecided", ""

    def _by_mean(self, d: FloatArray, pairs: PairedScores, method: Method) -> Decision:
        """Return the decision by the mean of exactly these queries, without an interval."""
        d = d[~np.isnan(d)]
        mean, n_changed = float(d.mean()), int(np.count_nonzero(d))
        difference = pairs.sign * mean + 0.0
        facts = Facts(difference=difference, n=len(d), n_changed=n_changed)
        verdict = base.within(mean, -self.max_drop, None)
        drop = "no drop" if verdict == "pass" else "a drop"
        why = f"{facts.change} over these {pairs.counted(len(d))}: {drop} by more than"
        return Decision(verdict=verdict, why=f"{why} {self.max_drop:g}", facts=facts)


class NotWorse(Drop):
    """The mean of a score is not surely lower, nor lower by more than 0.019 of its range.

    This is the default decision: of a gate without a condition, and of `ragbench gate` for a config
    without gates. Sure is what the table that prints the pair calls worse; else the mean decides.
    Its only options are `measure`, `against`, `system` and `undecided`. `benchmarks/year.py`
    simulates what it does to a project.
    """

    conditions = ()

    # the options of `max_drop` are fixed: a gate without a condition has none
    max_drop: float = field(default=0.0, init=False)
    decide: base.DecideBy = field(default=None, init=False)
    identical: Identical = field(default="pass", init=False)

    @property
    def text(self) -> str:
        """Condition as summaries show it."""
        return f"{self.measure} not worse{self.against_text}"

    def verdict_of(
        self,
        interval: stats.DifferenceInterval,
        width: float,
        decision: Difference | None = None,
    ) -> tuple[Verdict, str]:
        """Return fail if the system is surely worse, or its mean is below -0.019 of the range.

        Else pass, with words. The decision on the pair says what is sure; without one, its
        interval.
        """
        is_sure = decision is None or decision.differs is True
        if is_sure and interval.upper < 0:
            return "fail", SURELY_WORSE
        correction = _correction_text(decision) if interval.upper < 0 else ""
        margin = NOT_WORSE_MARGIN * width
        if base.within(interval.mean, -margin, None) == "fail":
            return "fail", f"worse by more than {margin:g}, though not surely{correction}"
        if is_sure and interval.lower > 0:
            return "pass", "surely better"
        return "pass", f"not shown to be worse{correction}"


def _drop_text(interval: stats.DifferenceInterval, decision: Difference | None) -> str:
    """Describe whether a table shows a drop of the pair; '' if the interval reaches 0."""
    if not interval.upper < 0:
        return ""
    if decision is None or decision.differs:
        return ", and is surely a drop"
    return f", and is not shown to be a drop{_correction_text(decision)}"


def _correction_text(decision: Difference | None) -> str:
    """Return the correction that stands between a decision and a difference; '' without one."""
    if decision is None or not decision.needs_correction:
        return ""
    return f" after the correction for {decision.n_comparisons} comparisons"


def _queries_needed(units: PairedUnits, margin: float, confidence: float) -> QueriesNeeded:
    """Return the number of queries, or clusters, with which the interval itself decides."""
    # Equal systems are simulated by turning half of the changes round.
    d, point = units.values, -margin / units.unit
    noise = _NOISE_ERRORS * float(d.std()) / math.sqrt(len(d))
    # an observed drop near the margin would need an enormous number of queries
    near = abs(float(d.mean()) - point) <= noise
    if not -units.largest[0] < point:
        return QueriesNeeded(equal=None, as_observed=None)

    def plan(differences: FloatArray, largest: tuple[float, float]) -> int | None:
        return stats.queries_to_exclude(differences, point, largest=largest, confidence=confidence)

    loss, gain = units.largest
    # a gain that is turned round is a loss of that size
    mirrored = (max(loss, float(d.max())), max(gain, -float(d.min())))
    return QueriesNeeded(
        equal=plan(np.concatenate((d, -d)), mirrored),
        as_observed=None if near else plan(d, units.largest),
    )


class QueriesWorse(PairGate):
    """At most so many queries became worse, each of these queries by `by` or more.

    It is undecided without a baseline, if no query has a score in both, or if failed queries could
    turn a pass into a fail. Further options are those of `PairGate`: `measure`, `against`, `system`
    and `undecided`. `decide_systems(run)` yields a decision for each system, and raises KeyError if
    `run.baselines` lacks the file.
    """

    conditions = ("max_queries_worse",)
    margin_key = "by"

    max_queries_worse: Annotated[
        int, Option("Largest number of queries that may become worse.", ge=0)
    ]
    by: Annotated[
        float | None,
        Option(
            "Smallest drop of a query that counts for max_queries_worse; default: any drop.", gt=0
        ),
    ] = None

    @property
    def text(self) -> str:
        """Condition as summaries show it."""
        least = f" by {self.by:g}" if self.by is not None else ""
        limit = f"<= {self.max_queries_worse} queries"
        return f"{self.measure} worse{least} on {limit}{self.against_text}"

    def decide_changes(self, pairs: PairedScores, method: Method) -> Decision:
        """Return the decision on the number of queries that became worse, each by at least `by`.

        A mean can hide that some questions broke; this looks at each. It counts these queries and
        says nothing about others. Without `by` every query counts that became worse at all. A query
        with a failure may be worse or not: a verdict that such queries could change is undecided.
        Without a query that both have a score for, it is undecided.
        """
        d = pairs.gains
        n = int((~np.isnan(d)).sum())
        count = self._n_worse(d)
        # failed queries at their best and worst bound the number
        least, most = (self._n_worse(pairs.with_failed(end)) for end in ("best", "worst"))
        by = f"by {self.by:g} or more" if self.by else "at all"
        why = f"{count} of {pairs.counted(n)} became worse {by}; allowed: {self.max_queries_worse}"
        n_failed = int(pairs.failed.sum())
        facts = Facts(n=n, n_worse=count, n_failed=n_failed)
        if not n:
            return Decision(verdict="undecided", why=base.not_compared(n_failed), facts=facts)
        verdict: Verdict = "fail" if least > self.max_queries_worse else "pass"
        if verdict == "pass" and most > self.max_queries_worse:
            why = f"{why}; failures on {most - least} could turn it{base.RETRY}"
            return Decision(verdict="undecided", why=why, facts=facts)
        return Decision(verdict=verdict, why=why, facts=facts)

    def is_not_worse(self, pairs: PairedScores, facts: Facts) -> bool:
        """Return True if no query became worse, by as much as counts."""
        return facts.n_worse == 0

    def _n_worse(self, differences: FloatArray) -> int:
        """Return the number of differences that are a drop by `by` or more."""
        # without `by` the margin is 0, which an unchanged query reaches too
        is_worse = reaches(-differences, self.margin) & (differences < 0)
        return int(is_worse.sum())
