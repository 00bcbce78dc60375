"""`summary.json`: a run, its systems, and every score with what one must know to believe it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ragbench.records.causes import AnswerCause, CauseShare
from ragbench.records.codec import Prose, Record, optional
from ragbench.records.gate import Decision
from ragbench.records.score import Ends, RunCounts, SystemScore

SUMMARY_SCHEMA = "ragbench.summary/1"

Role = Literal["system", "app", "control"]
"""What a system is: part of the grid, a whole app, or what no system competes with."""
SystemType = Literal["retriever", "pair", "control", "app", "recorded"]
"""What a system is made of: a retriever alone; a generator that answers from what a retriever
found, or from something else; a whole app; what the records came with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens(Record):
    """Tokens of models; None where they are not known."""

    input: int | None = None
    """Sent."""
    output: int | None = None
    """Received."""
    reasoning: int = optional(0)
    """Those of the received that are reasoning, as far as servers say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset(Record):
    """The data of a run."""

    name: Prose = ""
    """Its folder or file, with the split."""
    type: str = ""
    queries: int | None = None
    """How many were asked."""
    documents: int | None = None
    """Size of the corpus; None where there is none."""
    judgements: int | None = None
    """How many pairs of query and document people have judged; None where there are no qrels."""
    answers: int | None = None
    """How many queries have a gold answer."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge(Record):
    """A judge as the config declares it."""

    type: str = ""
    model: str = ""
    """The model that is asked for."""
    label: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging(Record):
    """What the verdicts of a judge took, in this run or an earlier one."""

    models: tuple[str, ...]
    """The models as their servers name them."""
    tokens: Tokens
    usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerCounts(Record):
    """The answers of a system that answers each query several times."""

    per_query: int
    """How many each query has."""
    asked: int
    """How many there are in all."""
    failed: Mapping[str, Mapping[str, int]]
    """Score -> cause -> how many answers failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency(Record):
    """Milliseconds that queries took; None where they are not known."""

    p50: float | None = None
    """Half of the queries took at most this long."""
    p95: float | None = None
    """95 of 100 queries took at most this long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTiming(Record):
    """How fast a system was."""

    latency_ms: Latency | None = None
    queries_per_second: float | None = None
    """By what the calls took, with as many at once as the config allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing(Record):
    """All that differs where the same run is made twice."""

    run_id: str = ""
    """The name of its folder: when it was started, and a random part."""
    systems: Mapping[str, SystemTiming] = field(default_factory=dict)
    """System -> how fast it was."""

    def of(self, system: str) -> SystemTiming:
        """Return how fast a system was, as far as it is known."""
        return self.systems.get(system, SystemTiming())


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemSummary(Record):
    """One system: what it scored, and what it took."""

    name: str
    """`bm25`, `bm25/extractive`, `given`."""
    retriever: str | None
    """The retriever's name; None for a system that the records came with, and for an app."""
    generator: str | None
    """The generator's name; None for a retriever alone."""
    role: Role = "system"
    type: SystemType
    ranking_of: str | None
    """Whose ranking in `rankings/` it has: its retriever's, or its own; None: no ranking is known,
    as of a control."""
    baseline: str | None = None
    """What it is compared with; None for a baseline itself."""
    scores: Mapping[str, SystemScore]
    """Score name -> what is known of it, in the order of the config."""
    counts: RunCounts | None = optional()
    """How its run was read; None of what retrieves nothing that judgements are of."""
    causes: Mapping[AnswerCause, int] = optional({})
    """Where answers are lost: cause -> how many queries; they add up to the queries."""
    cause_shares: Mapping[AnswerCause, CauseShare] = optional({})
    """Cause that occurs -> its share of the queries, with an interval."""
    causes_by: Mapping[str, Mapping[str, Mapping[AnswerCause, int]]] = optional({})
    """Field -> slice -> how many of its queries have each cause that occurs there."""
    answers: AnswerCounts | None = optional()
    tokens: Tokens | None = None
    """What models got and sent."""
    usd: float | None = None
    judging: Mapping[str, Judging] = optional({})
    """Judge -> what judging this system took."""

    def baseline_by(self, score: str) -> str | None:
        """Return the system that this one is compared with by a score."""
        found = self.scores.get(score)
        if found is None or found.baseline is None:
            return self.baseline
        return None if found.baseline == self.name else found.baseline


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost(Record):
    """Dollars and tokens; None where they are not known."""

    usd: float | None
    tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending(Record):
    """What a run with a budget spent, what it left out, and what finishing would cost."""

    limits: Mapping[str, float]
    """`usd`, `tokens`, `minutes`: those that are set."""
    spent: Cost
    reached: bool
    """Whether anything was left out for it."""
    missing: Mapping[str, int]
    """Stage -> how many of its items were left out."""
    to_finish: Cost
    """An estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill(Record):
    """Who graded passages beside people, how many, and what it took."""

    judge: str
    model_name: str
    """The model, as its server names it."""
    rubric: str
    depth: int
    """The best so many hits of each retriever."""
    pairs: int
    """Pairs of query and passage in the pool."""
    people: int
    """Of these, judged by people."""
    model: int
    """Graded by the model."""
    failed: Mapping[str, int]
    """Cause -> how many could not be graded."""
    without_text: int
    """How many have no text to grade."""
    judging: Judging


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferredSystem(Record):
    """A system in a ranking by preference."""

    system: str
    rank: int | None
    """1 is the strongest; None where comparisons do not connect all systems."""
    strength: float | None
    """Log-odds against the average of the systems."""
    interval: Ends
    win_rate: float | None
    """Wins and half the ties over all its comparisons."""
    wins: int
    ties: int
    losses: int
    failed: Mapping[str, int]
    """Cause -> comparisons that failed."""
    not_applicable: int
    """Queries without anything to compare."""

    @property
    def n_failed(self) -> int:
        """How many comparisons failed, whatever their cause."""
        return sum(self.failed.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking(Record):
    """The systems as one judge prefers them by one rubric."""

    name: str = ""
    rubric: str = ""
    judge: str = ""
    model: str = ""
    pairs: str = "all"
    """`all` pairs of systems, or each with the `baseline`."""
    baseline: str | None = None
    """What all others are compared with; None for all pairs."""
    systems: tuple[PreferredSystem, ...]
    rule: str
    """How the strengths were computed."""
    notes: tuple[str, ...]
    """What limits them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceSummary(Ranking):
    """What one judge prefers by one rubric, without the single pairs."""

    judging: Judging


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary(Record):
    """A whole run."""

    schema: str = SUMMARY_SCHEMA
    name: str
    complete: bool = True
    """Whether so many items were scored that the means are to be trusted."""
    dataset: Dataset | None = None
    budget: Spending | None = optional()
    """What was spent, where there is a budget."""
    seed: int | None = None
    confidence: float = 0.95
    baseline: str | None = None
    """The retriever that the others are compared with."""
    cluster: str | None = optional()
    """What names the clusters of queries, where there are any."""
    judges: Mapping[str, Judge] = field(default_factory=dict)
    """Judges that were asked."""
    skipped_judges: Mapping[str, str] = optional({})
    """Judge -> why it was not asked."""
    fill: Fill | None = optional()
    """Who graded passages beside people."""
    systems: tuple[SystemSummary, ...]
    """Every system, in the order of the tables."""
    preferences: tuple[PreferenceSummary, ...] = optional(())
    gates: tuple[Decision, ...] = ()
    warnings: tuple[Prose, ...] = ()
    """What makes numbers doubtful, a sentence each."""
    notes: tuple[Prose, ...] = ()
    """What the reader of the numbers should know, a sentence each."""
    timing: Timing = field(default_factory=Timing)
    """What varies from run to run; all else is the same as long as config, data, code and replies
    are."""

    @property
    def run_id(self) -> str:
        """The name of its folder."""
        return self.timing.run_id

    def system(self, name: str) -> SystemSummary | None:
        """Return a system by name; None where there is none."""
        return next((system for system in self.systems if system.name == name), None)
