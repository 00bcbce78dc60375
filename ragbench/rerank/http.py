"""A reranker behind a URL: `type: http, retriever: bm25`, in the shape of Cohere's and Jina's."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from ragbench.adapters.http import Endpoint, RequestOptions, Url
from ragbench.errors import AdapterError, OptionError
from ragbench.registry import Option, shown
from ragbench.rerank.base import HitLists, Reranker
from ragbench.types import Query, ScoredDocument


@dataclass(frozen=True, kw_only=True)
class HttpRerankerOptions(RequestOptions):
    """What a service that scores passages is asked with."""

    url: Url
    model: Annotated[
        str | None, Option("The model, if the server has several; null sends none.")
    ] = None
    api_key_env: Annotated[
        str | None, Option("The environment variable with the key; null sends none.")
    ] = None


class HttpReranker(Reranker):
    """Post a question with its passages to a URL, which scores each passage.

    What is sent is `{query, documents, top_n, model}`, what comes back `{results: [{index,
    relevance_score}]}`: the `/rerank` of Cohere, Jina, vLLM and others. The
    highest score comes first; equal scores keep the order of the reply. A server that is
    overloaded or breaks off is asked again within `timeout`; what is then still wrong fails that
    query alone. A query without hits is not sent.
    """

    is_opaque = True
    asks_one_by_one = True

    declares = HttpRerankerOptions

    def __init__(self, **options: Any) -> None:
        chosen = HttpRerankerOptions(**options)
        key = chosen.api_key_env
        headers = {} if key is None else {"Authorization": f"Bearer {_key(key)}"}
        self._endpoint = Endpoint(
            "http", chosen.url, headers, timeout=chosen.timeout, retries=chosen.retries
        )
        self._model = {} if chosen.model is None else {"model": chosen.model}

    def rerank(self, queries: Sequence[Query], hits: HitLists, top_k: int) -> HitLists:
        """Post each question with its hits."""
        return [
            self._order(query, found, top_k) if found else []
            for query, found in zip(queries, hits, strict=True)
        ]

    def _order(
        self, query: Query, hits: Sequence[ScoredDocument], top_k: int
    ) -> list[ScoredDocument]:
        count = min(top_k, len(hits))
        texts = [_text(hit) for hit in hits]
        body = {"query": query.text, "documents": texts, "top_n": count, **self._model}
        scores = _read_scores(self._endpoint.post(body), len(hits))
        if len(scores) < count:
            raise AdapterError(f"{len(scores)} results, allowed: {count}, as top_n says")
        best = sorted(scores, key=lambda index: -scores[index])[:top_k]
        return [replace(hits[index], score=scores[index]) for index in best]


def _key(name: str) -> str:
    key = os.environ.get(name, "").strip()
    if not key:
        allowed = "the name of an environment variable that holds the key"
        raise OptionError("http", "api_key_env", f"{name} (not set)", allowed)
    return key


def _text(hit: ScoredDocument) -> str:
    """The passage with its title, as retrievers index it."""
    if hit.text is None:
        found = f"the hit {hit.id!r} has no text to be scored by"
        raise AdapterError(f"{found}, allowed: a retriever that returns texts, or a corpus")
    return f"{hit.title} {hit.text}" if hit.title else hit.text


def _read_scores(reply: Any, count: int) -> dict[int, float]:
    """Index of a passage -> its score, in the order of the reply."""
    results = reply.get("results") if isinstance(reply, Mapping) else None
    if not isinstance(results, list):
        raise AdapterError(f"the reply is {shown(reply)}, allowed: {{results: [...]}}")
    scores: dict[int, float] = {}
    for position, result in enumerate(results):
        place = f"results[{position}]"
        if not isinstance(result, Mapping):
            raise AdapterError(f"{place} is {shown(result)}, allowed: {{index, relevance_score}}")
        index, score = result.get("index"), result.get("relevance_score")
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < count:
            allowed = f"an integer from 0 to {count - 1}"
            raise AdapterError(f"{place}.index is {shown(index)}, allowed: {allowed}")
        if index in scores:
            raise AdapterError(f"{place}.index is {index} again, allowed: each passage once")
        if isinstance(score, bool) or not isinstance(score, (int, float)) or math.isnan(score):
            raise AdapterError(f"{place}.relevance_score is {shown(score)}, allowed: a number")
        scores[index] = float(score)
    return scores
