"""What the stages of a run have produced."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ragbench.comparison.causes import SystemCauses
from ragbench.config.schema import RetrievalMetrics
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.experiment.calls import Outcome, without_value
from ragbench.experiment.plan.records import Plan, PlannedJudge, System
from ragbench.llm import Totals
from ragbench.records.comparison import Comparisons, Preference, no_comparisons
from ragbench.records.manifest import JudgePayment, VerdictRow
from ragbench.records.score import Kind, RunCounts
from ragbench.records.summary import FillCounts, Judging, PreferenceSummary, Spending, TokenCounts
from ragbench.score.judge.judged import JudgeResults
from ragbench.score.retrieval.base import RankedGrades
from ragbench.score.retrieval.ranking import rank
from ragbench.types import (
    Cause,
    Prediction,
    Qrels,
    Query,
    Retrieved,
    Run,
    ScoreColumn,
    Usage,
)
from ragbench.types.rows import IntArray


@dataclass(slots=True)
class Work:
    """How much of one stage was there already.

    Attributes:
        stored: Items that did not need to be made.
        seconds: Wall time of making the others.
    """

    items: int
    stored: int
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Ranked:
    """What one retriever returned for all queries.

    Attributes:
        outcomes: One per query, in their order.
        scored: The rankings as they are scored, or what reads them; use `run`.
        unmatched: The rankings of passages, where `run` has what they were matched with in their
            place.
        notes: What the reader of the numbers should know about this run.
        is_cut: Whether any hit is a chunk that we cut ourselves.
    """

    name: str
    queries: Sequence[Query]
    outcomes: Sequence[Outcome[Retrieved]]
    scored: Run | Callable[[], Run]
    unmatched: Run | None = None
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    is_cut: bool = False
    _ranks: list[tuple[Qrels, IntArray]] = field(default_factory=list, init=False, compare=False)

    @property
    def run(self) -> Run:
        """The rankings as they are scored; a query that failed or is missing is absent."""
        return self.scored if isinstance(self.scored, Run) else self.scored()

    def ranks(self, qrels: Qrels, rules: RetrievalMetrics) -> IntArray:
        """Return the rank of each row of the judgements, 0 where the ranking does not have it.

        Ranked once, by the rules of the run: scores, causes and the page all ask.
        """
        if not any(of is qrels for of, _ in self._ranks):
            # an average is taken over ranks that ids decide
            ties = "docid" if rules.ties == "average" else rules.ties
            ranked = rank(qrels, self.run, ties=ties, trec_eval=rules.trec_eval)
            self.note_ranks(qrels, ranked)
        return self._ranks[0][1]

    def note_ranks(self, qrels: Qrels, ranked: RankedGrades) -> None:
        """Keep what was ranked against the judgements by the rules of the run."""
        ranks = np.zeros(len(qrels), np.int64)
        ranks[ranked.rows] = ranked.rank
        self._ranks[:] = [(qrels, ranks)]


@dataclass(frozen=True, slots=True)
class Answers:
    """What one system answered to all queries.

    Attributes:
        outcomes: One per query, in their order; a prediction's contexts are the passages it is
            judged by. Of several samples all of the first one come first, then all of the second
            one, ...
    """

    name: str
    outcomes: Sequence[Outcome[Prediction]]
    samples: int = 1

    def each(self) -> list[Answers]:
        """Return the samples one by one, each with one outcome per query."""
        if self.samples == 1:
            return [self]
        n = len(self.outcomes) // self.samples
        starts = [sample * n for sample in range(self.samples)]
        return [Answers(self.name, self.outcomes[start : start + n]) for start in starts]

    def rows(self, rows: Iterable[int]) -> list[int]:
        """Return the rows of all samples that belong to some rows of queries."""
        n = len(self.outcomes) // self.samples
        return [row + sample * n for row in rows for sample in range(self.samples)]


@dataclass(frozen=True, slots=True)
class JudgeUse:
    """What one judge took for one system.

    Attributes:
        models: The models as their servers name them.
        usage: What the replies took that its verdicts rest on, also those that were paid for
            earlier.
        paid: What this run sent and paid.
        spreads: Rubric -> how far samples or models lie apart, on average.
        left_out: What its requests lacked, since the models refuse it.
    """

    models: tuple[str, ...]
    usage: Usage
    paid: Totals
    spreads: Mapping[str, float]
    left_out: tuple[str, ...] = ()

    def manifest(self) -> JudgePayment:
        """Return what this run sent and paid."""
        paid = self.paid
        return JudgePayment(
            models=self.models,
            calls=paid.calls,
            stored=paid.stored,
            failed=paid.failed,
            tokens=_tokens(paid),
            usd=None if paid.unknown_cost else paid.cost_usd,
        )

    def summary(self) -> Judging:
        """Return what the verdicts took, in whichever run it was paid."""
        return Judging(models=self.models, tokens=_tokens(self.usage), usd=self.usage.usd)


def _tokens(used: Totals | Usage) -> TokenCounts:
    return TokenCounts(
        input=used.input_tokens, output=used.output_tokens, reasoning=used.reasoning_tokens
    )


def use_of(planned: PlannedJudge, judged: JudgeResults, before: Totals) -> JudgeUse:
    """Return what a judge took, from what it had taken before."""
    now = totals_of(planned)
    names = [name for name in Totals.__slots__ if name != "models"]
    paid = Totals(**{name: getattr(now, name) - getattr(before, name) for name in names})
    return JudgeUse(judged.models, judged.usage, paid, judged.spreads, judged.left_out)


def totals_of(planned: PlannedJudge) -> Totals:
    """Return a copy of what a judge has sent and paid so far; nothing without a model."""
    return planned.judge.totals() if planned.judge.asks else Totals()


@dataclass(frozen=True, slots=True)
class Filled:
    """The judgements of people with those of a model.

    Attributes:
        source: The origin of the judgements, for signatures; None if the model made none of them.
        counts: The number of pairs by who judged them, as `summary.json` has it.
    """

    qrels: Qrels
    source: str | None
    counts: FillCounts
    rows: list[VerdictRow]
    use: JudgeUse
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class Preferences:
    """What one judge said of pairs of systems.

    Attributes:
        entries: An entry of `preferences` in comparisons.json for each rubric.
    """

    judge: str
    entries: list[Preference]
    rows: Sequence[VerdictRow]
    use: JudgeUse

    def summaries(self) -> list[PreferenceSummary]:
        """Return the entries as summary.json has them, with what the judge took."""
        names = [each.name for each in fields(PreferenceSummary) if each.name != "judging"]
        return [
            PreferenceSummary(
                **{name: getattr(entry, name) for name in names}, judging=self.use.summary()
            )
            for entry in self.entries
        ]


@dataclass(slots=True)
class Results:
    """What the stages of a run have produced.

    Attributes:
        rankings: Retriever -> its run.
        samples: System -> score -> a column for each sample; systems that answer each query several
            times.
        judgements: System -> the verdicts of each judge, a row each.
        prompts: Id -> system and user words of the prompts that judges were sent.
        judge_uses: System -> judge -> what it took.
        systems: Every system with its scores, in the order of the tables.
        notes: What the reader of the numbers should know, a sentence each.
        warnings: What makes numbers doubtful, a sentence each.
        filled: The judgements with those that a model made; None where it made none.
        comparisons: What `comparisons.json` will hold.
        causes: System -> the cause of each query: where its answer is lost.
        work: Stage -> how much of it was stored, and how long the rest took.
        spending: What the budget limits, what was spent and what is missing; None without a budget.
    """

    rankings: dict[str, Ranked] = field(default_factory=dict)
    answers: dict[str, Answers] = field(default_factory=dict)
    samples: dict[str, dict[str, list[ScoreColumn]]] = field(default_factory=dict)
    judgements: dict[str, list[Sequence[VerdictRow]]] = field(default_factory=dict)
    prompts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    judge_uses: dict[str, dict[str, JudgeUse]] = field(default_factory=dict)
    systems: list[SystemScores] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    preferences: list[Preferences] = field(default_factory=list)
    filled: Filled | None = None
    comparisons: Comparisons = field(default_factory=no_comparisons)
    causes: Mapping[str, SystemCauses] = field(default_factory=dict)
    work: Mapping[str, Work] = field(default_factory=dict)
    spending: Spending | None = None

    def qrels(self, plan: Plan) -> Qrels | None:
        """Return what is judged: by a model, too, where one judged passages."""
        return plan.qrels if self.filled is None else self.filled.qrels

    def add_scores(
        self,
        system: System,
        columns: Mapping[str, ScoreColumn] = MappingProxyType({}),
        kind: Kind = "retrieval",
        counts: RunCounts | None = None,
    ) -> None:
        """Add scores of one kind; a system stands where its first ones were added."""
        if system.name not in (each.name for each in self.systems):
            made = SystemScores(system.name, system.retriever, system.generator, role=system.role)
            self.systems.append(made)
        row = [each.name for each in self.systems].index(system.name)
        before = self.systems[row]
        self.systems[row] = replace(
            before,
            columns={**before.columns, **columns},
            kinds={**before.kinds, **dict.fromkeys(columns, kind)},
            counts=counts or before.counts,
        )

    def add_samples(
        self, system: System, name: str, columns: Sequence[ScoreColumn], kind: Kind
    ) -> None:
        """Add a score: of several samples their mean, and the column of each sample."""
        self.add_scores(system, {name: mean_over_samples(columns)}, kind)
        if len(columns) > 1:
            self.samples[system.name][name] = list(columns)


# Causes that lie in the data or in the plan, not in what a system made of them.
_OF_THE_QUERY = (
    Cause.NO_RELEVANT,
    Cause.NO_JUDGEMENTS,
    Cause.NO_REFERENCE,
    Cause.NO_QUESTION,
    Cause.NO_GUIDELINES,
    Cause.NO_TURNS,
    Cause.NO_EXPECTED_CALLS,
)


def with_failures(column: ScoreColumn, failed: Mapping[int, Outcome[Any]]) -> ScoreColumn:
    """Return the column without values where the system had no output, with the causes.

    `failed` is what `without_value` yields, row -> outcome. Where the score could not have applied,
    whatever the output, it still does not apply.
    """
    failed = {row: f for row, f in failed.items() if column.causes[row] not in _OF_THE_QUERY}
    if not failed:
        return column
    values, causes = column.values.copy(), column.causes.copy()
    for row, failure in failed.items():
        values[row], causes[row] = math.nan, failure.cause
    details = {row: failure.detail for row, failure in failed.items() if failure.detail}
    return replace(column, values=values, causes=causes, details={**column.details, **details})


def with_failures_of(answers: Answers, column: ScoreColumn) -> ScoreColumn:
    """Return the column without values where a system has no answer, with the causes."""
    return with_failures(column, dict(without_value(answers.outcomes)))


def split_samples(column: ScoreColumn, samples: int) -> list[ScoreColumn]:
    """Return the column of each sample, of one that has all of them one after the other."""
    if samples == 1:
        return [column]
    n = len(column.values) // samples
    return [_part(column, start, start + n) for start in range(0, samples * n, n)]


def _part(column: ScoreColumn, start: int, end: int) -> ScoreColumn:
    details = {row - start: text for row, text in column.details.items() if start <= row < end}
    values, causes = column.values[start:end], column.causes[start:end]
    return replace(column, values=values, causes=causes, details=details)


def mean_over_samples(columns: Sequence[ScoreColumn]) -> ScoreColumn:
    """Return one column of several: each query's mean over its answers that have a score.

    A query has no score only where none of its answers has one. Its cause is then the first that
    is a failure, else the first. The causes of the single answers stay with it: those that failed
    leave a score open. A number that is computed from all queries at once is the mean of those of
    the samples.
    """
    if len(columns) == 1:
        return columns[0]
    values = np.stack([column.values for column in columns])
    known = ~np.isnan(values)
    counts = known.sum(axis=0)
    means = np.full(values.shape[1], np.nan)
    # nanmean warns of queries without any score
    np.divide(np.where(known, values, 0.0).sum(axis=0), counts, out=means, where=counts > 0)
    causes, details = columns[0].causes.copy(), dict[int, str]()
    for row in range(len(means)):
        if counts[row]:
            causes[row] = Cause.SCORED
            continue
        chosen = next((c for c in columns if Cause(int(c.causes[row])).failed), columns[0])
        causes[row] = chosen.causes[row]
        if row in chosen.details:
            details[row] = chosen.details[row]
    totals = [c.total for c in columns if c.total is not None and np.isfinite(c.total)]
    total = float(np.mean(totals)) if totals else columns[0].total
    return replace(
        columns[0],
        values=means,
        causes=causes,
        details=details,
        total=total,
        answer_causes=np.stack([column.causes for column in columns], axis=1),
    )


def failed_answers(columns: Sequence[ScoreColumn]) -> dict[str, int]:
    """Count the answers that failed in a score, by cause: also those of queries with a score."""
    codes = Counter(int(code) for column in columns for code in column.causes)
    return {Cause(code).word: n for code, n in sorted(codes.items()) if Cause(code).failed}


def sample_notes(systems: Iterable[Answers]) -> list[str]:
    """Say what scores of several answers are, and where these are all the same."""
    several = [answers for answers in systems if answers.samples > 1]
    by_number: dict[int, list[str]] = {}
    for answers in several:
        by_number.setdefault(answers.samples, []).append(answers.name)
    same = [
        f"{each.name}: all answers to a query are the same text: asking {each.samples} times told "
        "nothing"
        for each in several
        if _all_the_same(each)
    ]
    notes = [
        f"{', '.join(names)}: each query was answered {n} times; its score is the mean over its "
        "answers, and intervals cover other answers of the generator as well as other queries"
        for n, names in by_number.items()
    ]
    return [*notes, *same]


def _all_the_same(answers: Answers) -> bool:
    texts = [
        [None if o.value is None else o.value.answer for o in each.outcomes]
        for each in answers.each()
    ]
    several = [set(row) - {None} for row in zip(*texts, strict=True)]
    # where every answer failed, all() holds of nothing
    return any(several) and all(len(found) < 2 for found in several)
