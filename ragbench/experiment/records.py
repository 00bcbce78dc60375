"""Results of the stages of a run: rankings, answers, verdicts, score columns and their costs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import Any

import numpy as np

from ragbench.comparison.causes import SystemCauses
from ragbench.config.schema import RetrievalMetrics
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.experiment.calls import Outcome, without_value
from ragbench.experiment.plan.records import Plan, PlannedJudge, System
from ragbench.llm import Totals
from ragbench.records.comparison import Comparisons, Preference, PreferredPair, no_comparisons
from ragbench.records.manifest import HitsRow, JudgePayment, VerdictRow
from ragbench.records.score import Kind, RunCounts
from ragbench.records.summary import (
    FillCounts,
    FoldChoice,
    Judging,
    PreferenceSummary,
    RunCost,
    Spending,
    SystemReading,
    TokenCounts,
)
from ragbench.score.judge.verdicts import JudgeResults
from ragbench.score.retrieval.base import RankedGrades
from ragbench.score.retrieval.ranking import rank
from ragbench.types import (
    Cause,
    FloatArray,
    Prediction,
    Qrels,
    Retrieved,
    Run,
    ScoreColumn,
    Usage,
)
from ragbench.types.lookups import attributes_of, item_names
from ragbench.types.rows import CauseArray, IntArray, stack_values


@dataclass(slots=True)
class Work:
    """Number of items of one stage, and the time that it took.

    Attributes:
        items: Number of all items.
        stored: Number of items that were in the store already.
        seconds: Wall time that the other items took.
    """

    items: int
    stored: int
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RetrieverRun:
    """Rankings of one retriever, app or recorded system for all queries.

    `ranks` returns the rank of each row of the judgements, 0 if it was not retrieved.

    Attributes:
        name: Name of the system.
        outcomes: Hits or failure of each query of the plan, in their order.
        scored: Rankings as they are scored, or a function that reads them; `run` returns them.
        unmatched: Rankings of passages, if `run` has the documents that these were matched with;
            None if `run` has the hits as they are.
        notes: Sentences for the reader of the numbers.
        warnings: Sentences on what makes the numbers doubtful.
        is_cut: True if any hit is a chunk that ragbench cut from a document.
        has_unknown_ids: True if no hit is judged or in the corpus: measures of ids have no score.
        number: Number of the repetition, from 0.
    """

    name: str
    outcomes: Sequence[Outcome[Retrieved]]
    scored: Run | Callable[[], Run]
    unmatched: Run | None = None
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    is_cut: bool = False
    has_unknown_ids: bool = False
    number: int = 0
    _ranks: list[tuple[Qrels, IntArray]] = field(default_factory=list, init=False, compare=False)

    @property
    def run(self) -> Run:
        """Rankings as they are scored, without queries that failed or that a file lacks.

        A function in `scored` is called at each access.
        """
        return self.scored if isinstance(self.scored, Run) else self.scored()

    def ranks(self, qrels: Qrels, rules: RetrievalMetrics) -> IntArray:
        """Return the rank of each row of the judgements, shape (rows,); 0 if it was not retrieved.

        They are computed once for one object `qrels`, as scores, causes and the page all use them:
        other `rules` have no effect afterwards. Ranks are from 1.
        """
        if not any(ranked_qrels is qrels for ranked_qrels, _ in self._ranks):
            # ties that share an average score have no order: document ids decide their ranks
            ties = "docid" if rules.ties == "average" else rules.ties
            ranked = rank(qrels, self.run, ties=ties, trec_eval=rules.trec_eval)
            self.store_ranks(qrels, ranked)
        return self._ranks[0][1]

    def store_ranks(self, qrels: Qrels, ranked: RankedGrades) -> None:
        """Store the rank of each row of `qrels` from `ranked`, or 0, in place of earlier ranks.

        `ranked` are the grades of this ranking by the rules of the run.
        """
        ranks = np.zeros(len(qrels), np.int64)
        ranks[ranked.rows] = ranked.rank
        # in place: the dataclass is frozen
        self._ranks[:] = [(qrels, ranks)]


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers of one system to all queries.

    Attributes:
        name: Name of the system.
        outcomes: Prediction or failure of each query, in their order; the contexts of a prediction
            are the passages that it is judged by. With several samples, all queries of the first
            sample stand before those of the second.
        samples: Number of answers to each query.
        rankings: Number of rankings that these are generated from; answer i reads ranking i modulo
            this number.
    """

    name: str
    outcomes: Sequence[Outcome[Prediction]]
    samples: int = 1
    rankings: int = 1

    def values(self) -> Iterator[Prediction | None]:
        """Yield the answer of each outcome; None where it failed."""
        return (outcome.value for outcome in self.outcomes)

    def by_sample(self) -> list[Answers]:
        """Return the answers of each sample, with one outcome per query."""
        if self.samples == 1:
            return [self]
        n = len(self.outcomes) // self.samples
        answers = []
        for sample in range(self.samples):
            start = sample * n
            answers.append(Answers(self.name, self.outcomes[start : start + n]))
        return answers

    def rows(self, rows: Iterable[int]) -> list[int]:
        """Return the rows of `outcomes` that answer the queries of some rows, in all samples."""
        n = len(self.outcomes) // self.samples
        rows_of_samples = []
        for row in rows:
            for sample in range(self.samples):
                rows_of_samples.append(row + sample * n)
        return rows_of_samples


@dataclass(frozen=True, slots=True)
class JudgeUse:
    """Models, tokens and cost of one judge for one system.

    `manifest` returns the record of what this run paid, `summary` that of all verdicts.

    Attributes:
        models: Models as their servers name them.
        usage: Usage of all replies behind the verdicts, also of those that an earlier run paid.
        paid: Calls, tokens and cost of this run alone.
        spreads: Rubric -> standard deviation of the scores of the samples or models, mean over the
            items; a rubric with one sample per item is absent.
        left_out: Request options that were left out because the models refuse them.
    """

    models: tuple[str, ...]
    usage: Usage
    paid: Totals
    spreads: Mapping[str, float]
    left_out: tuple[str, ...] = ()

    def manifest(self) -> JudgePayment:
        """Return calls, tokens and cost of this run; the cost is None if a price is unknown."""
        paid = self.paid
        return JudgePayment(
            models=self.models,
            calls=paid.calls,
            stored=paid.stored,
            failed=paid.failed,
            tokens=tokens_of(paid),
            usd=None if paid.unknown_cost else paid.cost_usd,
        )

    def summary(self) -> Judging:
        """Return tokens and cost of the verdicts, whichever run paid them."""
        return Judging(models=self.models, tokens=tokens_of(self.usage), usd=self.usage.usd)


def tokens_of(usage: Totals | Usage) -> TokenCounts:
    """Return the tokens of a usage as records have them; None where unknown."""
    return TokenCounts(
        input=usage.input_tokens, output=usage.output_tokens, reasoning=usage.reasoning_tokens
    )


def judge_use(judged: JudgeResults, paid: Totals) -> JudgeUse:
    """Return the use of a judge for some verdicts, of which this run paid `paid`."""
    return JudgeUse(judged.models, judged.usage, paid, judged.spreads, judged.left_out)


def judge_totals(planned: PlannedJudge) -> Totals:
    """Return calls, tokens and cost of a judge so far; zeros for a judge that calls no model."""
    return planned.judge.totals() if planned.judge.asks else Totals()


@dataclass(frozen=True, slots=True)
class Filled:
    """Judgements of people, completed by grades of a model.

    Attributes:
        qrels: All judgements together.
        source: Origin of the judgements, for signatures; None if the model made none of them.
        counts: Number of judged pairs of people and of the model, as `summary.json` has it.
        rows: Grades of the model with its reasons.
        use: Tokens and cost of the judge.
        warnings: Sentences on what makes these judgements doubtful.
    """

    qrels: Qrels
    source: str | None
    counts: FillCounts
    rows: list[VerdictRow]
    use: JudgeUse
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class Preferences:
    """Preferences of one judge between the answers of pairs of systems.

    Attributes:
        judge: Name of the judge.
        entries: Result of each rubric, as `preferences` of comparisons.json has it.
        rows: Verdicts on single pairs of answers.
        use: Tokens and cost of the judge.
    """

    judge: str
    entries: list[Preference]
    rows: Sequence[VerdictRow]
    use: JudgeUse

    @property
    def pairs(self) -> list[PreferredPair]:
        """Pairs of systems of all rubrics, rubric by rubric."""
        return list(chain.from_iterable(entry.comparisons for entry in self.entries))

    def summaries(self) -> list[PreferenceSummary]:
        """Return the entries as summary.json has them, with tokens and cost of the judge."""
        names = []
        for name in PreferenceSummary.__struct_fields__:
            if name != "judging":
                names.append(name)
        summaries = []
        for entry in self.entries:
            values = attributes_of(entry, names)
            summaries.append(PreferenceSummary(**values, judging=self.use.summary()))
        return summaries


@dataclass(frozen=True, slots=True)
class JudgedRight:
    """Values of `right` of a system, one for each repetition of the judges that decide it.

    Attributes:
        judges: Judges that decide and are repeated.
        values: Shape (queries, answers, judgements); NaN without a value.
    """

    judges: tuple[str, ...]
    values: FloatArray


@dataclass(slots=True)
class Results:
    """Results of the stages of a run, which add to it one after the other; `Results()` is empty.

    `add_scores` appends a system with its first scores, and replaces scores of the same name.

    Attributes:
        rankings: Retriever, app or recorded system -> its rankings; without passages it is absent.
        further_rankings: Retriever or app -> its rankings after the first one, of repeated systems.
        answers: System that answers -> its answers.
        answer_sources: Key of a generator or app, with its inputs -> the first system with it.
        samples: System -> score -> a column for each repetition; only systems that are repeated.
        judgements: System -> judge -> its verdicts.
        judged_right: System -> `right` by each repetition of a judge; only where one decides it.
        prompts: Id -> system and user text of the prompts that judges were sent.
        judge_uses: System -> judge -> models, tokens and cost.
        systems: All systems with their scores, in the order of the tables.
        notes: Sentences for the reader of the numbers.
        warnings: Sentences on what makes the numbers doubtful.
        preferences: Preferences of each judge that compares pairs of answers.
        filled: Judgements with those of a model; None if no model judges passages.
        comparisons: Record of `comparisons.json`.
        readings: System -> the text that it reads; empty if all read about as much.
        causes: System -> the cause of each query.
        hits: Ranking of passages -> the stored hits of each query, with the gold that they meet.
        further_hits: Ranking of passages -> number of a further ranking -> its hits.
        work: Stage -> number of items, of stored items, and seconds.
        kept_failures: Cause -> number of items that failed in an earlier run and were not made
            again.
        fold_choices: Combinations of sweeps that were chosen for the folds of the queries.
        spending: Limits, costs so far and missing items; None without a budget.
        cost: Dollars that this run paid; None if it asks no model.
        unreachable: Components whose server served no request of this run.
        used: File of the project that the run imported or read -> hash of its content.
        files: File that the config names or own code read -> hash of its content.
        unseen: Components that ask code that no file of the project describes.
        token: Token of the run, if it called code of the user.
    """

    rankings: dict[str, RetrieverRun] = field(default_factory=dict)
    further_rankings: dict[str, list[RetrieverRun]] = field(default_factory=dict)
    answers: dict[str, Answers] = field(default_factory=dict)
    answer_sources: dict[str, str] = field(default_factory=dict)
    samples: dict[str, dict[str, list[ScoreColumn]]] = field(default_factory=dict)
    judgements: dict[str, dict[str, Sequence[VerdictRow]]] = field(default_factory=dict)
    judged_right: dict[str, JudgedRight] = field(default_factory=dict)
    prompts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    judge_uses: dict[str, dict[str, JudgeUse]] = field(default_factory=dict)
    systems: list[SystemScores] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    preferences: list[Preferences] = field(default_factory=list)
    filled: Filled | None = None
    comparisons: Comparisons = field(default_factory=no_comparisons)
    readings: dict[str, SystemReading] = field(default_factory=dict)
    causes: Mapping[str, SystemCauses] = field(default_factory=dict)
    hits: dict[str, Sequence[HitsRow]] = field(default_factory=dict)
    further_hits: dict[str, dict[int, Sequence[HitsRow]]] = field(default_factory=dict)
    work: Mapping[str, Work] = field(default_factory=dict)
    kept_failures: Mapping[str, int] = field(default_factory=dict)
    fold_choices: list[FoldChoice] = field(default_factory=list)
    spending: Spending | None = None
    cost: RunCost | None = None
    unreachable: tuple[str, ...] = ()
    used: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()
    token: str = ""

    @property
    def compared_systems(self) -> list[SystemScores]:
        """Return the systems without the controls, in their order."""
        systems = []
        for system in self.systems:
            if system.role != "control":
                systems.append(system)
        return systems

    def qrels(self, plan: Plan) -> Qrels | None:
        """Return the judgements, with those of a model if it made any; None without judgements."""
        return plan.qrels if self.filled is None else self.filled.qrels

    def add_scores(
        self,
        system: System,
        columns: Mapping[str, ScoreColumn] = MappingProxyType({}),
        kind: Kind = "retrieval",
        counts: RunCounts | None = None,
    ) -> None:
        """Add scores of one kind to a system, which is appended with its first ones.

        Without columns, a system is appended that has no scores yet. `counts` tell how its run was
        read; None keeps those that it has. A score of the same name is replaced.
        """
        names = item_names(self.systems)
        if system.name not in names:
            names.append(system.name)
            self.systems.append(
                SystemScores(system.name, system.retriever, system.generator, role=system.role)
            )
        row = names.index(system.name)
        scores = self.systems[row]
        self.systems[row] = replace(
            scores,
            columns={**scores.columns, **columns},
            kinds={**scores.kinds, **dict.fromkeys(columns, kind)},
            counts=counts or scores.counts,
        )

    def add_first(self, name: str, column: ScoreColumn, kind: Kind) -> None:
        """Add a score as the first one of a system that has others."""
        row = next(row for row, system in enumerate(self.systems) if system.name == name)
        scores = self.systems[row]
        self.systems[row] = replace(
            scores,
            columns={column.name: column, **scores.columns},
            kinds={column.name: kind, **scores.kinds},
        )

    def add_samples(
        self, system: System, name: str, columns: Sequence[ScoreColumn], kind: Kind
    ) -> None:
        """Add a score by the columns of its samples: their mean, and if several, each of them.

        Raises:
            ValueError: There are no columns.
        """
        mean = mean_over_samples(columns)
        if kind == "retrieval":
            mean = replace(mean, answer_causes=None)
        self.add_scores(system, {name: mean}, kind)
        # the column of a single sample is the score itself: not stored twice
        if len(columns) > 1:
            self.samples.setdefault(system.name, {})[name] = list(columns)


# Causes that lie in the data or in the plan, whatever a system returns.
_CAUSES_OF_DATA = (
    Cause.NO_RELEVANT,
    Cause.NO_JUDGEMENTS,
    Cause.NO_REFERENCE,
    Cause.NO_NUMBER,
    Cause.NO_QUESTION,
    Cause.NO_GUIDELINES,
    Cause.NO_TURNS,
    Cause.NO_EXPECTED_CALLS,
    Cause.HAS_ANSWER,
    Cause.HAS_NO_ANSWER,
    Cause.AMBIGUOUS_QUOTE,
)


def with_failures(column: ScoreColumn, failed: Mapping[int, Outcome[Any]]) -> ScoreColumn:
    """Return the column with NaN and a cause in the rows where the system failed.

    `failed` has the outcome of each such row, as `without_value` yields them; none may be pending.
    A row whose cause lies in the data keeps it: the score would not apply to any output. The column
    itself is not changed; without such rows it is returned as it is.
    """
    failed = {row: f for row, f in failed.items() if column.causes[row] not in _CAUSES_OF_DATA}
    if not failed:
        return column
    values, causes = column.values.copy(), column.causes.copy()
    of_answers = None if column.answer_causes is None else column.answer_causes.copy()
    for row, failure in failed.items():
        values[row], causes[row] = math.nan, failure.cause
        if of_answers is not None:
            of_answers[row] = failure.cause
    details = {}
    for row, failure in failed.items():
        if failure.detail:
            details[row] = failure.detail
    return replace(
        column,
        values=values,
        causes=causes,
        details={**column.details, **details},
        answer_causes=of_answers,
    )


def with_failures_of(answers: Answers, column: ScoreColumn) -> ScoreColumn:
    """Return the column with NaN and a cause in the rows where a system has no answer.

    The column has a row for each of `answers.outcomes`. Else it works as `with_failures`.
    """
    return with_failures(column, dict(without_value(answers.outcomes)))


def split_samples(column: ScoreColumn, samples: int) -> list[ScoreColumn]:
    """Split a column of all samples, one sample after the other, into a column per sample.

    The length of the column is a multiple of `samples`, above 0. One sample returns the column
    itself.
    """
    if samples == 1:
        return [column]
    n = len(column.values) // samples
    return [_part(column, start, start + n) for start in range(0, samples * n, n)]


def _part(column: ScoreColumn, start: int, end: int) -> ScoreColumn:
    """Return rows `start` to `end` of a column; unlike `take` with details and total."""
    details = {}
    for row, text in column.details.items():
        if start <= row < end:
            details[row - start] = text
    values, causes = column.values[start:end], column.causes[start:end]
    of_answers = None if column.answer_causes is None else column.answer_causes[start:end]
    return replace(column, values=values, causes=causes, details=details, answer_causes=of_answers)


def mean_over_samples(columns: Sequence[ScoreColumn]) -> ScoreColumn:
    """Return the mean column of samples: for each query, over its answers that have a score.

    A query without any scored answer is NaN; its cause is the first failure, else the cause of the
    first answer. `answer_causes` has the causes of all answers, as failed ones leave a score open.
    The total of a score of all queries together is the mean of the totals of the samples; samples
    without a total do not count. A single column is returned unchanged; none raise ValueError.
    """
    if len(columns) == 1:
        return columns[0]
    values = stack_values(columns)
    is_scored = ~np.isnan(values)
    counts = is_scored.sum(axis=0)
    means = np.full(values.shape[1], np.nan)
    # np.nanmean would warn of queries without any score
    np.divide(np.where(is_scored, values, 0.0).sum(axis=0), counts, out=means, where=counts > 0)
    causes, details = columns[0].causes.copy(), dict[int, str]()
    for row in range(len(means)):
        if counts[row]:
            causes[row] = Cause.SCORED
            continue
        chosen = next((c for c in columns if Cause(int(c.causes[row])).failed), columns[0])
        causes[row] = chosen.causes[row]
        if row in chosen.details:
            details[row] = chosen.details[row]
    # a sample whose answers all failed has no total, and does not count
    totals = []
    for column in columns:
        if column.total is not None and np.isfinite(column.total):
            totals.append(column.total)
    total = float(np.mean(totals)) if totals else columns[0].total
    return replace(
        columns[0],
        values=means,
        causes=causes,
        details=details,
        total=total,
        answer_causes=np.concatenate([_causes_of(column) for column in columns], axis=1),
    )


def _causes_of(column: ScoreColumn) -> CauseArray:
    """Return the causes of a column of one sample, of shape (queries, repetitions)."""
    return column.causes[:, None] if column.answer_causes is None else column.answer_causes


def name_sentences(name: str, sentences: Iterable[str]) -> list[str]:
    """Return the sentences of notes or warnings, each after the name of its system."""
    return [f"{name}: {sentence}" for sentence in sentences]


def failed_answers(columns: Sequence[ScoreColumn]) -> dict[str, int]:
    """Return the number of answers that failed in a score, by cause, over all samples.

    An answer counts also if its query has a score by another answer. Causes are sorted by their
    code; {} if none failed.
    """
    codes = Counter[int]()
    for column in columns:
        codes.update(column.causes.tolist())
    answers = {}
    for code, n in sorted(codes.items()):
        if Cause(code).failed:
            answers[Cause(code).word] = n
    return answers


def sample_notes(systems: Iterable[Answers]) -> list[str]:
    """Return a note for each number of answers to a query above 1, with its systems; else []."""
    by_number: dict[int, list[str]] = {}
    for answers in systems:
        by_number.setdefault(answers.samples, []).append(answers.name)
    by_number.pop(1, None)
    meaning = "its score is the mean over its answers, and intervals cover other answers of the "
    meaning += "generator as well as other queries"
    notes = []
    for n, names in by_number.items():
        notes.append(f"{', '.join(names)}: each query was answered {n} times; {meaning}")
    return notes


def ranking_notes(further: Mapping[str, Sequence[RetrieverRun]]) -> list[str]:
    """Return a note for each retriever or app with further rankings, with their number."""
    meaning = "its score is the mean over its rankings"
    notes: list[str] = []
    for name, rankings in further.items():
        notes.append(f"{name}: each query was ranked {len(rankings) + 1} times; {meaning}")
    return notes
