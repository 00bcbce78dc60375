"""Parser of metric names: `rouge1`, `rouge1(stemmer=true).recall`, `bleu.precision2`."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from itertools import chain

from ragbench.errors import OptionError
from ragbench.registry import PYTHON, declared_options, default_options, nearest
from ragbench.score.base import read_options, split_options
from ragbench.score.text import GROUPS, METRICS
from ragbench.score.text.base import Metric, declaration_of, plain_metric
from ragbench.score.text.pass_rate import parse_pass

# Other spellings of a name.
ALIASES = {
    "em": "exact_match",
    "f1": "token_f1",
    "rougeLSum": "rougeLsum",
    "chrfpp": "chrf++",
    "corpus_bleu": "bleu.corpus",
    "corpus_chrf": "chrf.corpus",
    "corpus_ter": "ter.corpus",
}

_FORM = re.compile(r"(?P<name>[^()]*)(?:\((?P<options>.*)\)(?:\.(?P<part>\w+))?)?", re.DOTALL)


def parse_metric(name: str | Metric) -> Metric:
    """Return the metric of a name; a `Metric` is returned unchanged.

    A name is a metric, an alias, or `python:module:name`, then options in parentheses, then a dot
    and a field of the result if it has several. Option values with a comma or a parenthesis need
    quotes: `bertscore(model="models/a, b")`. White space around the name is ignored. Packages and
    models of the metric are not looked up: see `Metric.check`.

    Raises:
        OptionError: The metric or a part of its name does not exist, or a function takes other
            arguments than a metric.
        DataError: The code of `python:module:name` cannot be imported.

    Example:
        >>> parse_metric("rouge1.recall").part, parse_metric("rouge1").part
        ('recall', 'fmeasure')
        >>> parse_metric("bleu( smooth=floor, max_order=4 )").canonical
        'bleu(smooth=floor)'
    """
    if isinstance(name, Metric):
        return name
    # a module of the user may be loaded again, as in a notebook
    return _parse(name) if name.strip().startswith(PYTHON) else _parse_known(name)


def _parse(name: str) -> Metric:
    """Return the metric of a name."""
    if (metric := parse_pass(name)) is not None:
        return metric
    match = _FORM.fullmatch(name.strip())
    if match is None:
        raise OptionError("metric", "name", name, "a name such as rouge1(stemmer=true).recall")
    base, dotted = _split_part(match["name"].rstrip())
    if match["part"] and dotted:
        raise OptionError("metric", "name", name, "one part, after the options")
    part = match["part"] or dotted
    function = METRICS.load(base)
    declaration = declaration_of(function) or plain_metric(base, function)
    declared = declared_options(declaration.function)
    chosen = read_options(base, split_options(match["options"] or ""), declared)
    options = default_options(declaration.function) | chosen
    parts = declaration.parts
    if part and part not in parts:
        allowed = ", ".join(f"{base}.{part_name}" for part_name in parts) or base
        close = nearest(part, parts)
        raise OptionError("metric", "name", name, allowed, close and f"{base}.{close}")
    return Metric(name, base, part or (parts[0] if parts else ""), options, chosen, declaration)


_parse_known = functools.lru_cache(maxsize=1024)(_parse)


def parse_metrics(name: str) -> Metric | list[Metric]:
    """Return the metric of a name, or the metrics of a group such as `abstention`, in its order.

    A group has no options.

    Raises:
        OptionError: The metric, a field or an option does not exist, or has a wrong value.
        DataError: The code of `python:module:name` cannot be imported.

    Example:
        >>> [metric.name for metric in parse_metrics("abstention")][:2]
        ['abstention.precision', 'abstention.recall']
    """
    group = GROUPS.get(name.strip())
    return parse_metric(name) if group is None else [*map(parse_metric, group)]


def _split_part(text: str) -> tuple[str, str]:
    """Return the canonical name of a metric and its part, empty if there is none."""
    # dots in `python:module:name` belong to the module
    name, _, part = (text, "", "") if text.startswith(PYTHON) else text.partition(".")
    # `bleu.corpus` is a metric of its own, not a part of `bleu`
    for whole in (ALIASES.get(text, text), text):
        if whole in METRICS.table:
            return whole, ""
    return ALIASES.get(name, name), part


def text_notes(
    predictions: Sequence[str | None],
    references: Sequence[Sequence[str]],
    metrics: Sequence[str | Metric],
) -> list[str]:
    """Return notes on words that the metrics ignore in these texts, each note once.

    Empty and missing texts are left out. Lists may differ in length. Raises OptionError for an
    unknown metric or option; MissingExtra, OptionError or DataError if the model of a metric cannot
    be loaded.

    Example:
        >>> len(text_notes(["東京です"], [["東京"]], ["bleu"])), text_notes(["a"], [], ["bleu"])
        (1, [])
    """
    # metrics of one declaration and options give equal notes
    parsed = [parse_metric(name) for name in metrics]
    distinct = {(id(m.declaration), repr(m.options)): m for m in parsed}
    if not distinct:
        return []
    answers = list(filter(None, predictions))
    texts = [*answers, *filter(None, chain.from_iterable(references))]
    notes: list[str] = []
    for metric in distinct.values():
        # gold answers cite nothing
        texts_read = answers if metric.declaration.reads == "citations" else texts
        notes += metric.declaration.notes(texts_read, metric.options)
    return list(dict.fromkeys(notes))
