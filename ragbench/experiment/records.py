"""What a run knows: the plan that it follows, and what its stages have produced."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

from ragbench.comparison.slices import Slicing
from ragbench.comparison.systems import SystemScores
from ragbench.config.schema import (
    DEFAULT_PASSAGES,
    Component,
    Control,
    ExperimentConfig,
    Fill,
    JudgeBlock,
)
from ragbench.experiment.calls import Outcome
from ragbench.gates.base import GateFiles
from ragbench.generate.base import App, Generator
from ragbench.llm import Totals
from ragbench.records.comparison import Comparisons, Preference, no_comparisons
from ragbench.records.manifest import JudgePayment
from ragbench.records.summary import (
    EarlyStopping,
    JudgedBy,
    Judging,
    Kind,
    PreferenceSummary,
    Role,
    Saved,
    Spending,
    Tokens,
)
from ragbench.retrieve.base import Retriever
from ragbench.score.base import Look, ScoreColumn
from ragbench.score.judge.base import Judge, KeyedJudge, Rubric
from ragbench.score.judge.verdicts import Judged
from ragbench.score.text.base import Metric
from ragbench.types import (
    Collection,
    Document,
    Prediction,
    Qrels,
    Query,
    Retrieved,
    Run,
    Usage,
)


@dataclass(frozen=True, slots=True)
class Choices:
    """What the caller narrows a run to."""

    limit: int | None = None
    """A seeded sample of this many queries."""
    only: tuple[str, ...] = ()
    """Names of retrievers, generators or pairs; empty means all."""
    judge: bool = True
    """Whether judges are asked."""
    judge_replay: bool = False
    """Whether judges answer from stored replies alone; what is missing is an error."""
    retry_failed: bool = False
    """Whether items that failed before are asked again."""


@dataclass(frozen=True, slots=True)
class PlannedJudge:
    """A judge with the rubrics that it applies."""

    type: str
    """What `type:` says."""
    judge: Judge
    """What judges."""
    rubrics: Sequence[Rubric]
    """What it is asked of each system."""
    pairwise: Sequence[Rubric] = ()
    """What it is asked of pairs of systems."""
    block: JudgeBlock | None = None
    """Its entry in the config; None for the default one."""

    @property
    def missing_key(self) -> str | None:
        """The environment variable that must hold its key and does not."""
        return self.judge.missing_key if isinstance(self.judge, KeyedJudge) else None

    @property
    def samples(self) -> int:
        """How often it judges each answer."""
        return 1 if self.block is None else int(self.block.options.get("samples") or 1)


@dataclass(frozen=True, slots=True)
class PlannedFill:
    """A judge that grades passages, ready."""

    name: str
    """The judge's name."""
    judge: PlannedJudge
    """What grades."""
    rubric: Rubric
    """What it is asked."""
    rules: Fill
    """What is graded, and how a level becomes a grade."""

    @property
    def top_grade(self) -> int:
        """The best grade that it can give."""
        return self.rubric.levels - 1 if self.rules.relevant_from is None else 1

    def grade_of(self, level: float) -> int:
        """Turn a level into a grade; a level that lies half between two is the lower one."""
        nearest = min(max(math.ceil(level - 0.5), 1), self.rubric.levels)
        if self.rules.relevant_from is None:
            return nearest - 1
        return int(nearest >= self.rules.relevant_from)


Noun = Literal["retriever", "generator", "app"]


@dataclass(frozen=True, slots=True)
class LiveComponents:
    """Objects that a caller passes instead of naming them in the YAML."""

    retrievers: Mapping[str, Any] = field(default_factory=dict)
    generators: Mapping[str, Any] = field(default_factory=dict)
    apps: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class System:
    """What is scored: a retriever alone, or somebody who answers."""

    name: str
    """`bm25`, `bm25/extractive`, the name of an app or of recorded answers."""
    retriever: str | None = None
    """Whose passages it answers from, or the control's name; None where it sees to that itself."""
    generator: str | None = None
    """Who answers; None of a retriever alone, a whole app, and of answers that were recorded."""
    role: Role = "system"
    """What it stands for in comparisons."""
    control: Control | None = None
    """Which passages it gets instead of a retriever's."""


@dataclass(frozen=True)
class Plan:
    """Everything that is fixed before the first query is asked."""

    config: ExperimentConfig
    collection: Collection
    queries: list[Query]
    """The queries that are asked, after `limit`, in the order of the file."""
    qrels: Qrels | None
    """The judgements of those queries."""
    retrievers: dict[str, Retriever]
    """Name -> retriever, ready but without an index; also those that others only read."""
    systems: list[str]
    """The retrievers that are scored, in the order of the config."""
    generators: dict[str, Generator]
    """Name -> generator, ready."""
    apps: dict[str, App]
    """Name -> app, ready."""
    answering: list[System]
    """Who answers: pairs of retriever and generator in the order of the config, controls, apps,
    and systems that the records came with."""
    measures: tuple[str, ...]
    metrics: tuple[Metric, ...]
    judges: dict[str, PlannedJudge]
    """Name -> judge with its rubrics, ready."""
    skipped_judges: dict[str, str]
    """Name -> why a judge that runs only where it can does not run."""
    fill: PlannedFill | None
    """What grades passages that people have not judged; None where nothing does."""
    baseline: str | None
    """The retriever that others are compared with."""
    clusters: list[str] | None
    """The cluster of each query; None where each stands for itself."""
    slicings: list[Slicing]
    """The slices of the queries, field by field."""
    warnings: list[str]
    """What the reader must know before believing the numbers."""
    gate_files: GateFiles
    """What the gates refer to."""

    @property
    def all_systems(self) -> list[str]:
        """The names of all systems: retrievers, pairs, apps, and what the records came with."""
        return [*self.systems, *(each.name for each in self.answering if each.control is None)]

    def component(self, noun: Noun, name: str) -> Component | None:
        """Return what the config says of a retriever, generator or app; None for a live one."""
        blocks = (self.config.retrievers, self.config.generators, self.config.apps)
        return dict(zip(("retriever", "generator", "app"), blocks, strict=True))[noun].get(name)

    def passages(self, generator: str) -> int:
        """Return how many passages a generator gets."""
        component = self.component("generator", generator)
        return DEFAULT_PASSAGES if component is None else component.passages

    def samples(self, generator: str | None) -> int:
        """Return how often each query is answered; once where no generator of the config does."""
        component = None if generator is None else self.component("generator", generator)
        return 1 if component is None else component.samples

    @cached_property
    def corpus(self) -> dict[str, Document]:
        """The documents by id; empty where there are none."""
        return {document.id: document for document in self.collection.documents or ()}

    @property
    def asked_judges(self) -> dict[str, PlannedJudge]:
        """Every judge of the run: of answers, and of passages."""
        return self.judges | ({} if self.fill is None else {self.fill.name: self.fill.judge})

    def judge_score(self, rubric: str, judge: str) -> str:
        """Return the name of a judge's score: with the judge where the config has several.

        A judge that is skipped counts, so that names do not depend on whether its key is set.
        """
        several = len(self.judges) + len(self.skipped_judges) > 1
        return f"{rubric}(judge={judge})" if several else rubric


@dataclass(slots=True)
class Work:
    """How much of one stage was there already."""

    items: int
    """Items that the stage has."""
    stored: int
    """Items that did not need to be made."""
    seconds: float = 0.0
    """Wall time of making the others."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """What one retriever returned for all queries."""

    name: str
    """The retriever's name."""
    queries: Sequence[Query]
    """The queries that it was asked."""
    outcomes: list[Outcome[Retrieved]]
    """One per query, in their order."""
    run: Run
    """The rankings as they are scored; a query that failed or is missing is absent."""
    unmatched: Run | None = None
    """The rankings of passages, where `run` has what they were matched with in their place."""
    notes: list[str] = field(default_factory=list)
    """What the reader of the numbers should know about this run."""
    warnings: list[str] = field(default_factory=list)
    """What makes the numbers doubtful."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What one system answered to all queries."""

    name: str
    """The system's name."""
    outcomes: list[Outcome[Prediction]]
    """One per query, in their order; a prediction's contexts are the passages it is judged by. Of
    several samples all of the first one come first, then all of the second one, ..."""
    samples: int = 1
    """How often each query was answered."""

    def each(self) -> list[Answers]:
        """Return the samples one by one, each with one outcome per query."""
        n = len(self.outcomes) // self.samples
        starts = [sample * n for sample in range(self.samples)]
        return [Answers(self.name, self.outcomes[start : start + n]) for start in starts]

    def rows(self, rows: Iterable[int]) -> list[int]:
        """Return the rows of all samples that belong to some rows of queries."""
        n = len(self.outcomes) // self.samples
        return [row + sample * n for row in rows for sample in range(self.samples)]


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

    def manifest(self) -> JudgePayment:
        """Return what this run sent and paid."""
        paid = self.paid
        return JudgePayment(
            models=self.models,
            calls=paid.calls,
            stored=paid.stored,
            failed=paid.failed,
            tokens=Tokens(input=paid.input_tokens, output=paid.output_tokens),
            usd=None if paid.unknown_cost else paid.cost_usd,
        )

    def summary(self) -> Judging:
        """Return what the verdicts took, whoever paid for it and when."""
        tokens = Tokens(input=self.usage.input_tokens, output=self.usage.output_tokens)
        return Judging(models=self.models, tokens=tokens, usd=self.usage.usd)


@dataclass(frozen=True, slots=True)
class Filled:
    """The judgements of people with those of a model, and who made how many."""

    qrels: Qrels
    """All of them."""
    source: str | None
    """What signatures say of them; None where the model has no part in them."""
    counts: Mapping[str, Any]
    """Pairs in the pool: `pairs`, of which `people` and `model` judged so many; `failed` by cause;
    `without_text`."""
    rows: list[dict[str, Any]]
    """The verdicts, a row each."""
    models: tuple[str, ...]
    """The models as their servers name them."""
    use: JudgeUse
    """What the judge took."""
    warnings: list[str]
    """What makes the grades doubtful."""

    @property
    def by(self) -> JudgedBy:
        """How many pairs people judged, the model judged, and failed: beside every mean."""
        failed = sum(self.counts["failed"].values())
        return JudgedBy(people=self.counts["people"], model=self.counts["model"], failed=failed)


@dataclass(frozen=True, slots=True)
class Preferences:
    """What one judge said of pairs of systems."""

    judge: str
    """The judge's name."""
    entries: list[Preference]
    """An entry of `preferences` in comparisons.json for each rubric."""
    rows: list[dict[str, Any]]
    """The verdicts, a row each."""
    use: JudgeUse
    """What it took."""

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


@dataclass(frozen=True, slots=True)
class EarlyJudge:
    """How far a judge went that could stop early."""

    look: Look
    """Its last look."""
    judged: Mapping[str, Judged]
    """System -> what it said, the queries included that it did not get to."""
    paid: Mapping[str, Totals]
    """System -> what this run sent and paid."""
    saved: Saved
    """What it did not take, as far as that is known."""
    over_budget: int = 0
    """How many queries the budget left out, for one system at least."""

    def summary(self) -> EarlyStopping:
        """Return its entry in `summary.json`."""
        look = self.look
        return EarlyStopping(
            stopped=look.stopped,
            judged=look.judged - self.over_budget,
            queries=look.queries,
            look=look.number,
            sizes=look.sizes,
            always_valid=look.always_valid,
            over_budget=self.over_budget,
            saved=self.saved,
        )

    def note(self, name: str) -> str:
        """Say how far it went, and what that saved."""
        look = self.look
        if self.over_budget:
            n = look.judged - self.over_budget
            return f"judge {name} judged {n} of {look.queries} queries, which the budget ended"
        at = f"look {look.number} of {len(look.sizes)}"
        if not look.stopped:
            return f"judge {name} judged all {look.queries} queries, in {len(look.sizes)} looks"
        amounts = (
            (self.saved.calls, "calls"),
            (self.saved.tokens, "tokens"),
            (self.saved.usd, "USD"),
        )
        saved = [f"{amount:,.6g} {word}" for amount, word in amounts if amount]
        return (
            f"judge {name} stopped early, {look.judged} of {look.queries} queries judged ({at}): "
            f"all that its scores are asked is decided"
            + (f"; that saved about {', '.join(saved)}" if saved else "")
        )


@dataclass(slots=True)
class Results:
    """What the stages of a run have produced."""

    rankings: dict[str, Ranked] = field(default_factory=dict)
    """Retriever -> its run."""
    answers: dict[str, Answers] = field(default_factory=dict)
    """System -> its answers."""
    samples: dict[str, dict[str, list[ScoreColumn]]] = field(default_factory=dict)
    """System -> score -> a column for each sample; systems that answer each query several times."""
    judgements: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """System -> the verdicts, a row each."""
    judge_uses: dict[str, dict[str, JudgeUse]] = field(default_factory=dict)
    """System -> judge -> what it took."""
    systems: list[SystemScores] = field(default_factory=list)
    """Every system with its scores, in the order of the tables."""
    notes: list[str] = field(default_factory=list)
    """What the reader of the numbers should know, a sentence each."""
    warnings: list[str] = field(default_factory=list)
    """What makes numbers doubtful, a sentence each."""
    preferences: list[Preferences] = field(default_factory=list)
    """What judges said of pairs of systems."""
    early: dict[str, EarlyJudge] = field(default_factory=dict)
    """Judge -> how far it went; those that could stop early."""
    filled: Filled | None = None
    """The judgements with those that a model made; None where it made none."""
    comparisons: Comparisons = field(default_factory=no_comparisons)
    """What `comparisons.json` will hold."""
    work: Mapping[str, Work] = field(default_factory=dict)
    """Stage -> how much of it was stored, and how long the rest took."""
    spending: Spending | None = None
    """What the budget limits, what was spent and what is missing; None without a budget."""

    def add_scores(
        self,
        system: System,
        columns: Mapping[str, ScoreColumn] = MappingProxyType({}),
        kind: Kind = "retrieval",
        counts: Mapping[str, Any] = MappingProxyType({}),
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
            counts={**before.counts, **counts},
        )
