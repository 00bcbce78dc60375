"""Retrievers of the user's own: `type: "python:package.module:Name"`, or a live object.

`Name` is a class (made with the options of the YAML), an object with `retrieve(queries, top_k)`,
or a plain function `(question, top_k)`, to which the options are passed as keywords. Objects of
LangChain, LlamaIndex and Haystack are told by what they have.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragbench.adapters.libraries import HitReader, checked_id, is_id
from ragbench.errors import AdapterError
from ragbench.registry import OwnComponent, adapt, shown
from ragbench.retrieve.base import Retriever
from ragbench.types import Document, Query, Retrieved, ScoredDocument

_FOREIGN = ("aretrieve", "invoke", "ainvoke", "similarity_search", "run", "run_async")
# What a retriever of the user's own has one of; the last are those of libraries.
RETRIEVER_METHODS = ("retrieve", "combine", *_FOREIGN)


class CallableRetriever(Retriever):
    """A plain function `(question, top_k) -> hits` as a retriever."""

    asks_one_by_one = True  # one question that fails does not make a run ask the others again

    def __init__(self, function: Any) -> None:
        self._function = function

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[Any]:
        """Ask the function each question."""
        return [self._function(query.text, top_k) for query in queries]


class OwnRetriever(OwnComponent, Retriever):
    """An object of the user's own as a retriever."""

    takes = frozenset(
        {"asks_one_by_one", "ranks_by_score", "query_ids", "sources", "depth", "load"}
        | {"cache_folder", "cache_also", "advance", "unit", "retrieve", "combine"}
    )

    def __init__(self, made: Any) -> None:
        super().__init__(made)
        self.indexes = callable(getattr(made, "index", None))
        self.borrows = callable(getattr(made, "borrow", None))

    def index(self, corpus: Sequence[Document]) -> None:
        """Let the object read the documents."""
        self.made.index(list(corpus))  # code of others may take no other sequence

    def borrow(self, retrievers: Sequence[Retriever]) -> None:
        """Give the object the retrievers that it searches with, without their wrappers."""
        self.made.borrow(
            [each.made if isinstance(each, OwnRetriever) else each for each in retrievers]
        )


def declared(made: Any) -> Retriever:
    """Return a retriever of which all is known that a run asks."""
    return made if isinstance(made, Retriever) else OwnRetriever(made)


def as_retriever(target: Any, options: Mapping[str, Any], owner: str) -> Any:
    """Make a retriever of a class, an object or a function; see `ragbench.registry.adapt`.

    An object of LangChain (`invoke`, `similarity_search`), LlamaIndex (`retrieve(question)`) or
    Haystack (`run(query=...)`) becomes one through the adapter of its library.
    """
    made = adapt(
        target,
        options,
        owner,
        methods=RETRIEVER_METHODS,
        wrap=CallableRetriever,
        arguments="(question, top_k)",
        of_method="(queries, top_k)",
    )
    if callable(getattr(made, "retrieve", None)) and not _takes_one_question(made):
        return made
    if callable(getattr(made, "combine", None)):  # one over others
        return made
    from ragbench.retrieve import frameworks

    if any(hasattr(made, name) for name in ("retrieve", "aretrieve")):
        return frameworks.LlamaIndexRetriever(client=made)
    if any(hasattr(made, name) for name in ("invoke", "ainvoke", "similarity_search")):
        return frameworks.LangchainRetriever(client=made)
    if callable(made):  # `run` is a name that anything may have
        return CallableRetriever(made)
    return frameworks.HaystackRetriever(client=made)


def _takes_one_question(made: Any) -> bool:
    """Whether `retrieve` is LlamaIndex's, which takes a question and no `top_k`."""
    try:
        parameters = inspect.signature(made.retrieve).parameters.values()
    except (TypeError, ValueError):
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    return not takes_any and sum(parameter.kind in kinds for parameter in parameters) == 1


_SHAPES = "ids, documents, mappings with 'id', or pairs of one and a score"


def read_hits(answer: Any, top_k: int) -> Retrieved:
    """Turn a retriever's answer to one query into `Retrieved`, of at most `top_k` documents.

    Accepts a list (or any iterable but text) of ids, `Document` and `ScoredDocument` objects,
    documents of LangChain, mappings with `id` and, where known, `score`, `text`, `title`,
    `metadata`, and pairs of one of these and a score; also `Retrieved` and a mapping {id: score},
    which is sorted by score.
    """
    queries: list[str] = []
    if isinstance(answer, Retrieved):
        queries, answer = list(answer.queries), answer.documents
    if isinstance(answer, Mapping):
        pairs = [_read_hit(pair, number) for number, pair in enumerate(answer.items(), start=1)]
        answer = sorted(pairs, key=lambda hit: -(hit.score or 0.0))
    if answer is None or isinstance(answer, (str, bytes)) or not isinstance(answer, Iterable):
        raise AdapterError(f"found {shown(answer)} instead of a list of hits, allowed: {_SHAPES}")
    hits = [_read_hit(hit, position) for position, hit in enumerate(answer, start=1)]
    return Retrieved(first_documents(hits, top_k), queries)


def first_documents(hits: list[ScoredDocument], top_k: int) -> list[ScoredDocument]:
    """Return the hits up to the one that brings the `top_k`-th document.

    Every hit is one document, but for the chunks of a `Chunked` retriever, which say of which
    document they are.

    Example:
        >>> hits = [ScoredDocument(f"{d}#{n}", document=d) for d, n in ("a0", "b0", "a1", "c0")]
        >>> [hit.id for hit in first_documents(hits, 2)]
        ['a#0', 'b#0']
    """
    if all(hit.document is None for hit in hits):
        return hits[:top_k]
    seen: set[str] = set()
    for position, hit in enumerate(hits):
        seen.add(hit.id if hit.document is None else hit.document)
        if len(seen) == top_k:
            return hits[: position + 1]
    return hits


def _read_hit(hit: Any, position: int) -> ScoredDocument:
    """One hit, which is a document or a document and its score."""
    if isinstance(hit, (tuple, list)) and len(hit) == 2:
        return _checked(replace(_read_document(hit[0], position), score=hit[1]), position)
    return _checked(_read_document(hit, position), position)


def _read_document(hit: Any, position: int) -> ScoredDocument:
    if isinstance(hit, ScoredDocument):
        return hit
    if isinstance(hit, Document):
        return ScoredDocument(hit.id, None, hit.text, hit.title, hit.metadata)
    if is_id(hit):
        return ScoredDocument(str(hit))
    if isinstance(hit, Mapping) and "id" in hit:
        known = (hit.get(key) for key in ("score", "text", "title", "metadata"))
        score, text, title, metadata = known
        return ScoredDocument(hit["id"], score, text, title, metadata or {})
    if hasattr(hit, "page_content"):  # a document of LangChain, out of a function of the user's
        return HitReader(None).read_langchain(hit)
    raise AdapterError(f"hit {position} is {shown(hit)}, allowed: {_SHAPES}")


def _checked(hit: ScoredDocument, position: int) -> ScoredDocument:
    """The hit with an id that a run file can hold, and a plain float score."""
    identifier = checked_id(hit.id, f"hit {position}")
    if hit.score is None:
        return replace(hit, id=identifier)
    try:
        score = float(hit.score)
    except (TypeError, ValueError) as error:
        found = f"hit {position} has the score {shown(hit.score)}"
        raise AdapterError(f"{found}, allowed: a number") from error
    if math.isnan(score):
        raise AdapterError(f"hit {position} has the score NaN, allowed: a number")
    return replace(hit, id=identifier, score=score)
