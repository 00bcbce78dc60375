"""`run_experiment`: load, index, retrieve, generate, score, judge, compare, write."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench.config.load import load_config
from ragbench.config.schema import ExperimentConfig
from ragbench.data.loaders.python import PASSED, collection_of, passed
from ragbench.data.runs.run_folder import check_output
from ragbench.experiment.files import write_run
from ragbench.experiment.plan.components import build_executor, connected
from ragbench.experiment.plan.plan import load_collection, make_plan
from ragbench.experiment.plan.records import LiveComponents, Plan, Repetition
from ragbench.experiment.result import Experiment
from ragbench.experiment.session import Progress, Session, Silent, run_in
from ragbench.experiment.stages.base import Workspace
from ragbench.experiment.stages.graph import run_stages
from ragbench.files import cache_folder
from ragbench.llm import Budget
from ragbench.records.manifest import Choices
from ragbench.store.items import StageStore
from ragbench.types import Collection


def run_experiment(  # noqa: PLR0913  the public signature: a keyword per kind of object
    source: str | Path | Mapping[str, Any] | ExperimentConfig,
    overrides: Mapping[str, Any] | None = None,
    *,
    retrievers: Mapping[str, Any] | None = None,
    generators: Mapping[str, Any] | None = None,
    apps: Mapping[str, Any] | None = None,
    dataset: object = None,
    choices: Choices | None = None,
    progress: Progress | None = None,
    repetition: Repetition | None = None,
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
        dataset: Data in place of the config's: a data frame (pandas, polars, Arrow) or a list of
            mappings, a row per question, read as a file of records is, by the names of ragas and
            deepeval too; a mapping of `queries`, `documents`, `qrels` and `answers`; or a
            `Collection`.
        choices: A sample of the queries, some of the systems, no judge.
        progress: Shown what is being done.
        repetition: Where a run is repeated without touching what its experiment has; default: a
            new run of the experiment, which resumes one that was not finished.

    Returns:
        The summary, the scores per query, and where they were written.

    Raises:
        ConfigError: The config is wrong; all its problems at once.
        DataError: The data set is wrong, or the results cannot be written.
        AdapterError: A component cannot be made.
        MissingExtra: A judge or metric needs a package that is not installed.
    """
    live = LiveComponents(retrievers or {}, generators or {}, apps or {})
    config = _checked(source, overrides or {}, live, own_data=dataset is not None)
    progress, choices = progress or Silent(), choices or Choices()
    started = time.time()
    collection = _load(config, dataset, progress)
    plan = make_plan(config, collection, choices, live)
    executor = build_executor(config)
    if executor is not None:
        _leave_to_workers(plan)
    experiment_folder = Path(config.output) / config.name
    check_output(experiment_folder if repetition is None else repetition.runs)
    with ExitStack() as stack:
        limits = config.budget
        budget = Budget(usd=limits.usd, tokens=limits.tokens, minutes=limits.minutes)
        replies = stack.enter_context(
            connected(
                plan.asked_judges,
                plan.config,
                plan.generators,
                replay=choices.judge_replay,
                budget=budget,
            )
        )
        if repetition is None:
            session = stack.enter_context(run_in(experiment_folder))
            stage_store = StageStore(cache_folder(config.cache), config.cache_also)
        else:  # it neither resumes a run nor keeps another one waiting
            session, stage_store = Session(), StageStore(repetition.stages)
        store = stack.enter_context(closing(stage_store))
        if executor is not None:  # its workers start with the first task
            executor.check()
            stack.callback(executor.close)
        workspace = Workspace(
            plan=plan,
            store=store,
            run_token=session.token,
            progress=progress,
            budget=budget,
            replies=replies,
            executor=executor,
        )
        results = run_stages(workspace)
        with progress.stage("write", 1, "run folders") as stage:
            experiment = write_run(plan, results, started, repetition)
            stage.advance()
        session.finished = results.spending is None or not results.spending.reached
    return experiment


def _load(config: ExperimentConfig, dataset: object, progress: Progress) -> Collection:
    """Return the data of the caller, or those of the config where the caller passes none."""
    with progress.stage("load", 1, "data sets") as stage:
        if dataset is None:
            collection = load_collection(config, keep=True)
        else:
            collection = collection_of(dataset)
        stage.advance()
    return collection


def _leave_to_workers(plan: Plan) -> None:
    """Mark the generators of the config that workers compute; live objects stay in this process."""
    for name, generator in plan.generators.items():
        generator.is_elsewhere = generator.computes and name in plan.config.generators


def _checked(
    source: str | Path | Mapping[str, Any] | ExperimentConfig,
    overrides: Mapping[str, Any],
    live: LiveComponents,
    *,
    own_data: bool,
) -> ExperimentConfig:
    if isinstance(source, ExperimentConfig):
        dataset = replace(source.dataset, type=PASSED, cls=passed, options={})
        resolved = {**source.resolved, "dataset": {"type": PASSED}}
        return replace(source, dataset=dataset, resolved=resolved) if own_data else source
    if own_data and isinstance(source, Mapping):
        source = {**source, "dataset": {"type": PASSED}}
    elif own_data:
        overrides = {**overrides, "dataset": {"type": PASSED}}
    return load_config(
        source,
        overrides=overrides,
        live_retrievers=live.retrievers,
        live_generators=live.generators,
        live_apps=live.apps,
    )
