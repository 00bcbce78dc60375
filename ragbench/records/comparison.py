"""`comparisons.json`, and what `ragbench compare` finds: systems beside each other, paired."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ragbench.records.causes import CauseFlow
from ragbench.records.codec import Prose, Record, optional
from ragbench.records.gate import DropFacts, Verdict
from ragbench.records.score import Ends, Kind, SystemScore
from ragbench.records.summary import Ranking
from ragbench.types import Direction

COMPARISON_SCHEMA = "ragbench.comparison/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference(Record):
    """A system and its baseline by one measure, paired over the queries that both have."""

    system: str
    baseline: str
    difference: float | None = None
    """Mean of the system's score minus the baseline's; None where no query has both."""
    interval: Ends | None = None
    n: int = 0
    """Queries that both have."""
    n_changed: int | None = None
    """Queries whose score differs."""
    n_clusters: int | None = optional()
    """How many clusters these queries are in, where they are in any."""
    rule: str | None = None
    """How the interval was computed."""
    effect_size: float | None = None
    """The difference in standard deviations of the differences."""
    effect_interval: Ends | None = None
    minimum_detectable: float | None = None
    """The smallest difference that so many queries are likely to show."""
    test: str | None = None
    """What gives p."""
    resamples: int | None = None
    """Sign flips behind p; None for a test without."""
    p: float | None = None
    p_adjusted: float | None = None
    """Adjusted for its family; None where nothing was tested."""
    differs: bool | None = None
    """Whether a difference was shown; None where none was tested."""
    n_failed: int | None = optional()
    """Pairs that a failure left out, where runs are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureComparison(Record):
    """All systems by one measure."""

    measure: str
    kind: Kind | None = None
    direction: Direction = "higher"
    signature: str | None = None
    best: str | None = None
    """The system with the best mean; None for a count, and where the measure tells nothing."""
    tied_with_best: tuple[str, ...] = ()
    """The best, and those that were compared with it and cannot be told from it."""
    comparisons: tuple[Difference, ...] = ()
    tells_nothing: Prose | None = optional()
    """Why no system can be told from another by it: all have the same value on every query, or it
    cannot have another one here."""
    better_than: Mapping[str, tuple[str, ...]] | None = optional()
    """System -> those that it is significantly better than, where runs are compared."""

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
    """A system and its baseline over a slice of the queries."""

    field: str
    """What sorts the queries: `metadata.topic`, `query_length`."""
    slice: str
    measure: str
    system: str
    baseline: str
    direction: Direction
    difference: float | None = None
    """Mean difference; None where no query has both."""
    interval: Ends | None = None
    n: int = 0
    """Queries of the slice that both have."""
    n_changed: int | None = None
    """Queries whose score differs."""
    n_clusters: int | None = optional()
    """How many clusters these are in."""
    p_adjusted: float | None = None
    """One-sided, adjusted for the slices of the field; None where it was not tested."""
    worse: bool | None = None
    """Whether the system is worse there; None where it was not tested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferredPair(Record):
    """Two systems whose answers were compared query by query."""

    system: str
    """A win is its win."""
    other: str
    wins: int
    ties: int
    """Queries where neither was preferred."""
    losses: int
    same_answer: int
    """How many of the ties are equal answers."""
    win_rate: float | None
    """Wins and half the ties; None where nothing was judged."""
    interval: Ends
    n: int
    """Queries that were judged."""
    failed: Mapping[str, int]
    """Cause -> queries that failed."""
    not_applicable: int
    """Queries without anything to compare."""
    bounds: Ends
    """The win rate if the failed ones were all lost, or won."""
    signature: str
    p: float | None
    """That no side is preferred."""
    p_adjusted: float | None
    """Adjusted for all pairs."""
    differs: bool
    """Whether a preference was shown."""

    @property
    def n_failed(self) -> int:
        """Number of failed queries, whatever their cause."""
        return sum(self.failed.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference(Ranking):
    """Preferences of a judge by a rubric, pair by pair."""

    comparisons: tuple[PreferredPair, ...]
    win_matrix: Mapping[str, Mapping[str, float]]
    """Row system -> column system -> win rate of the row, for the pairs that were judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverSource(Record):
    """The difference of a retriever, such as a reranker, from its source by a measure."""

    system: str
    """A reranker, say."""
    over: str
    """Its first stage."""
    measure: str
    difference: float | None
    interval: Ends
    n: int
    n_changed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlDifference(Record):
    """A generator with other passages than its retriever found, by one score."""

    control: str
    """Which passages it gets: `gold_context`, `no_context`, `shuffled_context`."""
    generator: str
    score: str
    mean: float | None
    system: str
    """What it is compared with: the generator on the baseline retriever."""
    system_mean: float | None
    difference: float | None
    """How far the control lies above it."""
    interval: Ends
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparisons(Record):
    """The systems of one run, measure by measure."""

    schema: str = COMPARISON_SCHEMA
    baseline: str | None = None
    """The retriever that the others are compared with, or the first of several runs."""
    confidence: float | None
    """Level of every interval; 1 minus it is the error rate of every family of tests."""
    test: str = "test"
    """How a pair is tested."""
    correction: str = "none"
    """How the p-values of a family are adjusted."""
    family: str = "measure"
    """`measure`: the comparisons by one measure; `all`: those by all measures together."""
    cluster: str | None = None
    """What names the clusters; None where each query stands for itself."""
    resamples: int | None
    """Sign flips of a randomization test, and bootstrap resamples."""
    seed: int | None
    measures: tuple[MeasureComparison, ...] = ()
    slices: tuple[SliceDifference, ...] = optional(())
    """Where the queries are sorted into slices."""
    preferences: tuple[Preference, ...] = optional(())
    over_sources: tuple[OverSource, ...] = optional(())
    """What retrievers over others add to these."""
    controls: tuple[ControlDifference, ...] = optional(())
    causes: tuple[CauseFlow, ...] = optional(())
    """Each system beside its baseline: which queries moved from which cause to which."""

    def measure(self, name: str) -> MeasureComparison | None:
        """Return what is known of a measure; None where nothing is."""
        return next((each for each in self.measures if each.measure == name), None)


def no_comparisons() -> Comparisons:
    """Return empty comparisons, of a page or a run that compares nothing."""
    return Comparisons(confidence=None, resamples=None, seed=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSystem(Record):
    """A system among those of compared runs."""

    name: str
    """Unlike that of any other: `bm25`, or `bm25 (runs/new)`."""
    letter: str
    """Stands for it in marks."""
    system: str
    """Its own name."""
    source: str
    retriever: str | None
    generator: str | None
    scores: Mapping[str, SystemScore]
    """Its scores over the common queries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedGate(Record):
    """A condition of `--fail-if`, checked on one comparison."""

    gate: str
    """The condition as it was written."""
    system: str | None
    """The system; None where no system has the measure."""
    baseline: str | None
    measure: str
    max_drop: float
    verdict: Verdict
    why: str
    """The numbers in words."""
    facts: DropFacts
    """The numbers in full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedQuery(Record):
    """A query whose score moved."""

    query_id: str
    score: float
    baseline_score: float
    """Of what it is compared with."""
    difference: float
    """The first minus the second."""
    question: str = optional("")
    """What it asks, where a run folder of either says it."""
    ranking: tuple[str, ...] | None = optional()
    """The system's first documents, where rankings are at hand."""
    baseline_ranking: tuple[str, ...] | None = optional()
    """Those of the other."""


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
    """A compared run: its commit, and its changes since the first run."""

    source: str
    started: str
    """When, in UTC."""
    commit: str | None = optional()
    """The commit of the config's repository; None where there is none."""
    changed: tuple[str, ...] = ()
    """What differs from the first run in config and data; empty of the first one itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRuns(Comparisons):
    """The systems of several runs, or of one, as `ragbench compare` shows them."""

    sources: tuple[str, ...]
    """What was compared; the first is what the others are compared with."""
    queries: int
    left_out: Mapping[str, int]
    """Source -> how many of its queries the others lack."""
    differing: Mapping[str, tuple[str, ...]] = optional({})
    """`question`, `judgements`, `subtopics`, `answers` -> the queries that all sources have and
    that were left out, as it is not the same in all."""
    systems: tuple[ComparedSystem, ...]
    notes: tuple[str, ...]
    """What a reader should know, one sentence each."""
    gates: tuple[ComparedGate, ...] = ()
    """The verdict on each condition and system."""
    moved: tuple[MovedQueries, ...] = ()
    runs: tuple[RunSince, ...] = optional(())
    """The sources that are run folders, where the first one is."""
    questions: Mapping[str, str] = optional({})
    """Query -> what it asks, of those that changed their cause."""

    @property
    def firsts(self) -> list[MeasureComparison]:
        """The first measure of each kind that tells systems apart."""
        by_kind: dict[str | None, MeasureComparison] = {}
        # a page without any measure that tells systems apart still shows one
        for family in [f for f in self.measures if not f.tells_nothing] or self.measures:
            by_kind.setdefault(family.kind, family)
        return list(by_kind.values())
