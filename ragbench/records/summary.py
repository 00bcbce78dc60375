"""Records of `summary.json`: a run, its systems, and every score with its uncertainty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ragbench.errors import EXIT_BAD_INPUT, EXIT_INCOMPLETE, EXIT_UNDECIDED, EXIT_UNREACHABLE
from ragbench.records.audit import Audit
from ragbench.records.causes import AnswerCause, CauseShare
from ragbench.records.gate import Decision, exit_code_of
from ragbench.records.noise import Noise
from ragbench.records.score import Ends, RunCounts, SystemScore
from ragbench.types.display import short_repr
from ragbench.types.json_fields import Prose, Record, optional
from ragbench.types.scores import Cause

SUMMARY_SCHEMA = "ragbench.summary/1"
# Start of a warning with the first failure of a system.
FIRST_TO_FAIL = "the first to fail: "

# What a system is: part of the grid, a whole app, or what no system competes with.
Role = Literal["system", "app", "control"]
# What a system is made of: a retriever alone; a generator that answers from what a retriever found,
# or from something else; a whole app; what the records came with.
SystemType = Literal["retriever", "pair", "control", "app", "recorded"]


class TokenCounts(Record):
    """Numbers of tokens of models.

    Attributes:
        input: Tokens that were sent; None if unknown.
        output: Tokens that were received; None if unknown.
        reasoning: Tokens among the received ones that are reasoning; 0 where no server reports
            them.
    """

    input: int | None = None
    output: int | None = None
    reasoning: int = optional(0)


class Dataset(Record):
    """The data set of a run.

    Attributes:
        name: Its folder or file, with the split.
        type: Its type in the config.
        queries: Number of queries of the run.
        documents: Size of the corpus; None without one.
        judgements: Pairs of query and document that people judged; None without qrels.
        answers: Number of queries with a gold answer.
        notes: How the data were read, in sentences.
    """

    name: Prose = ""
    type: str = ""
    queries: int | None = None
    documents: int | None = None
    judgements: int | None = None
    answers: int | None = None
    notes: tuple[str, ...] = ()


class DeclaredJudge(Record):
    """A judge as the config declares it.

    Attributes:
        model: Name of the model in the config.
        type: Type of the judge, such as `openai`.
        label: Name for tables; None takes that of the judge.
    """

    type: str = ""
    model: str = ""
    label: str | None = None


class Judging(Record):
    """Models, tokens and cost of the verdicts of a judge, in this run or an earlier one.

    Attributes:
        models: Names of the models, as their servers report them.
        tokens: Tokens of the verdicts.
        usd: Cost in US dollars; None if a price is not known.
    """

    models: tuple[str, ...]
    tokens: TokenCounts
    usd: float | None


class AnswerCounts(Record):
    """Numbers of answers of a system that answers each query several times.

    Attributes:
        per_query: Number of answers to each query.
        asked: Number of all answers.
        failed: Score -> cause -> number of failed answers.
    """

    per_query: int
    asked: int
    failed: Mapping[str, Mapping[str, int]]


class Latency(Record):
    """Milliseconds per query; None if they are not known.

    Attributes:
        p50: Median.
        p95: 95th percentile.
    """

    p50: float | None = None
    p95: float | None = None


class SystemTiming(Record):
    """Speed of a system; None if it is not known.

    Attributes:
        latency_ms: Milliseconds per query.
        queries_per_second: Throughput of its calls, with the concurrency of the config.
    """

    latency_ms: Latency | None = None
    queries_per_second: float | None = None


# Cost of a query by which systems are compared; `tokens` are those sent and received.
QueryCost = Literal["usd", "tokens", "latency_ms"]


class CheapestSystem(Record):
    """The cheapest system that is surely not worse than the best one by more than a margin.

    Attributes:
        measure: Name of the measure.
        margin: Largest loss, in the unit of the measure.
        best: System with the best mean.
        system: The cheapest system; None if none that is cheaper than the best one is surely within
            the margin.
        cost: Kind of cost.
        costs: System -> cost of a query, of `system` and then of `best`: mean of US dollars or
            tokens, or median of milliseconds.
    """

    measure: str
    margin: float
    best: str
    system: str | None
    cost: QueryCost
    costs: Mapping[str, float]


def cost_text(cost: QueryCost, *costs: float) -> str:
    """Return costs of a query with their unit, joined by `against`.

    Costs have three significant digits, from 100 on no decimals. `latency_ms` is in `ms`.

    Example:
        >>> cost_text("usd", 0.00031, 0.0041), cost_text("tokens", 2045)
        ('0.00031 against 0.0041 USD a query', '2,045 tokens a query')
    """
    unit = {"usd": "USD", "latency_ms": "ms"}.get(cost, cost)
    texts = (f"{amount:,.0f}" if amount >= 100 else f"{amount:.3g}" for amount in costs)
    return f"{' against '.join(texts)} {unit} a query"


class Timing(Record):
    """The part of a summary that differs if the same run is repeated.

    `of` returns the speed of a system, an empty record if it is not known.

    Attributes:
        run_id: Name of the run folder: its start, and a random part.
        systems: System -> its speed.
        cheapest: Cheapest system by the first measure of each kind, where costs differ.
    """

    run_id: str = ""
    systems: Mapping[str, SystemTiming] = {}
    cheapest: tuple[CheapestSystem, ...] = optional(())

    def of(self, system: str) -> SystemTiming:
        """Return the speed of a system; an empty record if it is not known."""
        return self.systems.get(system, SystemTiming())


class SystemSummary(Record):
    """A system with its scores, causes and costs.

    `baseline_by` returns the system that it is compared with by a score, None for the baseline
    itself.

    Attributes:
        name: `bm25`, `bm25/extractive`, `given`.
        retriever: Name of the retriever; None for a system of the records, and for an app.
        generator: Name of the generator; None for a retriever alone.
        role: Whether the system competes, is a whole app, or is a control.
        type: The parts that it is made of.
        ranking_of: System whose ranking in `rankings/` it has: its retriever, or itself; None if no
            ranking is known, as for a control.
        baseline: System that it is compared with; None for a baseline itself.
        scores: Score name -> score, in the order of the config.
        counts: How its run was read; None without rankings that judgements apply to.
        causes: Cause -> number of queries; they add up to all queries.
        right_unsupported: Number of right answers in which a judge found claims without support.
        unjudged: Cause -> number of its queries, without failed ones, that have no value of
            `right`; of a retriever alone, of `found`.
        cause_shares: Cause that occurs -> its share of the queries, with an interval.
        causes_by: Field -> slice -> cause that occurs there -> number of queries.
        scores_by: Field -> slice -> score name -> score over the queries of the slice.
        answers: Numbers of answers, if each query has several.
        tokens: Tokens that its models got and sent; zeros for a retriever alone.
        usd: Cost of its models in US dollars; 0 for a retriever alone, None if a price is unknown.
        judging: Judge -> cost of judging this system.
        noise: Score -> its uncertainty split into questions, app and judge, where these were
            repeated.
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
    right_unsupported: int = optional(0)
    unjudged: Mapping[AnswerCause, int] = optional({})
    cause_shares: Mapping[AnswerCause, CauseShare] = optional({})
    causes_by: Mapping[str, Mapping[str, Mapping[AnswerCause, int]]] = optional({})
    scores_by: Mapping[str, Mapping[str, Mapping[str, SystemScore]]] = optional({})
    answers: AnswerCounts | None = optional()
    tokens: TokenCounts | None = None
    usd: float | None = None
    judging: Mapping[str, Judging] = optional({})
    noise: Mapping[str, Noise] = optional({})

    def baseline_by(self, score: str) -> str | None:
        """Return the system that this one is compared with by a score.

        None if it is the baseline. A score that it lacks, or that has no baseline of its own, gives
        the `baseline` of the system.
        """
        system_score = self.scores.get(score)
        if system_score is None or system_score.baseline is None:
            return self.baseline
        return None if system_score.baseline == self.name else system_score.baseline


class CostTotal(Record):
    """Total of dollars and tokens; None if they are not known.

    Attributes:
        usd: US dollars.
        tokens: Tokens sent and received.
    """

    usd: float | None
    tokens: int | None


class Spending(Record):
    """Spending of a run with a budget: limits, costs so far, and the cost of the rest.

    Attributes:
        limits: `usd`, `tokens`, `minutes`: the limits that are set.
        spent: Cost so far.
        reached: Whether anything was left out because of a limit.
        missing: Stage -> number of items that were left out.
        to_finish: Estimated cost of these items.
    """

    limits: Mapping[str, float]
    spent: CostTotal
    reached: bool
    missing: Mapping[str, int]
    to_finish: CostTotal


class FillCounts(Record):
    """Counts of passages that people judged and a model graded, with the cost.

    Attributes:
        judge: Name of the judge.
        model_name: Its model, as the server names it.
        rubric: Name of its rubric.
        depth: Number of best hits of each retriever in the pool.
        pairs: Pairs of query and passage in the pool.
        people: Pairs of these that people judged.
        model: Pairs of these that the model graded.
        failed: Cause -> number of pairs that could not be graded.
        without_text: Number of pairs without a text to grade.
        judging: Cost of grading.
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


class PreferredSystem(Record):
    """A system in a ranking by preference.

    Attributes:
        rank: 1 is the strongest; None if comparisons do not connect all systems.
        strength: Log-odds against the average of the systems; None if it is not defined.
        interval: Interval of the strength; an end that is not defined is None.
        win_rate: Wins and half the ties, as a share of all its comparisons; None without any.
        failed: Cause -> number of failed comparisons.
        not_applicable: Number of queries without two answers to compare.
        system: Name of the system.
        wins: Number of comparisons that it won.
        ties: Number of comparisons without a winner.
        losses: Number of comparisons that it lost.
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
        """Number of failed comparisons, whatever their cause."""
        return sum(self.failed.values())


class Ranking(Record):
    """Systems in the order in which one judge prefers them by one rubric.

    Attributes:
        pairs: `all` pairs of systems, or each with the `baseline`.
        baseline: System that all others are compared with; None for all pairs.
        systems: The systems, strongest first.
        rule: Method of the strengths.
        notes: Limits of the ranking, in sentences.
        name: Name of the score.
        rubric: Name of the rubric.
        judge: Name of the judge.
        model: Models of the judge, joined by `+`.
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


class PreferenceSummary(Ranking):
    """Ranking by one judge and one rubric, without the single pairs, with its cost.

    Attributes:
        judging: Cost of the comparisons.
    """

    judging: Judging


class SelectedSystem(Record):
    """Combination of a sweep that was chosen by a measure on one split of the data.

    Attributes:
        sweep: Name of the swept retriever.
        system: The chosen combination.
        combinations: Number of combinations.
        on: Split that decided.
        measure: Measure that decided.
        score: Score of the chosen combination on that split.
        tied: Other combinations that are not surely worse there, in the order of the config.
        run: Folder of the run that decided.
    """

    sweep: str
    system: str
    combinations: int
    on: str
    measure: str
    score: SystemScore
    tied: tuple[str, ...]
    run: Prose


class Summary(Record):
    """A whole run: `summary.json`.

    `read_summary` reads it. `system` returns a system by name or None, `exit_code` the exit code of
    the run.

    Attributes:
        name: Name of the experiment.
        complete: True if no score has a larger share of failures than the config allows
            (`max_failed`), and the budget left nothing out.
        dataset: The data set.
        budget: Spending; None without a budget.
        seed: Seed of all random choices.
        confidence: Level of the intervals.
        baseline: Retriever that the others are compared with.
        user_systems: Systems of the user, with which a report starts: apps, retrievers that are
            code or a service of the user (alone and with each generator), and recorded systems.
        hits_read: Number of hits that a generator would read; among these, the gold of a question
            counts as found by a retriever alone. None if it is not known.
        cluster: Field that names the clusters of queries; None without clusters.
        judges: Name -> judge that was asked.
        skipped_judges: Name -> reason why the judge was not asked.
        unreachable: Components whose server has served no request of the run: `judge 'j'`.
        fill: Counts of passages that a model graded; None without `fill`.
        systems: Every system, in the order of the tables.
        preferences: Rankings by preference.
        selected: Combinations of sweeps that were chosen on another split.
        gates: Decisions on gates.
        audit: Audit of the test set; None without the block `audit` in the config.
        warnings: Doubts about the numbers, a sentence each.
        notes: Facts that a reader of the numbers needs, a sentence each.
        timing: The part that varies from run to run; the rest is equal as long as config, data,
            code and replies are.
    """

    schema: str = SUMMARY_SCHEMA
    name: str
    complete: bool = True
    dataset: Dataset | None = None
    budget: Spending | None = optional()
    seed: int | None = None
    confidence: float = 0.95
    baseline: str | None = None
    user_systems: tuple[str, ...] = optional(())
    hits_read: int | None = optional()
    cluster: str | None = optional()
    judges: Mapping[str, DeclaredJudge] = {}
    skipped_judges: Mapping[str, str] = optional({})
    unreachable: tuple[str, ...] = optional(())
    fill: FillCounts | None = optional()
    systems: tuple[SystemSummary, ...]
    preferences: tuple[PreferenceSummary, ...] = optional(())
    selected: tuple[SelectedSystem, ...] = optional(())
    gates: tuple[Decision, ...] = ()
    audit: Audit | None = optional()
    warnings: tuple[Prose, ...] = ()
    notes: tuple[Prose, ...] = ()
    # last and apart, so that two equal runs differ in this key alone
    timing: Timing = Timing()

    __repr__ = short_repr

    @property
    def run_id(self) -> str:
        """Name of the run folder."""
        return self.timing.run_id

    def exit_code(self, *, strict: bool = False) -> int:
        """Return the exit code of the run: 7 if a server cannot be used, else `exit_code_of`.

        2 also stands for a run without any score (`is_unscored`). The others are 2 for a refused
        gate, 1 for a failed one, 4 for an undecided one (with `strict` only), 3 for an incomplete
        run and 0. 7 stands in place of 3 and 4 if the run is incomplete: the server is the reason.
        A failed gate comes before it: another server would not mend that.
        """
        if self.is_unscored:
            return EXIT_BAD_INPUT
        code = exit_code_of(self.gates, complete=self.complete, strict=strict)
        is_open = code in (EXIT_INCOMPLETE, EXIT_UNDECIDED) and not self.complete
        return EXIT_UNREACHABLE if is_open and self.unreachable else code

    @property
    def is_unscored(self) -> bool:
        """True if no score applies to the data: no score has a value, and none failed by a call.

        Traces, of which refusals are counted, and runs with a skipped judge are not unscored.
        """
        is_traces = self.dataset is not None and self.dataset.type == "traces"
        if is_traces or self.skipped_judges or self.preferences:
            return False
        scores = [score for system in self.systems for score in system.scores.values()]
        # the data lack such an answer; all other failures are of calls
        causes = {cause for score in scores for cause in score.failed} - {Cause.MISSING_ANSWER.word}
        return bool(self.systems) and not causes and not any(score.n for score in scores)

    def system(self, name: str) -> SystemSummary | None:
        """Return a system by name; None if there is no such system."""
        return next((system for system in self.systems if system.name == name), None)
