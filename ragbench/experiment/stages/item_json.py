"""What stages produce as plain JSON values, and back: what is kept of it on disk.

Reading what was written gives an equal object, floats to the last bit. What a component puts into
metadata becomes JSON as well: what has no JSON form is kept as its text.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ragbench.experiment.calls import Outcome
from ragbench.json_yaml import load_json
from ragbench.records.codec import Record, clean_tree, from_json, optional, to_json
from ragbench.signature import Signature
from ragbench.types import (
    Aggregate,
    Cause,
    Direction,
    Document,
    Prediction,
    Retrieved,
    ScoreColumn,
    ScoredDocument,
    ToolCall,
    Usage,
    Verdict,
)
from ragbench.types.conversation import Json

Stored = dict[str, Any]
"""An item as a file has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item(Record):
    """What is stored of every call: its value, or why there is none."""

    value: object = optional()
    cause: str = optional(Cause.SCORED.word)
    detail: str = optional("")
    ms: float | None = optional()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranking(Record):
    hits: tuple[Json, ...]
    """See `_hit`."""
    queries: tuple[str, ...] = optional(())


@dataclass(frozen=True, slots=True, kw_only=True)
class _RankingItem(_Item):
    value: _Ranking | None = optional()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer(Record):
    answer: str
    usage: tuple[Json, ...]
    """Tokens in, tokens out, dollars; and those of reasoning, where there are any."""
    left_out: tuple[str, ...] = optional(())
    contexts: tuple[Json, ...] | None = optional()
    """Id, text, title, metadata of each passage."""
    queries: tuple[str, ...] = optional(())
    tool_calls: tuple[Json, ...] | None = optional()


@dataclass(frozen=True, slots=True, kw_only=True)
class _AnswerItem(_Item):
    value: _Answer | None = optional()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column(Record):
    name: str
    values: str
    """The doubles of all queries in base64: as decimal numbers they take far longer."""
    causes: str
    """A byte for each, in the same way."""
    signature: str
    direction: Direction
    range: tuple[Json, Json]
    aggregate: Aggregate
    total: Json
    details: Mapping[str, str]


def cause_of(stored: object) -> Cause:
    """Return why an item has no value; `Cause.SCORED` where it has one."""
    return _cause(from_json(_Item, stored))


def write_retrieved(outcome: Outcome[Retrieved]) -> Stored:
    """Return an outcome of retrieval as JSON."""
    found, value = outcome.value, None
    if found is not None:
        value = _Ranking(hits=tuple(map(_hit, found.documents)), queries=tuple(found.queries))
    return _write(_RankingItem, outcome, value)


def read_retrieved(stored: object) -> Outcome[Retrieved]:
    """Read what `write_retrieved` wrote."""
    item = from_json(_RankingItem, stored)
    if item.value is None:
        return _outcome(item, None)
    hits = [_read_hit(*hit) for hit in item.value.hits]
    return _outcome(item, Retrieved(hits, list(item.value.queries)))


def write_predicted(outcome: Outcome[Prediction]) -> Stored:
    """Return an outcome of generation as JSON."""
    found, value = outcome.value, None
    if found is not None:
        usage, calls = found.usage, found.tool_calls
        reasoning = [usage.reasoning_tokens] if usage.reasoning_tokens else []
        value = _Answer(
            answer=found.answer,
            usage=(usage.input_tokens, usage.output_tokens, usage.usd, *reasoning),
            left_out=tuple(found.left_out),
            contexts=None if found.contexts is None else tuple(map(write_document, found.contexts)),
            queries=tuple(found.queries),
            tool_calls=None if calls is None else tuple(_plain(call.to_dict()) for call in calls),
        )
    return _write(_AnswerItem, outcome, value)


def read_predicted(stored: object) -> Outcome[Prediction]:
    """Read what `write_predicted` wrote."""
    item = from_json(_AnswerItem, stored)
    found = item.value
    if found is None:
        return _outcome(item, None)
    contexts, calls = found.contexts, found.tool_calls
    prediction = Prediction(
        found.answer,
        None if contexts is None else [Document(*document) for document in contexts],
        Usage(*found.usage),
        list(found.queries),
        left_out=found.left_out,
        tool_calls=None if calls is None else tuple(ToolCall(**call) for call in calls),
    )
    return _outcome(item, prediction)


def read_verdict(stored: Mapping[str, Any]) -> Verdict:
    """Read what `Verdict.to_short_dict` gives."""
    verdict = Verdict.from_dict(stored)
    if not isinstance(verdict.score, int | float | None):
        raise TypeError(f"found {verdict.score!r}, allowed: a number")
    if cause_of(stored) is Cause.SCORED and verdict.score is None:
        raise ValueError("neither a score nor a cause")
    return verdict


def write_column(column: ScoreColumn) -> Stored:
    """Return a column of scores as JSON."""
    kept = _Column(
        name=column.name,
        values=b64encode(column.values.astype("<f8").tobytes()).decode(),
        causes=b64encode(column.causes.astype(np.uint8).tobytes()).decode(),
        signature=str(column.signature),
        direction=column.direction,
        range=(_number(column.low), _number(column.high)),
        aggregate=column.aggregate,
        total=None if column.total is None else _number(column.total),
        details={str(row): detail for row, detail in column.details.items()},
    )
    return to_json(kept)


def read_column(stored: object) -> ScoreColumn:
    """Read what `write_column` wrote."""
    kept = from_json(_Column, stored)
    values = np.frombuffer(b64decode(kept.values, validate=True), "<f8").astype(np.float64)
    causes = np.frombuffer(b64decode(kept.causes, validate=True), np.uint8).copy()
    if len(values) != len(causes):
        raise ValueError("as many values as causes")
    low, high = (float(bound) for bound in kept.range)
    return ScoreColumn(
        name=kept.name,
        values=values,
        causes=causes,
        signature=Signature.parse(kept.signature),
        direction=kept.direction,
        low=low,
        high=high,
        aggregate=kept.aggregate,
        total=None if kept.total is None else float(kept.total),
        details={int(row): detail for row, detail in kept.details.items()},
    )


_IDS = {"hits": (0, 5), "contexts": (0,)}
"""Part of a value -> where its rows hold ids."""
_NUMBERS = ("values", "causes")
"""Parts of a column that are numbers in base64, where a short secret stands by chance."""


def without_secrets(stored: Mapping[str, Any], clean: Callable[[str], str]) -> Stored:
    """Return what the functions above wrote with all its texts cleaned, but for ids and numbers.

    An id names a document, or nothing: rankings and judgements would no longer fit.
    """

    def cleaned(key: str, part: Json) -> Json:
        if key in _NUMBERS and isinstance(part, str):
            return part
        if key in ("value", "column") and isinstance(part, Mapping):
            return {clean(inner): cleaned(inner, each) for inner, each in part.items()}
        if key not in _IDS:
            return clean_tree(part, clean)
        return [
            [old if at in _IDS[key] else clean_tree(old, clean) for at, old in enumerate(row)]
            for row in part
        ]

    return {clean(key): cleaned(key, part) for key, part in stored.items()}


def _write(made: type[_Item], outcome: Outcome[Any], value: Record | None) -> Stored:
    ms = None if outcome.latency_ms is None else round(outcome.latency_ms, 3)
    return to_json(made(value=value, cause=outcome.cause.word, detail=outcome.detail, ms=ms))


def _outcome(item: _Item, value: Any) -> Outcome[Any]:
    cause = _cause(item)
    if value is None and cause is Cause.SCORED:
        raise ValueError("neither a value nor a cause")
    return Outcome(value, cause, item.detail, item.ms)


def _cause(item: _Item) -> Cause:
    return Cause[item.cause.upper()]


def _hit(hit: ScoredDocument) -> tuple[object, ...]:
    """A hit as a list that ends where nothing more is known of it."""
    score = None if hit.score is None else _number(float(hit.score))
    metadata = _plain(dict(hit.metadata)) or None
    parts = [hit.id, score, hit.text, hit.title, metadata, hit.document]
    while len(parts) > 1 and parts[-1] is None:
        parts.pop()
    return tuple(parts)


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


def write_document(document: Document) -> tuple[object, ...]:
    """Return the arguments of a document as JSON."""
    named = _plain([document.id, document.text, document.title])
    return (*named, _plain(dict(document.metadata)))


def _plain(value: object, levels: int = 2) -> Json:
    """A value with its JSON form in the place of what JSON lacks."""
    try:
        return load_json(json.dumps(value, default=str, skipkeys=True), parse_constant=str)
    except (ValueError, RecursionError):  # around in a circle, or deeper than what is read again
        if levels and isinstance(value, dict):
            return {str(key): _plain(part, levels - 1) for key, part in value.items()}
        return "(nested too deep)"


def with_text(hit: ScoredDocument, corpus: Mapping[str, Document]) -> ScoredDocument:
    """Return a hit with the text that the corpus has, where it has none itself."""
    document = corpus.get(hit.id) if hit.text is None else None
    return hit if document is None else replace(hit, text=document.text, title=document.title)


def without_text(hit: ScoredDocument, corpus: Mapping[str, Document]) -> ScoredDocument:
    """Return a hit without a text that the corpus has anyway."""
    document = corpus.get(hit.id) if hit.text is not None else None
    if document is None or (hit.text, hit.title or "") != (document.text, document.title):
        return hit
    return replace(hit, text=None, title=None)
