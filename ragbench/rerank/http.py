"""Reranker behind a URL: `type: http`, with the request and reply of Cohere and Jina."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import structs

from ragbench.adapters.http import RequestOptions, Url
from ragbench.errors import AdapterError, OptionError, Phrase
from ragbench.registry import Option, quote
from ragbench.rerank.base import HitLists, Reranker, hit_texts
from ragbench.types import Query, ScoredDocument
from ragbench.types.display import counted


class HttpRerankerOptions(RequestOptions):
    """Options of the request to a service that scores passages: keywords of `HttpReranker`.

    `timeout` (seconds), `retries` and `keep_alive` are those of `RequestOptions`.

    Attributes:
        url: URL that requests are posted to.
    """

    url: Url
    model: Annotated[
        str | None, Option("The model, if the server has several; null sends none.")
    ] = None
    api_key_env: Annotated[
        str | None, Option("The environment variable with the key; null sends none.")
    ] = None


class HttpReranker(Reranker):
    """Post a question with its passages to a URL, which scores each passage.

    The request is `{query, documents, top_n, model}`, the reply `{results: [{index,
    relevance_score}]}`: the `/rerank` of Cohere, Jina, vLLM and others. The highest score comes
    first; equal scores keep the order of the reply. An overloaded server and a broken connection
    are tried again within `timeout`; an error after that fails this query only. A query without
    hits is not sent.

    Options are those of `HttpRerankerOptions`: `url`, `model`, `api_key_env`, `timeout` (seconds),
    `retries` and `keep_alive`. `rerank` returns at most `top_k` hits for each query. It raises
    CallFailure for a failed request, and AdapterError for a hit without text or a wrong reply.
    """

    is_opaque = True
    asks_one_by_one = True

    declares = HttpRerankerOptions

    def __init__(self, **options: Any) -> None:
        chosen = HttpRerankerOptions(**options)
        key = chosen.api_key_env
        headers = {} if key is None else {"Authorization": f"Bearer {_key(key)}"}
        self._endpoint = chosen.connect(chosen.url, headers)
        self._model = {} if chosen.model is None else {"model": chosen.model}

    def rerank(self, queries: Sequence[Query], hits: HitLists, top_k: int) -> HitLists:
        """Post each question with its hits; return at most `top_k` hits for each query.

        The highest score comes first. An error of one query ends the call.

        Raises:
            AdapterError: A hit has no text, or the reply has too few results, an unknown index or a
                score that is no number.
            CallFailure: The request failed or timed out, or the reply is no JSON.
            ValueError: There are not as many lists of hits as queries.
        """
        ranked = []
        for query, query_hits in zip(queries, hits, strict=True):
            ranked.append(self._order(query, query_hits, top_k) if query_hits else [])
        return ranked

    def _order(
        self, query: Query, hits: Sequence[ScoredDocument], top_k: int
    ) -> list[ScoredDocument]:
        count = min(top_k, len(hits))
        texts = hit_texts(query, hits, "http")
        body = {"query": query.text, "documents": texts, "top_n": count, **self._model}
        scores = _read_scores(self._endpoint.post(body), len(hits))
        if len(scores) < count:
            raise AdapterError(
                f"the reply has {counted(len(scores), 'results')}, allowed: {count} (top_n)"
            )
        # a reply may be in any order, and longer than top_n
        best = sorted(scores, key=lambda index: -scores[index])[:top_k]
        return [structs.replace(hits[index], score=scores[index]) for index in best]


def _key(name: str) -> str:
    key = os.environ.get(name, "").strip()
    if not key:
        allowed = "an environment variable that holds the key: set it, or name another"
        raise OptionError("http", "api_key_env", Phrase(f"{name!r}, which is not set"), allowed)
    return key


def _read_scores(reply: Any, count: int) -> dict[int, float]:
    """Return passage index -> score in the order of the reply; there are `count` passages."""
    results = reply.get("results") if isinstance(reply, Mapping) else None
    if not isinstance(results, list):
        raise AdapterError(f"the reply is {quote(reply)}, allowed: {{results: [...]}}")
    allowed = f"{{index: 0 to {count - 1}, each once, relevance_score: a number}}"
    scores: dict[int, float] = {}
    for position, result in enumerate(results):
        parts: Mapping[str, Any] = result if isinstance(result, Mapping) else {}
        index, score = map(parts.get, ("index", "relevance_score"))
        # by exact type: true is an int for Python
        # NaN compares with nothing, and a float holds no larger integer.
        if (
            type(index) is not int
            or not 0 <= index < count
            or index in scores
            or not (type(score) is int or type(score) is float)
            or not abs(score) <= sys.float_info.max
        ):
            raise AdapterError(f"results[{position}] is {quote(result)}, allowed: {allowed}")
        scores[index] = float(score)
    return scores
