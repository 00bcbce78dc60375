"""Many predictions by many metrics: one column of scores per metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ragbench.errors import AdapterError, DataError, OptionError
from ragbench.registry import declared_options, nearest
from ragbench.score.base import ScoreColumn
from ragbench.score.text.base import Declaration, Metric, Row
from ragbench.score.text.notation import parse_metric
from ragbench.signature import Signature, fingerprint
from ragbench.types.scores import Cause

if TYPE_CHECKING:
    from ragbench.types import CauseArray, FloatArray


def score_texts(
    predictions: Sequence[str | None],
    references: Sequence[Sequence[str]],
    metrics: Sequence[str],
    **options: Any,
) -> list[ScoreColumn]:
    """Score predictions against their references.

    Metrics that read the same tokens share them: each distinct text is tokenised once.

    Args:
        predictions: One text per item; None where the system has no answer, which is not scored.
            An empty text is an answer, and scores 0.
        references: The gold texts of each item; an item without any is not scored by metrics
            that need one. A text may stand for a list of one.
        metrics: Names, as `parse_metric` reads them.
        **options: Options of these metrics (`stemmer`, `tokenize`, `smooth`, ...); each metric
            gets those that it declares.

    Returns:
        A column per metric, in their order, named as the caller wrote them.

    Raises:
        DataError: The two sequences differ in length, or hold something else than text.
        OptionError: An unknown metric, or an option that none of them has or that is out of range.
        NotBuiltYet: A metric that this version lacks.

    Example:
        >>> columns = score_texts(["a cat", None], [["the cat"], ["a dog"]], ["rouge1", "contains"])
        >>> [(column.name, column.values.tolist()) for column in columns]
        [('rouge1', [0.5, nan]), ('contains', [1.0, nan])]
    """
    gold = [_as_texts(row, item) for row, item in enumerate(references)]
    _check_predictions(predictions, len(gold))
    parsed = [parse_metric(name) for name in metrics]
    chosen = _options_of(parsed, options)
    print_of_gold = fingerprint(piece for texts in gold for piece in (str(len(texts)), *texts))
    groups: dict[int, list[Metric]] = {}
    for metric in parsed:
        groups.setdefault(id(metric.declaration), []).append(metric)
    columns: dict[str, ScoreColumn] = {}
    for group in groups.values():
        declaration = group[0].declaration
        own = chosen[id(declaration)]
        signed = _signed(declaration, own, print_of_gold)
        for metric, (values, causes) in zip(
            group, _columns(predictions, gold, group, own), strict=True
        ):
            columns[metric.name] = ScoreColumn(
                name=metric.name,
                values=values,
                causes=causes,
                signature=Signature(metric.canonical, signed.parts),
                direction=declaration.direction,
                low=declaration.low,
                high=declaration.high,
            )
    return [columns[name] for name in metrics]


def _as_texts(row: int, item: Sequence[str] | None) -> Sequence[str]:
    texts = (item,) if isinstance(item, str) else tuple(item or ())
    for text in texts:
        if not isinstance(text, str):
            raise DataError(f"references[{row}]: found {text!r}", allowed="texts")
    return texts


def _check_predictions(predictions: Sequence[str | None], n_references: int) -> None:
    if len(predictions) != n_references:
        found = f"{len(predictions)} predictions and {n_references} lists of references"
        raise DataError(found, allowed="one list of references for each prediction")
    for row, text in enumerate(predictions):
        if text is not None and not isinstance(text, str):
            raise DataError(f"predictions[{row}]: found {text!r}", allowed="a text, or None")


def _options_of(metrics: Sequence[Metric], options: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """Every declared option of every declaration, as given or by default, checked."""
    chosen: dict[int, dict[str, Any]] = {}
    known: dict[str, None] = {}
    for metric in metrics:
        declared = declared_options(metric.declaration.function)
        known.update(dict.fromkeys(declared))
        chosen[id(metric.declaration)] = {
            name: option.check(metric.base, options.get(name, option.default))
            for name, option in declared.items()
        }
    for name in options:
        if name not in known:
            allowed = ", ".join(known) or "no options for these metrics"
            raise OptionError("metrics", "options", name, allowed, nearest(name, known))
    return chosen


def _signed(declaration: Declaration, options: Mapping[str, Any], gold: str) -> Signature:
    parts = {**declaration.facts, **options}
    if declaration.needs_reference:
        parts["gold"] = gold
    return Signature.of("", **parts, v=declaration.version)


def _columns(
    predictions: Sequence[str | None],
    references: Sequence[Sequence[str]],
    metrics: Sequence[Metric],
    options: Mapping[str, Any],
) -> list[tuple[FloatArray, CauseArray]]:
    """Values and causes of each metric of one declaration."""
    import numpy as np

    declaration = metrics[0].declaration
    causes = np.zeros(len(predictions), dtype=np.uint8)
    rows: list[Row] = []
    for index, (prediction, texts) in enumerate(zip(predictions, references, strict=True)):
        if not texts and declaration.needs_reference:
            causes[index] = Cause.NO_REFERENCE
        elif prediction is None:
            causes[index] = Cause.NO_ANSWER
        else:
            rows.append((prediction, texts))
    batch = declaration.batch or _score_row_by_row
    found = []
    for scores in batch(rows, metrics, options):
        values = np.full(len(predictions), np.nan)
        values[causes == Cause.SCORED] = scores
        found.append((values, causes))
    return found


def _score_row_by_row(
    rows: Sequence[Row], metrics: Sequence[Metric], options: Mapping[str, Any]
) -> list[list[float]]:
    function = metrics[0].declaration.function
    results = [function(prediction, references, **options) for prediction, references in rows]
    columns = [
        [getattr(result, metric.part) if metric.part else result for result in results]
        for metric in metrics
    ]
    for metric, column in zip(metrics, columns, strict=True):
        for value in column:
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise AdapterError(f"metric '{metric.name}': found {value!r}, allowed: a number")
    return columns
