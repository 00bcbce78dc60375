"""Names of metrics: `rouge1`, `rouge1.precision`, `bleu.precision2`, a plug-in's."""

from __future__ import annotations

import functools

from ragbench.errors import AdapterError, NotBuiltYet, OptionError
from ragbench.registry import PYTHON, nearest
from ragbench.score.text import METRICS
from ragbench.score.text.base import Declaration, Metric

ALIASES = {"em": "exact_match", "f1": "token_f1", "rougeLSum": "rougeLsum"}
"""Other spellings of a name."""


@functools.lru_cache(maxsize=1024)
def parse_metric(name: str) -> Metric:
    """Read the name of a metric.

    Args:
        name: A metric, an alias, or `python:module:name`; where its result has several fields,
            one of them may follow after a dot.

    Raises:
        OptionError: No such metric or part; names the nearest one.
        NotBuiltYet: The design has it, this version does not.
        AdapterError: A third party's metric that is not declared with `@metric`.

    Example:
        >>> parse_metric("rouge1.recall").part, parse_metric("rouge1").part
        ('recall', 'fmeasure')
    """
    if name in METRICS.planned:
        raise NotBuiltYet(f"metric '{name}' is not built yet in this version")
    base, _, part = (name, "", "") if name.startswith(PYTHON) else name.partition(".")
    base = ALIASES.get(base, base)
    if base in METRICS.planned:
        raise NotBuiltYet(f"metric '{base}' is not built yet in this version")
    if not base.startswith(PYTHON) and base not in METRICS.names():
        names = METRICS.names()
        raise OptionError("metric", "name", name, ", ".join(names), nearest(base, names))
    function = METRICS.load(base)
    declaration = getattr(function, "declaration", None)
    if not isinstance(declaration, Declaration):
        raise AdapterError(f"metric '{name}': {function!r} is not declared with @metric")
    parts = declaration.parts
    if not part:
        return Metric(name, base, parts[0] if parts else "", declaration)
    if part not in parts:
        allowed = ", ".join(f"{base}.{known}" for known in parts) or base
        close = nearest(part, parts)
        raise OptionError("metric", "name", name, allowed, close and f"{base}.{close}")
    return Metric(name, base, part, declaration)
