"""What stages produce as plain JSON values, and back: what is kept of it on disk.

Reading what was written gives an equal object, floats to the last bit. What a component puts into
metadata becomes JSON as well: what has no JSON form is kept as its text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ragbench.experiment.calls import Outcome
from ragbench.json_yaml import load_json
from ragbench.records.codec import clean_tree
from ragbench.score.base import ScoreColumn
from ragbench.signature import Signature
from ragbench.types import (
    Cause,
    Document,
    Prediction,
    Retrieved,
    ScoredDocument,
    ToolCall,
    Usage,
    Verdict,
)

Stored = dict[str, Any]
"""An item as a file has it."""


def write_retrieved(outcome: Outcome[Retrieved]) -> Stored:
    """Return an outcome of retrieval as JSON."""
    value = outcome.value
    if value is None:
        return _outcome(outcome, None)
    queries = {"queries": list(value.queries)} if value.queries else {}
    return _outcome(outcome, {"hits": [_hit(hit) for hit in value.documents], **queries})


def read_retrieved(stored: Mapping[str, Any]) -> Outcome[Retrieved]:
    """Read what `write_retrieved` wrote."""
    value = stored.get("value")
    if value is None:
        return _read_outcome(stored, None)
    hits = [_read_hit(*hit) for hit in value["hits"]]
    return _read_outcome(stored, Retrieved(hits, value.get("queries", [])))


def write_predicted(outcome: Outcome[Prediction]) -> Stored:
    """Return an outcome of generation as JSON."""
    value = outcome.value
    if value is None:
        return _outcome(outcome, None)
    usage = value.usage
    kept: Stored = {
        "answer": value.answer,
        "usage": [usage.input_tokens, usage.output_tokens, usage.usd],
    }
    if usage.reasoning_tokens:
        kept["usage"].append(usage.reasoning_tokens)
    if value.left_out:
        kept["left_out"] = list(value.left_out)
    if value.contexts is not None:
        kept["contexts"] = [_context(document) for document in value.contexts]
    if value.queries:
        kept["queries"] = list(value.queries)
    if value.tool_calls is not None:
        kept["tool_calls"] = [_plain(call.to_dict()) for call in value.tool_calls]
    return _outcome(outcome, kept)


def read_predicted(stored: Mapping[str, Any]) -> Outcome[Prediction]:
    """Read what `write_predicted` wrote."""
    value = stored.get("value")
    if value is None:
        return _read_outcome(stored, None)
    contexts, calls = value.get("contexts"), value.get("tool_calls")
    if not isinstance(value["answer"], str):
        raise TypeError(f"found {value['answer']!r}, allowed: text")
    prediction = Prediction(
        value["answer"],
        None if contexts is None else [Document(*document) for document in contexts],
        Usage(*value["usage"]),
        value.get("queries", []),
        left_out=tuple(value.get("left_out", ())),
        tool_calls=None if calls is None else tuple(ToolCall(**call) for call in calls),
    )
    return _read_outcome(stored, prediction)


def write_verdict(verdict: Verdict) -> Stored:
    """Return a verdict as JSON, without what is as always."""
    usual = Verdict(None).to_dict()
    kept = verdict.to_dict()
    return {key: value for key, value in kept.items() if value != usual[key]}


def read_verdict(stored: Mapping[str, Any]) -> Verdict:
    """Read what `write_verdict` wrote."""
    verdict = Verdict.from_dict(stored)
    if not isinstance(verdict.score, int | float | None):
        raise TypeError(f"found {verdict.score!r}, allowed: a number")
    cause = Cause[str(stored.get("cause", "scored")).upper()]
    if verdict.score is None and cause is Cause.SCORED:
        raise ValueError("neither a score nor a cause")
    return verdict


def write_column(column: ScoreColumn) -> Stored:
    """Return a column of scores as JSON."""
    return {
        "name": column.name,
        "values": [None if math.isnan(value) else value for value in column.values.tolist()],
        "causes": column.causes.tolist(),
        "signature": str(column.signature),
        "direction": column.direction,
        "range": [_number(column.low), _number(column.high)],
        "aggregate": column.aggregate,
        "total": None if column.total is None else _number(column.total),
        "details": {str(row): detail for row, detail in column.details.items()},
    }


def read_column(stored: Mapping[str, Any]) -> ScoreColumn:
    """Read what `write_column` wrote."""
    values = [math.nan if value is None else value for value in stored["values"]]
    low, high = (float(bound) for bound in stored["range"])
    total = stored["total"]
    return ScoreColumn(
        name=stored["name"],
        values=np.array(values, dtype=np.float64),
        causes=np.array(stored["causes"], dtype=np.uint8),
        signature=Signature.parse(stored["signature"]),
        direction=stored["direction"],
        low=low,
        high=high,
        aggregate=stored["aggregate"],
        total=None if total is None else float(total),
        details={int(row): detail for row, detail in stored["details"].items()},
    )


def without_secrets(stored: Mapping[str, Any], clean: Callable[[str], str]) -> Stored:
    """Return what the functions above wrote with all its texts cleaned, but for ids.

    An id names a document, or nothing: rankings and judgements would no longer fit.
    """
    found: Stored = clean_tree(stored, clean)
    value = stored.get("value")
    if isinstance(value, Mapping):
        for key, ids in (("hits", (0, 5)), ("contexts", (0,))):
            for old, new in zip(value.get(key, ()), found["value"].get(key, ()), strict=True):
                for place in ids:
                    new[place : place + 1] = old[place : place + 1]
    return found


def _outcome(outcome: Outcome[Any], value: Any) -> Stored:
    kept = {} if value is None else {"value": value}
    if outcome.cause is not Cause.SCORED:
        kept["cause"] = outcome.cause.word
    if outcome.detail:
        kept["detail"] = outcome.detail
    if outcome.latency_ms is not None:
        kept["ms"] = round(outcome.latency_ms, 3)
    return kept


def _read_outcome(stored: Mapping[str, Any], value: Any) -> Outcome[Any]:
    cause = Cause[stored["cause"].upper()] if "cause" in stored else Cause.SCORED
    if value is None and cause is Cause.SCORED:
        raise ValueError("neither a value nor a cause")
    return Outcome(value, cause, stored.get("detail", ""), stored.get("ms"))


def _hit(hit: ScoredDocument) -> list[Any]:
    """A hit as a list that ends where nothing more is known of it."""
    score = None if hit.score is None else _number(float(hit.score))
    metadata = _plain(dict(hit.metadata)) or None
    parts = [hit.id, score, hit.text, hit.title, metadata, hit.document]
    while len(parts) > 1 and parts[-1] is None:
        parts.pop()
    return parts


def _read_hit(
    identifier: str,
    score: float | str | None = None,
    text: str | None = None,
    title: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    document: str | None = None,
) -> ScoredDocument:
    for part in (identifier, text, title, document):
        if not isinstance(part, str) and (part is not None or part is identifier):
            raise TypeError(f"found {part!r}, allowed: text")
    number = None if score is None else float(score)
    return ScoredDocument(identifier, number, text, title, metadata or {}, document)


def _number(value: float) -> float | str:
    """A float as JSON has it; infinities as the text that `float` reads."""
    return value if math.isfinite(value) else str(value)


def _context(document: Document) -> list[object]:
    named = _plain([document.id, document.text, document.title])
    return [*named, _plain(dict(document.metadata))]


def _plain(value: object, levels: int = 2) -> Any:
    """A value with its JSON form in the place of what JSON lacks."""
    try:
        return load_json(json.dumps(value, default=str, skipkeys=True), parse_constant=str)
    except (ValueError, RecursionError):  # around in a circle, or deeper than what is read again
        if levels and isinstance(value, dict):
            return {str(key): _plain(part, levels - 1) for key, part in value.items()}
        return "(nested too deep)"
