"""Judges in a user's code: `judge: {type: "python:package.module:Name"}`, or passed from Python.

`Name` is a class or function that creates a judge from the options of the YAML, a ready judge, or
a plain function whose parameters are parts of an item, such as `answer`: it is a judge itself.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ragbench import registry
from ragbench.errors import AdapterError, DataError
from ragbench.score.judge.base import NEEDS, JudgedItem, Rubric, RubricJudge, judge_facts
from ragbench.score.judge.grounding import best_verdict
from ragbench.types.lookups import find_key
from ragbench.types.scores import Verdict

# Parameters that a plain function may have: parts of an item, one reference, item, rubric.
_PARTS = [part.name for part in dataclasses.fields(JudgedItem) if part.name != "first_reply"]
INPUTS = (*_PARTS, "reference", "item", "rubric")
_RETURNS = "a number from 0 to 1, (number, reason), True or False, or a Verdict with a score"


def takes_item(function: Callable[..., Any]) -> bool:
    """Return True if a function judges items: a parameter is a part that only items have.

    A function of a chat model may take a `question`, too.

    Example:
        >>> takes_item(lambda answer: 1), takes_item(lambda messages: "Hello")
        (True, False)
    """
    return bool({*inspect.signature(function).parameters} & {*INPUTS} - {"question"})


class FunctionJudge(RubricJudge):
    """Plain function as a judge: its parameters name the parts of an item that it receives.

    Other keyword parameters are options. A function without a parameter `rubric` has one rubric,
    under its own name, in `own_rubric` and `served`; it is asked by no other. `judge_maker` makes
    it.

    `name` is the `module:name` of the function, and `options` are passed to each call. `judge`
    returns the verdict of a call. It raises AdapterError for a result that is no score from 0 to 1;
    errors of the function are passed on. A function with a parameter `rubric` judges by any rubric.
    """

    label = "a function of your own"

    def __init__(self, name: str, function: Callable[..., object], **options: object) -> None:
        self._function, self._bound = function, options
        self._inputs = [name for name in inspect.signature(function).parameters if name in INPUTS]
        self._name, self._options = name, {"code": registry.source_print(function), **options}
        self.own_rubric = rubric_of(function)
        self.served = None if self.own_rubric is None else (str(self.own_rubric["name"]),)

    @property
    def model(self) -> str:
        """Name of the function as given: `module:name`."""
        return self._name

    @property
    def options(self) -> Mapping[str, object]:
        """Options that the function is called with, and `code`, a hash of its source."""
        return self._options

    def judge(self, item: JudgedItem, rubric: Rubric) -> Verdict:
        """Call the function and return its result as a verdict.

        Errors of the function are passed on. A part that the item lacks is None or empty. A
        function of `reference` is called once per reference, and the best verdict counts; one of
        `references` gets all. `rubric` is passed if the function has such a parameter.

        Raises:
            AdapterError: The function returned no score, verdict or pair of score and reason.
        """
        references: Sequence[str | None] = [None]
        if "reference" in self._inputs and item.references:
            references = item.references
        verdicts = [self._call(item, rubric, reference) for reference in references]
        return best_verdict(rubric, verdicts)

    def _call(self, item: JudgedItem, rubric: Rubric, reference: str | None) -> Verdict:
        more = {"item": item, "rubric": rubric, "reference": reference}
        inputs = {}
        for name in self._inputs:
            inputs[name] = more.get(name, getattr(item, name, None))
        return read_verdict(self._function(**inputs, **self._bound))


# Members without which an object is no judge.
_REQUIRED = ("judge", "label", "model", "options")
_OPTIONAL = (
    "computes",
    "missing_key",
    "judge_all",
    "ajudge_all",
    "check",
    "close",
    "same_results",
)


class OwnJudge(registry.OwnComponent, RubricJudge):
    """User's object as a judge: its members replace those of the protocol.

    `as_judge` makes it; the object is not checked. A member that it lacks has the default of
    `RubricJudge`. `judge_all` counts only together with `ajudge_all`. Errors of its methods are
    passed on.
    """

    takes = frozenset((*_REQUIRED, *_OPTIONAL))

    def __init__(self, judge: Any) -> None:
        super().__init__(judge)
        facts = judge_facts(judge)
        self.served, self.own_rubric = facts.served, facts.own_rubric
        # both or none: one alone would judge in one way here and in another in a running loop
        self.takes_many = registry.has_method(judge, ["judge_all"]) and registry.has_method(
            judge, ["ajudge_all"]
        )


def as_judge(judge: object) -> RubricJudge:
    """Return a judge with all members of the protocol; wrap an object that does not inherit it.

    The object is not checked: see `missing_members`.
    """
    return judge if isinstance(judge, RubricJudge) else OwnJudge(judge)


def missing_members(judge: object) -> str | None:
    """Return a message on the required members that an object lacks; None if it has all.

    They are `judge`, `label`, `model` and `options`; the last three have to be of their type. The
    message is the end of a sentence: `has no label, allowed: ...`. A subclass of `RubricJudge` has
    all of them.
    """
    if isinstance(judge, RubricJudge):
        return None
    names = []
    for name in _REQUIRED:
        if not hasattr(judge, name):
            names.append(name)
    if names:
        return f"has no {', '.join(names)}, allowed: an object with {', '.join(_REQUIRED)}"
    for name, kind, allowed in (
        ("label", str, "text"),
        ("model", str, "text"),
        ("options", Mapping, "a mapping"),
    ):
        if not isinstance(value := getattr(judge, name), kind):
            return f"has the {name} {registry.quote(value)}, allowed: {allowed}"
    return None


def read_verdict(value: object) -> Verdict:
    """Return the verdict of a function's result: a score, (score, reason), or a `Verdict`.

    NumPy numbers count too, NaN does not. A `Verdict` is returned as it is.

    Example:
        >>> read_verdict((0.5, "half of it")), read_verdict(True)
        (Verdict(score=0.5, reasoning='half of it'), Verdict(score=1.0, reasoning=''))

    Raises:
        AdapterError: The result has another form, a score outside 0..1, or is a `Verdict` with
            such a score, or with status `scored` and no score.
    """
    if isinstance(value, Verdict):
        if _is_score(value.score) or (value.score is None and value.status != "scored"):
            return value
        problem = f"found a Verdict with score {registry.quote(value.score)}"
        raise AdapterError(f"{problem}, allowed: {_RETURNS}")
    score: Any  # told apart by the next lines
    score, reason = value if isinstance(value, tuple) and len(value) == 2 else (value, "")
    if not _is_score(score) or not isinstance(reason, str):
        raise AdapterError(f"found {registry.quote(value)}, allowed: {_RETURNS}")
    return Verdict(float(score), reasoning=reason)


def _is_score(value: Any) -> bool:
    # NumPy numbers too: a function may average with NumPy
    return isinstance(value, (int, float, np.number, np.bool_)) and bool(0 <= value <= 1)


def rubric_of(function: Callable[..., object]) -> dict[str, object] | None:
    """Return the keys of the rubric that a function stands for; None if it takes a `rubric`.

    The keys are `name`, `asks`, `needs` and `scale`, which has two levels. The rubric has the
    function's qualified name and needs its required parameters. It judges a pair if the function
    requires `other`, else the answer, the passages or the queries, in this order. Signs that names
    cannot have become `_`; a function without required parts needs the answer.

    Example:
        >>> def grounded(answer, contexts, references=()):
        ...     return 1.0
        >>> rubric = rubric_of(grounded)
        >>> rubric["name"], rubric["needs"], rubric["asks"]
        ('grounded', ['contexts', 'answer'], 'answer')
    """
    parameters = inspect.signature(function).parameters
    if "rubric" in parameters:
        return None
    required = []
    for parameter in parameters.values():
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    parts = ["reference" if name == "references" else name for name in required]
    needs = [need for need in NEEDS if need in parts] or ["answer"]
    asks = {"other": "pair", "answer": "answer", "contexts": "context", "queries": "query"}
    return {
        "name": re.sub(r"[^A-Za-z0-9_.-]", "_", name_of(function).rpartition(":")[2]),
        "asks": asks[find_key(needs, asks) or "answer"],
        "needs": needs,
        "scale": {1: "the function returns 0", 2: "the function returns 1"},
    }


def judge_maker(target: Any, name: str = "") -> Any:
    """Return a factory of judges for a user's class, object or function, with declared options.

    Called with the options as keywords, it returns the user's object or a `FunctionJudge`; errors
    of the user's code are passed on then.

    A class or function that declares its options is returned unchanged: it is the factory itself.
    A function that requires a part of an item as a parameter is a judge itself. `name` is the
    user's name of the target in messages; by default its module and name. For an object with
    `judge` the factory returns the object itself.

    Raises:
        DataError: The target is neither a judge nor a factory, is async, or requires unknown
            parameters.
    """
    name = name or name_of(target)
    if not inspect.isclass(target) and callable(getattr(target, "judge", None)):
        return _maker(target, [], lambda: target, is_judge=True)
    if not callable(target):
        allowed = f"a class with judge(item, rubric), or a function of {', '.join(INPUTS)}"
        raise DataError(f"'{name}' is {registry.quote(target)}", allowed=allowed)
    open_ended = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    signature = inspect.signature(target)
    parameters, required = [], set()
    for parameter in signature.parameters.values():
        if parameter.kind not in open_ended:
            parameters.append(parameter)
            if parameter.default is parameter.empty:
                required.add(parameter.name)
    is_judge = not inspect.isclass(target) and not required.isdisjoint(INPUTS)
    if is_judge and inspect.iscoroutinefunction(target):
        raise DataError(f"'{name}' is an async function", allowed="a plain function")
    options = [p for p in parameters if not (is_judge and p.name in INPUTS)]
    declared = _declared_options(target)
    # a class may require options: the YAML gives them, and a missing one is reported there
    if not inspect.isclass(target):
        _check_options(name, options, declared)
    if is_judge:
        make = functools.partial(FunctionJudge, name, target)
        return _maker(target, registry.option_parameters(target, options), make, is_judge=True)
    if all(option.name in declared for option in options):
        return target
    return _maker(target, registry.option_parameters(target, options), target)


def _check_options(
    name: str, options: Sequence[inspect.Parameter], declared: Collection[str]
) -> None:
    """Raise a `DataError` for a required parameter that is no declared option."""
    for option in options:
        if option.default is option.empty and option.name not in declared:
            allowed = f"{', '.join(INPUTS)}, and options with a default"
            near = registry.nearest(option.name, INPUTS)
            raise DataError(f"'{name}' takes '{option.name}'", allowed=allowed, nearest=near)


def _declared_options(target: object) -> Collection[str]:
    try:
        return registry.declared_options(target)
    except (NameError, TypeError, ValueError):  # annotations that only a type checker can resolve
        return ()


def _maker(
    target: Any,
    options: Sequence[inspect.Parameter],
    make: Callable[..., object],
    *,
    is_judge: bool = False,
) -> Callable[..., object]:
    """Return a factory that calls `make`, with the name, options and facts of the target."""
    # Validation and `ragbench list` read name, signature and `judge_facts` off the factory before
    # any judge is created.

    def maker(**chosen: object) -> object:
        return make(**chosen)

    maker.__module__, maker.__name__ = str(getattr(target, "__module__", "")), name_of(target)
    maker.__annotations__ = {option.name: option.annotation for option in options}
    facts = dataclasses.asdict(judge_facts(target)) | {"is_judge": is_judge}
    if inspect.isroutine(target) and is_judge and (rubric := rubric_of(target)):
        facts |= {"own_rubric": rubric, "served": (rubric["name"],)}
    # `inspect.signature` reads the options of the target off `__signature__`
    maker.__dict__ |= {"__signature__": inspect.Signature([*options]), **facts}
    return maker


def name_of(target: object) -> str:
    """Return `module:name` of a function or class; of any other object, of its class.

    A partial has the name of its function.
    """
    if isinstance(target, functools.partial):
        # a partial has no name; that of its function says more
        return name_of(target.func)
    definition = target if hasattr(target, "__qualname__") else type(target)
    return f"{definition.__module__}:{definition.__qualname__}"
