"""`comparisons.json`, and what `ragbench compare` finds: systems beside each other, paired."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ragbench.records.causes import CauseFlow
from ragbench.records.codec import Record
from ragbench.records.gate import DropFacts, Verdict
from ragbench.records.score import Ends, Kind, SystemScore
from ragbench.records.summary import Ranking
from ragbench.types import Direction
from ragbench.types.json_fields import Prose, optional

COMPARISON_SCHEMA = "ragbench.comparison/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference(Record):
    """A system and its baseline by one measure, paired over the queries that both have.

    Attributes:
        difference: Mean of the system's score minus the baseline's; None where no query has both.
        n: Queries that both have.
        n_changed: Queries whose score differs.
        n_clusters: How many clusters these queries are in, where they are in any.
        rule: How the interval was computed.
        effect_size: The difference in standard deviations of the differences.
        minimum_detectable: The smallest difference that so many queries are likely to show.
        test: What gives p.
        resamples: Sign flips behind p; None for a test without.
        p_adjusted: Adjusted for its family; None where nothing was tested.
        differs: True if the adjusted p is at most 1 - confidence and the interval excludes 0; None
            where nothing was tested.
        n_failed: Pairs that a failure left out, where runs are compared.
    """

    system: str
    baseline: str
    difference: float | None = None
    interval: Ends | None = None
    n: int = 0
    n_changed: int | None = None
    n_clusters: int | None = optional()
    rule: str | None = None
    effect_size: float | None = None
    effect_interval: Ends | None = None
    minimum_detectable: float | None = None
    test: str | None = None
    resamples: int | None = None
    p: float | None = None
    p_adjusted: float | None = None
    differs: bool | None = None
    n_failed: int | None = optional()


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureComparison(Record):
    """All systems by one measure.

    Attributes:
        best: The system with the best mean; None for a count, and where the measure tells nothing.
        tied_with_best: The best, and those that were compared with it and cannot be told from it.
        tells_nothing: Why no system can be told from another by it: all have the same value on
            every query, or it cannot have another one here.
        better_than: System -> those that it is significantly better than, where runs are compared.
    """

    measure: str
    kind: Kind | None = None
    direction: Direction = "higher"
    signature: str | None = None
    best: str | None = None
    tied_with_best: tuple[str, ...] = ()
    comparisons: tuple[Difference, ...] = ()
    tells_nothing: Prose | None = optional()
    better_than: Mapping[str, tuple[str, ...]] | None = optional()

    @property
    def untold(self) -> tuple[str, ...]:
        """The systems that cannot be told from the best one, which is not among them.

        Of a system and its baseline their own test decides, which was planned and has more power;
        of all other pairs the test over all pairs. So no pair has two answers.
        """
        planned = {
            c.system if c.baseline == self.best else c.baseline: c.differs
            for c in self.comparisons
            if self.best in (c.system, c.baseline) and c.differs is not None
        }
        known = dict.fromkeys(name for name in self.tied_with_best if name != self.best)
        known |= dict.fromkeys(name for name, differs in planned.items() if not differs)
        return tuple(name for name in known if not planned.get(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceDifference(Record):
    """A system and its baseline over a slice of the queries.

    Attributes:
        field: What sorts the queries: `metadata.topic`, `query_length`.
        difference: Mean difference; None where no query has both.
        n: Queries of the slice that both have.
        n_changed: Queries whose score differs.
        n_clusters: How many clusters these are in.
        p_adjusted: One-sided, adjusted for the slices of the field; None where it was not tested.
        worse: Whether the system is worse there; None where it was not tested.
    """

    field: str
    slice: str
    measure: str
    system: str
    baseline: str
    direction: Direction
    difference: float | None = None
    interval: Ends | None = None
    n: int = 0
    n_changed: int | None = None
    n_clusters: int | None = optional()
    p_adjusted: float | None = None
    worse: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferredPair(Record):
    """Two systems whose answers were compared query by query.

    Attributes:
        system: A win is its win.
        ties: Queries where neither was preferred.
        same_answer: How many of the ties are equal answers.
        win_rate: Wins and half the ties; None where nothing was judged.
        n: Queries that were judged.
        failed: Cause -> queries that failed.
        not_applicable: Queries without anything to compare.
        bounds: The win rate if the failed ones were all lost, or won.
        p: That no side is preferred.
        p_adjusted: Adjusted for all pairs.
        differs: Whether a preference was shown.
    """

    system: str
    other: str
    wins: int
    ties: int
    losses: int
    same_answer: int
    win_rate: float | None
    interval: Ends
    n: int
    failed: Mapping[str, int]
    not_applicable: int
    bounds: Ends
    signature: str
    p: float | None
    p_adjusted: float | None
    differs: bool

    @property
    def n_failed(self) -> int:
        """Number of failed queries, whatever their cause."""
        return sum(self.failed.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference(Ranking):
    """Preferences of a judge by a rubric, pair by pair.

    Attributes:
        win_matrix: Row system -> column system -> win rate of the row, for the pairs that were
            judged.
    """

    comparisons: tuple[PreferredPair, ...]
    win_matrix: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OverSource(Record):
    """The difference of a retriever, such as a reranker, from its source by a measure.

    Attributes:
        system: A reranker, say.
        over: Its first stage.
    """

    system: str
    over: str
    measure: str
    difference: float | None
    interval: Ends
    n: int
    n_changed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlDifference(Record):
    """A generator with other passages than its retriever found, by one score.

    Attributes:
        control: Which passages it gets: `gold_context`, `no_context`, `shuffled_context`.
        system: What it is compared with: the generator on the baseline retriever.
        difference: How far the control lies above it.
    """

    control: str
    generator: str
    score: str
    mean: float | None
    system: str
    system_mean: float | None
    difference: float | None
    interval: Ends
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparisons(Record):
    """The systems of one run, measure by measure.

    Attributes:
        baseline: The retriever that the others are compared with, or the first of several runs.
        confidence: Level of every interval; 1 minus it is the error rate of every family of tests.
        test: How a pair is tested.
        correction: How the p-values of a family are adjusted.
        family: `measure`: the comparisons by one measure; `all`: those by all measures together.
        cluster: What names the clusters; None where each query stands for itself.
        resamples: Sign flips of a randomization test, and bootstrap resamples.
        slices: Where the queries are sorted into slices.
        over_sources: What retrievers over others add to these.
        causes: Each system beside its baseline: which queries moved from which cause to which.
    """

    schema: str = COMPARISON_SCHEMA
    baseline: str | None = None
    confidence: float | None
    test: str = "test"
    correction: str = "none"
    family: str = "measure"
    cluster: str | None = None
    resamples: int | None
    seed: int | None
    measures: tuple[MeasureComparison, ...] = ()
    slices: tuple[SliceDifference, ...] = optional(())
    preferences: tuple[Preference, ...] = optional(())
    over_sources: tuple[OverSource, ...] = optional(())
    controls: tuple[ControlDifference, ...] = optional(())
    causes: tuple[CauseFlow, ...] = optional(())

    def measure(self, name: str) -> MeasureComparison | None:
        """Return what is known of a measure; None where nothing is."""
        return next((each for each in self.measures if each.measure == name), None)


def no_comparisons() -> Comparisons:
    """Return empty comparisons, of a page or a run that compares nothing."""
    return Comparisons(confidence=None, resamples=None, seed=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSystem(Record):
    """A system among those of compared runs.

    Attributes:
        name: Unlike that of any other: `bm25`, or `bm25 (runs/new)`.
        letter: Stands for it in marks.
        system: Its own name.
        scores: Its scores over the common queries.
    """

    name: str
    letter: str
    system: str
    source: str
    retriever: str | None
    generator: str | None
    scores: Mapping[str, SystemScore]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedGate(Record):
    """A condition of `--fail-if`, checked on one comparison.

    Attributes:
        gate: The condition as it was written.
        system: The system; None where no system has the measure.
        why: The numbers in words.
        facts: The numbers in full.
    """

    gate: str
    system: str | None
    baseline: str | None
    measure: str
    max_drop: float
    verdict: Verdict
    why: str
    facts: DropFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedQuery(Record):
    """A query whose score moved.

    Attributes:
        baseline_score: Of what it is compared with.
        difference: The first minus the second.
        question: What it asks, where a run folder of either says it.
        ranking: The system's first documents, where rankings are at hand.
        baseline_ranking: Those of the other.
    """

    query_id: str
    score: float
    baseline_score: float
    difference: float
    question: str = optional("")
    ranking: tuple[str, ...] | None = optional()
    baseline_ranking: tuple[str, ...] | None = optional()


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedQueries(Record):
    """The queries that moved most between two systems by one measure, the most moved first."""

    measure: str
    system: str
    baseline: str
    up: int
    down: int
    same: int
    queries: tuple[MovedQuery, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSince(Record):
    """A compared run: its commit, and its changes since the first run.

    Attributes:
        started: When, in UTC.
        commit: The commit of the config's repository; None where there is none.
        changed: What differs from the first run in config and data; empty of the first one itself.
    """

    source: str
    started: str
    commit: str | None = optional()
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRuns(Comparisons):
    """The systems of several runs, or of one, as `ragbench compare` shows them.

    Attributes:
        sources: What was compared; the first is what the others are compared with.
        left_out: Source -> how many of its queries the others lack.
        differing: `question`, `judgements`, `subtopics`, `answers` -> the queries that all sources
            have and that were left out, as it is not the same in all.
        notes: What a reader should know, one sentence each.
        gates: The verdict on each condition and system.
        runs: The sources that are run folders, where the first one is.
        questions: Query -> what it asks, of those that changed their cause.
    """

    sources: tuple[str, ...]
    queries: int
    left_out: Mapping[str, int]
    differing: Mapping[str, tuple[str, ...]] = optional({})
    systems: tuple[ComparedSystem, ...]
    notes: tuple[str, ...]
    gates: tuple[ComparedGate, ...] = ()
    moved: tuple[MovedQueries, ...] = ()
    runs: tuple[RunSince, ...] = optional(())
    questions: Mapping[str, str] = optional({})

    @property
    def firsts(self) -> list[MeasureComparison]:
        """The first measure of each kind that tells systems apart."""
        by_kind: dict[str | None, MeasureComparison] = {}
        # a page without any measure that tells systems apart still shows one
        for family in [f for f in self.measures if not f.tells_nothing] or self.measures:
            by_kind.setdefault(family.kind, family)
        return list(by_kind.values())
