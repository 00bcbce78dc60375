"""What a gate is: a condition on a run, with its keys, what is wrong with it, and its decision."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Protocol

import numpy as np

from ragbench.comparison.method import Method
from ragbench.comparison.pairs import at_least
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.errors import Place
from ragbench.gates.scores import KnownScore, KnownScores, find_score, known_score
from ragbench.records.certificate import RequiredCertificate
from ragbench.records.gate import Facts, Power, Verdict, WorseQuery
from ragbench.records.summary import Summary
from ragbench.registry import Option, nearest
from ragbench.types import ScoreColumn

Decide = Literal["interval", "mean"]
"""`interval`: of all such queries; `mean`: of exactly these."""
COSTS = ("latency_ms.p50", "latency_ms.p95", "tokens.input", "tokens.output", "usd")
"""What a gate may limit besides scores; as `summary.json` has them."""

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
class Decision:
    """What the data say of a gate and one system, and the numbers behind it."""

    verdict: Verdict
    """`undecided` is neither: the data cannot tell."""
    why: str
    """The numbers in words."""
    facts: Facts = field(default_factory=Facts)
    """The other numbers in full, for `summary.json`."""
    means: tuple[float, float] | None = None
    """Of a difference: before and after, over the queries that both have."""
    worst_queries: tuple[WorseQuery, ...] = ()
    """Those that lost most, or are farthest beyond a limit, the worst first."""
    refused: bool = False
    """Whether it may not be compared with what it names."""
    power: Power | None = None
    """Of an undecided difference: what so many queries can decide."""


@dataclass(frozen=True, slots=True)
class GateFiles:
    """The files that gates name, read; kinds of gates put them in, each file once."""

    references: dict[Path, ScoredSystems] = field(default_factory=dict)
    """Baseline file or run folder -> its scores."""
    certificates: dict[Path, RequiredCertificate] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KnownNames:
    """What a gate may refer to, as far as it is known when the gate is checked."""

    scores: KnownScores
    retrievers: Sequence[str] = ()
    """The names of what has scores of rankings."""
    pairs: Sequence[str] = ()
    """The names of pairs of a retriever and a generator."""
    apps: Sequence[str] = ()
    """The names of what retrieves and answers in one, and has scores of both kinds."""
    sweeps: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Swept retrievers -> the names that they stand for."""
    may_have_others: bool = False
    """Whether the data set may bring systems of its own, whose names it alone knows."""

    @property
    def systems(self) -> list[str]:
        """Every system that is known before the data are read."""
        return [*self.retrievers, *self.pairs, *self.apps]

    def having(self, score: KnownScore | None) -> list[str]:
        """Return the systems that may have a score; all of them for what is no score."""
        if score is None:
            return self.systems
        return [*(self.retrievers if score.kind == "retrieval" else self.pairs), *self.apps]


class Entry(Protocol):
    """A gate as it was written: shows its values, and takes what is wrong with them."""

    def shown(self, key: str, part: int | None = None) -> str:
        """Return the value of a key, or an element of it, as messages quote it."""
        ...

    def wrong(
        self,
        key: str | None,
        found: str,
        allowed: str | Sequence[str] | None = None,
        nearest: str | None = None,
        *,
        part: int | None = None,
        at_key: bool = False,
    ) -> None:
        """Note a problem of a value, of an element of it, of its key, or without one of the gate.

        Names that are `allowed` may be many: the message has the first of them.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedRun:
    """What a run gives to the gates that are checked on it."""

    scored: ScoredSystems
    method: Method
    files: GateFiles
    n_queries: int
    """How many queries the data set has; more than were asked in a sample."""
    clusters: Mapping[str, str] | None = None
    """Query -> its cluster; None where each stands for itself."""
    base: ScoredSystems | None = None
    """What gates without `against` are compared with; None is the run's own baseline."""
    summary: Summary | None = None
    """What the run took and who judged it; None of what is no run."""

    def not_scored(self, name: str) -> Decision:
        """Say that a score is not there, and which judges were skipped."""
        skipped = {} if self.summary is None else self.summary.skipped_judges
        reasons = [f"judge {judge} was skipped: {why}" for judge, why in skipped.items()]
        return Decision("undecided", "; ".join([f"{name} was not scored in this run", *reasons]))


@dataclass(frozen=True, slots=True)
class Candidate:
    """One system that a gate is checked on."""

    system: SystemScores
    score: str
    """The name under which it has what the gate is about."""
    having: Mapping[str, SystemScores]
    """Every system that has that, by name."""
    run: GatedRun

    @property
    def column(self) -> ScoreColumn:
        """The score of all queries."""
        return self.system.columns[self.score]


@dataclass(frozen=True, kw_only=True)
class Gate(ABC):
    """A condition that a run has to meet; each kind of gate is a subclass in its own file."""

    subject: ClassVar[str]
    """The key that says what the gate is about."""
    of: ClassVar[Literal["score", "cost", "judge"]] = "score"
    """What that is."""
    conditions: ClassVar[tuple[str, ...]]
    """Keys, one of which says what is asked of it."""
    file_key: ClassVar[str | None] = None
    """The key that may name a file; the config makes `file` of it."""

    system: Annotated[
        str | list[str] | None,
        Option("The systems; default: all, of a difference all but what it is compared with."),
    ] = None
    undecided: Annotated[
        Literal["warn", "fail"], Option("`fail`: an undecided gate counts as failed.")
    ] = "warn"
    file: Path | None = None
    """The file that it names."""
    place: Place = field(default_factory=Place, compare=False, repr=False)
    """Where it stands, for errors and verdicts that come later."""

    @classmethod
    def is_about(cls, name: str) -> bool:
        """Whether gates of this kind may have this value under their subject."""
        return True

    @property
    @abstractmethod
    def about(self) -> str:
        """The name of what it is about."""

    @property
    def score(self) -> str | None:
        """The score that systems must have; None where it is about none."""
        return self.about if self.of == "score" else None

    @property
    @abstractmethod
    def text(self) -> str:
        """The condition as summaries show it."""

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems that it names; none is every one that it can be checked on."""
        if self.system is None:
            return ()
        return (self.system,) if isinstance(self.system, str) else tuple(self.system)

    @property
    def names(self) -> list[str]:
        """Every system of the run that has to be there."""
        return list(self.systems)

    @abstractmethod
    def check(self, entry: Entry, known: KnownNames, *, complete: bool = True) -> None:
        """Note in `entry` what is wrong with it.

        Where a key is missing, which was said, it is not `complete`: names alone are looked at.
        """

    def read(self, files: GateFiles) -> None:  # noqa: B027  most kinds name no file
        """Read the file that it names into `files`.

        Raises:
            DataError: It is not what it should be, or lacks what the gate is about.
        """

    def check_base(self, base: ScoredSystems) -> None:  # noqa: B027  most compare with nothing
        """Look at what it is compared with where it names nothing itself.

        Raises:
            DataError: That lacks what the gate is about.
        """

    @abstractmethod
    def verdicts(self, run: GatedRun) -> Iterator[tuple[str | None, Decision]]:
        """Yield each system with what the data say; None where no system can be named."""


@dataclass(frozen=True, kw_only=True)
class SystemGate(Gate):
    """A gate that is checked on each system on its own."""

    def check(self, entry: Entry, known: KnownNames, *, complete: bool = True) -> None:
        """Note what is wrong with its score, its limits and its systems."""
        score = self.find_score(entry, known)
        if complete:
            self.check_condition(entry, score)
        self._check_systems(entry, known, score)

    def find_score(self, entry: Entry, known: KnownNames) -> KnownScore | None:
        """Return the score that it is about; None, with a problem, where that is not scored."""
        if self.score is None:
            return None
        score = known.scores.find(self.score)
        if score is None:
            # a cost can be spelt wrongly as well, where costs may stand
            names = [*known.scores.named, *(COSTS if self.subject == "measure" else ())]
            allowed = names or "a measure, metric or rubric"
            found = f"{entry.shown(self.subject)} is not scored"
            if known_score(self.score, "judge") is not None:
                found += ": no judge in metrics.judge names this rubric"
            entry.wrong(self.subject, found, allowed, nearest(self.score, names))
        return score

    def check_condition(self, entry: Entry, score: KnownScore | None) -> None:
        """Note what is wrong with its limits; `score` is None where it is about none."""

    def _check_systems(self, entry: Entry, known: KnownNames, score: KnownScore | None) -> None:
        if self.system == []:
            entry.wrong("system", "an empty list names no system", known.systems)
        if known.may_have_others:
            return
        fitting = known.having(score)
        for place, name in enumerate(self.systems):
            # a sweep that is malformed has no members, which was said
            if name in fitting or all(each in fitting for each in known.sweeps.get(name, [""])):
                continue
            part = place if isinstance(self.system, list) else None
            found = f"no system {entry.shown('system', part)}"
            if score is not None and name in known.systems:
                found = f"{entry.shown('system', part)} has no {score.name}"
            allowed = fitting or "a retriever, or a pair retriever/generator"
            entry.wrong("system", found, allowed, nearest(name, fitting), part=part)

    def verdicts(self, run: GatedRun) -> Iterator[tuple[str | None, Decision]]:
        """Yield each system with what the data say; one None where no system has the score."""
        having, score = self.having(run)
        if not having:
            yield None, run.not_scored(self.about)
            return
        for name in self.systems or self.held(having, run):
            if name in having:
                yield name, self.decide_system(Candidate(having[name], score, having, run))
            elif name in run.scored.systems:
                yield name, run.not_scored(self.about)
            else:
                yield name, Decision("undecided", f"{name} was not run")

    def having(self, run: GatedRun) -> tuple[Mapping[str, SystemScores], str]:
        """Return the systems that have what it is about, and the name under which they have it."""
        systems = run.scored.systems
        if self.of == "cost":  # all have costs
            return systems, self.about
        names = dict.fromkeys(name for system in systems.values() for name in system.columns)
        score = find_score(self.about, list(names)) or self.about
        return {name: each for name, each in systems.items() if score in each.columns}, score

    def held(self, having: Mapping[str, SystemScores], run: GatedRun) -> list[str]:
        """Return the systems that it is checked on where it names none: all of them."""
        return list(having)

    @abstractmethod
    def decide_system(self, held: Candidate) -> Decision:
        """Decide it for one system."""


@dataclass(frozen=True, kw_only=True)
class MeasureGate(SystemGate):
    """A gate on a score or on a cost."""

    subject = "measure"

    measure: Measure

    @classmethod
    def is_about(cls, name: str) -> bool:
        """Whether it is a score, or a cost where the kind is about costs."""
        return (name in COSTS) == (cls.of == "cost")

    @property
    def about(self) -> str:
        """The score or cost."""
        return self.measure


def out_of_range(entry: Entry, key: str, low: float, high: float) -> None:
    """Note a limit that no value can be on both sides of."""
    found = f"{entry.shown(key)} is out of range"
    entry.wrong(key, found, f"a number from {low:g} to {high:g}")


def not_compared(n_failed: int = 0) -> str:
    """Say that no query has what is compared on both sides, which is never a verdict."""
    failed = f"; {n_failed} failed" if n_failed else ""
    return f"not compared: no query has a score in both{failed}"


def unless_turned(found: Decision, n_failed: int, at_ends: Iterable[Verdict]) -> Decision:
    """Return the decision, or undecided where what failed could turn it.

    `at_ends` are the verdicts with all that failed at its worst, and at its best.
    """
    if not n_failed or found.verdict == "undecided" or all(v == found.verdict for v in at_ends):
        return found
    turned = f"failures on {n_failed} queries could turn {found.verdict}"
    return replace(found, verdict="undecided", why=f"{turned}; without them: {found.why}")


def within(value: float, least: float | None, most: float | None) -> Verdict:
    """Whether a number reaches its limit, rounding errors aside."""
    if least is not None:
        return "pass" if at_least(np.array([value]), least).all() else "fail"
    return "pass" if most is None or at_least(np.array([-value]), -most).all() else "fail"
