"""Judges of the user's own: `judge: {type: "python:package.module:Name"}`, or passed from Python.

`Name` is a class or a function that makes a judge (with the options of the YAML), a judge, or a
plain function of the parts of an item, by their names, which is a judge itself.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ragbench.errors import AdapterError, DataError
from ragbench.registry import (
    OwnComponent,
    declared_options,
    has_method,
    nearest,
    option_parameters,
    shown,
    source_print,
)
from ragbench.score.judge.base import NEEDS, Item, Judge, Rubric, known_of
from ragbench.types.scores import Verdict

# What a plain function may take, by name: the parts of an item, and the first reference.
INPUTS = (*(each.name for each in dataclasses.fields(Item)), "reference", "item", "rubric")
_RETURNS = "a number from 0 to 1, (number, reason), True or False, or a Verdict with a score"


class FunctionJudge(Judge):
    """A plain function as a judge: it is given the parts of an item that its parameters name."""

    label = "a function of your own"

    def __init__(self, name: str, function: Callable[..., object], **options: object) -> None:
        self._function, self._bound = function, options
        self._inputs = [each for each in inspect.signature(function).parameters if each in INPUTS]
        self._name, self._options = name, {"code": source_print(function), **options}
        self.own_rubric = rubric_of(function)
        self.served = None if self.own_rubric is None else (str(self.own_rubric["name"]),)

    @property
    def model(self) -> str:
        """The function, by module and name."""
        return self._name

    @property
    def options(self) -> Mapping[str, object]:
        """A hash of its source, and what it is called with."""
        return self._options

    def judge(self, item: Item, rubric: Rubric) -> Verdict:
        """Call the function."""
        more = {"item": item, "rubric": rubric, "reference": next(iter(item.references), None)}
        given = {each: more[each] if each in more else getattr(item, each) for each in self._inputs}
        return read_verdict(self._function(**given, **self._bound))


_CANNOT_LACK = ("judge", "label", "model", "options")


class OwnJudge(OwnComponent, Judge):
    """An object of the user's own as a judge."""

    takes = frozenset(
        (*_CANNOT_LACK, "computes", "missing_key", "judge_all", "ajudge_all", "check", "close")
    )

    def __init__(self, made: Any) -> None:
        super().__init__(made)
        known = known_of(made)
        self.served, self.own_rubric = known.served, known.own_rubric
        self.takes_many = has_method(made, ["judge_all"]) and has_method(made, ["ajudge_all"])


def declared(made: object) -> Judge:
    """Return a judge of which all is known that a run asks."""
    return made if isinstance(made, Judge) else OwnJudge(made)


def refused(made: object) -> str | None:
    """Say what an object lacks that no judge can do without; None where it has it all."""
    if isinstance(made, Judge):
        return None
    lacking = [name for name in _CANNOT_LACK if not hasattr(made, name)]
    if not lacking:
        return None
    return f"has no {', '.join(lacking)}, allowed: an object with {', '.join(_CANNOT_LACK)}"


def read_verdict(value: object) -> Verdict:
    """Turn what a function returned into a verdict.

    Example:
        >>> read_verdict((0.5, "half of it")), read_verdict(True)
        (Verdict(score=0.5, reasoning='half of it'), Verdict(score=1.0, reasoning=''))

    Raises:
        AdapterError: It is no number from 0 to 1, no pair of one and a reason, and no verdict.
    """
    if isinstance(value, Verdict) and (value.score is not None or value.status != "scored"):
        return value
    score: Any  # told apart by the next lines
    score, reason = value if isinstance(value, tuple) and len(value) == 2 else (value, "")
    is_score = isinstance(score, (int, float, np.number, np.bool_)) and 0 <= score <= 1
    if not is_score or not isinstance(reason, str):
        raise AdapterError(f"found {shown(value)}, allowed: {_RETURNS}")
    return Verdict(float(score), reasoning=reason)


def rubric_of(function: Callable[..., object]) -> dict[str, object] | None:
    """Return the rubric of a function that judges in its own way; None where it is given one.

    It has the function's name, and needs what the function cannot do without.

    Example:
        >>> def grounded(answer, contexts, references=()):
        ...     return 1.0
        >>> found = rubric_of(grounded)
        >>> found["name"], found["needs"], found["asks"]
        ('grounded', ['contexts', 'answer'], 'answer')
    """
    parameters = inspect.signature(function).parameters
    if "rubric" in parameters:
        return None
    required = [each.name for each in parameters.values() if each.default is each.empty]
    named = ["reference" if each == "references" else each for each in required]
    needs = [each for each in NEEDS if each in named] or ["answer"]
    about = (("other", "pair"), ("answer", "answer"), ("contexts", "context"), ("queries", "query"))
    return {
        "name": re.sub(r"[^A-Za-z0-9_.-]", "_", name_of(function).rpartition(":")[2]),
        "asks": next((asks for need, asks in about if need in needs), "answer"),
        "needs": needs,
        "scale": {1: "the function returns 0", 2: "the function returns 1"},
    }


def judge_maker(found: Any, name: str = "") -> Any:
    """Return what makes a judge of what the user named or passed; its options are declared.

    A class or function that makes a judge and declares its options is returned as it is. A function
    that cannot do without a part of an item is a judge itself. `name` is how it was named; default:
    its module and name.

    Raises:
        DataError: It is neither a judge nor makes one.
    """
    name = name or name_of(found)
    if not inspect.isclass(found) and callable(getattr(found, "judge", None)):
        return _maker(found, [], lambda: found, is_judge=True)
    if not callable(found):
        allowed = f"a class with judge(item, rubric), or a function of {', '.join(INPUTS)}"
        raise DataError(f"'{name}' is {shown(found)}", allowed=allowed)
    open_ended = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    every = inspect.signature(found).parameters.values()
    parameters = [each for each in every if each.kind not in open_ended]
    required = {each.name for each in parameters if each.default is each.empty}
    judges = not inspect.isclass(found) and not required.isdisjoint(INPUTS)
    if judges and inspect.iscoroutinefunction(found):
        raise DataError(f"'{name}' is an async function", allowed="a plain function")
    options = [each for each in parameters if not (judges and each.name in INPUTS)]
    declared = _declared(found)
    for each in options:
        if not inspect.isclass(found) and each.name in required and each.name not in declared:
            allowed = f"{', '.join(INPUTS)}, and options with a default"
            near = nearest(each.name, INPUTS)
            raise DataError(f"'{name}' takes '{each.name}'", allowed=allowed, nearest=near)
    if judges:
        make = functools.partial(FunctionJudge, name, found)
        return _maker(found, option_parameters(found, options), make, is_judge=True)
    if all(each.name in declared for each in options):
        return found
    return _maker(found, option_parameters(found, options), found)


def _declared(found: object) -> Collection[str]:
    try:
        return declared_options(found)
    except (NameError, TypeError, ValueError):  # annotations that only a type checker can resolve
        return ()


def _maker(
    found: Any,
    options: Sequence[inspect.Parameter],
    make: Callable[..., object],
    *,
    is_judge: bool = False,
) -> Callable[..., object]:
    """What makes a judge, with all that is looked at before one is made."""

    def maker(**chosen: object) -> object:
        return make(**chosen)

    maker.__module__, maker.__name__ = str(getattr(found, "__module__", "")), name_of(found)
    maker.__annotations__ = {each.name: each.annotation for each in options}
    known = dataclasses.replace(known_of(found), is_judge=is_judge)
    if inspect.isroutine(found) and is_judge and (own := rubric_of(found)):
        known = dataclasses.replace(known, own_rubric=own, served=(str(own["name"]),))
    maker.__dict__ |= {"__signature__": inspect.Signature([*options]), "known": known}
    return maker


def name_of(found: object) -> str:
    """Return module and name of a function or class; of anything else those of its class."""
    if isinstance(found, functools.partial):
        return name_of(found.func)
    named = found if hasattr(found, "__qualname__") else type(found)
    return f"{named.__module__}:{named.__qualname__}"
