"""Scores from functions that a program passes as `metrics`, in place of their names."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ragbench.errors import OptionError
from ragbench.registry import default_options, source_print
from ragbench.score.retrieval import MEASURES
from ragbench.score.retrieval.base import plain_measure, spec_of
from ragbench.score.retrieval.notation import Measure, parse_measure
from ragbench.score.text import METRICS
from ragbench.score.text.base import Declaration, Metric, declaration_of, plain_metric

_ALLOWED = (
    "a function (prediction), (prediction, references) or (retrieved, judged), one of @rb.metric "
    "or @rb.measure; a judge is judge=rb.Judge(type=function)"
)


# one object per function: scorers group metrics by the identity of the declaration
@functools.cache
def score_of_function(function: Callable[..., Any]) -> str | Metric | Measure:
    """Return the score of a function: the name of a built-in one, or its metric or measure.

    `rb.token_f1` is `token_f1`. A function of `@rb.metric` or `@rb.measure` has the name of its
    declaration, a plain function its own; one with the parameters `retrieved` and `judged` is a
    measure.

    Raises:
        OptionError: The function takes other arguments, has no name, or the name of a built-in
            score; or a function of ragbench computes several scores.
    """
    if (getattr(function, "__module__", "") or "").startswith("ragbench."):
        return _built_in(function)
    declaration, spec = declaration_of(function), spec_of(function)
    if spec is not None:
        return Measure(_own_name(spec.name), spec.name, spec, function, {})
    if declaration is not None:
        if len(declaration.names) != 1:
            raise OptionError("evaluate", "metrics", function.__name__, "a metric of one name")
        # equal names of unlike functions must not be compared
        coded = replace(declaration, facts={"code": source_print(declaration.function)})
        return _metric(_own_name(declaration.names[0]), coded)
    name, parameters = _own_name(function.__name__), [*inspect.signature(function).parameters]
    if parameters[:2] == ["retrieved", "judged"]:
        kernel = plain_measure(name, function)
        return Measure(name, name, kernel.__dict__["measure_spec"], kernel, {})
    # a function of these decides on an answer, as a judge does
    if {"question", "contexts"} & {*parameters}:
        raise OptionError("evaluate", "metrics", name, _ALLOWED)
    return _metric(name, plain_metric(name, function))


def _built_in(function: Callable[..., Any]) -> str | Measure:
    """Return the name of the score that a function of ragbench computes."""
    name, declaration = function.__name__, declaration_of(function)
    if declaration is None:
        # over the whole ranking: `f1` alone is a metric of texts
        try:
            return replace(parse_measure(f"{name}@all"), label=name)
        except OptionError as error:
            allowed = f"a measure of whole rankings, or its name with a cut-off: '{name}@10'"
            raise OptionError("evaluate", "metrics", name, allowed) from error
    if name in declaration.names:
        return name
    allowed = f"the name of one: {', '.join(declaration.names)}"
    raise OptionError("evaluate", "metrics", name, allowed)


def _own_name(name: str) -> str:
    """Return the name of a user's score; raise an `OptionError` for one that is taken or none."""
    if not name.isidentifier():
        raise OptionError("evaluate", "metrics", name, "a function with a name")
    if name in METRICS.names() or name in MEASURES.names():
        raise OptionError("evaluate", "metrics", name, "another name than that of a built-in score")
    return name


def _metric(name: str, declaration: Declaration) -> Metric:
    """Return a metric with the options of its declaration at their defaults."""
    options = default_options(declaration.function)
    part = declaration.parts[0] if declaration.parts else ""
    return Metric(name, name, part, options, {}, declaration)
