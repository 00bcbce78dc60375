"""`run_experiment`: lock the experiment, load, plan, run the stages, decide gates, write files."""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import (
    AbstractContextManager,
    ExitStack,
    closing,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any

from ragbench import files
from ragbench.comparison.input_table import input_table
from ragbench.config.load import load_config
from ragbench.config.schema import ExperimentConfig
from ragbench.data.files.collection import large_document_notes
from ragbench.data.loaders.python import PASSED, collection_of, passed
from ragbench.data.runs.run_folder import TOKEN_FILE, check_output
from ragbench.errors import FolderLocked, OptionError
from ragbench.executors.base import Executor
from ragbench.experiment.files import write_run
from ragbench.experiment.gates import gate_run
from ragbench.experiment.kept_results import kept_token
from ragbench.experiment.plan.components import (
    build_executor,
    calls_own_code,
    open_models,
    unseen_components,
)
from ragbench.experiment.plan.plan import load_collection, make_plan
from ragbench.experiment.plan.records import LiveComponents, Plan, Repetition
from ragbench.experiment.records import Results
from ragbench.experiment.result import Experiment
from ragbench.experiment.selection import choose_combinations
from ragbench.experiment.stages.graph import run_stages, unfinished_token
from ragbench.experiment.stages.resources import PromptWords, Resources
from ragbench.experiment.stages.unknown_ids import UnknownIds
from ragbench.experiment.summary import make_summary
from ragbench.experiment.used_files import UsedFiles, named_digests, project_root
from ragbench.experiment.watched_files import watch_files, watch_imports
from ragbench.llm import Budget, Replies
from ragbench.log import log_notes
from ragbench.records.manifest import Choices
from ragbench.registry import quote
from ragbench.report.progress import Progress, progress_of
from ragbench.store.items import StageStore
from ragbench.types import Collection
from ragbench.types.documents import record_ids

# Lock file in the folder of an experiment.
_LOCK = ".lock.tmp"


def run_experiment(  # noqa: PLR0913  the public signature: a keyword per kind of object
    source: str | Path | Mapping[str, Any] | ExperimentConfig | None = None,
    overrides: Mapping[str, Any] | None = None,
    *,
    retrievers: Mapping[str, Any] | None = None,
    generators: Mapping[str, Any] | None = None,
    apps: Mapping[str, Any] | None = None,
    dataset: object = None,
    documents: object = None,
    choices: Choices | None = None,
    progress: Progress | bool | None = None,
    repetition: Repetition | None = None,
) -> Experiment:
    """Run an experiment and write its run folder.

    Args:
        source: A YAML file, the same as a mapping, or a checked config. None: nothing but what is
            passed here, with the defaults of all else.
        overrides: Dotted key -> value, as `--set` has it: `{"retrievers.bm25.k1": 1.2}`. None or
            empty for a checked config.
        retrievers: Live retrievers by name: objects with `retrieve(queries, top_k)`, or functions
            `(question, top_k)`.
        generators: Live generators by name: objects with `generate(question, contexts)`, or
            functions of the same two arguments.
        apps: Live whole apps by name: objects with `answer(question)`, chains of LangChain, or
            functions of a question.
        dataset: Data in place of the config's: the path of a file of records, a data frame (pandas,
            polars, Arrow) or a list of mappings, a row per question, by the names of ragas and
            deepeval too; the path of a folder in the layout of BEIR; a mapping of `queries`,
            `documents`, `qrels` and `answers`; or a `Collection`.
        documents: Documents beside `dataset`, which retrievers search: the path of a folder of
            texts or of a table, a data frame with a row per document, a mapping id -> text, or a
            list of texts, of mappings `{id, text}`, of `Document`s or of documents of LangChain.
            None: those of the data set.
        choices: Options of this run alone: a sample of the queries, some of the systems, no judge.
        progress: Display of the progress: None shows one in a terminal or a notebook, True
            anywhere, False none.
        repetition: Folders for the repetition of a finished run, beside the store and the runs of
            its experiment; None makes a new run, which resumes an unfinished one.

    Returns:
        The summary, the scores per query, and where they were written.

    Raises:
        ConfigError: The config is wrong, or a component refuses an option; all problems of the
            config at once.
        DataError: The data set is wrong, or the results cannot be written (DiskFull if no space is
            left).
        FolderLocked: Another run holds the folder of the experiment.
        AdapterError: A component cannot be created.
        MissingExtra: A component needs a package that is not installed.
        OptionError: A live object, `only`, `limit`, the baseline, `documents` or `overrides` does
            not fit to the config.
    """
    live = LiveComponents(retrievers or {}, generators or {}, apps or {})
    # a loaded config has imported its modules before
    with nullcontext() if isinstance(source, ExperimentConfig) else watch_imports():
        config = load_run_config(source, overrides or {}, live, has_dataset=dataset is not None)
    progress, choices = progress_of(progress), choices or Choices()
    decide = partial(run_experiment, progress=progress, retrievers=live.retrievers)
    config = choose_combinations(config, choices, decide, live)
    started = time.time()
    collection = _load_data(config, dataset, documents, progress)
    experiment_folder = Path(config.output) / config.name
    with ExitStack() as stack:
        watch = stack.enter_context(watch_files())
        plan = make_plan(config, collection, choices, live)
        executor = _executor_of(plan)
        # before any model is paid: results that cannot be written would be lost
        check_output(experiment_folder if repetition is None else repetition.runs)
        budget = Budget(**asdict(config.budget))
        replies = stack.enter_context(_open_models(plan, budget))
        if repetition is None:
            run_state = stack.enter_context(lock_experiment(experiment_folder, kept_token(plan)))
            stage_store = StageStore(files.cache_folder(config.cache), config.cache_also)
        else:  # a repetition resumes no run, and does not block other runs of the experiment
            run_state, stage_store = RunState(), StageStore(repetition.stages)
        store = stack.enter_context(closing(stage_store))
        if executor is not None:  # its workers start with the first task
            executor.check()
            stack.callback(executor.close)
        resources = Resources(
            plan=plan,
            run_token=run_state.token,
            prompts=PromptWords(plan, store),
            budget=budget,
            replies=replies,
            executor=executor,
        )
        results = _run_stages(resources, store, progress, run_state)
        _add_code(results, plan, watch, run_state.token)
        with progress.stage("write", 1, "run folders") as stage:
            summary = gate_run(plan, results, make_summary(plan, results, started))
            log_notes(summary.warnings, logging.WARNING)
            log_notes(summary.notes)
            experiment = write_run(plan, results, summary, started, repetition)
            stage.advance()
        # a run that its budget ended is resumed by the next one, with the same token
        run_state.finished = results.spending is None or not results.spending.reached
    return _with_frame(experiment, dataset, collection)


def _with_frame(experiment: Experiment, dataset: object, collection: Collection) -> Experiment:
    """Return the experiment with the index of a pandas frame, if the data set is one."""
    index, query_ids = input_table(dataset, collection).index, record_ids(collection.queries)
    return replace(experiment, frame_index=index, frame_queries=query_ids)


def _open_models(plan: Plan, budget: Budget) -> AbstractContextManager[Replies | None]:
    """Connect the judges and generators of a plan with their stored replies and the budget."""
    judges, replay = plan.all_judges, plan.choices.judge_replay
    return open_models(judges, plan.config, plan.generators, replay=replay, budget=budget)


def _add_code(results: Results, plan: Plan, watch: UsedFiles, token: str) -> None:
    """Add the files that the run used, and the components whose code no file describes."""
    config = plan.config
    results.unseen = unseen_components(plan)
    root = project_root(config.path.parent if config.path else Path())
    results.files = named_digests(config, root)
    blocks = (config.retrievers, config.generators, config.apps)
    components = chain.from_iterable(block.values() for block in blocks)
    if any(calls_own_code(component) for component in components):
        excluded = [Path(config.output), files.cache_folder(config.cache)]
        project = watch.in_project(root)
        results.used, results.token = project.digests(excluded), token
        for name, digest in results.used.items():
            if config.path is None or root / name != config.path.resolve():
                results.files = {**results.files, name: digest}
        results.unseen += ("code",) if watch.hidden or project.calls_others() else ()


def _run_stages(
    resources: Resources, store: StageStore, progress: Progress, run_state: RunState
) -> Results:
    """Return the results of all stages; a run whose hits have unknown ids counts as finished."""
    try:
        return run_stages(resources, store, progress)
    except UnknownIds:
        # resumed, it would have the same hits again, whatever the user changed in their code
        run_state.finished = True
        raise


def _executor_of(plan: Plan) -> Executor | None:
    """Return the executor of a plan, and mark the generators whose models its workers load."""
    executor = build_executor(plan.config)
    for name, generator in plan.generators.items() if executor is not None else ():
        # live objects cannot be sent to workers
        generator.is_elsewhere = generator.computes and name in plan.config.generators
    return executor


def _load_data(
    config: ExperimentConfig, dataset: object, documents: object, progress: Progress
) -> Collection:
    """Return the data set that the caller passes, or else that of the config; show its notes."""
    with progress.stage("load", 1, "data sets") as stage:
        collection = _collection_of(config, dataset, documents)
        stage.advance()
    for line in large_document_notes(collection.documents):
        progress.note(line)
    return collection


def _collection_of(config: ExperimentConfig, dataset: object, documents: object) -> Collection:
    if dataset is not None:
        return collection_of(dataset, documents=documents)
    if documents is not None:
        allowed = "documents beside dataset=; the config names its own: dataset: {corpus: docs/}"
        raise OptionError("run_experiment", "documents", quote(documents), allowed)
    return load_collection(config)


def load_run_config(
    source: str | Path | Mapping[str, Any] | ExperimentConfig | None,
    overrides: Mapping[str, Any],
    live: LiveComponents,
    *,
    has_dataset: bool,
) -> ExperimentConfig:
    """Return the checked config; with `has_dataset`, its `dataset` gives way to the caller's.

    Without `has_dataset`, a checked config is returned as it is.

    Raises:
        ConfigError: The config is wrong; all its problems at once.
        OptionError: There are overrides of a checked config.
    """
    source = {} if source is None else source
    if isinstance(source, ExperimentConfig):
        if overrides:
            allowed = "none for a checked config: load_config(source, overrides=...)"
            raise OptionError("run_experiment", "overrides", ", ".join(overrides), allowed)
        dataset = replace(source.dataset, type=PASSED, cls=passed, options={})
        resolved = {**source.resolved, "dataset": {"type": PASSED}}
        return replace(source, dataset=dataset, resolved=resolved) if has_dataset else source
    if has_dataset and isinstance(source, Mapping):
        source = {**source, "dataset": {"type": PASSED}}
    elif has_dataset:
        overrides = {**overrides, "dataset": {"type": PASSED}}
    return load_config(
        source,
        overrides=overrides,
        live_retrievers=live.retrievers,
        live_generators=live.generators,
        live_apps=live.apps,
    )


@dataclass(slots=True)
class RunState:
    """Token of a run, and whether the run has finished; `lock_experiment` yields it.

    Attributes:
        token: Random word in the store keys of components whose code cannot be fingerprinted: their
            items are valid for one run. A resumed run has the token of the unfinished one.
        finished: True if nothing remains to be resumed; the run sets it.
    """

    token: str = field(default_factory=partial(secrets.token_hex, 8))
    finished: bool = False


@contextmanager
def lock_experiment(folder: Path, token: str | None = None) -> Iterator[RunState]:
    """Lock the folder of an experiment, `<output>/<name>`, for one run, and yield its state.

    Missing folders are created, that of the output with a `.gitignore`. The token of an unfinished
    run is used again, so that the new run resumes it, or else `token`. The lock is one of the
    operating system and ends with the process. The lock file is removed at the end. The token file
    stays unless the run sets `finished`, also after an error.

    Raises:
        FolderLocked: Another process holds the lock.
        DataError: The folder cannot be written.
    """
    with files.naming_unwritable(folder):
        files.create_untracked(folder.parent)
        folder.mkdir(exist_ok=True)
        stream = _open_locked(folder)
    # only under the lock: without it these files may belong to a run that is still writing
    files.remove_left_over(folder)
    token_file = folder / TOKEN_FILE
    run_state = RunState()
    try:
        with files.naming_unwritable(folder):
            run_state.token = unfinished_token(folder) or token or run_state.token
            files.write_atomically(token_file, run_state.token + "\n")
        yield run_state
    finally:
        if run_state.finished:
            token_file.unlink(missing_ok=True)
        # removed before it is unlocked: afterwards it may be the lock of the next run
        (folder / _LOCK).unlink(missing_ok=True)
        stream.close()


def _open_locked(folder: Path) -> IO[bytes]:
    """Open the lock file of a folder, lock it, write the process id into it, and return it."""
    path = folder / _LOCK
    while True:
        stream = files.opened_to_append(path)
        if not files.try_lock(stream):
            stream.seek(0)
            process_id = stream.read(20).decode("utf-8", "replace").strip()
            stream.close()
            raise FolderLocked(
                f"another run{f' (process {process_id})' if process_id else ''} is at work here",
                file=folder,
                allowed="one run at a time; wait for it, or give this one another name or output",
            )
        # a run that ended may have removed the file after it was opened here and before it was
        # locked: the lock would be on a file that no other run can find
        if files.is_at(stream, path):
            break
        stream.close()
    # a full disk: the lock holds all the same, only the message to others lacks the process id
    with suppress(OSError):
        os.ftruncate(stream.fileno(), 0)
        os.write(stream.fileno(), str(os.getpid()).encode())
    return stream
