"""`run_experiment`: load, index, retrieve, generate, score, judge, compare, write."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench.comparison.paired import Method, compare_systems
from ragbench.comparison.systems import Kind, SystemScores
from ragbench.config import load_config
from ragbench.config.schema import DEFAULT_PASSAGES, ExperimentConfig
from ragbench.data.run_folder import check_output
from ragbench.errors import AdapterError, NotBuiltYet, RagbenchError
from ragbench.experiment.choices import Choices
from ragbench.experiment.components import PlannedJudge, calls_of
from ragbench.experiment.fill import fill_judgements
from ragbench.experiment.generation import Answers, generate, given_answers, passages_of
from ragbench.experiment.judging import connected, totals_of, use_of, warnings_on
from ragbench.experiment.load import load_collection
from ragbench.experiment.matching import match_hits
from ragbench.experiment.output import write_run
from ragbench.experiment.plan import LiveComponents, Plan, make_plan
from ragbench.experiment.preferences import judge_preferences
from ragbench.experiment.progress import Progress, Silent, Stage
from ragbench.experiment.ranking_scores import Gold, score_ranking
from ragbench.experiment.result import Experiment
from ragbench.experiment.results import Results
from ragbench.experiment.retrieval import Ranked, ranked, retrieve
from ragbench.experiment.scoring import judge_answers, notes_on_answers, score_answers
from ragbench.retrieve.base import Indexing
from ragbench.score.base import ScoreColumn
from ragbench.score.judge.columns import Judged
from ragbench.score.text.columns import TextScorer
from ragbench.types import Document


def run_experiment(
    source: str | Path | Mapping[str, Any] | ExperimentConfig,
    overrides: Mapping[str, Any] | None = None,
    *,
    retrievers: Mapping[str, Any] | None = None,
    generators: Mapping[str, Any] | None = None,
    apps: Mapping[str, Any] | None = None,
    choices: Choices | None = None,
    progress: Progress | None = None,
) -> Experiment:
    """Run an experiment and write its run folder.

    Args:
        source: A YAML file, the same as a mapping, or a checked config.
        overrides: Dotted key -> value, as `--set` has it: `{"retrievers.bm25.k1": 1.2}`.
        retrievers: Live retrievers by name: objects with `retrieve(queries, top_k)`, or functions
            `(question, top_k)`.
        generators: Live generators by name: objects with `generate(question, contexts)`, or
            functions of the same two arguments.
        apps: Live whole apps by name; not built yet in this version.
        choices: A sample of the queries, some of the systems, no judge.
        progress: Shown what is being done.

    Returns:
        The summary, the scores per query, and where they were written.

    Raises:
        ConfigError: The config is wrong; all its problems at once.
        DataError: The data set is wrong, or the results cannot be written.
        AdapterError: A component cannot be made.
        MissingExtra: A judge or metric needs a package that is not installed.
        NotBuiltYet: `apps` are given.
    """
    if apps:
        raise NotBuiltYet("apps are not built yet in this version")
    live = LiveComponents(retrievers or {}, generators or {})
    if isinstance(source, ExperimentConfig):
        config = source
    else:
        config = load_config(source, overrides=overrides or {}, live_retrievers=live.retrievers)
    progress = progress or Silent()
    started = time.time()
    with progress.stage("load", 1, "data sets") as stage:
        collection = load_collection(config)
        stage.advance()
    choices = choices or Choices()
    plan = make_plan(config, collection, choices, live)
    check_output(Path(config.output), config.name)
    with connected(plan.asked_judges, replay=choices.judge_replay):
        results = _Runner(plan, progress).run()
    return write_run(plan, results, started)


def _index(name: str, retriever: Indexing, corpus: Sequence[Document]) -> None:
    """Index the corpus; without an index there is nothing to go on with."""
    try:
        retriever.index(corpus)
    except (KeyboardInterrupt, RagbenchError):
        raise
    except BaseException as error:  # code of the user's may raise anything
        raise AdapterError(f"retriever '{name}': index: {type(error).__name__}: {error}") from error


class _Runner:
    """Runs the stages of a plan, one retriever after the other."""

    def __init__(self, plan: Plan, progress: Progress) -> None:
        self.plan, self.progress, self.results = plan, progress, Results()
        self._texts = TextScorer(plan.metrics)
        self._corpus = {document.id: document for document in plan.collection.documents or []}

    def run(self) -> Results:
        for name in list(self.plan.retrievers):
            self._rank(name)
        gold = self._gold()
        for name, ranking in self.results.rankings.items():
            self._run_retriever(name, ranking, gold)
        for name in self.plan.given:
            rows = self.plan.collection.given[name]
            self._score_answers(given_answers(name, self.plan.queries, rows), None, None)
        judge_preferences(self.plan, self.results, self._stage)
        with self._stage("compare", len(self.results.systems), "systems") as stage:
            self.results.comparisons = self._compare()
            stage.advance(len(self.results.systems))
        return self.results

    @contextmanager
    def _stage(self, name: str, total: int, unit: str = "queries") -> Iterator[Stage]:
        """Show and time one stage."""
        start = time.perf_counter()
        with self.progress.stage(name, total, unit) as stage:
            yield stage
        self.results.seconds[name] = time.perf_counter() - start

    def _rank(self, name: str) -> None:
        """One retriever after the other, so that only one index is held at a time."""
        plan, rules = self.plan, self.plan.config.metrics.retrieval
        found = self._retrieve(name)
        ranking = match_hits(found, rules, plan.measures, plan.qrels, self._corpus)
        self.results.rankings[name] = ranking
        self.results.notes += ranking.notes
        self.results.warnings += ranking.warnings

    def _gold(self) -> Gold:
        """What rankings are held against: a judge has seen what all of them found."""
        plan, rules = self.plan, self.plan.config.metrics.retrieval
        gold = Gold(plan.queries, plan.qrels, plan.collection.answers, self._corpus)
        if plan.fill is None:
            return gold
        rankings = list(self.results.rankings.values())
        filled = fill_judgements(plan.fill, rankings, plan.qrels, self._corpus, rules, self._stage)
        self.results.filled = filled
        self.results.warnings += filled.warnings
        return replace(gold, qrels=filled.qrels, source=filled.source)

    def _run_retriever(self, name: str, ranking: Ranked, gold: Gold) -> None:
        """The scores of one retriever, and all its pairs."""
        plan = self.plan
        scored = score_ranking(ranking, gold, plan.measures, plan.config.metrics.retrieval)
        self.results.warnings += scored.warnings
        kinds: dict[str, Kind] = dict.fromkeys(scored.columns, "retrieval")
        self.results.systems.append(
            SystemScores(name, name, None, scored.columns, kinds, scored.counts)
        )
        for retriever, generator in plan.pairs:
            if retriever == name:
                self._run_pair(ranking, generator, self._corpus)

    def _retrieve(self, name: str) -> Ranked:
        plan, retriever = self.plan, self.plan.retrievers.pop(name)
        corpus = plan.collection.documents
        if isinstance(retriever, Indexing) and corpus is not None:
            with self._stage(f"index {name}", len(corpus), "documents") as stage:
                _index(name, retriever, corpus)
                stage.advance(len(corpus))
        calls = calls_of("retriever", name, plan.components.get(name))
        with self._stage(f"retrieve {name}", len(plan.queries)) as stage:
            top_k = plan.config.metrics.retrieval.top_k
            outcomes = retrieve(retriever, plan.queries, top_k, calls, stage.advance)
        # other chunks of the same texts have ids of their own
        known = None if plan.config.metrics.retrieval.match.level == "text" else corpus
        return ranked(name, retriever, plan.queries, outcomes, known)

    def _run_pair(self, ranking: Ranked, generator: str, corpus: Mapping[str, Document]) -> None:
        plan, component = self.plan, self.plan.components.get(generator)
        passages = DEFAULT_PASSAGES if component is None else component.passages
        system = f"{ranking.name}/{generator}"
        with self._stage(f"generate {system}", len(plan.queries)) as stage:
            outcomes = generate(
                plan.generators[generator],
                plan.queries,
                passages_of(ranking.outcomes, corpus, passages),
                ranking.outcomes,
                calls_of("generator", generator, component),
                stage.advance,
            )
        self._score_answers(Answers(system, outcomes), ranking.name, generator)

    def _score_answers(
        self, answers: Answers, retriever: str | None, generator: str | None
    ) -> None:
        plan, references = self.plan, self.plan.collection.answers
        found: list[ScoreColumn] = []
        if plan.metrics:
            steps = self._texts.steps(len(plan.queries))
            with self._stage(f"score {answers.name}", steps, "scores") as stage:
                found = score_answers(answers, plan.queries, references, self._texts, stage.advance)
        self.results.notes += notes_on_answers(answers, plan.queries, references, plan.metrics)
        columns = {column.name: column for column in found}
        kinds: dict[str, Kind] = dict.fromkeys(columns, "generation")
        for judge_name, judge in plan.judges.items():
            if not judge.rubrics:
                continue
            judged = self._judge(answers, judge_name, judge)
            for rubric, column in judged.columns.items():
                name = plan.judge_score(rubric, judge_name)
                columns[name], kinds[name] = replace(column, name=name), "judge"
            rows = self.results.judgements.setdefault(answers.name, [])
            rows.extend({**row, "judge": judge_name} for row in judged.rows)
        self.results.answers[answers.name] = answers
        self.results.systems.append(
            SystemScores(answers.name, retriever, generator, columns, kinds)
        )

    def _judge(self, answers: Answers, name: str, judge: PlannedJudge) -> Judged:
        plan, before = self.plan, totals_of(judge)
        with self._stage(f"judge {answers.name} ({name})", len(plan.queries)) as stage:
            judged = judge_answers(
                answers, plan.queries, plan.collection.answers, judge, stage.advance
            )
        uses = self.results.judge_uses.setdefault(answers.name, {})
        uses[name] = use_of(judge, judged, before)
        self.results.warnings += warnings_on(answers.name, name, judge, judged)
        return judged

    def _compare(self) -> dict[str, Any]:
        statistics = self.plan.config.statistics
        method = Method(statistics.confidence, statistics.resamples, self.plan.config.seed)
        compared = compare_systems(self.results.systems, self.plan.baseline, method)
        entries = [entry for each in self.results.preferences for entry in each.entries]
        return {**compared, **({"preferences": entries} if entries else {})}
