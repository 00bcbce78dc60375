"""Records of `comparisons.json` and `ragbench compare`: systems compared with baselines, paired."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import chain

from msgspec import structs

from ragbench.records.causes import AnswerCause, CauseFlow, Quantity
from ragbench.records.noise import Noise
from ragbench.records.score import Ends, Kind, SystemScore
from ragbench.records.summary import AnswerCounts, Ranking
from ragbench.types import Direction
from ragbench.types.display import short_repr
from ragbench.types.json_fields import Prose, Record, optional

COMPARISON_SCHEMA = "ragbench.comparison/1"


class Difference(Record):
    """Difference between a system and its baseline by one measure, over the queries that both have.

    A number that is not defined, or was not computed, is None.

    Attributes:
        system: Name of the system.
        baseline: Name of the baseline.
        difference: Mean of the system's score minus the baseline's; None if no query has both.
        interval: Confidence limits of the difference; None, or two Nones, without any.
        n: Number of queries that both have.
        n_changed: Number of queries whose score differs.
        n_clusters: Number of clusters of these queries; None without clusters.
        rule: Method of the interval.
        effect_size: The difference in standard deviations of the differences.
        effect_interval: Confidence limits of the effect size.
        minimum_detectable: Size of the smallest difference that so many queries show in 4 of 5
            cases, after the correction; None if no difference like these would be shown.
        test: Test that gives p; None if nothing was tested.
        resamples: Sign flips behind p; None for a test without.
        p: P-value of the single comparison.
        p_adjusted: P-value adjusted for its family; None if nothing was tested.
        n_comparisons: Number of comparisons that p_adjusted is corrected for; None if nothing was
            tested.
        differs: True if the adjusted p is at most 1 - confidence: then the interval excludes 0.
            False with an interval that excludes 0: the correction stands between. None if nothing
            was tested.
        n_failed: Pairs without a value because of a failure, if runs are compared.
        n_baseline: Queries of the baseline, if it was scored over other queries; None for pairs.
        unlike: Difference of the signatures in words, because of which nothing was compared; else
            None.
        noise: Uncertainty split into questions, app and judge; None if nothing was repeated.
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
    n_comparisons: int | None = optional()
    differs: bool | None = None
    n_failed: int | None = optional()
    n_baseline: int | None = optional()
    unlike: Prose | None = optional()
    noise: Noise | None = optional()

    @property
    def needs_correction(self) -> bool:
        """True if the pair alone shows a difference, and only the correction stands between."""
        low, high = self.interval or (None, None)
        # `decide` leaves no other reason for an interval that excludes 0
        is_outside = low is not None and high is not None and not low <= 0 <= high
        return self.differs is False and is_outside

    def reverse(self) -> Difference:
        """Return the difference of the baseline minus the system: the same test, other signs.

        The number of queries of each side moves with it.
        """
        n, n_baseline = self.n, self.n_baseline
        return structs.replace(
            self,
            system=self.baseline,
            baseline=self.system,
            difference=None if self.difference is None else -self.difference,
            interval=_negated(self.interval),
            effect_size=None if self.effect_size is None else -self.effect_size,
            effect_interval=_negated(self.effect_interval),
            n=n if n_baseline is None else n_baseline,
            n_baseline=None if n_baseline is None else n,
        )


def _negated(ends: Ends | None) -> Ends | None:
    """Return the limits of the negated number; None without limits."""
    if ends is None:
        return None
    low, high = ends
    return (None if high is None else -high, None if low is None else -low)


def leaders(
    means: Mapping[str, float | None], user_systems: Collection[str], direction: Direction
) -> list[str]:
    """Return the systems that a report names first, of those with a mean.

    They are the best two of the user's systems, then the best of the other systems; without a
    system of the user, the best two of all. Of equal means the first by name is better: the order
    of the systems does not matter.

    Example:
        >>> means = {"mine": 0.3, "bm25": 0.5, "dense": 0.6, "yours": None}
        >>> leaders(means, ["mine"], "higher"), leaders(means, [], "higher")
        (['mine', 'dense'], ['dense', 'bm25'])
    """
    sign = -1 if direction == "lower" else 1
    # rounded: of equal means, the last digits may depend on the order of a sum
    keys = {}
    for n, mean in means.items():
        if mean is not None:
            keys[n] = (-sign * round(mean, 12), n)
    ordered = sorted(keys, key=keys.__getitem__)
    users, builtin = [], []
    for name in ordered:
        if name in user_systems:
            users.append(name)
        else:
            builtin.append(name)
    return [*users[:2], *builtin[:1]] if users else builtin[:2]


class MeasureComparison(Record):
    """Comparisons of all systems by one measure.

    `between` returns the comparison of two systems, or None.

    Attributes:
        measure: Name of the measure.
        kind: Kind of the score: retrieval, generation or judge.
        direction: `higher` or `lower`, whichever is better.
        signature: Everything that the score depends on, as text; None if it differs.
        best: System with the best mean; None for a count, if no system has a mean, if the measure
            tells nothing, if signatures differ, and in an unpaired comparison.
        tied_with_best: The best system, and systems that are not shown to be worse; empty without a
            best system.
        comparisons: Differences of systems from their baselines.
        leads: Differences of the leading system from the next ones (see `leaders`), without pairs
            that `comparisons` have. They are corrected for all pairs of systems by step-down max-T.
        tells_nothing: Reason why no system can be told from another by it, such as equal values on
            every query; else None.
        unlike: Difference of the signatures of systems in words: those with other signatures are
            not compared; None if all may be.
        better_than: System -> systems that it is shown to be better than, if runs are compared;
            then all decisions are corrected for all pairs.
    """

    measure: str
    kind: Kind | None = None
    direction: Direction = "higher"
    signature: str | None = None
    best: str | None = None
    tied_with_best: tuple[str, ...] = ()
    comparisons: tuple[Difference, ...] = ()
    leads: tuple[Difference, ...] = optional(())
    tells_nothing: Prose | None = optional()
    unlike: Prose | None = optional()
    better_than: Mapping[str, tuple[str, ...]] | None = optional()

    @property
    def sure_best(self) -> str | None:
        """The best system if it is shown to be better than all others that have a mean."""
        return self.best if self.tied_with_best == (self.best,) else None

    def comparison_of(self, system: str, baseline: str | None) -> Difference | None:
        """Return the difference of a system from a baseline; None if it was not compared so."""
        for comparison in self.comparisons:
            if (comparison.system, comparison.baseline) == (system, baseline):
                return comparison
        return None

    def between(self, system: str, other: str) -> Difference | None:
        """Return the difference of a system from another one; None if they were not compared."""
        for comparison in (*self.comparisons, *self.leads):
            if (comparison.system, comparison.baseline) == (system, other):
                return comparison
            if (comparison.system, comparison.baseline) == (other, system):
                return comparison.reverse()
        return None


class SliceDifference(Record):
    """Difference between a system and its baseline over a slice of the queries.

    A number that is not defined is None.

    Attributes:
        field: Field that sorts the queries: `metadata.topic`, `query_length`.
        slice: Value of the field.
        difference: Mean of the system's score minus the baseline's; None if no query has both.
        interval: Confidence limits of the difference.
        n: Queries of the slice that both have.
        n_changed: Queries whose score differs.
        n_clusters: Clusters of these queries; None without clusters.
        p_adjusted: One-sided p-value, adjusted for the slices of the field; None if not tested.
        worse: True if the system is worse there; None if not tested.
        measure: Name of the measure.
        system: Name of the system.
        baseline: Name of the baseline.
        direction: `higher` or `lower`, whichever is better.
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


class PreferredPair(Record):
    """Two systems whose answers a judge compared query by query.

    `preferred` is the system with the larger win rate if `differs`, else None.

    Attributes:
        system: System whose wins are counted.
        other: The other system.
        wins: Queries where the system was preferred.
        ties: Queries where neither was preferred.
        losses: Queries where the other was preferred.
        same_answer: Ties with equal answers.
        win_rate: Wins and half the ties, as a share; None if nothing was judged.
        interval: Confidence limits of the win rate.
        n: Queries that were judged.
        failed: Cause -> number of failed queries.
        not_applicable: Queries without two answers to compare.
        bounds: The win rate if all failed queries were lost, or won.
        signature: Everything that the preference depends on, as text.
        p: P-value of no preference; None if it is not defined.
        p_adjusted: P-value adjusted for all pairs; None like `p`.
        differs: True if a preference was shown.
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
    def preferred(self) -> str | None:
        """System whose answers are shown to be preferred; None if no preference was shown."""
        if not self.differs or self.win_rate is None:
            return None
        return self.system if self.win_rate > 0.5 else self.other

    @property
    def n_failed(self) -> int:
        """Number of failed queries, whatever their cause."""
        return sum(self.failed.values())


class Preference(Ranking):
    """Preferences of a judge by a rubric, pair by pair.

    Attributes:
        comparisons: The pairs.
        win_matrix: Row system -> column system -> win rate of the row, for the judged pairs.
    """

    comparisons: tuple[PreferredPair, ...]
    win_matrix: Mapping[str, Mapping[str, float]]


class OverSource(Record):
    """Difference between a retriever that uses another one, such as a reranker, and its source.

    Attributes:
        system: The retriever, such as a reranker.
        over: Its source, such as the first stage.
        measure: Name of the measure.
        difference: Mean difference; None if no query has both.
        interval: Confidence limits of the difference.
        n: Queries that both have.
        n_changed: Queries whose score differs.
    """

    system: str
    over: str
    measure: str
    difference: float | None
    interval: Ends
    n: int
    n_changed: int


class ControlDifference(Record):
    """Difference between a generator with other passages and with those of the baseline retriever.

    Attributes:
        control: Passages that it gets: `gold_context`, `no_context`, `shuffled_context`,
            `injection`, or `distractors=N`.
        generator: Name of the generator.
        score: Name of the score.
        mean: Mean of the control; None if no query has a value.
        system: The generator on the baseline retriever.
        system_mean: Mean of that system; None if no query has a value.
        difference: Mean of the control minus that of the system, over the queries that both have;
            None if there are none.
        interval: Confidence limits of the difference.
        n: Queries that both have.
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


class Comparisons(Record):
    """Comparisons of the systems of a run, measure by measure.

    `measure` returns the comparisons by a measure, or None.

    Attributes:
        baseline: Retriever, app or recorded system that the others are compared with, or the first
            of several runs; None if none is named, as where nothing is compared. Each comparison
            names its own baseline.
        confidence: Level of every interval; 1 minus it is the error rate of a family of tests. None
            if nothing is compared.
        test: Test of a pair.
        correction: Method that adjusts the p-values of a family.
        family: `measure`: the comparisons by one measure; `all`: those by all measures together.
        cluster: Field that names the clusters; None if each query is a unit.
        resamples: Sign flips of a randomization test, and bootstrap resamples; None if the
            comparison is unpaired, or nothing is compared.
        seed: Seed of these; None if nothing is compared.
        measures: Comparisons by measure.
        slices: Differences over slices of the queries.
        preferences: Preferences of judges.
        over_sources: Differences between retrievers and the retrievers that they use.
        controls: Differences of controls.
        causes: Moves of queries between causes, for each system and its baseline.
        reading: Comparisons of retrievers that read equal amounts of text; None if they read
            about equal ones anyway, or if gold is whole documents.
    """

    schema: str = COMPARISON_SCHEMA
    baseline: str | None = None
    # null for a page that compares nothing
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
    reading: MeasureComparison | None = optional()

    __repr__ = short_repr

    def measure(self, name: str) -> MeasureComparison | None:
        """Return the comparisons by the measure of this exact name."""
        return self.by_measure().get(name)

    def by_measure(self) -> dict[str, MeasureComparison]:
        """Return measure -> comparisons by it, those of `reading` among them."""
        families = {family.measure: family for family in self.measures}
        if self.reading is not None:
            families.setdefault(self.reading.measure, self.reading)
        return families

    def pairs(self) -> list[Difference]:
        """Return the comparisons of all measures, measure by measure."""
        return list(chain.from_iterable(family.comparisons for family in self.measures))


def no_comparisons() -> Comparisons:
    """Return empty comparisons, of a page or a run that compares nothing.

    Their baseline, confidence, resamples and seed are None.
    """
    return Comparisons(confidence=None, resamples=None, seed=None)


class ComparedSystem(Record):
    """A system of one of the compared runs.

    Attributes:
        name: Name that no other compared system has: `bm25`, or `bm25 (runs/new)`.
        letter: Letter that stands for it in tables.
        system: Its name in its own run.
        source: Run folder or file that it comes from.
        retriever: Name of the retriever; None for an app and for a system of the records.
        generator: Name of the generator; None for a retriever alone.
        scores: Its scores over the common queries, or over its own if the comparison is unpaired.
        causes: Cause -> number of its queries, in an unpaired comparison of run folders; else
            empty, as `causes` of the comparison has the moves of the common queries.
        answers: Numbers of answers to all queries of its run, if each query has several.
    """

    name: str
    letter: str
    system: str
    source: str
    retriever: str | None
    generator: str | None
    scores: Mapping[str, SystemScore]
    causes: Mapping[AnswerCause, Quantity] = optional({})
    answers: AnswerCounts | None = optional()


class MovedQuery(Record):
    """A query whose score moved.

    Attributes:
        query_id: Id of the query.
        score: Score of the system.
        baseline_score: Score of the baseline.
        difference: Score minus baseline score.
        question: Its text; empty if no run folder has it.
        ranking: First documents of the system; None without rankings.
        baseline_ranking: First documents of the baseline; None without rankings.
        gold: Ranks of the gold among the documents of `ranking`: documents of which a retrieved
            passage meets gold.
        baseline_gold: Ranks of the gold in `baseline_ranking`.
    """

    query_id: str
    score: float
    baseline_score: float
    difference: float
    question: str = optional("")
    ranking: tuple[str, ...] | None = optional()
    baseline_ranking: tuple[str, ...] | None = optional()
    gold: tuple[int, ...] = optional(())
    baseline_gold: tuple[int, ...] = optional(())


class MovedQueries(Record):
    """Queries that moved most between two systems by one measure, the most moved first.

    Attributes:
        up: Number of queries with a better score.
        down: Number of queries with a worse score.
        same: Number of queries with the same score.
        queries: The queries that moved most.
        measure: Name of the measure.
        system: Name of the system.
        baseline: Name of the baseline.
    """

    measure: str
    system: str
    baseline: str
    up: int
    down: int
    same: int
    queries: tuple[MovedQuery, ...]


class RunSince(Record):
    """A compared run folder, with its changes since the first run.

    Attributes:
        source: The folder.
        started: Start in UTC.
        commit: Commit of the config's repository; None if there is none.
        changed: Differences of config and data from the first run as short texts, such as `seed: 1
            -> 2`; empty for the first run.
        has_unseen: True if it or the first run used an object, a server or a program that no file
            describes: it may have changed.
    """

    source: str
    started: str
    commit: str | None = optional()
    changed: tuple[str, ...] = ()
    has_unseen: bool = optional(False)


class ComparedRuns(Comparisons):
    """Comparisons of the systems of several runs, or of one, as `ragbench compare` shows them.

    `compare_sources` makes them; moved queries, runs and questions are added later.

    Attributes:
        sources: Compared runs and files; the first is the baseline of the others.
        queries: Number of common queries; those of the base if the comparison is unpaired.
        left_out: Source -> number of its queries that other sources lack.
        differing: `question`, `judgements`, `subtopics`, `answers`, `spans` -> queries that all
            sources have, and that are left out because this part differs.
        systems: The compared systems.
        notes: Facts that a reader needs, one sentence each.
        moved: Queries that moved most.
        runs: The sources that are run folders, if the first one is.
        questions: Query -> its text, for queries that changed their cause.
        unpaired: Source -> number of its queries, if these were compared as samples of different
            questions; empty for a comparison query by query.
    """

    sources: tuple[str, ...]
    queries: int
    left_out: Mapping[str, int]
    differing: Mapping[str, tuple[str, ...]] = optional({})
    systems: tuple[ComparedSystem, ...]
    notes: tuple[str, ...]
    moved: tuple[MovedQueries, ...] = ()
    runs: tuple[RunSince, ...] = optional(())
    questions: Mapping[str, str] = optional({})
    unpaired: Mapping[str, int] = optional({})

    @property
    def firsts(self) -> list[MeasureComparison]:
        """First measure of each kind (retrieval, generation, judge) that tells systems apart.

        If no measure tells them apart, it is the first measure of each kind.
        """
        by_kind: dict[str | None, MeasureComparison] = {}
        # a page without any measure that tells systems apart still shows one
        for family in [f for f in self.measures if not f.tells_nothing] or self.measures:
            by_kind.setdefault(family.kind, family)
        return list(by_kind.values())
