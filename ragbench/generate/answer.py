"""What generators and apps return, in all the shapes that people write, as a `Prediction`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ragbench.adapters.hits import HitReader, checked_id
from ragbench.errors import AdapterError
from ragbench.registry import shown
from ragbench.types import Document, Prediction, ScoredDocument, Usage

_SHAPES = "text, ragbench.Prediction, or a mapping with 'answer' and, where known, 'contexts'"
_PASSAGES = "texts, documents, or mappings with 'text' and, where known, 'id'"
_TEXTS = ("text", "page_content", "content")


def read_answer(answer: Any) -> Prediction:
    """Turn what a generator or an app returned into a `Prediction` whose parts are what they say.

    Accepts a text, a `Prediction`, or a mapping with `answer` and, where known, `contexts` and
    `queries`. Passages may be texts, documents of ragbench or LangChain, or mappings with `text`
    and, where known, `id`, `title`, `metadata`; one without an id gets a hash of its text. Anything
    else is an `AdapterError`.
    """
    if isinstance(answer, str):
        return Prediction(answer)
    prediction = _of_mapping(answer) if isinstance(answer, Mapping) else answer
    if not isinstance(prediction, Prediction) or not isinstance(prediction.answer, str):
        raise AdapterError(f"found {shown(answer)} instead of an answer, allowed: {_SHAPES}")
    _check_rest(prediction)
    if prediction.contexts is None:
        return prediction
    return replace(prediction, contexts=_passages(prediction.contexts))


def _of_mapping(answer: Mapping[str, Any]) -> Prediction | None:
    if "answer" not in answer:
        return None
    queries = answer.get("queries")
    queries = [] if queries is None else queries
    return Prediction(answer["answer"], answer.get("contexts"), queries=queries)


def _check_rest(prediction: Prediction) -> None:
    queries, latency_ms = prediction.queries, prediction.latency_ms
    if not isinstance(queries, (list, tuple)) or not all(isinstance(q, str) for q in queries):
        raise AdapterError(f"found {shown(queries)} as queries, allowed: a list of texts")
    if not isinstance(prediction.usage, Usage):
        raise AdapterError(
            f"found {shown(prediction.usage)} as usage, allowed: ragbench.types.Usage"
        )
    is_number = isinstance(latency_ms, (int, float)) and not isinstance(latency_ms, bool)
    if latency_ms is not None and not (is_number and 0 <= latency_ms < math.inf):
        raise AdapterError(f"found {shown(latency_ms)} as latency_ms, allowed: a number >= 0")


def _passages(contexts: Any) -> list[Document]:
    if isinstance(contexts, (str, bytes, Mapping)) or not isinstance(contexts, Iterable):
        allowed = f"a list of {_PASSAGES}"
        raise AdapterError(f"found {shown(contexts)} as contexts, allowed: {allowed}")
    reader = HitReader(None)
    return [_passage(passage, number, reader) for number, passage in enumerate(contexts, start=1)]


def _passage(passage: Any, number: int, reader: HitReader) -> Document:
    if isinstance(passage, str):
        passage = Document("", passage)
    if isinstance(passage, Mapping):
        text = next((passage[key] for key in _TEXTS if key in passage), None)
        own_id, title, metadata = passage.get("id"), passage.get("title"), passage.get("metadata")
    elif isinstance(passage, (Document, ScoredDocument)):
        own_id, text, title, metadata = passage.id, passage.text, passage.title, passage.metadata
    elif hasattr(passage, "page_content"):  # a document of LangChain
        own_id, text, title = getattr(passage, "id", None), passage.page_content, None
        metadata = getattr(passage, "metadata", None)
    else:
        raise AdapterError(f"passage {number} is {shown(passage)}, allowed: {_PASSAGES}")
    if not isinstance(text, str) and (text is not None or own_id is None):
        raise AdapterError(f"passage {number} is {shown(passage)}, allowed: {_PASSAGES}")
    hit = reader.read(own_id=own_id, text=text, metadata=metadata, score=None)
    identifier = checked_id(hit.id, f"passage {number}")
    return Document(identifier, text or "", title or hit.title or "", hit.metadata)
