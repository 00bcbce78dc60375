"""`summary.json`: a run, its systems, and every score with what one must know to believe it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ragbench.records.causes import AnswerCause, CauseShare
from ragbench.records.codec import Record
from ragbench.records.gate import Decision
from ragbench.records.score import Ends, RunCounts, SystemScore
from ragbench.types.json_fields import Prose, optional

SUMMARY_SCHEMA = "ragbench.summary/1"

# What a system is: part of the grid, a whole app, or what no system competes with.
Role = Literal["system", "app", "control"]
# What a system is made of: a retriever alone; a generator that answers from what a retriever found,
# or from something else; a whole app; what the records came with.
SystemType = Literal["retriever", "pair", "control", "app", "recorded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCounts(Record):
    """Tokens of models; None where they are not known.

    Attributes:
        input: Sent.
        output: Received.
        reasoning: Those of the received that are reasoning, as far as servers say.
    """

    input: int | None = None
    output: int | None = None
    reasoning: int = optional(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset(Record):
    """The data of a run.

    Attributes:
        name: Its folder or file, with the split.
        queries: How many were asked.
        documents: Size of the corpus; None where there is none.
        judgements: How many pairs of query and document people have judged; None where there are no
            qrels.
        answers: How many queries have a gold answer.
    """

    name: Prose = ""
    type: str = ""
    queries: int | None = None
    documents: int | None = None
    judgements: int | None = None
    answers: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredJudge(Record):
    """A judge as the config declares it.

    Attributes:
        model: The model that is asked for.
    """

    type: str = ""
    model: str = ""
    label: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging(Record):
    """What the verdicts of a judge took, in this run or an earlier one.

    Attributes:
        models: The models as their servers name them.
    """

    models: tuple[str, ...]
    tokens: TokenCounts
    usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerCounts(Record):
    """The answers of a system that answers each query several times.

    Attributes:
        per_query: How many each query has.
        asked: How many there are in all.
        failed: Score -> cause -> how many answers failed.
    """

    per_query: int
    asked: int
    failed: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency(Record):
    """Milliseconds that queries took; None where they are not known.

    Attributes:
        p50: Half of the queries took at most this long.
        p95: 95 of 100 queries took at most this long.
    """

    p50: float | None = None
    p95: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTiming(Record):
    """How fast a system was.

    Attributes:
        queries_per_second: By what the calls took, with as many at once as the config allows.
    """

    latency_ms: Latency | None = None
    queries_per_second: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing(Record):
    """All that differs where the same run is made twice.

    Attributes:
        run_id: The name of its folder: when it was started, and a random part.
        systems: System -> how fast it was.
    """

    run_id: str = ""
    systems: Mapping[str, SystemTiming] = field(default_factory=dict)

    def of(self, system: str) -> SystemTiming:
        """Return how fast a system was, as far as it is known."""
        return self.systems.get(system, SystemTiming())


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemSummary(Record):
    """One system: what it scored, and what it took.

    Attributes:
        name: `bm25`, `bm25/extractive`, `given`.
        retriever: The retriever's name; None for a system that the records came with, and for an
            app.
        generator: The generator's name; None for a retriever alone.
        ranking_of: Whose ranking in `rankings/` it has: its retriever's, or its own; None: no
            ranking is known, as of a control.
        baseline: What it is compared with; None for a baseline itself.
        scores: Score name -> what is known of it, in the order of the config.
        counts: How its run was read; None of what retrieves nothing that judgements are of.
        causes: Where answers are lost: cause -> how many queries; they add up to the queries.
        cause_shares: Cause that occurs -> its share of the queries, with an interval.
        causes_by: Field -> slice -> how many of its queries have each cause that occurs there.
        tokens: What models got and sent.
        judging: Judge -> what judging this system took.
    """

    name: str
    retriever: str | None
    generator: str | None
    role: Role = "system"
    type: SystemType
    ranking_of: str | None
    baseline: str | None = None
    scores: Mapping[str, SystemScore]
    counts: RunCounts | None = optional()
    causes: Mapping[AnswerCause, int] = optional({})
    cause_shares: Mapping[AnswerCause, CauseShare] = optional({})
    causes_by: Mapping[str, Mapping[str, Mapping[AnswerCause, int]]] = optional({})
    answers: AnswerCounts | None = optional()
    tokens: TokenCounts | None = None
    usd: float | None = None
    judging: Mapping[str, Judging] = optional({})

    def baseline_by(self, score: str) -> str | None:
        """Return the system that this one is compared with by a score."""
        found = self.scores.get(score)
        if found is None or found.baseline is None:
            return self.baseline
        return None if found.baseline == self.name else found.baseline


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTotal(Record):
    """Dollars and tokens; None where they are not known."""

    usd: float | None
    tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending(Record):
    """What a run with a budget spent, what it left out, and what finishing would cost.

    Attributes:
        limits: `usd`, `tokens`, `minutes`: those that are set.
        reached: Whether anything was left out for it.
        missing: Stage -> how many of its items were left out.
        to_finish: An estimate.
    """

    limits: Mapping[str, float]
    spent: CostTotal
    reached: bool
    missing: Mapping[str, int]
    to_finish: CostTotal


@dataclass(frozen=True, slots=True, kw_only=True)
class FillCounts(Record):
    """Who graded passages beside people, how many, and what it took.

    Attributes:
        model_name: The model, as its server names it.
        depth: The best so many hits of each retriever.
        pairs: Pairs of query and passage in the pool.
        people: Of these, judged by people.
        model: Graded by the model.
        failed: Cause -> how many could not be graded.
        without_text: How many have no text to grade.
    """

    judge: str
    model_name: str
    rubric: str
    depth: int
    pairs: int
    people: int
    model: int
    failed: Mapping[str, int]
    without_text: int
    judging: Judging


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferredSystem(Record):
    """A system in a ranking by preference.

    Attributes:
        rank: 1 is the strongest; None where comparisons do not connect all systems.
        strength: Log-odds against the average of the systems.
        win_rate: Wins and half the ties over all its comparisons.
        failed: Cause -> comparisons that failed.
        not_applicable: Queries without anything to compare.
    """

    system: str
    rank: int | None
    strength: float | None
    interval: Ends
    win_rate: float | None
    wins: int
    ties: int
    losses: int
    failed: Mapping[str, int]
    not_applicable: int

    @property
    def n_failed(self) -> int:
        """How many comparisons failed, whatever their cause."""
        return sum(self.failed.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking(Record):
    """The systems as one judge prefers them by one rubric.

    Attributes:
        pairs: `all` pairs of systems, or each with the `baseline`.
        baseline: What all others are compared with; None for all pairs.
        rule: How the strengths were computed.
        notes: What limits them.
    """

    name: str = ""
    rubric: str = ""
    judge: str = ""
    model: str = ""
    pairs: str = "all"
    baseline: str | None = None
    systems: tuple[PreferredSystem, ...]
    rule: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceSummary(Ranking):
    """What one judge prefers by one rubric, without the single pairs."""

    judging: Judging


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary(Record):
    """A whole run.

    Attributes:
        complete: Whether so many items were scored that the means are to be trusted.
        budget: What was spent, where there is a budget.
        baseline: The retriever that the others are compared with.
        cluster: What names the clusters of queries, where there are any.
        judges: Judges that were asked.
        skipped_judges: Judge -> why it was not asked.
        fill: Who graded passages beside people.
        systems: Every system, in the order of the tables.
        warnings: What makes numbers doubtful, a sentence each.
        notes: What the reader of the numbers should know, a sentence each.
        timing: What varies from run to run; all else is the same as long as config, data, code and
            replies are.
    """

    schema: str = SUMMARY_SCHEMA
    name: str
    complete: bool = True
    dataset: Dataset | None = None
    budget: Spending | None = optional()
    seed: int | None = None
    confidence: float = 0.95
    baseline: str | None = None
    cluster: str | None = optional()
    judges: Mapping[str, DeclaredJudge] = field(default_factory=dict)
    skipped_judges: Mapping[str, str] = optional({})
    fill: FillCounts | None = optional()
    systems: tuple[SystemSummary, ...]
    preferences: tuple[PreferenceSummary, ...] = optional(())
    gates: tuple[Decision, ...] = ()
    warnings: tuple[Prose, ...] = ()
    notes: tuple[Prose, ...] = ()
    timing: Timing = field(default_factory=Timing)

    @property
    def run_id(self) -> str:
        """The name of its folder."""
        return self.timing.run_id

    def system(self, name: str) -> SystemSummary | None:
        """Return a system by name; None where there is none."""
        return next((system for system in self.systems if system.name == name), None)
