"""Creation of retrievers, generators, apps and judges from config entries or live objects."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, Literal, TypeVar, overload

from ragbench import errors
from ragbench.config import schema
from ragbench.config.components import indexes
from ragbench.data.files.judgements import read_nuggets
from ragbench.executors.base import Executor
from ragbench.experiment.plan.records import Noun, Plan, PlannedJudge
from ragbench.files import cache_folder
from ragbench.generate.base import Generator
from ragbench.generate.python import APP_METHODS, GENERATOR_METHODS, as_app, as_generator
from ragbench.generate.python import declared as declared_generator
from ragbench.llm import Budget, Replies
from ragbench.registry import PYTHON, check_repeat, has_method
from ragbench.rerank.base import RERANKER_METHODS, Reranker, as_reranker, to_reranker
from ragbench.retrieve.base import Rankings, Retriever
from ragbench.retrieve.chunks import with_chunks
from ragbench.retrieve.python import RETRIEVER_METHODS, as_retriever, to_retriever
from ragbench.score.judge.base import JudgedItem, Rubric, RubricJudge, judge_facts
from ragbench.score.judge.judge import load_rubrics
from ragbench.score.judge.python import as_judge, missing_members
from ragbench.score.text.base import Metric
from ragbench.secrets import redactor
from ragbench.store.database import REPLIES_FILE
from ragbench.types import Query
from ragbench.types.scores import Verdict

Entry = TypeVar("Entry")
Built = TypeVar("Built")


class RerankingRetriever(Retriever):
    """Retriever that orders the hits of another one by a reranker; `build` makes it.

    `combine` returns the reranked hits, and errors of the reranker pass through. `retrieve` raises
    NotImplementedError.

    Attributes:
        reranker: Reranker that orders the hits.
        sources: Tuple with the name of the one retriever whose hits it orders.
        depth: Number of hits to order; None orders `top_k`.
        keeps_tail: True if the hits below `depth` follow.
    """

    def __init__(
        self, reranker: Reranker, retriever: str, depth: int | None, tail: schema.Tail = "keep"
    ) -> None:
        self.reranker, self.sources, self.depth = reranker, (retriever,), depth
        self.asks_one_by_one = reranker.asks_one_by_one
        self.keeps_tail = tail == "keep"
        self.depth_option = "" if self.keeps_tail else "tail: keep, or depth: {top_k}"

    @property
    def notes(self) -> Sequence[str]:
        """Notes of the reranker about the hits that it ordered; empty without any."""
        return self.reranker.notes

    def check(self) -> None:
        """Raise `MissingExtra` if a package of the reranker is not installed."""
        self.reranker.check()

    def load(self) -> None:
        """Load the model of the reranker."""
        self.load_inner(self.reranker)

    def combine(self, queries: Sequence[Query], rankings: Rankings, top_k: int) -> Any:
        """Return the hits of the source as the reranker orders them, at most `top_k` a query.

        The reply is that of the reranker, and not yet checked; its errors pass through.
        """
        return self.reranker.rerank(queries, rankings[0], top_k)


# `validate` and `plan` import the modules that a config names and check options against signatures,
# but call no class or factory of the user, which may embed a corpus or connect to a database. So
# they check that a class has one of these methods, and leave the call to the run.
_METHODS = {
    "retriever": RETRIEVER_METHODS,
    "reranker": RERANKER_METHODS,
    "generator": GENERATOR_METHODS,
    "app": APP_METHODS,
    "loader": ("load",),
}


def calls_code(component: schema.Component | None) -> bool:
    """Return True if creating a component calls a class, factory or chunker that is not built in.

    Classes that other packages register count as not built in. An object or a function of the user
    (`python:...`) is used without a call, which gives False.
    """
    if component is None:
        return False
    if component.type.startswith(PYTHON):
        is_called = inspect.isclass(component.cls)  # an object or a function is used without a call
    else:
        is_called = not _is_built_in(component.cls)
    # `chunk: {split: python:...}` is code of the user over a built-in retriever
    chunks_by_code = component.chunk is not None and component.chunk.code is not None
    return is_called or chunks_by_code or component.options.get("factory") is not None


def calls_own_code(component: schema.Component) -> bool:
    """Return True if a component runs code of the user in this process."""
    chunker = None if component.chunk is None else component.chunk.code
    factory = component.options.get("factory")
    is_own = component.type.startswith(PYTHON) or not _is_built_in(component.cls)
    return is_own or factory is not None or chunker is not None


def unseen_components(plan: Plan) -> tuple[str, ...]:
    """Return the components of a plan that ask a server, whose code no file describes."""
    entries = (plan.config.retrievers, plan.config.generators, plan.config.apps)
    components: list[schema.Component] = []
    for block in entries:
        components += block.values()
    asking = set()
    for name, generator in plan.generators.items():
        if generator.asks:
            asking.add(name)
    unseen = []
    for component in components:
        if component.type == "http" or component.name in asking:
            unseen.append(component.name)
    return tuple(unseen)


class UncalledRetriever(Retriever):
    """Retriever of a plan that cannot retrieve: its class is not called before the run.

    It tells sources, depth, tail and whether it needs a corpus (`indexes`). `retrieve` and
    `combine` raise NotImplementedError.
    """

    def __init__(self, component: schema.Component) -> None:
        """Read sources and depth from the config entry of a retriever or reranker; call nothing.

        `sources` is a tuple with the name of the retriever that a reranker reads, else empty;
        `depth` is None for a retriever.

        Args:
            component: Config entry with the class.

        Raises:
            AdapterError: The class of the user has no method that retrieves or reranks.
        """
        reranks = component.retriever is not None
        require_method(component, "reranker" if reranks else "retriever")
        self.sources = () if component.retriever is None else (component.retriever,)
        self.depth = component.depth if reranks else None
        self.keeps_tail = reranks and component.tail == "keep"
        self.indexes = not reranks and (component.chunk is not None or indexes(component.cls))


class UncalledJudge(RubricJudge):
    """Judge of a plan that cannot judge: its class is not called before the run.

    It has the entry's `served` and `own_rubric`. `judge` always raises an AssertionError.
    """

    label = model = "not made before a run"

    def __init__(self, block: schema.JudgeBlock) -> None:
        facts = judge_facts(block.cls)
        self.served, self.own_rubric = facts.served, facts.own_rubric

    def judge(self, item: JudgedItem, rubric: Rubric) -> Verdict:
        """Raise `AssertionError`: a plan must not judge."""
        raise AssertionError("a plan asks no judge")


def require_method(component: schema.Component, kind: str) -> None:
    """Check that a class of the user has a method of its kind of component, or is callable.

    A class with `__getattr__` passes: its objects may create the method. Components of another
    type than `python:...` pass unchecked.

    Args:
        component: Entry that names the class.
        kind: `retriever`, `reranker`, `generator`, `app` or `loader`.

    Raises:
        AdapterError: The class has none of the methods.
    """
    cls, names = component.cls, _METHODS[kind]
    if not component.type.startswith(PYTHON) or hasattr(cls, "__getattr__"):
        return
    # every class is callable, so that `callable` would always hold: look for a defined `__call__`
    calls = not inspect.isclass(cls) or any("__call__" in vars(b) for b in inspect.getmro(cls))
    if not calls and not has_method(cls, names):
        code = component.type.removeprefix(PYTHON)
        message = f"{kind} '{component.name}': {code} has no method {names[0]}"
        allowed = f"a class with {names[0]}, or a function; docs/adapters.md has both"
        raise errors.AdapterError(f"{message}, allowed: {allowed}")


def uncalled_components(config: schema.ExperimentConfig) -> Iterator[str]:
    """Yield kind, name and code of each component that `calls_code`: "app 'chat' (myapp:Chat)".

    The code is the class, factory or chunker. Of judges, the classes of the user (`python:...`) and
    factories are named. Retrievers come first, then generators, apps and judges, each in the order
    of the config; nothing if all are built in.
    """
    blocks = {"retriever": config.retrievers, "generator": config.generators, "app": config.apps}
    for noun, block in blocks.items():
        for name, component in block.items():
            if calls_code(component):
                code = component.options.get("factory") or component.type.removeprefix(PYTHON)
                if component.chunk is not None and component.chunk.code is not None:
                    code = component.chunk.code
                yield f"{noun} '{name}' ({code})"
    for name, judge in (config.metrics.judges or {}).items():
        is_called = judge.type.startswith(PYTHON) and not judge_facts(judge.cls).is_judge
        code = judge.type.removeprefix(PYTHON) if is_called else judge.options.get("factory")
        if code is not None:
            yield f"judge '{name}' ({code})"


def loads_by_code(config: schema.ExperimentConfig) -> bool:
    """Return True if the data set of a config is loaded by a class that is not built in."""
    return not _is_built_in(config.dataset.cls)


def _is_built_in(component: object) -> bool:
    """Return True if a class is defined in this package."""
    return str(getattr(component, "__module__", "")).partition(".")[0] == "ragbench"


@overload
def build(
    noun: Literal["retriever"],
    name: str,
    component: schema.Component | None,
    live: Any,
    *,
    calls: bool = True,
) -> Retriever: ...
@overload
def build(
    noun: Literal["generator"],
    name: str,
    component: schema.Component | None,
    live: Any,
    *,
    calls: bool = True,
) -> Generator: ...
@overload
def build(
    noun: Literal["app"],
    name: str,
    component: schema.Component | None,
    live: Any,
    *,
    calls: bool = True,
) -> Any: ...
def build(
    noun: Noun, name: str, component: schema.Component | None, live: Any, *, calls: bool = True
) -> Any:
    """Create a retriever, generator or app from its config entry, or adapt a live object.

    A retriever is not indexed yet. The entry of a reranker gives a `RerankingRetriever`.

    Args:
        noun: Kind of the component.
        name: Name of the component in the config, for messages.
        component: Entry of the component, or of a reranker; None adapts `live`.
        live: Object that a caller passed in place of an entry.
        calls: False calls no code of the user: where `calls_code` holds, the methods are checked,
            and the result has the facts that a plan reads, but cannot work.

    Raises:
        ConfigError: A built-in component or a chunker refuses an option, or to be repeated.
        DataError: A file that the component reads is missing or wrong.
        OptionError: The user's class or function lacks an option.
        AdapterError: Code of the user fails, or returns another component.
        MissingExtra: A package that the component needs is not installed.
    """
    if component is not None and not calls and calls_code(component):
        return _build_uncalled(noun, component)
    if noun == "retriever":
        return _build_retriever(name, component, live)
    if noun == "generator":
        return _build_generator(name, component, live)
    return _create(name, component, live, "app", as_app)


def _build_uncalled(noun: Noun, component: schema.Component) -> Any:
    """Return a component that cannot work, with all that a plan reads of it."""
    if noun == "retriever":
        return UncalledRetriever(component)
    require_method(component, noun)
    if noun == "generator":
        return Generator()
    return SimpleNamespace(is_opaque=True)  # all that a plan reads of an app


def _build_retriever(name: str, component: schema.Component | None, live: Any) -> Retriever:
    """Create a retriever, with its chunks or its reranker if it has them."""
    if component is not None and component.retriever is not None:
        reranker = _create(name, component, live, "reranker", as_reranker)
        _check_repeat(reranker, component, "retrievers")
        return RerankingRetriever(
            to_reranker(reranker), component.retriever, component.depth, component.tail
        )
    retriever = _create(name, component, live, "retriever", as_retriever)
    if component is not None:
        _check_repeat(retriever, component, "retrievers")
    if component is None or component.chunk is None:
        return to_retriever(retriever)
    with _errors_at(component.place, f"retrievers.{name}"):
        return with_chunks(retriever, component.chunk)


def _build_generator(name: str, component: schema.Component | None, live: Any) -> Generator:
    """Create a generator, and check that it may be repeated."""
    generator = declared_generator(_create(name, component, live, "generator", as_generator))
    if component is not None:
        _check_repeat(generator, component, "generators")
    return generator


def _check_repeat(target: object, component: schema.Component, kind: str) -> None:
    """Raise a ConfigError for a `repeat` of a component whose results are always the same."""
    with _errors_at(component.place, f"{kind}.{component.name}"):
        check_repeat(target, component.repeat)


def _create(
    name: str,
    component: schema.Component | None,
    live_object: Any,
    noun: str,
    adapt: Callable[[Any, Mapping[str, Any], str], Any],
) -> Any:
    """Create a component: built in, or adapted from the user's code."""
    if component is None:
        return adapt(live_object, {}, f"{noun} '{name}'")
    if component.type.startswith(PYTHON):
        return adapt(component.cls, component.options, f"{noun} '{name}'")
    # rerankers stand among the retrievers of a config
    return _make(component, "retrievers" if noun == "reranker" else f"{noun}s")


def _make(component: schema.Component, kind: str) -> Any:
    """Create a built-in component; `kind` is the block of the config that has its entry."""
    # the executor stands at the top of the config, in no block
    path, place = f"{kind}.{component.name}".lstrip("."), component.place
    try:
        with _errors_at(place, path):
            return component.cls(**component.options)
    except errors.AdapterError as error:  # it knows its type, not its name
        where = "" if place.file is None else f"{place.file}:{place.line}: "
        raise errors.AdapterError(f"{where}{path}: {error}") from error


def make_all(make: Callable[[Entry], Built], entries: Iterable[Entry]) -> list[Built]:
    """Create a component from each entry.

    Another error than a ConfigError is raised at once.

    Raises:
        ConfigError: The problems of all entries together.
    """
    components, problems, subject = [], list[errors.Problem](), ""
    for entry in entries:
        try:
            components.append(make(entry))
        except errors.ConfigError as error:
            problems += error.problems
            subject = error.subject
    if problems:
        raise errors.ConfigError(problems, subject)
    return components


def checked_metric(entry: schema.NamedMetric) -> Metric:
    """Return a metric that can be computed here.

    Raises:
        ConfigError: The metric refuses an option.
        MissingExtra: A package that it needs is not installed.
    """
    with _errors_at(entry.place, entry.metric.name):
        entry.metric.check()
    return entry.metric


@contextmanager
def _errors_at(place: errors.Place, path: str) -> Iterator[None]:
    """Turn an `OptionError` into a `ConfigError` at the place of an entry, whose path is `path`."""
    try:
        yield
    except errors.OptionError as error:
        full_path = f"{path}.{error.option}"
        problem = place.problem(f"found {error.found!r}", full_path, error.allowed, error.nearest)
        raise errors.ConfigError([problem], place.file or "the config") from error


def build_judge(block: schema.JudgeBlock, *, calls: bool = True) -> PlannedJudge:
    """Create a judge from its entry, and load its rubrics and nuggets.

    Rubrics for pairs are separated from those for single answers.

    Args:
        block: Entry of the judge.
        calls: False replaces a judge of the user's code by an `UncalledJudge`.

    Raises:
        ConfigError: The judge refuses an option.
        AdapterError: The user's code fails, or returns no judge.
        DataError: The file of nuggets or of a rubric cannot be read or is wrong.
        OptionError: A rubric is unknown, or the judge cannot apply it.
    """
    is_own = block.type.startswith(PYTHON)
    try:
        with _errors_at(block.place, _path_of(block)):
            judge = UncalledJudge(block) if is_own and not calls else block.cls(**block.options)
    # code of the user may raise anything; it gets the place of the entry
    except Exception as error:
        # errors of this package have a place and a text of their own
        if not is_own or isinstance(error, errors.RagbenchError):
            raise
        problem = f"{_path_of(block)}: {block.type}: {type(error).__name__}: {error}"
        raise errors.AdapterError(problem) from error
    if (missing_part := missing_members(judge)) is not None:
        raise errors.AdapterError(f"{_path_of(block)}: {block.type} {missing_part}")
    judge = as_judge(judge)
    with _errors_at(block.place, _path_of(block)):
        check_repeat(judge, block.repeat)
    rubrics = load_rubrics(block.rubrics, block.type, judge)
    single, pairwise = [], []
    for rubric in rubrics:
        if rubric.method == "pairwise":
            pairwise.append(rubric)
        else:
            single.append(rubric)
    nuggets = None if block.nuggets is None else read_nuggets(Path(block.nuggets))
    return PlannedJudge(block.type, judge, single, pairwise, block, nuggets)


def nugget_warnings(name: str, planned: PlannedJudge, query_ids: Sequence[str]) -> list[str]:
    """Return a list with one warning if queries lack nuggets in the file of a judge, else [].

    Args:
        name: Name of the judge, for messages.
        planned: Judge with the nuggets of its file.
        query_ids: Ids of the queries of the data set.

    Raises:
        ConfigError: The file has nuggets for none of the queries.
    """
    nuggets, block = planned.nuggets, planned.block
    n_without = 0 if nuggets is None else sum(not nuggets.get(name) for name in query_ids)
    if nuggets is not None and n_without == len(query_ids):
        problem = block.place.problem(
            f"none of its {len(nuggets)} queries has nuggets and is in the data set",
            f"{_path_of(block)}.nuggets",
            f"qid of a query, such as '{query_ids[0]}' (file: {block.nuggets})",
        )
        raise errors.ConfigError([problem], block.place.file or "the config")
    warning = f"{n_without} of {len(query_ids)} queries have no nuggets in the file, and no score"
    return [f"judge {name}: {warning} over nuggets"] if n_without else []


_WITHOUT_JUDGE = "or `when: available` in its block, or --no-judge, to run without this judge"


def connect(planned: PlannedJudge, replies: Replies | None, *, can_leave_out: bool) -> None:
    """Give a judge the stored replies, None without any, and check its extras and credentials.

    With `can_leave_out`, the error of a missing key or package names the ways to run without the
    judge.

    Raises:
        ConfigError: The judge refuses an option, or its key is missing.
        MissingExtra: A package that it needs is not installed.
        AdapterError: A factory of the user fails.
        DataError: A model is not in the cache of the hub, and the hub cannot be reached.
    """
    judge, block = planned.judge, planned.block
    judge.keep_replies(replies)
    with _errors_at(block.place, _path_of(block)):
        try:
            judge.check()
        except errors.MissingExtra as error:
            if not can_leave_out:
                raise
            advice = f"{error.advice}; {_WITHOUT_JUDGE}"
            raise errors.MissingExtra(error.subject, error.package, advice=advice) from error
        except errors.OptionError as error:
            if not can_leave_out or judge.missing_key is None:
                raise
            allowed = f"{error.allowed}; {_WITHOUT_JUDGE}"
            raise errors.OptionError(error.owner, error.option, error.found, allowed) from error


def unavailable(planned: PlannedJudge, *, replay: bool) -> str | None:
    """Return the reason why a judge with `when: available` is left out; None if it can judge.

    The reason is a key that is not set, or a package that is not installed. A replay leaves no
    judge out.
    A built-in judge is checked and then closed. Other errors of its check pass through.
    """
    judge = planned.judge
    if planned.block.when != "available" or replay:
        return None
    if judge.missing_key is not None:
        return f"{judge.missing_key} is not set"
    if not _is_checked_by_plan(planned):
        return None
    try:
        judge.check()
    except errors.MissingExtra as error:
        return str(error)
    finally:
        judge.close()  # the run connects again, with stored replies
    return None


def _is_checked_by_plan(planned: PlannedJudge) -> bool:
    """Return True if checking a judge calls no code of the user, such as a factory."""
    block = planned.block
    is_built_in = block.options.get("factory") is None and _is_built_in(block.cls)
    return planned.judge.takes_many and is_built_in


def _path_of(block: schema.JudgeBlock) -> str:
    """Return the path of a judge in the config: `metrics.judge`, or with its name behind it."""
    return "metrics.judge" if block.name is None else f"metrics.judge.{block.name}"


@contextmanager
def open_models(
    judges: Mapping[str, PlannedJudge],
    config: schema.ExperimentConfig | None = None,
    generators: Mapping[str, Generator] = MappingProxyType({}),
    *,
    replay: bool = False,
    budget: Budget | None = None,
) -> Iterator[Replies | None]:
    """Connect judges and generators to their models and stored replies during a `with` block.

    Yields the stored replies; None where no model is asked. At the end, connections are closed.

    Args:
        judges: Judges by name.
        config: Names the cache of the replies and the secrets to remove from them; None is the
            default cache.
        generators: Generators by name.
        replay: True answers from stored replies alone, and sends nothing.
        budget: Limits of money and time that all requests share; None has no limit.

    Raises:
        ConfigError: A component refuses an option, or its key is missing; all such problems
            together.
        MissingExtra: A package that a component needs is not installed.
        AdapterError: A factory of the user fails.
        DataError: The file of replies cannot be opened, or a model is not in the cache of the hub,
            which cannot be reached.
    """
    cache, also = (None, ()) if config is None else (config.cache, config.cache_also)
    secrets = {} if config is None else config.secrets
    components = {} if config is None else config.generators
    with ExitStack() as stack:
        replies, checks = None, list[Callable[[], None]]()
        # the file of replies is opened only by a run that asks models
        asking = [planned.judge.asks for planned in judges.values()]
        if any(asking) or any(generator.asks for generator in generators.values()):
            replies = stack.enter_context(
                Replies(
                    cache_folder(cache) / REPLIES_FILE,
                    also=[folder / REPLIES_FILE for folder in also],
                    replay=replay,
                    clean=redactor(secrets) if secrets else None,
                )
            )
        for name, generator in generators.items():
            if generator.asks:
                generator.keep_replies(replies)
                generator.spend_from(budget)
                stack.callback(generator.close)
            checks.append(partial(_check_generator, components.get(name), generator))
        for planned in judges.values():
            planned.judge.spend_from(budget)
            checks.append(partial(connect, planned, replies, can_leave_out=config is not None))
            # a judge of the user that judges item by item stays open: it may be used after the run
            if planned.judge.takes_many:
                stack.callback(planned.judge.close)
        make_all(lambda check: check(), checks)
        yield replies


def _check_generator(component: schema.Component | None, generator: Generator) -> None:
    """Check the key, packages and model of a built-in generator; nothing for one of the user."""
    if component is not None and not component.type.startswith(PYTHON):
        with _errors_at(component.place, f"generators.{component.name}"):
            generator.check()


def build_executor(config: schema.ExperimentConfig) -> Executor | None:
    """Return the executor of a config, not started; None if it names none or one without workers.

    Raises:
        ConfigError: It refuses an option.
        AdapterError: It raises one; the place of the entry is added. Other errors pass through.
    """
    component = config.executor
    # `type: local` without workers is the run itself
    executor: Executor | None = None if component is None else _make(component, "")
    return executor if executor is not None and executor.workers else None


def check_startup(
    config: schema.ExperimentConfig,
    retrievers: Mapping[str, Retriever],
    generators: Mapping[str, Generator],
    judges: Mapping[str, PlannedJudge],
) -> None:
    """Check that a run could start, without calling code of the user or loading a model.

    Retrievers are checked for their packages, also if all their hits are stored. Generators are
    closed and marked as models of another process, which load no weights: a run needs new ones.

    Args:
        config: Config with the entries of the components.
        retrievers: Retrievers by name.
        generators: Generators by name.
        judges: Judges by name.

    Raises:
        ConfigError: A key is missing, or a component refuses an option; all such problems together.
        MissingExtra: A package that a component needs is not installed.
        AdapterError: The executor or a component raises one, as for a server that is missing.
        DataError: A model is not in the cache of the hub, and the hub cannot be reached.
    """

    def check_generator(name: str) -> None:
        generators[name].is_elsewhere = True  # its weights are not loaded
        _check_generator(config.generators.get(name), generators[name])
        generators[name].close()

    def check_judge(planned: PlannedJudge) -> None:
        if _is_checked_by_plan(planned):
            connect(planned, None, can_leave_out=True)
            planned.judge.close()

    checks: list[Callable[[], None]] = [
        *(retriever.check for retriever in retrievers.values()),
        *(partial(check_generator, name) for name in generators),
        *(partial(check_judge, planned) for planned in judges.values()),
    ]
    make_all(lambda check: check(), checks)
    if (executor := build_executor(config)) is not None:
        executor.check()


@contextmanager
def stored_replies(
    config: schema.ExperimentConfig, *, retry_failed: bool = False
) -> Iterator[Replies | None]:
    """Open the stored replies of a config to read them; None where a run would read none.

    With `retry_failed`, failed items are asked again, whatever is stored.
    """
    replies = None
    paths = [folder / REPLIES_FILE for folder in (cache_folder(config.cache), *config.cache_also)]
    if paths[0].is_file() and not retry_failed:
        # of a damaged file, which a run sets aside, all calls are counted
        with suppress(errors.DataError):
            replies = Replies(paths[0], also=paths[1:], replay=True)
    with nullcontext() if replies is None else replies:
        yield replies
