"""`run_experiment`: load, index, retrieve, generate, score, judge, compare, write."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench.comparison.differences import compare_systems
from ragbench.comparison.slices import compare_slices
from ragbench.comparison.systems import SystemScores
from ragbench.config.load import load_config
from ragbench.config.schema import BudgetLimits, ExperimentConfig
from ragbench.data.runs.run_folder import check_output
from ragbench.experiment.calls import Outcome
from ragbench.experiment.costs import spending_of
from ragbench.experiment.output.files import write_run
from ragbench.experiment.plan.plan import load_collection, make_plan, method_of
from ragbench.experiment.progress import Progress, Silent
from ragbench.experiment.records import Answers, Choices, LiveComponents, PlannedJudge, Results
from ragbench.experiment.result import Experiment
from ragbench.experiment.session import run_in
from ragbench.experiment.stages.answering import Answerer, Answering
from ragbench.experiment.stages.answering_stages import Stages
from ragbench.experiment.stages.answers import retrieved_by
from ragbench.experiment.stages.controls import (
    control_notes,
    describe_controls,
)
from ragbench.experiment.stages.early_stopping import judge_in_looks, stops_early
from ragbench.experiment.stages.judging import (
    connected,
    fill_judgements,
    totals_of,
    use_of,
    warnings_on,
)
from ragbench.experiment.stages.preferences import judge_preferences
from ragbench.experiment.stages.retrieval import match_hits, ranked
from ragbench.experiment.stages.score_stages import Scores, column_parts
from ragbench.experiment.stages.scores import (
    Gold,
    ScoredRanking,
    judged_items,
    mean_over_samples,
    notes_on_answers,
    sample_notes,
    sample_warnings,
    split_samples,
)
from ragbench.experiment.variance import add_variance, delta_notes, describe_deltas
from ragbench.files import cache_folder
from ragbench.llm import Budget
from ragbench.records.comparison import Comparisons
from ragbench.records.summary import Kind
from ragbench.retrieve.base import Retriever
from ragbench.score.base import ScoreColumn
from ragbench.score.judge.verdicts import Judged
from ragbench.store.items import StageStore
from ragbench.types import Retrieved


def run_experiment(
    source: str | Path | Mapping[str, Any] | ExperimentConfig,
    overrides: Mapping[str, Any] | None = None,
    *,
    retrievers: Mapping[str, Any] | None = None,
    generators: Mapping[str, Any] | None = None,
    apps: Mapping[str, Any] | None = None,
    choices: Choices | None = None,
    progress: Progress | None = None,
    stage_folder: Path | None = None,
) -> Experiment:
    """Run an experiment and write its run folder.

    Args:
        source: A YAML file, the same as a mapping, or a checked config.
        overrides: Dotted key -> value, as `--set` has it: `{"retrievers.bm25.k1": 1.2}`.
        retrievers: Live retrievers by name: objects with `retrieve(queries, top_k)`, or functions
            `(question, top_k)`.
        generators: Live generators by name: objects with `generate(question, contexts)`, or
            functions of the same two arguments.
        apps: Live whole apps by name: objects with `answer(question)`, chains of LangChain, or
            functions of a question.
        choices: A sample of the queries, some of the systems, no judge.
        progress: Shown what is being done.
        stage_folder: Where what stages make is stored; default: the cache folder.

    Returns:
        The summary, the scores per query, and where they were written.

    Raises:
        ConfigError: The config is wrong; all its problems at once.
        DataError: The data set is wrong, or the results cannot be written.
        AdapterError: A component cannot be made.
        MissingExtra: A judge or metric needs a package that is not installed.
    """
    live = LiveComponents(retrievers or {}, generators or {}, apps or {})
    if isinstance(source, ExperimentConfig):
        config = source
    else:
        config = load_config(
            source,
            overrides=overrides or {},
            live_retrievers=live.retrievers,
            live_generators=live.generators,
            live_apps=live.apps,
        )
    progress, choices = progress or Silent(), choices or Choices()
    started = time.time()
    with progress.stage("load", 1, "data sets") as stage:
        collection = load_collection(config)
        stage.advance()
    plan = make_plan(config, collection, choices, live)
    check_output(Path(config.output), config.name)
    with ExitStack() as stack:
        cache, also, limits = cache_folder(config.cache), config.cache_also, config.budget
        budget = Budget(usd=limits.usd, tokens=limits.tokens, minutes=limits.minutes)
        replay = choices.judge_replay
        generators = {
            name: (plan.component("generator", name), generator)
            for name, generator in plan.generators.items()
        }
        replies = stack.enter_context(
            connected(
                plan.asked_judges,
                cache,
                also,
                replay=replay,
                budget=budget,
                generators=generators,
            )
        )
        session = stack.enter_context(run_in(Path(config.output) / config.name))
        store = stack.enter_context(closing(_store(stage_folder, cache, also)))
        stages = Stages(
            plan=plan,
            store=store,
            run_token=session.token,
            progress=progress,
            budget=budget,
            retry_failed=choices.retry_failed,
            replies=replies,
        )
        results = _Runner(stages, choices).run()
        experiment = write_run(plan, results, choices, started)
        session.finished = results.spending is None or not results.spending.reached
    return experiment


def _store(own: Path | None, cache: Path, also: Sequence[Path]) -> StageStore:
    return StageStore(cache, also) if own is None else StageStore(own)


class _Runner:
    """Runs the stages of a plan, one system after the other."""

    def __init__(self, stages: Stages, choices: Choices) -> None:
        self.plan, self.stages, self.results = stages.plan, stages, Results()
        self.scores = Scores(stages, replay=choices.judge_replay)
        self.answering = Answering(stages)
        self.top_k = self.plan.config.metrics.retrieval.top_k

    def run(self) -> Results:
        if self.plan.config.budget != BudgetLimits():
            for rows in self.stages.rounds():
                self._pay_for(rows)
        for name in self.plan.systems:
            self._rank(name, self.stages.retrieved(name, self.top_k))
        for app in self.answering.apps():
            found = retrieved_by(self.answering.answers_of(app).outcomes)
            if found is not None:
                self._rank(app.name, found)
        gold = self._gold()
        self._judge_in_looks()
        for name in self.plan.systems:
            self._run_retriever(name, gold)
        for answerer in self.answering.others():
            self._run_answerer(answerer, gold)
        self.results.notes += sample_notes(self.results.answers.values())
        judge_preferences(self.plan, self.results, self.stages.timed)
        self.results.comparisons = self._compare()
        self.results.work = self.stages.work
        self.results.spending = spending_of(self.plan, self.results, self.stages.budget)
        return self.results

    def _pay_for(self, rows: Sequence[int]) -> None:
        """Answer and judge some of the queries, for every system."""
        for answerer in self.answering.everyone():
            self._judge_rows(self.answering.answers_of(answerer, rows), rows)

    def _judge_rows(self, answers: Answers, rows: Sequence[int]) -> None:
        items = judged_items(answers, self.plan.queries, self.plan.collection.answers)
        for name, judge in self.plan.judges.items():
            if judge.rubrics and not stops_early(judge):
                title = f"judge {answers.name} ({name})"
                self.scores.verdicts(title, items, name, judge, answers.rows(rows))

    def _judge_in_looks(self) -> None:
        """Let the judges that may stop early look at all systems side by side."""
        early = [name for name, judge in self.plan.judges.items() if stops_early(judge)]
        if not early:
            return
        everyone = self.answering.everyone()
        answers = [self.answering.answers_of(each) for each in everyone]
        controls = {each.name for each in everyone if each.role == "control"}
        for name in early:
            found = judge_in_looks(self.plan, self.scores, answers, name, controls)
            self.results.early[name] = found
            self.results.notes.append(found.note(name))

    def _rank(self, name: str, outcomes: list[Outcome[Retrieved]]) -> None:
        plan, rules = self.plan, self.plan.config.metrics.retrieval
        # other chunks of the same texts have ids of their own
        known = None if rules.match.level == "text" else plan.collection.documents
        retriever = plan.retrievers.get(name, Retriever())
        said = [] if name in plan.apps else self.stages.notes_on(name, rules.top_k)
        # one over others looks at `depth` hits of each, an app at as many as it likes
        limited = name in plan.apps or bool(retriever.sources)
        full = None if limited else rules.top_k
        found = ranked(name, retriever, plan.queries, outcomes, known, full, said)
        ranking = match_hits(found, rules, plan.measures, plan.qrels, plan.corpus)
        self.results.rankings[name] = ranking
        self.results.notes += ranking.notes
        self.results.warnings += ranking.warnings

    def _gold(self) -> Gold:
        """What rankings are held against: a judge has seen what all of them found."""
        plan, rules = self.plan, self.plan.config.metrics.retrieval
        gold = Gold(plan.queries, plan.qrels, plan.collection.answers, plan.corpus)
        if plan.fill is None:
            return gold
        rankings = list(self.results.rankings.values())
        filled = fill_judgements(
            plan.fill, rankings, plan.qrels, plan.corpus, rules, self.scores.judged
        )
        self.results.filled = filled
        self.results.warnings += filled.warnings
        return replace(gold, qrels=filled.qrels, source=filled.source)

    def _run_retriever(self, name: str, gold: Gold) -> None:
        """The scores of one retriever, and all its pairs."""
        scored = self.scores.of_ranking(self.results.rankings[name], gold)
        self.results.warnings += scored.warnings
        kinds: dict[str, Kind] = dict.fromkeys(scored.columns, "retrieval")
        self.results.systems.append(
            SystemScores(name, name, None, scored.columns, kinds, scored.counts)
        )
        for pair in self.answering.pairs_of(name):
            self._run_answerer(pair, gold)

    def _run_answerer(self, answerer: Answerer, gold: Gold) -> None:
        """The scores of one that answers; a whole app's ranking and answers are one system."""
        ranking = self.results.rankings.get(answerer.name) if answerer.role == "app" else None
        scored = ScoredRanking() if ranking is None else self.scores.of_ranking(ranking, gold)
        self.results.warnings += scored.warnings
        self._score_answers(answerer, self.answering.answers_of(answerer), scored)

    def _score_answers(self, answerer: Answerer, answers: Answers, ranking: ScoredRanking) -> None:
        plan, columns = self.plan, dict(ranking.columns)
        kinds: dict[str, Kind] = dict.fromkeys(columns, "retrieval")
        samples: dict[str, list[ScoreColumn]] = {}
        for found in self.scores.of_answers(answers):
            samples[found[0].name], kinds[found[0].name] = found, "generation"
        self.results.notes += notes_on_answers(
            answers, plan.queries, plan.collection.answers, plan.metrics
        )
        for judge_name, judge in plan.judges.items():
            if not judge.rubrics:
                continue
            judged = self._judge(answers, judge_name, judge)
            for rubric, column in judged.columns.items():
                name = plan.judge_score(rubric, judge_name)
                samples[name] = split_samples(replace(column, name=name), answers.samples)
                kinds[name] = "judge"
            rows = self.results.judgements.setdefault(answers.name, [])
            rows.extend({**row, "judge": judge_name} for row in judged.rows)
        columns |= {name: mean_over_samples(found) for name, found in samples.items()}
        self.results.answers[answers.name] = answers
        if answers.samples > 1:
            self.results.samples[answers.name] = samples
            self.results.warnings += sample_warnings(answers)
        self.results.systems.append(
            SystemScores(
                answerer.name,
                answerer.retriever,
                answerer.generator,
                columns,
                kinds,
                ranking.counts,
                answerer.role,
            )
        )

    def _judge(self, answers: Answers, name: str, judge: PlannedJudge) -> Judged:
        before, early = totals_of(judge), self.results.early.get(name)
        if early is None:
            judged = self.scores.by_judge(answers, name, judge)
            use = use_of(judge, judged, before)
        else:
            judged = early.judged[answers.name]
            use = replace(use_of(judge, judged, before), paid=early.paid[answers.name])
        self.results.judge_uses.setdefault(answers.name, {})[name] = use
        self.results.warnings += warnings_on(answers.name, name, judge, judged)
        return judged

    def _compare(self) -> Comparisons:
        plan, method = self.plan, method_of(self.plan)
        systems = [system for system in self.results.systems if system.role != "control"]
        parts = [repr(method), repr(plan.baseline), repr(plan.clusters), repr(plan.slicings)]
        for system in systems:
            parts += [system.name, *column_parts(system.columns)]

        def compare() -> Comparisons:
            found = compare_systems(systems, plan.baseline, method, plan.clusters)
            by_slice = compare_slices(systems, plan.baseline, method, plan.slicings, plan.clusters)
            return replace(found, slices=by_slice)

        found = add_variance(self.scores.compared(parts, compare), plan, self.results)
        deltas = describe_deltas(plan, systems, method)
        controls = describe_controls(self.results.systems, plan.baseline, method)
        self.results.notes += [*delta_notes(deltas), *control_notes(controls, method.confidence)]
        preferences = [entry for each in self.results.preferences for entry in each.entries]
        return replace(
            found,
            preferences=tuple(preferences),
            over_sources=tuple(deltas),
            controls=tuple(controls),
        )
