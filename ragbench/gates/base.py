"""Gates: conditions on a run, with their keys, what a config may say in them, their decisions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np

from ragbench.comparison.method import Method
from ragbench.comparison.pairs import reaches
from ragbench.comparison.systems import find_score
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.errors import ConfigError, DataError, Place
from ragbench.gates.scores import KnownNames, KnownScore, known_score
from ragbench.records.gate import Decision, Verdict
from ragbench.records.summary import Summary
from ragbench.registry import Option, nearest
from ragbench.types import ScoreColumn

# `interval`: of all such queries; `mean`: of exactly these.
Decide = Literal["interval", "mean"]
# What a gate may limit besides scores; as `summary.json` has them.
COSTS = ("latency_ms.p50", "latency_ms.p95", "tokens.input", "tokens.output", "usd")

# keys that several kinds have
Measure = Annotated[str, Option(f"A score of the run, or one of {', '.join(COSTS)}.")]
Most = Annotated[float, Option("The mean, share or cost is at most this.")]
DecideBy = Annotated[
    Decide | None,
    Option(
        "`interval`: of all such queries, the default of max_drop; `mean`: of exactly these, "
        "the default of min, max and min_kappa."
    ),
]


@dataclass(frozen=True, slots=True)
class GateProblem:
    """A mistake in a gate, which the config reports where the value stands.

    Attributes:
        key: The key of the value; None for the gate as a whole.
        found: The mistake; a first `{}` stands for the value as the user wrote it.
        allowed: In words, or as names, of which a message shows the first.
        part: Number of the element in a list.
        at_key: Report it at the key, not at its value.
    """

    key: str | None
    found: str
    allowed: str | Sequence[str] | None = None
    nearest: str | None = None
    part: int | None = None
    at_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedRun:
    """The run that gates are decided on.

    Attributes:
        baselines: The baseline files and run folders that gates name, read.
        n_queries: Number of queries of the data set; a sample of the run has fewer.
        clusters: Query -> its cluster; None where each query is a unit.
        baseline: What gates without `against` are compared with; None is the run's own baseline.
        summary: Costs and judges of the run; None for what is no run.
    """

    scored: ScoredSystems
    method: Method
    baselines: Mapping[Path, ScoredSystems] = field(default_factory=dict)
    n_queries: int
    clusters: Mapping[str, str] | None = None
    baseline: ScoredSystems | None = None
    summary: Summary | None = None

    def not_scored(self, score: str) -> Decision:
        """Return the decision on a score that the run lacks, with the judges that were skipped."""
        skipped = {} if self.summary is None else self.summary.skipped_judges
        reasons = [f"judge {judge} was skipped: {why}" for judge, why in skipped.items()]
        return Decision("undecided", "; ".join([f"{score} was not scored in this run", *reasons]))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A system that a gate is decided on.

    Attributes:
        score: The system's name of the score or cost that the gate is about.
        having: All systems that have it, by name.
    """

    system: SystemScores
    score: str
    having: Mapping[str, SystemScores]
    run: GatedRun

    @property
    def column(self) -> ScoreColumn:
        """The score of all queries."""
        return self.system.columns[self.score]


@dataclass(frozen=True, kw_only=True)
class Gate(ABC):
    """A condition that a run has to meet; each kind of gate is a subclass in its own file.

    Attributes:
        subject: The key that names what the gate is about.
        of: What that is.
        conditions: Keys of conditions, one of which every gate has.
        file_key: The key that may name a file; the config makes `file` of it.
        file: The file that the gate names.
        place: Where the gate stands, for later errors and decisions.
    """

    subject: ClassVar[str]
    of: ClassVar[Literal["score", "cost", "judge"]] = "score"
    conditions: ClassVar[tuple[str, ...]]
    file_key: ClassVar[str | None] = None

    system: Annotated[
        str | list[str] | None,
        Option("The systems; default: all, of a difference all but what it is compared with."),
    ] = None
    undecided: Annotated[
        Literal["warn", "fail"], Option("`fail`: an undecided gate counts as failed.")
    ] = "warn"
    file: Path | None = None
    place: Place = field(default_factory=Place, compare=False, repr=False)

    @classmethod
    def is_about(cls, name: str) -> bool:
        """Return True if gates of this kind may have this value under their subject."""
        return True

    @property
    @abstractmethod
    def about(self) -> str:
        """The score, cost or rubric that the gate is about."""

    @property
    def score(self) -> str | None:
        """The score that systems must have; None for a gate about a cost or a judge."""
        return self.about if self.of == "score" else None

    @property
    @abstractmethod
    def text(self) -> str:
        """The condition as summaries show it."""

    @property
    def systems(self) -> tuple[str, ...]:
        """Systems that the gate names; empty means all systems that have the score."""
        if self.system is None:
            return ()
        return (self.system,) if isinstance(self.system, str) else tuple(self.system)

    @property
    def required_systems(self) -> list[str]:
        """All systems of the run that the gate names."""
        return list(self.systems)

    @abstractmethod
    def check(self, names: KnownNames) -> Iterator[GateProblem]:
        """Yield the mistakes that show before anything is run."""

    def read(  # noqa: B027  a gate without a baseline has nothing to read
        self, baselines: dict[Path, ScoredSystems], baseline: ScoredSystems | None = None
    ) -> None:
        """Read the file that the gate names, and check that it has the gate's systems and scores.

        Args:
            baselines: Baseline files and run folders that are read already; a new one is added.
            baseline: What gates without `against` are compared with.

        Raises:
            DataError: The file cannot be read, or the baseline lacks a system or score.
        """

    @abstractmethod
    def decide_systems(self, run: GatedRun) -> Iterator[Decision]:
        """Yield the decision for each system; one without a system if none can be named."""


@dataclass(frozen=True, kw_only=True)
class SystemGate(Gate):
    """A gate that is decided for each system on its own."""

    def check(self, names: KnownNames) -> Iterator[GateProblem]:
        """Yield mistakes in the score, the limits and the systems."""
        score = None if self.score is None else names.find(self.score)
        if score is None and self.score is not None:
            # a cost can be spelt wrongly as well, where costs may stand
            allowed = [*names.scores, *(COSTS if self.subject == "measure" else ())]
            found = "{} is not scored"
            if known_score(self.score, "judge") is not None:
                found += ": no judge in metrics.judge names this rubric"
            close = nearest(self.score, allowed)
            words = allowed or "a measure, metric or rubric"
            yield GateProblem(self.subject, found, words, close)
        yield from self.check_condition(score)
        yield from self._check_systems(names, score)

    def check_condition(self, score: KnownScore | None) -> Iterator[GateProblem]:
        """Yield mistakes in the limits; `score` is None if it is unknown or the gate has none."""
        yield from ()

    def _check_systems(self, names: KnownNames, score: KnownScore | None) -> Iterator[GateProblem]:
        if self.system == []:
            yield GateProblem("system", "an empty list names no system", names.systems)
        if names.may_have_others:
            return
        systems = names.systems_with(score)
        for position, name in enumerate(self.systems):
            # a sweep that is malformed has no members, and is reported where it stands
            if name in systems or all(member in systems for member in names.sweeps.get(name, [""])):
                continue
            found = "no system {}"
            if score is not None and name in names.systems:
                found = f"{{}} has no {score.name}"
            allowed = systems or "a retriever, or a pair retriever/generator"
            part = position if isinstance(self.system, list) else None
            yield GateProblem("system", found, allowed, nearest(name, systems), part)

    def decide_systems(self, run: GatedRun) -> Iterator[Decision]:
        """Yield the decision for each system that the gate names, or that it applies to."""
        having, score = run.scored.systems, self.about
        if self.of != "cost":  # all have costs
            names = dict.fromkeys(name for system in having.values() for name in system.columns)
            score = find_score(self.about, list(names)) or self.about
            having = {name: system for name, system in having.items() if score in system.columns}
        if not having:
            yield run.not_scored(self.about)
            return
        for name in self.systems or self.default_systems(having, run):
            if name in having:
                decision = self.decide_system(Candidate(having[name], score, having, run))
            elif name in run.scored.systems:
                decision = run.not_scored(self.about)
            else:
                decision = Decision("undecided", f"{name} was not run")
            yield replace(decision, system=name)

    def default_systems(self, having: Mapping[str, SystemScores], run: GatedRun) -> list[str]:
        """Return the systems that the gate applies to if it names none: all that have the score."""
        return list(having)

    @abstractmethod
    def decide_system(self, candidate: Candidate) -> Decision:
        """Return the decision for one system."""


@dataclass(frozen=True, kw_only=True)
class MeasureGate(SystemGate):
    """A gate on a score or on a cost."""

    subject = "measure"

    measure: Measure

    @classmethod
    def is_about(cls, name: str) -> bool:
        """Return True for a score, or for a cost if the kind is about costs."""
        return (name in COSTS) == (cls.of == "cost")

    @property
    def about(self) -> str:
        """The score or cost."""
        return self.measure


def out_of_range(key: str, low: float, high: float) -> GateProblem:
    """Return the problem of a limit that every value, or no value, keeps."""
    return GateProblem(key, "{} is out of range", f"a number from {low:g} to {high:g}")


def not_compared(n_failed: int = 0) -> str:
    """Return the reason for a decision without any pair of scores."""
    failed = f"; {n_failed} failed" if n_failed else ""
    return f"not compared: no query has a score in both{failed}"


def unless_turned(decision: Decision, n_failed: int, at_ends: Iterable[Verdict]) -> Decision:
    """Return the decision, or undecided if the failed items could turn it.

    `at_ends` are the verdicts with all that failed at its worst, and at its best.
    """
    verdict = decision.verdict
    if not n_failed or verdict == "undecided" or all(end == verdict for end in at_ends):
        return decision
    turned = f"failures on {n_failed} queries could turn {verdict}"
    return replace(decision, verdict="undecided", why=f"{turned}; without them: {decision.why}")


def within(value: float, least: float | None, most: float | None) -> Verdict:
    """Return whether a number keeps its limit, rounding errors aside."""
    if least is not None:
        return "pass" if reaches(np.array([value]), least).all() else "fail"
    return "pass" if most is None or reaches(np.array([-value]), -most).all() else "fail"


def decide_gates(gates: Sequence[Gate], run: GatedRun) -> list[Decision]:
    """Return the decision for each gate and system, in the order of the config."""
    decisions = []
    for gate in gates:
        for decision in gate.decide_systems(run):
            verdict, why = decision.verdict, decision.why
            if verdict == "undecided" and gate.undecided == "fail":
                verdict, why = "fail", f"undecided, which counts as failed here: {why}"
            line = gate.place.line
            decision = replace(decision, gate=gate.text, verdict=verdict, why=why, line=line)
            decisions.append(decision)
    return decisions


def read_baselines(
    gates: Sequence[Gate], subject: str = "the config", baseline: ScoredSystems | None = None
) -> dict[Path, ScoredSystems]:
    """Read the files that gates name, each once; `baseline` is for gates that name none.

    Raises:
        ConfigError: Some cannot be read, or lack what their gates are about: all of them.
    """
    baselines: dict[Path, ScoredSystems] = {}
    problems = []
    for gate in gates:
        try:
            gate.read(baselines, baseline)
        except DataError as error:
            problems.append(gate.place.problem(str(error), "gates"))
    if problems:
        raise ConfigError(problems, problems[0].file or subject)
    return baselines


def check_names(gates: Sequence[Gate], scores: Sequence[str], systems: Sequence[str]) -> None:
    """Refuse gates on scores or systems that the run does not have.

    The scores are all of the run, those of skipped judges included. What `Gate.check` could not
    know of a config is known here: the systems of the data set, and default measures.
    """
    problems = []
    for gate in gates:
        if gate.score is not None and find_score(gate.score, scores) is None:
            found, close = f"'{gate.score}' is not scored", nearest(gate.score, scores)
            problems.append(gate.place.problem(found, "gates", ", ".join(scores), close))
        problems += [
            gate.place.problem(
                f"no system '{name}'", "gates", ", ".join(systems), nearest(name, systems)
            )
            for name in gate.required_systems
            if name not in systems
        ]
    if problems:
        raise ConfigError(problems, problems[0].file or "the config")
