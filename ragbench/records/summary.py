"""Records of `summary.json`: a run, its systems, and every score with its uncertainty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from ragbench.errors import EXIT_BAD_INPUT, EXIT_INCOMPLETE, EXIT_UNDECIDED, EXIT_UNREACHABLE
from ragbench.records.audit import Audit
from ragbench.records.causes import EQUAL_TEXT, AnswerCause, CauseShare, Quantity
from ragbench.records.gate import Decision, exit_code_of
from ragbench.records.noise import Noise
from ragbench.records.score import Ends, RunCounts, SystemScore
from ragbench.types.display import short_repr
from ragbench.types.json_fields import Meaning, Prose, Record, optional
from ragbench.types.scores import Cause

SUMMARY_SCHEMA = "ragbench.summary/1"
# Ratio of the texts that two systems read from which on reports compare equal texts.
UNLIKE_READING = 1.25
# Start of a warning with the first failure of a system.
FIRST_TO_FAIL = "the first to fail: "

# What a system is: part of the grid, a whole app, or what no system competes with.
Role = Literal["system", "app", "control"]
# What a system is made of: a retriever alone; a generator that answers from what a retriever found,
# or from something else; a whole app; what the records came with.
SystemType = Literal["retriever", "pair", "control", "app", "recorded"]


class TokenCounts(Record):
    """Numbers of tokens of models."""

    input: Annotated[int | None, Meaning("Tokens that were sent; null if unknown.")] = None
    output: Annotated[int | None, Meaning("Tokens that were received; null if unknown.")] = None
    reasoning: Annotated[
        int,
        Meaning(
            "Tokens among the received ones that are reasoning; 0 where no server reports them."
        ),
    ] = optional(0)


class Dataset(Record):
    """The data set of a run."""

    name: Annotated[Prose, Meaning("Its folder or file, with the split.")] = ""
    type: Annotated[str, Meaning("Its type in the config.")] = ""
    queries: Annotated[int | None, Meaning("Number of queries of the run.")] = None
    documents: Annotated[int | None, Meaning("Size of the corpus; null without one.")] = None
    judgements: Annotated[
        int | None, Meaning("Pairs of query and document that people judged; null without qrels.")
    ] = None
    answers: Annotated[int | None, Meaning("Number of queries with a gold answer.")] = None
    notes: Annotated[tuple[str, ...], Meaning("How the data were read, in sentences.")] = ()


class DeclaredJudge(Record):
    """A judge as the config declares it."""

    type: Annotated[str, Meaning("Type of the judge, such as `openai`.")] = ""
    model: Annotated[str, Meaning("Name of the model in the config.")] = ""
    label: Annotated[str | None, Meaning("Name for tables; null takes that of the judge.")] = None


class Judging(Record):
    """Models, tokens and cost of the verdicts of a judge, in this run or an earlier one."""

    models: Annotated[
        tuple[str, ...], Meaning("Names of the models, as their servers report them.")
    ]
    tokens: Annotated[TokenCounts, Meaning("Tokens of the verdicts.")]
    usd: Annotated[float | None, Meaning("Cost in US dollars; null if a price is not known.")]


class AnswerCounts(Record):
    """Numbers of answers of a system that answers each query several times."""

    per_query: Annotated[int, Meaning("Number of answers to each query.")]
    asked: Annotated[int, Meaning("Number of all answers.")]
    failed: Annotated[
        Mapping[str, Mapping[str, int]], Meaning("Score -> cause -> number of failed answers.")
    ]


class Latency(Record):
    """Milliseconds per query; None if they are not known."""

    p50: Annotated[float | None, Meaning("Median.")] = None
    p95: Annotated[float | None, Meaning("95th percentile.")] = None


class SystemTiming(Record):
    """Speed of a system; None if it is not known."""

    latency_ms: Annotated[Latency | None, Meaning("Milliseconds per query.")] = None
    queries_per_second: Annotated[
        float | None, Meaning("Throughput of its calls, with the concurrency of the config.")
    ] = None


# Cost of a query by which systems are compared; `tokens` are those sent and received.
QueryCost = Literal["usd", "tokens", "latency_ms"]


class CheapestSystem(Record):
    """The cheapest system that is surely not worse than the best one by more than a margin."""

    measure: Annotated[str, Meaning("Name of the measure.")]
    margin: Annotated[float, Meaning("Largest loss, in the unit of the measure.")]
    best: Annotated[str, Meaning("System with the best mean.")]
    system: Annotated[
        str | None,
        Meaning(
            "The cheapest system; null if none that is cheaper than the best one is surely "
            "within the margin."
        ),
    ]
    cost: Annotated[QueryCost, Meaning("Kind of cost.")]
    costs: Annotated[
        Mapping[str, float],
        Meaning(
            "System -> cost of a query, of `system` and then of `best`: mean of US dollars or "
            "tokens, or median of milliseconds."
        ),
    ]


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
    """

    run_id: Annotated[str, Meaning("Name of the run folder: its start, and a random part.")] = ""
    systems: Annotated[Mapping[str, SystemTiming], Meaning("System -> its speed.")] = {}
    cheapest: Annotated[
        tuple[CheapestSystem, ...],
        Meaning("Cheapest system by the first measure of each kind, where costs differ."),
    ] = optional(())

    def of(self, system: str) -> SystemTiming:
        """Return the speed of a system; an empty record if it is not known."""
        return self.systems.get(system, SystemTiming())


class SystemReading(Record):
    """Text that a system reads for a question, and its gold within the text of the baseline."""

    characters: Annotated[
        float,
        Meaning(
            "Mean number of characters of the passages that are read for a question; of a "
            "retriever alone, of its first hits, as many as the causes count."
        ),
    ]
    score: Annotated[
        SystemScore | None,
        Meaning(
            "Share of the questions whose gold is in as much text, in the order of the hits, as "
            "the baseline reads; null for a system that is no retriever, and where gold is whole "
            "documents."
        ),
    ] = optional()
    any_passage: Annotated[
        bool,
        Meaning(
            "True if `found@k` counts any passage of a gold document, since no gold span of a "
            "question is known."
        ),
    ] = optional(False)


class SystemSummary(Record):
    """A system with its scores, causes and costs.

    `score` returns the score of a name, also that of `reading`. `baseline_by` returns the system
    that it is compared with by a score, None for the baseline itself.
    """

    name: Annotated[str, Meaning("`bm25`, `bm25/extractive`, `given`.")]
    retriever: Annotated[
        str | None,
        Meaning("Name of the retriever; null for a system of the records, and for an app."),
    ]
    generator: Annotated[str | None, Meaning("Name of the generator; null for a retriever alone.")]
    role: Annotated[
        Role, Meaning("Whether the system competes, is a whole app, or is a control.")
    ] = "system"
    type: Annotated[SystemType, Meaning("The parts that it is made of.")]
    ranking_of: Annotated[
        str | None,
        Meaning(
            "System whose ranking in `rankings/` it has: its retriever, or itself; null if no "
            "ranking is known, as for a control."
        ),
    ]
    baseline: Annotated[
        str | None, Meaning("System that it is compared with; null for a baseline itself.")
    ] = None
    scores: Annotated[
        Mapping[str, SystemScore], Meaning("Score name -> score, in the order of the config.")
    ]
    counts: Annotated[
        RunCounts | None,
        Meaning("How its run was read; null without rankings that judgements apply to."),
    ] = optional()
    causes: Annotated[
        Mapping[AnswerCause, Quantity],
        Meaning(
            "Cause -> number of queries; they add up to all queries. Each of r repetitions of a "
            "query counts as 1 / r of it."
        ),
    ] = optional({})
    right_unsupported: Annotated[
        Quantity, Meaning("Number of right answers in which a judge found claims without support.")
    ] = optional(0)
    unjudged: Annotated[
        Mapping[AnswerCause, Quantity],
        Meaning(
            "Cause -> number of its queries, without failed ones, that have no value of "
            "`right`; of a retriever alone, of `found`."
        ),
    ] = optional({})
    cause_shares: Annotated[
        Mapping[AnswerCause, CauseShare],
        Meaning("Cause that occurs -> its share of the queries, with an interval."),
    ] = optional({})
    causes_by: Annotated[
        Mapping[str, Mapping[str, Mapping[AnswerCause, Quantity]]],
        Meaning("Field -> slice -> cause that occurs there -> number of queries."),
    ] = optional({})
    scores_by: Annotated[
        Mapping[str, Mapping[str, Mapping[str, SystemScore]]],
        Meaning("Field -> slice -> score name -> score over the queries of the slice."),
    ] = optional({})
    reading: Annotated[
        SystemReading | None,
        Meaning(
            "Text that it reads, if passages are parts of documents and systems read unlike "
            "amounts."
        ),
    ] = optional()
    answers: Annotated[
        AnswerCounts | None, Meaning("Numbers of answers, if each query has several.")
    ] = optional()
    tokens: Annotated[
        TokenCounts | None,
        Meaning("Tokens that its models got and sent; zeros for a retriever alone."),
    ] = None
    usd: Annotated[
        float | None,
        Meaning(
            "Cost of its models in US dollars; 0 for a retriever alone, null if a price is unknown."
        ),
    ] = None
    judging: Annotated[Mapping[str, Judging], Meaning("Judge -> cost of judging this system.")] = (
        optional({})
    )
    noise: Annotated[
        Mapping[str, Noise],
        Meaning(
            "Score -> its uncertainty split into questions, app and judge, where these were "
            "repeated."
        ),
    ] = optional({})

    def score(self, name: str) -> SystemScore | None:
        """Return the score of a name, `found@equal_text` too; None without it."""
        if name == EQUAL_TEXT:
            return None if self.reading is None else self.reading.score
        return self.scores.get(name)

    def baseline_by(self, score: str) -> str | None:
        """Return the system that this one is compared with by a score.

        A baseline itself has None. A score that the system lacks, or that has no baseline of its
        own, gives the `baseline` of the system.
        """
        system_score = self.scores.get(score)
        if system_score is None or system_score.baseline is None:
            return self.baseline
        return None if system_score.baseline == self.name else system_score.baseline


class CostTotal(Record):
    """Total of dollars and tokens; None if they are not known."""

    usd: Annotated[float | None, Meaning("US dollars.")]
    tokens: Annotated[int | None, Meaning("Tokens sent and received.")]


class Spending(Record):
    """Spending of a run with a budget: limits, costs so far, and the cost of the rest."""

    limits: Annotated[
        Mapping[str, float], Meaning("`usd`, `tokens`, `minutes`: the limits that are set.")
    ]
    spent: Annotated[CostTotal, Meaning("Cost so far.")]
    reached: Annotated[bool, Meaning("Whether anything was left out because of a limit.")]
    missing: Annotated[Mapping[str, int], Meaning("Stage -> number of items that were left out.")]
    to_finish: Annotated[CostTotal, Meaning("Estimated cost of these items.")]


class RunCost(Record):
    """Cost of the calls of models that a run paid; replies that were stored before cost nothing."""

    usd: Annotated[
        float | None, Meaning("US dollars; null if a model of the run has no known price.")
    ]
    by: Annotated[
        Mapping[str, float | None],
        Meaning("Component, such as `judge openai` -> US dollars; null without a known price."),
    ]
    unpriced: Annotated[
        Mapping[str, str],
        Meaning(
            "Model without a known price -> file and key to write a price; none of a server on "
            "this machine."
        ),
    ] = optional({})


class FillCounts(Record):
    """Counts of passages that people judged and a model graded, with the cost."""

    judge: Annotated[str, Meaning("Name of the judge.")]
    model_name: Annotated[str, Meaning("Its model, as the server names it.")]
    rubric: Annotated[str, Meaning("Name of its rubric.")]
    depth: Annotated[int, Meaning("Number of best hits of each retriever in the pool.")]
    pairs: Annotated[int, Meaning("Pairs of query and passage in the pool.")]
    people: Annotated[int, Meaning("Pairs of these that people judged.")]
    model: Annotated[int, Meaning("Pairs of these that the model graded.")]
    failed: Annotated[
        Mapping[str, int], Meaning("Cause -> number of pairs that could not be graded.")
    ]
    without_text: Annotated[int, Meaning("Number of pairs without a text to grade.")]
    judging: Annotated[Judging, Meaning("Cost of grading.")]


class PreferredSystem(Record):
    """A system in a ranking by preference."""

    system: Annotated[str, Meaning("Name of the system.")]
    rank: Annotated[
        int | None, Meaning("1 is the strongest; null if comparisons do not connect all systems.")
    ]
    strength: Annotated[
        float | None,
        Meaning("Log-odds against the average of the systems; null if it is not defined."),
    ]
    interval: Annotated[
        Ends, Meaning("Interval of the strength; an end that is not defined is null.")
    ]
    win_rate: Annotated[
        float | None,
        Meaning("Wins and half the ties, as a share of all its comparisons; null without any."),
    ]
    wins: Annotated[int, Meaning("Number of comparisons that it won.")]
    ties: Annotated[int, Meaning("Number of comparisons without a winner.")]
    losses: Annotated[int, Meaning("Number of comparisons that it lost.")]
    failed: Annotated[Mapping[str, int], Meaning("Cause -> number of failed comparisons.")]
    not_applicable: Annotated[int, Meaning("Number of queries without two answers to compare.")]

    @property
    def n_failed(self) -> int:
        """Number of failed comparisons, whatever their cause."""
        return sum(self.failed.values())


class Ranking(Record):
    """Systems in the order in which one judge prefers them by one rubric."""

    name: Annotated[str, Meaning("Name of the score.")] = ""
    rubric: Annotated[str, Meaning("Name of the rubric.")] = ""
    judge: Annotated[str, Meaning("Name of the judge.")] = ""
    model: Annotated[str, Meaning("Models of the judge, joined by `+`.")] = ""
    pairs: Annotated[str, Meaning("`all` pairs of systems, or each with the `baseline`.")] = "all"
    baseline: Annotated[
        str | None, Meaning("System that all others are compared with; null for all pairs.")
    ] = None
    systems: Annotated[tuple[PreferredSystem, ...], Meaning("The systems, strongest first.")]
    rule: Annotated[str, Meaning("Method of the strengths.")]
    notes: Annotated[tuple[str, ...], Meaning("Limits of the ranking, in sentences.")]


class PreferenceSummary(Ranking):
    """Ranking by one judge and one rubric, without the single pairs, with its cost."""

    judging: Annotated[Judging, Meaning("Cost of the comparisons.")]


class SelectedSystem(Record):
    """Combination of a sweep that was chosen by a measure on one split of the data."""

    sweep: Annotated[str, Meaning("Name of the swept retriever.")]
    system: Annotated[str, Meaning("The chosen combination.")]
    combinations: Annotated[int, Meaning("Number of combinations.")]
    on: Annotated[str, Meaning("Split that decided.")]
    measure: Annotated[str, Meaning("Measure that decided.")]
    score: Annotated[SystemScore, Meaning("Score of the chosen combination on that split.")]
    tied: Annotated[
        tuple[str, ...],
        Meaning("Other combinations that are not surely worse there, in the order of the config."),
    ]
    run: Annotated[Prose, Meaning("Folder of the run that decided.")]


class FoldChoice(Record):
    """Combination of a sweep that ranks the queries of a fold, as it is best on the others."""

    sweep: Annotated[str, Meaning("Name of the swept retriever.")]
    fold: Annotated[int, Meaning("Number of the fold, from 1.")]
    folds: Annotated[int, Meaning("Number of folds.")]
    seed: Annotated[int, Meaning("Seed by which the queries were cut into folds.")]
    queries: Annotated[int, Meaning("Number of queries of the fold.")]
    system: Annotated[str, Meaning("The chosen combination.")]
    combinations: Annotated[int, Meaning("Number of combinations.")]
    measure: Annotated[str, Meaning("Measure that decided.")]
    mean: Annotated[float, Meaning("Mean of the combination over the queries that decided.")]
    n: Annotated[int, Meaning("Number of queries of the other folds that decided.")]


class Summary(Record):
    """A whole run: `summary.json`.

    `read_summary` reads it. `system` returns a system by name or None, `exit_code` the exit code of
    the run.
    """

    schema: str = SUMMARY_SCHEMA
    name: Annotated[str, Meaning("Name of the experiment.")]
    complete: Annotated[
        bool,
        Meaning(
            "True if no score has a larger share of failures than the config allows "
            "(`max_failed`), and the budget left nothing out."
        ),
    ] = True
    dataset: Annotated[Dataset | None, Meaning("The data set.")] = None
    budget: Annotated[Spending | None, Meaning("Spending; null without a budget.")] = optional()
    cost: Annotated[
        RunCost | None,
        Meaning("What this run paid for models; null if it asks none."),
    ] = optional()
    seed: Annotated[int | None, Meaning("Seed of all random choices.")] = None
    confidence: Annotated[float, Meaning("Level of the intervals.")] = 0.95
    baseline: Annotated[str | None, Meaning("Retriever that the others are compared with.")] = None
    user_systems: Annotated[
        tuple[str, ...],
        Meaning(
            "Systems of the user, with which a report starts: apps, retrievers that are code "
            "or a service of the user (alone and with each generator), and recorded systems."
        ),
    ] = optional(())
    hits_read: Annotated[
        int | None,
        Meaning(
            "Number of hits that a generator would read; among these, the gold of a question "
            "counts as found by a retriever alone. null if it is not known."
        ),
    ] = optional()
    cluster: Annotated[
        str | None, Meaning("Field that names the clusters of queries; null without clusters.")
    ] = optional()
    judges: Annotated[Mapping[str, DeclaredJudge], Meaning("Name -> judge that was asked.")] = {}
    skipped_judges: Annotated[
        Mapping[str, str], Meaning("Name -> reason why the judge was not asked.")
    ] = optional({})
    unreachable: Annotated[
        tuple[str, ...],
        Meaning("Components whose server has served no request of the run: `judge 'j'`."),
    ] = optional(())
    fill: Annotated[
        FillCounts | None, Meaning("Counts of passages that a model graded; null without `fill`.")
    ] = optional()
    systems: Annotated[
        tuple[SystemSummary, ...], Meaning("Every system, in the order of the tables.")
    ]
    preferences: Annotated[tuple[PreferenceSummary, ...], Meaning("Rankings by preference.")] = (
        optional(())
    )
    selected: Annotated[
        tuple[SelectedSystem, ...],
        Meaning("Combinations of sweeps that were chosen on another split."),
    ] = optional(())
    folds: Annotated[
        tuple[FoldChoice, ...],
        Meaning("Combinations of sweeps that were chosen for the folds of the queries."),
    ] = optional(())
    gates: Annotated[tuple[Decision, ...], Meaning("Decisions on gates.")] = ()
    audit: Annotated[
        Audit | None,
        Meaning("Audit of the test set; null without the block `audit` in the config."),
    ] = optional()
    warnings: Annotated[
        tuple[Prose, ...], Meaning("Doubts about the numbers, a sentence each.")
    ] = ()
    notes: Annotated[
        tuple[Prose, ...], Meaning("Facts that a reader of the numbers needs, a sentence each.")
    ] = ()
    # last and apart, so that two equal runs differ in this key and in what they paid alone
    timing: Annotated[
        Timing,
        Meaning(
            "The part that varies from run to run, as `cost` and `budget` do; the rest is equal "
            "as long as config, data, code and replies are."
        ),
    ] = Timing()

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
        scores = []
        for system in self.systems:
            for score in system.scores.values():
                scores.append(score)
        # the data lack such an answer; all other failures are of calls
        causes = {cause for score in scores for cause in score.failed} - {Cause.MISSING_ANSWER.word}
        return bool(self.systems) and not causes and not any(score.n for score in scores)

    def system(self, name: str) -> SystemSummary | None:
        """Return a system by name; None if there is no such system."""
        for system in self.systems:
            if system.name == name:
                return system
        return None

    def score_names(self) -> list[str]:
        """Return the names of the scores of all systems, without repeats."""
        names: dict[str, None] = {}
        for system in self.systems:
            names.update(dict.fromkeys(system.scores))
        return list(names)
