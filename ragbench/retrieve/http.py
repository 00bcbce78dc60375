"""Retriever behind a URL: `type: http`. It posts a question and reads hits from the JSON reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from ragbench.adapters.http import EndpointOptions
from ragbench.adapters.json_path import JsonPath, Place
from ragbench.adapters.templates import check_template, fill
from ragbench.errors import AdapterError
from ragbench.registry import Option, quote
from ragbench.retrieve.base import Retriever
from ragbench.types import Query, Retrieved, ScoredDocument

_PLACEHOLDERS = ("question", "top_k", "query_id")


class HttpRetrieverOptions(EndpointOptions):
    """Options of the request to a search service, and JSON paths of the hits in its reply.

    Beside them stand those of `EndpointOptions`: the required `url`, `headers`, `timeout` in
    seconds, `retries` and `keep_alive`. A path that is None reads no such values.
    """

    body: Annotated[
        dict[str, Any] | None,
        Option('Body of the request; default: `{query: "{question}", top_k: "{top_k}"}`.'),
    ] = None
    ids: Annotated[str, Option("Path to the ids.")] = "$.hits[*].id"
    scores: Annotated[str | None, Option("Path to the scores.")] = None
    texts: Annotated[str | None, Option("Path to the texts; default: those of the corpus.")] = None
    titles: Annotated[str | None, Option("Path to the titles.")] = None
    queries: Annotated[str | None, Option("Path to the queries that the server formulated.")] = None


class HttpRetriever(Retriever):
    """Post each question to a URL and read the hits off the JSON that comes back.

    The order of the hits is the ranking. An overloaded server and a broken connection are tried
    again within `timeout`; an error after that fails this query only. Options are those of
    `HttpRetrieverOptions`, of which `url` is required. `retrieve` raises CallFailure for a failed
    request, and AdapterError for a reply without the ids.
    """

    declares = HttpRetrieverOptions
    is_opaque = True
    asks_one_by_one = True

    def __init__(self, **options: Any) -> None:
        chosen = HttpRetrieverOptions(**options)
        self._endpoint = chosen.endpoint()
        self._body: Mapping[str, Any] = chosen.body or {"query": "{question}", "top_k": "{top_k}"}
        check_template(self._body, _PLACEHOLDERS, "http", "body")
        self._ids = JsonPath(chosen.ids, "http", "ids", many=True)
        self._parts = {}
        for option in ("scores", "texts", "titles"):
            if (path := getattr(chosen, option)) is not None:
                self._parts[option] = JsonPath(path, "http", option, many=True)
        queries = chosen.queries
        self._queries = None if queries is None else JsonPath(queries, "http", "queries")

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[Retrieved]:
        """Post each question; return its hits, and the queries that the server formulated.

        The server may return more than `top_k`.

        Raises:
            CallFailure: The request failed or timed out, or the reply is no JSON.
            AdapterError: The reply lacks one of the paths, or a text or title is no text. A run
                checks ids and scores later, with `read_hits`.
        """
        return [self._ask(query, top_k) for query in queries]

    def _ask(self, query: Query, top_k: int) -> Retrieved:
        """Return the hits of a query, and the queries that the server formulated."""
        values = {"question": query.text, "top_k": top_k, "query_id": query.id}
        reply = self._endpoint.post(fill(self._body, values))
        ids = self._ids.find(reply)
        parts = {}
        for option, path in self._parts.items():
            parts[option] = path.find(reply, required=False)
            if ids and not parts[option]:
                path.find(reply)  # raises, with the key that is missing
        hits = []
        for number, (place, identifier) in enumerate(ids.items(), start=1):
            hits.append(_hit(place, identifier, parts, number))
        formulated = [] if self._queries is None else list(self._queries.find(reply).values())
        return Retrieved(hits, [text for text in formulated if isinstance(text, str)])


def _hit(
    place: Place, identifier: Any, parts: Mapping[str, Mapping[Place, Any]], number: int
) -> ScoredDocument:
    """Return the hit at a place of the reply; `number`, from 1, is for messages."""
    text, title = parts.get("texts", {}).get(place), parts.get("titles", {}).get(place)
    for name, value in (("text", text), ("title", title)):
        if value is not None and not isinstance(value, str):
            raise AdapterError(f"hit {number} has the {name} {quote(value)}, allowed: text")
    return ScoredDocument(identifier, parts.get("scores", {}).get(place), text, title)
