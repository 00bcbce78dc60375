"""Plan of a run: systems, judges and scores, fixed before the first query is asked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from msgspec import structs

from ragbench.comparison.slices import Slicing
from ragbench.config import schema
from ragbench.data.runs.scored_systems import ScoredSystems, SystemParts
from ragbench.errors import DataError
from ragbench.generate.base import App, Generator
from ragbench.records.manifest import Choices
from ragbench.records.summary import SystemType
from ragbench.retrieve.base import Retriever
from ragbench.score.base import add_option
from ragbench.score.judge.base import Rubric, RubricJudge
from ragbench.score.text.base import Metric
from ragbench.types import Collection, Document, Qrels, Query
from ragbench.types.documents import record_ids
from ragbench.types.lookups import index_by_id, index_by_name
from ragbench.types.reasoning import Reasoning
from ragbench.types.records import Nugget


@dataclass(frozen=True, slots=True)
class Repetition:
    """Folders of a repeated run (`ragbench reproduce`), apart from those of its experiment.

    An experiment that runs once has None in its place.

    Attributes:
        of: Id of the run that is repeated.
        runs: Folder that gets the new run folder; its link `latest` stays as it is.
        stages: Folder of the stored items, in place of the cache, so that all are made again.
    """

    of: str
    runs: Path
    stages: Path


@dataclass(frozen=True, slots=True)
class PlannedJudge:
    """Judge with the rubrics that it applies; `build_judge` makes it.

    `nuggets_of(query_id)` returns the nuggets of one query.

    Attributes:
        type: Type of the judge in the config, such as `openai`.
        judge: The judge itself.
        rubrics: Rubrics for single answers.
        pairwise: Rubrics for pairs of systems.
        block: Entry of the judge in the config.
        nuggets: Nuggets of its file by query id; None if the judge generates them.
    """

    type: str
    judge: RubricJudge
    rubrics: Sequence[Rubric]
    pairwise: Sequence[Rubric]
    block: schema.JudgeBlock
    nuggets: Mapping[str, tuple[Nugget, ...]] | None = None

    def nuggets_of(self, query_id: str) -> tuple[Nugget, ...] | None:
        """Return the nuggets of a query in file order, without assignments; () if it has none.

        The result is None if the judge has no file, and generates nuggets.
        """
        if self.nuggets is None:
            return None
        # assignments in the file are those of other answers
        nuggets = []
        for nugget in self.nuggets.get(query_id, ()):
            nuggets.append(structs.replace(nugget, assignment=None))
        return tuple(nuggets)

    @property
    def repeat(self) -> int:
        """Number of times that the judge judges each answer; 1 by default."""
        if not self.judge.asks:
            return self.block.repeat
        # models repeat their requests by themselves
        return int(self.block.options.get("repeat") or 1)


@dataclass(frozen=True, slots=True)
class PlannedFill:
    """Judge that grades passages without human judgements (`metrics.retrieval.fill`).

    `plan_fill` makes it. `grade_of` turns a level of the rubric into a grade from 0 to `top_grade`.

    Attributes:
        name: Name of the judge in the config.
        judge: The judge.
        rubric: Rubric whose levels become grades.
        rules: Depth of the pool (`depth`), and the smallest level that is relevant
            (`relevant_from`); None keeps the levels of the rubric as grades.
    """

    name: str
    judge: PlannedJudge
    rubric: Rubric
    rules: schema.Fill

    @property
    def top_grade(self) -> int:
        """Best grade that the rubric gives; 1 where levels become relevant or not."""
        return self.rubric.levels - 1 if self.rules.relevant_from is None else 1

    def grade_of(self, level: float) -> int:
        """Return the grade of a level, which may be a mean of several verdicts.

        Rounded to the nearest level of the rubric, halves down: 1 becomes grade 0, 2 grade 1. One
        beyond the scale becomes the lowest or highest level. With `relevant_from`, rounded levels
        from there on become 1 and the others 0.
        """
        # ceil of level - 0.5 rounds halves down; a mean outside the levels is clipped
        nearest = min(max(math.ceil(level - 0.5), 1), self.rubric.levels)
        if self.rules.relevant_from is None:
            return nearest - 1
        return int(nearest >= self.rules.relevant_from)


Noun = Literal["retriever", "generator", "app"]


@dataclass(frozen=True, slots=True)
class LiveComponents:
    """Components that a caller of `run_experiment` passes as objects, by name.

    Each is empty without such objects.

    Attributes:
        retrievers: Name -> object or function that retrieves.
        generators: Name -> object or function that answers from passages.
        apps: Name -> object or function that answers a question.
    """

    retrievers: Mapping[str, Any] = field(default_factory=dict)
    generators: Mapping[str, Any] = field(default_factory=dict)
    apps: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """Config, data and options that a plan is made of.

    `parts` returns the config entry and the live object of a component.

    Attributes:
        config: Config of the experiment.
        collection: Data set.
        choices: Options of the command line, such as `--only`.
        live: Components that a caller passed as objects.
        calls: False calls no code of the user: its components are replaced by ones that cannot run.
    """

    config: schema.ExperimentConfig
    collection: Collection
    choices: Choices
    live: LiveComponents = field(default_factory=LiveComponents)
    calls: bool = True

    def parts(self, noun: Noun, name: str) -> tuple[schema.Component | None, Any]:
        """Return the config entry and the live object of a component; None for a missing one."""
        kind = f"{noun}s"
        return getattr(self.config, kind).get(name), getattr(self.live, kind).get(name)

    def error(self, problem: str, record: str, allowed: str) -> DataError:
        """Return the error of a part of the config, named by its path, that the data do not fit."""
        return DataError(problem, file=self.config.path, record=record, allowed=allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class System(SystemParts):
    """System of a run: a retriever, a pair with a generator, a control, an app, or recorded.

    `choose_systems` makes it, and `complete_systems` adds ranking and baseline. The first three
    arguments are those of `SystemParts`: the name, such as `bm25/extractive`; the retriever, or for
    a control its passages, None for an app and a recorded system; the generator or None.

    Attributes:
        type: `retriever`, `pair`, `control`, `app` or `recorded`.
        ranking_of: Name of the ranking that is scored for it: its retriever's or its own; None for
            a system without a ranking.
        control: Name of the passages that a control gets, such as `gold_context`; None for other
            systems.
        baseline: Name of the system that it is compared with; None for a baseline itself. A score
            that this system lacks is compared with another one that has it.
    """

    type: SystemType
    ranking_of: str | None = None
    control: str | None = None
    baseline: str | None = None


@dataclass(frozen=True)
class Plan:
    """Config, data and components of a run, resolved before the first query is asked.

    `make_plan` makes it. Methods look up systems, config entries and options by name.

    Attributes:
        config: Config of the experiment.
        choices: Options of the command line.
        collection: Data set.
        queries: Queries of the run, after `--limit`, in the order of the file. `ids` is faster
            where ids are enough: the queries of a large file are parsed one by one.
        qrels: Judgements of these queries; None without any.
        retrievers: Retrievers by name, not indexed yet; those that only others read are included.
        systems: Systems that are scored, in the order of the tables: each retriever with its pairs,
            then controls, apps, and recorded systems.
        generators: Generators by name.
        apps: Apps by name.
        measures: Names of the retrieval measures.
        metrics: Metrics of answers.
        judges: Judges of answers by name.
        skipped_judges: Reason by name of the judges with `when: available` that cannot run.
        fill: Judge that grades unjudged passages; None without one.
        baseline: Name of the baseline retriever, app or recorded system.
        clusters: Cluster of each query; None if each query is its own.
        slicings: Slices of the queries that are compared by themselves.
        warnings: Warnings for the summary.
        gate_baselines: Baseline files and run folders that gates name, read into memory.
    """

    config: schema.ExperimentConfig
    choices: Choices
    collection: Collection
    queries: Sequence[Query]
    qrels: Qrels | None
    retrievers: dict[str, Retriever]
    systems: list[System]
    generators: dict[str, Generator]
    apps: dict[str, App]
    measures: tuple[str, ...]
    metrics: tuple[Metric, ...]
    judges: dict[str, PlannedJudge]
    skipped_judges: dict[str, str]
    fill: PlannedFill | None
    baseline: str
    clusters: list[str] | None
    slicings: list[Slicing]
    warnings: list[str]
    gate_baselines: Mapping[Path, ScoredSystems]

    @cached_property
    def ids(self) -> Sequence[str]:
        """Ids of the queries, in their order."""
        return record_ids(self.queries)

    @property
    def questions(self) -> list[str]:
        """Texts of the queries, in their order."""
        return [query.text for query in self.queries]

    @cached_property
    def scored_retrievers(self) -> list[str]:
        """Names of the retrievers that are scored, in the order of the config."""
        retrievers = []
        for system in self.systems:
            if system.type == "retriever":
                retrievers.append(system.name)
        return retrievers

    @cached_property
    def answering_systems(self) -> list[System]:
        """Pairs, controls, apps and recorded systems, in the order of the tables."""
        systems = []
        for system in self.systems:
            if system.type != "retriever":
                systems.append(system)
        return systems

    @cached_property
    def answering_without_controls(self) -> list[System]:
        """Answering systems without controls, in the order of the tables."""
        return [system for system in self.answering_systems if system.type != "control"]

    def system(self, name: str) -> System:
        """Return a system by name; raise a KeyError for an unknown one."""
        return index_by_name(self.systems)[name]

    def component(self, noun: Noun, name: str) -> schema.Component | None:
        """Return the config entry of a retriever, generator or app; None for a live object.

        Also None for an unknown name.
        """
        entries: Mapping[str, schema.Component] = getattr(self.config, f"{noun}s")
        return entries.get(name)

    def passages(self, generator: str) -> int:
        """Return the number of passages that a generator gets; 5 for a live or unknown one."""
        component = self.component("generator", generator)
        return schema.DEFAULT_PASSAGES if component is None else component.passages

    def repeat(self, noun: Noun, name: str) -> int:
        """Return the number of results of a component for each query; 1 for a live object.

        A predictions file has as many as it has answers to a query.
        """
        if noun == "generator":
            stored = self.generators[name].n_stored
            if stored is not None:
                return stored
        component = self.component(noun, name)
        return 1 if component is None else component.repeat

    def n_rankings(self, retriever: str) -> int:
        """Return the number of rankings of a retriever for each query.

        A retriever over others ranks each of their rankings, so that it has as many as they have.
        """
        sources = self.retrievers[retriever].sources
        return max([self.repeat("retriever", retriever), *map(self.n_rankings, sources)])

    def n_answers(self, system: System) -> int:
        """Return the number of answers of a system to each query."""
        if system.type == "app":
            return self.repeat("app", system.name)
        if system.generator is None:
            return 1
        n = self.repeat("generator", system.generator)
        is_fixed = system.control is not None or self.generators[system.generator].is_stored
        return n if is_fixed or system.retriever is None else n * self.n_rankings(system.retriever)

    def pass_metrics(self) -> list[schema.NamedMetric]:
        """Return the metrics `pass^k` and `pass@k` of the config, in their order."""
        metrics = self.config.metrics.generation or ()
        entries = []
        for entry in metrics:
            if entry.metric.declaration.reads == "repetitions":
                entries.append(entry)
        return entries

    def reasoning(self, noun: Literal["generator", "app"], name: str) -> Reasoning:
        """Return the option `reasoning` of a component; `cut` for a live object."""
        component = self.component(noun, name)
        return "cut" if component is None else component.reasoning

    @cached_property
    def corpus(self) -> Mapping[str, Document]:
        """Id -> document, of the corpus and of gold passages that stand in no corpus."""
        documents, gold = self.collection.documents, self.collection.gold_passages
        return index_by_id(documents or ()) | dict(gold)

    @property
    def all_judges(self) -> dict[str, PlannedJudge]:
        """Judges of answers, and the judge of passages if there is one, by name."""
        return self.judges | ({} if self.fill is None else {self.fill.name: self.fill.judge})

    def judge_score(self, rubric: str, judge: str) -> str:
        """Return the name of a score: the rubric, such as `tone`, or `tone(judge=small)`.

        The judge stands in it if the config has several judges of answers. A judge that is skipped
        counts, so that names do not depend on whether its key is set.
        """
        several = len(self.judges) + len(self.skipped_judges) > 1
        return add_option(rubric, "judge", judge) if several else rubric
