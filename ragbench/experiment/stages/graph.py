"""The one list of stages of a plan, and what walks it: a run, its forecast, a budget's rounds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from ragbench.config.schema import BudgetLimits
from ragbench.experiment.plan.components import build_executor
from ragbench.experiment.plan.records import Plan, System
from ragbench.experiment.records import Results
from ragbench.experiment.stages.answers import AnswerQueries, AskApp, Generate, Recorded
from ragbench.experiment.stages.base import Node, NoProgress, Stage, Workspace
from ragbench.experiment.stages.causes import FindCauses
from ragbench.experiment.stages.comparison import Compare
from ragbench.experiment.stages.judging import JudgeAnswers
from ragbench.experiment.stages.model_judgements import JudgePassages
from ragbench.experiment.stages.preferences import JudgePairs
from ragbench.experiment.stages.retrieval import Rank, Retrieve
from ragbench.experiment.stages.scores import ScoreAnswers, ScoreRanking
from ragbench.experiment.summary import costs_of, spending_of
from ragbench.files import cache_folder
from ragbench.llm import Estimate
from ragbench.score.text.columns import TextScorer
from ragbench.store.items import StageStore

_ROUNDS = 10
# File in the folder of an experiment that holds the token of a run that has not finished.
TOKEN_FILE = ".unfinished.tmp"


def stages_of(workspace: Workspace) -> list[Stage]:
    """Return all stages of a plan, each behind those that it reads.

    Rankings come first, since a model that judges passages looks at the hits of all retrievers;
    then system by system in the order of the tables.
    """
    plan, top_k = workspace.plan, workspace.plan.config.metrics.retrieval.top_k
    made = dict[tuple[str, int], Retrieve]()
    # kept with their models for the next system
    scorer_of = cache(partial(TextScorer, executor=workspace.executor))
    retrieve = {
        name: made.get((name, top_k)) or Retrieve(workspace, name, top_k, made)
        for name in plan.scored_retrievers
    }
    answers = {each.name: _answer(workspace, each, retrieve) for each in plan.answering_systems}
    ranks = {name: Rank(workspace, name, one, one.retrieved) for name, one in retrieve.items()}
    ranks |= {
        name: Rank(workspace, name, None, answer.retrieved)
        for name, answer in answers.items()
        if answer.system.ranking_of == name
    }
    judgements = JudgePassages(workspace, list(ranks.values()))
    found: list[Stage] = []
    for one in retrieve.values():
        found += [*(each for each in one.sources if not each.place and each not in found), one]
        found.append(ranks[one.name])
    found += [rank for name, rank in ranks.items() if name not in retrieve]
    found.append(judgements)
    for system in plan.systems:
        if system.name in ranks:
            found.append(ScoreRanking(workspace, system, ranks[system.name], judgements))
        if system.name in answers:
            answer = answers[system.name]
            found.append(answer)
            # of what only retrieves there is nothing to score
            if not answer.only_retrieves:
                found.append(ScoreAnswers(workspace, answer, scorer_of))
                judges = [name for name, judge in plan.judges.items() if judge.rubrics]
                found += [JudgeAnswers(workspace, answer, name) for name in judges]
    found += [JudgePairs(workspace, name) for name, judge in plan.judges.items() if judge.pairwise]
    return [*found, Compare(workspace), FindCauses(workspace)]


def _answer(workspace: Workspace, system: System, retrieve: dict[str, Retrieve]) -> AnswerQueries:
    plan = workspace.plan
    if system.type == "app":
        return AskApp(workspace, system)
    if system.type == "recorded":
        return Recorded(workspace, system)
    # controls stand beside the baseline, and get other passages than it found
    scored = plan.scored_retrievers
    baseline = plan.baseline if plan.baseline in scored else scored[0]
    name = baseline if system.type == "control" else system.retriever
    return Generate(workspace, system, retrieve[name or ""])


def run_stages(workspace: Workspace) -> Results:
    """Make all that is not stored, stage by stage, and return what came out."""
    plan, stages, results = workspace.plan, stages_of(workspace), Results(prompts=workspace.prompts)
    if plan.config.budget != BudgetLimits():
        # where money may run out, all systems go through one growing random sample of the queries
        # before the next one begins, so that they have much the same queries by then
        order = workspace.in_random_order(range(len(plan.queries)))
        sizes = [-(-len(order) * part // _ROUNDS) for part in range(1, _ROUNDS + 1)]
        # of fewer queries than rounds some sizes are the same
        for size in dict.fromkeys(sizes):
            for stage in stages:
                stage.pay_for(order[:size])
    for stage in stages:
        stage.collect(results)
    results.work = workspace.work
    results.systems = [replace(s, costs=costs_of(results, s.name)) for s in results.systems]
    results.spending = spending_of(plan, results, workspace.budget)
    return results


@dataclass(slots=True)
class Forecast:
    """What a run would do: its stages, what is stored of them, and what the rest will cost.

    Attributes:
        nodes: The stages that read the data set, each with those that read it.
        workers: Where workers compute what takes long; None: there are none.
    """

    plan: Plan
    nodes: list[Node]
    workers: str | None = None

    @property
    def cost(self) -> Estimate:
        """What all calls together will take."""
        return sum((node.cost for node in _every(self.nodes) if node.cost), start=Estimate())

    @property
    def asks_models(self) -> bool:
        """Whether any stage asks models."""
        return any(node.cost is not None for node in _every(self.nodes))


def plan_record(name: str, not_made: Sequence[str], found: Forecast | None) -> dict[str, object]:
    """Return what `ragbench plan --json` prints; `found` is None where queries are not known.

    `not_made` names components whose code belongs to the user and is not called before a run.
    """
    workers = None if found is None else found.workers
    return {
        "schema": "ragbench.plan/1",
        "name": name,
        "queries": None if found is None else len(found.plan.queries),
        "stages": [] if found is None else [node.to_dict() for node in found.nodes],
        "cost": None if found is None else found.cost.to_dict(),
        **({"workers": workers} if workers is not None else {}),
        "warnings": [] if found is None else found.plan.warnings,
        "not_made": list(not_made),
    }


def _every(nodes: list[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        yield from _every(node.after)


def unfinished_token(folder: Path) -> str | None:
    """Return the token of the unfinished run of an experiment's folder; None if there is none."""
    with suppress(OSError, ValueError):
        token = (folder / TOKEN_FILE).read_text(encoding="utf-8").strip()
        return token if re.fullmatch(r"[0-9a-f]{16}", token) else None
    return None


def forecast(plan: Plan) -> Forecast:
    """Look up what is stored and estimate the rest; nothing is made, sent or written.

    What depends on something that is not made yet cannot be looked up: it counts as to do, and its
    cost is that of the queries whose texts are known, or of passages from the corpus.
    """
    config = plan.config
    executor = build_executor(config)
    location = None if executor is None else executor.location
    with closing(StageStore(cache_folder(config.cache), config.cache_also)) as store:
        workspace = Workspace(
            plan=plan,
            store=store,
            run_token=unfinished_token(Path(config.output) / config.name) or "none",
            progress=NoProgress(),
            dry=True,
        )
        nodes: dict[Stage, Node] = {}
        for stage in stages_of(workspace):
            node = stage.forecast()
            if node is not None:
                nodes[stage] = node
                node.by_workers = executor is not None and (
                    stage.computes_here if executor.is_here else stage.computes
                )
                if stage.under in nodes:
                    nodes[stage.under].after.append(node)
        first = [stage for stage in nodes if stage.under not in nodes]
        first.sort(key=lambda stage: (stage.place, "" if stage.place else stage.title))
        return Forecast(plan, [nodes[stage] for stage in first], location)
