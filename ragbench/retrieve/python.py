"""Retrievers in the user's Python code: `type: "python:package.module:Name"`, or a live object.

`Name` is a class (called with the options of the YAML), an object with `retrieve(queries, top_k)`,
or a plain function `(question, top_k)`, to which the options are passed as keywords. Objects of
LangChain, LlamaIndex and Haystack are recognised by their methods.

A function with a parameter `pool` gets the list of document ids of its question; a method
`retrieve` gets a list of such lists, in the order of the queries. None stands for the whole corpus.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import structs

from ragbench.adapters.libraries import HitReader, PlainCall, checked_id, is_id, text_of
from ragbench.errors import AdapterError
from ragbench.registry import OwnComponent, adapt, quote
from ragbench.retrieve.base import Retriever
from ragbench.types import Document, Query, Retrieved, ScoredDocument
from ragbench.types.tables import Frame, cells_of, is_frame

POOL = "pool"  # name of the parameter
_FOREIGN = ("aretrieve", "invoke", "ainvoke", "similarity_search", "run", "run_async")
# An object is a retriever if it has one of these methods; the last are those of libraries.
RETRIEVER_METHODS = ("retrieve", "combine", *_FOREIGN)


class CallableRetriever(Retriever):
    """Retriever that calls a function `(question, top_k) -> hits` or `(question) -> hits`.

    The function may be asynchronous. `retrieve` returns its results unchecked; `read_hits` reads
    them.
    """

    asks_one_by_one = True  # a question that fails must not repeat the calls for the others

    def __init__(self, function: Any) -> None:
        self._call = PlainCall(function, "top_k", int, by_name=[POOL])
        self._pool = PoolParameter(function)

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[Any]:
        """Return the result of the function for each question, unchecked; see `read_hits`."""
        answers = []
        for query in queries:
            pool = self._pool.keywords([query.pool])
            keywords = {}
            for name, pools in pool.items():
                keywords[name] = pools[0]
            answers.append(self._call(query.text, top_k, **keywords))
        return answers


class PoolParameter:
    """Parameter `pool` of a function of the user; `keywords(pools)` returns its argument.

    A function that lacks the parameter, or whose parameter an option of the config sets, gets none.
    """

    def __init__(self, function: Any) -> None:
        self._parameter = None
        bound = getattr(function, "keywords", {}) if isinstance(function, functools.partial) else {}
        try:
            parameter = inspect.signature(function).parameters.get(POOL)
        except (TypeError, ValueError):
            return
        if parameter is not None and POOL not in bound:
            is_named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
            self._parameter = parameter if is_named else None

    def keywords(self, pools: Sequence[Sequence[str] | None]) -> dict[str, list[list[str] | None]]:
        """Return {"pool": list of the ids of each query}, None for a query without a pool.

        Empty if the function takes none, or has a default and no query has a pool.
        """
        if self._parameter is None:
            return {}
        has_default = self._parameter.default is not self._parameter.empty
        if has_default and not any(pool is not None for pool in pools):
            return {}
        return {POOL: [None if pool is None else [*pool] for pool in pools]}


class OwnRetriever(OwnComponent, Retriever):
    """Retriever that delegates to an object of the user.

    The parts named in `takes`, such as `retrieve`, `combine` and `sources`, are those of the
    object, where it has them. It is not checked here: `as_retriever` does that.
    """

    takes = frozenset(
        {"asks_one_by_one", "ranks_by_score", "query_ids", "sources", "depth", "load"}
        | {"cache_folder", "cache_also", "advance", "unit", "combine", "same_results"}
    )

    def __init__(self, target: Any) -> None:
        super().__init__(target)
        self.indexes = callable(getattr(target, "index", None))
        self.borrows = callable(getattr(target, "borrow", None))
        search = getattr(target, "retrieve", super().retrieve)
        self._search = search
        if callable(search):
            self._search = PlainCall(search, "top_k", int, by_name=[POOL])
        self._pool = PoolParameter(search)

    def retrieve(self, queries: Sequence[Query], top_k: int) -> Any:
        """Return the hits of the object for each query, unchecked, also of an `async` method."""
        return self._search(
            queries, top_k, **self._pool.keywords([query.pool for query in queries])
        )

    def index(self, corpus: Sequence[Document]) -> None:
        """Let the object index the documents.

        The errors of the object are passed on, also by `borrow`.
        """
        self.component.index(list(corpus))  # the user's code may accept only a list

    def borrow(self, retrievers: Sequence[Retriever]) -> None:
        """Pass the retrievers of `sources` to the object; the user's own come without wrapper."""
        unwrapped: list[Any] = []
        for retriever in retrievers:
            if isinstance(retriever, OwnRetriever):
                unwrapped.append(retriever.component)
            else:
                unwrapped.append(retriever)
        self.component.borrow(unwrapped)


def to_retriever(target: Any) -> Retriever:
    """Return a `Retriever` as it is, and any other object wrapped in an `OwnRetriever`.

    The object is not checked.
    """
    return target if isinstance(target, Retriever) else OwnRetriever(target)


def as_retriever(target: Any, options: Mapping[str, Any], owner: str) -> Any:
    """Return a retriever for a class, an object or a function; see `ragbench.registry.adapt`.

    A class is called with the options; a function becomes a `CallableRetriever` that passes them.
    An object with `retrieve(queries, top_k)` or `combine` is returned without a wrapper. Any other
    object of LangChain (`invoke`, `similarity_search`), LlamaIndex (`retrieve(question)`) or
    Haystack (`run(query=...)`) is wrapped by the adapter of its library.

    Args:
        target: The user's class, object or function.
        options: Options of the YAML: keywords of the class or function.
        owner: Name of the component in messages, such as `retriever 'mine'`.

    Raises:
        OptionError: An option is unknown, an object that exists gets options, or a pipeline has no
            open socket for the question.
        AdapterError: The target is no retriever, or its constructor fails.
    """
    retriever = adapt(
        target,
        options,
        owner,
        methods=RETRIEVER_METHODS,
        wrap=CallableRetriever,
        arguments="(question, top_k)",
        method_arguments="(queries, top_k)",
    )
    if callable(getattr(retriever, "retrieve", None)) and not _takes_one_question(retriever):
        return retriever
    if callable(getattr(retriever, "combine", None)):  # it combines the rankings of `sources`
        return retriever
    from ragbench.retrieve import frameworks

    if any(hasattr(retriever, name) for name in ("retrieve", "aretrieve")):
        return frameworks.LlamaIndexRetriever(client=retriever)
    if any(hasattr(retriever, name) for name in ("invoke", "ainvoke", "similarity_search")):
        return frameworks.LangchainRetriever(client=retriever)
    # before Haystack: any callable object may have a method `run`
    if callable(retriever):
        return CallableRetriever(retriever)
    return frameworks.HaystackRetriever(client=retriever)


def _takes_one_question(retriever: Any) -> bool:
    """Return True if `retrieve` takes one argument: LlamaIndex's has a question and no `top_k`."""
    try:
        parameters = inspect.signature(retriever.retrieve).parameters.values()
    except (TypeError, ValueError):
        return False
    n_positional = 0
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            return False
        kinds = (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        n_positional += parameter.kind in kinds
    return n_positional == 1


# Columns of a data frame with the hits of one query; PyTerrier's come first.
_ID_COLUMNS = ("docno", "doc_id", "id", "document_id", "docid")
_HIT_COLUMNS = ("score", "text", "title")
_SHAPES = "ids, documents, mappings with 'id', or pairs of one and a score"


def read_hits(
    answer: Any, top_k: int, is_inside: Callable[[ScoredDocument], bool] | None = None
) -> Retrieved:
    """Convert a retriever's reply for one query to `Retrieved`, with at most `top_k` documents.

    Accepts a list (or any iterable but text) of ids, `Document` and `ScoredDocument` objects,
    documents of LangChain, mappings with `id` and optionally `score`, `text` (or `page_content`, or
    `content`), `title`, `metadata`, and pairs of one of these and a score; also `Retrieved`, a
    mapping {id: score}, and a data frame of one query, such as PyTerrier's, which is sorted by
    `rank`. An empty list gives no hits. Ids become text, with white space encoded as in a URL. Hits
    keep their order; a mapping's come largest score first, None as 0. A repeated id with another
    text is another chunk, with an id of its own (`separate_chunks`); any other repeated id stays.
    With chunks, `top_k` counts documents, so that there may be more hits. Hits that are not
    `is_inside` the pool of the query are dropped before, and counted in `n_outside`.

    Raises:
        AdapterError: The reply is no ranked list of hits or frame with ids, or a hit has no usable
            id or score.
    """
    queries, n_outside = list[str](), 0
    if isinstance(answer, Retrieved):
        queries, n_outside, answer = list(answer.queries), answer.n_outside, answer.documents
    if isinstance(answer, Mapping):  # its order is no ranking
        hits = list(map(_read_hit, answer.items(), itertools.count(1)))
        answer = sorted(hits, key=lambda hit: -(hit.score or 0.0))
    if is_frame(answer):
        answer = _hits_of_frame(answer)
    # a set has no order, and would be ranked at random
    if isinstance(answer, (set, frozenset)):
        raise AdapterError(
            f"found a set, which has no order, allowed: a list, best first: {_SHAPES}"
        )
    if answer is None or isinstance(answer, (str, bytes)) or not isinstance(answer, Iterable):
        raise AdapterError(f"found {quote(answer)} instead of a list of hits, allowed: {_SHAPES}")
    hits = separate_chunks(list(map(_read_hit, answer, itertools.count(1))))
    allowed = hits if is_inside is None else [*filter(is_inside, hits)]
    n_outside += len(hits) - len(allowed)
    return Retrieved(first_documents(allowed, top_k), queries, n_outside)


def _hits_of_frame(frame: Frame) -> list[dict[str, Any]]:
    """Return the rows of a data frame as mappings with `id`, by rank if there is such a column."""
    cells = cells_of(frame)
    id_column = next(filter(cells.__contains__, _ID_COLUMNS), None)
    if id_column is None:
        problem = f"found a frame with the columns {', '.join(cells)}"
        raise AdapterError(f"{problem}, allowed: one of {', '.join(_ID_COLUMNS)}, and score, text")
    parts = {"id": cells[id_column]}
    for name in _HIT_COLUMNS:
        if name in cells:
            parts[name] = cells[name]
    hits = []
    for row in zip(*parts.values(), strict=True):
        hits.append(dict(zip(parts, row, strict=True)))
    ranks = cells.get("rank", range(len(hits)))
    return [hits[row] for row in sorted(range(len(hits)), key=ranks.__getitem__)]


def separate_chunks(hits: list[ScoredDocument]) -> list[ScoredDocument]:
    """Return the hits with an id for each of several texts that share the id of their document.

    A hit that repeats an earlier id with another text is another chunk of the same document: its
    id becomes `id#2`, `id#3`, ..., and `document` is the id. Other hits stay as they are.

    Example:
        >>> hits = [ScoredDocument("a.md", text="Io."), ScoredDocument("a.md", text="Europa.")]
        >>> [(hit.id, hit.document) for hit in separate_chunks(hits)]
        [('a.md', None), ('a.md#2', 'a.md')]
    """
    texts_of: dict[str, list[str]] = {}
    separated = []
    for hit in hits:
        texts = texts_of.setdefault(hit.id, [])
        if hit.text is not None and hit.text not in texts:
            texts.append(hit.text)
        number = 1 if hit.text is None else 1 + texts.index(hit.text)
        if number > 1:
            hit = structs.replace(hit, id=f"{hit.id}#{number}", document=hit.document or hit.id)
        separated.append(hit)
    return separated


def first_documents(hits: list[ScoredDocument], top_k: int) -> list[ScoredDocument]:
    """Return the hits up to the first hit of the `top_k`-th document; all if there are fewer.

    Every hit is a document, except a chunk, which names its `document`. `top_k` is 1 or more.

    Example:
        >>> hits = [ScoredDocument(f"{d}#{n}", document=d) for d, n in ("a0", "b0", "a1", "c0")]
        >>> [hit.id for hit in first_documents(hits, 2)]
        ['a#0', 'b#0']
    """
    if all(hit.document is None for hit in hits):
        return hits[:top_k]
    documents: set[str] = set()
    for position, hit in enumerate(hits):
        documents.add(hit.id if hit.document is None else hit.document)
        if len(documents) == top_k:
            return hits[: position + 1]
    return hits


def _read_hit(hit: Any, position: int) -> ScoredDocument:
    """Return a hit given as a document, or as a pair of a document and its score."""
    if isinstance(hit, (tuple, list)) and len(hit) == 2:
        return _checked(structs.replace(_read_document(hit[0], position), score=hit[1]), position)
    return _checked(_read_document(hit, position), position)


def _read_document(hit: Any, position: int) -> ScoredDocument:
    """Convert an object of any accepted form to a hit; `position` is for messages."""
    if isinstance(hit, ScoredDocument):
        return hit
    if isinstance(hit, Document):
        return ScoredDocument(hit.id, None, hit.text, hit.title, hit.metadata)
    if is_id(hit):
        return ScoredDocument(checked_id(hit, f"hit {position}"))
    if isinstance(hit, Mapping) and "id" in hit:
        score, title, metadata = map(hit.get, ("score", "title", "metadata"))
        return ScoredDocument(hit["id"], score, text_of(hit), title, metadata or {})
    if hasattr(hit, "page_content"):  # a document of LangChain, from a function of the user
        return HitReader(None).read_langchain(hit)
    raise AdapterError(f"hit {position} is {quote(hit)}, allowed: {_SHAPES}")


def _checked(hit: ScoredDocument, position: int) -> ScoredDocument:
    """Return the hit with an id that a run file can hold, and its score as a float or None."""
    identifier = checked_id(hit.id, f"hit {position}")
    if hit.score is None:
        return structs.replace(hit, id=identifier)
    try:
        score = float(hit.score)  # NumPy scalars and decimals become plain floats
    except (TypeError, ValueError, OverflowError) as error:
        problem = f"hit {position} has the score {quote(hit.score)}"
        raise AdapterError(f"{problem}, allowed: a number") from error
    if not math.isfinite(score):
        name = json.dumps(score)  # NaN, Infinity or -Infinity
        raise AdapterError(f"hit {position} has the score {name}, allowed: a finite number")
    is_unchanged = identifier is hit.id and score is hit.score
    return hit if is_unchanged else structs.replace(hit, id=identifier, score=score)
