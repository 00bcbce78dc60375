"""What stands for the user's own components where nothing of theirs is called.

`validate` and `plan` import the modules that a config names, look names up and hold options against
signatures. A class or factory of the user's may embed a corpus or connect to a database: it is
called when a run begins.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from ragbench.config.components import indexes
from ragbench.config.schema import Component, ExperimentConfig, JudgeBlock
from ragbench.errors import AdapterError
from ragbench.experiment.plan.records import PlannedJudge
from ragbench.generate.python import APP_METHODS, GENERATOR_METHODS
from ragbench.registry import PYTHON, has_method
from ragbench.rerank.base import RERANKER_METHODS
from ragbench.retrieve.base import Retriever
from ragbench.retrieve.python import RETRIEVER_METHODS
from ragbench.score.judge.base import Item, Judge, Rubric, known_of
from ragbench.types import Prediction
from ragbench.types.scores import Verdict

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


class UncalledApp:
    """An app that is never asked."""

    is_opaque = True

    def __init__(self, component: Component) -> None:
        require_method(component, "app")

    def answer(self, question: str) -> Prediction:
        """Refuse: a plan asks no component."""
        raise AssertionError("a plan asks no app")


class UncalledJudge(Judge):
    """A judge of which only its entry and its class are known."""

    label = model = "not made before a run"

    def __init__(self, block: JudgeBlock) -> None:
        known = known_of(block.cls)
        self.served, self.own_rubric = known.served, known.own_rubric

    def judge(self, item: Item, rubric: Rubric) -> Verdict:
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
        made = judge.type.startswith(PYTHON) and not known_of(judge.cls).is_judge
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
