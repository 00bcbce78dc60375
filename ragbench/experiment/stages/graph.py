"""List of the stages of a plan, and the run, the forecast and the budget that go through it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from ragbench.config.schema import BudgetLimits
from ragbench.experiment.plan.records import Plan, System
from ragbench.experiment.records import Results
from ragbench.experiment.stages.answers import AnswerQueries, AskApp, Generate, Recorded
from ragbench.experiment.stages.base import Stage, Step, Workspace
from ragbench.experiment.stages.causes import FindCauses
from ragbench.experiment.stages.comparison import Compare
from ragbench.experiment.stages.judging import CountAlike, JudgeAnswers
from ragbench.experiment.stages.model_judgements import JudgePassages
from ragbench.experiment.stages.preferences import JudgePairs
from ragbench.experiment.stages.retrieval import Rank, Retrieve
from ragbench.experiment.stages.scores import ScoreAnswers, ScoreRanking
from ragbench.experiment.summary import costs_of, spending_of
from ragbench.files import cache_folder
from ragbench.llm import Estimate
from ragbench.report.progress import Progress
from ragbench.score.text.columns import TextScorer
from ragbench.store.items import StageStore

# Rounds of a run with a budget: each adds a tenth of the queries.
_ROUNDS = 10
# File in the folder of an experiment that holds the token of a run that has not finished.
TOKEN_FILE = ".unfinished.tmp"


def stages_of(workspace: Workspace) -> list[Stage]:
    """Return all stages of a plan, each after those that it reads.

    Rankings come first, since the judge of passages reads the hits of all retrievers; then the
    stages of each system in the order of the tables.
    """
    plan, top_k = workspace.plan, workspace.plan.config.metrics.retrieval.top_k
    by_depth = dict[tuple[str, int], Retrieve]()
    # cached: a scorer keeps its models loaded for the next system
    scorer_of = cache(partial(TextScorer, executor=workspace.executor))
    retrieve = {
        name: by_depth.get((name, top_k)) or Retrieve(workspace, name, top_k, by_depth)
        for name in plan.scored_retrievers
    }
    answers = {s.name: _answer(workspace, s, retrieve) for s in plan.answering_systems}
    ranks = {
        name: Rank(workspace, name, stage, stage.retrieved) for name, stage in retrieve.items()
    }
    ranks |= {
        name: Rank(workspace, name, None, answer.retrieved)
        for name, answer in answers.items()
        if answer.system.ranking_of == name
    }
    judgements = JudgePassages(workspace, list(ranks.values()))
    stages: list[Stage] = []
    for stage in retrieve.values():
        # a source that is not scored itself has place 0, and may serve several retrievers
        unscored = [source for source in stage.sources if source.place == 0]
        stages += [source for source in unscored if source not in stages]
        stages += [stage, ranks[stage.name]]
    stages += [rank for name, rank in ranks.items() if name not in retrieve]
    stages.append(judgements)
    for system in plan.systems:
        if system.name in ranks:
            stages.append(ScoreRanking(workspace, system, ranks[system.name], judgements))
        if system.name in answers:
            answer = answers[system.name]
            stages.append(answer)
            # recorded systems without answers have only a ranking to score
            if not answer.only_retrieves:
                stages.append(ScoreAnswers(workspace, answer, scorer_of))
                judges = [name for name, judge in plan.judges.items() if judge.rubrics]
                stages += [JudgeAnswers(workspace, answer, name) for name in judges]
    stages += [JudgePairs(workspace, name) for name, judge in plan.judges.items() if judge.pairwise]
    judging = [stage for stage in stages if isinstance(stage, JudgeAnswers)]
    last = [CountAlike(workspace, judging), FindCauses(workspace, judgements)]
    return [*stages, *last, Compare(workspace)]


def _answer(workspace: Workspace, system: System, retrieve: dict[str, Retrieve]) -> AnswerQueries:
    """Return the stage that answers by a system; `retrieve` has its retriever's stage by name.

    A control reads the baseline, or the first scored retriever if that is no retriever.
    """
    plan = workspace.plan
    if system.type == "app":
        return AskApp(workspace, system)
    if system.type == "recorded":
        return Recorded(workspace, system)
    # controls get other passages than the baseline retriever returned for the same queries
    scored = plan.scored_retrievers
    baseline = plan.baseline if plan.baseline in scored else scored[0]
    name = baseline if system.type == "control" else system.retriever
    return Generate(workspace, system, retrieve[name or ""])


def run_stages(workspace: Workspace) -> Results:
    """Make all items that are not stored, stage by stage, and return the results of the run.

    All items are stored as they are made, so that an interrupted run can go on. `results.spending`
    is None without a budget.

    Raises:
        RagbenchError: A component fails in a way that is no cause of a single query.
    """
    plan, stages, results = workspace.plan, stages_of(workspace), Results(prompts=workspace.prompts)
    if plan.config.budget != BudgetLimits():
        # money may run out: all systems answer the same growing random sample of the queries, so
        # that whatever is done can be compared
        order = workspace.in_random_order(range(len(plan.queries)))
        sizes = [-(-len(order) * part // _ROUNDS) for part in range(1, _ROUNDS + 1)]
        # with fewer queries than rounds, some sizes are equal
        for size in dict.fromkeys(sizes):
            for stage in stages:
                stage.pay_for(order[:size])
    for stage in stages:
        stage.collect(results)
    results.work = workspace.work
    results.kept_failures = workspace.count_kept_failures()
    results.systems = [replace(s, costs=costs_of(results, s.name)) for s in results.systems]
    results.spending = spending_of(plan, results, workspace.budget)
    results.unreachable = workspace.unreachable()
    return results


@dataclass(slots=True)
class Forecast:
    """Forecast of a run: its stages, their stored items, and the cost of the others.

    `forecast` makes it.

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


def plan_record(name: str, not_made: Sequence[str], plan: Forecast | None) -> dict[str, object]:
    """Return the record that `ragbench plan --json` prints.

    Keys are `schema`, `name`, `queries` (their number), `stages` (each as `Step.to_dict`), `cost`
    (as `Estimate.to_dict`: the lowest and highest number of calls, tokens and dollars),
    `kept_failures`, `warnings` and `not_made`. Without a forecast, `queries` and `cost` are None,
    and `stages` and `warnings` are empty. `kept_failures` is left out if there are none.

    Args:
        name: Name of the experiment.
        not_made: Names of the components whose code is the user's and not called before a run.
        plan: Forecast; None if the data set is loaded by such code, and queries are unknown.
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


def forecast(plan: Plan) -> Forecast:
    """Return the numbers of stored items and the cost of the others, without making or sending any.

    An item that depends on one that is not made cannot be looked up: it counts as missing, and its
    cost is estimated from gold answers and passages of the corpus. No item is stored, but the store
    notes the use of those that are read, and removes malformed ones. A DataError if the store
    cannot be read.
    """
    config = plan.config
    with closing(StageStore(cache_folder(config.cache), config.cache_also)) as store:
        workspace = Workspace(
            plan=plan,
            store=store,
            run_token=unfinished_token(Path(config.output) / config.name) or "none",
            progress=Progress(quiet=True),
            dry=True,
        )
        nodes: dict[Stage, Step] = {}
        for stage in stages_of(workspace):
            node = stage.forecast()
            if node is not None:
                nodes[stage] = node
                if stage.under in nodes:
                    nodes[stage.under].after.append(node)
        # a stage whose input is not shown stands at the top
        first = [stage for stage in nodes if stage.under not in nodes]
        first.sort(key=lambda stage: (stage.place, "" if stage.place else stage.title))
        steps = [nodes[stage] for stage in first]
        return Forecast(plan, steps, workspace.count_kept_failures())
