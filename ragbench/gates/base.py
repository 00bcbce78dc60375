"""Base classes of gates: names that they may refer to, checks before a run, and decisions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from msgspec import structs

from ragbench.comparison.method import Method
from ragbench.comparison.pairs import reaches, systems_with
from ragbench.comparison.systems import find_score, nearest_score
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.errors import ConfigError, DataError, Place, RagbenchError
from ragbench.gates.pair_decisions import PrintedDecisions
from ragbench.records.causes import LEAK_READ
from ragbench.records.comparison import Comparisons
from ragbench.records.gate import Decision, Verdict
from ragbench.records.score import Kind
from ragbench.records.summary import Summary
from ragbench.registry import Option, OptionSet, nearest
from ragbench.types import ScoreColumn
from ragbench.types.display import counted

# `interval` decides for all such queries; `mean` for exactly the queries of the run
Decide = Literal["interval", "mean"]
# Costs that a gate may limit besides scores, named as in `summary.json`
COSTS = ("latency_ms.p50", "latency_ms.p95", "tokens.input", "tokens.output", "usd")

# What to do about failed queries that leave a gate undecided
RETRY = ", which `ragbench run --retry-failed` tries again"

# Keys that several kinds of gates have
Measure = Annotated[str, Option(f"A score of the run, or one of {', '.join(COSTS)}.")]
Most = Annotated[float, Option("Largest allowed mean, cost, or share of failed items.")]
DecideBy = Annotated[
    Decide | None,
    Option(
        "`interval`: decide for all queries like these, by the interval of the value "
        "(default of max_drop); `mean`: decide for exactly these queries (default of "
        "min, max and min_kappa)."
    ),
]


@dataclass(frozen=True, slots=True)
class ScoreFacts:
    """A score as its measure, metric or rubric declares it, before it is computed.

    `score_facts` makes it.

    Attributes:
        name: Name in tables and keys.
        kind: `retrieval`, `generation` (a formula on answers) or `judge`.
        direction: `higher` or `lower`, whichever is better.
        low: Smallest possible value; -inf without one.
        high: Largest possible value; inf without one.
        aggregate: Rule by which values become one number: `mean`, `sum`, `geometric_mean`, or
            `corpus` for a score of all texts at once.
    """

    name: str
    kind: Kind
    direction: str
    low: float
    high: float
    aggregate: str


@dataclass(frozen=True, slots=True)
class GateNames:
    """Scores and systems that a gate may refer to, as far as they are known before a run.

    Attributes:
        scores: Name -> declared score.
        open_kinds: Kinds of which a run may have scores that `scores` lacks: the data decide on
            them, or a judge was skipped.
        retrievers: Systems that have scores of rankings.
        pairs: Pairs of a retriever and a generator.
        apps: Systems that retrieve and answer in one, and have scores of both kinds.
        sweeps: Swept retriever -> the names of its combinations.
        may_have_others: True if the data set may have systems with names that are not known yet.
    """

    scores: Mapping[str, ScoreFacts]
    open_kinds: frozenset[Kind] = frozenset()
    retrievers: Sequence[str] = ()
    pairs: Sequence[str] = ()
    apps: Sequence[str] = ()
    sweeps: Mapping[str, Sequence[str]] = field(default_factory=dict)
    may_have_others: bool = False

    @property
    def systems(self) -> list[str]:
        """Systems that are known before the data are read.

        Retrievers come first, then pairs and apps.
        """
        return [*self.retrievers, *self.pairs, *self.apps]

    def systems_with(self, score: ScoreFacts | None) -> list[str]:
        """Return the systems that may have a score; all systems if the score is None.

        Retrievers have scores of rankings, pairs those of answers; apps come last and have both.
        """
        if score is None:
            return self.systems
        return [*(self.retrievers if score.kind == "retrieval" else self.pairs), *self.apps]

    def find(self, name: str) -> ScoreFacts | None:
        """Return the score that a name means, in any spelling; None if there is no such score.

        A score that `scores` lacks is found too if its kind is one of `open_kinds`, and a measure,
        metric or rubric has the name; the first of these three counts.
        """
        score = find_score(name, list(self.scores))
        if score is not None:
            return self.scores[score]
        # no config names it: it is scored where the data have forbidden documents
        if name == LEAK_READ:
            return ScoreFacts(LEAK_READ, "generation", "lower", 0.0, 1.0, "mean")
        # the first kind that knows the name counts
        kinds: tuple[Kind, ...] = ("retrieval", "generation", "judge")
        for kind in kinds:
            facts = score_facts(name, kind) if kind in self.open_kinds else None
            if facts is not None:
                return facts
        return None


def score_facts(source: str | Path | Mapping[str, Any], kind: Kind) -> ScoreFacts | None:
    """Return a score as its measure, metric or rubric declares it; None if there is none.

    The result is None too for a name or rubric with a mistake. A name `python:...` imports the
    code; a file of a rubric is read.

    Args:
        source: Name of the score; a rubric may also be a file or a mapping.
        kind: `retrieval` for a measure, `generation` for a metric, `judge` for a rubric.
    """
    # imported here: a config without gates needs none of them
    from ragbench.score.judge.rubric import load_rubric
    from ragbench.score.retrieval.notation import parse_measure
    from ragbench.score.text.notation import parse_metric

    name = str(source)
    try:
        if kind == "retrieval":
            spec = parse_measure(name).spec
            return ScoreFacts(name, kind, spec.direction, spec.low, spec.high, spec.aggregate)
        if kind == "generation":
            metric = parse_metric(name)
            facts = metric.declaration
            return ScoreFacts(name, kind, facts.direction, *metric.range, facts.aggregate)
        rubric = load_rubric(source)
    except RagbenchError:  # an unknown name, or one whose problem stands in the metrics
        return None
    return ScoreFacts(rubric.name, "judge", rubric.direction, 0.0, 1.0, "mean")


@dataclass(frozen=True, slots=True)
class GateProblem:
    """A mistake in a gate, which the config reports at the place of the value.

    Attributes:
        key: Key of the value; None for the gate as a whole.
        found: The mistake; a first `{}` stands for the value as the user wrote it.
        allowed: Allowed values, in words or as names; a message shows the first 20 names, None
            leaves it out.
        nearest: The allowed name nearest to a wrong one; None without a near one.
        part: Number of the element in a list, from 0; None for the whole value.
        at_key: True reports it at the key instead of its value.
    """

    key: str | None
    found: str
    allowed: str | Sequence[str] | None = None
    nearest: str | None = None
    part: int | None = None
    at_key: bool = False


@dataclass(frozen=True, kw_only=True)
class GatedRun:
    """Scores of a run that gates are decided on, with their baselines.

    `decisions` has the decisions on pairs of systems as tables print them, made on first use.

    Attributes:
        scored: Scores of its systems.
        method: Options of intervals and tests.
        baselines: Baseline files and run folders that gates name, by path.
        n_queries: Number of queries of the data set; a sample of the run has fewer.
        clusters: Query -> its cluster; None if each query is a unit.
        baseline: Scores that gates without `against` are compared with; None for the run's own
            baseline.
        summary: Costs and judges of the run; None for scores that are no run.
        comparisons: Comparisons that the run prints; None for scores that are no run.
    """

    scored: ScoredSystems
    method: Method
    baselines: Mapping[Path, ScoredSystems] = field(default_factory=dict)
    n_queries: int
    clusters: Mapping[str, str] | None = None
    baseline: ScoredSystems | None = None
    summary: Summary | None = None
    comparisons: Comparisons | None = None

    @cached_property
    def decisions(self) -> PrintedDecisions:
        """Decisions on pairs of systems as tables print them."""
        return PrintedDecisions(self.scored, self.method, self.clusters, self.comparisons)

    def not_scored(self, score: str) -> Decision:
        """Return an undecided decision on a score that the run lacks, with skipped judges.

        `why` names each skipped judge with its reason; the decision has no system.
        """
        skipped = {} if self.summary is None else self.summary.skipped_judges
        reasons = []
        for judge, why in skipped.items():
            reasons.append(f"judge {judge} was skipped: {why}")
        reasons = reasons or ["run all systems, without --only"]
        return Decision(
            verdict="undecided", why="; ".join([f"{score} was not scored in this run", *reasons])
        )


@dataclass(frozen=True, slots=True)
class Candidate:
    """A system that a gate is decided on; `decide_systems` makes it.

    `column` raises KeyError if the system has a cost in place of the score.

    Attributes:
        system: Its scores.
        score: The system's name of the score or cost that the gate limits.
        having: All systems that have it, by name.
        run: The run with its baselines.
    """

    system: SystemScores
    score: str
    having: Mapping[str, SystemScores]
    run: GatedRun

    @property
    def column(self) -> ScoreColumn:
        """Score of all queries."""
        return self.system.columns[self.score]


class Gate(OptionSet, ABC):
    """A condition that a run has to meet; each kind of gate is a subclass in its own file.

    A gate is created by its options as keywords, which are not checked; the config checks them.
    Subclasses define `text`, `check` and `decide_systems`; `decide_gates` decides a list of gates.

    Attributes:
        quantity_key: Key that names the quantity that the gate limits, such as `measure`.
        quantity_kind: Kind of the quantity: `score`, `cost` or `judge`.
        score_key: Key that names the score or rubric, if `quantity_key` does not; else empty.
        conditions: Keys of conditions, of which the config allows one a gate.
        file_key: Key whose value may be a file, which the config puts into `file`; None without
            one.
        file: File that the gate names; None without one.
        place: Place of the gate, for later errors and decisions.
    """

    quantity_key: ClassVar[str]
    quantity_kind: ClassVar[Literal["score", "cost", "judge"]] = "score"
    score_key: ClassVar[str] = ""
    conditions: ClassVar[tuple[str, ...]]
    file_key: ClassVar[str | None] = None

    system: Annotated[
        str | list[str] | None,
        Option(
            "Systems that the gate applies to; default: all, for a difference all except "
            "the baseline."
        ),
    ] = None
    undecided: Annotated[
        Literal["warn", "fail"], Option("`fail`: an undecided gate counts as failed.")
    ] = "warn"
    file: Path | None = None
    place: Place = field(default_factory=Place, compare=False, repr=False)

    @classmethod
    def accepts_quantity(cls, name: str) -> bool:
        """Return True if gates of this kind may limit this quantity.

        True for every name, unless a kind says otherwise.
        """
        return True

    @property
    def quantity(self) -> str:
        """Score, cost or rubric that the gate limits; empty for the first score of a system."""
        return str(getattr(self, self.score_key or self.quantity_key) or "")

    @property
    def score(self) -> str | None:
        """Score that systems must have; None for a gate about a cost, a judge or any score."""
        return (self.quantity or None) if self.quantity_kind == "score" else None

    @property
    @abstractmethod
    def text(self) -> str:
        """Condition as summaries show it."""

    @property
    def systems(self) -> tuple[str, ...]:
        """Systems that the gate names, in their order; empty if it names none.

        An empty tuple means all systems that have the value, of a difference all but what it is
        compared with.
        """
        if self.system is None:
            return ()
        return (self.system,) if isinstance(self.system, str) else tuple(self.system)

    @property
    def required_systems(self) -> list[str]:
        """Systems that the run must have for the gate.

        The result is empty if the gate names none.
        """
        return list(self.systems)

    @abstractmethod
    def check(self, names: GateNames) -> Iterator[GateProblem]:
        """Yield the mistakes that are visible before a run, given the known names.

        Nothing is yielded for a gate without mistakes.
        """

    def read(
        self, baselines: dict[Path, ScoredSystems], baseline: ScoredSystems | None = None
    ) -> None:
        """Read the file that the gate names, and check that it has the gate's systems and scores.

        The default does nothing; gates with a baseline or a certificate override it.

        Args:
            baselines: Baseline files and run folders that are read already; a new one is added.
            baseline: Baseline of gates without `against`.

        Raises:
            DataError: The file cannot be read, or the baseline lacks a system or score.
            OSError: The file may not be opened.
        """

    @abstractmethod
    def decide_systems(self, run: GatedRun) -> Iterator[Decision]:
        """Yield the decision for each system; one without a system if no system can be named.

        Raises DataError if a file of the gate cannot be read, KeyError if `run.baselines` lacks it.
        """


class SystemGate(Gate):
    """A gate with one decision for each system.

    Subclasses define `text` and `decide_system`, perhaps also `check_condition` and
    `default_systems`. `decide_systems` yields an undecided decision where the score is missing.
    """

    def check(self, names: GateNames) -> Iterator[GateProblem]:
        """Yield mistakes in the score, the limits and the systems.

        In this order: the score, the limits, the systems; nothing without mistakes.
        """
        score = None if self.score is None else names.find(self.score)
        if score is None and self.score is not None:
            # where a cost may stand, the misspelt name may be one of a cost
            allowed = [*names.scores, *(COSTS if self.quantity_key == "measure" else ())]
            problem = "{} is not scored"
            if score_facts(self.score, "judge") is not None:
                problem += ": no judge in metrics.judge names this rubric"
            near = nearest_score(self.score, allowed)
            words = allowed or "a measure, metric or rubric"
            yield GateProblem(self.score_key or self.quantity_key, problem, words, near)
        yield from self.check_condition(score)
        yield from self._check_systems(names, score)

    def check_condition(self, score: ScoreFacts | None) -> Iterator[GateProblem]:
        """Yield mistakes in the limits; `score` is None if it is unknown or the gate has none.

        Nothing is yielded here; kinds with limits override it.
        """
        yield from ()

    def _check_systems(self, names: GateNames, score: ScoreFacts | None) -> Iterator[GateProblem]:
        """Yield a problem for an empty list of systems, and for systems without the score."""
        if self.system == []:
            yield GateProblem("system", "the list of systems is empty", names.systems)
        if names.may_have_others:
            return
        systems = names.systems_with(score)
        for position, name in enumerate(self.systems):
            # a malformed sweep has no combinations, and its problem stands at the sweep
            if name in systems or all(member in systems for member in names.sweeps.get(name, [""])):
                continue
            problem = "no system {}"
            if score is not None and name in names.systems:
                problem = f"{{}} has no {score.name}"
            allowed = systems or "a retriever, or a pair retriever/generator"
            # a single name has no position in a list
            part = position if isinstance(self.system, list) else None
            yield GateProblem("system", problem, allowed, nearest(name, systems), part)

    def decide_systems(self, run: GatedRun) -> Iterator[Decision]:
        """Yield the decision for each system that the gate names, else for the `default_systems`.

        A named system that was not run, or lacks the score, is undecided. The order is that of the
        gate, else that of the run. If no system has the score, there is one undecided decision,
        without a system. Errors of `decide_system` pass through.
        """
        score, systems = self.scored_systems(run)
        if not systems:
            yield run.not_scored(self.quantity)
            return
        # in the order of the gate, else in that of the run
        for name in self.systems or self.default_systems(systems, run):
            if name in systems:
                decision = self.decide_system(Candidate(systems[name], score, systems, run))
            elif name in run.scored.systems:
                decision = run.not_scored(self.quantity)
            else:
                decision = Decision(
                    verdict="undecided", why=f"{name} was not run; run all systems, without --only"
                )
            yield structs.replace(decision, system=name)

    def scored_systems(self, run: GatedRun) -> tuple[str, Mapping[str, SystemScores]]:
        """Return the run's name of the score or cost, and the systems of the run that have it.

        A gate on a cost, or on no certain score, gets all systems, also those whose cost is not
        known. A score that no system has keeps the name of the gate.
        """
        systems, score = run.scored.systems, self.quantity
        if self.score is not None:
            names = dict.fromkeys(chain.from_iterable(s.columns for s in systems.values()))
            # the config may spell the score in another way than the run
            score = find_score(self.quantity, list(names)) or self.quantity
            systems = systems_with(score, systems.values())
        return score, systems

    def default_systems(self, having: Mapping[str, SystemScores], run: GatedRun) -> list[str]:
        """Return the systems of a gate that names none: all that have the score.

        Gates on a difference override it, and leave out baselines.
        """
        return list(having)

    @abstractmethod
    def decide_system(self, candidate: Candidate) -> Decision:
        """Return the decision for one system; the caller adds its name.

        `system` of the decision may be empty.
        """


class MeasureGate(SystemGate):
    """Base of gates on a score or a cost, with a decision for each system.

    A score that no system has makes the gate undecided. Further options are those of `Gate`:
    `system` and `undecided`. Subclasses define `text` and `decide_system`.

    Attributes:
        measure: Name of a score of the run, or of a cost.
    """

    quantity_key = "measure"

    measure: Measure

    @classmethod
    def accepts_quantity(cls, name: str) -> bool:
        """Return True for a cost if gates of this kind limit costs, else for a score.

        Costs are those of `COSTS`; every other name counts as a score.
        """
        return (name in COSTS) == (cls.quantity_kind == "cost")


def out_of_range(key: str, low: float, high: float) -> GateProblem:
    """Return the problem of a limit outside the range from `low` to `high` of its score.

    `key` is that of the limit; a range without an end shows `inf`.
    """
    return GateProblem(key, "{} is out of range", f"a number from {low:g} to {high:g}")


def not_compared(n_failed: int = 0) -> str:
    """Return the reason of a decision without any pair of scores; it counts failed queries.

    The number of failed queries is left out if it is 0.
    """
    failed = f"{n_failed} failed{RETRY}" if n_failed else "gate a score that both have"
    return f"not compared: no query has a score in both; {failed}"


def undecided_if_turned(decision: Decision, n_failed: int, at_ends: Iterable[Verdict]) -> Decision:
    """Return the decision, or an undecided one if the failed items could change its verdict.

    An undecided decision is returned unchanged. `at_ends` is only read if items failed.

    Args:
        decision: Decision without the failed items.
        n_failed: Number of failed items; 0 returns the decision.
        at_ends: Verdicts with all failed items at their worst, and at their best.
    """
    verdict = decision.verdict
    if not n_failed or verdict == "undecided" or all(end == verdict for end in at_ends):
        return decision
    reason = f"failures on {counted(n_failed, 'queries')} could turn {verdict}{RETRY}"
    return structs.replace(
        decision, verdict="undecided", why=f"{reason}; without them: {decision.why}"
    )


def within(value: float, least: float | None, most: float | None) -> Verdict:
    """Return pass if a number keeps its limit, rounding errors aside; else fail.

    A NaN fails a limit.

    Args:
        value: The number.
        least: Lower limit, which is used alone if it is given.
        most: Upper limit; without any limit the verdict is pass.
    """
    if least is not None:
        return "pass" if reaches(np.array([value]), least).all() else "fail"
    return "pass" if most is None or reaches(np.array([-value]), -most).all() else "fail"


def decide_gates(gates: Sequence[Gate], run: GatedRun) -> list[Decision]:
    """Return the decision for each gate and system, in the order of the config.

    A gate with `undecided: fail` fails if it is undecided. Each decision gets the text of its gate
    and its line in the config, None if unknown. Raises DataError if a file of a gate cannot be
    read, KeyError if `run.baselines` lacks it.
    """
    decisions: list[Decision] = []
    for gate in gates:
        for decision in gate.decide_systems(run):
            decisions.append(decision_of_gate(gate, decision))
    return decisions


def decision_of_gate(gate: Gate, decision: Decision) -> Decision:
    """Return a decision with the text and the line of its gate, by the option `undecided`."""
    verdict, why = decision.verdict, decision.why
    # after the decision, so that its reason stays in the text
    if verdict == "undecided" and gate.undecided == "fail":
        verdict, why = "fail", f"undecided, which counts as failed here: {why}"
    return structs.replace(decision, gate=gate.text, verdict=verdict, why=why, line=gate.place.line)


def read_baselines(
    gates: Sequence[Gate], subject: str = "the config", baseline: ScoredSystems | None = None
) -> dict[Path, ScoredSystems]:
    """Return the files that gates name, each read once.

    Args:
        gates: The gates.
        subject: Name of the config in errors.
        baseline: Scores that gates without a file are compared with.

    Returns:
        Path -> its scored systems; empty if no gate names a file of scores. Certificates are
        checked and not returned.

    Raises:
        ConfigError: Files cannot be read, or lack systems or scores of their gates: all of them.
        OSError: A file may not be opened.
    """
    baselines: dict[Path, ScoredSystems] = {}
    problems = []
    for gate in gates:
        try:
            gate.read(baselines, baseline)
        except DataError as error:
            # all files are read, so that all problems show at once
            problems.append(gate.place.problem(str(error), "gates"))
    if problems:
        raise ConfigError(problems, problems[0].file or subject)
    return baselines


def check_names(gates: Sequence[Gate], scores: Sequence[str], systems: Sequence[str]) -> None:
    """Check that a run has the scores and systems that its gates name.

    After the data set is read, the names of its systems and of the default measures are known,
    which `Gate.check` could not check. Returns nothing; gates on costs and judges have no score to
    check.

    Args:
        gates: The gates.
        scores: All scores of the run, also those of skipped judges.
        systems: All systems of the run.

    Raises:
        ConfigError: A gate names an unknown score or system: all such problems.
    """
    problems = []
    for gate in gates:
        if gate.score is not None and find_score(gate.score, scores) is None:
            problem, near = f"'{gate.score}' is not scored", nearest_score(gate.score, scores)
            problems.append(gate.place.problem(problem, "gates", ", ".join(scores), near))
        for name in gate.required_systems:
            if name not in systems:
                problem, near = f"no system '{name}'", nearest(name, systems)
                problems.append(gate.place.problem(problem, "gates", ", ".join(systems), near))
    if problems:
        raise ConfigError(problems, problems[0].file or "the config")
