"""`run_experiment`: load, index, retrieve, generate, score, judge, compare, write."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from ragbench.config.load import load_config
from ragbench.config.schema import ExperimentConfig
from ragbench.data.runs.run_folder import check_output
from ragbench.experiment.output.files import write_run
from ragbench.experiment.plan.components import connected
from ragbench.experiment.plan.plan import load_collection, make_plan
from ragbench.experiment.plan.records import Choices, LiveComponents, Repetition
from ragbench.experiment.progress import Progress, Silent
from ragbench.experiment.result import Experiment
from ragbench.experiment.session import new_session, run_in
from ragbench.experiment.stages.base import Workspace
from ragbench.experiment.stages.graph import run_stages
from ragbench.files import cache_folder
from ragbench.llm import Budget
from ragbench.store.items import StageStore


def run_experiment(
    source: str | Path | Mapping[str, Any] | ExperimentConfig,
    overrides: Mapping[str, Any] | None = None,
    *,
    retrievers: Mapping[str, Any] | None = None,
    generators: Mapping[str, Any] | None = None,
    apps: Mapping[str, Any] | None = None,
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
    config = _checked(source, overrides or {}, live)
    progress, choices = progress or Silent(), choices or Choices()
    started = time.time()
    with progress.stage("load", 1, "data sets") as stage:
        collection = load_collection(config)
        stage.advance()
    plan = make_plan(config, collection, choices, live)
    experiment_folder = Path(config.output) / config.name
    check_output(experiment_folder if repetition is None else repetition.runs)
    with ExitStack() as stack:
        cache, also, limits = cache_folder(config.cache), config.cache_also, config.budget
        budget = Budget(usd=limits.usd, tokens=limits.tokens, minutes=limits.minutes)
        generators = {
            name: (plan.component("generator", name), generator)
            for name, generator in plan.generators.items()
        }
        replies = stack.enter_context(
            connected(
                plan.asked_judges,
                cache,
                also,
                replay=choices.judge_replay,
                budget=budget,
                generators=generators,
            )
        )
        if repetition is None:
            session = stack.enter_context(run_in(experiment_folder))
            made = StageStore(cache, also)
        else:  # it neither resumes a run nor keeps another one waiting
            session, made = new_session(), StageStore(repetition.stages)
        store = stack.enter_context(closing(made))
        workspace = Workspace(
            plan=plan,
            store=store,
            run_token=session.token,
            progress=progress,
            budget=budget,
            retry_failed=choices.retry_failed,
            replies=replies,
            replay=choices.judge_replay,
        )
        results = run_stages(workspace)
        experiment = write_run(plan, results, choices, started, repetition)
        session.finished = results.spending is None or not results.spending.reached
    return experiment


def _checked(
    source: str | Path | Mapping[str, Any] | ExperimentConfig,
    overrides: Mapping[str, Any],
    live: LiveComponents,
) -> ExperimentConfig:
    if isinstance(source, ExperimentConfig):
        return source
    return load_config(
        source,
        overrides=overrides,
        live_retrievers=live.retrievers,
        live_generators=live.generators,
        live_apps=live.apps,
    )
