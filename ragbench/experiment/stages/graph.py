"""Graph of the stages of a plan, and the run, the plan and the budget that go through it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

from ragbench.config.schema import BudgetLimits
from ragbench.data.runs.run_folder import TOKEN_FILE
from ragbench.experiment.costs import costs_of, run_cost
from ragbench.experiment.kept_results import kept_token
from ragbench.experiment.plan.components import stored_replies
from ragbench.experiment.plan.records import Plan, System
from ragbench.experiment.records import Results
from ragbench.experiment.spending import spending_of
from ragbench.experiment.stages.answer_scores import ScoreAnswers
from ragbench.experiment.stages.answers import (
    AnswerHits,
    AnswerQueries,
    AskApp,
    Generate,
    RecordedAnswers,
)
from ragbench.experiment.stages.base import Outputs, Stage, Step, in_random_order
from ragbench.experiment.stages.causes import find_causes
from ragbench.experiment.stages.comparison import Compare
from ragbench.experiment.stages.engine import Engine
from ragbench.experiment.stages.folds import ChooseByFold, RetrieveByFold
from ragbench.experiment.stages.judging import JudgeAnswers, count_alike
from ragbench.experiment.stages.model_judgements import (
    Judgements,
    JudgePassages,
    PoolPassages,
    TakeJudgements,
)
from ragbench.experiment.stages.preferences import JudgePairs
from ragbench.experiment.stages.ranking_scores import ScoreRanking
from ragbench.experiment.stages.reading import add_reading
from ragbench.experiment.stages.resources import PromptWords, Resources
from ragbench.experiment.stages.retrieval import BuildRanking, Retrieve
from ragbench.files import cache_folder
from ragbench.llm import CountedRequests, Estimate
from ragbench.report.progress import Progress
from ragbench.retrieve.cross_validated import CrossValidated
from ragbench.score.text.columns import TextScorer
from ragbench.score.text.judged_rows import JUDGED_PARTS, judged_queries
from ragbench.store.items import StageStore
from ragbench.types.lookups import take_items

# Rounds of a run with a budget: each adds a tenth of the queries.
_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Graph:
    """Stages of a plan, in the order in which they add to the results.

    Attributes:
        stages: All stages. Rankings come first, since the judge of passages reads the hits of all
            retrievers; then the stages of each system in the order of the tables.
        judgements: Stage with the judgements that rankings are scored by.
    """

    stages: Sequence[Stage[Any]]
    judgements: Stage[Judgements]


def stages_of(resources: Resources) -> Graph:
    """Return the graph of all stages of a plan."""
    plan, top_k = resources.plan, resources.plan.config.metrics.retrieval.top_k
    retrievals = _Retrievals(resources)
    # cached: a scorer keeps its models loaded for the next system
    scorer_of = cache(partial(TextScorer, executor=resources.executor))
    retrieve = {}
    for name in plan.scored_retrievers:
        retrieve[name] = retrievals.repeats(name, top_k)
    answers = {s.name: _answer(resources, s, retrieve) for s in plan.answering_systems}
    ranks = dict[str, list[BuildRanking]]()
    stages: list[Stage[Any]] = []
    for name, repeats in retrieve.items():
        ranks[name] = []
        for number, stage in enumerate(repeats):
            rank = BuildRanking(plan, name, stage, number)
            ranks[name].append(rank)
            stages += [s for s in _ranking_stages(stage, rank) if s not in stages]
    stages += retrievals.choices.values()
    for name, answer in answers.items():
        if answer.system.ranking_of == name:
            ranks[name] = []
            for number in range(answer.samples):
                ranks[name].append(BuildRanking(plan, name, AnswerHits(answer, number), number))
            stages += ranks[name]
    judgements = _judgements(resources, [*chain.from_iterable(ranks.values())])
    stages.append(judgements)
    reads_judgements = any(m.declaration.reads in JUDGED_PARTS for m in plan.metrics)
    judged = judged_queries(plan.collection) if reads_judgements else None
    for system in plan.systems:
        if system.name in ranks:
            stages.append(ScoreRanking(plan, system, ranks[system.name], judgements))
        if system.name in answers:
            ranks_of_answers = ranks.get(system.ranking_of or "", ())
            answer = answers[system.name]
            stages += _answer_stages(resources, answer, scorer_of, ranks_of_answers, judged)
    for name, judge in plan.judges.items():
        if judge.pairwise:
            stages.append(JudgePairs(resources, name, answers))
    return Graph(stages, judgements)


def _ranking_stages(stage: Retrieve, rank: BuildRanking) -> Iterator[Stage[Any]]:
    """Yield the stages that retrieve the hits of a scored ranking, and the one that builds it."""
    # a source that is not scored itself has place 0, and may serve several retrievers
    yield from _unscored(stage)
    yield stage
    yield rank


def _answer_stages(
    resources: Resources,
    answer: AnswerQueries,
    scorer_of: Callable[..., TextScorer],
    ranks: Sequence[BuildRanking],
    judged: Mapping[str, Set[str]] | None,
) -> Iterator[Stage[Any]]:
    """Yield the stage that answers from the rankings of `ranks`, and those that score answers."""
    yield answer
    # recorded systems without answers have only a ranking to score
    if not answer.only_retrieves:
        yield ScoreAnswers(resources.plan, answer, scorer_of, ranks, judged)
        for name, judge in resources.plan.judges.items():
            if judge.rubrics:
                yield JudgeAnswers(resources, answer, name)


def _unscored(stage: Retrieve) -> Iterator[Retrieve]:
    """Yield the stages below a stage whose rankings are not scored themselves, sources first."""
    for source in stage.sources:
        yield from _unscored(source)
        if source.place == 0:
            yield source


@dataclass(slots=True)
class _Retrievals:
    """Stages that retrieve: each retriever once for each depth and repetition, for all readers."""

    resources: Resources
    # by retriever, number of hits and number of the repetition
    stages: dict[tuple[str, int, int], Retrieve] = field(default_factory=dict)
    # sweep with folds -> the stage that chooses its combinations
    choices: dict[str, ChooseByFold] = field(default_factory=dict)

    def repeats(self, name: str, top_k: int) -> list[Retrieve]:
        """Return the stages of all repetitions of a retriever, after those of its sources."""
        numbers = range(self.resources.plan.n_rankings(name))
        return [self.stage(name, top_k, number) for number in numbers]

    def stage(self, name: str, top_k: int, number: int = 0) -> Retrieve:
        """Return the stage of a repetition of a retriever, after those of its sources."""
        plan = self.resources.plan
        number %= plan.n_rankings(name)
        key = name, top_k, number
        if key not in self.stages:
            retriever = plan.retrievers[name]
            depth = max(retriever.depth or top_k, top_k)
            sources = [self.stage(source, depth, number) for source in retriever.sources]
            parts = self.resources, name, top_k, sources
            if isinstance(retriever, CrossValidated):
                choose = self._choose(name, retriever)
                self.stages[key] = RetrieveByFold(*parts, choose, number)
            else:
                self.stages[key] = Retrieve(*parts, number)
        return self.stages[key]

    def _choose(self, name: str, retriever: CrossValidated) -> ChooseByFold:
        """Return the stage that chooses the combinations of a sweep with folds."""
        if name not in self.choices:
            plan, candidates = self.resources.plan, list[list[Retrieve]]()
            top_k = plan.config.metrics.retrieval.top_k
            for source in retriever.sources:
                candidates.append(self.repeats(source, top_k))
            self.choices[name] = ChooseByFold(plan, name, retriever, candidates)
        return self.choices[name]


def _answer(
    resources: Resources, system: System, retrieve: Mapping[str, Sequence[Retrieve]]
) -> AnswerQueries:
    """Return the stage that answers by a system; `retrieve` has its retriever's stages by name."""
    plan = resources.plan
    if system.type == "app":
        return AskApp(resources, system)
    if system.type == "recorded":
        return RecordedAnswers(plan, system)
    # controls get other passages than the baseline retriever returned for the same queries
    scored = plan.scored_retrievers
    baseline = plan.baseline if plan.baseline in scored else scored[0]
    name = baseline if system.type == "control" else system.retriever
    return Generate(resources, system, retrieve[name or ""])


def _judgements(resources: Resources, ranks: Sequence[BuildRanking]) -> Stage[Judgements]:
    """Return the stage with the judgements: of people alone, or filled by a model."""
    plan = resources.plan
    if plan.fill is None:
        return TakeJudgements(plan)
    return JudgePassages(resources, plan.fill, PoolPassages(plan, plan.fill, ranks))


def run_stages(resources: Resources, store: StageStore, progress: Progress) -> Results:
    """Make all items that are not stored, stage by stage, and return the results of the run.

    All items are stored as they are made, so that an interrupted run can go on. `results.spending`
    is None without a budget.

    Raises:
        RagbenchError: A component fails in a way that is no cause of a single query.
    """
    plan, graph, engine = resources.plan, stages_of(resources), Engine(resources, store, progress)
    outputs, results = Outputs(), Results(prompts=resources.prompts.words)
    for rows in _rounds(plan):
        engine.run(graph.stages, outputs, rows)
    engine.run(graph.stages, outputs)
    for stage in graph.stages:
        stage.add(outputs.of([*stage.inputs, stage]), results)
    judging = []
    for stage in graph.stages:
        if isinstance(stage, JudgeAnswers):
            judging.append(stage)
    count_alike(plan, judging, outputs, results)
    find_causes(plan, outputs[graph.judgements].gold, results)
    compare = Compare(plan, results.compared_systems)
    compare.add(engine.run([compare], outputs), results)
    add_reading(outputs[graph.judgements].gold, results)
    results.work = engine.counters.work
    results.kept_failures = engine.counters.count_kept_failures()
    results.systems = [replace(s, costs=costs_of(results, s.name)) for s in results.systems]
    results.spending = spending_of(plan, results, resources.budget)
    results.cost = run_cost(plan, _payments(graph.stages, outputs, results))
    results.unreachable = resources.unreachable()
    return results


def _payments(
    stages: Sequence[Stage[Any]], outputs: Outputs, results: Results
) -> dict[str, Fraction]:
    """Return component -> US dollars that this run paid for its calls; 0 where all was stored."""
    payments = defaultdict[str, Fraction](Fraction)
    for stage in stages:
        if name := stage.payer(results):
            payments[name] += outputs.paid(stage).cost
    return dict(payments)


def _rounds(plan: Plan) -> Iterator[list[int]]:
    """Yield the rows of the queries of each round of a budget; nothing without a budget."""
    if plan.config.budget == BudgetLimits():
        return
    # money may run out: all systems answer the same growing random sample of the queries, so that
    # whatever is done can be compared
    order = in_random_order(plan, range(len(plan.queries)))
    sizes = [-(-len(order) * part // _ROUNDS) for part in range(1, _ROUNDS + 1)]
    # with fewer queries than rounds, some sizes are equal
    for size in dict.fromkeys(sizes):
        yield order[:size]


@dataclass(slots=True)
class PlannedRun:
    """Stages of a run with their stored items, and the cost of the others; `plan_run` makes it.

    Attributes:
        plan: Plan of the run.
        nodes: Steps of the stages that read the data set, each with those that read it.
        kept_failures: Cause -> number of items that failed in an earlier run and would not be made
            again.
    """

    plan: Plan
    nodes: list[Step]
    kept_failures: dict[str, int]

    @property
    def cost(self) -> Estimate:
        """Estimated cost of all calls of models together; 0 without any."""
        return sum((node.cost for node in _all_nodes(self.nodes) if node.cost), start=Estimate())

    @property
    def asks_models(self) -> bool:
        """Return True if a stage sends prompts to a model."""
        return any(node.cost is not None for node in _all_nodes(self.nodes))


def plan_record(name: str, not_made: Sequence[str], plan: PlannedRun | None) -> dict[str, object]:
    """Return the record that `ragbench plan --json` prints.

    Keys are `schema`, `name`, `queries` (their number), `stages` (each as `Step.to_dict`), `cost`
    (as `Estimate.to_dict`: the lowest and highest number of calls, tokens and dollars),
    `kept_failures`, `warnings` and `not_made`. Without a planned run, `queries` and `cost` are
    None, and `stages` and `warnings` are empty. `kept_failures` is left out if there are none.

    Args:
        name: Name of the experiment.
        not_made: Names of the components whose code is the user's and not called before a run.
        plan: Planned run; None if the data set is loaded by such code, and queries are unknown.
    """
    return {
        "schema": "ragbench.plan/1",
        "name": name,
        "queries": None if plan is None else len(plan.plan.queries),
        "stages": [] if plan is None else [node.to_dict() for node in plan.nodes],
        "cost": None if plan is None else plan.cost.to_dict(),
        **({"kept_failures": plan.kept_failures} if plan and plan.kept_failures else {}),
        "warnings": [] if plan is None else plan.plan.warnings,
        "not_made": list(not_made),
    }


def _all_nodes(nodes: list[Step]) -> Iterator[Step]:
    """Yield the steps and all steps below them, each before those below it."""
    for node in nodes:
        yield node
        yield from _all_nodes(node.after)


def unfinished_token(folder: Path) -> str | None:
    """Return the token (16 hexadecimal digits) of the unfinished run in a folder; None without one.

    Also None if the file cannot be read or holds something else.
    """
    with suppress(OSError, ValueError):
        token = (folder / TOKEN_FILE).read_text(encoding="utf-8").strip()
        return token if re.fullmatch(r"[0-9a-f]{16}", token) else None
    return None


def plan_run(plan: Plan) -> PlannedRun:
    """Return the numbers of stored items and the cost of the others, without making or sending any.

    An item that depends on one that is not made cannot be looked up: it counts as missing, and its
    cost is estimated from gold answers and passages of the corpus. No item is stored, but the store
    notes the use of those that are read, and removes malformed ones. Raises DataError if the store
    cannot be read.
    """
    config = plan.config
    with (
        closing(StageStore(cache_folder(config.cache), config.cache_also)) as store,
        stored_replies(config, retry_failed=plan.choices.retry_failed) as stored,
    ):
        token = unfinished_token(Path(config.output) / config.name) or kept_token(plan) or "none"
        counted, prompts = CountedRequests(stored=stored), PromptWords(plan, store)
        resources = Resources(plan=plan, run_token=token, prompts=prompts, counted=counted)
        stages = stages_of(resources).stages
        engine = Engine(resources, store, Progress(quiet=True))
        outputs = engine.run(stages, make=False)
        nodes: dict[Stage[Any], Step] = {}
        for stage in stages:
            work = engine.counters.work.get(stage.title) if stage in outputs else None
            node = stage.step(outputs.of([*stage.inputs, stage]), work)
            if node is not None:
                nodes[stage] = node
                if stage.under in nodes:
                    nodes[stage.under].after.append(node)
        # a stage whose input is not shown stands at the top
        first = []
        for stage in nodes:
            if stage.under not in nodes:
                first.append(stage)
        first.sort(key=lambda stage: (stage.place, "" if stage.place else stage.title))
        steps = take_items(nodes, first)
        return PlannedRun(plan, steps, engine.counters.count_kept_failures())
