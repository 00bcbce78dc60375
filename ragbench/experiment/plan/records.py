"""What is fixed before the first query is asked: choices, systems, judges, the plan."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from ragbench.comparison.differences import Slicing
from ragbench.config.schema import (
    DEFAULT_PASSAGES,
    Component,
    Control,
    ExperimentConfig,
    Fill,
    JudgeBlock,
)
from ragbench.data.runs.scored_systems import ScoredSystems, SystemParts
from ragbench.generate.base import App, Generator
from ragbench.records.manifest import Choices
from ragbench.records.summary import SystemType
from ragbench.retrieve.base import Retriever
from ragbench.score.base import add_option
from ragbench.score.judge.base import Rubric, RubricJudge
from ragbench.score.text.base import Metric
from ragbench.types import Collection, Document, Qrels, Query
from ragbench.types.packed_documents import PackedDocuments, ids_of
from ragbench.types.records import Nugget


@dataclass(frozen=True, slots=True)
class Repetition:
    """What keeps the repetition of a run apart from what its experiment has and stores.

    Attributes:
        of: The run that is repeated.
        runs: The folder that gets the new run folder; `latest` in it stays.
        stages: Where what stages make is stored, in the place of the cache.
    """

    of: str
    runs: Path
    stages: Path


@dataclass(frozen=True, slots=True)
class PlannedJudge:
    """A judge with the rubrics that it applies.

    Attributes:
        rubrics: What it is asked of each system.
        pairwise: What it is asked of pairs of systems.
        block: Its entry in the config.
        nuggets: The nuggets of its file by query id; None where it makes them.
    """

    type: str
    judge: RubricJudge
    rubrics: Sequence[Rubric]
    pairwise: Sequence[Rubric]
    block: JudgeBlock
    nuggets: Mapping[str, tuple[Nugget, ...]] | None = None

    def nuggets_of(self, query_id: str) -> tuple[Nugget, ...] | None:
        """Return the given nuggets of a query, perhaps none; None where the judge makes them."""
        if self.nuggets is None:
            return None
        # what others have assigned is about other answers
        return tuple(each._replace(assignment=None) for each in self.nuggets.get(query_id, ()))

    @property
    def samples(self) -> int:
        """How often it judges each answer."""
        return int(self.block.options.get("samples") or 1)


@dataclass(frozen=True, slots=True)
class PlannedFill:
    """A judge that grades passages, ready.

    Attributes:
        rules: What is graded, and how a level becomes a grade.
    """

    name: str
    judge: PlannedJudge
    rubric: Rubric
    rules: Fill

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


@dataclass(frozen=True, slots=True, kw_only=True)
class System(SystemParts):
    """What is scored: a retriever alone, or somebody who answers.

    Attributes:
        ranking_of: Whose ranking it has: its retriever's, or its own, if that says what it found.
        control: Which passages it gets instead of a retriever's.
        baseline: What it is compared with as a whole; None for a baseline itself. By a single
            score, that is what has this score.
    """

    type: SystemType
    ranking_of: str | None = None
    control: Control | None = None
    baseline: str | None = None


@dataclass(frozen=True)
class Plan:
    """Everything that is fixed before the first query is asked.

    It has more fields than other records: each is read by itself, by those who need just that.

    Attributes:
        queries: The queries that are asked, after `limit`, in the order of the file; use `ids`
            where that is enough, since the queries of many records are read one by one.
        retrievers: Name -> retriever, ready but without an index; also those that others only read.
        systems: What is scored, in the order of the tables: each retriever with those that answer
            from what it found, then controls, apps, and what the records came with.
        skipped_judges: Name -> why a judge that runs only where it can does not run.
        fill: What grades passages that people have not judged; None where nothing does.
        clusters: The cluster of each query; None where each stands for itself.
        gate_baselines: Baseline files and run folders that gates name, read.
    """

    config: ExperimentConfig
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
    baseline: str | None
    clusters: list[str] | None
    slicings: list[Slicing]
    warnings: list[str]
    gate_baselines: Mapping[Path, ScoredSystems]

    @cached_property
    def ids(self) -> Sequence[str]:
        """The ids of the queries, in their order."""
        return ids_of(self.queries)

    @cached_property
    def retrieving(self) -> list[str]:
        """The retrievers that are scored, in the order of the config."""
        return [each.name for each in self.systems if each.type == "retriever"]

    @cached_property
    def answering(self) -> list[System]:
        """Who answers: pairs in the order of the config, controls, apps, what records came with."""
        return [each for each in self.systems if each.type != "retriever"]

    def system(self, name: str) -> System:
        """Return a system by name."""
        return next(each for each in self.systems if each.name == name)

    def component(self, noun: Noun, name: str) -> Component | None:
        """Return what the config says of a retriever, generator or app; None for a live one."""
        own = self.config
        blocks = {"retriever": own.retrievers, "generator": own.generators, "app": own.apps}
        return blocks[noun].get(name)

    def passages(self, generator: str) -> int:
        """Return how many passages a generator gets."""
        component = self.component("generator", generator)
        return DEFAULT_PASSAGES if component is None else component.passages

    def samples(self, generator: str | None) -> int:
        """Return how often each query is answered; once where no generator of the config does."""
        component = None if generator is None else self.component("generator", generator)
        return 1 if component is None else component.samples

    @cached_property
    def corpus(self) -> Mapping[str, Document]:
        """The documents by id, gold passages that no corpus has among them."""
        documents, gold = self.collection.documents, self.collection.gold_passages
        if isinstance(documents, PackedDocuments) and not gold:
            return documents.by_id
        return {document.id: document for document in documents or ()} | dict(gold)

    @property
    def asked_judges(self) -> dict[str, PlannedJudge]:
        """Every judge of the run: of answers, and of passages."""
        return self.judges | ({} if self.fill is None else {self.fill.name: self.fill.judge})

    def judge_score(self, rubric: str, judge: str) -> str:
        """Return the name of a judge's score: with the judge where the config has several.

        A judge that is skipped counts, so that names do not depend on whether its key is set.
        """
        several = len(self.judges) + len(self.skipped_judges) > 1
        return add_option(rubric, "judge", judge) if several else rubric
