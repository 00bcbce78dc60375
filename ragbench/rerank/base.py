"""Reranker: the protocol of all components that reorder the hits of another retriever.

A reranker of the user is `type: "python:package.module:Name"` with `retriever:`. `Name` is a class
(called with the options of the YAML), an object with `rerank(queries, hits, top_k)`, or a plain
function `(question, hits)` that returns the hits in a better order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from ragbench.embed.component import SearchComponent
from ragbench.errors import AdapterError
from ragbench.registry import OwnComponent, adapt
from ragbench.types import Query, ScoredDocument
from ragbench.types.display import quoted_start
from ragbench.types.documents import record_ids

# The hits of each query, best first.
HitLists = Sequence[Sequence[ScoredDocument]]
# An object is a reranker if it has this method.
RERANKER_METHODS = ("rerank",)
# Step between the scores of a tail, as a share of the last score: 32-bit floats tell them apart.
_STEP = 1e-6


class Reranker(SearchComponent):
    """Protocol of rerankers, with a default for every part but `rerank`.

    The order of the returned hits is the ranking; scores are optional. Built-in rerankers inherit
    it; `as_reranker` wraps objects of the user. `rerank(queries, hits, top_k)` returns at most
    `top_k` hits for each query, and raises NotImplementedError in this class. A config names a
    reranker as the `type` of an entry of `retrievers`, with the `retriever` whose hits it orders.
    """

    def rerank(self, queries: Sequence[Query], hits: HitLists, top_k: int) -> HitLists:
        """Return at most `top_k` hits for each query, best first, in the order of the queries.

        Args:
            queries: The n queries.
            hits: At most `depth` hits of each query, with their texts if the corpus or the first
                retriever has them.
            top_k: Largest number of hits of a query.
        """
        raise NotImplementedError


def hit_texts(query: Query, hits: Sequence[ScoredDocument], owner: str) -> list[str]:
    """Return title and text of each hit, joined by a space as retrievers index them.

    `owner` names the reranker and `query` the query in messages. A hit with an empty text is
    allowed.

    Raises:
        AdapterError: A hit has no text.
    """
    for hit in hits:
        if hit.text is None:
            raise AdapterError(
                f"{owner}: hit '{hit.id}' of query '{query.id}' {quoted_start(query.text)} has no "
                "text, allowed: documents of the corpus, or hits with a text"
            )
    return [hit.to_document().full_text for hit in hits]


def with_tail(
    reranked: Sequence[ScoredDocument], hits: Sequence[ScoredDocument], depth: int
) -> list[ScoredDocument]:
    """Return reranked hits, followed by the hits below the depth of the reranker, in their order.

    The scores of the tail fall in small steps from the last reranked score, so that sorting by
    score keeps the order; without such a score they are None. A reranker that returns fewer hits
    than it got selects: its list gets no tail, whose hits it may not want either.

    Args:
        reranked: Hits that the reranker returned, best first.
        hits: All hits of the retriever, best first.
        depth: Number of hits that the reranker got.

    Example:
        >>> a, b, c = (ScoredDocument(name, score) for name, score in zip("abc", (9.0, 8.0, 7.0)))
        >>> [hit.id for hit in with_tail([b, a], [a, b, c], depth=2)]
        ['b', 'a', 'c']
        >>> [hit.id for hit in with_tail([b], [a, b, c], depth=2)]
        ['b']
    """
    names = set(record_ids(reranked))
    if len(names) < len(set(record_ids(hits[:depth]))):
        return list(reranked)
    joined, score = list(reranked), reranked[-1].score if reranked else None
    for hit in hits[depth:]:
        if hit.id not in names:
            if score is not None:
                lower = score - _STEP * max(abs(score), 1.0)
                # -1.8e308 is the end, below which there is no number
                score = lower if math.isfinite(lower) else score
            joined.append(structs.replace(hit, score=score))
    return joined


class CallableReranker(Reranker):
    """Reranker that calls a plain function `(question, hits) -> hits`.

    `as_reranker` makes it.
    """

    asks_one_by_one = True

    def __init__(self, function: Any) -> None:
        self._function = function

    def rerank(self, queries: Sequence[Query], hits: HitLists, top_k: int) -> list[Any]:
        """Return the result of the function for each query, unchecked.

        The function gets the text of the query and a new list of its hits. Its result is not cut to
        `top_k`, and its errors are passed on.
        """
        results = []
        for query, query_hits in zip(queries, hits, strict=True):
            results.append(self._function(query.text, list(query_hits)))
        return results


class OwnReranker(OwnComponent, Reranker):
    """Reranker that delegates to an object of the user.

    The parts named in `takes` are those of the object, where it has them; others have the defaults
    of `Reranker`. `to_reranker` makes it, and does not check the object. Its errors are passed on.
    """

    takes = frozenset(
        ("asks_one_by_one", "load", "cache_folder", "cache_also", "rerank", "same_results")
    )


def to_reranker(target: Any) -> Reranker:
    """Return a `Reranker` as it is, and any other object wrapped in an `OwnReranker`.

    The object is not checked.
    """
    return target if isinstance(target, Reranker) else OwnReranker(target)


def as_reranker(target: Any, options: Mapping[str, Any], owner: str) -> Reranker:
    """Return a reranker for a class, an object or a function of the user.

    A class is called with the options. A function `(question, hits)` is wrapped in a
    `CallableReranker`, with the options bound as keywords.

    Args:
        target: The user's class, object or function.
        options: Options of the YAML: keywords of the class or function.
        owner: Name of the component in messages, such as `reranker 'mine'`.

    Raises:
        OptionError: An option is unknown, or an object that exists gets options.
        AdapterError: The target is no reranker, or its constructor fails with an error that is not
            one of ragbench.
    """
    reranker = adapt(
        target,
        options,
        owner,
        methods=RERANKER_METHODS,
        wrap=CallableReranker,
        arguments="(question, hits)",
        method_arguments="(queries, hits, top_k)",
    )
    return to_reranker(reranker)
