"""Retrievers of other frameworks: `type: haystack`, `type: langchain`, `type: llama_index`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar

from ragbench.adapters import libraries
from ragbench.adapters.templates import check_template, fill
from ragbench.errors import AdapterError
from ragbench.registry import FactoryArgs, Option, OptionSet, quote
from ragbench.retrieve.base import Retriever
from ragbench.types import Query, ScoredDocument

_PLACEHOLDERS = ("question", "top_k")
_LANGCHAIN_HIT = "a langchain Document, or (Document, score)"


class FrameworkOptions(OptionSet):
    """Options of a retriever that an object of another framework serves.

    Attributes:
        factory: `module:name` of a function or class that creates the object; None with a client.
        args: Its keyword arguments; None without.
        id_field: Metadata key with the id of a hit; None takes that of the framework.
    """

    factory: libraries.Factory = None
    args: FactoryArgs = None
    id_field: libraries.IdField = None


class FrameworkRetriever(Retriever, ABC):
    """Retriever that sends each question to an object of another framework.

    The factory creates the object; from Python, `client` is an existing one. The order of the
    returned list is the ranking. Ids are those of the framework unless `id_field` names a metadata
    key. `retrieve` raises AdapterError for a reply that is no list of hits; errors of the framework
    pass through.

    Attributes:
        library: Name of the framework in messages: `langchain`.
        allowed_reply: Phrase that says what the object must return, for messages.
    """

    is_opaque = True
    asks_one_by_one = True
    library: ClassVar[str]
    allowed_reply: ClassVar[str]

    def __init__(self, options: FrameworkOptions, client: Any) -> None:
        """Take the client, or create it by the factory; exactly one of the two must be given.

        Errors are those of `resolve_client`.
        """
        self._owner = f"retriever '{self.library}'"
        self._client = libraries.resolve_client(client, options.factory, options.args, self._owner)
        self._hits = libraries.HitReader(options.id_field)

    def _require(self, allowed: str, *methods: libraries.SyncOrAsync) -> None:
        """Raise an `AdapterError` if the client has none of the methods."""
        if not any(methods):
            client = quote(self._client)
            raise AdapterError(f"{self._owner}: found {client}, allowed: an object with {allowed}")

    @property
    def notes(self) -> list[str]:
        """Notes on hits without the metadata `id_field`, and on hits without any id."""
        return self._hits.notes

    def retrieve(self, queries: Sequence[Query], top_k: int) -> list[list[ScoredDocument]]:
        """Return the hits of each query, best first; the framework may return more than `top_k`.

        Errors of the framework are passed on.

        Raises:
            AdapterError: The reply is no list of hits of the framework, or a hit has neither an id
                nor a text.
        """
        replies = []
        for query in queries:
            reply = self._ask(query.text, top_k)
            if isinstance(reply, (str, bytes)) or not isinstance(reply, Iterable):
                raise self._reply_error(reply)
            replies.append([self._hit(hit, number) for number, hit in enumerate(reply, start=1)])
        return replies

    @abstractmethod
    def _ask(self, question: str, top_k: int) -> Any:
        """Return the hits of a question, best first, as objects of the framework."""

    @abstractmethod
    def _hit(self, hit: Any, position: int) -> ScoredDocument:
        """Return the hit in an object of the framework, with the framework's score or None."""

    def _reply_error(self, reply: Any) -> AdapterError:
        return AdapterError(f"found {quote(reply)}, allowed: {self.allowed_reply}")


class HaystackOptions(FrameworkOptions):
    """Options of a component or pipeline of Haystack."""

    inputs: Annotated[
        dict[str, Any] | None,
        Option(
            'Inputs of a pipeline: `{embedder: {text: "{question}"}}`; also `{top_k}`. '
            "Default: the question in its open sockets `query`, `question` and `text`."
        ),
    ] = None


class HaystackRetriever(FrameworkRetriever):
    """Search with a component or a pipeline of Haystack.

    A component is called as `run(query=..., top_k=...)`, without `top_k` if it does not take it; a
    pipeline as `run(data=...)`, where `inputs` maps its components to their inputs. The hits are
    the `documents` of the last component that returns some; their order is the ranking. From
    Python, `client` is the object; else `factory`, with `args`, creates it.
    """

    declares = HaystackOptions
    library = "haystack"
    depth_option = "top_k={top_k} of the component"
    allowed_reply = "a mapping with documents"

    def __init__(self, *, client: Any = None, **options: Any) -> None:
        settings = HaystackOptions(**options)
        # before the factory runs, which may connect to a server
        if settings.inputs is not None:
            check_template(settings.inputs, _PLACEHOLDERS, "haystack", "inputs")
        super().__init__(settings, client)
        self._inputs = settings.inputs
        self._run = libraries.SyncOrAsync(self._client, "run", "run_async")
        self._require("run(query=...) or run_async(query=...)", self._run)
        if self._inputs is None and libraries.is_pipeline(self._client):
            self._inputs = libraries.question_inputs(self._client, "inputs")

    def _ask(self, question: str, top_k: int) -> Any:
        if self._inputs is None:
            limit = {"top_k": top_k} if self._run.takes("top_k") else {}
            reply = self._run(query=question, **limit)
        else:
            inputs = fill(self._inputs, {"question": question, "top_k": top_k})
            # a pipeline takes all inputs as `data`, a component takes each as a keyword
            reply = self._run(data=inputs) if self._run.takes("data") else self._run(**inputs)
        if (documents := libraries.last_output(reply, "documents")) is None:
            raise self._reply_error(reply)
        return documents

    def _hit(self, hit: Any, position: int) -> ScoredDocument:
        return self._hits.read_haystack(hit, position)


class LangchainRetriever(FrameworkRetriever):
    """Search with a retriever, a Runnable or a vector store of langchain.

    `invoke` or `ainvoke` is called with the question; a vector store is asked for `top_k`
    documents. The order of the list is the ranking, because a store's number may be a similarity or
    a distance. Ids are `metadata[id_field]`, else the document's own, else a hash of its text,
    which a note counts. From Python, `client` is the object; else `factory`, with `args`, creates
    it.
    """

    declares = FrameworkOptions
    library = "langchain"
    depth_option = "search_kwargs={'k': {top_k}}"
    allowed_reply = f"a list; each part {_LANGCHAIN_HIT}"

    def __init__(self, *, client: Any = None, **options: Any) -> None:
        super().__init__(FrameworkOptions(**options), client)
        self._invoke = libraries.SyncOrAsync(self._client, "invoke")
        self._search_scores = libraries.SyncOrAsync(self._client, "similarity_search_with_score")
        self._search = libraries.SyncOrAsync(self._client, "similarity_search")
        methods = self._invoke, self._search_scores, self._search
        self._require("invoke, ainvoke or similarity_search", *methods)

    def _ask(self, question: str, top_k: int) -> Any:
        if self._invoke:
            return self._invoke(question)
        if self._search_scores:
            try:
                return self._search_scores(question, k=top_k)
            except NotImplementedError:  # langchain's base class promises it for every store
                if not self._search:
                    raise
                # for good: the next question must not try it again
                self._search_scores = libraries.SyncOrAsync(None, "similarity_search_with_score")
        return self._search(question, k=top_k)

    def _hit(self, hit: Any, position: int) -> ScoredDocument:
        document, score = hit if isinstance(hit, (tuple, list)) and len(hit) == 2 else (hit, None)
        if not isinstance(getattr(document, "page_content", None), str):
            raise AdapterError(f"hit {position} is {quote(hit)}, allowed: {_LANGCHAIN_HIT}")
        return self._hits.read_langchain(document, score)


class LlamaIndexOptions(FrameworkOptions):
    """Options of a retriever of LlamaIndex.

    Attributes:
        id: `node` or `ref_doc`: id of the node, or of its document.
    """

    id: libraries.NodeId = "node"


class LlamaIndexRetriever(FrameworkRetriever):
    """Search with a retriever of LlamaIndex: `retrieve(question)` or `aretrieve(question)`.

    It returns nodes, which are often chunks: `id: ref_doc` counts the documents that the nodes were
    cut from. Its own `similarity_top_k` sets the number of nodes. The order of the list is the
    ranking. From Python, `client` is the object; else `factory`, with `args`, creates it.
    """

    declares = LlamaIndexOptions
    library = "llama_index"
    depth_option = "similarity_top_k={top_k}"
    allowed_reply = "nodes in a list, best first"

    def __init__(self, *, client: Any = None, **options: Any) -> None:
        settings = LlamaIndexOptions(**options)
        super().__init__(settings, client)
        self._id = settings.id
        self._search = libraries.SyncOrAsync(self._client, "retrieve")
        self._require("retrieve(question) or aretrieve(question)", self._search)

    def _ask(self, question: str, top_k: int) -> Any:
        return self._search(question)

    def _hit(self, hit: Any, position: int) -> ScoredDocument:
        return self._hits.read_llama_index(hit, position, self._id)
