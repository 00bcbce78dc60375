"""What the stages of a run have produced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from ragbench.comparison.causes import SystemCauses
from ragbench.config.schema import RetrievalMetrics
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.experiment.calls import Outcome, as_told
from ragbench.experiment.plan.records import Plan, System
from ragbench.llm import Totals
from ragbench.records.comparison import Comparisons, Preference, no_comparisons
from ragbench.records.manifest import JudgePayment, VerdictRow
from ragbench.records.score import JudgedBy, Kind, RunCounts
from ragbench.records.summary import Judging, PreferenceSummary, Spending, Tokens
from ragbench.score.retrieval.base import RankedGrades
from ragbench.score.retrieval.ranking import rank
from ragbench.types import (
    Answered,
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
    """How much of one stage was there already."""

    items: int
    stored: int
    """Items that did not need to be made."""
    seconds: float = 0.0
    """Wall time of making the others."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """What one retriever returned for all queries."""

    name: str
    queries: Sequence[Query]
    outcomes: Sequence[Outcome[Retrieved]]
    """One per query, in their order."""
    scored: Run | Callable[[], Run]
    """The rankings as they are scored, or what reads them; use `run`."""
    unmatched: Run | None = None
    """The rankings of passages, where `run` has what they were matched with in their place."""
    notes: list[str] = field(default_factory=list)
    """What the reader of the numbers should know about this run."""
    warnings: list[str] = field(default_factory=list)
    is_cut: bool = False
    """Whether any hit is a chunk that we cut ourselves."""
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
    """What one system answered to all queries."""

    name: str
    outcomes: Sequence[Outcome[Prediction]]
    """One per query, in their order; a prediction's contexts are the passages it is judged by. Of
    several samples all of the first one come first, then all of the second one, ..."""
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


def given_rows(queries: Sequence[Query], rows: Sequence[Answered]) -> list[Answered | None]:
    """Return the record of each query, in the order of the queries; None for a query without."""
    by_query = {row.query_id: row for row in rows}
    return [by_query.get(query.id) for query in queries]


def given_answers(name: str, queries: Sequence[Query], rows: Sequence[Answered]) -> Answers:
    """Return the answers that the records came with, in the order of the queries."""
    if all(row.answer is None for row in rows):  # a retriever, which has nothing else to fail at
        return Answers(name, [Outcome(None, Cause.MISSING_ANSWER)] * len(queries))
    return Answers(name, [_given(row) for row in given_rows(queries, rows)])


def _given(row: Answered | None) -> Outcome[Prediction]:
    if row is not None and row.error is not None:
        return Outcome(None, Cause.ERROR, row.error, row.latency_ms)
    if row is None or row.answer is None:
        return Outcome(None, Cause.MISSING_ANSWER)
    prediction = Prediction(
        row.answer,
        row.contexts,
        row.usage,
        row.queries,
        row.latency_ms,
        tool_calls=row.tool_calls,
    )
    return as_told(Outcome(prediction))


@dataclass(frozen=True, slots=True)
class JudgeUse:
    """What one judge took for one system."""

    models: tuple[str, ...]
    """The models as their servers name them."""
    usage: Usage
    """What the replies took that its verdicts rest on, also those that were paid for earlier."""
    paid: Totals
    """What this run sent and paid."""
    spreads: Mapping[str, float]
    """Rubric -> how far samples or models lie apart, on average."""
    left_out: tuple[str, ...] = ()
    """What its requests lacked, since the models refuse it."""

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


def _tokens(used: Totals | Usage) -> Tokens:
    return Tokens(
        input=used.input_tokens, output=used.output_tokens, reasoning=used.reasoning_tokens
    )


@dataclass(frozen=True, slots=True)
class PoolCounts:
    """How many pairs of query and passage a judge was to grade, and what became of them."""

    pairs: int
    people: int
    model: int
    failed: Mapping[str, int]
    """Cause -> those whose verdict failed."""
    without_text: int


@dataclass(frozen=True, slots=True)
class Filled:
    """The judgements of people with those of a model, and who made how many."""

    qrels: Qrels
    source: str | None
    """What signatures say of them; None where the model has no part in them."""
    counts: PoolCounts
    rows: list[VerdictRow]
    models: tuple[str, ...]
    use: JudgeUse
    warnings: list[str]

    @property
    def by(self) -> JudgedBy:
        """How many pairs people judged, the model judged, and failed: beside every mean."""
        counts = self.counts
        return JudgedBy(
            people=counts.people, model=counts.model, failed=sum(counts.failed.values())
        )


@dataclass(frozen=True, slots=True)
class Preferences:
    """What one judge said of pairs of systems."""

    judge: str
    entries: list[Preference]
    """An entry of `preferences` in comparisons.json for each rubric."""
    rows: Sequence[VerdictRow]
    use: JudgeUse

    def summaries(self) -> list[PreferenceSummary]:
        """Return the entries as summary.json has them, with what the judge took."""
        return [
            PreferenceSummary(
                name=entry.name,
                rubric=entry.rubric,
                judge=entry.judge,
                model=entry.model,
                pairs=entry.pairs,
                baseline=entry.baseline,
                systems=entry.systems,
                rule=entry.rule,
                notes=entry.notes,
                judging=self.use.summary(),
            )
            for entry in self.entries
        ]


@dataclass(slots=True)
class Results:
    """What the stages of a run have produced."""

    rankings: dict[str, Ranked] = field(default_factory=dict)
    """Retriever -> its run."""
    answers: dict[str, Answers] = field(default_factory=dict)
    samples: dict[str, dict[str, list[ScoreColumn]]] = field(default_factory=dict)
    """System -> score -> a column for each sample; systems that answer each query several times."""
    judgements: dict[str, list[Sequence[VerdictRow]]] = field(default_factory=dict)
    """System -> the verdicts of each judge, a row each."""
    prompts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Id -> system and user words of the prompts that judges were sent."""
    judge_uses: dict[str, dict[str, JudgeUse]] = field(default_factory=dict)
    """System -> judge -> what it took."""
    systems: list[SystemScores] = field(default_factory=list)
    """Every system with its scores, in the order of the tables."""
    notes: list[str] = field(default_factory=list)
    """What the reader of the numbers should know, a sentence each."""
    warnings: list[str] = field(default_factory=list)
    """What makes numbers doubtful, a sentence each."""
    preferences: list[Preferences] = field(default_factory=list)
    filled: Filled | None = None
    """The judgements with those that a model made; None where it made none."""
    comparisons: Comparisons = field(default_factory=no_comparisons)
    """What `comparisons.json` will hold."""
    causes: Mapping[str, SystemCauses] = field(default_factory=dict)
    """System -> the cause of each query: where its answer is lost."""
    work: Mapping[str, Work] = field(default_factory=dict)
    """Stage -> how much of it was stored, and how long the rest took."""
    spending: Spending | None = None
    """What the budget limits, what was spent and what is missing; None without a budget."""

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
