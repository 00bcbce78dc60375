"""From entries of the config, or live objects, to retrievers, generators and judges."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, TypeVar

from ragbench.config.components import indexes
from ragbench.config.schema import (
    PYTHON_TIMEOUT,
    Component,
    ExperimentConfig,
    JudgeBlock,
    NamedMetric,
)
from ragbench.data.files.judgements import read_nuggets
from ragbench.embed.base import Encodings
from ragbench.errors import (
    AdapterError,
    ConfigError,
    DataError,
    MissingExtra,
    OptionError,
    Place,
    Problem,
    RagbenchError,
)
from ragbench.executors.base import Executor
from ragbench.experiment.calls import Calls
from ragbench.experiment.plan.records import PlannedJudge
from ragbench.files import cache_folder
from ragbench.generate.base import Generator
from ragbench.generate.python import APP_METHODS, GENERATOR_METHODS, as_app, as_generator
from ragbench.generate.python import declared as declared_generator
from ragbench.llm import Budget, Replies
from ragbench.registry import PYTHON, has_method
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
from ragbench.types.packed_documents import ids_of
from ragbench.types.scores import Verdict

T = TypeVar("T")
Made = TypeVar("Made")


class Reranked(Retriever):
    """A reranker as a retriever over the one whose hits it orders."""

    def __init__(self, reranker: Reranker, retriever: str, depth: int | None) -> None:
        self.reranker, self.sources, self.depth = reranker, (retriever,), depth
        self.asks_one_by_one = reranker.asks_one_by_one
        self.computes = reranker.computes

    @property
    def notes(self) -> Sequence[str]:
        """What the reranker says of the hits that it ordered."""
        return self.reranker.notes

    @property
    def encodings(self) -> Encodings | None:
        """How many texts the reranker has had encoded so far."""
        return self.reranker.encodings

    def load(self) -> None:
        """Let the reranker get ready."""
        self.load_inner(self.reranker)

    def combine(self, queries: Sequence[Query], rankings: Rankings, top_k: int) -> Any:
        """Order the hits of the one source."""
        return self.reranker.rerank(queries, rankings[0], top_k)


# What stands for the user's own components where nothing of theirs is called: `validate` and `plan`
# import the modules that a config names, look names up and hold options against signatures. A class
# or factory of the user's may embed a corpus or connect to a database: it is called when a run
# begins.
_METHODS = {
    "retriever": RETRIEVER_METHODS,
    "reranker": RERANKER_METHODS,
    "generator": GENERATOR_METHODS,
    "app": APP_METHODS,
}


def calls_code(component: Component | None) -> bool:
    """Whether to make a component calls code that is not ours: a class or factory of the user's."""
    if component is None:
        return False
    if component.type.startswith(PYTHON):
        made = inspect.isclass(component.cls)  # objects and functions are taken as they are
    else:
        made = not _is_ours(component.cls)
    splits = component.chunk is not None and component.chunk.code is not None
    return made or splits or component.options.get("factory") is not None


class UncalledRetriever(Retriever):
    """A retriever of which only its entry and its class are known."""

    def __init__(self, component: Component) -> None:
        reranks = component.retriever is not None
        require_method(component, "reranker" if reranks else "retriever")
        self.sources = () if component.retriever is None else (component.retriever,)
        self.depth = component.depth if reranks else None
        self.indexes = not reranks and (component.chunk is not None or indexes(component.cls))


class UncalledJudge(RubricJudge):
    """A judge of which only its entry and its class are known."""

    label = model = "not made before a run"

    def __init__(self, block: JudgeBlock) -> None:
        known = judge_facts(block.cls)
        self.served, self.own_rubric = known.served, known.own_rubric

    def judge(self, item: JudgedItem, rubric: Rubric) -> Verdict:
        """Refuse: a plan asks no component."""
        raise AssertionError("a plan asks no judge")


def require_method(component: Component, kind: str) -> None:
    """Refuse a class whose objects could not be asked; one that makes its methods up may be."""
    cls, names = component.cls, _METHODS[kind]
    if not component.type.startswith(PYTHON) or hasattr(cls, "__getattr__"):
        return
    # a class is callable itself, so that `__call__` is looked for where it is defined
    calls = not inspect.isclass(cls) or any("__call__" in vars(b) for b in inspect.getmro(cls))
    if not calls and not has_method(cls, names):
        found = f"found {component.type.removeprefix(PYTHON)}"
        raise AdapterError(f"{kind} '{component.name}': {found}, allowed: a class with {names[0]}")


def uncalled_components(config: ExperimentConfig) -> Iterator[str]:
    """Name the components of a config that call code which is not ours when they are made."""
    blocks = {"retriever": config.retrievers, "generator": config.generators, "app": config.apps}
    for noun, block in blocks.items():
        for name, component in block.items():
            if calls_code(component):
                code = component.options.get("factory") or component.type.removeprefix(PYTHON)
                if component.chunk is not None and component.chunk.code is not None:
                    code = component.chunk.code
                yield f"{noun} '{name}' ({code})"
    for name, judge in (config.metrics.judges or {}).items():
        made = judge.type.startswith(PYTHON) and not judge_facts(judge.cls).is_judge
        code = judge.type.removeprefix(PYTHON) if made else judge.options.get("factory")
        if code is not None:
            yield f"judge '{name}' ({code})"


def loads_by_code(config: ExperimentConfig) -> bool:
    """Whether the data set of a config comes from code that is not ours."""
    return not _is_ours(config.dataset.cls)


def judge_calls_code(planned: PlannedJudge) -> bool:
    """Whether a judge calls a factory of the user's before its first question."""
    block = planned.block
    return block.options.get("factory") is not None or not _is_ours(block.cls)


def _is_ours(component: object) -> bool:
    """Whether a class is built in; what packages register is not."""
    return str(getattr(component, "__module__", "")).partition(".")[0] == "ragbench"


def build_retriever(
    name: str, component: Component | None, live: Any, *, calls: bool = True
) -> Retriever:
    """Create a retriever from its entry, or adapt a live object.

    Args:
        name: Name of the retriever in the config, for messages.
        component: Entry of the retriever or reranker; None adapts `live`.
        live: Object that a caller passed in place of an entry.
        calls: False returns an `UncalledRetriever` where `calls_code` holds.

    Raises:
        ConfigError: A built-in retriever or its chunker refuses an option.
        AdapterError: Code of the user's fails, or returns no retriever.
    """
    if component is not None and not calls and calls_code(component):
        return UncalledRetriever(component)
    if component is not None and component.retriever is not None:
        reranker = _build(name, component, live, "reranker", as_reranker)
        return Reranked(to_reranker(reranker), component.retriever, component.depth)
    retriever = _build(name, component, live, "retriever", as_retriever)
    if component is None or component.chunk is None:
        return to_retriever(retriever)
    with _errors_at(component.place, f"retrievers.{name}"):
        return with_chunks(retriever, component.chunk)


def build_generator(
    name: str, component: Component | None, live: Any, *, calls: bool = True
) -> Generator:
    """Create a generator from its entry, or adapt a live object.

    Args:
        name: Name of the generator in the config, for messages.
        component: Entry of the generator; None adapts `live`.
        live: Object that a caller passed in place of an entry.
        calls: False returns a `Generator` without answers where `calls_code` holds.

    Raises:
        ConfigError: A built-in generator refuses an option, or that many samples.
        AdapterError: Code of the user's fails, or returns no generator.
    """
    if component is not None and not calls and calls_code(component):
        require_method(component, "generator")
        return Generator()
    generator = declared_generator(_build(name, component, live, "generator", as_generator))
    if component is not None and not component.type.startswith(PYTHON):
        with _errors_at(component.place, f"generators.{name}"):
            generator.check_samples(component.samples)
    return generator


def build_app(name: str, component: Component | None, live: Any, *, calls: bool = True) -> Any:
    """Create a whole app from its entry, or adapt a live object.

    Args:
        name: Name of the app in the config, for messages.
        component: Entry of the app; None adapts `live`.
        live: Object that a caller passed in place of an entry.
        calls: False returns an object that cannot answer where `calls_code` holds.

    Raises:
        ConfigError: A built-in app refuses an option.
        AdapterError: Code of the user's fails, or returns no app.
    """
    if component is not None and not calls and calls_code(component):
        require_method(component, "app")
        return SimpleNamespace(is_opaque=True)  # all that a plan reads of an app
    return _build(name, component, live, "app", as_app)


def _build(
    name: str,
    component: Component | None,
    live: Any,
    noun: str,
    adapt: Callable[[Any, Mapping[str, Any], str], Any],
) -> Any:
    """Create a component: built in, or adapted from the user's class, function or live object."""
    if component is None:
        return adapt(live, {}, f"{noun} '{name}'")
    if component.type.startswith(PYTHON):
        return adapt(component.cls, component.options, f"{noun} '{name}'")
    # rerankers stand among the retrievers of a config
    return _make(component, "retrievers" if noun == "reranker" else f"{noun}s")


def _make(component: Component, kind: str) -> Any:
    """Create a built-in component; `kind` is the block of the config that has its entry.

    Raises:
        ConfigError: The component refuses an option; the error names the place of the entry.
        AdapterError: Another error of the component, with the place of the entry.
    """
    # the executor stands at the top of the config, in no block
    path, place = f"{kind}.{component.name}".lstrip("."), component.place
    try:
        with _errors_at(place, path):
            return component.cls(**component.options)
    except AdapterError as error:  # it knows its type, not its name
        where = "" if place.file is None else f"{place.file}:{place.line}: "
        raise AdapterError(f"{where}{path}: {error}") from error


def make_all(make: Callable[[T], Made], entries: Iterable[T]) -> list[Made]:
    """Make a component from each entry; collect the problems of all entries in one error."""
    components, problems, subject = [], list[Problem](), ""
    for entry in entries:
        try:
            components.append(make(entry))
        except ConfigError as error:
            problems += error.problems
            subject = error.subject
    if problems:
        raise ConfigError(problems, subject)
    return components


def checked_metric(named: NamedMetric) -> Metric:
    """Return a metric that can be computed here.

    Raises:
        ConfigError: The metric refuses an option.
        MissingExtra: A package that it needs is not installed.
    """
    with _errors_at(named.place, named.metric.name):
        named.metric.check()
    return named.metric


@contextmanager
def _errors_at(place: Place, path: str) -> Iterator[None]:
    """Turn an `OptionError` into a `ConfigError` at the place of an entry, whose path is `path`."""
    try:
        yield
    except OptionError as error:
        full_path = f"{path}.{error.option}"
        problem = place.problem(f"found {error.found!r}", full_path, error.allowed, error.nearest)
        raise ConfigError([problem], place.file or "the config") from error


def build_judge(block: JudgeBlock, *, calls: bool = True) -> PlannedJudge:
    """Make a judge and load its rubrics; see `calls_code` for `calls`."""
    is_own = block.type.startswith(PYTHON)
    try:
        with _errors_at(block.place, _path_of(block)):
            made = UncalledJudge(block) if is_own and not calls else block.cls(**block.options)
    # the user's own code may raise anything
    except Exception as error:
        if not is_own or isinstance(error, RagbenchError):
            raise
        found = f"{_path_of(block)}: {block.type}: {type(error).__name__}: {error}"
        raise AdapterError(found) from error
    if (why := missing_members(made)) is not None:
        raise AdapterError(f"{_path_of(block)}: {block.type} {why}")
    judge = as_judge(made)
    rubrics = load_rubrics(block.rubrics, block.type, judge)
    of_pairs = [rubric for rubric in rubrics if rubric.method == "pairwise"]
    of_each = [rubric for rubric in rubrics if rubric.method != "pairwise"]
    nuggets = None if block.nuggets is None else read_nuggets(Path(block.nuggets))
    return PlannedJudge(block.type, judge, of_each, of_pairs, block, nuggets)


def doubtful_nuggets(name: str, planned: PlannedJudge, queries: Sequence[Query]) -> list[str]:
    """Say what does not fit of the nuggets that were given to a judge; a sentence each.

    Raises:
        ConfigError: Their file has none for any of the queries.
    """
    given, found = planned.nuggets, []
    if given is None:
        return []
    names = ids_of(queries)
    lacking = sum(not given.get(name) for name in names)
    unknown = list(given.keys() - frozenset(names))
    if lacking == len(queries):
        other = f", such as '{min(unknown)}'" if unknown else ""
        block = planned.block
        problem = block.place.problem(
            f"none of its {len(given)} queries{other}, has nuggets and is in the data set",
            f"{_path_of(block)}.nuggets",
            f"qid of a query, such as '{names[0]}' (file: {block.nuggets})",
        )
        raise ConfigError([problem], block.place.file or "the config")
    if lacking or unknown:
        more = f"; {len(unknown)} of {len(given)} queries of the file are not in the data set"
        found.append(
            f"judge {name}: {lacking} of {len(queries)} queries have no nuggets in the file, and "
            f"no score over nuggets{more if unknown else ''}"
        )
    if any(nugget.assignment for nuggets in given.values() for nugget in nuggets):
        found.append(
            f"judge {name}: the nuggets of the file are assigned to other answers: their "
            "assignments are not read, the judge makes its own"
        )
    return found


def connect(planned: PlannedJudge, replies: Replies | None) -> None:
    """Let a judge see that nothing is missing; what is in the way is an error at its entry."""
    judge, block = planned.judge, planned.block
    judge.keep_replies(replies)
    with _errors_at(block.place, _path_of(block)):
        judge.check()


def _path_of(block: JudgeBlock) -> str:
    return "metrics.judge" if block.name is None else f"metrics.judge.{block.name}"


def calls_of(noun: str, name: str, component: Component | None) -> Calls:
    """Return how a component is called; code that we cannot see gets a time limit."""
    owner = f"{noun} '{name}'"
    if component is None:
        return Calls(owner, PYTHON_TIMEOUT)
    return Calls(owner, component.timeout, component.concurrency)


@contextmanager
def connected(
    judges: Mapping[str, PlannedJudge],
    config: ExperimentConfig | None = None,
    generators: Mapping[str, Generator] = MappingProxyType({}),
    *,
    replay: bool = False,
    budget: Budget | None = None,
) -> Iterator[Replies | None]:
    """Connect judges and generators to servers and stored replies for as long as a run takes.

    Yields the stored replies of the config's cache, from which its secrets are kept, or those of
    the default cache; None where no model is asked.
    """
    cache, also = (None, ()) if config is None else (config.cache, config.cache_also)
    secrets = {} if config is None else config.secrets
    components = {} if config is None else config.generators
    with ExitStack() as stack:
        replies = None
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
            component = components.get(name)
            if component is not None and not component.type.startswith(PYTHON):
                with _errors_at(component.place, f"generators.{name}"):
                    generator.check()
        for planned in judges.values():
            planned.judge.spend_from(budget)
            connect(planned, replies)
            # an object of the user's that judges one by one may be used again after the run
            if planned.judge.takes_many:
                stack.callback(planned.judge.close)
        yield replies


def build_executor(config: ExperimentConfig) -> Executor | None:
    """Make the executor of a config that has one with workers."""
    component = config.executor
    executor: Executor | None = None if component is None else _make(component, "")
    return None if executor is None or executor.where is None else executor


def startup_problems(
    generators: Mapping[str, Generator], judges: Mapping[str, PlannedJudge]
) -> Iterator[str]:
    """Say why a run would not start with its generators and judges, as far as is known."""
    for name, generator in generators.items():
        if generator.missing_key is not None:
            yield f"generator '{name}' needs a key: {generator.missing_key} is not set"
    for name, planned in judges.items():
        if planned.judge.missing_key is not None:
            yield f"judge '{name}' needs a key: {planned.judge.missing_key} is not set"
        elif planned.judge.takes_many and not judge_calls_code(planned):
            try:
                connect(planned, None)
            except (MissingExtra, AdapterError, DataError) as error:
                yield str(error)
            else:
                planned.judge.close()
